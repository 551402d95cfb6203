"""Encoder and projector against a slow re-implementation, and what they may and may not look at."""

import keras
import numpy as np
import pytest
import tensorflow as tf

from layers import layer_norm, randomize
from ncl_tf.errors import InputError
from ncl_tf.networks.encoder import Encoder, Projector, l2_normalize
from ncl_tf.networks.fast.encoder import FastEncoder

STATIC, COLUMNS = 2, 7


def build_encoder(seed: int = 0, hours: int = 48, kind: type[Encoder] = Encoder, **kwargs) -> Encoder:
    encoder = kind(STATIC, **kwargs)
    encoder.build((None, hours, COLUMNS))
    randomize(encoder, seed)
    return encoder


def random_windows(seed: int, samples: int = 4, hours: int = 48) -> np.ndarray:
    return np.random.default_rng(seed).normal(size=(samples, hours, COLUMNS)).astype(np.float32)


def causal_convolution(x: np.ndarray, kernel: np.ndarray, bias: np.ndarray, dilation: int) -> np.ndarray:
    """y_t = b + sum_j W_j x_{t - (k - 1 - j) d}, with zeros before the window: [T, C] -> [T, filters]."""
    y = np.tile(bias, (len(x), 1))
    for t in range(len(x)):
        for j in range(len(kernel)):
            source = t - (len(kernel) - 1 - j) * dilation
            if source >= 0:
                y[t] += x[source] @ kernel[j]
    return y


def slow_representations(encoder: Encoder, window: np.ndarray, dilations, stacks: int) -> np.ndarray:
    """One representation per hour, [T, C] -> [T, size]; weights taken in the order of their creation."""
    weights = iter([w.astype(np.float64) for w in encoder.get_weights()])
    x = window[:, STATIC:].astype(np.float64)
    for dilation in tuple(dilations) * stacks:
        y = x
        for _ in range(2):
            y = causal_convolution(y, next(weights), next(weights), dilation)
            y = np.maximum(layer_norm(y, next(weights), next(weights)), 0)
        if x.shape[1] != y.shape[1]:
            x = causal_convolution(x, next(weights), next(weights), 1)
        x = np.maximum(x + y, 0)
    static = np.tile(window[-1, :STATIC], (len(window), 1))
    merged = np.concatenate([x, static], axis=1) @ next(weights) + next(weights)
    merged = layer_norm(merged, next(weights), next(weights))
    assert next(weights, None) is None
    return merged / np.linalg.norm(merged, axis=1, keepdims=True)


@pytest.mark.parametrize("kind", [Encoder, FastEncoder])
@pytest.mark.parametrize(
    "settings",
    [{}, {"history": 33, "kernel_size": 3, "dilations": (1, 3), "stacks": 2, "filters": 5, "size": 6}],
    ids=["paper", "others"],
)  # the others' filters equal the dynamic channels: no matching convolution
def test_equals_slow_network(settings, kind):
    encoder = build_encoder(1, kind=kind, **settings)
    windows = random_windows(1)
    dilations, stacks = settings.get("dilations", (1, 2, 4, 8, 16)), settings.get("stacks", 1)
    expected = np.stack([slow_representations(encoder, window, dilations, stacks)[-1] for window in windows])
    np.testing.assert_allclose(encoder(windows), expected, atol=1e-5)


@pytest.mark.parametrize("kind", [Encoder, FastEncoder])
def test_xla_equals_eager(kind):
    encoder, windows = build_encoder(2, kind=kind), random_windows(2)
    compiled = tf.function(encoder, jit_compile=True)
    np.testing.assert_allclose(compiled(windows), encoder(windows), atol=1e-5)


@pytest.mark.parametrize("columns, static, weights", [(40, 5, 87_040), (42, 1, 87_936)])
def test_number_of_weights(columns, static, weights):
    encoder = Encoder(static)
    encoder.build((None, 48, columns))
    assert encoder.count_params() == weights


def test_without_normalization_only_the_length_differs():
    sphere, free = build_encoder(4), build_encoder(normalize=False)
    free.set_weights(sphere.get_weights())
    vectors = free(random_windows(4)).numpy()
    lengths = np.linalg.norm(vectors, axis=1, keepdims=True)
    assert np.all(np.abs(lengths - 1) > 0.1)
    np.testing.assert_allclose(vectors / lengths, sphere(random_windows(4)), atol=1e-6)


@pytest.mark.parametrize("kind", [Encoder, FastEncoder])
def test_compression_is_arcsinh_of_all_inputs(kind):
    """Of windows and of stays; weights know nothing of it."""
    plain, compressing = build_encoder(4, kind=kind), build_encoder(kind=kind, compress=True)
    compressing.set_weights(plain.get_weights())
    windows = 5 * random_windows(4) ** 3
    expected = plain(np.arcsinh(windows).astype(np.float32))
    np.testing.assert_allclose(compressing(windows), expected, rtol=0, atol=1e-5)
    assert np.abs(plain(windows) - expected).max() > 0.01
    hour = np.arange(48, dtype=np.int32)
    stays = plain.stays(np.arcsinh(windows[0]).astype(np.float32), hour)
    np.testing.assert_allclose(compressing.stays(windows[0], hour), stays, rtol=0, atol=1e-5)


@pytest.mark.parametrize("seed", range(2))
def test_receptive_field_is_63_hours(seed):
    encoder = build_encoder(seed, hours=100, kind=(Encoder, FastEncoder)[seed])
    windows = random_windows(seed, hours=100)
    reference = encoder(windows).numpy()
    for back, matters in ((64, False), (63, True), (1, True)):
        changed = windows.copy()
        if matters:
            changed[:, 100 - back, STATIC:] += 5
        else:
            changed[:, : 100 - back + 1] += 5
        difference = np.abs(encoder(changed) - reference).max(axis=1)
        assert np.all(difference > 1e-5) if matters else np.all(difference == 0)


def paths(prefix: str) -> list[str]:
    encoder, projector = Encoder(STATIC, name=f"{prefix}encoder"), Projector(name=f"{prefix}projector")
    encoder.build((None, 48, COLUMNS))
    projector.build((None, 64))
    optimizer = keras.optimizers.Adam(name=f"{prefix}adam")
    optimizer.build(encoder.trainable_variables + projector.trainable_variables)
    return [variable.path for model in (encoder, projector, optimizer) for variable in model.variables]


def test_variable_paths_are_unique_and_do_not_depend_on_what_was_built_before():
    first, momentum = paths(""), paths("momentum_")
    keras.layers.LayerNormalization()
    assert paths("") == first
    assert len(set(first + momentum)) == len(first + momentum)
    assert "encoder/tcn/residual_block_4/norm_1/gamma" in first
    assert not any("layer_normalization" in path for path in first)


def test_saved_weights_load_into_an_encoder_built_later(tmp_path):
    saved = build_encoder(8)
    saved.save_weights(tmp_path / "encoder.weights.h5")
    keras.layers.LayerNormalization()
    loaded = build_encoder(9)
    loaded.load_weights(tmp_path / "encoder.weights.h5")
    np.testing.assert_array_equal(loaded(random_windows(8)), saved(random_windows(8)))


def test_projector_equals_its_formula():
    projector = Projector(size=3)
    projector.build((None, 5))
    randomize(projector, 0)
    w1, b1, gamma, beta, w2, b2 = projector.get_weights()
    x = np.random.default_rng(0).normal(size=(6, 5)).astype(np.float32)
    expected = np.maximum(layer_norm(x @ w1 + b1, gamma, beta), 0) @ w2 + b2
    expected /= np.linalg.norm(expected, axis=1, keepdims=True)
    np.testing.assert_allclose(projector(x), expected, rtol=1e-4, atol=1e-6)


def test_l2_normalize_is_safe_at_zero():
    vectors = tf.constant([[0.0, 0.0], [3.0, 4.0]])
    with tf.GradientTape() as tape:
        tape.watch(vectors)
        normalized = l2_normalize(vectors)
    np.testing.assert_allclose(normalized, [[0, 0], [0.6, 0.8]], rtol=1e-6)
    assert np.all(np.isfinite(tape.gradient(normalized, vectors)))


@pytest.mark.parametrize(
    "settings, message",
    [
        ({"static_columns": -1}, "static_columns .*-1"),
        ({"filters": 0}, "filters .*0"),
        ({"dilations": (1, 0)}, r"dilations .*\(1, 0\)"),
        ({"history": 64}, r"dilations \(1, 2, 4, 8, 16\).*reach 63 .*64"),
        ({"history": 1}, "history .*1"),
        ({"static_columns": 5}, "more than 5 columns.* 5"),
    ],
)
def test_bad_arguments(settings, message):
    with pytest.raises(InputError, match=message):
        Encoder(**({"static_columns": 1} | settings)).build((None, 48, 5))
