"""The hourly grid."""

import math

import numpy as np
import pytest

from ncl_tf.data.declaration import Channel, Dataset, Task
from ncl_tf.data.preprocessing import clean
from ncl_tf.data.stays import LONGEST_STAY, Stays, hourly_grid
from refusals import refused

NAN = math.nan


@pytest.mark.parametrize("seed", range(5))
def test_hourly_grid_then_fill_is_the_last_value_at_or_before_each_hour(seed):
    rng = np.random.default_rng(seed)
    lengths, counts = rng.integers(2, 8, 12), rng.integers(1, 30, 12)
    stay = np.repeat(np.arange(12), counts)
    time = np.concatenate([np.sort(rng.choice([*rng.uniform(0, 9, 20), *range(9)], n)) for n in counts])
    values = rng.normal(size=(len(time), 2)).astype(np.float32)
    values[rng.random(values.shape) < 0.5] = np.nan
    dataset = Dataset("two", (Channel("a"), Channel("b")), (Task("ill"),))
    grid = hourly_grid(stay, time, values, np.zeros(12, np.int64), lengths)
    stays = Stays(np.arange(12), lengths, grid, np.zeros((len(grid), 1), np.float32))
    filled = clean(dataset, stays).values
    row = 0
    for index, length in enumerate(lengths):
        for hour in range(length):
            for channel in range(2):
                before = [
                    v for s, t, v in zip(stay, time, values[:, channel], strict=True)
                    if s == index and t <= hour and not math.isnan(v)
                ]  # fmt: skip
                np.testing.assert_array_equal(filled[row, channel], before[-1] if before else np.nan)
            row += 1


def test_hours_left_out_become_empty_rows():
    values, labels = np.array([[1.0, 2, 3, 4], [0, 1, 1, 0]])[:, :, None]
    stays = Stays.from_rows(np.array(["a", "b"]), np.array([3, 1]), np.array([4, 6, 9, 2]), values, labels)
    assert stays.lengths.tolist() == [6, 1]
    np.testing.assert_array_equal(stays.values[:, 0], np.float32([1, NAN, 2, NAN, NAN, 3, 4]))
    np.testing.assert_array_equal(stays.labels[:, 0], np.float32([0, NAN, 1, NAN, NAN, 1, 0]))


@pytest.mark.parametrize("last", [LONGEST_STAY + 3, 2e9, 1e30])
def test_a_stay_of_decades_is_refused(last):
    def read(last: float) -> Stays:
        hours = np.array([1, 3, last])
        return Stays.from_rows(np.array(["a", "b"]), np.array([1, 2]), hours, np.zeros((3, 1)), np.zeros((3, 1)))

    assert read(LONGEST_STAY + 2).lengths.tolist() == [1, LONGEST_STAY]
    with refused("stay b", f"{LONGEST_STAY} hours", f"3 to {int(last)}"):
        read(last)
