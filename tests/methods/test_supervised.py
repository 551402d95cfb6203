"""End-to-End: which rows it learns from with limited labels, from which it is chosen, and by what loss."""

import numpy as np
import pytest
import tensorflow as tf

from ncl_tf import config, training  # noqa: F401 - configurations bind training
from ncl_tf.data import Cohort
from ncl_tf.data.windows import Windows
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


def test_the_validation_loss_is_the_mean_over_all_hours_whatever_the_batches(cohort):
    """By hand, - w_y log p_y; a last batch may be smaller, and a replica's share of it empty."""
    model = build(cohort, "encoder.filters = 8", "encoder.dilations = (1,)")
    windows = Windows(cohort["val"])
    model.build((None, *windows.gather(tf.range(1))["window"].shape[1:]))
    rows = model.sample_rows(cohort["val"])[:100]
    samples = windows.gather(tf.constant(rows, tf.int32))
    classes = samples["label"][:, 0].numpy()
    chosen = model(samples["window"]).numpy()[np.arange(100), classes]
    expected = np.mean(model.class_weights.numpy()[classes] * -np.log(chosen))
    for size in (100, 33):
        model.reset_metrics()
        for batch in windows.sequential(size, rows):
            model.test_step(batch)
        assert float(model.mean_loss.result()) == pytest.approx(expected, rel=1e-5)
    model.test_step({name: value[:0] for name, value in batch.items()})
    assert float(model.mean_loss.result()) == pytest.approx(expected, rel=1e-5)
