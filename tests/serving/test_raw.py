"""Raw values prepared in the graph, bit for bit as the pipeline prepares them; and what the graph refuses."""

import numpy as np
import pytest
import tensorflow as tf

from ncl_tf.data import Channel, Cohort, Dataset, Preprocessor, Stays, Task
from ncl_tf.data.sources import mimic3_benchmark, physionet2019
from ncl_tf.serving.raw import RawPreprocessor

NAN = np.nan


def prepared(raw: RawPreprocessor, stays: Stays) -> np.ndarray:
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
