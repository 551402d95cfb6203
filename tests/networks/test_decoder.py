"""Decoder and its transposed convolutions against Keras and a slow re-implementation."""

import keras
import numpy as np
import pytest
import tensorflow as tf

from layers import layer_norm, outputs_and_gradients, randomize
from ncl_tf.errors import InputError
from ncl_tf.methods.authors import RectifiedDecoder
from ncl_tf.networks.decoder import Decoder, TransposedConvolution, mirror
from ncl_tf.networks.encoder import Encoder

STATIC, DYNAMIC, SIZE = 2, 5, 6
SMALL = {"kernel_size": 3, "dilations": (1, 3), "filters": 4, "hours": 11}  # grows to 1 + 2 * 2 * 4 = 17 steps


def build_decoder(seed: int = 0, kind: type[Decoder] = Decoder, **settings) -> Decoder:
    decoder = kind(STATIC, DYNAMIC, **settings)
    decoder.build((None, SIZE))
    randomize(decoder, seed)
    return decoder


def random_representations(seed: int, samples: int = 4) -> np.ndarray:
    return np.random.default_rng(seed).normal(size=(samples, SIZE)).astype(np.float32)


def build_convolutions(kernel_size: int, dilation: int) -> tuple[TransposedConvolution, keras.layers.Conv1DTranspose]:
    """Ours and that of Keras, with the same weights, from 3 channels to 4."""
    ours = TransposedConvolution(4, kernel_size, dilation, name="ours")
    theirs = keras.layers.Conv1DTranspose(4, kernel_size, dilation_rate=dilation, padding="valid")
    random = np.random.default_rng(dilation)
    for layer in (ours, theirs):
        layer.build((None, None, 3))
    ours.set_weights([random.normal(size=w.shape) for w in ours.get_weights()])
    theirs.set_weights(ours.get_weights())
    return ours, theirs


@pytest.mark.parametrize("steps", [1, 20])
@pytest.mark.parametrize(
    "kernel_size, dilation, compiled", [(2, 1, False), (2, 1, True), (2, 2, True), (2, 16, True), (3, 4, True)]
)
def test_transposed_convolution_equals_that_of_keras(kernel_size, dilation, compiled, steps):
    ours, theirs = build_convolutions(kernel_size, dilation)
    x = tf.random.stateless_normal([3, steps, 3], [steps, dilation])
    found, expected = (
        outputs_and_gradients(tf.function(layer, jit_compile=compiled), x, layer) for layer in (ours, theirs)
    )
    assert expected[0].shape == (3, steps + (kernel_size - 1) * dilation, 4)
    for result, reference in zip(found, expected, strict=True):
        np.testing.assert_allclose(result, reference, rtol=1e-4, atol=1e-5)
    np.testing.assert_allclose(ours(x), expected[0], rtol=1e-4, atol=1e-5)  # eagerly, where Keras fails if dilated


def transposed_convolution(x: np.ndarray, kernel: np.ndarray, bias: np.ndarray, dilation: int) -> np.ndarray:
    """Step t of the input is written to steps t, t + d, ... of the output: [T, C] -> [T + (k - 1) d, filters]."""
    y = np.tile(bias, (len(x) + (len(kernel) - 1) * dilation, 1))
    for t in range(len(x)):
        for j in range(len(kernel)):
            y[t + j * dilation] += kernel[j] @ x[t]
    return y


def slow_reconstruction(decoder: Decoder, representation: np.ndarray, dilations) -> tuple[np.ndarray, np.ndarray]:
    """Static values and the whole sequence, not cut; weights by name."""
    weights = {weight.path.removeprefix("decoder/"): weight.numpy().astype(np.float64) for weight in decoder.weights}
    expanded = representation @ weights["expand/kernel"] + weights["expand/bias"]
    x = expanded[None, STATIC:]
    for block, dilation in enumerate(reversed(dilations)):
        for layer in range(2):
            convolution, norm = f"block_{block}_convolution_{layer}", f"block_{block}_norm_{layer}"
            x = transposed_convolution(x, weights[f"{convolution}/kernel"], weights[f"{convolution}/bias"], dilation)
            if f"{norm}/gamma" in weights:
                x = np.maximum(layer_norm(x, weights[f"{norm}/gamma"], weights[f"{norm}/beta"]), 0)
    return expanded[:STATIC], x


@pytest.mark.parametrize("kind", [Decoder, RectifiedDecoder])
@pytest.mark.parametrize("settings, steps", [({}, 63), (SMALL, 17)], ids=["paper", "others"])
def test_decoder_is_the_last_steps_of_the_slow_network(settings, steps, kind):
    decoder, representations = build_decoder(1, kind, **settings), random_representations(1)
    static, sequence = decoder(representations)
    dilations, hours = settings.get("dilations", (1, 2, 4, 8, 16)), settings.get("hours", 48)
    expected = [slow_reconstruction(decoder, representation, dilations) for representation in representations]
    assert static.shape == (4, STATIC)
    assert sequence.shape == (4, hours, DYNAMIC)
    assert {whole.shape for _, whole in expected} == {(steps, DYNAMIC)}
    np.testing.assert_allclose(static, [values for values, _ in expected], atol=1e-5)
    np.testing.assert_allclose(sequence, [whole[-hours:] for _, whole in expected], atol=1e-5)


def test_xla_equals_eager():
    decoder, representations = build_decoder(2), random_representations(2)
    compiled = tf.function(decoder, jit_compile=True)
    for found, expected in zip(compiled(representations), decoder(representations), strict=True):
        np.testing.assert_allclose(found, expected, atol=1e-5)


def test_without_static_columns():
    decoder = Decoder(0, DYNAMIC)
    assert [values.shape for values in decoder(random_representations(5))] == [(4, 0), (4, 48, DYNAMIC)]


@pytest.mark.parametrize("kind, more", [(Decoder, 0), (RectifiedDecoder, 2 * 35)])
def test_number_of_weights(kind, more):
    decoder = kind(static_columns=5, dynamic_columns=35)
    decoder.build((None, 64))
    expand, convolution, norm, last = 65 * 69, 2 * 64 * 64 + 64, 2 * 64, 2 * 64 * 35 + 35
    assert decoder.count_params() == expand + 9 * (convolution + norm) + last + more


def test_mirror_takes_the_shape_of_the_encoder():
    encoder = Encoder(STATIC, 50, filters=9, kernel_size=3, dilations=(1, 2, 4), stacks=2)
    decoder = mirror(encoder, STATIC + DYNAMIC, RectifiedDecoder)
    assert (decoder.static_columns, decoder.dynamic_columns, decoder.hours) == (STATIC, DYNAMIC, 50)
    assert [layer.dilation_rate[0] for layer in decoder.convolutions] == [4, 4, 2, 2, 1, 1] * 2
    assert [layer.filters for layer in decoder.convolutions] == [9] * 11 + [DYNAMIC]
    assert {layer.kernel_size for layer in decoder.convolutions} == {(3,)}
    assert len(decoder.norms) == 12


def test_variable_paths_are_unique_and_do_not_depend_on_what_was_built_before():
    first = [weight.path for weight in build_decoder().weights]
    keras.layers.LayerNormalization()
    assert [weight.path for weight in build_decoder().weights] == first
    assert len(set(first)) == len(first)
    assert "decoder/block_4_convolution_1/kernel" in first
    assert not any("layer_normalization" in path or "transposed" in path for path in first)


def test_bad_arguments():
    for hours in (64, 0):
        with pytest.raises(InputError, match=f"hours .*1 to 63.* {hours}$"):
            Decoder(STATIC, DYNAMIC, hours=hours)
