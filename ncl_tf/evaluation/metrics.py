"""Metrics of predicted probabilities, exact and as the paper printed them, with intervals over patients.

Hours are rows, stay stacked upon stay: H hours of S stays. All metrics are fractions; tables multiply by 100.
The intervals resample stays, not hours: the hours of a stay resemble each other, and intervals that took them for
independent would be far too narrow.
"""

from collections.abc import Callable

import numpy as np
from sklearn import metrics as sklearn_metrics

from ncl_tf.errors import InputError
from ncl_tf.evaluation import utility as physionet
from ncl_tf.evaluation.predictions import ALARM
from ncl_tf.evaluation.ranking import StayRanking
from ncl_tf.evaluation.utility import check_labels, stay_of_hours

THRESHOLDS = 1000  # of the approximate areas; the paper's tables show these

# Metrics of a cohort in which stay s occurs multiplicities[s] times ([S] int); None where they are undefined.
StayMetrics = Callable[[np.ndarray], dict[str, float] | None]


def binary_metrics(
    probabilities: np.ndarray,
    labels: np.ndarray,
    lengths: np.ndarray | None = None,
    utility: bool = False,
) -> dict[str, float]:
    """Compute the metrics of a binary task.

    Args:
        probabilities: [H] of the positive class.
        labels: [H] 0 or 1; both must occur.
        lengths: [S] hours of each stay; needed for the utility only.
        utility: whether the labels are sepsis labels, for which the PhysioNet utility is meant.

    Returns:
        auroc and auprc (average precision), exact; auroc_1000 and auprc_1000, over 1000 thresholds as in
        `keras.metrics.AUC`; accuracy; brier (mean squared error of the probability); prevalence; utility if asked for.
    """
    probabilities, positive = check_binary(probabilities, labels)
    called = probabilities > ALARM
    metrics = {
        "auroc": sklearn_metrics.roc_auc_score(positive, probabilities),
        "auprc": sklearn_metrics.average_precision_score(positive, probabilities),
        **_approximate_areas(probabilities, positive),
        "accuracy": np.mean(called == positive),
        "brier": np.mean((probabilities - positive) ** 2),
        "prevalence": np.mean(positive),
    }
    if lengths is not None:
        stay_of_hours(lengths, len(positive))
    elif utility:
        raise InputError("lengths must be the hours of each stay, [stays], for the utility, got None")
    if utility:
        metrics["utility"] = physionet.utility(called, positive, lengths)
    return {name: float(value) for name, value in metrics.items()}


def _approximate_areas(probabilities: np.ndarray, positive: np.ndarray) -> dict[str, float]:
    """Compute areas from the counts above each of 1000 evenly spaced thresholds.

    Between thresholds true and false positives are interpolated linearly. Under ROC that makes trapezoids; under
    precision and recall (Davis and Goadrich, 2006), from TP_a of P_a called hours to TP_b of P_b, with
    slope = (TP_b - TP_a) / (P_b - P_a):

        area = slope (TP_b - TP_a + (TP_a - slope P_a) ln(P_b / P_a)) / positives
    """
    # Single precision, for Keras puts scores on a threshold to the same side.
    above = np.ceil(probabilities.astype(np.float32) * np.float32(THRESHOLDS - 1)).astype(int) - 1
    above = np.maximum(above, 0)  # the lowest threshold lies just below 0
    true, false = (
        np.cumsum(np.bincount(above[hours], minlength=THRESHOLDS)[::-1]).astype(float)
        for hours in (positive, ~positive)
    )
    called = true + false
    gained, slope = np.diff(true), np.diff(true) / np.maximum(np.diff(called), 1)
    # From no called hours on, the precision is constant: TP_a is 0 and the logarithm vanishes.
    log_ratio = np.diff(np.log(np.maximum(called, 1)))
    precision_recall = slope * (gained + (true[:-1] - slope * called[:-1]) * log_ratio)
    return {
        "auroc_1000": np.trapezoid(true, false) / (true[-1] * false[-1]),
        "auprc_1000": precision_recall.sum() / true[-1],
    }


def multiclass_metrics(probabilities: np.ndarray, classes: np.ndarray) -> dict[str, float]:
    """Compute the metrics of probabilities [H, K] of K ordered classes [H], of which at least two must occur.

    Returns kappa, Cohen's, linearly weighted over all K classes, and the accuracy of the likeliest class.
    """
    predicted, classes, count = _check_multiclass(probabilities, classes)
    kappa = sklearn_metrics.cohen_kappa_score(classes, predicted, weights="linear", labels=range(count))
    return {"kappa": float(kappa), "accuracy": float(np.mean(predicted == classes))}


def reliability(probabilities: np.ndarray, labels: np.ndarray, bins: int = 10) -> list[dict[str, float | int | None]]:
    """Compare what was predicted and what happened in each of `bins` equal intervals (low, high] of probability.

    Returns one dict per bin: low, high, hours, mean_probability and observed (share of positives); the last two are None in a
    bin without hours.
    """
    if bins < 1:
        raise InputError(f"bins must be 1 or more, got {bins}")
    positive = check_labels(labels)
    probabilities = _check_probabilities(probabilities, positive.shape)
    edges = np.linspace(0, 1, bins + 1)
    number = np.searchsorted(edges[1:-1], probabilities)
    hours, predicted, observed = (np.bincount(number, w, bins) for w in (None, probabilities, positive))
    return [
        {
            "low": float(edges[i]),
            "high": float(edges[i + 1]),
            "hours": int(hours[i]),
            "mean_probability": float(predicted[i] / hours[i]) if hours[i] else None,
            "observed": float(observed[i] / hours[i]) if hours[i] else None,
        }
        for i in range(bins)
    ]


def bootstrap(metrics: StayMetrics, stays: int, resamples: int = 200, seed: int = 0) -> dict[str, list[float]]:
    """Compute 95 % intervals (percentiles) of metrics over cohorts whose stays are drawn with replacement.

    Draws in which a metric is undefined (no positive hour, say) are repeated, so the intervals are those given that it
    is defined. At least every third draw or so is good: of n stays, a given one is missed with probability about 1/e.

    The metrics are those of `binary_by_stay` or `multiclass_by_stay`. Returns [low, high] for each.
    """
    if stays < 2 or resamples < 1:
        raise InputError(
            f"intervals must have at least 2 stays and 1 resample, got {stays} stays and {resamples} resamples"
        )
    random = np.random.default_rng(seed)
    values = []
    while len(values) < resamples:
        drawn = metrics(np.bincount(random.integers(stays, size=stays), minlength=stays))
        if drawn is not None:
            values.append(drawn)
    return {name: np.percentile([value[name] for value in values], [2.5, 97.5]).tolist() for name in values[0]}


def binary_by_stay(
    probabilities: np.ndarray, labels: np.ndarray, lengths: np.ndarray, utility: bool = False
) -> StayMetrics:
    """Return auroc, auprc, accuracy, brier and, if wanted, utility as a function of how often each stay occurs.

    Arguments as in `binary_metrics`.
    """
    probabilities, positive = check_binary(probabilities, labels)
    stay, stays = stay_of_hours(lengths, len(positive)), len(lengths)
    called = probabilities > ALARM
    right, squared_error = (np.bincount(stay, w, stays) for w in (called == positive, (probabilities - positive) ** 2))
    gained, possible = physionet.stay_utilities(called, positive, lengths) if utility else (None, None)

    hours, ranking = np.asarray(lengths), StayRanking(probabilities, positive, lengths)

    def metrics(multiplicities: np.ndarray) -> dict[str, float] | None:
        areas = {name: float(value[0]) for name, value in ranking(multiplicities[None]).items()}
        if np.isnan(areas["auroc"]):
            return None
        total = multiplicities @ hours
        values = {"accuracy": multiplicities @ right / total, "brier": multiplicities @ squared_error / total}
        if utility:
            values["utility"] = (multiplicities @ gained) / (multiplicities @ possible)
        return areas | {name: float(value) for name, value in values.items()}

    return metrics


def resampled_stays(stays: int, resamples: int = 200, seed: int = 0) -> np.ndarray:
    """Draw cohorts with replacement: how often each stay occurs in each, [resamples, stays] int."""
    random = np.random.default_rng(seed)
    drawn = (random.integers(stays, size=stays) for _ in range(resamples))
    return np.stack([np.bincount(stay, minlength=stays) for stay in drawn])


def interval(values: np.ndarray) -> list[float] | None:
    """Return the 95 % interval (percentiles) of a metric's values [resamples], given that it is defined; None if it never is."""
    defined = values[~np.isnan(values)]
    return np.percentile(defined, [2.5, 97.5]).tolist() if len(defined) else None


def multiclass_by_stay(probabilities: np.ndarray, classes: np.ndarray, lengths: np.ndarray) -> StayMetrics:
    """Return kappa and accuracy as a function of how often each stay occurs.

    kappa = 1 - sum_ab |a - b| O_ab / sum_ab |a - b| E_ab, with the confusion matrix O [true, predicted] and E, what its
    margins would give by chance. Arguments as in `multiclass_metrics`; lengths: [S] hours of each stay.
    """
    predicted, classes, count = _check_multiclass(probabilities, classes)
    cells = np.ravel_multi_index(
        (stay_of_hours(lengths, len(classes)), classes, predicted), (len(lengths), count, count)
    )
    confusions = np.bincount(cells, minlength=len(lengths) * count**2).reshape(len(lengths), count**2).astype(float)
    distance = np.abs(np.subtract.outer(np.arange(count), np.arange(count)))

    def metrics(multiplicities: np.ndarray) -> dict[str, float] | None:
        observed = (multiplicities @ confusions).reshape(count, count)
        hours = observed.sum()
        chance = np.sum(distance * np.outer(observed.sum(1), observed.sum(0)))
        if chance == 0:
            return None
        kappa = 1 - hours * np.sum(distance * observed) / chance
        return {"kappa": float(kappa), "accuracy": float(np.trace(observed) / hours)}

    return metrics


def check_binary(
    probabilities: np.ndarray, labels: np.ndarray, purpose: str = "AUROC and AUPRC"
) -> tuple[np.ndarray, np.ndarray]:
    """Return probabilities as float64 [H] and labels as bool [H], both checked; `purpose` needs both classes."""
    positive = check_labels(labels)
    probabilities = _check_probabilities(probabilities, positive.shape)
    missing = [str(label) for label, there in ((0, not positive.all()), (1, positive.any())) if not there]
    if missing:
        raise InputError(
            f"hours must be of both classes for {purpose}, got {len(positive)} hours without label "
            f"{' or '.join(missing)}"
        )
    return probabilities, positive


def _check_multiclass(probabilities: np.ndarray, classes: np.ndarray) -> tuple[np.ndarray, np.ndarray, int]:
    """Return predicted classes [H], true classes [H] as int64 and K, after checking both arguments."""
    classes, count = np.asarray(classes), np.shape(probabilities)[-1] if np.ndim(probabilities) == 2 else 0
    if count < 2 or classes.ndim != 1:
        raise InputError(
            "probabilities must be [hours, 2 or more classes] and classes [hours], got shapes "
            f"{np.shape(probabilities)} and {classes.shape}"
        )
    probabilities = _check_probabilities(probabilities, (len(classes), count))
    bad = ~np.isin(classes, np.arange(count))
    if bad.any():
        row = int(np.argmax(bad))
        raise InputError(f"row {row}: class must be 0 to {count - 1}, without unlabelled hours, got {classes[row]}")
    if len(np.unique(classes)) < 2:
        raise InputError(
            f"hours must be of at least two classes for kappa, got {len(classes)} hours of class {np.unique(classes)}"
        )
    return probabilities.argmax(axis=1), classes.astype(np.int64), count


def _check_probabilities(probabilities: np.ndarray, shape: tuple[int, ...]) -> np.ndarray:
    """Return the probabilities as float64, after checking their shape and that they are probabilities."""
    probabilities = np.asarray(probabilities, np.float64)
    if probabilities.shape != shape:
        raise InputError(f"probabilities must have shape {shape}, one per label, got {probabilities.shape}")
    bad = ~((probabilities >= 0) & (probabilities <= 1))  # also NaN
    if bad.any():
        row = int(np.argwhere(bad)[0][0])
        raise InputError(f"row {row}: probability must be 0 to 1, got {probabilities[bad][0]}")
    return probabilities
