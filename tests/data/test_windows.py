"""Windows against a slice-and-pad loop in numpy; the order of training and of evaluation."""

import itertools
from collections.abc import Iterable

import numpy as np
import pytest
import tensorflow as tf

from ncl_tf.data.cohort import SplitData
from ncl_tf.data.windows import Windows, shuffled
from refusals import refused


def split_of(seed: int, lengths: list[int], columns: int = 3, tasks: int = 2) -> SplitData:
    """A made-up split; stay ids are neither in order nor row numbers."""
    rng = np.random.default_rng(seed)
    last = np.cumsum(lengths) - 1
    ids = rng.permutation(10 * len(lengths))[: len(lengths)] + 100
    hours = int(last[-1]) + 1
    labels = rng.integers(-1, 2, (hours, tasks)).astype(np.int32)
    return SplitData(
        data=rng.normal(size=(hours, columns)).astype(np.float32),
        labels=np.where(labels < 0, np.nan, labels).astype(np.float32),
        classes=labels,
        patient_windows=np.stack([last - lengths + 1, last, ids], axis=1).astype(np.int32),
        stay_names=ids.astype(str),
    )


def samples_by_loop(split: SplitData, history: int) -> list[dict[str, np.ndarray]]:
    """All samples of a split, row by row: cut the stay's hours out, put zeros before them."""
    samples = []
    for first, last, stay in split.patient_windows:
        for row in range(first, last + 1):
            observed = split.data[max(first, row - history + 1) : row + 1]
            window = np.zeros((history, split.data.shape[1]), np.float32)
            window[history - len(observed) :] = observed
            samples.append({"window": window, "stay": stay, "hour": row - first, "label": split.classes[row]})
    return samples


DTYPES = {"window": tf.float32, "stay": tf.int32, "hour": tf.int32, "label": tf.int32}


def assert_equal(batches: Iterable[dict[str, tf.Tensor]], samples: list[dict[str, np.ndarray]]) -> None:
    """The batches hold exactly these samples, in this order."""
    start = 0
    for batch in batches:
        assert {key: value.dtype for key, value in batch.items()} == DTYPES
        expected = samples[start : start + len(batch["stay"])]
        for key, value in batch.items():
            np.testing.assert_array_equal(value.numpy(), np.stack([sample[key] for sample in expected]), err_msg=key)
        start += len(expected)
    assert start == len(samples)


def rows_of(split: SplitData, batch: dict[str, tf.Tensor]) -> list[int]:
    """Rows of a batch's samples, from their stay and hour."""
    first = {int(stay): int(row) for row, _, stay in split.patient_windows}
    return [first[stay] + hour for stay, hour in zip(batch["stay"].numpy(), batch["hour"].numpy(), strict=True)]


HISTORY = 48
LENGTHS = [1, 60, 5, 3, 49, 48, 47, 2]  # 215 hours


@pytest.mark.parametrize(("seed", "history"), [(0, 48), (1, 48), (2, 1), (3, 7), (4, 96)])
def test_sequential_equals_a_slice_and_pad_loop(seed, history):
    split = split_of(seed, LENGTHS)
    assert_equal(Windows(split, history).sequential(64), samples_by_loop(split, history))


@pytest.mark.parametrize(("count", "batch_size"), [(215, 64), (100, 50), (215, 1), (215, 215), (215, 1000), (0, 8)])
def test_sequential_takes_chosen_rows_in_their_order(count, batch_size):
    split, rows = split_of(5, LENGTHS), np.random.default_rng(0).permutation(215)[:count]
    batches, expected = list(Windows(split, HISTORY).sequential(batch_size, rows)), samples_by_loop(split, HISTORY)
    assert_equal(batches, [expected[row] for row in rows])
    assert all(len(batch["stay"]) == batch_size for batch in batches[:-1])


@pytest.mark.parametrize(("size", "parts", "history"), [(64, 1, 48), (300, 1, 48), (20, 3, 48), (43, 2, 7), (1, 1, 48)])
def test_stretches_hold_every_window_once(size, parts, history):
    """The hours before each hour, as many as its `hour` counts, and labels, stretch by stretch from all parts in turn."""
    split = split_of(6, LENGTHS)
    batches = [list(Windows(split, history, (part, parts)).stretches(size, parts)) for part in range(parts)]
    windows, labels = [], []
    for stretch in itertools.chain(*zip(*batches, strict=True)):
        (rows,), (hour,), (label,) = (stretch[name].numpy() for name in ("rows", "hour", "label"))
        labels += label.tolist()
        for end in range(history, history + size):
            window = np.zeros((history, 3), np.float32)
            observed = min(hour[end - 1] + 1, history)
            window[history - observed :] = rows[end - observed : end]
            windows.append(window)
    expected = samples_by_loop(split, history)
    np.testing.assert_array_equal(windows[:215], [sample["window"] for sample in expected])
    np.testing.assert_array_equal(labels[:215], split.classes)
    assert len(labels) < 215 + size * parts
    assert np.all(np.array(labels[215:]) == -1)


def test_no_thread_tunes_the_pipeline():
    """Dropping an iterator may wait for such a thread, at every report of a training."""
    windows = Windows(split_of(0, LENGTHS), HISTORY)
    for batches in (windows.training(32, seed=1), windows.sequential(32), windows.stretches(32)):
        assert batches.options().autotune.enabled is False


@pytest.mark.parametrize(("seed", "lengths", "batch_size"), [(0, LENGTHS, 40), (2**31 - 1, LENGTHS, 40), (0, [1], 1)])
def test_training_windows_equal_the_loop(seed, lengths, batch_size):
    split = split_of(seed, lengths)
    expected = samples_by_loop(split, HISTORY)
    for batch in Windows(split, HISTORY).training(batch_size, seed).take(12):  # more than two epochs
        assert_equal([batch], [expected[row] for row in rows_of(split, batch)])


@pytest.mark.parametrize(("batch_size", "first_step"), [(40, 0), (40, 5), (40, 17), (215, 3), (7, 1000)])
def test_any_step_can_be_reached_directly(batch_size, first_step):
    windows = Windows(split_of(0, LENGTHS), HISTORY)
    iterated = itertools.islice(windows.training(batch_size, seed=3), first_step, first_step + 3)
    direct = windows.training(batch_size, seed=3, first_step=first_step).take(3)
    for one, other in zip(iterated, direct, strict=True):
        for key in one:
            np.testing.assert_array_equal(one[key], other[key])


@pytest.mark.parametrize("batch_size", [1, 43, 64, 200, 215])
def test_every_hour_once_per_epoch_across_batch_borders(batch_size):
    split = split_of(1, LENGTHS)
    epochs = 3
    batches = Windows(split, HISTORY).training(batch_size, seed=11).take(-(-epochs * 215 // batch_size))
    rows = [row for batch in batches for row in rows_of(split, batch)][: epochs * 215]
    orders = [tuple(rows[e * 215 : (e + 1) * 215]) for e in range(epochs)]
    assert all(sorted(order) == list(range(215)) for order in orders)
    other = next(iter(Windows(split, HISTORY).training(batch_size, seed=12)))
    assert len(set(orders)) == epochs
    assert rows_of(split, other) != rows[:batch_size]


def test_every_seed_and_epoch_has_its_own_order():
    """Also where these agree in their last bits; and every position gets every hour about equally often."""
    count, positions = 50, tf.range(50, dtype=tf.int64)
    keys = [(3, epoch) for epoch in range(600)] + [(3 + 256 * k, 0) for k in range(1, 50)] + [(1, 3), (3 + 2**16, 0)]
    one_order = tf.function(lambda key: shuffled(positions, key[1], count, key[0]))
    orders = tf.map_fn(one_order, np.int64(keys), fn_output_signature=tf.int32).numpy()
    assert (np.sort(orders, axis=1) == np.arange(count)).all()
    assert len({tuple(order) for order in orders}) == len(keys)
    expected = len(keys) / count
    statistics = [((np.bincount(column, minlength=count) - expected) ** 2 / expected).sum() for column in orders.T]
    degrees = count - 1  # of freedom; chi-squared has this mean and a standard deviation of sqrt(2 degrees)
    assert abs(np.mean(statistics) - degrees) < 5 * np.sqrt(2 * degrees / count)


@pytest.mark.parametrize("batch_size", [0, -1, 216])
def test_bad_sizes(batch_size):
    split = split_of(0, LENGTHS)
    with refused("batch_size & 1 to 215", f"got {batch_size}"):
        Windows(split, HISTORY).training(batch_size, seed=0)
    if batch_size < 1:
        with refused("batch_size & 1 or more", f"got {batch_size}"):
            Windows(split, HISTORY).sequential(batch_size)
        with refused("history & 1 hour or more", f"got {batch_size}"):
            Windows(split, history=batch_size)
