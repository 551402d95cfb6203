"""Windows against a slice-and-pad loop in numpy; the order of training and of evaluation."""

import itertools

import numpy as np
import pytest
import tensorflow as tf

from ncl_tf.data.cohort import Cohort, SplitData
from ncl_tf.data.windows import Windows, shuffled
from ncl_tf.errors import InputError


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


def assert_batch_equals(batch: dict[str, tf.Tensor], samples: list[dict[str, np.ndarray]]) -> None:
    assert set(batch) == {"window", "stay", "hour", "label"}
    for key, value in batch.items():
        np.testing.assert_array_equal(value.numpy(), np.stack([sample[key] for sample in samples]), err_msg=key)


def rows_of(split: SplitData, batch: dict[str, tf.Tensor]) -> list[int]:
    """Rows of a batch's samples, from their stay and hour."""
    first = {int(stay): int(row) for row, _, stay in split.patient_windows}
    return [first[stay] + hour for stay, hour in zip(batch["stay"].numpy(), batch["hour"].numpy(), strict=True)]


HISTORY = 48
LENGTHS = [1, 60, 5, 3, 49, 48, 47, 2]  # 215 hours


@pytest.mark.parametrize(("seed", "history"), [(0, 48), (1, 48), (2, 1), (3, 7), (4, 96)])
def test_sequential_equals_a_slice_and_pad_loop(seed, history):
    split = split_of(seed, LENGTHS)
    expected = samples_by_loop(split, history)
    start = 0
    for batch in Windows(split, history).sequential(64):
        size = len(batch["stay"])
        assert_batch_equals(batch, expected[start : start + size])
        start += size
    assert start == sum(LENGTHS)


def test_dtypes_and_shapes():
    batch = next(iter(Windows(split_of(0, LENGTHS, columns=4), HISTORY).training(32, seed=1)))
    assert {key: (value.dtype, value.shape) for key, value in batch.items()} == {
        "window": (tf.float32, (32, HISTORY, 4)),
        "stay": (tf.int32, (32,)),
        "hour": (tf.int32, (32,)),
        "label": (tf.int32, (32, 2)),
    }


@pytest.mark.parametrize(("count", "batch_size"), [(215, 64), (215, 1), (215, 215), (215, 1000), (0, 8)])
def test_sequential_drops_nothing(count, batch_size):
    split = split_of(0, LENGTHS)
    rows = np.random.default_rng(0).permutation(215)[:count]
    batches = list(Windows(split, HISTORY).sequential(batch_size, rows))
    assert [row for batch in batches for row in rows_of(split, batch)] == rows.tolist()


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


def test_sequential_over_chosen_rows():
    split = split_of(5, LENGTHS)
    labelled = np.flatnonzero(split.classes[:, 0] >= 0)
    expected = samples_by_loop(split, HISTORY)
    batches = list(Windows(split, HISTORY).sequential(50, labelled))
    assert [len(batch["stay"]) for batch in batches[:-1]] == [50] * (len(batches) - 1)
    start = 0
    for batch in batches:
        size = len(batch["stay"])
        assert_batch_equals(batch, [expected[row] for row in labelled[start : start + size]])
        start += size
    assert start == len(labelled)


@pytest.mark.parametrize("seed", [0, 7, 2**31 - 1])
def test_training_windows_equal_the_loop(seed):
    split = split_of(seed, LENGTHS)
    expected = samples_by_loop(split, HISTORY)
    for batch in Windows(split, HISTORY).training(40, seed).take(12):  # more than two epochs
        assert_batch_equals(batch, [expected[row] for row in rows_of(split, batch)])


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
    assert len(set(orders)) == epochs


def test_orders_of_different_seeds_differ():
    split = split_of(1, LENGTHS)
    firsts = [tuple(rows_of(split, next(iter(Windows(split, HISTORY).training(64, seed))))) for seed in range(3)]
    assert len(set(firsts)) == 3


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


def test_one_hour_is_enough():
    split = split_of(0, [1])
    batch = next(iter(Windows(split, HISTORY).training(1, seed=0)))
    assert_batch_equals(batch, samples_by_loop(split, HISTORY))


@pytest.mark.parametrize("batch_size", [0, -1, 216])
def test_bad_batch_sizes(batch_size):
    windows = Windows(split_of(0, LENGTHS), HISTORY)
    with pytest.raises(InputError, match=f"batch_size must be 1 to 215.*got {batch_size}"):
        windows.training(batch_size, seed=0)
    if batch_size < 1:
        with pytest.raises(InputError, match=f"1 or more, got {batch_size}"):
            windows.sequential(batch_size)


def test_bad_history():
    with pytest.raises(InputError, match="history must be 1 hour or more, got 0"):
        Windows(split_of(0, LENGTHS), history=0)


@pytest.mark.parametrize("name", ["ward_cohort", "mimic_ward_cohort"])
def test_windows_of_a_prepared_cohort(name, request):
    split = Cohort(request.getfixturevalue(name))["val"]
    expected = samples_by_loop(split, HISTORY)
    batches = list(Windows(split, HISTORY).sequential(256))
    assert sum(len(batch["stay"]) for batch in batches) == len(split.data)
    for number, batch in enumerate(batches):
        assert_batch_equals(batch, expected[256 * number : 256 * number + 256])
