"""Scoring of many raw stays or of a cohort, for `bin/predict`."""

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
    """Score raw stays, in batches large enough to use the whole machine.

    Args:
        stays: on their hourly grid, channels in the model's order.
        rows: [rows] the rows of the grid that the source has; the others are not returned.
        hours: [rows] the hours as the source counts them.
    """
    batch = (np.cumsum(stays.lengths) - 1) // BATCH
    batches = []
    for chosen in np.split(np.arange(len(stays.names)), np.flatnonzero(np.diff(batch)) + 1):
        which = slice(stays.first_rows[chosen[0]], stays.first_rows[chosen[-1]] + stays.lengths[chosen[-1]])
        part = Stays(stays.names[chosen], stays.lengths[chosen], stays.values[which], stays.labels[which])
        batches.append(model.outputs_of_stays(part))
    stay = np.repeat(np.arange(len(stays.names)), stays.lengths)[rows]
    probabilities, risks = _joined(batches)
    return Scores(stays.names, np.bincount(stay), hours, probabilities[rows], None if risks is None else risks[rows])


def _joined(batches: list[dict[str, np.ndarray]]) -> tuple[np.ndarray, np.ndarray | None]:
    """Join the outputs of a classifier: probabilities [hours, K], and risks [hours] if it gives them."""
    parts = ([batch.get(name) for batch in batches] for name in ("probabilities", "risk"))
    return tuple(None if values[0] is None else np.concatenate(values) for values in parts)


def score_parts(
    model: Model, parts: Iterable[tuple[Stays, np.ndarray, np.ndarray]], progress: Callable[[int], Any]
) -> tuple[Scores, dict[str, int]]:
    """Score raw stays while the next ones are read, and count values outside their plausible range by channel.

    Parts are the arguments of `score_raw` after the model; `progress` is called with the number of stays just scored.
    """
    scores, outside = [], 0
    for stays, rows, hours in ahead(parts):
        outside += implausible(model.dataset, stays.values)
        scores.append(score_raw(model, stays, rows, hours))
        progress(len(stays.names))
    counts = zip(model.dataset.channels, outside, strict=True)
    columns = zip(*scores, strict=True)
    joined = Scores(*(None if column[0] is None else np.concatenate(column) for column in columns))
    return joined, {channel.name: int(count) for channel, count in counts if count}


def score_cohort(model: Model, cohort: Cohort, split: str, progress: Callable[[int], Any]) -> Scores:
    """Score a split of a cohort that was prepared exactly as the model's data; `progress` is called with hours."""
    trained_on = model.card["data"]["cohort_checksum"]
    of_authors = cohort.preprocessor is None and cohort.checksum == trained_on
    if not of_authors and (different := _difference(cohort.preprocessor, model.preprocessor)):
        raise InputError(
            f"{cohort.path}: must be prepared as the model's training cohort (SHA-256 {trained_on}), got another "
            f"{different}; score its raw source instead"
        )
    data = cohort[split]
    batches = []
    for batch in Windows(data, model.history).sequential(BATCH // 8):  # windows take more memory than hours
        batches.append(model.outputs_of_windows(batch["window"]))
        progress(len(batch["window"]))
    return Scores(data.stay_names, data.lengths, data.hour, *_joined(batches))


def _difference(found: Preprocessor | None, expected: Preprocessor | None) -> str:
    """Describe the first difference of two preprocessors that changes prepared values; empty if there is none."""
    if found is None or expected is None:
        return "preprocessor"
    if found.dataset.columns != expected.dataset.columns:
        return "list of channels"
    pairs = zip(found.dataset.channels, expected.dataset.channels, strict=True)
    ranges = [(one.low, one.high) == (other.low, other.high) for one, other in pairs]
    numbers = ["mean", "scale", *(["count_mean", "count_scale"] if found.count_mean is not None else [])]
    fitted = [(name, getattr(found, name) == getattr(expected, name)) for name in numbers]
    for what, same in [("range", ranges), *fitted]:
        if not np.all(same):
            return f"{what} of {found.dataset.channels[np.argmin(same)].name}"
    return ""


def implausible(dataset: Dataset, values: np.ndarray) -> np.ndarray:
    """Count the raw values [hours, channels] outside their channel's range, which are treated as missing: [channels]."""
    low = np.array([-np.inf if c.low is None else c.low for c in dataset.channels], np.float32)
    high = np.array([np.inf if c.high is None else c.high for c in dataset.channels], np.float32)
    return ((values < low) | (values > high)).sum(axis=0)


def ahead(items: Iterable[Item]) -> Iterator[Item]:
    """Yield the items, each made by another thread while the one before is in use."""
    with ThreadPoolExecutor(1) as pool:
        iterator = iter(items)
        following = pool.submit(next, iterator, None)
        while (item := following.result()) is not None:
            following = pool.submit(next, iterator, None)
            yield item
