"""Calibrators against scikit-learn, the definition of isotonic regression and known truths; metrics by hand."""

import json

import numpy as np
import pytest
from sklearn.isotonic import IsotonicRegression
from sklearn.linear_model import LogisticRegression

from ncl_tf.evaluation.calibration import (
    Calibrator,
    calibration_metrics,
    fit_calibrator,
    log_odds,
    logistic_regression,
    stay_folds,
)
from refusals import refused


def random_hours(seed: int, stays: int = 200, slope: float = 1.0) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Scores, their labels of some 10 % and lengths (some 0); log-odds of labels are `slope` times the score's, minus 3."""
    random = np.random.default_rng(seed)
    lengths = random.integers(0, 30, stays)
    x = np.repeat(random.normal(size=stays), lengths) + random.normal(size=lengths.sum())
    labels = random.random(len(x)) < 1 / (1 + np.exp(3 - slope * x))
    return (1 / (1 + np.exp(-x))).astype(np.float32), labels.astype(int), lengths


def logit(p: np.ndarray) -> np.ndarray:
    return np.log(np.asarray(p, float) / (1 - np.asarray(p, float)))


# Fits


@pytest.mark.parametrize("seed", range(4))
def test_logistic_regression_equals_scikit_learn(seed):
    probabilities, labels, _ = random_hours(seed, slope=2)
    x = logit(probabilities)
    expected = LogisticRegression(C=np.inf, tol=1e-10).fit(x[:, None], labels)
    found = logistic_regression(x, labels)
    assert found == pytest.approx((expected.coef_.item(), expected.intercept_.item()), rel=1e-4)
    # No derivative of the likelihood is left, which is more than scikit-learn's tolerance achieves.
    rest = labels - 1 / (1 + np.exp(-found[0] * x - found[1]))
    assert abs(rest.sum()) < 1e-7
    assert abs(rest @ x) < 1e-7


def test_logistic_regression_finds_a_known_truth_however_far_away():
    """Every score with both labels, as frequent as they truly are, also where almost all hours are negative."""
    x = np.linspace(-8, 8, 21)
    for slope, intercept in ((1, 0), (0.3, -7), (3, 5), (-1, -2)):
        positives = (20000 / (1 + np.exp(-slope * x - intercept))).round().astype(int)
        labels = np.concatenate([np.arange(20000) < count for count in positives])
        found = logistic_regression(np.repeat(x, 20000), labels)
        assert found == pytest.approx((slope, intercept), rel=5e-3, abs=5e-3)


@pytest.mark.parametrize(
    ("x", "labels"),
    [([1, 2, 3, 4], [0, 0, 1, 1]), ([1, 2, 2, 3], [0, 0, 1, 1]), ([1, 2, 3], [1, 1, 0]), ([2, 2], [0, 1]), ([1], [1])],
)
def test_logistic_regression_without_an_optimum(x, labels):
    assert logistic_regression(np.array(x, float), np.array(labels)) is None


def steep_hours() -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """A score of which the risk is a step, as no logistic curve is; two decimals of the log-odds."""
    random = np.random.default_rng(2)
    lengths = random.integers(1, 30, 300)
    x = random.normal(0, 1, lengths.sum()).round(2)
    labels = random.random(len(x)) < np.where(x > 0.5, 0.3, 0.02)
    return 1 / (1 + np.exp(-x)), labels.astype(int), lengths


def test_an_isotonic_calibrator_equals_scikit_learn():
    probabilities, labels, lengths = steep_hours()
    calibrator, _ = fit_calibrator(probabilities, labels, lengths)
    assert calibrator.kind == "isotonic"
    expected = IsotonicRegression(out_of_bounds="clip").fit(logit(probabilities).round(2), labels)
    least = 1 / (len(labels) + 2)
    where = np.random.default_rng(1).uniform(-5, 5, 1000)  # between and beyond the scores that it was fitted to
    risks = np.clip(expected.predict(where), least, 1 - least)
    np.testing.assert_allclose(calibrator(1 / (1 + np.exp(-where))), risks, rtol=0, atol=1e-12)


def test_isotonic_breakpoints_are_those_where_the_risk_bends():
    """By the definition, the largest of the least means of labels from a <= i to b >= i; ten stays of 60 scores, alike."""
    x = np.arange(-30, 30) / 10
    labels = (np.random.default_rng(0).random(60) < 1 / (1 + np.exp(-2 * x))).astype(int)
    least = [[min(labels[a : b + 1].mean() for b in range(i, 60)) for a in range(i + 1)] for i in range(60)]
    expected = np.clip([max(means) for means in least], 1 / 602, 601 / 602)
    probabilities = 1 / (1 + np.exp(-x))
    calibrator, _ = fit_calibrator(np.tile(probabilities, 10), np.tile(labels, 10), np.full(10, 60))
    assert calibrator.kind == "isotonic"
    np.testing.assert_allclose(calibrator(probabilities), expected, rtol=0, atol=1e-12)
    before, here, after = expected[:-2], expected[1:-1], expected[2:]
    bends = [True, *((here - before > 1e-12) | (after - here > 1e-12)), True]
    np.testing.assert_allclose(calibrator.log_odds, x[bends], rtol=0, atol=1e-12)
    assert 4 < len(calibrator.risks) < 40


@pytest.mark.parametrize("hours", [lambda: random_hours(1, 400), steep_hours])
def test_the_choice_is_by_log_loss_over_stays_left_out(hours):
    """Both kinds by scikit-learn, five times; the better one is fitted to all hours."""
    probabilities, labels, lengths = hours()
    fold, x = stay_folds(labels == 1, lengths), logit(probabilities)
    losses = {"logistic": np.zeros(len(x)), "isotonic": np.zeros(len(x))}
    for out in (fold == number for number in range(5)):
        logistic = LogisticRegression(C=np.inf, tol=1e-10).fit(x[~out, None], labels[~out])
        steps = IsotonicRegression(out_of_bounds="clip").fit(x[~out].round(2), labels[~out]).predict(x[out])
        least = 1 / (np.sum(~out) + 2)
        risks = {"logistic": logistic.predict_proba(x[out, None])[:, 1], "isotonic": steps.clip(least, 1 - least)}
        for kind, risk in risks.items():
            losses[kind][out] = -np.log(np.where(labels[out] == 1, risk, 1 - risk))
    calibrator, found = fit_calibrator(probabilities, labels, lengths)
    assert found == pytest.approx({kind: loss.mean() for kind, loss in losses.items()}, abs=1e-7)
    assert calibrator.kind == min(found, key=found.get) == ("isotonic" if hours is steep_hours else "logistic")
    if calibrator.kind == "logistic":
        assert (calibrator.slope, calibrator.intercept) == logistic_regression(log_odds(probabilities), labels)


def test_a_certain_mistake_in_a_fold_left_out_has_a_finite_loss():
    """Fits without the last stay are so steep that its risk rounds to 0, though it is positive."""
    x = np.append(np.tile([-0.01, -0.001, 0.001, 0.01], 50), -15)
    labels = np.append(np.tile([0, 0, 1, 1] * 4 + [0, 1, 0, 1], 10), 1)
    _, losses = fit_calibrator(1 / (1 + np.exp(-x)), labels, np.append(np.full(50, 4), 1))
    assert -np.log(1e-12) / 201 < losses["logistic"] < 1


def test_folds_are_of_whole_stays_and_alike():
    _, labels, lengths = random_hours(3, 103)
    fold = stay_folds(labels == 1, lengths)
    by_stay = np.split(fold, np.cumsum(lengths)[:-1])
    assert all(len(set(part)) == 1 for part in by_stay if len(part))
    ever = [part.any() for part in np.split(labels, np.cumsum(lengths)[:-1])]
    positive = [part[0] for part, septic in zip(by_stay, ever, strict=True) if septic]
    counts = np.bincount(positive, minlength=5)
    assert len(positive) > 20
    assert np.ptp(counts) <= 1
    np.testing.assert_array_equal(stay_folds(labels == 1, lengths), fold)
    assert (np.diff([part[0] for part in by_stay if len(part)]) != 1).any()  # not in the order of the stays


def test_small_validation_splits():
    """With one positive stay, no fold can leave it out: logistic regression. Where a threshold separates: isotonic."""
    x, lengths = np.array([-2, 1, -1, 0, 1, 2, 0, 1.5]), np.array([4, 4])
    calibrator, losses = fit_calibrator(1 / (1 + np.exp(-x)), np.array([0, 0, 0, 0, 0, 1, 1, 1]), lengths)
    assert (calibrator.kind, losses) == ("logistic", {"logistic": None, "isotonic": None})
    calibrator, _ = fit_calibrator(1 / (1 + np.exp(-x)), (x > 0).astype(int), lengths)
    assert calibrator.kind == "isotonic"
    np.testing.assert_allclose(calibrator(np.array([0, 0.1, 0.9, 1])), [0.1, 0.1, 0.9, 0.9])


def test_both_classes_are_needed():
    for label in (0, 1):
        with refused(f"both classes for a calibrator, got 3 hours without label {1 - label}"):
            fit_calibrator(np.array([0.1, 0.2, 0.3]), np.full(3, label), np.array([3]))
        with refused("both classes for calibration"):
            calibration_metrics(np.array([0.1, 0.2, 0.3]), np.full(3, label))


# Risks


@pytest.mark.parametrize("hours", [lambda: random_hours(1), steep_hours])
def test_a_calibrator_survives_json(hours):
    calibrator, _ = fit_calibrator(*hours())
    again = Calibrator.from_json(json.loads(json.dumps(calibrator.to_json())))
    assert again == calibrator
    where = np.linspace(0, 1, 1000)
    np.testing.assert_array_equal(again(where), calibrator(where))


def test_a_shift_of_the_prior_by_hand():
    """Odds of 1 to 1 for classes weighted 1 to 9: a risk of 10 %. The slope squares them: 3 to 1, shifted: 50 %."""
    shift = Calibrator("logistic", 1.0, -np.log(9))
    np.testing.assert_allclose(shift(np.array([[0.5, 0.9]])), [[0.1, 0.5]], rtol=1e-12)
    assert Calibrator("logistic", 2.0, -np.log(9))(0.75) == pytest.approx(0.5)


def test_certain_scores_have_finite_risks():
    calibrator = Calibrator("logistic", 1.0, 0.0)
    np.testing.assert_allclose(calibrator(np.array([0, 1e-9, 1 - 1e-9, 1])), [1e-7, 1e-7, 1 - 1e-7, 1 - 1e-7])
    assert np.isfinite(log_odds(np.float32([0, 1]))).all()


# Metrics


def test_metrics_by_hand():
    """Six hours in three bins of two: risks 0.1 0.1 | 0.2 0.4 | 0.6 0.6 with labels 0 0 | 1 0 | 0 1."""
    risks, labels = np.array([0.6, 0.1, 0.2, 0.1, 0.6, 0.4]), np.array([0, 0, 1, 0, 1, 0])
    found = calibration_metrics(risks, labels, bins=3)
    bins = [(2, 0.1, 0), (2, 0.3, 0.5), (2, 0.6, 0.5)]
    assert [tuple(part.values()) for part in found.pop("bins")] == [pytest.approx(part) for part in bins]
    del found["slope"], found["intercept"]
    reliability, resolution = (0.01 + 0.04 + 0.01) / 3, (1 / 9 + 1 / 36 + 1 / 36) / 3
    expected = {
        "ece": (0.1 + 0.2 + 0.1) / 3,
        "brier": (0.36 + 0.01 + 0.64 + 0.01 + 0.16 + 0.16) / 6,
        "reliability": reliability,
        "resolution": resolution,
        "uncertainty": 2 / 9,
        "within_bins": 1.34 / 6 - reliability + resolution - 2 / 9,
        "mean_risk": 2 / 6,
        "prevalence": 2 / 6,
    }
    assert found == pytest.approx(expected)


def test_hours_of_the_same_risk_share_a_bin():
    found = calibration_metrics(np.array([0.3, 0.3, 0.3, 0.7]), np.array([1, 0, 0, 1]), bins=4)
    assert found["bins"] == [
        {"hours": 3, "mean_risk": pytest.approx(0.3), "observed": pytest.approx(1 / 3)},
        {"hours": 1, "mean_risk": 0.7, "observed": 1.0},
    ]
    assert found["ece"] == pytest.approx(3 / 4 * (1 / 3 - 0.3) + 1 / 4 * 0.3)


def test_slope_and_intercept_are_those_of_the_labels_on_the_risks():
    """Risks that are twice too confident and shifted, with labels as frequent as they should be: half the slope."""
    true = np.linspace(0.05, 0.95, 50)
    labels = np.concatenate([np.arange(1000) < round(1000 * risk) for risk in true])
    shown = np.repeat(1 / (1 + np.exp(-2 * logit(true) - 0.6)), 1000)
    found = calibration_metrics(shown, labels)
    assert (found["slope"], found["intercept"]) == pytest.approx((0.5, -0.3), abs=2e-3)
    calibrated = calibration_metrics(np.repeat(true, 1000), labels)
    assert (calibrated["slope"], calibrated["intercept"]) == pytest.approx((1, 0), abs=2e-3)
    assert (calibrated["ece"], calibrated["reliability"]) == pytest.approx((0, 0), abs=1e-3)
    assert calibrated["brier"] == pytest.approx(np.mean(true * (1 - true)), abs=1e-3)


def test_constant_risks_have_no_slope():
    found = calibration_metrics(np.full(4, 0.25), np.array([0, 0, 1, 0]))
    assert (found["slope"], found["intercept"]) == (None, None)
    assert (found["ece"], found["brier"], found["within_bins"]) == pytest.approx((0, 3 / 16, 0))


@pytest.mark.parametrize("hours", [lambda: random_hours(7, 2000, slope=0.5), steep_hours])
def test_risks_of_other_stays_are_calibrated(hours):
    probabilities, labels, lengths = hours()
    half = len(lengths) // 2
    rows = lengths[:half].sum()
    calibrator, _ = fit_calibrator(probabilities[:rows], labels[:rows], lengths[:half])
    before = calibration_metrics(probabilities[rows:], labels[rows:])
    after = calibration_metrics(calibrator(probabilities[rows:]), labels[rows:])
    assert before["ece"] > 0.3 > 0.03 > after["ece"]
    assert after["slope"] == pytest.approx(1, abs=0.15)
    assert after["brier"] < before["brier"]


def test_bad_requests():
    with refused("bins must be 1 or more, got 0"):
        calibration_metrics(np.array([0.1, 0.2]), np.array([0, 1]), bins=0)
    with refused("row 1: probability & got 1.5"):
        fit_calibrator(np.array([0.1, 1.5]), np.array([0, 1]), np.array([2]))
    with refused("lengths must sum to 2"):
        fit_calibrator(np.array([0.1, 0.5]), np.array([0, 1]), np.array([3]))


def test_risks_never_fall_as_the_score_rises():
    """Of a score that ranks worse than chance, every hour gets the share of positive hours."""
    generator = np.random.default_rng(0)
    labels = generator.random(2000) < 0.1
    probabilities = np.clip(generator.normal(0.5 - 0.2 * labels, 0.1), 0.01, 0.99)
    calibrator, _ = fit_calibrator(probabilities, labels, np.full(100, 20))
    risks = calibrator(np.linspace(0.01, 0.99, 50))
    assert (np.diff(risks) >= 0).all()
    np.testing.assert_allclose(risks.mean(), labels.mean(), atol=0.005)
