"""When the stays of a MEDS dataset begin and end, and which stay a time belongs to."""

from collections.abc import Iterable
from typing import NamedTuple

import numpy as np

from ncl_tf.data.sources.columns import MICROSECONDS_PER_HOUR as HOUR
from ncl_tf.data.sources.meds_events import NO_TIME, CodeBook, MedsEvents, time_text
from ncl_tf.data.stays import LONGEST_STAY
from ncl_tf.errors import InputError


class Periods(NamedTuple):
    """Stays with their beginning and end.

    Attributes:
        subject: [stays].
        opened, closed: [stays] int64 microseconds.
        number: [stays] 0 for a subject's first stay, 1 for the second, ...
    """

    subject: np.ndarray
    opened: np.ndarray
    closed: np.ndarray
    number: np.ndarray

    @property
    def lengths(self) -> np.ndarray:
        """[stays] rows on the hourly grid: from hour 0 to the first whole hour at or after the end."""
        return -((self.opened - self.closed) // HOUR) + 1

    @property
    def names(self) -> np.ndarray:
        """[stays] the subject; from the second stay on with its number: 17, 17-2, 17-3."""
        pairs = zip(self.subject.tolist(), self.number.tolist(), strict=True)
        return np.array([f"{subject}-{number + 1}" if number else str(subject) for subject, number in pairs])

    @classmethod
    def joined(cls, parts: Iterable["Periods"]) -> "Periods":
        """Join the stays of different subjects."""
        return cls(*map(np.concatenate, zip(*parts, strict=True)))

    def at(self, subject: np.ndarray, time: np.ndarray) -> np.ndarray:
        """Find the stay in which each time of a subject falls, both ends included: [times], -1 for none."""
        stay = latest(subject, time, self.subject, self.opened)
        inside = (stay >= 0) & (time <= np.append(self.closed, NO_TIME)[stay])
        return np.where(inside, stay, -1)


def latest(subject: np.ndarray, time: np.ndarray, of_subject: np.ndarray, of_time: np.ndarray) -> np.ndarray:
    """For each time of a subject, find the last of other times of that subject at or before it: [times], -1 for none.

    Of equal times the last one counts.
    """
    subjects, times = np.concatenate([of_subject, subject]), np.concatenate([of_time, time])
    order = np.lexsort((np.arange(len(times)) >= len(of_time), times, subjects))
    found = np.maximum.accumulate(np.where(order < len(of_time), np.arange(len(order)), -1))
    index = np.empty(len(order), np.int64)
    index[order] = np.where(found < 0, -1, order[found])
    index = index[len(of_time) :]
    return np.where((index >= 0) & (np.append(of_subject, 0)[index] == subject), index, -1)


def find_periods(events: MedsEvents, book: CodeBook) -> Periods:
    """Find the stays of complete subjects, in the order of the events."""
    subject = np.cumsum(np.diff(events.subject, prepend=events.subject[:1]) != 0)  # numbered as they come
    marks = [np.flatnonzero(book.mask(patterns)[events.code]) for patterns in (book.schema.closes, book.schema.opens)]
    event = np.concatenate(marks)
    opens = np.repeat([False, True], [len(mark) for mark in marks])
    order = np.lexsort((opens, events.time[event], subject[event]))  # at the same time, a stay ends before one begins
    event, opens = event[order], opens[order]
    for mark in event[events.time[event] == NO_TIME]:
        code = book.names[events.code[mark]]
        raise InputError(f"{events.place(mark)}, code {code!r}: must have a time, as it opens or closes a stay")
    new = np.ones(len(event), bool)  # several codes may open a stay at once
    new[1:] = (np.diff(subject[event]) != 0) | (np.diff(events.time[event]) != 0) | np.diff(opens)
    event, opens = event[new], opens[new]
    begin = np.flatnonzero(opens)
    following = np.minimum(begin + 1, len(event) - 1)
    same = (following > begin) & (subject[event[following]] == subject[event[begin]])
    for stay in np.flatnonzero(~same | opens[following]):
        until = f" before another one opens at {time_text(events.time[event[following[stay]]])}" if same[stay] else ""
        near = "" if book.mask(book.schema.closes).any() else book.near(book.schema.closes[0])
        raise InputError(
            f"{events.place(event[begin[stay]])}: the stay that opens here must close{until}, but no event has one of the codes "
            f"for that, {', '.join(book.schema.closes)}{near}"
        )
    first, last = event[begin], event[following]
    runs = np.flatnonzero(np.diff(subject[first], prepend=-1) != 0)
    number = np.arange(len(first)) - np.repeat(runs, np.diff(runs, append=len(first)))
    periods = Periods(events.subject[first], events.time[first], events.time[last], number)
    for stay in np.flatnonzero(periods.lengths > LONGEST_STAY):
        raise InputError(
            f"{events.place(first[stay])}: a stay must have at most {LONGEST_STAY} hours, got {periods.lengths[stay]} until "
            f"{time_text(periods.closed[stay])}"
        )
    return periods
