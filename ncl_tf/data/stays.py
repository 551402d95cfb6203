"""Raw stays on an hourly grid, the common form that every source is read into."""

import dataclasses

import numpy as np

from ncl_tf.errors import InputError

LONGEST_STAY = 100_000  # hours, eleven years; a longer one is a typing error that would fill the memory


@dataclasses.dataclass
class Stays:
    """Many stays, their hours stacked.

    Attributes:
      names: [stays] the source's identifiers.
      lengths: [stays] hours of each stay; consecutive rows.
      values: [hours, channels] float32, raw, NaN where not measured; categorical channels hold level codes.
        Column-major, since cleaning and scaling go channel by channel.
      labels: [hours, tasks] float32, NaN where unlabelled.
      simulated: whether they come from the simulator, so that no real patient is behind them.
      subjects: [stays] the patient whom each stay is of; None if the source does not say.
      label_times: [hours, tasks] int64, the time that each label is of, in microseconds since 1970, any number where there is no
        label; None if the source counts hours only.
    """

    names: np.ndarray
    lengths: np.ndarray
    values: np.ndarray
    labels: np.ndarray
    simulated: bool = False
    subjects: np.ndarray | None = None
    label_times: np.ndarray | None = None

    @classmethod
    def from_rows(
        cls, names: np.ndarray, lengths: np.ndarray, hours: np.ndarray, values: np.ndarray, labels: np.ndarray
    ) -> "Stays":
        """Make stays from rows at whole hours, rising within each stay; missing hours become rows without values or labels.

        Stays have names and numbers of rows, [stays]; rows have hours [rows], values [rows, channels] and labels [rows, tasks].
        """
        last = np.cumsum(lengths) - 1
        ends = hours[last - lengths + 1], hours[last]
        hours_apart = ends[1].astype(np.float64) - ends[0]  # before rounding: some do not fit into an integer
        for stay in np.flatnonzero(hours_apart >= LONGEST_STAY):
            raise InputError(
                f"stay {names[stay]}: must have at most {LONGEST_STAY} hours, got hours {ends[0][stay]:.0f} to "
                f"{ends[1][stay]:.0f}"
            )
        first_hours, last_hours = (hour.astype(np.int64) for hour in ends)
        hourly = last_hours - first_hours + 1
        if np.array_equal(hourly, lengths):
            return cls(names, lengths, values, labels)
        stay = np.repeat(np.arange(len(names)), lengths)
        values, labels = (hourly_grid(stay, hours, rows, first_hours, hourly) for rows in (values, labels))
        return cls(names, hourly, values, labels)

    @classmethod
    def joined(cls, parts: dict[str, "Stays"]) -> "Stays":
        """Join the stays of several sources, whose names then begin the names of their stays and patients."""
        if len(parts) == 1:
            return next(iter(parts.values()))
        stays = list(parts.values())
        names = np.concatenate([[f"{source}_{name}" for name in part.names] for source, part in parts.items()])
        lengths, labels = (np.concatenate([getattr(part, field) for part in stays]) for field in ("lengths", "labels"))
        values = np.empty((len(labels), stays[0].values.shape[1]), np.float32, order="F")
        np.concatenate([part.values for part in stays], out=values)
        subjects = None
        if all(part.subjects is not None for part in stays):
            subjects = np.concatenate([[f"{source}_{one}" for one in part.subjects] for source, part in parts.items()])
        return cls(names, lengths, values, labels, all(part.simulated for part in stays), subjects)

    def fill_hours(self, channel: int) -> None:
        """Write the hour of every row into its channel, counted up from each stay's first row."""
        hours = self.values[:, channel]
        offset = np.arange(len(hours)) - np.repeat(self.first_rows, self.lengths)
        hours[:] = np.repeat(hours[self.first_rows], self.lengths) + offset

    @property
    def first_rows(self) -> np.ndarray:
        """[stays] row of each stay's first hour."""
        return np.cumsum(self.lengths) - self.lengths

    def rows(self, stays: np.ndarray) -> np.ndarray:
        """List all rows of the given stays (indices), stay after stay."""
        return concatenated_ranges(self.first_rows[stays], self.lengths[stays])

    def ever_positive(self, task: int = 0) -> np.ndarray:
        """Find the stays with label 1 at any hour in that task: [stays] bool."""
        return np.maximum.reduceat(self.labels[:, task] == 1, self.first_rows)


def rows_on_grid(lengths: np.ndarray, hours: np.ndarray) -> np.ndarray:
    """Compute the row at which `Stays.from_rows` puts each row: [rows]; arguments as there."""
    last = np.cumsum(lengths) - 1
    first = last - lengths + 1
    hourly = (hours[last] - hours[first]).astype(np.int64) + 1
    start = np.cumsum(hourly) - hourly
    return np.repeat(start, lengths) + (hours - np.repeat(hours[first], lengths)).astype(np.int64)


def concatenated_ranges(firsts: np.ndarray, lengths: np.ndarray) -> np.ndarray:
    """Concatenate the ranges first, first + 1, ..., first + length - 1 of all pairs."""
    ends = np.cumsum(lengths)
    return np.arange(ends[-1] if len(ends) else 0) + np.repeat(firsts - (ends - lengths), lengths)


def hourly_grid(
    stay: np.ndarray, time: np.ndarray, values: np.ndarray, first_hours: np.ndarray, lengths: np.ndarray
) -> np.ndarray:
    """Put events on an hourly grid: each hour gets, channel by channel, the last value since the hour before.

    An event at time t belongs to hour ceil(t). Events before a stay's first hour count at its first hour; events
    after its last hour are dropped. Filling the result forward yields "the last value at or before hour k".

    Args:
      stay: [events] index of the stay, events of one stay in order of time.
      time: [events] hours, fractional; values: [events, channels], NaN where not measured.
      first_hours, lengths: [stays] hour of the first row, and number of hourly rows, of each stay.

    Returns:
      [sum of lengths, channels] float32, column-major.
    """
    offset = np.maximum(np.ceil(time).astype(np.int64) - first_hours[stay], 0)
    within = offset < lengths[stay]
    row = (np.cumsum(lengths) - lengths)[stay] + offset
    grid = np.full((int(np.sum(lengths)), values.shape[1]), np.nan, np.float32, order="F")
    for channel in range(values.shape[1]):
        measured = within & ~np.isnan(values[:, channel])
        grid[row[measured], channel] = values[measured, channel]  # of repeated rows the last one stays
    return grid
