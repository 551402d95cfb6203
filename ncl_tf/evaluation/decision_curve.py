"""The decision curve: is acting on a risk better than acting on every patient, or on none?

Vickers and Elkin, "Decision Curve Analysis: A Novel Method for Evaluating Prediction Models" (2006). Whoever acts on risks above
t holds one needed action to be worth (1 - t) / t needless ones. In units of needed actions per hour, with TP positive and FP
negative hours among n whose risk is above t:

    net benefit = TP / n - FP / n * t / (1 - t)

Acting on none has 0, acting on all what remains if all risks were above t. Every labelled hour is a decision of its own.
"""

from collections.abc import Mapping, Sequence

import numpy as np

from ncl_tf.evaluation.metrics import check_binary
from ncl_tf.evaluation.utility import stay_of_hours

RISK_THRESHOLDS = tuple(
    np.geomspace(0.001, 0.5, 55).tolist()
)  # above a half, a needless action would be the worse error


def decision_curve(
    risks: np.ndarray, labels: np.ndarray, lengths: np.ndarray, multiplicities: np.ndarray
) -> dict[str, list[float]]:
    """Compute the net benefit of acting on risks above each of RISK_THRESHOLDS.

    Args:
        risks: [H] calibrated.
        labels: [H] 0 or 1, of which both must occur.
        lengths: [S] hours of each stay.
        multiplicities: [B, S] how often each stay occurs in each resampled cohort.

    Returns:
        risk_threshold, net_benefit, with low and high, its 95 % interval, and treat_all, the net benefit of acting on all.
    """
    risks, positive = check_binary(risks, labels, "a decision curve")
    thresholds = np.array(RISK_THRESHOLDS)
    odds = thresholds / (1 - thresholds)
    stay, passed = stay_of_hours(lengths, len(risks)), np.searchsorted(thresholds, risks)
    true, false = (_above(stay[rows], passed[rows], len(lengths)) for rows in (positive, ~positive))
    benefit = true - odds * false
    drawn = multiplicities @ benefit / (multiplicities @ np.asarray(lengths, np.float64))[:, None]
    low, high = np.percentile(drawn, [2.5, 97.5], axis=0)
    prevalence = positive.mean()
    curves = {
        "risk_threshold": thresholds,
        "net_benefit": benefit.sum(0) / len(risks),
        "low": low,
        "high": high,
        "treat_all": prevalence - (1 - prevalence) * odds,
    }
    return {name: values.tolist() for name, values in curves.items()}


def useful_span(curve: Mapping[str, Sequence[float]]) -> tuple[float, float] | None:
    """Return the ends of the longest row of thresholds at which acting on the risks beats both acting on all and on none."""
    better = np.array(curve["net_benefit"]) > np.maximum(curve["treat_all"], 0)
    if not better.any():
        return None
    first, end = np.flatnonzero(np.diff(better, prepend=False, append=False)).reshape(-1, 2).T
    longest = np.argmax(end - first)
    return float(curve["risk_threshold"][first[longest]]), float(curve["risk_threshold"][end[longest] - 1])


def _above(stay: np.ndarray, passed: np.ndarray, stays: int) -> np.ndarray:
    """Count the hours of each stay above each threshold, [S, K]; stay: [H], passed: [H] how many thresholds an hour is above."""
    count = len(RISK_THRESHOLDS) + 1
    hours = np.bincount(stay * count + passed, minlength=stays * count).reshape(stays, count)
    return np.cumsum(hours[:, ::-1], axis=1)[:, ::-1][:, 1:].astype(np.float64)
