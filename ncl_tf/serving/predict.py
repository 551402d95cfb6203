"""Scores of many stays, and the files that hold them; `bin/predict` is the program."""

from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any, TypeVar

import numpy as np

from ncl_tf.data.cohort import Cohort
from ncl_tf.data.declaration import Dataset
from ncl_tf.data.preprocessing import Preprocessor
from ncl_tf.data.stays import Stays
from ncl_tf.data.windows import Windows
from ncl_tf.errors import InputError
from ncl_tf.evaluation.predictions import Scores
from ncl_tf.serving.loading import Model

BATCH = 16384  # hours scored at once
Item = TypeVar("Item")


def score_raw(model: Model, stays: Stays, rows: np.ndarray, hours: np.ndarray) -> Scores:
    """Scores raw stays, as many at once as fill the machine.

    Args:
        model: the export.
        stays: on their hourly grid, channels in the model's order.
        rows: [rows] of the grid to keep, those that the source has.
        hours: [rows] as the source counts them.
    """
    batch = (np.cumsum(stays.lengths) - 1) // BATCH
    probabilities = []
    for chosen in np.split(np.arange(len(stays.names)), np.flatnonzero(np.diff(batch)) + 1):
        which = slice(stays.first_rows[chosen[0]], stays.first_rows[chosen[-1]] + stays.lengths[chosen[-1]])
        part = Stays(stays.names[chosen], stays.lengths[chosen], stays.values[which], stays.labels[which])
        probabilities.append(model.score_stays(part))
    stay = np.repeat(np.arange(len(stays.names)), stays.lengths)[rows]
    return Scores(stays.names, np.bincount(stay), hours, np.concatenate(probabilities)[rows])


def score_parts(
    model: Model, parts: Iterable[tuple[Stays, np.ndarray, np.ndarray]], progress: Callable[[int], Any]
) -> tuple[Scores, dict[str, int]]:
    """Scores raw stays while the next ones are read, and counts values outside their plausible range by channel.

    Args:
        model: the export.
        parts: the other arguments of `score_raw`, some stays at a time.
        progress: called with the number of stays just scored.
    """
    scores, outside = [], 0
    for stays, rows, hours in ahead(parts):
        outside += implausible(model.dataset, stays.values)
        scores.append(score_raw(model, stays, rows, hours))
        progress(len(stays.names))
    counts = zip(model.dataset.channels, outside, strict=True)
    return Scores.joined(scores), {channel.name: int(count) for channel, count in counts if count}


def score_cohort(model: Model, cohort: Cohort, split: str, progress: Callable[[int], Any]) -> Scores:
    """Scores a split of a cohort file that was prepared with the model's own preprocessor; `progress` takes hours."""
    trained_on = model.card["data"]["cohort_checksum"]
    if not _same(cohort.preprocessor, model.preprocessor) and cohort.checksum != trained_on:
        raise InputError(
            f"{cohort.path}: prepared with other channels or statistics than the model's training cohort "
            f"(SHA-256 {trained_on}); score its raw source instead"
        )
    data = cohort[split]
    batches = []
    for batch in Windows(data, model.history).sequential(BATCH // 8):  # windows take more memory than hours
        batches.append(model.predict(batch["window"]))
        progress(len(batches[-1]))
    return Scores(data.stay_names, data.lengths, data.hour, np.concatenate(batches))


def _same(one: Preprocessor | None, other: Preprocessor | None) -> bool:
    if one is None or other is None or one.dataset.columns != other.dataset.columns:
        return False
    return np.array_equal(one.mean, other.mean) and np.array_equal(one.scale, other.scale)


def implausible(dataset: Dataset, values: np.ndarray) -> np.ndarray:
    """[channels] how many of the raw values [hours, channels] lie outside their channel's range and count as missing."""
    low = np.array([-np.inf if c.low is None else c.low for c in dataset.channels], np.float32)
    high = np.array([np.inf if c.high is None else c.high for c in dataset.channels], np.float32)
    return ((values < low) | (values > high)).sum(axis=0)


def ahead(items: Iterable[Item]) -> Iterator[Item]:
    """The same items, each made by another thread while the one before is in use."""
    with ThreadPoolExecutor(1) as pool:
        iterator = iter(items)
        following = pool.submit(next, iterator, None)
        while (item := following.result()) is not None:
            following = pool.submit(next, iterator, None)
            yield item
