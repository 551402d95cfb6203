"""Heads: their layers, their loss, and that training on cached embeddings is training through the frozen encoder."""

import keras
import numpy as np
import pytest
import tensorflow as tf

from ncl_tf.data import Cohort
from ncl_tf.data.windows import Windows
from ncl_tf.errors import InputError
from ncl_tf.evaluation.heads import Samples, embedder, fit, mean_loss, predictor
from ncl_tf.networks.encoder import Encoder
from ncl_tf.networks.heads import class_weights, cross_entropy, make_head


def built(kind: str, classes: int, size: int, seed: int = 0) -> keras.Model:
    keras.utils.set_random_seed(seed)
    head = make_head(kind, classes)
    head.build((None, size))
    return head


def test_weights_of_the_heads():
    assert built("linear", 2, 64).count_params() == 64 * 2 + 2
    assert built("mlp", 10, 64).count_params() == (64 * 64 + 64) + 2 * 64 + (64 * 10 + 10)
    with pytest.raises(InputError, match="'deep'.*linear, mlp"):
        make_head("deep", 2)


def test_class_weights_by_hand():
    classes = np.array([0] * 9 + [1])
    np.testing.assert_allclose(class_weights(classes, 2, balanced=True), [0.5 / 0.9, 0.5 / 0.1], rtol=1e-6)
    np.testing.assert_array_equal(class_weights(classes, 2, balanced=False), [1, 1])
    with pytest.raises(InputError, match="class 2"):
        class_weights(classes, 3, balanced=True)


def test_cross_entropy_by_hand():
    probabilities = tf.constant([[0.8, 0.2], [0.3, 0.7]])
    losses = cross_entropy(probabilities, tf.constant([1, 1]), tf.constant([1.0, 5.0]))
    np.testing.assert_allclose(losses, [-5 * np.log(0.2), -5 * np.log(0.7)], rtol=1e-5)


@pytest.fixture(scope="module")
def cohort(ward_cohort):
    return Cohort(ward_cohort)


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
        cached[split] = Samples.from_array(embedder(encoder)(windows), classes)
        through[split] = Samples(
            lambda rows, windows=windows: encoder(windows.gather(rows)["window"]), cached[split].rows, classes
        )
    return cached, through


@pytest.mark.parametrize("kind", ["linear", "mlp"])
def test_cached_embeddings_follow_the_frozen_encoder(kind, encoder, samples):
    """Same losses, epoch by epoch, whether embeddings are looked up or computed in every step; the encoder stays."""
    before = encoder.get_weights()
    weights = class_weights(samples[0]["train"].classes, 2, balanced=True)
    curves = [
        fit(built(kind, 2, 64), some["train"], some["val"], weights, 1e-2, seed=3, batch_size=256, max_epochs=3).curve
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
    training, validation = Samples.from_array(features, classes), Samples.from_array(features, 1 - classes)
    head, weights = built("linear", 2, 4), np.ones(2, np.float32)
    fitted = fit(head, training, validation, weights, 0.1, seed=1, batch_size=64, patience=3)
    losses = [epoch["val_loss"] for epoch in fitted.curve]
    assert fitted.best_epoch == 1 + int(np.argmin(losses))
    assert len(losses) == fitted.best_epoch + 3
    assert mean_loss(predictor(head, validation)(), validation.classes, weights) == pytest.approx(min(losses), rel=1e-5)


def test_a_loss_that_is_not_finite_ends_the_training_with_an_error():
    samples = Samples.from_array(np.full((8, 3), np.nan, np.float32), np.array([0, 1] * 4, np.int32))
    with pytest.raises(
        InputError, match=r"epoch 1: loss nan, validation loss nan; the learning rate, 0.1, may be too high"
    ):
        fit(built("linear", 2, 3), samples, samples, np.ones(2, np.float32), 0.1, seed=1, batch_size=4)
