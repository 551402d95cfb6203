"""Alarms and events against a slow literal implementation, stay by stay and hour by hour, and small cases by hand."""

import itertools

import numpy as np
import pytest

from ncl_tf.data.datasets import MIMIC3_BENCHMARK, PHYSIONET2019
from ncl_tf.data.declaration import Task
from ncl_tf.evaluation.events import AlarmPolicy, count_alarms, find_events, raise_alarms, score_thresholds
from refusals import refused

NAN = float("nan")


def literal_events(labels: list[float], lead: int) -> tuple[list[int], list[bool]]:
    """Onsets of a stay and whether an alarm can be raised in each of its hours, word by word as defined."""
    watched, onsets, begun, last = [label in (0, 1) for label in labels], [], None, None
    for hour, label in [*enumerate(labels), (len(labels), 0)]:
        if label == 1 and begun is None:
            begun = hour
            onsets.append(hour + lead)
        if label == 1:
            last = hour
        if label == 0 and begun is not None:
            for known in range(begun + lead, last + 1):
                watched[known] = False
            begun = None
    return onsets, watched


def literal_stay(scores, labels, threshold, policy):
    """Hours of alarms, how many of them are correct, the lead time of each event (0: not detected), and events without time."""
    onsets, watched = literal_events(labels, policy.lead)
    alarms = []
    for hour, score in enumerate(scores):
        if watched[hour] and score > threshold and all(hour - alarm > policy.silence for alarm in alarms):
            alarms.append(hour)
    correct = sum(any(0 < onset - alarm <= policy.horizon for onset in onsets) for alarm in alarms)
    leads, without = [], 0
    for onset in onsets:
        if any(0 < onset - hour <= policy.horizon and watched[hour] for hour in range(len(labels))):
            leads.append(max([onset - alarm for alarm in alarms if 0 < onset - alarm <= policy.horizon], default=0))
        else:
            without += 1
    return alarms, correct, leads, without


def random_stay(random: np.random.Generator) -> tuple[list[float], list[float]]:
    """Scores with ties, and labels of any pattern: none, from the first hour on, coming and going, unlabelled in between."""
    hours = int(random.integers(0, 30))
    kind = random.integers(5)
    labels = np.zeros(hours)
    if kind == 1:
        labels[:] = 1
    elif kind == 2:
        labels[random.integers(0, hours + 1) :] = 1
    elif kind >= 3:
        labels[:] = np.repeat(random.random(30) < 0.3, random.integers(1, 5, 30))[:hours]
        labels[random.random(hours) < 0.15] = NAN if kind == 3 else -1
    return random.integers(0, 6, hours).tolist(), labels.tolist()


POLICIES = [AlarmPolicy(*p) for p in itertools.product((0, 1, 4, 12), (0, 1, 3, 8), (0, 2, 6))]


def test_counts_equal_the_literal_definition():
    random = np.random.default_rng(0)
    thresholds = np.array([-1.0, 0, 2.5, 3, 5])
    for policy in POLICIES:
        stays = [random_stay(random) for _ in range(60)]
        lengths = np.array([len(scores) for scores, _ in stays])
        scores, labels = (np.array(list(itertools.chain(*part))) for part in zip(*stays, strict=True))
        counts = count_alarms(scores, labels, lengths, policy, thresholds)
        events = find_events(labels, lengths, policy.lead)
        assert (24 * counts.alarms.sum(0) / counts.watched.sum()).tolist() == counts.curve()["alarms_per_day"].tolist()
        for k, threshold in enumerate(thresholds):
            expected = [literal_stay(*stay, threshold, policy) for stay in stays]
            assert counts.alarms[:, k].tolist() == [len(alarms) for alarms, *_ in expected]
            assert counts.correct[:, k].tolist() == [correct for _, correct, _, _ in expected]
            assert counts.lead_time[:, k].tolist() == [lead for _, _, leads, _ in expected for lead in leads]
            assert counts.event_stay.tolist() == [i for i, stay in enumerate(expected) for _ in stay[2]]
            assert counts.without_warning_time == sum(without for *_, without in expected)
            alarmed = np.zeros(len(scores), bool)
            alarmed[
                [
                    begin + hour
                    for begin, stay in zip(np.cumsum(lengths) - lengths, expected, strict=True)
                    for hour in stay[0]
                ]
            ] = True
            np.testing.assert_array_equal(
                raise_alarms(scores, events.watched, lengths, threshold, policy.silence), alarmed
            )
        literal = [literal_events(labels, policy.lead) for _, labels in stays]
        assert events.onset.tolist() == [onset for onsets, _ in literal for onset in onsets]
        assert events.watched.tolist() == [hour for _, watched in literal for hour in watched]
        assert counts.watched.tolist() == [sum(watched) for _, watched in literal]


def test_a_septic_stay_by_hand():
    # Labels turn positive in hour 10, so the onset is in hour 16 and alarms warn of it from hour 4 to 15.
    labels = np.r_[np.zeros(10), np.ones(12)]
    scores = np.zeros(22)
    scores[[1, 3, 5, 14, 15, 16, 20]] = 1  # silenced: 3, 5 after 1; 15 after 14; known: 16, 20
    counts = count_alarms(scores, labels, np.array([22]), AlarmPolicy(12, 4, 6), np.array([0.5]))
    assert (counts.alarms, counts.correct, counts.lead_time, counts.watched) == (2, 1, 2, 16)
    curve = counts.curve()
    assert (curve["recall"], curve["precision"], curve["alarms_per_day"]) == (1, 0.5, 3)


def test_an_onset_beyond_the_record_can_be_detected():
    # Labels turn positive in hour 5 of 7, so the onset is in hour 11.
    labels, thresholds = np.r_[np.zeros(5), np.ones(2)], np.array([4.5, 5.5, 6.0])
    counts = count_alarms(np.arange(7.0), labels, np.array([7]), AlarmPolicy(5, 0, 6), thresholds)
    assert counts.lead_time.tolist() == [[5, 5, 0]]
    counts = count_alarms(np.arange(7.0), labels, np.array([7]), AlarmPolicy(4, 0, 6), thresholds)
    assert (counts.without_warning_time, counts.alarms.tolist()) == (
        1,
        [[2, 1, 0]],
    )  # hour 7 would be the first in time


def test_an_event_in_the_first_hour_leaves_no_time():
    counts = count_alarms(np.ones(4), np.ones(4), np.array([4]), AlarmPolicy(12), np.array([0.5]))
    assert (counts.without_warning_time, len(counts.event_stay), counts.watched.sum()) == (1, 0, 0)
    assert all(np.isnan(values).all() for values in counts.curve().values())


def test_thresholds_let_rising_numbers_of_hours_pass():
    scores = np.random.default_rng(0).random(20000).astype(np.float32)
    thresholds = score_thresholds(scores)
    passing = (scores[:, None] > thresholds).sum(0)
    assert passing[0] == 20000 and passing[-1] == 0 and passing[-2] == 4
    assert 170 < len(thresholds) <= 200 and (np.diff(passing) < 0).all()
    many = passing[passing > 200]
    np.testing.assert_allclose(many[:-1] / many[1:], many[0] / many[1], rtol=0.02)
    assert (np.full(7, 0.5)[:, None] > score_thresholds(np.full(7, 0.5))).sum(0).tolist() == [7, 0]


def test_the_threshold_of_an_alarm_rate_is_the_lowest_that_keeps_it():
    random = np.random.default_rng(1)
    lengths = random.integers(10, 40, 50)
    scores = random.random(lengths.sum())
    labels = (random.random(lengths.sum()) < 0.02).astype(float)
    counts = count_alarms(scores, labels, lengths, AlarmPolicy(12, 2))
    rates = counts.curve()["alarms_per_day"]
    assert (np.diff(rates) <= 0).all()
    for wanted in (0.0, 0.5, 1.0, 3.0, 100.0):
        assert counts.at_rate(wanted) == min(k for k, rate in enumerate(rates) if rate <= wanted)
    assert count_alarms(scores, labels, lengths, AlarmPolicy(12, 2), np.array([0.1])).at_rate(0.5) is None


def test_resampled_stays_count_as_often_as_they_are_drawn():
    random = np.random.default_rng(2)
    stays = [random_stay(random) for _ in range(40)]
    drawn = random.integers(0, 40, 40)
    policy, thresholds = AlarmPolicy(6, 2, 2), np.array([0.5, 2.5])

    def counted(stays):
        scores, labels = (np.array(list(itertools.chain(*part))) for part in zip(*stays, strict=True))
        return count_alarms(scores, labels, np.array([len(labels) for _, labels in stays]), policy, thresholds)

    resampled = counted(stays).curve(np.bincount(drawn, minlength=40)[None])
    for name, values in counted([stays[i] for i in drawn]).curve().items():
        np.testing.assert_allclose(resampled[name][0], values, rtol=1e-12)


def test_onsets_and_horizons_of_the_declared_tasks():
    tasks = [*PHYSIONET2019.tasks, *MIMIC3_BENCHMARK.tasks, Task("shock")]
    assert [(task.name, task.onset_lead, task.warning_horizon, task.has_utility) for task in tasks] == [
        ("sepsis", 6, 12, True),
        ("decompensation", 24, 24, False),
        ("length_of_stay", 0, 12, False),
        ("shock", 0, 12, False),
    ]


@pytest.mark.parametrize(("policy", "message"), [((-1, 8), "horizon & -1"), ((12, -2), "silence & -2")])
def test_hours_below_zero_are_refused(policy, message):
    with refused(f"{message} & 0 or more"):
        AlarmPolicy(*policy)


def test_bad_scores_and_labels_are_refused():
    with refused("row 1 & label must be 0 or 1 & 2.0"):
        find_events(np.array([0, 2]), np.array([2]))
    with refused("row 1 & nan"):
        count_alarms(np.array([0, NAN]), np.zeros(2), np.array([2]), AlarmPolicy(12))
    with refused("(2,) & (3,)"):
        count_alarms(np.zeros(3), np.zeros(2), np.array([2]), AlarmPolicy(12))
