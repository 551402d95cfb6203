"""Cleaning, scaling and one-hot: by hand, against plain loops and against scikit-learn."""

import dataclasses
import json
import math

import numpy as np
import pytest
from sklearn.preprocessing import StandardScaler

from ncl_tf.data import preprocessing
from ncl_tf.data.datasets import MIMIC3_BENCHMARK
from ncl_tf.data.declaration import OBSERVATIONS, Channel, Dataset, Task
from ncl_tf.data.preprocessing import Preprocessor, clean
from ncl_tf.data.stays import Stays

NAN = math.nan
TASKS = (Task("ill"),)
CHANNELS = (
    Channel("sex", kind="categorical", static=True, levels=(0, 1)),
    Channel("height", static=True, low=50, high=300),
    Channel("HR", low=10, high=300),
    Channel("lab"),
    Channel("coma", kind="categorical", levels=(1, 2, 3)),
)
WARD = Dataset("ward", CHANNELS, TASKS)


def stays_of(values: np.ndarray, lengths: list[int]) -> Stays:
    names = np.array([f"s{i}" for i in range(len(lengths))])
    labels = np.zeros((len(values), 1), np.float32)
    return Stays(names, np.array(lengths), np.asfortranarray(values, np.float32), labels)


def random_stays(seed: int, stays: int = 30) -> Stays:
    """Stays with most values missing, some outside the plausible range, some channels never measured."""
    rng = np.random.default_rng(seed)
    lengths = rng.integers(1, 12, stays)
    count = int(lengths.sum())
    numbers = [rng.normal(mean, std, count) for mean, std in ((170, 100), (90, 120), (-3, 0.01))]
    values = np.stack([rng.integers(0, 2, count), *numbers, rng.integers(1, 4, count)], axis=1).astype(np.float32)
    values[rng.random(values.shape) < 0.6] = np.nan
    return stays_of(values, list(lengths))


def cleaned_by_loops(dataset: Dataset, stays: Stays) -> np.ndarray:
    result, row = np.full(stays.values.shape, np.nan, np.float32), 0
    for length in stays.lengths:
        last = [NAN] * len(dataset.channels)
        for _ in range(length):
            for index, channel in enumerate(dataset.channels):
                value = stays.values[row, index]
                if not math.isnan(value):
                    last[index] = value
                too_low = channel.low is not None and last[index] < channel.low
                too_high = channel.high is not None and last[index] > channel.high
                result[row, index] = NAN if too_low or too_high else last[index]
            row += 1
    return result


@pytest.mark.parametrize("seed", range(5))
def test_clean_equals_a_loop_over_hours(seed):
    stays = random_stays(seed)
    before = stays.values.copy()
    np.testing.assert_array_equal(clean(WARD, stays).values, cleaned_by_loops(WARD, stays))
    np.testing.assert_array_equal(stays.values, before)  # the raw stays are left alone


@pytest.mark.parametrize(
    ("heart_rate", "expected"),
    [
        ([80, 500, NAN, 90, NAN, 5, NAN], [80, NAN, NAN, 90, 90, NAN, NAN]),
        ([10, 300, np.nextafter(np.float32(10), 0), np.nextafter(np.float32(300), 400)], [10, 300, NAN, NAN]),
    ],
    ids=["forward fill comes before ranges", "ranges include their ends"],
)
def test_implausible_values_are_carried_forward_as_missing(heart_rate, expected):
    """The older plausible value does not come back."""
    values = np.full((len(heart_rate), 5), np.nan, np.float32)
    values[:, 2] = heart_rate
    np.testing.assert_array_equal(clean(WARD, stays_of(values, [len(values)])).values[:, 2], np.float32(expected))


def test_ranges_include_ends_that_are_no_float32_numbers():
    oxygen = next(channel for channel in MIMIC3_BENCHMARK.channels if channel.name == "Fraction inspired oxygen")
    fractions = stays_of(np.array([[0.2], [1.1], [0.19], [1.11]]), [1, 1, 1, 1])
    cleaned = clean(Dataset("oxygen", (oxygen,), TASKS), fractions).values[:, 0]
    np.testing.assert_array_equal(cleaned, np.float32([0.2, 1.1, NAN, NAN]))


@pytest.mark.parametrize("seed", range(5))
def test_statistics_equal_scikit_learn(seed):
    """Dynamic channels: all training hours. Static ones: the first hour of each training stay. NaN ignored in both."""
    stays = random_stays(seed)
    cleaned = clean(WARD, stays)
    training = np.flatnonzero(np.random.default_rng(seed).random(len(stays.lengths)) < 0.5)
    preprocessor = Preprocessor.fit(WARD, stays, cleaned, training)
    spans = [(sum(stays.lengths[:i]), stays.lengths[i]) for i in training]
    hours = [row for first, length in spans for row in range(first, first + length)]
    firsts = [first for first, _ in spans]
    for columns, rows in (([2, 3], hours), ([1], firsts)):
        scaler = StandardScaler().fit(cleaned.values[rows][:, columns].astype(float))
        np.testing.assert_allclose(preprocessor.mean[columns], scaler.mean_, rtol=1e-6)
        np.testing.assert_allclose(preprocessor.scale[columns], scaler.scale_, rtol=1e-6)
    assert preprocessor.mean[[0, 4]].tolist() == [0, 0]
    assert preprocessor.scale[[0, 4]].tolist() == [1, 1]


def test_constant_and_unmeasured_channels():
    """A constant channel is centred, not blown up; one that the training split never measures stays as it is."""
    values = np.full((6, 5), np.nan)
    values[:3, 2] = 37.1
    values[3:, 2:4] = 38.1, 5
    stays = stays_of(values, [3, 3])
    preprocessor = Preprocessor.fit(WARD, stays, clean(WARD, stays), np.array([0]))
    table = preprocessor(stays)
    np.testing.assert_array_equal(table[:3, 2], np.zeros(3, np.float32))
    np.testing.assert_allclose(table[3:, 2:4], [[1, 5]] * 3, rtol=1e-5)


def test_transform_by_hand():
    """Binary: one 0/1 column. Three levels: three columns. Missing: zero everywhere."""
    values = np.array([[0, 160, 60, NAN, 3], [NAN, 160, NAN, 1, NAN], [1, 180, 100, 3, 1], [1, 180, NAN, NAN, 2]])
    stays = stays_of(values, [2, 2])
    table = Preprocessor.fit(WARD, stays, clean(WARD, stays), np.array([0, 1]))(stays)
    lab = [(x - 7 / 3) / math.sqrt(8 / 9) for x in (1, 3, 3)]  # three known hours, 1, 3 and 3
    expected = [[0, -1, -1, 0, 0, 0, 1], [0, -1, -1, lab[0], 0, 0, 1]]
    expected += [[1, 1, 1, lab[1], 1, 0, 0], [1, 1, 1, lab[2], 0, 1, 0]]
    assert WARD.columns == ["sex", "height", "HR", "lab", "coma=1", "coma=2", "coma=3"]
    assert WARD.static_columns == 2
    assert table.dtype == np.float32
    np.testing.assert_allclose(table, expected, atol=1e-6)


def test_preprocessor_survives_json():
    stays = random_stays(1)
    preprocessor = Preprocessor.fit(WARD, stays, clean(WARD, stays), np.arange(20))
    again = Preprocessor.from_json(json.loads(json.dumps(preprocessor.to_json())))
    assert again.dataset == preprocessor.dataset
    np.testing.assert_array_equal(again(stays), preprocessor(stays))


def test_a_stay_is_prepared_as_if_it_were_alone(monkeypatch):
    """Nothing passes from one stay to another, nor depends on which stays are prepared together."""
    stays, dataset = random_stays(5), dataclasses.replace(WARD, observations=OBSERVATIONS)
    preprocessor = Preprocessor.fit(dataset, stays, clean(dataset, stays), np.arange(10))
    monkeypatch.setattr(preprocessing, "STAYS_AT_ONCE", 7)
    parts = np.split(preprocessor(stays), stays.first_rows[1:])
    for index, part in enumerate(parts):
        alone = stays_of(stays.values[stays.rows(np.array([index]))], [stays.lengths[index]])
        np.testing.assert_array_equal(preprocessor(alone), part)
