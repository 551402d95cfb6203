"""Metrics of groups of stays: does a classifier serve some patients worse than others?

Every group is scored by what it has in common with the whole split: the same scores, risks and alarm threshold. Intervals come
from B resampled cohorts of all S stays, of which a group has its own; so groups can be compared draw by draw.
"""

import dataclasses
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from ncl_tf.data.groups import Characteristic
from ncl_tf.evaluation.event_metrics import defined
from ncl_tf.evaluation.events import AlarmCounts
from ncl_tf.evaluation.metrics import interval
from ncl_tf.evaluation.ranking import StayRanking
from ncl_tf.evaluation.utility import check_labels, stay_of_hours

COMPARED = 10  # positive stays that a group must have to be called the worst
METRICS = ("auroc", "auprc", "auprc_at_prevalence", "event_recall", "observed_to_expected")


@dataclasses.dataclass(frozen=True)
class ScoredHours:
    """Labelled hours with what they are scored by.

    Attributes:
        scores, risks: [H] of the positive class, as the classifier gives them and calibrated.
        labels: [H] 0 or 1.
        lengths: [S] how many of them each stay has.
    """

    scores: np.ndarray
    risks: np.ndarray
    labels: np.ndarray
    lengths: np.ndarray

    def of(self, stays: np.ndarray) -> "ScoredHours":
        """Return the hours of some of the stays, [S] bool."""
        rows = stays[stay_of_hours(self.lengths, len(self.labels))]
        return ScoredHours(self.scores[rows], self.risks[rows], self.labels[rows], self.lengths[stays])


def subgroup_metrics(
    hours: ScoredHours,
    counts: AlarmCounts,
    chosen: int,
    characteristics: Sequence[Characteristic],
    multiplicities: np.ndarray,
) -> dict[str, Any]:
    """Compute the metrics of all groups.

    Args:
        counts, chosen: of the alarms, and the position of the alarm threshold among their thresholds.
        multiplicities: [B, S] how often each stay occurs in each resampled cohort.

    Returns:
        all, the whole split; groups, in the same form with characteristic and group in front; and worst, for each metric the
        characteristic and group with the lowest value (of observed_to_expected: the farthest from 1, as a ratio) among groups
        with at least 10 positive stays, None without such a group. Each has stays, hours, positive_hours, positive_stays and
        events, those that leave time to warn; and metrics and intervals:

            auroc, auprc         of the hours
            auprc_at_prevalence  auprc if the group had the prevalence of the whole split: its negative hours are weighted
            event_recall         at the alarm threshold
            observed_to_expected positive hours / sum of the risks; above 1 where risks are too low

        None where they are not defined, and all of them where the hours of a group are of one class.
    """
    prevalence = float(np.mean(check_labels(hours.labels)))
    events = np.bincount(counts.event_stay, minlength=len(hours.lengths))
    detected = np.bincount(counts.event_stay, counts.lead_time[:, chosen] > 0, len(hours.lengths))

    def report(stays: np.ndarray) -> dict[str, Any]:
        own = hours.of(stays)
        sums = np.stack([detected[stays], events[stays], *_positives_and_risks(own)], axis=1)
        return _report(own, sums, prevalence, multiplicities[:, stays])

    groups = [
        {"characteristic": one.name, "group": name, **report(one.member == number)}
        for one in characteristics
        for number, name in enumerate(one.groups)
    ]
    worst = {metric: _worst(groups, metric) for metric in METRICS}
    return {"all": report(np.ones(len(hours.lengths), bool)), "groups": groups, "worst": worst}


def worst_group(subgroups: Mapping[str, Any], metric: str) -> dict[str, Any] | None:
    """Find the group that `worst` of `subgroup_metrics` names for a metric; None without one."""
    worst = subgroups["worst"][metric]
    return worst and next(one for one in subgroups["groups"] if worst.items() <= one.items())


def _report(hours: ScoredHours, sums: np.ndarray, prevalence: float, multiplicities: np.ndarray) -> dict[str, Any]:
    """Report on the stays of a group; sums: [S, 4] of each stay detected events, events, positive hours and risks."""
    positive = check_labels(hours.labels)
    counted = {
        "stays": len(hours.lengths),
        "hours": len(positive),
        "positive_hours": int(positive.sum()),
        "positive_stays": int((sums[:, 2] > 0).sum()),
        "events": int(sums[:, 1].sum()),
    }
    if not 0 < positive.sum() < len(positive):
        return counted | {"metrics": dict.fromkeys(METRICS), "intervals": dict.fromkeys(METRICS)}
    ranking = StayRanking(hours.scores, positive, hours.lengths)
    values, draws = (
        ranking(weights, prevalence) | _ratios(weights @ sums)
        for weights in (np.ones((1, len(sums)), int), multiplicities)
    )
    return counted | {
        "metrics": {name: defined(values[name][0]) for name in METRICS},
        "intervals": {name: interval(draws[name]) for name in METRICS},
    }


def _ratios(sums: np.ndarray) -> dict[str, np.ndarray]:
    """Compute the metrics that are ratios of sums over stays, [B, 4], each [B]; NaN where there is nothing to divide by."""
    detected, events, observed, expected = sums.T
    with np.errstate(invalid="ignore", divide="ignore"):
        return {
            "event_recall": detected / events,
            "observed_to_expected": np.where(expected, observed / expected, np.nan),
        }


def _positives_and_risks(hours: ScoredHours) -> list[np.ndarray]:
    stay = stay_of_hours(hours.lengths, len(hours.labels))
    return [np.bincount(stay, values, len(hours.lengths)) for values in (hours.labels, hours.risks)]


def _worst(groups: Sequence[dict[str, Any]], metric: str) -> dict[str, str] | None:
    """Name the worst group by a metric, the first of several."""
    compared = [
        group for group in groups if group["metrics"][metric] is not None and group["positive_stays"] >= COMPARED
    ]
    if not compared:
        return None

    def goodness(group: dict[str, Any]) -> float:
        value = group["metrics"][metric]
        return -abs(np.log(value)) if metric == "observed_to_expected" else value

    worst = min(compared, key=goodness)
    return {name: worst[name] for name in ("characteristic", "group")}
