"""Raw values as people have them, by name or in arrays, made into the raw rows that exported models take, and checked."""

from collections.abc import Mapping
from typing import Any

import numpy as np

from ncl_tf.data.declaration import Channel, Dataset
from ncl_tf.errors import InputError


class RawRows:
    """Makes raw rows: R numbers, S static ones first, then D values; NaN where not measured.

    Args:
        dataset: declares the channels.
    """

    def __init__(self, dataset: Dataset) -> None:
        self.channels = {channel.name: channel for channel in dataset.channels}
        self.names = list(self.channels)
        self.static_names = [channel.name for channel in dataset.channels if channel.static]
        self.value_names = self.names[len(self.static_names) :]
        self.static = len(self.static_names)
        self.hour = self.names.index(dataset.hour) if dataset.hour else None

    def from_frame(self, frame: Any) -> np.ndarray:
        """A DataFrame with a column for each channel, in any order and among others -> [T, R]."""
        missing = [name for name in self.names if name not in frame.columns]
        if missing:
            raise InputError(f"the table has no column {', '.join(missing)}; expected are {', '.join(self.names)}")
        rows = np.full((len(frame), len(self.names)), np.nan, np.float32)
        for position, channel in enumerate(self.channels.values()):
            column = frame[channel.name]
            for row in np.flatnonzero(~column.isna().to_numpy(bool)):
                rows[row, position] = _code(channel, column.iloc[row], f"row {row}")
        return rows

    def from_arrays(self, values: Any, static: Any) -> np.ndarray:
        """Values [T, D] and static values [S], [T, S] or by name -> [T, R]."""
        values = floats(values, "the values")
        if values.ndim != 2 or values.shape[1] != len(self.value_names):
            expected = f"[hours, {len(self.value_names)}]: {', '.join(self.value_names)}"
            raise InputError(f"the values have shape {list(values.shape)}; expected are {expected}")
        return np.concatenate([self.static_rows(static, len(values)), values], axis=1)

    def static_rows(self, static: Any, count: int) -> np.ndarray:
        """Static values [S], [T, S], by name, or None: not known -> [T, S]."""
        if static is None:
            return np.full((count, self.static), np.nan, np.float32)
        if isinstance(static, Mapping):
            static = self.from_names(static)[: self.static]
        static = floats(static, "the static values")
        if static.shape == (self.static,):
            return np.repeat(static[None], count, axis=0)
        if static.shape != (count, self.static):
            expected = f"[{self.static}] or [{count}, {self.static}]: {', '.join(self.static_names) or 'none'}"
            raise InputError(f"the static values have shape {list(static.shape)}; expected are {expected}")
        return static

    def from_names(self, values: Mapping[str, Any]) -> np.ndarray:
        """Values by the channels' names, those left out being not measured -> [R]."""
        row = np.full(len(self.names), np.nan, np.float32)
        for name, value in values.items():
            if name not in self.channels:
                raise InputError(f"no channel {name!r}; expected are {', '.join(self.names)}")
            if value is not None and value == value:
                row[self.names.index(name)] = _code(self.channels[name], value, "the row")
        return row

    def hours(self, rows: np.ndarray) -> np.ndarray:
        """[T] the hour of each row [T, R], whole and rising; 0, 1, 2, ... where no channel holds it."""
        if not len(rows):
            raise InputError("the stay has no rows; allowed: one per hour, at least one")
        if self.hour is None:
            return np.arange(len(rows))
        hours, name = rows[:, self.hour], self.names[self.hour]
        for row in np.flatnonzero(~np.isfinite(hours) | (hours != np.floor(hours))):
            raise InputError(f"row {row}, channel {name}: {hours[row]:g} is not a whole hour")
        for row in np.flatnonzero(np.diff(hours) <= 0) + 1:
            raise InputError(f"row {row}, channel {name}: {hours[row]:g} follows {hours[row - 1]:g}; hours must rise")
        return hours


def floats(values: Any, what: str) -> np.ndarray:
    """As float32 array."""
    try:
        return np.asarray(values, np.float32)
    except (TypeError, ValueError) as error:
        raise InputError(f"{what} are not an array of numbers: {error}") from error


def _code(channel: Channel, value: Any, where: str) -> float:
    try:
        return channel.code(str(value))
    except ValueError as error:
        raise InputError(f"{where}, channel {channel.name}: {str(value)!r} is not {channel.allowed}") from error
