"""Features on raw rows, for classifiers that take measurements as they are: NaN where a value is not known.

Columns by kind, channel after channel in each part; values are filled forward and implausible ones are missing, as in cohorts,
but nothing is scaled or imputed:

last_hour    the last known value of every channel
window       last_hour, then the last known values 6, 12, ... hours before, up to 48 hours in all, of the dynamic channels
engineered   last_hour; of every dynamic channel the hours since its last measurement, then the number of measurements so far;
             of vital signs the minimum and the maximum of what was known in the last 6 hours, and the change since 6 hours before

The hour of the stay, where a channel holds it, is always known and has its value alone. Vital signs are the dynamic channels
with numbers that were measured in at least a quarter of the training hours.
"""

import dataclasses
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor

import numpy as np

from ncl_tf.data.cohort import Cohort
from ncl_tf.data.declaration import Dataset
from ncl_tf.data.observations import hours_since, measurements
from ncl_tf.data.preprocessing import clean
from ncl_tf.data.stays import Stays

KINDS = ("last_hour", "window", "engineered")
HOURS = 48  # of a window
STEP = 6  # hours from one value of a window to the next; also those of minimum, maximum and change
OFTEN = 0.25  # the share of training hours in which a vital sign is measured, at least


@dataclasses.dataclass(frozen=True)
class RawFeatures:
    """Features of one kind for the stays of one dataset.

    Attributes:
        kind: of `KINDS`.
        dataset: declares the channels.
        vital_signs: positions of those among the channels.
    """

    kind: str
    dataset: Dataset
    vital_signs: tuple[int, ...]

    @classmethod
    def of_cohort(cls, kind: str, cohort: Cohort) -> "RawFeatures":
        """Make the features for stays with the channels of a cohort, whose training split says which ones are vital signs."""
        dataset = cohort.preprocessor.dataset
        measured = [cohort.channel_statistics.get(channel.name, {}).get("measured", 0) for channel in dataset.channels]
        vital = [i for i in dataset.observed if dataset.channels[i].kind == "continuous" and measured[i] >= OFTEN]
        return cls(kind, dataset, tuple(vital))

    def __call__(self, stays: Stays) -> np.ndarray:
        """Compute the features of every hour: [hours, columns] float32."""
        known, first_rows = clean(self.dataset, stays).values, stays.first_rows
        observed, hour = self.dataset.observed, np.arange(len(known)) - np.repeat(first_rows, stays.lengths)
        parts: list[tuple[Sequence[int], Callable[[int], np.ndarray]]] = [
            (range(known.shape[1]), lambda index: known[:, index])
        ]
        if self.kind == "window":
            for hours in range(STEP, HOURS, STEP):
                parts.append((observed, lambda index, hours=hours: before(known[:, index], hour, hours)))
        if self.kind == "engineered":
            parts.append((observed, lambda index: hours_since(stays.values[:, index], first_rows)))
            parts.append((observed, lambda index: measurements(stays.values[:, index], first_rows)))
            parts.append((self.vital_signs, lambda index: recent(known[:, index], hour, np.fmin)))
            parts.append((self.vital_signs, lambda index: recent(known[:, index], hour, np.fmax)))
            parts.append((self.vital_signs, lambda index: known[:, index] - before(known[:, index], hour, STEP)))
        columns = [(compute, index) for indices, compute in parts for index in indices]
        table = np.empty((len(known), len(columns)), np.float32, order="F")

        def fill(position: int) -> None:
            compute, index = columns[position]
            table[:, position] = compute(index)

        with ThreadPoolExecutor(2) as pool:
            list(pool.map(fill, range(len(columns))))
        return table


def before(values: np.ndarray, hour: np.ndarray, hours: int) -> np.ndarray:
    """Find the value so many hours before: [hours]; NaN where the stay had not begun. `hour` [hours] counts from 0."""
    earlier = np.full_like(values, np.nan)
    earlier[hours:] = values[:-hours]
    earlier[hour < hours] = np.nan
    return earlier


def recent(values: np.ndarray, hour: np.ndarray, extreme: Callable[[np.ndarray, np.ndarray], np.ndarray]) -> np.ndarray:
    """Find the extreme, np.fmin or np.fmax, of the last 6 hours: [hours]; arguments as in `before`."""
    found = values
    for hours in range(1, STEP):
        found = extreme(found, before(values, hour, hours))
    return found
