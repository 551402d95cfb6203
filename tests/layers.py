"""What tests of layers share: random weights, layer normalization in numpy, and outputs with their gradients."""

from collections.abc import Callable

import keras
import numpy as np
import tensorflow as tf


def randomize(model: keras.Model, seed: int) -> None:
    """Randomize all weights, so that no bias or scale is without effect."""
    random = np.random.default_rng(seed)
    model.set_weights([w + random.normal(0, 0.1, w.shape) for w in model.get_weights()])


def layer_norm(x: np.ndarray, gamma: np.ndarray, beta: np.ndarray) -> np.ndarray:
    return (x - x.mean(-1, keepdims=True)) / np.sqrt(x.var(-1, keepdims=True) + 1e-3) * gamma + beta


def outputs_and_gradients(function: Callable, x: tf.Tensor, layer: keras.layers.Layer) -> list[np.ndarray]:
    """Compute the outputs and, for a random linear function of them, the gradients by inputs and all weights."""
    sources = [x, *(weight.value for weight in layer.trainable_weights)]
    with tf.GradientTape() as tape:
        tape.watch(x)
        y = function(x)
        total = tf.reduce_sum(y * np.random.default_rng(2).normal(size=y.shape))
    gradients = tape.gradient(total, sources, unconnected_gradients=tf.UnconnectedGradients.ZERO)
    return [value.numpy() for value in [y, *gradients]]
