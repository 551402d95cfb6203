"""Calibrated risks: calibrators fitted on validation data, and how well risks agree with what happened.

A calibrator maps the probability p of a classifier, whose classes may have been weighted in training, to a risk: a number r of
which it is meant that of all hours with this r, the share r is positive. Both kinds see p by its log-odds, log(p / (1 - p)):

    logistic: r = sigmoid(slope * log-odds + intercept), a shift of the prior and a slope
    isotonic: r rises with the log-odds as it likes, linearly between breakpoints

Hours are rows, stay stacked upon stay: H hours of S stays.
"""

import dataclasses
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
from sklearn.isotonic import IsotonicRegression

from ncl_tf.errors import InputError
from ncl_tf.evaluation.metrics import check_binary
from ncl_tf.evaluation.utility import stay_of_hours

CLIP = 1e-7  # probabilities nearer to 0 or 1 count as this near, which is what single precision can distinguish from 1
DECIMALS = (
    2  # of the log-odds by which isotonic regression orders hours, so that the last bits of a score decide nothing
)
LEAST = 1e-12  # risks nearer to 0 or 1 count as this near in the log loss, which is then finite
FOLDS = 5
NEWTON_STEPS, SMALL_STEP = 100, 1e-6  # after a small step, the error is of the size of its square
BINS = 20  # of equal mass, for the calibration error


@dataclasses.dataclass(frozen=True)
class Calibrator:
    """Maps the probability of the positive class to a risk.

    Attributes:
        kind: "logistic" or "isotonic".
        slope, intercept: of a logistic calibrator; otherwise None.
        log_odds, risks: [P] breakpoints of an isotonic one, both rising; below the first and above the last the risk is
            constant. Otherwise empty.
    """

    kind: str
    slope: float | None = None
    intercept: float | None = None
    log_odds: tuple[float, ...] = ()
    risks: tuple[float, ...] = ()

    def __call__(self, probabilities: np.ndarray) -> np.ndarray:
        """Compute the risks of probabilities of the positive class, of any shape, as float64."""
        return self.of_log_odds(log_odds(probabilities))

    def of_log_odds(self, x: np.ndarray) -> np.ndarray:
        """Compute the risks of log-odds, of any shape."""
        if self.kind == "logistic":
            return sigmoid(self.slope * x + self.intercept)
        return np.interp(x, self.log_odds, self.risks)

    def to_json(self) -> dict[str, Any]:
        """Return the attributes of this kind, for JSON."""
        names = ("slope", "intercept") if self.kind == "logistic" else ("log_odds", "risks")
        return {"kind": self.kind} | {name: getattr(self, name) for name in names}

    @classmethod
    def from_json(cls, saved: Mapping[str, Any]) -> "Calibrator":
        """Read what `to_json` has made."""
        return cls(**{name: tuple(value) if isinstance(value, list) else value for name, value in saved.items()})


def log_odds(probabilities: np.ndarray) -> np.ndarray:
    """Compute log(p / (1 - p)) as float64, of probabilities that are at least CLIP away from 0 and 1 or moved there."""
    p = np.clip(np.asarray(probabilities, np.float64), CLIP, 1 - CLIP)
    return np.log(p) - np.log1p(-p)


def sigmoid(x: np.ndarray) -> np.ndarray:
    """Compute 1 / (1 + exp(-x)), without overflow."""
    return np.exp(-np.logaddexp(0, -x))


def fit_calibrator(
    probabilities: np.ndarray, labels: np.ndarray, lengths: np.ndarray
) -> tuple[Calibrator, dict[str, float | None]]:
    """Fit both kinds to validation data, and choose the one of lower log loss on stays that were left out of the fit.

    Logistic regression has no optimum where a threshold separates the classes; isotonic regression remains. Where a fold leaves
    nothing to fit to, the losses are not known, and logistic regression is preferred, which has fewer parameters.

    Args:
        probabilities: [H] of the positive class.
        labels: [H] 0 or 1, of which both must occur.
        lengths: [S] hours of each stay.

    Returns:
        The calibrator, and the mean log loss over all hours, each in a fold left out, by kind; None where it is not known.
    """
    probabilities, positive = check_binary(probabilities, labels, "a calibrator")
    x, folds = log_odds(probabilities), stay_folds(positive, lengths)
    fits: dict[str, Callable[[np.ndarray, np.ndarray], Calibrator | None]]
    fits = {"logistic": _fit_logistic, "isotonic": _fit_isotonic}
    losses = {kind: _loss_left_out(fit, x, positive, folds) for kind, fit in fits.items()}
    fitted = {kind: calibrator for kind, fit in fits.items() if (calibrator := fit(x, positive))}
    by_loss = sorted(fitted, key=lambda kind: losses[kind]) if None not in losses.values() else list(fitted)
    return fitted[by_loss[0]], losses


def stay_folds(positive: np.ndarray, lengths: np.ndarray) -> np.ndarray:
    """Deal out the stays to FOLDS folds, those with a positive hour first: the fold of each hour, [H] int.

    positive: [H] bool. The order is shuffled, always in the same way.
    """
    stay = stay_of_hours(lengths, len(positive))
    ever = np.bincount(stay, positive, len(lengths)) > 0
    order = np.random.default_rng(0).permutation(len(lengths))
    order = order[np.argsort(~ever[order], kind="stable")]
    fold = np.empty(len(lengths), np.int64)
    fold[order] = np.arange(len(lengths)) % FOLDS
    return fold[stay]


def logistic_regression(x: np.ndarray, labels: np.ndarray) -> tuple[float, float] | None:
    """Maximize the likelihood of sigmoid(slope * x + intercept), without a penalty, by Newton's method.

    x, labels: [H], labels 0 or 1. Returns slope and intercept; None if there is no maximum: a class is missing, or a threshold of
    x separates them.
    """
    positive = np.asarray(labels, bool)
    ones, zeros = x[positive], x[~positive]
    if not (len(ones) and len(zeros) and ones.min() < zeros.max() and zeros.min() < ones.max()):
        return None
    center, scale, share = x.mean(), x.std(), positive.mean()
    design = np.stack([(x - center) / scale, np.ones(len(x))])

    def likelihood(value: np.ndarray) -> float:
        return np.sum(positive * (value @ design) - np.logaddexp(0, value @ design))

    value = np.array([0, np.log(share / (1 - share))])
    for _ in range(NEWTON_STEPS):
        risk = sigmoid(value @ design)
        curvature = (design * (risk * (1 - risk))) @ design.T
        step = np.linalg.solve(curvature, design @ (positive - risk))
        while np.abs(step).max() > SMALL_STEP and likelihood(value + step) < likelihood(value):
            step = step / 2
        value = value + step
        if np.abs(step).max() <= SMALL_STEP:
            break
    slope, intercept = value[0] / scale, value[1] - value[0] * center / scale
    return float(slope), float(intercept)


def calibration_metrics(risks: np.ndarray, labels: np.ndarray, bins: int = BINS) -> dict[str, Any]:
    """Compare risks [H] with labels [H], 0 or 1, of which both must occur.

    The bins are of equal mass: an hour is in bin b = floor(bins * share of the hours with a lower risk), so that hours of the
    same risk stay together. With n_b hours in bin b, mean risk r_b, observed frequency o_b, and the frequency o of all:

        ece         = sum_b n_b / H |o_b - r_b|
        brier       = mean of (risk - label)^2 = reliability - resolution + uncertainty + within_bins
        reliability = sum_b n_b / H (o_b - r_b)^2
        resolution  = sum_b n_b / H (o_b - o)^2
        uncertainty = o (1 - o)
        within_bins: what remains, since the risks in a bin differ

    Returns these; slope and intercept of the logistic regression of the label on the log-odds of the risk, 1 and 0 where
    calibrated, None where it has no optimum; mean_risk and prevalence, o; and under `bins` hours, mean_risk and observed of each
    bin with hours in it, for a reliability diagram.
    """
    risks, positive = check_binary(risks, labels, "calibration")
    if bins < 1:
        raise InputError(f"bins must be 1 or more, got {bins}")
    lower = np.searchsorted(np.sort(risks), risks)
    number = lower * bins // len(risks)
    hours, predicted, observed = (np.bincount(number, weights, bins) for weights in (None, risks, positive))
    filled = hours > 0
    hours, predicted, observed = hours[filled], predicted[filled] / hours[filled], observed[filled] / hours[filled]
    share, prevalence = hours / len(risks), positive.mean()
    parts = {
        "reliability": share @ (observed - predicted) ** 2,
        "resolution": share @ (observed - prevalence) ** 2,
        "uncertainty": prevalence * (1 - prevalence),
    }
    brier = np.mean((risks - positive) ** 2)
    within = brier - parts["reliability"] + parts["resolution"] - parts["uncertainty"]
    slope, intercept = logistic_regression(log_odds(risks), positive) or (None, None)
    numbers = {"ece": share @ np.abs(observed - predicted), "brier": brier, **parts, "within_bins": within}
    numbers |= {"mean_risk": risks.mean(), "prevalence": prevalence}
    points = [
        {"hours": int(n), "mean_risk": float(r), "observed": float(o)}
        for n, r, o in zip(hours, predicted, observed, strict=True)
    ]
    return {name: float(value) for name, value in numbers.items()} | {
        "slope": slope,
        "intercept": intercept,
        "bins": points,
    }


def _loss_left_out(
    fit: Callable[[np.ndarray, np.ndarray], Calibrator | None], x: np.ndarray, positive: np.ndarray, folds: np.ndarray
) -> float | None:
    """Compute the mean log loss of all hours, each by a calibrator fitted to the other folds; None if one has none."""
    total = 0.0
    for fold in range(FOLDS):
        out = folds == fold
        calibrator = fit(x[~out], positive[~out])
        if calibrator is None:
            return None
        risks = np.clip(calibrator.of_log_odds(x[out]), LEAST, 1 - LEAST)
        total -= np.log(np.where(positive[out], risks, 1 - risks)).sum()
    return float(total / len(x))


def _fit_logistic(x: np.ndarray, positive: np.ndarray) -> Calibrator | None:
    """Fit a logistic calibrator; where risks would fall as the score rises, all hours get the share that is positive."""
    fitted = logistic_regression(x, positive)
    if fitted and fitted[0] < 0:
        share = positive.mean()
        return Calibrator("logistic", 0.0, float(np.log(share / (1 - share))))
    return fitted and Calibrator("logistic", *fitted)


def _fit_isotonic(x: np.ndarray, positive: np.ndarray) -> Calibrator | None:
    """Fit isotonic regression; no risk is 0 or 1, but at least 1 / (H + 2) away from them."""
    if not 0 < positive.sum() < len(positive):
        return None
    least = 1 / (len(x) + 2)
    regression = IsotonicRegression(y_min=least, y_max=1 - least)
    regression.fit(x.round(DECIMALS), positive)
    return Calibrator(
        "isotonic", log_odds=tuple(regression.X_thresholds_.tolist()), risks=tuple(regression.y_thresholds_.tolist())
    )
