"""Heads: their layers, their loss, their training by hand, and that cached embeddings are those of the frozen encoder."""

import contextlib
import itertools

import keras
import numpy as np
import pytest
import tensorflow as tf

from ncl_tf import stopping
from ncl_tf.data.windows import Windows
from ncl_tf.errors import InputError
from ncl_tf.evaluation.heads import LabelledSamples, embedder, fit, mean_loss, predictor
from ncl_tf.networks.encoder import Encoder
from ncl_tf.networks.heads import Head, class_weights, cross_entropy
from ncl_tf.runs import EvaluationFolder
from ncl_tf.training.early_stopping import SeparateEpochs


def built(kind: str, classes: int, size: int, seed: int = 0) -> keras.Model:
    keras.utils.set_random_seed(seed)
    head = Head(kind, classes)
    head.build((None, size))
    return head


def test_weights_of_the_heads():
    assert built("linear", 2, 64).count_params() == 64 * 2 + 2
    assert built("mlp", 10, 64).count_params() == (64 * 64 + 64) + 2 * 64 + (64 * 10 + 10)
    with pytest.raises(InputError, match="linear or mlp.*'deep'"):
        Head("deep", 2)


def test_class_weights_by_hand():
    classes = np.array([0] * 9 + [1])
    np.testing.assert_allclose(class_weights(classes, 2, balanced=True), [0.5 / 0.9, 0.5 / 0.1], rtol=1e-6)
    np.testing.assert_array_equal(class_weights(classes, 2, balanced=False), [1, 1])


def test_cross_entropy_by_hand():
    probabilities = tf.constant([[0.8, 0.2], [0.3, 0.7]])
    losses = cross_entropy(probabilities, tf.constant([1, 1]), tf.constant([1.0, 5.0]))
    np.testing.assert_allclose(losses, [-5 * np.log(0.2), -5 * np.log(0.7)], rtol=1e-5)


@pytest.fixture(scope="module")
def encoder():
    keras.utils.set_random_seed(1)
    encoder = Encoder(5, filters=16, dilations=(1, 24))  # sees all 48 hours
    encoder.build((None, 48, 40))
    return encoder


@pytest.fixture(scope="module")
def samples(cohort, encoder):
    """Training and validation samples whose embeddings are looked up, and such whose are computed when asked for."""
    cached, through = {}, {}
    for split in ("train", "val"):
        windows = Windows(cohort[split], 48)
        classes = cohort[split].classes[:, 0]
        cached[split] = LabelledSamples.from_array(embedder(encoder)(windows), classes)
        through[split] = LabelledSamples(
            lambda rows, windows=windows: encoder(windows.gather(rows)["window"]), cached[split].rows, classes
        )
    return cached, through


@pytest.mark.parametrize("kind", ["linear", "mlp"])
def test_cached_embeddings_follow_the_frozen_encoder(kind, encoder, samples):
    """Same losses, epoch by epoch, whether embeddings are looked up or computed in every step; the encoder stays."""
    before = encoder.get_weights()
    weights = class_weights(samples[0]["train"].classes, 2, balanced=True)
    curves = [
        fit(built(kind, 2, 64), some["train"], some["val"], weights, SeparateEpochs(1e-2, 256, 20, 3), seed=3).curve
        for some in samples
    ]
    for one, other in zip(*curves, strict=True):
        assert one == pytest.approx(other, rel=1e-5)
    for old, new in zip(before, encoder.get_weights(), strict=True):
        np.testing.assert_array_equal(old, new)


def test_embeddings_are_those_of_the_encoder(cohort, encoder):
    for batch_size in (100, 4096):
        embed = embedder(encoder, batch_size)
        for split in ("val", "test"):
            windows = Windows(cohort[split], 48)
            direct = encoder(windows.gather(tf.range(windows.hours))["window"])
            np.testing.assert_allclose(embed(windows), direct, atol=1e-5)


def test_early_stopping_keeps_the_best_epoch():
    """Validation labels contradict the training's, so its loss soon rises: the first epochs' weights must come back."""
    generator = np.random.default_rng(0)
    features = generator.normal(size=(600, 4)).astype(np.float32)
    classes = (features[:, 0] > 0).astype(np.int32)
    training, validation = (LabelledSamples.from_array(features, given) for given in (classes, 1 - classes))
    head, weights = built("linear", 2, 4), np.ones(2, np.float32)
    fitted = fit(head, training, validation, weights, SeparateEpochs(0.1, 64, patience=3, max_epochs=99), seed=1)
    losses = [epoch["val_loss"] for epoch in fitted.curve]
    assert fitted.best_epoch == 1 + int(np.argmin(losses))
    assert len(losses) == fitted.best_epoch + 3
    assert mean_loss(predictor(head, validation)(), validation.classes, weights) == pytest.approx(min(losses), rel=1e-5)


def test_a_training_that_is_stopped_within_an_epoch_ends_in_the_same_bits(tmp_path, monkeypatch):
    """Epochs of 76 batches, of which 32 are taken between two looks at whether to stop; the last batch is smaller."""
    generator = np.random.default_rng(0)
    features = generator.normal(size=(605, 4)).astype(np.float32)
    classes = (features @ [1, -1, 0.5, 0] > 0).astype(np.int32)
    samples, weights = LabelledSamples.from_array(features, classes), np.ones(2, np.float32)
    plan = SeparateEpochs(0.01, 8, patience=9, max_epochs=4)

    def fitted(folder: EvaluationFolder) -> tuple[list, list[bytes]]:
        head = built("linear", 2, 4)
        with contextlib.closing(folder):
            folder.start({"seed": 1})
            curve = fit(head, samples, samples, weights, plan, seed=1, folder=folder).curve
        return curve, [weight.tobytes() for weight in head.get_weights()]

    whole = fitted(EvaluationFolder(tmp_path / "whole"))
    steps = []
    for stop_at in (2, 1, 5, 99):
        looks = itertools.count(1)
        monkeypatch.setattr(stopping, "requested", lambda looks=looks, at=stop_at: next(looks) == at)
        folder = EvaluationFolder(tmp_path / "stopped")
        if stop_at < 99:
            with pytest.raises(stopping.Stopped):
                fitted(folder)
            steps.append(folder.kept_step)
        else:
            assert fitted(folder) == whole
    assert steps[0] == 64
    assert any(step % 76 for step in steps[1:])


def test_a_loss_that_is_not_finite_ends_the_training_with_an_error():
    samples = LabelledSamples.from_array(np.full((8, 3), np.nan, np.float32), np.array([0, 1] * 4, np.int32))
    plan = SeparateEpochs(0.1, 4, patience=2, max_epochs=3)
    with pytest.raises(InputError, match=r"epoch 1: .*nan.*nan.* 0\.1"):
        fit(built("linear", 2, 3), samples, samples, np.ones(2, np.float32), plan, seed=1)


# Training, by hand


class Recorded:
    """Samples that record which rows are asked for, batch by batch."""

    def __init__(self, features: np.ndarray, classes: np.ndarray, rows: np.ndarray) -> None:
        self.features, self.batches = features, []
        self.samples = LabelledSamples(self._inputs, rows.astype(np.int32), classes[rows])

    def _inputs(self, rows: tf.Tensor) -> tf.Tensor:
        inputs = tf.numpy_function(self._look_up, [rows], tf.float32)
        return tf.ensure_shape(inputs, [*rows.shape, self.features.shape[1]])

    def _look_up(self, rows: np.ndarray) -> np.ndarray:
        self.batches.append(rows)
        return self.features[rows]


@pytest.fixture(scope="module")
def small_task():
    """70 hours, of which 67 are labelled, in three classes; 20 others for validation."""
    random = np.random.default_rng(5)
    features = random.normal(size=(90, 4)).astype(np.float32)
    classes = np.where(features[:, 0] > 0.7, 2, (features[:, 1] + random.normal(size=90) > 0).astype(np.int64))
    return features, classes.astype(np.int32), np.delete(np.arange(70), [3, 30, 66]), np.arange(70, 90)


WEIGHTS = np.array([0.5, 1.0, 3.0], np.float32)
PLAN = SeparateEpochs(rate=0.03, batch_size=16, patience=9, max_epochs=5)  # 67 hours: four whole batches and one of 3


def fitted_linear(small_task, seed):
    features, classes, rows, validation_rows = small_task
    head, training = built("linear", 3, 4, seed=8), Recorded(features, classes, rows)
    validation = LabelledSamples.from_array(features, classes, validation_rows)
    initial = [weight.astype(np.float64) for weight in head.get_weights()]
    fitted = fit(head, training.samples, validation, WEIGHTS, PLAN, seed)
    return initial, fitted, head.get_weights(), training.batches


def test_every_epoch_sees_every_labelled_hour_once_in_an_order_of_its_own(small_task):
    seen = {seed: fitted_linear(small_task, seed)[3] for seed in (1, 2)}
    epochs = [batches[first : first + 5] for batches in seen.values() for first in range(0, 25, 5)]
    assert [len(batches) for batches in seen.values()] == [25, 25]
    for epoch in epochs:
        assert [len(batch) for batch in epoch] == [16, 16, 16, 16, 3]
        np.testing.assert_array_equal(np.sort(np.concatenate(epoch)), small_task[2])
    assert len({tuple(np.concatenate(epoch)) for epoch in epochs}) == 10  # differ by epoch and by seed
    for one, same in zip(seen[2], fitted_linear(small_task, 2)[3], strict=True):
        np.testing.assert_array_equal(one, same)


def losses_by_hand(inputs, classes, kernel, bias):
    """Weighted cross-entropy of each sample, and its gradient with respect to the logits."""
    logits = inputs.astype(np.float64) @ kernel + bias
    exponentials = np.exp(logits - logits.max(1, keepdims=True))
    probabilities, chosen = exponentials / exponentials.sum(1, keepdims=True), np.eye(3)[classes]
    weights = WEIGHTS[classes].astype(np.float64)
    return -weights * np.log((probabilities * chosen).sum(1)), weights[:, None] * (probabilities - chosen)


def test_a_head_is_trained_by_adam_on_the_weighted_loss(small_task):
    """All epochs by hand in float64, on the batches that were asked for: weights, both losses, the choice of the epoch."""
    features, classes, _, validation_rows = small_task
    initial, fitted, found, batches = fitted_linear(small_task, seed=2)
    state, moments = initial, [[np.zeros_like(w), np.zeros_like(w)] for w in initial]
    curve, weights_by_epoch, total = [], [], 0.0
    for t, rows in enumerate(batches, start=1):
        losses, error = losses_by_hand(features[rows], classes[rows], *state)
        total += losses.sum()
        gradients = features[rows].T.astype(np.float64) @ error / len(rows), error.mean(0)
        for i, gradient in enumerate(gradients):
            m, v = moments[i] = [0.9 * moments[i][0] + 0.1 * gradient, 0.999 * moments[i][1] + 0.001 * gradient**2]
            state[i] = state[i] - 0.03 * (m / (1 - 0.9**t)) / (np.sqrt(v / (1 - 0.999**t)) + 1e-7)
        if t % 5 == 0:
            validation = losses_by_hand(features[validation_rows], classes[validation_rows], *state)[0].mean()
            curve.append((total / 67, validation))
            weights_by_epoch.append(list(state))
            total = 0.0
    best = int(np.argmin([validation for _, validation in curve]))
    np.testing.assert_allclose([tuple(epoch.values()) for epoch in fitted.curve], curve, rtol=1e-4)
    assert fitted.best_epoch == best + 1
    for weight, expected in zip(found, weights_by_epoch[best], strict=True):
        np.testing.assert_allclose(weight, expected, rtol=1e-3, atol=1e-5)
