"""Augmentations: what must survive, how often they strike, and that their draws depend on nothing hidden."""

import keras
import numpy as np
import pytest
import tensorflow as tf
from scipy import stats

from ncl_tf.data.augmentations import (
    Augmentation,
    ChannelDropout,
    Draws,
    GaussianNoise,
    HistoryCrop,
    HistoryCutout,
    StaticDropout,
    observed_hours,
)
from refusals import refused

SAMPLES, HOURS, STATIC, CHANNELS = 10_000, 48, 2, 6


def random_windows(seed: int, samples: int = SAMPLES, columns: int = CHANNELS) -> tuple[np.ndarray, np.ndarray]:
    """Pre-padded windows without a zero among the observed values, and their observed hours, 1 .. HOURS."""
    random = np.random.default_rng(seed)
    observed = random.integers(1, HOURS + 1, samples)
    values = random.uniform(0.5, 2, (samples, HOURS, columns)) * random.choice([-1, 1], (samples, HOURS, columns))
    padding = np.arange(HOURS) < HOURS - observed[:, None]
    return np.where(padding[:, :, None], 0, values).astype(np.float32), observed


def assert_rate(happened: np.ndarray, probability: float) -> None:
    """The observed frequency is within 5 standard deviations of the probability."""
    deviation = np.sqrt(probability * (1 - probability) / happened.size)
    assert abs(happened.mean() - probability) <= 5 * deviation


def assert_uniform(numbers: np.ndarray, low: int, high: int) -> None:
    """Each of low .. high appears, equally often up to chance, and nothing else does."""
    values, counts = np.unique(numbers, return_counts=True)
    np.testing.assert_array_equal(values, np.arange(low, high + 1))
    assert stats.chisquare(counts).pvalue > 1e-4


def all_draws(draws: Draws, samples: int) -> dict[str, tf.Tensor]:
    return {
        "uniform": draws.uniform([samples, 3]),
        "bernoulli": draws.bernoulli([samples, 2, 2], 0.3),
        "integers": draws.integers([samples], 24, 48),
        "truncated_normal": draws.truncated_normal([samples, 5], 0.1),
        "stream": draws.stream(4).stream(2).uniform([samples]),
    }


def test_xla_draws_the_same_bit_for_bit():
    def draw(seed, step):
        return all_draws(Draws(seed, step, view=1), 999)

    graph, compiled = tf.function(draw), tf.function(draw, jit_compile=True)
    for identity in ([0, 0], [1111, 24_999], [2**40, 2**40]):
        identity = tf.constant(identity, tf.int64)
        for name, numbers in draw(*identity).items():
            np.testing.assert_array_equal(graph(*identity)[name], numbers, name)
            np.testing.assert_array_equal(compiled(*identity)[name], numbers, name)


@pytest.mark.parametrize("jit_compile", [False, True])
def test_a_replica_draws_its_share_of_the_global_batch(jit_compile):
    expected = all_draws(Draws(7, 3, view=0), 200)

    @tf.function(jit_compile=jit_compile)
    def local(first):
        return all_draws(Draws(7, 3, view=0, first=first, total=200), 50)

    for first in (0, 50, 150):
        for name, share in local(tf.constant(first)).items():
            np.testing.assert_array_equal(share, expected[name][first : first + 50], name)


def test_draws_are_reproducible_and_differ_in_every_respect():
    def numbers(*identity, stream=0):
        return Draws(*identity).stream(stream).uniform([1000]).numpy()

    reference = numbers(1, 2, 0)
    np.testing.assert_array_equal(reference, numbers(1, tf.constant(2), 0))
    others = [numbers(2, 2, 0), numbers(1, 3, 0), numbers(1, 2, 1), numbers(2, 1, 0), numbers(1, 2, 0, stream=1)]
    others += [draws.uniform([1000]).numpy() for draws in (Draws(1, 2, 0), Draws(1, 2, 0).stream(0).stream(0))]
    correlations = np.corrcoef([reference, *others])
    assert np.abs(correlations - np.eye(len(correlations))).max() < 5 / np.sqrt(1000)


def test_distributions():
    draws = Draws(5, 0, 0)
    uniform = draws.uniform([100_000]).numpy()
    assert uniform.min() >= 0 and uniform.max() < 1
    assert stats.kstest(uniform, "uniform").pvalue > 1e-3
    normal = draws.stream(1).truncated_normal([100_000], 0.1).numpy()
    assert np.abs(normal).max() < 0.2
    assert stats.kstest(normal, stats.truncnorm(-2, 2, scale=0.1).cdf).pvalue > 1e-3
    assert_uniform(draws.stream(2).integers([10_000], 3, 9).numpy(), 3, 9)


@pytest.mark.parametrize("seed", range(3))
def test_observed_hours(seed):
    windows, observed = random_windows(seed, samples=500)
    windows[:, :-1][np.random.default_rng(seed).random((500, HOURS - 1)) < 0.3] = 0  # missing hours within the stay
    first = [next(t for t in range(HOURS) if np.any(window[t])) for window in windows]
    np.testing.assert_array_equal(observed_hours(windows), HOURS - np.array(first))
    np.testing.assert_array_equal(observed_hours(np.zeros((2, HOURS, 3), np.float32)), [0, 0])


@pytest.mark.parametrize("seed", range(2))
def test_history_cutout(seed):
    windows = np.ones((SAMPLES, HOURS, 2), np.float32)
    views = HistoryCutout(probability=0.8, hours=8)(windows, draws=Draws(seed, 0, 0)).numpy()
    np.testing.assert_array_equal(views[:, -1], windows[:, -1])
    np.testing.assert_array_equal(views[:, :, 0], views[:, :, 1])
    zeroed = views[:, :, 0] == 0
    assert_rate(zeroed.any(axis=1), 0.8)
    starts = zeroed[zeroed.any(axis=1)].argmax(axis=1)
    assert_uniform(starts, 0, HOURS - 1 - 8)
    expected = (np.arange(HOURS) >= starts[:, None]) & (np.arange(HOURS) < starts[:, None] + 8)
    np.testing.assert_array_equal(zeroed[zeroed.any(axis=1)], expected)


def test_history_cutout_leaves_the_last_hour_of_the_shortest_window():
    views = HistoryCutout(probability=1.0, hours=8)(np.ones((50, 9, 1), np.float32), draws=Draws(0, 0, 0)).numpy()
    np.testing.assert_array_equal(views[:, :, 0], np.tile([0] * 8 + [1], (50, 1)))


@pytest.mark.parametrize("seed", range(2))
def test_history_crop(seed):
    windows, observed = random_windows(seed)
    views = HistoryCrop(probability=0.5, minimum=0.5)(windows, draws=Draws(seed, 0, 0)).numpy()
    kept = np.any(views != 0, axis=2).sum(axis=1)
    newest = np.arange(HOURS) >= HOURS - kept[:, None]
    np.testing.assert_array_equal(views, np.where(newest[:, :, None], windows, 0))
    assert np.all(2 * kept >= observed) and np.all(kept >= 1)
    never_shortened = (1 / (observed - np.ceil(observed / 2) + 1)).mean()  # drawing the full length is no crop
    assert_rate(kept < observed, 0.5 * (1 - never_shortened))


@pytest.mark.parametrize("observed, minimum, shortest", [(2, 0.5, 1), (7, 0.5, 4), (48, 0.5, 24), (4, 0.0, 1)])
def test_history_crop_keeps_a_uniform_length(observed, minimum, shortest):
    windows = np.ones((SAMPLES, HOURS, 1), np.float32)
    windows[:, : HOURS - observed] = 0
    views = HistoryCrop(probability=1.0, minimum=minimum)(windows, draws=Draws(0, 0, 0)).numpy()
    np.testing.assert_array_equal(views[:, -1], 1)
    assert_uniform((views != 0).sum(axis=(1, 2)), shortest, observed)


def test_gaussian_noise():
    windows, _ = random_windows(0)
    windows[:, 10, 3] = 0
    noise = GaussianNoise(std=0.1)(windows, draws=Draws(0, 0, 0)).numpy() - windows
    np.testing.assert_array_equal(noise[windows == 0], 0)
    np.testing.assert_allclose(noise, noise[:, -1:] * (windows != 0), atol=1e-6)
    assert stats.kstest(noise[:, -1].ravel(), stats.truncnorm(-2, 2, scale=0.1).cdf).pvalue > 1e-3
    correlations = np.corrcoef(noise[:, -1].T)
    assert np.abs(correlations - np.eye(CHANNELS)).max() < 5 / np.sqrt(SAMPLES)


@pytest.mark.parametrize("layer, scale", [(ChannelDropout(rate=0.2), 1), (StaticDropout(rate=0.2), 1.25)])
def test_dropout_of_whole_columns(layer, scale):
    windows, _ = random_windows(0)
    views = layer(windows, draws=Draws(0, 0, 0)).numpy()
    dropped = views[:, -1] == 0
    np.testing.assert_allclose(views, np.where(dropped[:, None], 0, windows * scale), rtol=1e-6)
    assert_rate(dropped, 0.2)
    assert_rate(dropped[:, 0] & dropped[:, 1], 0.04)


def test_a_channel_and_its_observations_are_dropped_together():
    """Six columns of three channels: 0 with two columns and an observation, 1 with an observation, 2 alone."""
    windows, _ = random_windows(0)
    views = ChannelDropout(0.2, channels=[0, 0, 1, 2, 0, 1])(windows, draws=Draws(0, 0, 0)).numpy()
    dropped = views[:, -1] == 0
    np.testing.assert_array_equal(views, np.where(dropped[:, None], 0, windows))
    np.testing.assert_array_equal(dropped, dropped[:, [0, 0, 2, 3, 0, 2]])
    assert_rate(dropped[:, [0, 2, 3]], 0.2)
    assert np.abs(np.corrcoef(dropped[:, [0, 2, 3]].T) - np.eye(3)).max() < 5 / np.sqrt(SAMPLES)


def test_noise_leaves_observations_as_they_are():
    windows, _ = random_windows(0)
    views = GaussianNoise(0.1, values=4)(windows, draws=Draws(0, 0, 0)).numpy()
    np.testing.assert_array_equal(views[:, :, 4:], windows[:, :, 4:])
    np.testing.assert_array_equal(views[:, :, :4], GaussianNoise(0.1)(windows[:, :, :4], draws=Draws(0, 0, 0)))


OFF = [HistoryCutout(0.0), HistoryCrop(0.0), HistoryCrop(1.0, 1.0), GaussianNoise(0.0), ChannelDropout(0.0)]


@pytest.mark.parametrize("layer", [*OFF, StaticDropout(0.0)])
def test_layers_switched_off_change_nothing(layer):
    windows, _ = random_windows(0, samples=200)
    np.testing.assert_array_equal(layer(windows, draws=Draws(0, 0, 0)), windows)


def test_default_is_the_order_and_the_settings_of_the_paper():
    cutout, crop, noise, dropout = Augmentation(STATIC).layers
    assert isinstance(cutout, HistoryCutout) and (cutout.probability, cutout.hours) == (0.8, 8)
    assert isinstance(crop, HistoryCrop) and (crop.probability, crop.minimum) == (0.5, 0.5)
    assert isinstance(noise, GaussianNoise) and noise.std == 0.1
    assert isinstance(dropout, ChannelDropout) and dropout.rate == 0.2


@pytest.mark.parametrize("seed", range(2))
def test_composition_on_dynamic_and_static_columns(seed):
    windows, _ = random_windows(seed)
    views = Augmentation(STATIC)(windows, draws=Draws(seed, 0, 0)).numpy()
    static, dynamic = views[:, :, :STATIC], views[:, :, STATIC:]
    assert np.all(views[windows == 0] == 0), "padding must stay zero"

    dropped = static[:, -1] == 0
    assert_rate(dropped, 0.5)
    np.testing.assert_array_equal(static, np.where(dropped[:, None], 0, 2 * windows[:, :, :STATIC]))

    assert_rate(dynamic[:, -1] == 0, 0.2)  # of the last hour, only whole channels vanish
    np.testing.assert_array_equal(dynamic[:, -1] == 0, np.all(dynamic == 0, axis=1))
    change = np.where(dynamic == 0, 0, np.abs(dynamic - windows[:, :, STATIC:]))
    assert 0.19 < change.max() < 0.2 + 1e-6


@pytest.mark.parametrize("order", [(0, 1), (1, 0)])
def test_crop_is_of_the_observed_history_even_if_a_cutout_hid_its_beginning(order):
    windows, _ = random_windows(0)
    layers = [[HistoryCutout(1.0, 8), HistoryCrop(1.0, 0.5)][i] for i in order]
    draws = Draws(0, 0, 0)
    alone = [layer(windows, draws=draws.stream(i)).numpy() for i, layer in enumerate(layers)]
    expected = np.where((alone[0] == 0) | (alone[1] == 0), 0, windows)
    np.testing.assert_array_equal(Augmentation(0, layers)(windows, draws=draws), expected)


@pytest.mark.parametrize("static_columns", [STATIC, 0])
def test_xla_makes_the_same_views(static_columns):
    windows, _ = random_windows(2, samples=300)
    augmentation = Augmentation(static_columns)

    def view(windows, step):
        return augmentation(windows, draws=Draws(1, step, 0))

    expected = view(windows, 5)
    np.testing.assert_array_equal(tf.function(view, jit_compile=True)(windows, tf.constant(5)), expected)


def test_replicas_make_the_views_of_a_single_device():
    windows, _ = random_windows(4, samples=60)
    augmentation = Augmentation(STATIC)
    whole = augmentation(windows, draws=Draws(1, 2, 0))
    for first in (0, 20, 40):
        share = augmentation(windows[first : first + 20], draws=Draws(1, 2, 0, first=first, total=60))
        np.testing.assert_array_equal(share, whole[first : first + 20])


def test_a_layer_of_ones_own():
    class Reverse(keras.layers.Layer):
        def call(self, windows, draws, observed=None):
            return -windows

    windows, _ = random_windows(5, samples=10)
    views = Augmentation(STATIC, [Reverse()], static_rate=0.0)(windows, draws=Draws(0, 0, 0))
    np.testing.assert_array_equal(views[:, :, :STATIC], windows[:, :, :STATIC])
    np.testing.assert_array_equal(views[:, :, STATIC:], -windows[:, :, STATIC:])


@pytest.mark.parametrize(
    ("build", "named"),
    [
        (lambda: HistoryCutout(probability=1.2), "HistoryCutout: probability & 1.2"),
        (lambda: HistoryCutout(hours=0), "HistoryCutout: hours & 0"),
        (lambda: Augmentation(1).build((None, 4, 3)), "hours & below those of a window, 4 & got 8"),
        (lambda: HistoryCrop(probability=-0.1), "HistoryCrop: probability & -0.1"),
        (lambda: HistoryCrop(minimum=2), "HistoryCrop: minimum & 2"),
        (lambda: GaussianNoise(std=-1), "GaussianNoise: std & -1"),
        (lambda: ChannelDropout(rate=float("nan")), "ChannelDropout: rate & nan"),
        (lambda: StaticDropout(rate=1.0), "StaticDropout: rate & 1.0"),
        (lambda: Augmentation(-1), "Augmentation: static_columns & -1"),
    ],
)
def test_bad_arguments(build, named):
    with refused(named):
        build()
