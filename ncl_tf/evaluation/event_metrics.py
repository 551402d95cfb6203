"""What a ward would notice at the alarm threshold, and at others: events found, alarms in vain, hours of warning.

`ncl_tf/evaluation/events.py` defines events, alarms and their counts. Intervals come from B resampled cohorts of the S stays.
"""

import dataclasses
from typing import Any

import numpy as np

from ncl_tf.evaluation.events import AlarmCounts, AlarmPolicy, count_alarms, score_thresholds
from ncl_tf.evaluation.metrics import interval

RATES = (0.25, 0.5, 1.0, 2.0)  # alarms per patient-day
CURVE_POINTS = 100


def event_counts(
    scores: np.ndarray, labels: np.ndarray, lengths: np.ndarray, policy: AlarmPolicy, threshold: float
) -> tuple[AlarmCounts, int]:
    """Count alarms at the chosen threshold and at those of the curve; arguments as in `count_alarms`.

    Returns the counts, and the position of the chosen threshold among theirs.
    """
    thresholds = np.unique(np.append(score_thresholds(scores), threshold))
    return count_alarms(scores, labels, lengths, policy, thresholds), int(np.searchsorted(thresholds, threshold))


def event_metrics(counts: AlarmCounts, chosen: int, multiplicities: np.ndarray) -> dict[str, Any]:
    """Report events and alarms at the chosen threshold, the `chosen`-th of the counts, with intervals.

    Args:
        multiplicities: [B, S] how often each stay occurs in each resampled cohort.

    Returns:
        policy, threshold; patient_days that are watched; events that leave time to warn, and events_without_warning_time;
        detected events, alarms and correct_alarms; metrics and intervals:

            event_recall    = detected / events
            alarm_precision = correct_alarms / alarms
            alarms_per_day  = alarms / patient_days
            event_auprc     = mean over events of the alarm precision at the highest threshold that detects the event, 0 if
                              none does: the average precision of events
            lead_time       = median over detected events, in hours

        lead_time_quartiles; at_rates, see `_at_rate`; and curve, alarm rate, recall and precision at up to 100 thresholds.
        What is not defined is None.
    """
    whole, resampled = np.ones((1, len(counts.watched)), int), multiplicities
    curves = [counts.curve(weights) for weights in (whole, resampled)]
    values, draws = (
        {
            "event_recall": curve["recall"][:, chosen],
            "alarm_precision": curve["precision"][:, chosen],
            "alarms_per_day": curve["alarms_per_day"][:, chosen],
            "event_auprc": _area(counts, curve["precision"], weights),
            "lead_time": _median_lead_time(counts, chosen, weights),
        }
        for curve, weights in zip(curves, (whole, resampled), strict=True)
    )
    lead_time = counts.lead_time[:, chosen]
    once = {name: one[0] for name, one in curves[0].items()}
    shown = np.unique(np.linspace(0, len(counts.thresholds) - 1, CURVE_POINTS).round().astype(int))
    return {
        "policy": dataclasses.asdict(counts.policy),
        "threshold": float(counts.thresholds[chosen]),
        "patient_days": float(counts.watched.sum() / 24),
        "events": len(lead_time),
        "events_without_warning_time": counts.without_warning_time,
        "detected": int((lead_time > 0).sum()),
        "alarms": int(counts.alarms[:, chosen].sum()),
        "correct_alarms": int(counts.correct[:, chosen].sum()),
        "metrics": {name: defined(value[0]) for name, value in values.items()},
        "intervals": {name: interval(drawn) for name, drawn in draws.items()},
        "lead_time_quartiles": _quartiles(lead_time),
        "at_rates": [_at_rate(rate, counts, *curves) for rate in RATES],
        "curve": {
            "threshold": counts.thresholds[shown].tolist(),
            "event_recall": [defined(value) for value in once["recall"][shown]],
            "alarm_precision": [defined(value) for value in once["precision"][shown]],
            "alarms_per_day": [defined(value) for value in once["alarms_per_day"][shown]],
        },
    }


def defined(value: float) -> float | None:
    """Return a number for JSON, which has no NaN."""
    return None if np.isnan(value) else float(value)


def _at_rate(
    rate: float, counts: AlarmCounts, curve: dict[str, np.ndarray], drawn: dict[str, np.ndarray]
) -> dict[str, Any]:
    """Report recall, precision and lead time at the lowest threshold with at most so many alarms per patient-day.

    In every resampled cohort the threshold is chosen anew. The highest threshold is above all scores, so there is always one.
    """
    best, *_ = lowest = np.argmax(curve["alarms_per_day"] <= rate, axis=1)
    anew = np.argmax(drawn["alarms_per_day"] <= rate, axis=1)
    found = {"alarms_per_day": rate, "threshold": float(counts.thresholds[best])}
    for title, name in (("event_recall", "recall"), ("alarm_precision", "precision")):
        found[title] = defined(curve[name][0, lowest[0]])
        found[f"{title}_interval"] = interval(drawn[name][np.arange(len(anew)), anew])
    return found | {"lead_time_quartiles": _quartiles(counts.lead_time[:, best])}


def _area(counts: AlarmCounts, precision: np.ndarray, multiplicities: np.ndarray) -> np.ndarray:
    """Compute event_auprc, [B] of resampled cohorts; precision: [B, K]."""
    found = counts.lead_time > 0
    highest = found.shape[1] - 1 - np.argmax(found[:, ::-1], axis=1)
    precise = np.where(found.any(1), np.nan_to_num(precision)[:, highest], 0)  # NaN in cohorts without the event only
    weights = multiplicities[:, counts.event_stay]
    with np.errstate(invalid="ignore"):
        return (weights * precise).sum(1) / weights.sum(1)


def _median_lead_time(counts: AlarmCounts, chosen: int, multiplicities: np.ndarray) -> np.ndarray:
    """Compute the median over detected events, [B] of resampled cohorts; NaN in those without any."""
    hours = counts.lead_time[:, chosen]
    hours, stay = hours[hours > 0], counts.event_stay[hours > 0]
    repeated = (np.repeat(hours, weights) for weights in multiplicities[:, stay])
    return np.array([np.median(one) if len(one) else np.nan for one in repeated])


def _quartiles(lead_time: np.ndarray) -> list[float] | None:
    """Return the first quartile, the median and the third one of the hours [E] that are above 0."""
    detected = lead_time[lead_time > 0]
    return np.quantile(detected, [0.25, 0.5, 0.75]).tolist() if len(detected) else None
