"""The encoder at the last step only, against the keras-tcn layer whose weights it uses."""

from itertools import product

import keras
import numpy as np
import pytest
import tensorflow as tf
from tcn import TCN

from layers import outputs_and_gradients
from ncl_tf.networks.fast.last_step import last_step

DILATIONS = [(1, 2, 4, 8, 16), (1, 3, 5), (8, 1, 4), (7,)]
LENGTHS = [1, 2, 5, 17, 48, 63, 64, 100]
SHAPES = list(product((2, 3, 8), DILATIONS, (1, 2)))


def make_tcn(seed: int = 0, channels: int = 3, **settings) -> TCN:
    """A built layer with all weights random: biases too, since padding must stay zero behind them."""
    settings = {"nb_filters": 5, "kernel_size": 2, "dilations": (1, 2, 4)} | settings
    tcn = TCN(**settings, use_skip_connections=False, return_sequences=True)
    tcn.build((None, 8, channels))
    random = np.random.default_rng(seed)
    for weight in tcn.weights:
        scale = 1.0 if len(weight.shape) == 1 else np.prod(weight.shape[:-1]) ** -0.5
        weight.assign(random.uniform(0.5, 1.0, weight.shape) * random.choice([-1, 1], weight.shape) * scale)
    return tcn


def make_inputs(length: int, batch: int = 4, channels: int = 3, seed: int = 1) -> tf.Tensor:
    return tf.constant(np.random.default_rng(seed).normal(size=(batch, length, channels)), tf.float32)


@pytest.fixture
def double():
    """Layers compute in float64, where nothing but another formula could make a difference."""
    keras.config.set_dtype_policy("float64")
    yield
    keras.config.set_dtype_policy("float32")


def assert_same(tcn: TCN, inputs: tf.Tensor) -> None:
    inputs = tf.cast(inputs, tcn.compute_dtype)
    tolerance = {"float64": 1e-10, "float32": 1e-5}[tcn.compute_dtype]
    fast = outputs_and_gradients(lambda x: last_step(tcn, x), inputs, tcn)
    slow = outputs_and_gradients(lambda x: tcn(x)[:, -1], inputs, tcn)
    assert len(fast) == 2 + len(tcn.trainable_weights)
    for ours, theirs in zip(fast, slow, strict=True):
        assert np.linalg.norm(ours - theirs) <= tolerance * np.linalg.norm(theirs)


def test_equals_the_layer_of_the_paper():
    tcn = make_tcn(nb_filters=64, channels=35, dilations=(1, 2, 4, 8, 16), use_layer_norm=True)
    assert_same(tcn, make_inputs(48, batch=16, channels=35))


@pytest.mark.usefixtures("double")
@pytest.mark.parametrize("number", range(len(SHAPES)))
def test_equals_the_layer(number):
    kernel_size, dilations, stacks = SHAPES[number]
    shape = {"kernel_size": kernel_size, "dilations": dilations, "nb_stacks": stacks}
    tcn = make_tcn(number, **shape, use_layer_norm=number % 3 > 0)
    for offset in (0, 3):
        assert_same(tcn, make_inputs(LENGTHS[(number + offset) % len(LENGTHS)]))


@pytest.mark.usefixtures("double")
@pytest.mark.parametrize("norm", [False, True])
def test_equals_the_layer_at_every_length(norm):
    tcn = make_tcn(dilations=(1, 2, 4, 8, 16), use_layer_norm=norm)
    for length in LENGTHS:
        assert_same(tcn, make_inputs(length))


@pytest.mark.usefixtures("double")
@pytest.mark.parametrize("settings", [{"nb_filters": 3}, {"nb_filters": [3, 4, 5]}, {"activation": "tanh"}])
def test_identity_residuals_growing_filters_and_other_activations(settings):
    assert_same(make_tcn(**settings), make_inputs(12))


@pytest.mark.parametrize("jit_compile", [False, True])
def test_unknown_batch_size(jit_compile):
    tcn = make_tcn(dilations=(1, 2, 4, 8, 16), use_layer_norm=True)
    function = tf.function(
        lambda x: last_step(tcn, x), input_signature=[tf.TensorSpec([None, 48, 3])], jit_compile=jit_compile
    )
    for batch in (1, 7):
        inputs = make_inputs(48, batch)
        np.testing.assert_allclose(function(inputs), tcn(inputs)[:, -1], rtol=1e-5, atol=1e-5)


def test_computes_only_what_matters():
    tcn = make_tcn(nb_filters=64, channels=35, dilations=(1, 2, 4, 8, 16))
    graph = tf.function(lambda x: last_step(tcn, x)).get_concrete_function(tf.TensorSpec([1, 48, 35])).graph
    products = [operation.outputs[0] for operation in graph.get_operations() if operation.type == "MatMul"]
    matching = 24  # the first block's 1 x 1 convolution beside the 138
    assert [output.shape[0] for output in products] == [48, 24, matching, 24, 12, 12, 6, 6, 3, 2, 1]


def test_survives_export(tmp_path):
    module = tf.Module()
    module.tcn = tcn = make_tcn(use_layer_norm=True)
    module.call = tf.function(lambda x: last_step(tcn, x), input_signature=[tf.TensorSpec([None, 20, 3])])
    tf.saved_model.save(module, str(tmp_path))
    loaded, inputs = tf.saved_model.load(str(tmp_path)), make_inputs(20)
    np.testing.assert_allclose(loaded.call(inputs), tcn(inputs)[:, -1], rtol=1e-5, atol=1e-5)
