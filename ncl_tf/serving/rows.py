"""Conversion of users' raw values, by name or in arrays, to the raw rows that exported models take, with checks."""

from collections.abc import Mapping
from typing import Any

import numpy as np

from ncl_tf.data.declaration import Channel, Dataset
from ncl_tf.errors import InputError


class RawRows:
    """Makes raw rows of R numbers: S static ones first, then D values; NaN means not measured.

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
        """Convert a DataFrame with columns of channels, in any order and among others, to [T, R]; others are not measured."""
        if not any(name in frame.columns for name in self.names):
            got = ", ".join(map(str, frame.columns)) or "none"
            raise InputError(f"the table must have columns of the channels {', '.join(self.names)}; got {got}")
        rows = np.full((len(frame), len(self.names)), np.nan, np.float32)
        for position, channel in enumerate(self.channels.values()):
            if channel.name not in frame.columns:
                continue
            column = frame[channel.name]
            for row in np.flatnonzero(~column.isna().to_numpy(bool)):
                rows[row, position] = _code(channel, column.iloc[row], f"row {row}")
        return rows

    def from_arrays(self, values: Any, static: Any) -> np.ndarray:
        """Convert values [T, D] and static values [S], [T, S] or by name to [T, R]."""
        values = floats(values, "the values")
        if values.ndim != 2 or values.shape[1] != len(self.value_names):
            expected = f"[hours, {len(self.value_names)}]: {', '.join(self.value_names)}"
            raise InputError(f"the values must have shape {expected}, got {list(values.shape)}")
        return np.concatenate([self.static_rows(static, len(values)), values], axis=1)

    def static_rows(self, static: Any, count: int) -> np.ndarray:
        """Convert static values [S], [T, S], by name or None (unknown) to [T, S]."""
        if static is None:
            return np.full((count, self.static), np.nan, np.float32)
        if isinstance(static, Mapping):
            static = self.from_names(static)[: self.static]
        static = floats(static, "the static values")
        if static.shape == (self.static,):
            return np.repeat(static[None], count, axis=0)
        if static.shape != (count, self.static):
            expected = f"[{self.static}] or [{count}, {self.static}]: {', '.join(self.static_names) or 'none'}"
            raise InputError(f"the static values must have shape {expected}, got {list(static.shape)}")
        return static

    def from_names(self, values: Mapping[str, Any]) -> np.ndarray:
        """Convert values by the channels' names to [R]; names that are left out are not measured."""
        row = np.full(len(self.names), np.nan, np.float32)
        for name, value in values.items():
            if name not in self.channels:
                raise InputError(f"a channel must be one of {', '.join(self.names)}, got {name!r}")
            if value is not None and value == value:
                row[self.names.index(name)] = _code(self.channels[name], value, "the row")
        return row

    def hours(self, rows: np.ndarray) -> np.ndarray:
        """Read the hour of each row [T, R], whole and rising: [T]; 0, 1, 2, ... if no channel holds it."""
        if not len(rows):
            raise InputError("a stay must have one row or more, got no rows")
        if self.hour is None:
            return np.arange(len(rows))
        hours, name = rows[:, self.hour], self.names[self.hour]
        for row in np.flatnonzero(~np.isfinite(hours) | (hours != np.floor(hours))):
            raise InputError(f"row {row}, channel {name}: must be a whole hour, got {hours[row]:g}")
        for row in np.flatnonzero(np.diff(hours) <= 0) + 1:
            raise InputError(f"row {row}, channel {name}: must increase, got {hours[row]:g} after {hours[row - 1]:g}")
        return hours


def floats(values: Any, what: str) -> np.ndarray:
    """Convert to a float32 array; `what` names the values in errors."""
    try:
        return np.asarray(values, np.float32)
    except (TypeError, ValueError) as error:
        raise InputError(f"{what} must be an array of numbers, got {error}") from error


def _code(channel: Channel, value: Any, where: str) -> float:
    try:
        return channel.code(str(value))
    except ValueError as error:
        raise InputError(f"{where}, channel {channel.name}: must be {channel.allowed}, got {str(value)!r}") from error


def remembered(dataset: Dataset) -> list[tuple[str, list[int]]]:
    """List what observation columns need to know of an hour beside the last values, with the channels that it is of.

    since: hours since the last measurement; count: measurements so far; before: the value measured before the last one.
    """
    needed = {"since": {"recency", "measured"}, "count": {"count"}, "before": {"change"}}
    numbers = [channel for channel in dataset.observed if dataset.channels[channel].kind == "continuous"]
    return [
        (name, numbers if name == "before" else dataset.observed)
        for name, observations in needed.items()
        if observations & set(dataset.observations)
    ]


def state_columns(dataset: Dataset) -> list[str]:
    """Name the numbers that the state of a patient has of each hour: all channels, then what observation columns need."""
    names = [channel.name for channel in dataset.channels]
    return names + [f"{names[channel]}:{name}" for name, channels in remembered(dataset) for channel in channels]
