"""A function of a batch, piece by piece, against the function of the whole batch."""

import keras
import numpy as np
import pytest
import tensorflow as tf

from ncl_tf.encoders import Encoder
from ncl_tf.fast.pieces import in_pieces


def make_encoder() -> Encoder:
    keras.utils.set_random_seed(3)
    encoder = Encoder(static_columns=2, size=5, filters=4)
    encoder.build((None, 20, 6))
    return encoder


def gradients(function, inputs: tf.Tensor, variables: list[keras.Variable], jit_compile: bool) -> list[tf.Tensor]:
    """The outputs, and the gradients of a curved loss with respect to inputs and variables."""

    @tf.function(jit_compile=jit_compile)
    def run(inputs: tf.Tensor) -> list[tf.Tensor]:
        with tf.GradientTape() as tape:
            tape.watch(inputs)
            outputs = function(inputs)
            loss = tf.reduce_sum(tf.range(1.0, outputs.shape[0] + 1)[:, None] * outputs**3)
        return [outputs, *tape.gradient(loss, [inputs, *variables])]

    return run(inputs)


@pytest.mark.parametrize("jit_compile", [False, True])
@pytest.mark.parametrize("batch, size", [(12, 4), (13, 4), (5, 4), (4, 4), (3, 4), (7, 1)])
def test_equals_the_whole_batch(batch, size, jit_compile):
    encoder = make_encoder()
    inputs = tf.random.stateless_normal([batch, 20, 6], [batch, size])
    variables = encoder.trainable_variables
    whole = gradients(encoder._last_hour, inputs, variables, jit_compile)
    pieces = gradients(lambda x: in_pieces(encoder._last_hour, x, size), inputs, variables, jit_compile)
    for one, other in zip(whole, pieces, strict=True):
        np.testing.assert_allclose(other, one, rtol=1e-4, atol=1e-5 * np.abs(one).max())


def test_a_function_without_variables():
    inputs = tf.random.stateless_normal([10, 3], [1, 2])
    outputs, of_inputs = gradients(lambda x: in_pieces(tf.sin, x, 4), inputs, [], False)
    x = inputs.numpy().astype(float)
    np.testing.assert_allclose(outputs, np.sin(x), rtol=1e-5)
    np.testing.assert_allclose(
        of_inputs, np.arange(1, 11)[:, None] * 3 * np.sin(x) ** 2 * np.cos(x), rtol=1e-4, atol=1e-5
    )


def test_variables_that_the_function_uses_and_others():
    used, unused = keras.Variable([2.0, 3.0, 4.0]), keras.Variable([1.0])
    inputs = tf.random.stateless_normal([10, 3], [1, 2])
    with tf.GradientTape() as tape:
        outputs = in_pieces(lambda x: x * used, inputs, 4)
    of_used, of_unused = tape.gradient(outputs, [used.value, unused.value])
    np.testing.assert_allclose(of_used, tf.reduce_sum(inputs, axis=0), rtol=1e-5)
    assert of_unused is None


def test_an_unknown_number_of_samples_is_one_piece():
    seen = []
    tf.function(lambda x: in_pieces(lambda y: seen.append(y.shape) or y, x, 4)).get_concrete_function(
        tf.TensorSpec([None, 3])
    )
    assert [shape.as_list() for shape in seen] == [[None, 3]]
