"""From raw hourly stays to model inputs: forward fill, plausible ranges, scaling, one-hot, zero imputation; observations.

All of it is fitted on the training split and kept as a `Preprocessor`, which travels with the cohort file and with every
exported model, so that raw measurements can later be prepared in exactly the same way.
"""

import dataclasses
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import numpy as np

from ncl_tf.data.declaration import Channel, Dataset
from ncl_tf.data.observations import last_measured, measured_before, measurements, recency
from ncl_tf.data.stays import Stays
from ncl_tf.errors import InputError

STAYS_AT_ONCE = 256  # are transformed within the cache: writing single columns of a large table is slow
PARTS_AT_ONCE = 8  # of so many stays are held, as tables of many hours and columns are large


def _for_each_channel(function: Callable[[int], None], dataset: Dataset) -> None:
    """Call `function` with every channel's index on two threads: numpy releases the lock, and more would wait for memory."""
    with ThreadPoolExecutor(2) as pool:
        list(pool.map(function, range(len(dataset.channels))))


def last_observed(values: np.ndarray, first_rows: np.ndarray) -> np.ndarray:
    """Fill one channel [hours] forward within each stay; hours before the first measurement stay NaN."""
    return values[last_measured(values, first_rows)]


def plausible(values: np.ndarray, channel: Channel) -> np.ndarray:
    """Replace the values of one channel [hours] outside its plausible range by NaN."""
    low = -np.inf if channel.low is None else channel.low
    high = np.inf if channel.high is None else channel.high
    return np.where((values < np.float32(low)) | (values > np.float32(high)), np.float32(np.nan), values)


def clean(dataset: Dataset, stays: Stays) -> Stays:
    """Fill forward within each stay, then make values outside the plausible ranges missing, in this order."""
    cleaned = np.empty_like(stays.values, order="F")
    first_rows = stays.first_rows

    def clean_channel(index: int) -> None:
        filled = last_observed(stays.values[:, index], first_rows)
        cleaned[:, index] = plausible(filled, dataset.channels[index])

    _for_each_channel(clean_channel, dataset)
    return dataclasses.replace(stays, values=cleaned)


@dataclasses.dataclass(frozen=True)
class Preprocessor:
    """Scaling statistics of a training split and the declaration that defines how to apply them.

    Attributes:
      dataset: the declaration.
      mean, scale: [channels] float32; 0 and 1 for categorical channels, which are not scaled.
      count_mean, count_scale: [channels] float32, of log(1 + measurements so far); None without the observation count.
    """

    dataset: Dataset
    mean: np.ndarray
    scale: np.ndarray
    count_mean: np.ndarray | None = None
    count_scale: np.ndarray | None = None

    @classmethod
    def fit(cls, dataset: Dataset, stays: Stays, cleaned: Stays, training: np.ndarray) -> "Preprocessor":
        """Compute mean and standard deviation of the training stays (indices), missing values ignored.

        Dynamic channels count every training hour, static ones the first hour of each training stay.
        """
        hours, first_hours = cleaned.rows(training), cleaned.first_rows[training]
        mean = np.zeros(len(dataset.channels), np.float32)
        scale = np.ones(len(dataset.channels), np.float32)

        def fit_channel(index: int) -> None:
            channel = dataset.channels[index]
            if channel.kind == "categorical":
                return
            values = cleaned.values[first_hours if channel.static else hours, index].astype(np.float64)
            values = values[~np.isnan(values)]
            if len(values):
                mean[index] = values.mean()
                scale[index] = values.std() or 1.0  # a constant channel is only centered

        _for_each_channel(fit_channel, dataset)
        if "count" not in dataset.observations:
            return cls(dataset, mean, scale)
        count_mean, count_scale = np.zeros_like(mean), np.ones_like(scale)

        def fit_count(index: int) -> None:
            if index in dataset.observed:
                hours_with = np.bincount(measurements(stays.values[:, index], stays.first_rows)[hours])
                logarithms = np.log1p(np.arange(len(hours_with)))
                count_mean[index] = np.average(logarithms, weights=hours_with)
                variance = np.average((logarithms - count_mean[index]) ** 2, weights=hours_with)
                count_scale[index] = np.sqrt(variance) or 1.0

        _for_each_channel(fit_count, dataset)
        return cls(dataset, mean, scale, count_mean, count_scale)

    def transform(self, stays: Stays, cleaned: Stays) -> np.ndarray:
        """Scale, one-hot code, impute zeros and append observations: raw and cleaned stays -> [hours, columns] float32."""
        table = np.empty((len(cleaned.values), len(self.dataset.columns)), np.float32)
        for rows, part in self.transform_parts(stays, cleaned, np.arange(len(stays.lengths))):
            table[rows] = part
        return table

    def transform_parts(self, stays: Stays, cleaned: Stays, chosen: np.ndarray) -> Iterator[tuple[slice, np.ndarray]]:
        """Transform the chosen stays (indices), some at a time: their rows among those of all chosen, and the columns there."""
        ends = np.cumsum(stays.lengths[chosen])

        def part(begin: int) -> tuple[slice, np.ndarray]:
            some = chosen[begin : begin + STAYS_AT_ONCE]
            rows, first_rows = stays.rows(some), ends[begin : begin + len(some)] - stays.lengths[some]
            columns = self._columns(stays.values[rows], cleaned.values[rows], first_rows - first_rows[0])
            return slice(first_rows[0], ends[begin + len(some) - 1]), columns.T

        with ThreadPoolExecutor(2) as pool:
            begins = range(0, len(chosen), STAYS_AT_ONCE)
            for first in range(0, len(begins), PARTS_AT_ONCE):
                yield from pool.map(part, begins[first : first + PARTS_AT_ONCE])

    def _columns(self, raw: np.ndarray, known: np.ndarray, first_rows: np.ndarray) -> np.ndarray:
        """Prepare the raw and cleaned values [hours, channels] of some stays: [columns, hours] float32."""
        columns = np.empty((len(self.dataset.columns), len(raw)), np.float32)
        unfilled = iter(columns)
        for index, channel in enumerate(self.dataset.channels):
            if channel.kind == "continuous":
                scaled = (known[:, index] - self.mean[index]) / self.scale[index]
                next(unfilled)[:] = np.nan_to_num(scaled, nan=0.0)
            else:
                for level in channel.levels if len(channel.levels) > 2 else channel.levels[1:]:
                    next(unfilled)[:] = known[:, index] == np.float32(level)
        for observation, index in self.dataset.observation_columns:
            next(unfilled)[:] = self._observed(observation, index, raw[:, index], known[:, index], first_rows)
        return columns

    def _observed(
        self, observation: str, index: int, raw: np.ndarray, known: np.ndarray, first_rows: np.ndarray
    ) -> np.ndarray:
        """Compute an observation column [hours] of the channel at `index`."""
        if observation == "recency":
            return recency(raw, first_rows)
        if observation == "count":
            counts = measurements(raw, first_rows)
            logarithms = np.log1p(np.arange(counts.max() + 1, dtype=np.float32))
            return ((logarithms - self.count_mean[index]) / self.count_scale[index])[counts]
        if observation == "measured":
            return ~np.isnan(raw)
        before = plausible(measured_before(raw, first_rows), self.dataset.channels[index])
        return np.nan_to_num((known - before) / self.scale[index], nan=0.0)

    def __call__(self, stays: Stays) -> np.ndarray:
        """Prepare raw stays as the cohort holds them: [hours, columns] float32."""
        return self.transform(stays, clean(self.dataset, stays))

    def to_json(self) -> dict[str, Any]:
        """Convert to plain values; float32 numbers survive the round trip."""
        fitted = {name: getattr(self, name) for name in ("mean", "scale", "count_mean", "count_scale")}
        numbers = {name: values.tolist() for name, values in fitted.items() if values is not None}
        return {"dataset": self.dataset.to_json(), **numbers}

    @classmethod
    def from_json(cls, value: dict[str, Any]) -> "Preprocessor":
        """Convert back from the result of `to_json`, which may come from a damaged file."""
        dataset = Dataset.from_json(value["dataset"])
        fitted = {name: np.asarray(numbers, np.float32) for name, numbers in value.items() if name != "dataset"}
        wanted = ["mean", "scale"] + ["count_mean", "count_scale"] * ("count" in dataset.observations)
        if list(fitted) != wanted:
            raise InputError(f"preprocessor: must have {', '.join(wanted)}, got {', '.join(fitted)}")
        for name, numbers in fitted.items():
            sound = np.isfinite(numbers) & ((numbers > 0) if "scale" in name else True)
            if numbers.shape != (len(dataset.channels),) or not sound.all():
                what = "finite numbers" + " above 0" * ("scale" in name)
                raise InputError(
                    f"preprocessor, {name}: must be {len(dataset.channels)} {what}, one for each channel, got {value[name]}"
                )
        return cls(dataset, **fitted)
