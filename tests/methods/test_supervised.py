"""End-to-End with limited labels: which rows it learns from, and from which it is chosen."""

import numpy as np
import pytest

from ncl_tf import config, training  # noqa: F401 - configurations bind training
from ncl_tf.data import Cohort
from ncl_tf.evaluation.protocol import labelled_rows, limited_stays


@pytest.fixture(scope="module")
def cohort(ward_cohort):
    return Cohort(ward_cohort)


def build(cohort, *params):
    config.load(["gin/paper/physionet2019/end_to_end.gin"], [f"cohort = '{cohort.path}'", *params])
    return config.method()(cohort=cohort, seed=1, fast=True)


def test_all_labels_by_default(cohort):
    model = build(cohort)
    for split in ("train", "val"):
        np.testing.assert_array_equal(model.sample_rows(cohort[split]), labelled_rows(cohort[split], 0))
    assert model.early_stopping.batch_size == 2048


def test_limited_labels_are_those_of_heads_and_validation_is_whole(cohort):
    model = build(cohort, "end_to_end.labels = 0.5", "end_to_end.label_seed = 3")
    stays = limited_stays(cohort["train"], 0, 0.5, 3)
    expected = np.concatenate([np.arange(first, last + 1) for first, last, _ in cohort["train"].patient_windows[stays]])
    np.testing.assert_array_equal(model.sample_rows(cohort["train"]), expected)
    np.testing.assert_array_equal(model.sample_rows(cohort["val"]), labelled_rows(cohort["val"], 0))
    assert model.early_stopping.batch_size == 1024
