"""Metrics against scikit-learn and Keras, the bootstrap against plainly resampled rows, and small cases by hand."""

import types

import h5py
import keras
import numpy as np
import pytest
from sklearn.calibration import calibration_curve
from sklearn.metrics import average_precision_score, brier_score_loss, cohen_kappa_score, roc_auc_score

from ncl_tf.data import Cohort
from ncl_tf.errors import InputError
from ncl_tf.evaluation.evaluator import Evaluator
from ncl_tf.evaluation.metrics import (
    binary_by_stay,
    binary_metrics,
    bootstrap,
    multiclass_by_stay,
    multiclass_metrics,
    reliability,
)
from ncl_tf.evaluation.utility import utility
from ncl_tf.training.protocol import Protocol


def random_cohort(seed: int, stays: int = 60, ties: bool = False) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Probabilities that know something of the labels, sepsis-like labels, lengths (some 0)."""
    random = np.random.default_rng(seed)
    lengths = random.integers(0, 40, stays)
    firsts = np.where(random.random(stays) < 0.3, random.integers(0, 40, stays), 99)
    labels = np.concatenate([np.arange(n) >= first for n, first in zip(lengths, firsts, strict=True)]).astype(int)
    stay_effect = np.repeat(random.normal(size=stays), lengths)
    logits = stay_effect + labels + random.normal(size=len(labels)) - 1
    probabilities = (1 / (1 + np.exp(-logits))).astype(np.float32)
    return (probabilities.round(1) if ties else probabilities), labels, lengths


def random_classes(seed: int, hours: int, count: int = 10) -> tuple[np.ndarray, np.ndarray]:
    random = np.random.default_rng(seed)
    classes = random.integers(0, count - 1, hours)  # the last class never occurs
    probabilities = random.dirichlet(np.ones(count), hours) + np.eye(count)[classes] * 0.3
    return probabilities / probabilities.sum(1, keepdims=True), classes


def keras_area(probabilities, labels, curve: str) -> float:
    metric = keras.metrics.AUC(num_thresholds=1000, curve=curve)
    metric.update_state(labels, probabilities)
    return float(metric.result())


@pytest.mark.parametrize("ties", [False, True])
@pytest.mark.parametrize("seed", range(4))
def test_binary_equals_scikit_learn(seed, ties):
    probabilities, labels, lengths = random_cohort(seed, ties=ties)
    metrics = binary_metrics(probabilities, labels, lengths, utility=True)
    assert metrics["auroc"] == pytest.approx(roc_auc_score(labels, probabilities), abs=1e-12)
    assert metrics["auprc"] == pytest.approx(average_precision_score(labels, probabilities), abs=1e-12)
    assert metrics["brier"] == pytest.approx(brier_score_loss(labels, probabilities.astype(float)), abs=1e-12)
    assert metrics["utility"] == utility(probabilities > 0.5, labels, lengths)
    assert metrics["prevalence"] == labels.mean()


@pytest.mark.parametrize("ties", [False, True])
@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize(("curve", "name"), [("ROC", "auroc_1000"), ("PR", "auprc_1000")])
def test_approximations_equal_keras(curve, name, seed, ties):
    probabilities, labels, _ = random_cohort(seed, stays=400, ties=ties)
    ours = binary_metrics(probabilities, labels)[name]
    assert ours == pytest.approx(keras_area(probabilities, labels, curve), abs=2e-6)  # float32 sums


@pytest.mark.parametrize(("curve", "name"), [("ROC", "auroc_1000"), ("PR", "auprc_1000")])
def test_approximations_equal_keras_in_double_precision(curve, name):
    probabilities, labels, _ = random_cohort(3, stays=400)
    probabilities = (np.floor(probabilities * 4995.0) + 0.5) / 4995  # away from thresholds in either precision
    precision = keras.config.floatx()
    keras.config.set_floatx("float64")
    try:
        expected = keras_area(probabilities, labels, curve)
    finally:
        keras.config.set_floatx(precision)
    assert binary_metrics(probabilities, labels)[name] == pytest.approx(expected, abs=1e-12)


@pytest.mark.parametrize(("curve", "name"), [("ROC", "auroc_1000"), ("PR", "auprc_1000")])
def test_approximations_equal_keras_at_the_ends_of_the_scale(curve, name):
    """Scores of 0 and 1, all in one bucket, all of a class above or below the other, by one bucket at either end."""
    labels = np.array([0, 0, 0, 1, 1])
    for scores in (
        [0, 0, 1, 0, 1],
        [0, 0, 0, 0, 0],
        [1, 1, 1, 1, 1],
        [0.1, 0.2, 0.3, 0.8, 0.9],
        [0.9, 0.8, 1, 0, 0.1],
        [0, 0.0005, 0.0005, 0.0015, 0.0015],
        [0.9985, 0.9985, 0.9985, 0.9995, 1],
    ):
        probabilities = np.array(scores, np.float32)
        expected = keras_area(probabilities, labels, curve)
        assert binary_metrics(probabilities, labels)[name] == pytest.approx(expected, abs=1e-6), scores


def test_scores_on_a_threshold_fall_to_the_side_where_keras_puts_them():
    """A positive at k/999 shares the bucket of a negative just below it (area 0.5), or rounding lifts it out (area 1)."""
    scores = (np.arange(1, 999) / 999).astype(np.float32)
    double = np.ceil(scores.astype(float) * 999)
    rounding_matters = np.flatnonzero(double != np.ceil(scores * np.float32(999)))
    assert len(rounding_matters) > 20
    metric = keras.metrics.AUC(num_thresholds=1000)
    for k in [*rounding_matters[:20], 0, 1, 498, 499, 997]:
        probabilities, labels = np.array([scores[k], (k + 0.5) / 999], np.float32), np.array([1, 0])
        metric.reset_state()
        metric.update_state(labels, probabilities)
        assert binary_metrics(probabilities, labels)["auroc_1000"] == pytest.approx(float(metric.result()), abs=1e-6)


def test_binary_by_hand():
    """Scores 0.9+ 0.6- 0.6+ 0.1-: of the 4 pairs 3 are right and one tied; precision 1 at recall 1/2, 2/3 at 1."""
    metrics = binary_metrics(np.array([0.9, 0.6, 0.6, 0.1]), np.array([1, 0, 1, 0]))
    assert metrics == pytest.approx(
        {
            "auroc": 3.5 / 4,
            "auprc": 0.5 + 0.5 * 2 / 3,
            "auroc_1000": 3.5 / 4,
            "auprc_1000": 0.5 + 0.25 * (1 + 0.5 * np.log(3)),  # from 1 of 1 to 2 of 3: slope and intercept 1/2
            "accuracy": 3 / 4,
            "brier": (0.01 + 0.36 + 0.16 + 0.01) / 4,
            "prevalence": 0.5,
        },
        abs=1e-12,
    )


def test_threshold_is_exceeded_not_reached():
    probabilities, labels = np.array([0.25, 0.5, 0.75]), np.array([0, 0, 1])
    assert binary_metrics(probabilities, labels)["accuracy"] == 1


@pytest.mark.parametrize("seed", range(4))
def test_multiclass_equals_scikit_learn(seed):
    probabilities, classes = random_classes(seed, 500)
    predicted = probabilities.argmax(1)
    expected = cohen_kappa_score(classes, predicted, weights="linear", labels=range(10))
    metrics = multiclass_metrics(probabilities, classes)
    assert metrics["kappa"] == pytest.approx(expected, abs=1e-12)
    assert metrics["accuracy"] == np.mean(predicted == classes)


def test_kappa_by_hand():
    """One step wrong in all; by chance 5/4 steps for each hour of class 0 (against 0 1 2 2), 3/4 for each of class 2."""
    probabilities, classes = np.eye(3)[[0, 1, 2, 2]], np.array([0, 0, 2, 2])
    kappa = 1 - 1 / (2 * 5 / 4 + 2 * 3 / 4)
    assert multiclass_metrics(probabilities, classes) == pytest.approx({"kappa": kappa, "accuracy": 0.75})
    assert multiclass_by_stay(probabilities, classes, [4])(np.array([1]))["kappa"] == pytest.approx(kappa)


@pytest.mark.parametrize("ties", [False, True])
@pytest.mark.parametrize("bins", [1, 7, 10])
def test_reliability_equals_scikit_learn(bins, ties):
    probabilities, labels, _ = random_cohort(5, stays=20, ties=ties)
    observed, predicted = calibration_curve(labels, probabilities.astype(float), n_bins=bins)
    filled = [row for row in reliability(probabilities, labels, bins) if row["hours"]]
    np.testing.assert_allclose([row["mean_probability"] for row in filled], predicted, rtol=0, atol=1e-12)
    np.testing.assert_allclose([row["observed"] for row in filled], observed, rtol=0, atol=1e-12)


def test_reliability_by_hand():
    rows = reliability(np.array([0, 0.25, 0.3, 1]), np.array([0, 1, 0, 1]), bins=4)
    assert [row["hours"] for row in rows] == [2, 1, 0, 1]  # an edge belongs to the bin below it
    assert rows[0] == {"low": 0, "high": 0.25, "hours": 2, "mean_probability": 0.125, "observed": 0.5}
    assert rows[2] == {"low": 0.5, "high": 0.75, "hours": 0, "mean_probability": None, "observed": None}


@pytest.mark.parametrize("ties", [False, True])
@pytest.mark.parametrize("seed", range(4))
def test_resampled_metrics_equal_scikit_learn_on_the_resampled_rows(seed, ties):
    probabilities, labels, lengths = random_cohort(seed, ties=ties)
    by_stay = binary_by_stay(probabilities, labels, lengths, utility=True)
    drawn = np.random.default_rng(seed).integers(len(lengths), size=len(lengths))
    ends = np.cumsum(lengths)
    rows = np.concatenate([np.arange(ends[stay] - lengths[stay], ends[stay]) for stay in drawn])
    metrics = by_stay(np.bincount(drawn, minlength=len(lengths)))
    expected = binary_metrics(probabilities[rows], labels[rows], lengths[drawn], utility=True)
    assert metrics == pytest.approx({name: expected[name] for name in metrics}, abs=1e-10)
    weights = np.bincount(drawn, minlength=len(lengths)).repeat(lengths)
    for score, name in ((roc_auc_score, "auroc"), (average_precision_score, "auprc")):
        assert metrics[name] == pytest.approx(score(labels, probabilities, sample_weight=weights), abs=1e-10)


@pytest.mark.parametrize("seed", range(4))
def test_resampled_kappa_equals_scikit_learn_on_the_resampled_rows(seed):
    lengths = np.random.default_rng(seed).integers(0, 30, 40)
    probabilities, classes = random_classes(seed, lengths.sum())
    drawn = np.random.default_rng(seed + 100).integers(40, size=40)
    rows = np.concatenate([np.flatnonzero(np.repeat(np.arange(40), lengths) == stay) for stay in drawn])
    metrics = multiclass_by_stay(probabilities, classes, lengths)(np.bincount(drawn, minlength=40))
    assert metrics == pytest.approx(multiclass_metrics(probabilities[rows], classes[rows]), abs=1e-12)


@pytest.mark.parametrize("seed", range(3))
def test_bootstrap_is_the_percentiles_over_drawn_stays(seed):
    """All metrics on the same draws, spelt out: stays drawn with replacement, draws of one class repeated."""
    probabilities, labels, lengths = random_cohort(4, stays=5)  # one of them septic
    rows_of_stay = np.split(np.arange(len(labels)), np.cumsum(lengths)[:-1])
    names = ("auroc", "auprc", "accuracy", "brier", "utility")
    random, values, repeated = np.random.default_rng(seed), [], 0
    while len(values) < 30:
        drawn = random.integers(5, size=5)
        rows = np.concatenate([rows_of_stay[stay] for stay in drawn])
        if len(set(labels[rows])) == 2:
            metrics = binary_metrics(probabilities[rows], labels[rows], lengths[drawn], utility=True)
            values.append([metrics[name] for name in names])
        else:
            repeated += 1
    assert repeated > 0
    by_stay = binary_by_stay(probabilities, labels, lengths, utility=True)
    intervals = bootstrap(by_stay, 5, resamples=30, seed=seed)
    assert intervals.keys() == set(names)
    expected = np.quantile(values, [0.025, 0.975], axis=0).T
    np.testing.assert_allclose([intervals[name] for name in names], expected, rtol=0, atol=1e-12)


@pytest.mark.parametrize("task", ["decompensation", "length_of_stay"])
def test_an_evaluation_resamples_stays_not_hours(task, mimic_ward_cohort):
    """The intervals of an evaluation, spelt out: stays are drawn with all their labelled hours, others have none."""
    with h5py.File(mimic_ward_cohort) as file:
        windows, labels = file["patient_windows/test"][:], file["labels/test"][:]
    cohort = Cohort(mimic_ward_cohort)
    position, evaluator = cohort.task(task)[0], Evaluator(cohort, task, Protocol({"linear": 1e-2, "mlp": 1e-2}), seed=1)
    truth = cohort["test"].classes[:, position]
    count = truth.max() + 1 if task == "decompensation" else 10
    predictions = np.random.default_rng(1).dirichlet(np.ones(count), len(truth))
    found, _ = evaluator.score(types.SimpleNamespace(predict=lambda split: predictions), "test")
    random, accuracies, scores = np.random.default_rng(0), [], []
    while len(scores) < 200:
        drawn = random.integers(len(windows), size=len(windows))
        rows = [row for stay in drawn for row in range(windows[stay, 0], windows[stay, 1] + 1)]
        rows = [row for row in rows if not np.isnan(labels[row, position])]
        if len(set(truth[rows])) < 2:
            continue
        called = predictions[rows].argmax(1)
        accuracies.append(np.mean(called == truth[rows]))
        if task == "decompensation":
            scores.append(roc_auc_score(truth[rows], predictions[rows, 1]))
        else:
            scores.append(cohen_kappa_score(truth[rows], called, weights="linear", labels=range(count)))
    for name, values in (("accuracy", accuracies), ("auroc" if task == "decompensation" else "kappa", scores)):
        assert found["intervals"][name] == pytest.approx(np.percentile(values, [2.5, 97.5]), abs=1e-9)


def test_intervals_cover_the_truth():
    """Accuracy 0.7 on average over patients who differ: about 95 of 100 studies should have it in their interval."""
    random, covered = np.random.default_rng(0), 0
    for study in range(100):
        right = random.random(500) < random.beta(1.4, 0.6, 50).repeat(10)
        labels = random.integers(0, 2, 500)
        probabilities = np.where(right, labels, 1 - labels)
        low, high = bootstrap(binary_by_stay(probabilities, labels, [10] * 50), 50, seed=study)["accuracy"]
        covered += low <= 0.7 <= high
    assert 88 <= covered <= 99  # within three standard deviations, a little below 95 with 50 stays


GOOD = {"probabilities": np.array([0.1, 0.8, 0.4, 0.9]), "labels": np.array([0, 0, 1, 1]), "lengths": np.array([1, 3])}


@pytest.mark.parametrize("function", [binary_metrics, binary_by_stay])
@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"labels": np.zeros(4)}, "AUROC.* 4 hours without label 1"),
        ({"labels": np.ones(4)}, "AUROC.* 4 hours without label 0"),
        ({"labels": np.array([0, 1, np.nan, 1])}, "row 2: label .*got nan"),
        ({"probabilities": np.array([0, 0.5, 1.5, 1])}, "row 2: probability .*0 to 1.* 1.5"),
        ({"probabilities": np.array([0, -0.5, 1, 1])}, "row 1: probability .* -0.5"),
        ({"probabilities": np.array([0, 0.5, 1, np.nan])}, "row 3: probability .* nan"),
        ({"probabilities": np.full((4, 2), 0.5)}, r"probabilities .*\(4,\).* \(4, 2\)"),
        ({"lengths": np.array([1, 2])}, "lengths .*4.* with 3"),
    ],
)
def test_bad_binary_input(function, change, message):
    function(**GOOD)
    with pytest.raises(InputError, match=message):
        function(**GOOD | change)


def test_bad_requests():
    with pytest.raises(InputError, match="lengths .*None"):
        binary_metrics(GOOD["probabilities"], GOOD["labels"], utility=True)
    with pytest.raises(InputError, match="bins .* 0"):
        reliability(GOOD["probabilities"], GOOD["labels"], bins=0)
    with pytest.raises(InputError, match="1 stays"):
        bootstrap(binary_by_stay(GOOD["probabilities"], GOOD["labels"], [4]), 1)
    with pytest.raises(InputError, match="0 resamples"):
        bootstrap(binary_by_stay(**GOOD), 2, resamples=0)


@pytest.mark.parametrize(
    ("probabilities", "classes", "message"),
    [
        (np.full((3, 4), 0.25), np.array([0, 4, 1]), "row 1: class .*0 to 3.* 4"),
        (np.full((3, 4), 0.25), np.array([0, 2, -1]), "row 2: class .* -1"),
        (np.full((3, 4), 0.25), np.array([2, 2, 2]), r"kappa.* 3 hours of class \[2\]"),
        (np.full((3, 4), 0.25), np.array([2, 1]), r"\(2, 4\).* \(3, 4\)"),
        (np.full(3, 0.25), np.array([2, 1, 0]), r"\(3,\)"),
        (np.array([[0.5, 0.5], [0.2, np.nan]]), np.array([0, 1]), "row 1: probability .* nan"),
    ],
)
def test_bad_multiclass_input(probabilities, classes, message):
    with pytest.raises(InputError, match=message):
        multiclass_metrics(probabilities, classes)
