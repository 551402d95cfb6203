"""From raw hourly stays to model inputs: forward fill, plausible ranges, scaling, one-hot, zero imputation.

All of it is fitted on the training split and kept as a `Preprocessor`, which travels with the cohort file and with every
exported model, so that raw measurements can later be prepared in exactly the same way.
"""

import dataclasses
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import numpy as np

from ncl_tf.data.declaration import Channel, Dataset
from ncl_tf.data.observations import last_measured
from ncl_tf.data.stays import Stays


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
    """

    dataset: Dataset
    mean: np.ndarray
    scale: np.ndarray

    @classmethod
    def fit(cls, dataset: Dataset, cleaned: Stays, training: np.ndarray) -> "Preprocessor":
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
        return cls(dataset, mean, scale)

    def transform(self, cleaned: Stays) -> np.ndarray:
        """Scale, one-hot code and impute zeros: cleaned stays -> [hours, columns] float32."""
        table = np.zeros((len(cleaned.values), len(self.dataset.columns)), np.float32)
        position = np.cumsum([0] + [len(channel.columns) for channel in self.dataset.channels])

        def transform_channel(index: int) -> None:
            channel, values = self.dataset.channels[index], cleaned.values[:, index]
            if channel.kind == "continuous":
                table[:, position[index]] = np.nan_to_num((values - self.mean[index]) / self.scale[index], nan=0.0)
            else:
                levels = channel.levels if len(channel.levels) > 2 else channel.levels[1:]
                for offset, level in enumerate(levels):
                    table[:, position[index] + offset] = values == np.float32(level)

        _for_each_channel(transform_channel, self.dataset)
        return table

    def __call__(self, stays: Stays) -> np.ndarray:
        """Prepare raw stays as the cohort holds them: [hours, columns] float32."""
        return self.transform(clean(self.dataset, stays))

    def to_json(self) -> dict[str, Any]:
        """Convert to plain values; float32 numbers survive the round trip."""
        return {"dataset": dataclasses.asdict(self.dataset), "mean": self.mean.tolist(), "scale": self.scale.tolist()}

    @classmethod
    def from_json(cls, value: dict[str, Any]) -> "Preprocessor":
        """Convert back from the result of `to_json`."""
        mean, scale = (np.asarray(value[key], np.float32) for key in ("mean", "scale"))
        return cls(Dataset.from_json(value["dataset"]), mean, scale)
