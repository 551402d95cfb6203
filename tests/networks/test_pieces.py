"""Functions of a batch, piece by piece, against the functions of the whole batch."""

import os
from typing import NamedTuple

import keras
import numpy as np
import pytest
import tensorflow as tf

from ncl_tf.networks.fast.encoder import FastEncoder
from ncl_tf.networks.fast.pieces import default_size, map_in_pieces, means_in_pieces

SHAPES = [(12, 4), (13, 4), (5, 4), (4, 4), (3, 4), (7, 1)]


class Means(NamedTuple):
    """A loss, and two numbers to report."""

    loss: tf.Tensor
    square: tf.Tensor
    weight: tf.Tensor


def make_layer() -> keras.Model:
    keras.utils.set_random_seed(3)
    layer = keras.Sequential([keras.layers.Dense(4, activation="tanh"), keras.layers.LayerNormalization()])
    layer.build((None, 6))
    return layer


def random_inputs(*shape: int) -> tf.Tensor:
    return tf.random.stateless_normal(shape, [shape[0], len(shape)])


@pytest.mark.parametrize("jit_compile", [False, True])
@pytest.mark.parametrize("batch, size", SHAPES)
def test_a_map_equals_that_of_the_whole_batch(batch, size, jit_compile):
    layer, inputs = make_layer(), random_inputs(batch, 6)

    @tf.function(jit_compile=jit_compile)
    def outputs_and_gradients(piece: int) -> list[tf.Tensor]:
        with tf.GradientTape() as tape:
            tape.watch(inputs)
            outputs = map_in_pieces(layer, inputs, piece)
            loss = tf.reduce_sum(tf.range(1.0, batch + 1)[:, None] * outputs**3)
        return [outputs, *tape.gradient(loss, [inputs, *layer.trainable_variables])]

    for whole, pieces in zip(outputs_and_gradients(batch), outputs_and_gradients(size), strict=True):
        np.testing.assert_allclose(pieces, whole, rtol=1e-4, atol=1e-5 * np.abs(whole).max())


@pytest.mark.parametrize("jit_compile", [False, True])
@pytest.mark.parametrize("batch, size", SHAPES)
def test_means_and_gradients_equal_those_of_the_whole_batch(batch, size, jit_compile):
    layer = make_layer()
    samples = random_inputs(batch, 6), {"weight": tf.range(1.0, batch + 1)}
    unused = keras.Variable([1.0])
    variables = [*layer.trainable_variables, unused]

    def function(samples: tuple[tf.Tensor, dict[str, tf.Tensor]]) -> Means:
        inputs, weight = samples[0], samples[1]["weight"]
        outputs = layer(inputs)
        loss = tf.reduce_mean(weight[:, None] * outputs**3)
        return Means(loss, tf.reduce_mean(outputs**2), tf.reduce_mean(weight))

    @tf.function(jit_compile=jit_compile)
    def run(in_pieces: bool) -> tuple[Means, list[tf.Tensor]]:
        with tf.GradientTape() as tape:
            means = means_in_pieces(function, samples, variables, Means, size) if in_pieces else function(samples)
            loss = 3 * means.loss
        values = [variable.value for variable in variables]
        return means, tape.gradient(loss, values, unconnected_gradients=tf.UnconnectedGradients.ZERO)

    (whole, of_whole), (pieces, of_pieces) = run(False), run(True)
    assert isinstance(pieces, Means)
    np.testing.assert_allclose(pieces, whole, rtol=1e-5)
    assert float(pieces.weight) == pytest.approx((batch + 1) / 2)
    for one, other in zip(of_whole, of_pieces, strict=True):
        np.testing.assert_allclose(other, one, rtol=1e-4, atol=1e-5 * max(np.abs(one).max(), 1e-3))
    assert any(np.abs(gradient).max() > 0.1 for gradient in of_pieces)
    np.testing.assert_array_equal(of_pieces[-1], [0])


def test_only_the_loss_has_a_gradient():
    variable, inputs = keras.Variable([2.0, 3.0]), random_inputs(10, 2)

    def function(inputs: tf.Tensor) -> Means:
        mean = tf.reduce_mean(inputs * variable)
        return Means(mean, mean**2, mean)

    with tf.GradientTape(persistent=True) as tape:
        means = means_in_pieces(function, inputs, [variable], Means, 4)
    gradient = tape.gradient(means.loss, variable.value)
    np.testing.assert_allclose(gradient, tf.reduce_mean(inputs, axis=0) / 2, rtol=1e-5, atol=1e-7)
    np.testing.assert_allclose(means_in_pieces(function, inputs, (), Means, 4).loss, means.loss, rtol=1e-6)
    assert tape.gradient(means.square, variable.value) is None
    assert tape.gradient(means.weight, variable.value) is None


def test_the_encoder_equals_itself_in_pieces():
    keras.utils.set_random_seed(4)
    encoder = FastEncoder(static_columns=2, history=7, size=5, filters=4, dilations=(1, 2))
    encoder.build((None, 7, 6))
    inputs = random_inputs(300, 7, 6)
    one_by_one = [encoder(window[None]) for window in inputs[::60]]
    np.testing.assert_allclose(encoder(inputs)[::60], tf.concat(one_by_one, axis=0), rtol=1e-5, atol=1e-6)

    def function(windows: tf.Tensor) -> Means:
        return Means(*[tf.reduce_mean(encoder(windows) ** 3)] * 3)

    def gradients(size: int) -> list[tf.Tensor]:
        with tf.GradientTape() as tape:
            loss = means_in_pieces(function, inputs[:10], encoder.trainable_variables, Means, size).loss
        return tape.gradient(loss, encoder.trainable_variables)

    for whole, pieces in zip(gradients(10), gradients(4), strict=True):
        np.testing.assert_allclose(pieces, whole, rtol=1e-4, atol=1e-5 * np.abs(whole).max())


def test_an_unknown_number_of_samples_is_one_piece():
    seen = []

    def function(inputs: tf.Tensor) -> Means:
        seen.append(inputs.shape)
        return Means(*[tf.reduce_mean(inputs)] * 3)

    @tf.function
    def run(inputs: tf.Tensor) -> tuple[tf.Tensor, Means]:
        return map_in_pieces(lambda x: function(x) and x, inputs, 4), means_in_pieces(function, inputs, [], Means, 4)

    run.get_concrete_function(tf.TensorSpec([None, 3]))
    assert [shape.as_list() for shape in seen] == [[None, 3], [None, 3]]


@pytest.mark.parametrize("threads", ["1", "3"])
def test_a_piece_grows_with_the_threads_that_share_it(monkeypatch, threads):
    monkeypatch.setenv("TF_NUM_INTRAOP_THREADS", threads)
    assert default_size() == 128 * int(threads)


@pytest.mark.parametrize("unset", ["", "0"])
@pytest.mark.skipif(not hasattr(os, "sched_getaffinity"), reason="the system does not tie processes to cores")
def test_without_a_number_of_threads_there_is_one_for_each_core(monkeypatch, unset):
    monkeypatch.setenv("TF_NUM_INTRAOP_THREADS", unset)
    assert default_size() == 128 * len(os.sched_getaffinity(0))
