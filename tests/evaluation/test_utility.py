"""The PhysioNet utility against the published definition, hour by hour, and by hand."""

import types

import numpy as np
import pytest

from ncl_tf.data.cohort import Cohort
from ncl_tf.errors import InputError
from ncl_tf.evaluation.evaluator import Evaluator
from ncl_tf.evaluation.utility import hourly_utilities, stay_utilities, utility
from ncl_tf.training.protocol import Protocol


def literal_utility(labels: list[int], alarms: list[bool]) -> float:
    """One stay's utility as Reyna et al. define it: a case distinction for every hour."""
    septic = 1 in labels
    onset = labels.index(1) + 6 if septic else None
    total = 0.0
    for hour, alarm in enumerate(alarms):
        if not septic:
            if alarm:
                total += -0.05
            continue
        u = hour - onset
        if u > 3:
            continue
        if alarm and u < -6:
            total += max((u - -12) / (-6 - -12), -0.05)
        elif alarm:
            total += 1 - (u - -6) / (3 - -6)
        elif u > -6:
            total += -2 * (u - -6) / (3 - -6)
    return total


def literal_normalized(labels: list[list[int]], alarms: list[list[bool]]) -> float:
    observed = best = inaction = 0.0
    for stay_labels, stay_alarms in zip(labels, alarms, strict=True):
        ideal = [False] * len(stay_labels)
        if 1 in stay_labels:
            onset = stay_labels.index(1) + 6
            ideal = [onset - 12 <= hour <= onset + 3 for hour in range(len(stay_labels))]
        observed += literal_utility(stay_labels, stay_alarms)
        best += literal_utility(stay_labels, ideal)
        inaction += literal_utility(stay_labels, [False] * len(stay_labels))
    return (observed - inaction) / (best - inaction)


def random_stays(seed: int, stays: int) -> list[list[int]]:
    """Labels of stays of every kind: never septic, from the first hour, onset beyond the end, one hour, any other."""
    random = np.random.default_rng(seed)
    labels = []
    for number in range(stays):
        length = 1 if number % 7 == 0 else int(random.integers(1, 60))
        late, anywhere = max(length - int(random.integers(1, 7)), 0), int(random.integers(0, length + 1))
        first = (length, 0, late, anywhere, anywhere)[number % 5]
        labels.append([int(hour >= first) for hour in range(length)])
    return labels


def test_an_evaluation_counts_the_hours_of_each_stay(ward_cohort):
    evaluator = Evaluator(Cohort(ward_cohort), "sepsis", Protocol({"linear": 1e-2}), seed=1)
    split = evaluator.cohort["test"]
    predictions = np.random.default_rng(1).dirichlet([1, 1], len(split.data))
    scores, _ = evaluator.score(types.SimpleNamespace(predict=lambda name: predictions), "test")
    columns = split.labels[:, 0].astype(int), predictions[:, 1] > 0.5
    labels, alarms = ([part.tolist() for part in np.split(c, split.patient_windows[1:, 0])] for c in columns)
    assert scores["metrics"]["utility"] == pytest.approx(literal_normalized(labels, alarms))


def stacked(stays: list[list]) -> tuple[np.ndarray, np.ndarray]:
    return np.concatenate([np.array(stay) for stay in stays]), np.array([len(stay) for stay in stays])


@pytest.mark.parametrize("seed", range(4))
@pytest.mark.parametrize("rate", [0.02, 0.5, 0.98])
def test_equals_the_published_definition(seed, rate):
    random = np.random.default_rng(seed)
    labels = random_stays(seed, 1000)
    alarms = [(random.random(len(stay)) < rate).tolist() for stay in labels]
    rows, lengths = stacked(labels)
    expected = literal_normalized(labels, alarms)
    assert utility(stacked(alarms)[0], rows, lengths) == pytest.approx(expected, rel=0, abs=1e-9)


def test_every_stay_equals_the_published_definition():
    random = np.random.default_rng(10)
    labels = random_stays(10, 2000)
    alarms = [(random.random(len(stay)) < 0.3).tolist() for stay in labels]
    rows, lengths = stacked(labels)
    silent = [literal_utility(stay, [False] * len(stay)) for stay in labels]
    observed = [literal_utility(stay, alarm) for stay, alarm in zip(labels, alarms, strict=True)]
    gained, possible = stay_utilities(stacked(alarms)[0], rows, lengths)
    np.testing.assert_allclose(gained, np.subtract(observed, silent), rtol=0, atol=1e-9)
    assert np.array_equal(possible > 0, [1 in stay for stay in labels])


@pytest.mark.parametrize("seed", range(4))
def test_best_policy_gives_1_and_silence_0(seed):
    labels, lengths = stacked(random_stays(seed, 300))
    best = hourly_utilities(labels, lengths)[2]
    assert utility(best, labels, lengths) == pytest.approx(1, abs=1e-12)
    assert utility(np.zeros(len(labels), bool), labels, lengths) == 0


def test_no_policy_beats_the_best():
    """In every hour the best policy has the larger of the two utilities."""
    labels, lengths = stacked(random_stays(3, 300))
    alarm, silence, best = hourly_utilities(labels, lengths)
    assert np.array_equal(np.maximum(alarm, silence), np.where(best, alarm, silence))


def test_by_hand():
    """First positive in the 8th hour (row 7), so onset in row 13; the record continues beyond row 16, the last to count."""
    labels, lengths = np.array([0] * 7 + [1] * 12), np.array([19])
    alarm, silence, best = hourly_utilities(labels, lengths)
    ramp = [-0.05, 0, 1 / 6, 2 / 6, 3 / 6, 4 / 6, 5 / 6]
    fall = [9 / 9, 8 / 9, 7 / 9, 6 / 9, 5 / 9, 4 / 9, 3 / 9, 2 / 9, 1 / 9, 0]
    np.testing.assert_allclose(alarm, ramp + fall + [0, 0], rtol=0, atol=1e-12)
    np.testing.assert_allclose(silence, [0] * 7 + [-2 * k / 9 for k in range(10)] + [0, 0], rtol=0, atol=1e-12)
    assert best.tolist() == [False] + [True] * 16 + [False] * 2
    # Best 2.5 + 5 = 7.5, inaction -10. Alarms in rows 0 and 8 only: -0.05 + 8/9 + (-10 + 2/9).
    alarms = np.isin(np.arange(19), [0, 8])
    assert utility(alarms, labels, lengths) == pytest.approx((-0.05 + 10 / 9) / 17.5, abs=1e-12)


def test_false_alarms_cost_a_twentieth_each():
    """A one-hour septic stay (best 1, inaction 0) and a never septic one with three alarms; an empty stay is nothing."""
    labels, lengths = np.array([1, 0, 0, 0, 0]), np.array([1, 0, 4])
    assert utility(np.array([True, True, True, True, False]), labels, lengths) == pytest.approx(1 - 0.15, abs=1e-12)


def test_labels_of_any_type():
    labels, lengths = stacked(random_stays(2, 50))
    alarms = np.random.default_rng(2).random(len(labels)) < 0.5
    expected = utility(alarms, labels, lengths)
    assert {utility(alarms, labels.astype(t), lengths) for t in (bool, np.int32, np.float32)} == {expected}


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"labels": np.zeros(4)}, "septic.* 4 labels of 0"),
        ({"labels": np.array([0, 1, 2, 1])}, "row 2: label .* 2"),
        ({"labels": np.array([0, 1, 1, -1])}, "row 3: label .*unlabelled.* -1"),
        ({"labels": np.array([0, np.nan, 1, 1])}, "row 1: label .*unlabelled.* nan"),
        ({"labels": np.array([[0, 0, 1, 1]])}, r"labels .*\(1, 4\)"),
        ({"lengths": np.array([2, 3])}, "lengths .*4.* with 5"),
        ({"lengths": np.array([5, -1])}, "stay 1: length .* -1"),
        ({"lengths": np.array([2.0, 2.0])}, "lengths .*float64"),
        ({"alarms": np.array([0.1, 0.2, 0.7, 0.8])}, "alarms .*bool.*float64"),
        ({"alarms": np.array([True])}, r"bool \(4,\).* \(1,\)"),
    ],
)
def test_bad_input(change, message):
    alarms, labels, lengths = np.array([False, True, True, True]), np.array([0, 0, 1, 1]), np.array([1, 3])
    good = {"alarms": alarms, "labels": labels, "lengths": lengths}
    utility(**good)
    with pytest.raises(InputError, match=message):
        utility(**good | change)
