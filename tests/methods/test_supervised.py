"""End-to-End: which rows it learns from with limited labels, from which it is chosen, and by what loss."""

import dataclasses

import numpy as np
import pytest
import tensorflow as tf

from ncl_tf.data import Cohort
from ncl_tf.data.windows import Windows
from ncl_tf.networks.fast import pieces
from ncl_tf.networks.heads import cross_entropy
from ncl_tf.training import config, trainer  # noqa: F401 - configurations bind training
from ncl_tf.training.protocol import labelled_rows, limited_stays


@pytest.fixture(scope="module")
def cohort(ward_cohort):
    return Cohort(ward_cohort)


def build(cohort, *params):
    config.configure(["gin/paper/physionet2019/end_to_end.gin"], [f"cohort = '{cohort.path}'", *params])
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


def test_pieces_of_a_batch_have_its_loss_and_gradients(cohort, monkeypatch):
    monkeypatch.setattr(pieces, "default_size", lambda: 4)
    model = build(cohort, "encoder.filters = 8", "encoder.dilations = (24,)")
    batch = Windows(cohort["train"], 48).gather(tf.range(11))
    model.build((None, *batch["window"].shape[1:]))
    with tf.GradientTape() as tape:
        losses = cross_entropy(model(batch["window"]), batch["label"][:, 0], model.class_weights)
        whole = tf.reduce_mean(losses)
    expected = [whole, *tape.gradient(whole, model.trainable_variables)]
    with tf.GradientTape() as tape:
        loss = model.compute_step(batch, training=True).terms.loss
    found = [loss, *tape.gradient(loss, model.trainable_variables)]
    for one, other in zip(found, expected, strict=True):
        np.testing.assert_allclose(one, other, rtol=1e-4, atol=1e-6)


def test_the_validation_loss_is_the_mean_over_all_labelled_hours(cohort):
    """By hand, - w_y log p_y of the windows; also where a stretch has no labelled hour, or reaches beyond the split."""
    model = build(cohort, "encoder.filters = 8", "encoder.dilations = (24,)")
    split = dataclasses.replace(cohort["val"], classes=cohort["val"].classes.copy())
    split.classes[50:170] = -1
    windows, rows = Windows(split, 48), labelled_rows(split, 0)
    assert 0 < len(rows) < len(split.data)
    samples = windows.gather(tf.constant(rows, tf.int32))
    classes = samples["label"][:, 0].numpy()
    model.build((None, *samples["window"].shape[1:]))
    chosen = model(samples["window"]).numpy()[np.arange(len(rows)), classes]
    expected = np.mean(model.class_weights.numpy()[classes] * -np.log(chosen))
    for size in (50, 4096):
        model.reset_metrics()
        for batch in windows.stretches(size):
            model.test_step(batch)
        assert float(model.terms["loss"].result()) == pytest.approx(expected, rel=1e-5)
