"""Small classifiers on a representation, and their loss."""

import keras
import numpy as np
import tensorflow as tf

from ncl_tf.errors import InputError
from ncl_tf.networks import HEADS


class Head(keras.Sequential):
    """A small classifier: representations [B, D] -> class probabilities [B, K] (paper, appendix A).

    linear: Dense with softmax. mlp: Dense -> LayerNormalization -> ReLU -> Dense with softmax.

    Args:
        kind: "linear" or "mlp".
        classes: K.
        size: units of the hidden layer.
    """

    def __init__(self, kind: str, classes: int, size: int = 64) -> None:
        if kind not in HEADS:
            raise InputError(f"head must be {' or '.join(HEADS)}, got {kind!r}")
        hidden = [
            keras.layers.Dense(size, name="hidden"),
            keras.layers.LayerNormalization(name="norm"),
            keras.layers.ReLU(name="relu"),
        ]
        output = keras.layers.Dense(classes, activation="softmax", name="output")
        super().__init__([*(hidden if kind == "mlp" else []), output], name="head")
        self.kind = kind


def class_weights(classes: np.ndarray, count: int, balanced: bool) -> np.ndarray:
    """Weight of each class in the loss, [count] float32: 1, or balanced, of two: 0.5/(1 - p) and 0.5/p for prevalence p."""
    if not balanced:
        return np.ones(count, np.float32)
    share = np.bincount(classes, minlength=count) / len(classes)
    return (1 / (count * share)).astype(np.float32)


def cross_entropy(probabilities: tf.Tensor, classes: tf.Tensor, weights: tf.Tensor) -> tf.Tensor:
    """Weighted cross-entropy of each sample, - w_y log p_y: [B, K], [B], [K] -> [B]."""
    losses = keras.losses.sparse_categorical_crossentropy(classes, probabilities)
    return tf.gather(weights, classes) * losses
