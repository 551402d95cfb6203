"""Risks and alarm thresholds: what is fitted and chosen, for which aim, and on which hours."""

import types

import numpy as np
import pytest
from sklearn.linear_model import LogisticRegression

from ncl_tf.data.cohort import Cohort
from ncl_tf.data.declaration import Task
from ncl_tf.evaluation.evaluator import Evaluator
from ncl_tf.evaluation.risk import HourScores, check_task, fit_risks
from ncl_tf.evaluation.settings import EvaluationSettings
from ncl_tf.evaluation.utility import best_threshold, utility
from ncl_tf.training.protocol import Protocol
from refusals import refused

SEPSIS, OTHER = Task("sepsis"), Task("mortality")


def made_up(seed: int, stays: int = 60, levels: int = 100, unlabelled: float = 0.0) -> HourScores:
    """Stays of 1 to 40 hours, every third with a run of positive hours, and probabilities in steps of 1 / levels."""
    random = np.random.default_rng(seed)
    lengths = random.integers(1, 41, stays)
    labels = np.concatenate(
        [np.arange(n) >= (random.integers(0, n) if stay % 3 == 0 else n) for stay, n in enumerate(lengths)]
    ).astype(float)
    probabilities = 1 / (1 + np.exp(-(random.normal(size=len(labels)) + labels)))
    labels[random.random(len(labels)) < unlabelled] = np.nan
    return HourScores(np.round(levels * probabilities) / levels, labels, lengths)


@pytest.mark.parametrize("seed", range(5))
@pytest.mark.parametrize("levels", [3, 100])
def test_no_threshold_has_more_utility(seed, levels):
    scores = made_up(seed, levels=levels)
    hours = scores.labels, scores.lengths
    possible = [-1, *np.unique(scores.probabilities)]
    reached = [utility(scores.probabilities > threshold, *hours) for threshold in possible]
    found = best_threshold(scores.probabilities, *hours)
    assert utility(scores.probabilities > found, *hours) == pytest.approx(max(reached))
    highest = max(t for t, value in zip(possible, reached, strict=True) if value > max(reached) - 1e-12)
    np.testing.assert_array_equal(scores.probabilities > found, scores.probabilities > highest)


@pytest.mark.parametrize(("healthy", "all_alarmed"), [(40, True), (400, False)])
def test_all_hours_are_alarmed_or_none_if_that_is_best(healthy, all_alarmed):
    """An hour of a healthy stay costs 0.05; the septic hours below it are worth between 8 and 16 in all."""
    labels, lengths = np.repeat([0, 1], [healthy, 8]), np.array([healthy, 8])
    probabilities = np.repeat([0.9, 0.1], [healthy, 8])
    alarmed = probabilities > best_threshold(probabilities, labels, lengths)
    assert alarmed.all() if all_alarmed else not alarmed.any()


def literal_alarms_per_day(scores: HourScores, threshold: float, lead: int, silence: int) -> float:
    """Count alarms stay by stay and hour by hour; an hour from an event's onset until its end is not watched."""
    alarms = watched = begin = 0
    for length in scores.lengths:
        stay = slice(begin, begin + length)
        begin, silent_until, since = begin + length, -1, 0
        for hour, (p, label) in enumerate(zip(scores.probabilities[stay], scores.labels[stay], strict=True)):
            since = since + 1 if label == 1 else 0
            if since > lead:
                continue
            watched += 1
            if p > threshold and hour > silent_until:
                alarms, silent_until = alarms + 1, hour + silence
    return 24 * alarms / watched


@pytest.mark.parametrize("rate", [0.3, 1.0, 2.0])
@pytest.mark.parametrize("task", [SEPSIS, OTHER])
def test_the_lowest_threshold_within_a_rate_of_alarms(task, rate):
    scores = made_up(1)
    alarm = fit_risks(scores, task, EvaluationSettings(silence=3, alarms_per_day=rate)).alarm
    rates = {p: literal_alarms_per_day(scores, p, task.onset_lead, 3) for p in np.unique(scores.probabilities)}
    assert alarm.threshold == min(p for p, reached in rates.items() if reached <= rate)
    assert alarm.validation["alarms_per_day"] == pytest.approx(rates[alarm.threshold])
    assert (alarm.aim, alarm.alarms_per_day) == ("alarms_per_day", rate)
    assert ("utility" in alarm.validation) == (task is SEPSIS)


@pytest.mark.parametrize("rate", [0.01, 0.4, 1.0, 3.0, 100.0])
def test_of_all_scores_none_lower_keeps_the_rate(rate):
    """Hundreds of scores, more than are counted at once; a lower threshold raises at least as many alarms."""
    scores = made_up(6, levels=10**9)
    found = fit_risks(scores, OTHER, EvaluationSettings(silence=2, alarms_per_day=rate)).alarm.threshold
    assert literal_alarms_per_day(scores, found, 0, 2) <= rate
    lower = scores.probabilities[scores.probabilities < found]
    if len(lower):
        assert len(np.unique(scores.probabilities)) > 500
        assert literal_alarms_per_day(scores, lower.max(), 0, 2) > rate
    else:
        assert rate == 100


def test_the_aim_is_the_utility_where_there_is_one_and_otherwise_an_alarm_a_day():
    scores = made_up(2)
    alarm = fit_risks(scores, SEPSIS, EvaluationSettings()).alarm
    assert (alarm.aim, alarm.alarms_per_day) == ("utility", None)
    assert (alarm.policy.horizon, alarm.policy.silence, alarm.policy.lead) == (12, 8, 6)
    best = max(utility(scores.probabilities > p, scores.labels, scores.lengths) for p in scores.probabilities)
    assert alarm.validation["utility"] == pytest.approx(best)
    alarm = fit_risks(scores, OTHER, EvaluationSettings(horizon=0)).alarm
    assert (alarm.aim, alarm.alarms_per_day) == ("alarms_per_day", 1.0)
    assert (alarm.policy.horizon, alarm.policy.lead) == (0, 0)
    assert alarm.validation["recall"] is None  # no hour is left in which to warn


def test_what_an_evaluation_reports_of_risks():
    """Fitted to labelled validation hours; measured on those of the split that is reported."""
    validation, test = made_up(3, 400, 10**6, unlabelled=0.2), made_up(4, 400, 10**6, unlabelled=0.2)
    risks = fit_risks(validation, OTHER, EvaluationSettings())
    found, labelled = risks.to_json(test), ~np.isnan(validation.labels)
    assert found["calibration"]["calibrator"]["kind"] == "logistic"  # as these scores are made
    x = np.log(validation.probabilities[labelled] / (1 - validation.probabilities[labelled]))[:, None]
    expected = LogisticRegression(C=np.inf, tol=1e-10).fit(x, validation.labels[labelled])
    assert found["calibration"]["calibrator"]["slope"] == pytest.approx(expected.coef_[0, 0], rel=1e-4)
    labelled = ~np.isnan(test.labels)
    p, happened = test.probabilities[labelled], test.labels[labelled]
    after = expected.predict_proba(np.log(p / (1 - p))[:, None])[:, 1]
    for when, values in (("before", p), ("after", after)):
        assert found["calibration"][when]["brier"] == pytest.approx(np.mean((values - happened) ** 2), rel=1e-4)
    t = found["alarm"]["threshold"]
    assert found["alarm"]["risk"] == pytest.approx(expected.predict_proba([[np.log(t / (1 - t))]])[0, 1], rel=1e-4)
    policy = {"horizon": 12, "silence": 8, "lead": 0}
    assert {name: found["alarm"][name] for name in policy} == policy


def test_unlabelled_hours_are_told_by_their_class(mimic_ward_cohort):
    cohort = Cohort(mimic_ward_cohort)
    evaluator = Evaluator(cohort, "decompensation", Protocol({"linear": 1e-2}), seed=1)
    predictions = np.random.default_rng(1).dirichlet([1, 1], len(cohort["val"].data))
    scores = evaluator.hour_scores(types.SimpleNamespace(predict=lambda split: predictions), "val")
    np.testing.assert_array_equal(scores.probabilities, predictions[:, 1])
    np.testing.assert_array_equal(scores.labels, cohort["val"].labels[:, 0])
    assert np.isnan(scores.labels).any()
    stays = np.split(~np.isnan(scores.labels), np.cumsum(scores.lengths)[:-1])
    assert scores.labelled.lengths.tolist() == [stay.sum() for stay in stays]
    np.testing.assert_array_equal(scores.labelled.probabilities, predictions[~np.isnan(scores.labels), 1])


def test_validation_hours_of_one_class_are_refused():
    for classes, named in (
        ([0, 0, -1], "0 positive among 2"),
        ([1, 1, -1], "2 positive among 2"),
        ([-1], "0 positive"),
    ):
        with refused("task 'sepsis' & split 'val'", named):
            check_task(EvaluationSettings(), SEPSIS, np.array(classes))
    check_task(EvaluationSettings(), SEPSIS, np.array([0, 1]))


def test_alarms_of_a_task_with_bins_are_refused():
    task = Task("length_of_stay", "bins", (1.0, 2.0))
    for name in ("silence", "horizon", "alarms_per_day"):
        with refused(f"'length_of_stay' & binary for {name} & 3 classes & 4"):
            check_task(EvaluationSettings(**{name: 4}), task, np.array([0, 1, 2]))
    check_task(EvaluationSettings(), task, np.zeros(3, int))


def test_training_does_not_depend_on_how_alarms_are_counted():
    """An evaluation that version 0.2.0 began has these facts, and resumes with them."""
    found = EvaluationSettings("sepsis", "mlp", silence=3, horizon=6, alarms_per_day=0.5)
    assert found.of_training == {
        "task": "sepsis",
        "head": "mlp",
        "features": "representation",
        "fine_tune": False,
        "labels": 1.0,
        "label_seed": 0,
        "split": "test",
    }
    assert found.name == "sepsis-mlp"
