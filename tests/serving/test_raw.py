"""Raw values prepared in the graph, bit for bit as the pipeline prepares them; and what the graph refuses."""

import dataclasses
import math

import numpy as np
import pytest
import tensorflow as tf

from ncl_tf.data import Channel, Cohort, Dataset, Preprocessor, Stays, Task
from ncl_tf.data.datasets import MIMIC3_BENCHMARK, PHYSIONET2019
from ncl_tf.data.declaration import OBSERVATIONS
from ncl_tf.data.preprocessing import clean
from ncl_tf.data.sources import mimic3_benchmark, physionet2019
from ncl_tf.serving.raw import RawPreprocessor
from ncl_tf.serving.rows import state_columns

NAN = np.nan


def prepared(raw: RawPreprocessor, stays: Stays) -> np.ndarray:
    """Prepare all stays at once, in the graph."""
    hour = np.arange(len(stays.values)) - np.repeat(stays.first_rows, stays.lengths)

    @tf.function(autograph=False)
    def prepare(rows, hour):
        return raw.prepare(raw.fill(rows, hour))

    return prepare(tf.constant(np.ascontiguousarray(stays.values)), tf.constant(hour, tf.int32)).numpy()


@pytest.mark.parametrize("form", ["physionet2019", "mimic3_benchmark"])
def test_a_ward_is_prepared_as_by_the_pipeline(form, request):
    if form == "physionet2019":
        stays, _ = physionet2019.read_stays([request.getfixturevalue("ward")])
        cohort = Cohort(request.getfixturevalue("ward_cohort"))
    else:
        stays, _, _ = mimic3_benchmark.read_stays(request.getfixturevalue("mimic_ward"), carry_back=False, shift=0)
        cohort = Cohort(request.getfixturevalue("mimic_ward_cohort"))
    found = prepared(RawPreprocessor(cohort.preprocessor), stays)
    assert np.isnan(stays.values).mean() > 0.3
    data = cohort["test"]  # as the cohort file has it, not as the preprocessor would make it now
    for name, (first, last, _) in zip(data.stay_names, data.patient_windows, strict=True):
        index = list(stays.names).index(name)
        rows = slice(stays.first_rows[index], stays.first_rows[index] + stays.lengths[index])
        np.testing.assert_array_equal(found[rows], data.data[first : last + 1])


def hour_by_hour(raw: RawPreprocessor, stays: Stays) -> np.ndarray:
    """Prepare all stays side by side, each from nothing but its filled row of the hour before."""
    rows, filled = (tf.TensorSpec([None, size], tf.float32) for size in (len(raw.channels), raw.size))
    fill, prepare = tf.function(raw.fill_next, [rows, filled]), tf.function(raw.prepare, [filled])
    state = np.full((len(stays.names), raw.size), NAN, np.float32)
    assert not prepare(state).numpy().any()  # an hour before the stay is all zeros
    table = np.full((len(stays.values), prepare(state).shape[1]), NAN, np.float32)
    for hour in range(stays.lengths.max()):
        present = stays.lengths > hour
        rows = stays.first_rows[present] + hour
        state[present] = fill(stays.values[rows], state[present])
        table[rows] = prepare(state[present])
    return table


@pytest.mark.parametrize(
    ("form", "chosen"),
    [
        ("physionet2019", OBSERVATIONS[::-1]),
        ("physionet2019", ("recency",)),
        ("mimic3_benchmark", OBSERVATIONS),
        ("mimic3_benchmark", ("count", "measured")),
    ],
)
def test_observations_of_a_ward_are_prepared_as_by_the_pipeline(form, chosen, request):
    """All stays at once and hour by hour; the logarithm of a count may differ in the last bit."""
    if form == "physionet2019":
        stays, _ = physionet2019.read_stays([request.getfixturevalue("ward")])
        dataset = PHYSIONET2019
    else:
        stays, _, _ = mimic3_benchmark.read_stays(request.getfixturevalue("mimic_ward"), carry_back=False, shift=0)
        dataset = MIMIC3_BENCHMARK
    for position, channel in enumerate(dataset.channels):
        if channel.high is not None:
            stays.values[::9, position] *= 10  # many of them are implausible
    dataset = dataclasses.replace(dataset, observations=chosen)
    cleaned = clean(dataset, stays)
    preprocessor = Preprocessor.fit(dataset, stays, cleaned, np.arange(0, len(stays.names), 2))
    expected, raw = preprocessor.transform(stays, cleaned), RawPreprocessor(preprocessor)
    counts = np.array([column.endswith(":count") for column in dataset.columns])
    for found in (prepared(raw, stays), hour_by_hour(raw, stays)):
        np.testing.assert_array_equal(found[:, ~counts], expected[:, ~counts])
        np.testing.assert_allclose(found[:, counts], expected[:, counts], rtol=0, atol=2e-6)


@pytest.fixture(scope="module")
def small() -> RawPreprocessor:
    channels = (
        Channel("sex", kind="categorical", static=True, levels=(0, 1)),
        Channel("hour"),
        Channel("HR", low=10, high=300),
        Channel("GCS", kind="categorical", levels=(3, 4, 5)),
    )
    dataset = Dataset("small", channels, (Task("sepsis"),), hour="hour")
    return RawPreprocessor(Preprocessor(dataset, *np.float32([[0, 2, 80, 0], [1, 2, 10, 1]])))


def test_by_hand(small):
    """An implausible value is carried forward and then missing: it hides the plausible one before it."""
    values = [[1, 0, 90, NAN], [NAN, 1, 400, 4], [NAN, 2, NAN, NAN], [NAN, 3, 10, 5]]  # 10 and 300 are plausible
    values += [[NAN, 6, NAN, NAN], [0, 7, 300, 3]]  # another stay, of whose first hour nothing is known
    expected = [
        [1, -1.0, 1, 0, 0, 0],
        [1, -0.5, 0, 0, 1, 0],
        [1, 0.0, 0, 0, 1, 0],
        [1, 0.5, -7, 0, 0, 1],
        [0, 2.0, 0, 0, 0, 0],
        [0, 2.5, 22, 1, 0, 0],
    ]
    stays = Stays(np.array(["a", "b"]), np.array([4, 2]), np.float32(values), np.empty((6, 0)))
    np.testing.assert_array_equal(prepared(small, stays), np.array(expected, np.float32))


def test_observations_by_hand():
    """An implausible value is a measurement; it has no change, nor has the value after it."""
    channels = (
        Channel("age", static=True),
        Channel("HR", low=10, high=300),
        Channel("GCS", "categorical", levels=(0, 1)),
    )
    dataset = Dataset("small", channels, (Task("sepsis"),), observations=OBSERVATIONS)
    fitted = np.float32([[60, 80, 0], [1, 10, 1], [0, 1, 2], [1, 2, 4]])  # mean and scale, then those of counts
    raw = RawPreprocessor(Preprocessor(dataset, *fitted))
    values = [
        [60, NAN, NAN],
        [NAN, 90, 0],
        [NAN, NAN, NAN],
        [NAN, 70, NAN],
        [NAN, 400, 1],
        [NAN, 80, NAN],
        [NAN, 85, NAN],
    ]
    values += [[50, NAN, 1]]  # another stay
    log = {count: math.log(1 + count) for count in range(6)}
    hr, gcs = [0, 1, 1, 2, 3, 4, 5, 0], [0, 1, 1, 1, 2, 2, 2, 1]
    expected = {
        "HR:recency": [0, 1, 1 / 2, 1, 1, 1, 1, 0],
        "GCS:recency": [0, 1, 1 / 2, 1 / 3, 1, 1 / 2, 1 / 3, 1],
        "HR:count": [(log[count] - 1) / 2 for count in hr],
        "GCS:count": [(log[count] - 2) / 4 for count in gcs],
        "HR:measured": [0, 1, 0, 1, 1, 1, 1, 0],
        "GCS:measured": [0, 1, 0, 0, 1, 0, 0, 1],
        "HR:change": [0, 0, 0, -2, 0, 0, 0.5, 0],
    }
    assert dataset.columns[3:] == list(expected)
    stays = Stays(np.array(["a", "b"]), np.array([7, 1]), np.float32(values), np.empty((8, 0)))
    for found in (prepared(raw, stays), hour_by_hour(raw, stays)):
        np.testing.assert_allclose(found[:, 3:], np.transpose(list(expected.values())), rtol=1e-6, atol=1e-6)
    assert state_columns(dataset)[3:] == ["HR:since", "GCS:since", "HR:count", "GCS:count", "HR:before"]
    assert raw.size == 8


HOUR = "a whole hour, one after the hour of the row before"


@pytest.mark.parametrize(
    ("cell", "value", "parts"),
    [
        ((1, 2), np.inf, ("row 1, hour 6, channel HR", "a finite number, or NaN where not measured", "inf")),
        ((0, 0), 2, ("row 0, hour 5, channel sex", "one of 0, 1", "got 2")),
        ((2, 3), 3.5, ("row 2, hour 7, channel GCS", "one of 3, 4, 5", "got 3.5")),
        ((2, 1), 6, ("row 2, hour 6, channel hour", HOUR, "got 6")),
        ((1, 1), NAN, ("row 1, hour nan, channel hour", HOUR, "got nan")),
        ((0, 1), 4.5, ("row 0, hour 4.5, channel hour", HOUR, "got 4.5")),
    ],
)
def test_values_that_cannot_be_right_are_refused(small, cell, value, parts):
    rows = np.array([[1, 5, 90, 3], [NAN, 6, NAN, NAN], [0, 7, 80, 5]], np.float32)
    before = np.concatenate([np.full((1, 4), NAN), rows[:-1]]).astype(np.float32)
    check = tf.function(small.check, autograph=False)
    check(tf.constant(rows), tf.constant(before))  # nothing to complain of
    rows[cell] = value
    with pytest.raises(tf.errors.InvalidArgumentError) as error:
        check(tf.constant(rows), tf.constant(before))
    assert [part for part in parts if part not in str(error.value)] == []
