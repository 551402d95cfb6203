"""The hourly grid of MEDS stays: events become rows of hours, static values and labels."""

import collections

import numpy as np

from ncl_tf.data.sources.columns import MICROSECONDS_PER_HOUR as HOUR
from ncl_tf.data.sources.meds_events import NO_TIME, CodeBook, MedsEvents
from ncl_tf.data.sources.meds_labels import LabelFiles, event_labels, put_on_grid
from ncl_tf.data.sources.meds_periods import Periods, find_periods, latest
from ncl_tf.data.sources.meds_schema import MedsSchema
from ncl_tf.data.stays import Stays
from ncl_tf.errors import InputError

OUTSIDE = "in the schema, outside_stays = 'drop' leaves out what is outside of every stay"


class Grid:
    """Collects the stays of subjects whose events come one part after another.

    An event belongs to the hour that it ends: hour k of a stay has the last values at most k hours after it opened, and later
    than k - 1 hours. A static channel has the last value from before or at the opening.

    Attributes:
        book: the codes of the events.
        left_out: what was left out, and how often.
    """

    def __init__(self, schema: MedsSchema, book: CodeBook) -> None:
        self.book, self._schema = book, schema
        self.left_out: dict[str, int] = collections.Counter()
        self._outside = ""  # the error, raised at the end: codes that never occur may be the reason
        self._periods: list[Periods] = []
        self._values: list[np.ndarray] = []
        self._until: dict[int, list[tuple[np.ndarray, np.ndarray]]] = {until.task: [] for until in schema.until}

    def add(self, events: MedsEvents) -> None:
        """Add the stays of some complete subjects."""
        if not len(events.row):
            return
        periods = find_periods(events, self.book)
        values = np.full((periods.lengths.sum(), len(self._schema.dataset.channels)), np.nan, np.float32, order="F")
        measured = events.chosen(self.book.measurement[events.code] >= 0)
        missing = np.isnan(measured.value)
        self.left_out["measurements without a value"] += int(missing.sum())
        measured = measured.chosen(~missing)
        position = np.array([m.channel for m in self._schema.measurements], np.int64)
        channel = position[self.book.measurement[measured.code]]
        self._add_static(values, periods, events, measured, channel)
        dynamic = ~np.array([c.static for c in self._schema.dataset.channels])[channel]
        self._add_dynamic(values, periods, measured.chosen(dynamic), channel[dynamic])
        for until in self._schema.until:
            chosen = events.chosen(self.book.mask(until.patterns)[events.code] & (events.time != NO_TIME))
            self._until[until.task].append((chosen.subject, chosen.time))
        self._periods.append(periods)
        self._values.append(values)

    def _add_static(
        self, values: np.ndarray, periods: Periods, events: MedsEvents, measured: MedsEvents, channel: np.ndarray
    ) -> None:
        """Write the static channels: the last value, or the time since the last event, when the stay opened."""
        known: dict[int, np.ndarray] = {}
        for index, declared in enumerate(self._schema.dataset.channels):
            if declared.static:
                of = measured.chosen(channel == index)
                found = latest(periods.subject, periods.opened, of.subject, of.time)
                known[index] = np.append(of.value, np.nan)[found]
        for since in self._schema.since:
            of = events.chosen(self.book.mask([since.pattern])[events.code] & (events.time != NO_TIME))
            found = latest(periods.subject, periods.opened, of.subject, of.time)
            hours = (periods.opened - np.append(of.time, 0)[found]) / HOUR
            known[since.channel] = np.where(found < 0, np.nan, hours / since.hours)
        for index, value in known.items():
            values[:, index] = np.repeat(value, periods.lengths)

    def _add_dynamic(self, values: np.ndarray, periods: Periods, events: MedsEvents, channel: np.ndarray) -> None:
        """Write measurements into their hours; of several in an hour, the last one stays."""
        names = self._schema.dataset.channels
        for event in np.flatnonzero(events.time == NO_TIME):
            raise InputError(
                f"{events.place(event)}: a measurement must have a time, as channel {names[channel[event]].name!r} is not static"
            )
        stay = periods.at(events.subject, events.time)
        outside = np.flatnonzero(stay < 0)
        if len(outside) and not self._schema.drop_outside:
            place, code = events.place(outside[0]), self.book.names[events.code[outside[0]]]
            self._outside = (
                self._outside or f"{place}: a measurement of {code!r} must be in a stay, but none is open then"
            )
        self.left_out["measurements outside of every stay"] += len(outside)
        inside = stay >= 0
        hour = -((periods.opened[stay[inside]] - events.time[inside]) // HOUR)
        row = (np.cumsum(periods.lengths) - periods.lengths)[stay[inside]] + hour
        values[row, channel[inside]] = events.value[inside]

    def stays(self, labels: dict[int, LabelFiles]) -> Stays:
        """Return all stays, with the labels of each task that has label files."""
        if self._outside:
            raise InputError(f"{self._outside}; {OUTSIDE}")
        periods = Periods.joined(self._periods)
        lengths, dataset = periods.lengths, self._schema.dataset
        if not len(lengths):
            raise InputError(f"no stay: no event has one of the codes that open one, {', '.join(self._schema.opens)}")
        values = np.empty((lengths.sum(), len(dataset.channels)), np.float32, order="F")
        for index in range(len(dataset.channels)):
            np.concatenate([part[:, index] for part in self._values], out=values[:, index])
        self._values.clear()
        on_grid = {position: self._from_files(of, periods) for position, of in labels.items()}
        for until in self._schema.until:
            events = map(np.concatenate, zip(*self._until[until.task], strict=True))
            on_grid[until.task] = event_labels(until, periods, *events)
        value, time = (np.stack([on_grid[i][part] for i in range(len(dataset.tasks))], axis=1) for part in (0, 1))
        stays = Stays(periods.names, lengths, values, value, subjects=periods.subject.astype(str), label_times=time)
        if dataset.hour:
            hour = [channel.name for channel in dataset.channels].index(dataset.hour)
            values[stays.first_rows, hour] = 0
            stays.fill_hours(hour)
        return stays

    def _from_files(self, labels: LabelFiles, periods: Periods) -> tuple[np.ndarray, np.ndarray]:
        """Put labels on the grid, and count what is left out."""
        value, time, stay = put_on_grid(labels, periods)
        outside = np.flatnonzero(stay < 0)
        if len(outside) and not self._schema.drop_outside:
            raise InputError(f"{labels.place(outside[0])}: a label must be in a stay, but none is open then; {OUTSIDE}")
        self.left_out["labels outside of every stay"] += len(outside)
        self.left_out["labels before another one of the same hour"] += int((stay >= 0).sum() - (~np.isnan(value)).sum())
        return value, time
