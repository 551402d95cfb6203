"""The utility score of the PhysioNet Challenge 2019 (Reyna et al., "Early Prediction of Sepsis from Clinical Data").

An alarm is worth something from 12 hours before the onset of sepsis until 3 hours after it, most 6 hours before; silence
costs from 6 hours before on; alarms for anybody else cost a little. The score is scaled so that never alarming gives 0
and alarming exactly in those 15 hours gives 1. It can be negative.

Hours are rows, stay stacked upon stay, with the number of rows per stay beside them: H hours of S stays in all. Time is
counted in rows of the stay, as in the challenge. The challenge's label turns positive 6 hours before the onset.
"""

import numpy as np

from ncl_tf.errors import InputError

# Hours relative to the onset of sepsis: first worth an alarm, best hour for it, last hour that counts.
EARLY, OPTIMAL, LATE = -12, -6, 3
TRUE_POSITIVE, FALSE_NEGATIVE, FALSE_POSITIVE = 1.0, -2.0, -0.05  # best, worst, and constant; a true negative is 0


def utility(alarms: np.ndarray, labels: np.ndarray, lengths: np.ndarray) -> float:
    """Compute the normalized utility, sum over stays (observed - inaction) / sum over stays (best - inaction).

    Hours are alarmed or not, [H] bool, and labelled 0 or 1, [H]; `lengths` [S] are the hours of each stay.
    """
    gained, possible = stay_utilities(alarms, labels, lengths)
    return float(gained.sum() / possible.sum())


def stay_utilities(alarms: np.ndarray, labels: np.ndarray, lengths: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Compute what `utility` sums: each stay's observed - inaction [S] and best - inaction [S]; arguments as there."""
    labels = check_labels(labels)
    alarms = np.asarray(alarms)
    if alarms.dtype != bool or alarms.shape != labels.shape:
        raise InputError(
            f"alarms must be bool {labels.shape}, one per label (for example probabilities > 0.5), got {alarms.dtype} "
            f"of shape {alarms.shape}"
        )
    if not labels.any():
        raise InputError(f"a stay must be septic for the utility to be defined, got {len(labels)} labels of 0")
    alarm, silence, best = hourly_utilities(labels, lengths)
    stay, difference = stay_of_hours(lengths, len(labels)), alarm - silence
    gained, possible = (np.bincount(stay, difference * alarmed, len(lengths)) for alarmed in (alarms, best))
    return gained, possible


def best_threshold(probabilities: np.ndarray, labels: np.ndarray, lengths: np.ndarray) -> float:
    """Find the threshold with the most utility if hours of a higher probability are alarmed; of several, the highest.

    It lies halfway between two probabilities, so that the last bits of a score decide nothing. Arguments as in `utility`, with
    probabilities [H].
    """
    alarm, silence, _ = hourly_utilities(labels, lengths)
    levels, number = np.unique(np.asarray(probabilities, np.float64), return_inverse=True)
    gained = np.bincount(number, alarm - silence)
    from_level = np.append(np.cumsum(gained[::-1])[::-1], 0.0)  # if all hours at this level and above are alarmed
    between = (levels[1:] + levels[:-1]) / 2
    thresholds = np.concatenate([[np.nextafter(levels[0], -np.inf)], between, levels[-1:]])
    return float(thresholds[np.flatnonzero(from_level == from_level.max())[-1]])


def hourly_utilities(labels: np.ndarray, lengths: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Compute what an alarm and silence are worth in every hour.

    With u = hours since the onset of sepsis (first positive hour + 6), minus infinity in a stay that is never septic:

        alarm   = max((u + 12) / 6, -0.05) until u = -6, then (3 - u) / 9 until u = 3, then 0
        silence = 0 until u = -6, then -2 (u + 6) / 9 until u = 3, then 0
        best    = alarm for -12 <= u <= 3

    Returns alarm and silence, [H] the utility of an alarm and of none, and best, [H] bool, the alarms of the best policy.
    """
    labels = check_labels(labels)
    stay = stay_of_hours(lengths, len(labels))
    positives = np.flatnonzero(labels)
    septic, first = np.unique(stay[positives], return_index=True)
    onset = np.full(len(lengths), np.inf)  # as row number
    onset[septic] = positives[first] - OPTIMAL
    since = np.arange(len(labels)) - onset[stay]

    early, late = since <= OPTIMAL, since > LATE
    rise = np.maximum(TRUE_POSITIVE * (since - EARLY) / (OPTIMAL - EARLY), FALSE_POSITIVE)
    fall = TRUE_POSITIVE * (LATE - since) / (LATE - OPTIMAL)
    cost = FALSE_NEGATIVE * (since - OPTIMAL) / (LATE - OPTIMAL)
    alarm = np.select([late, early], [0.0, rise], fall)
    silence = np.where(early | late, 0.0, cost)
    return alarm, silence, (since >= EARLY) & ~late


def stay_of_hours(lengths: np.ndarray, hours: int) -> np.ndarray:
    """Return the number of the stay that each of the stacked hours belongs to, [H] int64, after checking `lengths` [S]."""
    lengths = np.asarray(lengths)
    if lengths.ndim != 1 or not np.issubdtype(lengths.dtype, np.integer):
        raise InputError(f"lengths must be integers [stays], got {lengths.dtype} of shape {lengths.shape}")
    if (lengths < 0).any():
        stay = int(np.argmax(lengths < 0))
        raise InputError(f"stay {stay}: length must be 0 or more hours, got {lengths[stay]}")
    if lengths.sum() != hours:
        raise InputError(
            f"lengths must sum to {hours}, one hour per label, got {len(lengths)} stays with {lengths.sum()}"
        )
    return np.repeat(np.arange(len(lengths)), lengths)


def check_labels(labels: np.ndarray) -> np.ndarray:
    """Return the labels [H] as bool, after checking that they are 0 or 1."""
    labels = np.asarray(labels)
    if labels.ndim != 1:
        raise InputError(f"labels must be [hours], got shape {labels.shape}")
    bad = (labels != 0) & (labels != 1)
    if bad.any():
        row = int(np.argmax(bad))
        raise InputError(
            f"row {row}: label must be 0 or 1 (unlabelled hours, NaN or -1, cannot be scored), got {labels[row]}, and "
            f"{bad.sum()} such rows in all"
        )
    return labels.astype(bool)
