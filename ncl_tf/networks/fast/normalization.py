"""Layer normalization whose means over the channels are products with a vector.

Compiled by XLA for a processor, `tf.reduce_mean` over the last axis adds one number after the other, and so do its gradients; a
product of a matrix and a vector uses the whole width of the processor.
"""

import tensorflow as tf
from keras import layers


def normalize(norm: layers.LayerNormalization, x: tf.Tensor) -> tf.Tensor:
    """Return `norm(x)` for x [..., C] of a layer with the settings of Keras, computed with the layer's own weights."""
    rows = tf.reshape(x, [-1, x.shape[-1]])
    return tf.reshape(_normalized(rows, norm.gamma, norm.beta, norm.epsilon), tf.shape(x))


def _normalized(rows: tf.Tensor, gamma: tf.Tensor, beta: tf.Tensor, epsilon: float) -> tf.Tensor:
    """Return gamma (x - mean) / sqrt(variance + epsilon) + beta, with mean and variance of each row: [R, C] -> [R, C]."""
    channels = rows.shape[1]
    share = tf.fill([channels, 1], tf.constant(1 / channels, rows.dtype))

    @tf.custom_gradient
    def normalized(rows: tf.Tensor, gamma: tf.Tensor, beta: tf.Tensor):
        centered = rows - rows @ share
        scale = tf.math.rsqrt((centered * centered) @ share + epsilon)
        standard = centered * scale

        def gradient(of_outputs: tf.Tensor) -> tuple[tf.Tensor, tf.Tensor, tf.Tensor]:
            of_standard = of_outputs * gamma
            mean, slope = of_standard @ share, (of_standard * standard) @ share
            of_gamma, of_beta = tf.reduce_sum(of_outputs * standard, axis=0), tf.reduce_sum(of_outputs, axis=0)
            return scale * (of_standard - mean - slope * standard), of_gamma, of_beta

        return standard * gamma + beta, gradient

    return normalized(rows, tf.convert_to_tensor(gamma), tf.convert_to_tensor(beta))
