"""A function of a batch, piece by piece, against the function of the whole batch."""

import keras
import numpy as np
import pytest
import tensorflow as tf

from ncl_tf.encoders import Encoder
from ncl_tf.fast.pieces import in_pieces


def make_layer() -> tuple[keras.Model, list[keras.Variable]]:
    keras.utils.set_random_seed(3)
    layer = keras.Sequential([keras.layers.Dense(4, activation="tanh"), keras.layers.LayerNormalization()])
    layer.build((None, 6))
    return layer, layer.trainable_variables


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


def assert_same(function, variables, inputs: tf.Tensor, size: int, jit_compile: bool) -> None:
    whole = gradients(function, inputs, variables, jit_compile)
    pieces = gradients(lambda x: in_pieces(function, x, size), inputs, variables, jit_compile)
    for one, other in zip(whole, pieces, strict=True):
        np.testing.assert_allclose(other, one, rtol=1e-4, atol=1e-5 * np.abs(one).max())


@pytest.mark.parametrize("jit_compile", [False, True])
@pytest.mark.parametrize("batch, size", [(12, 4), (13, 4), (5, 4), (4, 4), (3, 4), (7, 1)])
def test_equals_the_whole_batch(batch, size, jit_compile):
    assert_same(*make_layer(), tf.random.stateless_normal([batch, 6], [batch, size]), size, jit_compile)


def test_the_encoder_equals_itself_in_pieces():
    keras.utils.set_random_seed(4)
    encoder = Encoder(static_columns=2, size=5, filters=4, dilations=(1, 2))
    encoder.build((None, 9, 6))
    inputs = tf.random.stateless_normal([300, 9, 6], [1, 2])
    np.testing.assert_allclose(encoder(inputs), encoder._last_hour(inputs), rtol=1e-5, atol=1e-6)
    assert_same(encoder._last_hour, encoder.trainable_variables, inputs[:10], 4, jit_compile=False)


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
