"""Alarms and events: what a ward would notice of a model that raises alarms.

Hyland et al., "Early prediction of circulatory failure in the intensive care unit using machine learning" (2020), count
events and alarms instead of hours; Yeche et al., "Temporal Label Smoothing for Early Event Prediction" (2023), report
event recall likewise. On an hourly grid this becomes, for every stay on its own:

- An **event** is a run of positive hours; unlabelled hours neither begin nor end one. Its **onset** is its first hour plus
  `lead`, the hours by which labels turn positive early. The onset may lie beyond the record, since the label announces it.
- From the onset until the end of its run, an event is known: those hours raise no alarm and are no patient time, and
  neither are unlabelled hours. All others are **watched**.
- An **alarm** is raised in a watched hour whose score is above the threshold, unless another one was raised in the `silence`
  hours before. An event does not end a silence.
- An alarm at hour t is **correct** if an event has its onset within t + 1, ..., t + `horizon`; any other one is false, at the
  end of a record too.
- An event is **detected** if an alarm is correct for it. The first of these sets the **lead time**, onset - t. Events
  without a watched hour within the horizon before the onset leave no time to warn; they are counted separately.

Hours are rows, stay stacked upon stay: H hours of S stays, in which E events occur; alarms are counted at K thresholds.
"""

import dataclasses
from collections.abc import Iterator

import numpy as np

from ncl_tf.data.stays import concatenated_ranges
from ncl_tf.errors import InputError
from ncl_tf.evaluation.utility import stay_of_hours

SILENCE = 8  # hours, a shift: whoever was warned needs no second alarm before handing over
THRESHOLDS = 200
RAREST = 5000  # the highest threshold that alarms at all lets one in so many hours pass


@dataclasses.dataclass(frozen=True)
class AlarmPolicy:
    """When alarms are raised, and of which events they warn.

    Attributes:
        horizon: hours before its onset in which an alarm warns of an event.
        silence: hours after an alarm in which no other one is raised.
        lead: hours from the first positive hour of an event until its onset.
    """

    horizon: int
    silence: int = SILENCE
    lead: int = 0

    def __post_init__(self) -> None:
        for name, value in dataclasses.asdict(self).items():
            if not value >= 0:
                raise InputError(f"{name} must be 0 or more hours, got {value}")


@dataclasses.dataclass(frozen=True)
class Events:
    """The events of stacked stays.

    Attributes:
        stay: [E] number of the stay.
        onset: [E] hour of the stay, counted from 0; perhaps beyond its last.
        watched: [H] bool, the hours in which an alarm can be raised.
    """

    stay: np.ndarray
    onset: np.ndarray
    watched: np.ndarray


def find_events(labels: np.ndarray, lengths: np.ndarray, lead: int = 0) -> Events:
    """Find the events in labels [H], 1 or 0, or NaN or -1 where unlabelled; lengths: [S] hours of each stay."""
    labels = np.asarray(labels, np.float64)
    if (bad := ~(np.isnan(labels) | np.isin(labels, (-1, 0, 1)))).any():
        row = int(np.argmax(bad))
        raise InputError(f"row {row}: label must be 0 or 1, or NaN or -1 where unlabelled, got {labels[row]}")
    stay = stay_of_hours(lengths, len(labels))
    watched = (labels == 0) | (labels == 1)
    rows = np.flatnonzero(watched)
    positive = labels[rows] == 1
    joined = positive[1:] & positive[:-1] & (stay[rows[1:]] == stay[rows[:-1]])  # of one event with the hour before
    first, last = (rows[positive & ~edge] for edge in (np.append(False, joined), np.append(joined, False)))
    known = concatenated_ranges(first + lead, np.maximum(last + 1 - first - lead, 0))
    watched[known] = False
    number = stay[first]
    return Events(number, first + lead - (np.cumsum(lengths) - lengths)[number], watched)


@dataclasses.dataclass(frozen=True)
class AlarmCounts:
    """Alarms, and what they warned of, at several thresholds.

    Attributes:
        policy: by which they were raised.
        thresholds: [K] rising; an hour's score must be above.
        alarms, correct: [S, K] int, alarms of each stay and how many of them are correct.
        watched: [S] watched hours.
        event_stay: [E] stay of each event that leaves time to warn.
        lead_time: [E, K] int, hours from the first correct alarm until the onset; 0 where the event is not detected.
        without_warning_time: number of all other events.
    """

    policy: AlarmPolicy
    thresholds: np.ndarray
    alarms: np.ndarray
    correct: np.ndarray
    watched: np.ndarray
    event_stay: np.ndarray
    lead_time: np.ndarray
    without_warning_time: int

    def curve(self, multiplicities: np.ndarray | None = None) -> dict[str, np.ndarray]:
        """Compute recall, precision and alarms_per_day, each [K], or [B, K] of resampled cohorts.

            recall         = detected events / events
            precision      = correct alarms / alarms
            alarms_per_day = alarms / (watched hours / 24)

        NaN where the denominator is 0. multiplicities: [B, S], how often each stay occurs; None: once.
        """
        if multiplicities is None:
            return {name: values[0] for name, values in self.curve(np.ones((1, len(self.watched)))).items()}
        weights = np.asarray(multiplicities, np.float64)  # products of floats are much faster than those of integers
        alarms, correct = (weights @ counts.astype(np.float64) for counts in (self.alarms, self.correct))
        of_events = weights[:, self.event_stay]
        detected = of_events @ (self.lead_time > 0).astype(np.float64)
        with np.errstate(invalid="ignore"):
            return {
                "recall": detected / of_events.sum(1, keepdims=True),
                "precision": correct / alarms,
                "alarms_per_day": 24 * alarms / (weights @ self.watched)[:, None],
            }

    def at_rate(self, alarms_per_day: float) -> int | None:
        """Return the index of the lowest threshold with at most so many alarms per patient-day; None if all have more."""
        within = self.curve()["alarms_per_day"] <= alarms_per_day  # a lower threshold never raises fewer
        return int(np.argmax(within)) if within.any() else None


def count_alarms(
    scores: np.ndarray,
    labels: np.ndarray,
    lengths: np.ndarray,
    policy: AlarmPolicy,
    thresholds: np.ndarray | None = None,
) -> AlarmCounts:
    """Count alarms, correct alarms and detected events at each threshold.

    Args:
        scores: [H], also of unlabelled hours.
        labels: [H], see `find_events`.
        lengths: [S] hours of each stay.
        thresholds: [K]; None: those of `score_thresholds` for the watched hours.
    """
    scores, lengths = _check_scores(scores, np.shape(labels)), np.asarray(lengths)
    events = find_events(labels, lengths, policy.lead)
    first_row, stays = np.cumsum(lengths) - lengths, len(lengths)
    if thresholds is None:
        thresholds = score_thresholds(scores[events.watched])
    thresholds = np.unique(np.asarray(thresholds, np.float64))

    # The hours before each onset, as (event, hour); those that are not watched raise no alarm.
    begin = np.maximum(events.onset - policy.horizon, 0)
    before = np.maximum(np.minimum(events.onset, lengths[events.stay]) - begin, 0)
    event, hour = np.repeat(np.arange(len(begin)), before), concatenated_ranges(begin, before)
    warned = events.watched[first_row[events.stay[event]] + hour]
    event, hour = event[warned], hour[warned]
    foreseeable = np.unique(event)
    event = np.searchsorted(foreseeable, event)
    event_stay, onset = events.stay[foreseeable], events.onset[foreseeable]
    by_hour = np.argsort(hour, kind="stable")
    event, ends = event[by_hour], np.searchsorted(hour[by_hour], np.arange(1, lengths.max(initial=0) + 1))

    alarms, correct = np.zeros((2, stays, len(thresholds)), np.int32)
    lead_time = np.zeros((len(onset), len(thresholds)), np.int32)
    position = np.empty(stays, np.int64)
    position[_longest_first(lengths)] = np.arange(stays)
    levels = np.where(events.watched, np.searchsorted(thresholds, scores), 0)
    for now, (_, raised) in enumerate(_alarms_by_hour(levels, lengths, len(thresholds), policy.silence)):
        alarms[: len(raised)] += raised
        coming = event[ends[now - 1] if now else 0 : ends[now]]
        where = position[event_stay[coming]]
        correct[where] += raised[where]  # an alarm that warns of two events counts once
        new = raised[where] & (lead_time[coming] == 0)
        lead_time[coming] += new * (onset[coming] - now)[:, None].astype(np.int32)
    watched = np.bincount(stay_of_hours(lengths, len(scores)), events.watched, stays)
    without = len(events.stay) - len(foreseeable)
    return AlarmCounts(policy, thresholds, alarms[position], correct[position], watched, event_stay, lead_time, without)


def threshold_of_rate(
    scores: np.ndarray, labels: np.ndarray, lengths: np.ndarray, policy: AlarmPolicy, alarms_per_day: float
) -> float:
    """Find the lowest threshold, of all scores, with at most so many alarms per patient-day; arguments as in `count_alarms`.

    A lower threshold never raises fewer alarms, so every count at THRESHOLDS of them leaves one part in so many to search.
    """
    levels = np.unique(_check_scores(scores, np.shape(labels)))
    levels = np.append(np.nextafter(levels[:1], -np.inf), levels)  # the lowest lets all hours pass, the highest none
    low, high = 0, len(levels) - 1
    while True:
        tried = np.unique(np.linspace(low, high, THRESHOLDS).round().astype(int))
        first = count_alarms(scores, labels, lengths, policy, levels[tried]).at_rate(alarms_per_day)
        low, high = tried[max(first - 1, 0)], tried[first]
        if high - low <= 1:
            return float(levels[high])


def raise_alarms(
    scores: np.ndarray, watched: np.ndarray, lengths: np.ndarray, threshold: float, silence: int = SILENCE
) -> np.ndarray:
    """Return the hours in which an alarm is raised, [H] bool; scores and watched: [H], lengths: [S]."""
    levels = (_check_scores(scores, np.shape(watched)) > threshold) & watched
    alarmed = np.zeros(len(levels), bool)
    for rows, raised in _alarms_by_hour(levels.astype(int), np.asarray(lengths), 1, silence):
        alarmed[rows] = raised[:, 0]
    return alarmed


def score_thresholds(scores: np.ndarray, count: int = THRESHOLDS) -> np.ndarray:
    """Return at most `count` thresholds, from one below all scores, which all pass, to the highest score, which none does.

    The numbers of hours that pass rise in equal ratios, from one in 5,000 on, so that rare alarms are resolved as
    finely as frequent ones.
    """
    descending = -np.sort(-np.asarray(scores, np.float64))
    hours = len(descending)
    if not hours:
        return np.zeros(1)
    passing = np.unique(np.geomspace(max(hours / RAREST, 1), hours, count - 1).round().astype(int))
    below = np.nextafter(np.float32(descending[-1]), np.float32(-np.inf))  # scores may be kept in single precision
    return np.unique(np.append(descending, below)[np.append(0, passing)])


def _alarms_by_hour(
    levels: np.ndarray, lengths: np.ndarray, thresholds: int, silence: int
) -> Iterator[tuple[np.ndarray, np.ndarray]]:
    """Yield, hour by hour of all stays at once, the rows [n] of the stays that last so long and their alarms [n, K].

    levels: [H] int, how many of the thresholds the hour's score is above; 0 in hours that are not watched. Stays come
    longest first, so that those of an hour are always the first n.
    """
    order = _longest_first(lengths)
    first_row, lasting = (np.cumsum(lengths) - lengths)[order], lengths[order]
    number = np.arange(thresholds, dtype=np.int32)
    silent_until = np.zeros((len(lengths), thresholds), np.int32)
    for hour in range(lasting[0] if len(lasting) else 0):
        stays = int(np.searchsorted(-lasting, -hour))
        rows = first_row[:stays] + hour
        until = silent_until[:stays]
        raised = (number < levels[rows].astype(np.int32)[:, None]) & (until <= hour)
        np.copyto(until, hour + silence + 1, where=raised)
        yield rows, raised


def _longest_first(lengths: np.ndarray) -> np.ndarray:
    return np.argsort(-lengths, kind="stable")


def _check_scores(scores: np.ndarray, shape: tuple[int, ...]) -> np.ndarray:
    """Return the scores [H] as float64, after checking that there is a number for every hour."""
    scores = np.asarray(scores, np.float64)
    if scores.shape != shape or scores.ndim != 1:
        raise InputError(f"scores must be [hours], one per label, of shape {shape}, got {scores.shape}")
    if np.isnan(scores).any():
        raise InputError(f"row {int(np.argmax(np.isnan(scores)))}: score must be a number, got nan")
    return scores
