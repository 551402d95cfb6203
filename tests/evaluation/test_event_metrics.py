"""Metrics of events and alarms against slow literal counts of the same stays, drawn with replacement."""

import json

import numpy as np
import pytest

from ncl_tf.evaluation.event_metrics import CURVE_POINTS, RATES, event_counts, event_metrics
from ncl_tf.evaluation.events import AlarmPolicy

POLICY = AlarmPolicy(horizon=6, silence=2, lead=3)


def literal(stays, threshold):
    """Recall, precision, alarms per day, lead times and the detected events of stays, (scores, first positive hour or None)."""
    alarms = correct = watched = 0
    leads = []
    for scores, first in stays:
        onset = len(scores) + 99 if first is None else first + POLICY.lead
        raised = []
        for hour, score in enumerate(scores):
            if hour < onset and score > threshold and not any(hour - before <= POLICY.silence for before in raised):
                raised.append(hour)
        alarms += len(raised)
        watched += min(onset, len(scores))
        timely = [onset - hour for hour in raised if onset - hour <= POLICY.horizon]
        correct += len(timely)
        if first is not None:
            leads.append(max(timely, default=0))
    detected = [lead for lead in leads if lead]
    return {
        "event_recall": len(detected) / len(leads) if leads else None,
        "alarm_precision": correct / alarms if alarms else None,
        "alarms_per_day": 24 * alarms / watched,
        "lead_time": float(np.median(detected)) if detected else None,
    }, leads


@pytest.fixture(scope="module")
def stays():
    """50 stays, of which every third has an event and the first one is too short for one to be warned of in vain."""
    random = np.random.default_rng(0)
    made = []
    for number in range(50):
        hours = int(random.integers(8, 40))
        first = int(random.integers(3, hours)) if number % 3 == 0 else None
        scores = random.random(hours)
        if first is not None:
            scores[max(first - 5, 0) :] += 0.3
        made.append((scores.round(2), first))
    return made


def report(stays, threshold, drawn):
    lengths = np.array([len(scores) for scores, _ in stays])
    labels = [np.arange(len(scores)) >= (1e9 if first is None else first) for scores, first in stays]
    scores = np.concatenate([scores for scores, _ in stays])
    counts, chosen = event_counts(scores, np.concatenate(labels).astype(float), lengths, POLICY, threshold)
    multiplicities = np.stack([np.bincount(one, minlength=len(stays)) for one in drawn])
    return event_metrics(counts, chosen, multiplicities), counts


def test_metrics_and_intervals_equal_literal_counts(stays):
    drawn = np.random.default_rng(1).integers(50, size=(40, 50))
    made, _ = report(stays, 0.95, drawn)
    expected, leads = literal(stays, 0.95)
    assert {name: made["metrics"][name] for name in expected} == pytest.approx(expected)
    assert (made["events"], made["detected"]) == (len(leads), sum(lead > 0 for lead in leads))
    assert made["lead_time_quartiles"] == np.percentile([lead for lead in leads if lead], [25, 50, 75]).tolist()
    assert made["threshold"] == 0.95
    assert made["policy"] == {"horizon": 6, "silence": 2, "lead": 3}
    resampled = [literal([stays[i] for i in one], 0.95)[0] for one in drawn]
    for name in expected:
        percentiles = np.percentile([one[name] for one in resampled], [2.5, 97.5])
        assert percentiles[0] < percentiles[1], name
        assert made["intervals"][name] == pytest.approx(percentiles.tolist()), name
    assert made["alarms"] / made["patient_days"] == pytest.approx(expected["alarms_per_day"])
    assert made["correct_alarms"] / made["alarms"] == pytest.approx(expected["alarm_precision"])
    json.dumps(made, allow_nan=False)


def test_the_area_is_the_mean_precision_at_which_events_are_found(stays):
    drawn = np.random.default_rng(2).integers(50, size=(5, 50))
    made, counts = report(stays, 0.8, drawn)

    def area(stays):
        curve = [literal(stays, threshold) for threshold in counts.thresholds]
        precisions = []
        for event in range(len(curve[0][1])):
            found = [metrics["alarm_precision"] for metrics, leads in curve if leads[event]]
            precisions.append(found[-1] if found else 0)  # thresholds rise
        return np.mean(precisions)

    assert made["metrics"]["event_auprc"] == pytest.approx(area(stays))
    some = [area([stays[i] for i in one]) for one in drawn]
    assert made["intervals"]["event_auprc"] == pytest.approx(np.percentile(some, [2.5, 97.5]).tolist())


def test_recall_at_an_alarm_rate_is_that_of_the_lowest_threshold_within_it(stays):
    drawn = np.random.default_rng(3).integers(50, size=(20, 50))
    made, counts = report(stays, 0.8, drawn)

    def lowest(stays, rate):
        return next(
            (metrics, leads, threshold)
            for threshold in counts.thresholds
            for metrics, leads in [literal(stays, threshold)]
            if metrics["alarms_per_day"] <= rate
        )

    assert [found["alarms_per_day"] for found in made["at_rates"]] == list(RATES)
    for found in made["at_rates"]:
        metrics, leads, threshold = lowest(stays, found["alarms_per_day"])
        assert found["threshold"] == threshold
        assert found["event_recall"] == metrics["event_recall"]
        assert found["alarm_precision"] == metrics["alarm_precision"]
        detected = [lead for lead in leads if lead]
        assert found["lead_time_quartiles"] == (np.percentile(detected, [25, 50, 75]).tolist() if detected else None)
    for found in made["at_rates"][1:]:
        resampled = [lowest([stays[i] for i in one], found["alarms_per_day"]) for one in drawn]
        for name in ("event_recall", "alarm_precision"):
            percentiles = np.percentile([metrics[name] for metrics, *_ in resampled], [2.5, 97.5])
            assert found[f"{name}_interval"] == pytest.approx(percentiles.tolist())
        assert len({threshold for *_, threshold in resampled}) > 1  # chosen anew


def test_the_curve_has_few_points_and_both_ends(stays):
    stays = [(scores + np.linspace(0, 0.005, len(scores)), first) for scores, first in stays]  # no ties
    made, counts = report(stays, 0.8, np.zeros((1, 50), int))
    curve = made["curve"]
    assert len(counts.thresholds) > CURVE_POINTS == len(curve["threshold"])
    assert (curve["threshold"][0], curve["threshold"][-1]) == (counts.thresholds[0], counts.thresholds[-1])
    assert (curve["alarms_per_day"][-1], curve["event_recall"][-1], curve["alarm_precision"][-1]) == (0, 0, None)
    middle, _ = literal(stays, curve["threshold"][50])
    assert {name: curve[name][50] for name in ("event_recall", "alarm_precision", "alarms_per_day")} == pytest.approx(
        {name: value for name, value in middle.items() if name != "lead_time"}
    )


def test_without_events_nothing_is_detected_and_recall_is_not_defined():
    made, _ = report([(np.array([0.1, 0.9, 0.2]), None), (np.array([0.3]), None)], 0.5, np.array([[0, 1], [0, 0]]))
    assert (made["events"], made["alarms"], made["lead_time_quartiles"]) == (0, 1, None)
    assert made["metrics"] == pytest.approx(
        {"event_recall": None, "alarm_precision": 0, "alarms_per_day": 6, "event_auprc": None, "lead_time": None}
    )
    assert made["intervals"]["event_recall"] is None
    json.dumps(made, allow_nan=False)
