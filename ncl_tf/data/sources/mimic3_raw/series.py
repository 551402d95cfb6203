"""From events to the series of each stay: one row per moment, one cell per variable, as text of a .csv file."""

import bisect
from collections.abc import Iterator
from typing import NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute

from ncl_tf.data.sources.mimic3_raw.events import NONE, StayEvents, ValueTable
from ncl_tf.data.sources.mimic3_raw.stays import NEVER, UnitStay
from ncl_tf.data.stays import concatenated_ranges

EPS = 1e-6  # hours
CHUNK = 2**20  # events that are sorted at once


class Series(NamedTuple):
    """The events of a stay during the stay.

    Attributes:
      stay: index of the stay.
      first: hours from the start of the stay to the first event.
      text: the lines of the .csv file after its header.
    """

    stay: int
    first: float
    text: memoryview


class _Lookup(NamedTuple):
    """Of each value: its variable, its rank and its text, [values]; and the number of variables."""

    variable: np.ndarray
    variables: int
    rank: np.ndarray
    cells: pa.Array


class _About(NamedTuple):
    """Of each stay: its begin, its end (before all times if unknown) and its length (NaN if unknown), [stays]."""

    intime: np.ndarray
    outtime: np.ndarray
    hours: np.ndarray

    @classmethod
    def of(cls, stays: list[UnitStay]) -> "_About":
        return cls(
            np.array([stay.intime for stay in stays]),
            np.array([-NEVER if stay.outtime is None else stay.outtime for stay in stays]),
            np.array([np.nan if stay.hours is None else stay.hours for stay in stays]),
        )


def make_series(events: StayEvents, values: ValueTable, stays: list[UnitStay]) -> Iterator[Series]:
    """Make the series of all stays that have an event; a subject's stays see each other's events if times overlap."""
    subjects, subject_of_stay = np.unique([stay.subject for stay in stays], return_inverse=True)
    subject = subject_of_stay.astype(np.min_scalar_type(len(subjects)))[events.stay]  # small integers sort fast
    order = np.argsort(subject, kind="stable")
    ends = np.cumsum(np.bincount(subject, minlength=len(subjects)))
    table = _Lookup(
        np.array(values.variable, np.int64), len(values.variables), values.order(), pa.array(values.cells, pa.string())
    )
    about = _About.of(stays)
    first = 0
    while first < len(subjects):
        begin = int(ends[first - 1]) if first else 0
        last = max(bisect.bisect_right(ends, begin + CHUNK), first + 1)
        chosen = order[begin : ends[last - 1]]
        chunk = StayEvents(*(column[chosen] for column in events))
        members = np.arange(*np.searchsorted(subject_of_stay, (first, last)))  # stays are in order of subjects
        yield from _chunk_series(chunk, table, members, subject_of_stay, about)
        first = last


def _chunk_series(
    events: StayEvents, values: _Lookup, members: np.ndarray, subject_of_stay: np.ndarray, about: _About
) -> Iterator[Series]:
    """Make the series of all stays (`members`) of some subjects."""
    subject, variable = subject_of_stay[events.stay], values.variable[events.value]
    # A moment is a time of a subject; its cells are the largest values of any stay.
    order = np.lexsort((values.rank[events.value], events.time, subject))
    events, subject, variable = StayEvents(*(part[order] for part in events)), subject[order], variable[order]
    moment = np.cumsum(_changes(subject, events.time)) - 1
    matrix = np.full((moment.max(initial=-1) + 1, values.variables), NONE, np.int32)
    matrix[moment, variable] = events.value  # of several in a cell the last one stays
    # A row is a moment and a stay that has an event then.
    order = np.lexsort((events.stay, moment))
    rows = order[_changes(moment[order], events.stay[order])]
    moment, stay, time, subject = moment[rows], events.stay[rows], events.time[rows], subject[rows]
    # Every stay takes from its subject's rows its own, and those of its time.
    begins, ends = (np.searchsorted(subject, subject_of_stay[members], side) for side in ("left", "right"))
    row, owner = concatenated_ranges(begins, ends - begins), np.repeat(members, ends - begins)
    time = time[row]
    taken = (stay[row] == owner) | ((time >= about.intime[owner]) & (time <= about.outtime[owner]))
    hours = (time - about.intime[owner]) / 60 / 60
    taken &= (hours > -EPS) & (hours < about.hours[owner] + EPS)
    yield from _texts(owner[taken], hours[taken], matrix[moment[row[taken]]], values.cells)


def _changes(*columns: np.ndarray) -> np.ndarray:
    """Find the rows that differ from the row before, the first row too: [rows] bool."""
    new = np.ones(len(columns[0]), bool)
    new[1:] = np.logical_or.reduce([column[1:] != column[:-1] for column in columns])
    return new


def _texts(owner: np.ndarray, hours: np.ndarray, matrix: np.ndarray, cells: pa.Array) -> Iterator[Series]:
    """Write rows, those of one stay together, as text."""
    if not len(owner):
        return
    columns = [pa.array(map(repr, hours.tolist()), pa.string(), size=len(hours))]
    columns += [cells.take(pa.array(column, mask=column < 0)) for column in matrix.T]
    lines = pa.compute.binary_join_element_wise(*columns, ",", null_handling="replace", null_replacement="")
    lines = pa.compute.binary_join_element_wise(lines, "\n", "")
    _, offsets, text = lines.buffers()
    offsets = np.frombuffer(offsets, np.int32)[lines.offset :]
    firsts = np.flatnonzero(_changes(owner))
    for begin, end in zip(firsts, [*firsts[1:], len(owner)], strict=True):
        yield Series(int(owner[begin]), float(hours[begin]), memoryview(text)[offsets[begin] : offsets[end]])
