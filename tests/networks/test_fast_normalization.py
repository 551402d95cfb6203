"""Layer normalization by products, against the Keras layer whose weights it uses."""

import keras
import numpy as np
import pytest
import tensorflow as tf

from layers import outputs_and_gradients
from ncl_tf.networks.fast.normalization import normalize


def built(channels: int, **settings) -> keras.layers.LayerNormalization:
    norm = keras.layers.LayerNormalization(**settings)
    norm.build((None, 3, channels))
    random = np.random.default_rng(0)
    for weight in norm.weights:
        weight.assign(random.normal(size=weight.shape))
    return norm


@pytest.mark.parametrize("channels", [1, 2, 64, 100])
@pytest.mark.parametrize("jit_compile", [False, True])
def test_equals_the_layer(channels, jit_compile):
    norm = built(channels)
    x = tf.constant(np.random.default_rng(1).normal(3, 2, size=(5, 3, channels)), tf.float32)
    ours = outputs_and_gradients(tf.function(lambda x: normalize(norm, x), jit_compile=jit_compile), x, norm)
    theirs = outputs_and_gradients(norm, x, norm)
    for our, their in zip(ours, theirs, strict=True):
        np.testing.assert_allclose(our, their, rtol=1e-5, atol=1e-5 * np.abs(their).max() + 1e-6)


def test_is_the_formula():
    x = np.array([[1.0, 2.0, 6.0]], np.float32)  # mean 3, variance 14 / 3
    norm = built(3, epsilon=1 / 3)  # variance + epsilon = 5
    gamma, beta = (weight.numpy() for weight in norm.weights)
    expected = np.array([[-2, -1, 3]]) / 5**0.5 * gamma + beta
    np.testing.assert_allclose(normalize(norm, tf.constant(x)), expected, rtol=1e-6)


def test_constant_rows_have_finite_gradients():
    norm = built(8)
    outputs, *gradients = outputs_and_gradients(lambda x: normalize(norm, x), tf.zeros([2, 8]), norm)
    np.testing.assert_array_equal(outputs, np.tile(norm.beta.numpy(), (2, 1)))
    assert all(np.isfinite(gradient).all() for gradient in gradients)
