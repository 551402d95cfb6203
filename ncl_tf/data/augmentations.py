"""Augmentations that make the views of a sample (section 4.3 and appendix of the paper).

A layer maps windows [N, T, C] to altered windows. It is called as `layer(windows, draws=draws, observed=observed)`: all
its randomness comes from `draws`, and `observed` [N] is the number of observed hours of each sample before any
augmentation. Windows are pre-padded: the hours before a stay began are all-zero rows at the front.
"""

from collections.abc import Sequence
from copy import copy
from functools import cache
from statistics import NormalDist

import keras
import numpy as np
import tensorflow as tf

from ncl_tf.errors import InputError


class Draws:
    """Random numbers of one view, which depend on (seed, step, view, stream) and on nothing else.

    The same call returns the same numbers again; `stream` returns others. Each shape is [n, ...] for n local samples. Under data
    parallelism a replica holds the samples first .. first + n of a global batch of `total`, and draws for them what a
    single device would.

    All numbers are computed from integer draws: TensorFlow and XLA agree on those bit for bit, not on floats.

    Args:
        first: index of the first local sample in the global batch.
        total: size of the global batch; None: the local batch is all there is.
        blocks: how many times the samples occur one after the other; both views of a batch are 2 blocks.
    """

    _RESOLUTION = 2**24  # as many equally spaced numbers as float32 holds in [0, 1)

    def __init__(
        self,
        seed: int,
        step: int | tf.Tensor,
        view: int,
        first: int | tf.Tensor = 0,
        total: int | None = None,
        blocks: int = 1,
    ) -> None:
        self._key = _fold_in(tf.stack([tf.cast(seed, tf.int64), tf.cast(step, tf.int64)]), view)
        self._first = tf.cast(first, tf.int32)
        self._total = total
        self._blocks = blocks

    def stream(self, index: int) -> "Draws":
        """Return draws that are independent of these and of every other index's, and likewise streams of streams."""
        stream = copy(self)
        stream._key = _fold_in(self._key, index)
        return stream

    def uniform(self, shape: Sequence[int | tf.Tensor]) -> tf.Tensor:
        """Draw uniformly from [0, 1), float32."""
        return tf.cast(self._integers_below(self._RESOLUTION, shape), tf.float32) / self._RESOLUTION

    def bernoulli(self, shape: Sequence[int | tf.Tensor], probability: float) -> tf.Tensor:
        """Draw bools that are true with the given probability."""
        return self.uniform(shape) < probability

    def integers(self, shape: Sequence[int | tf.Tensor], low: int | tf.Tensor, high: int | tf.Tensor) -> tf.Tensor:
        """Draw uniformly from low .. high, both included and broadcast to the shape, int32."""
        numbers = tf.cast(high - low + 1, tf.float32)
        return low + tf.cast(self.uniform(shape) * numbers, tf.int32)

    def truncated_normal(self, shape: Sequence[int | tf.Tensor], std: float) -> tf.Tensor:
        """Draw normally with mean 0 and the given std, truncated at 2 std, float32."""
        quantiles = tf.constant(std * _truncated_normal_quantiles(), tf.float32)
        return tf.gather(quantiles, self._integers_below(quantiles.shape[0], shape))

    def _integers_below(self, bound: int, shape: Sequence[int | tf.Tensor]) -> tf.Tensor:
        """Draw uniformly from 0 .. bound - 1, a power of two: for the global batch, cut to the local one; int32."""
        samples, *rest = shape
        total = samples if self._total is None else self._blocks * self._total
        drawn = tf.random.stateless_uniform([total, *rest], self._key, 0, bound, tf.int32, alg="philox")
        if self._total is None:
            return drawn
        by_block = tf.reshape(drawn, [self._blocks, self._total, *rest])
        return tf.reshape(by_block[:, self._first : self._first + samples // self._blocks], [samples, *rest])


def _fold_in(key: tf.Tensor, index: int | tf.Tensor) -> tf.Tensor:
    return tf.random.fold_in(key, tf.cast(index, tf.int64), alg="philox")  # int64: 2^64 keys, no chance collisions


@cache
def _truncated_normal_quantiles() -> np.ndarray:
    """Return 2^16 equally likely quantiles of the standard normal truncated at 2, [2^16] float64.

    A table because TensorFlow and XLA round the inverse of the distribution function differently.
    """
    normal = NormalDist()
    probabilities = (np.arange(2**16) + 0.5) / 2**16
    lowest, highest = normal.cdf(-2), normal.cdf(2)
    return np.array([normal.inv_cdf(p) for p in lowest + probabilities * (highest - lowest)])


def observed_hours(windows: tf.Tensor) -> tf.Tensor:
    """Count the hours since the first row that is not all zero: [N, T, C] -> [N] int32."""
    hours = windows.shape[1]
    observed = tf.reduce_max(tf.abs(windows), axis=2) > 0  # XLA takes twice as long for tf.reduce_any(windows != 0)
    return tf.reduce_max(tf.where(observed, hours - tf.range(hours), 0), axis=1)


class HistoryCutout(keras.layers.Layer):
    """Zeroes consecutive hours of the history, start uniform, never the last hour.

    Args:
        probability: that a sample is cut at all.
        hours: how many, fewer than a window has.
    """

    def __init__(self, probability: float = 0.8, hours: int = 8, **kwargs) -> None:
        super().__init__(**kwargs)
        self.probability = _fraction(self, "probability", probability)
        if not hours >= 1:
            raise InputError(f"HistoryCutout: hours must be 1 or more, got {hours}")
        self.hours = hours

    def build(self, input_shape: Sequence[int | None]) -> None:
        """Refuse windows [batch, hours, columns] in which nothing but the cutout would be left."""
        if not self.hours < input_shape[1]:
            raise InputError(
                f"HistoryCutout: hours must be below those of a window, {input_shape[1]}, got {self.hours}; raise history, "
                "or name augmentation.layers without 'cutout'"
            )

    def call(self, windows: tf.Tensor, draws: Draws, observed: tf.Tensor | None = None) -> tf.Tensor:
        samples, length = tf.shape(windows)[0], windows.shape[1]
        applies = draws.stream(0).bernoulli([samples, 1], self.probability)
        start = draws.stream(1).integers([samples, 1], 0, length - 1 - self.hours)
        hour = tf.range(length)
        return _zero(windows, (applies & (start <= hour) & (hour < start + self.hours))[:, :, None])


class HistoryCrop(keras.layers.Layer):
    """Zeroes the oldest hours; keeps a length uniform between a share of the observed history and all of it.

    Args:
        probability: that a sample is cropped at all.
        minimum: smallest share of the observed hours to keep. The last hour always stays.
    """

    def __init__(self, probability: float = 0.5, minimum: float = 0.5, **kwargs) -> None:
        super().__init__(**kwargs)
        self.probability = _fraction(self, "probability", probability)
        self.minimum = _fraction(self, "minimum", minimum)

    def call(self, windows: tf.Tensor, draws: Draws, observed: tf.Tensor | None = None) -> tf.Tensor:
        samples, length = tf.shape(windows)[0], windows.shape[1]
        if observed is None:
            observed = observed_hours(windows)
        shortest = tf.cast(tf.math.ceil(self.minimum * tf.cast(observed, tf.float32)), tf.int32)
        kept = draws.stream(1).integers([samples], tf.maximum(shortest, 1), observed)
        kept = tf.where(draws.stream(0).bernoulli([samples], self.probability), kept, length)
        return _zero(windows, (tf.range(length) < length - kept[:, None])[:, :, None])


class GaussianNoise(keras.layers.Layer):
    """Adds noise that is constant over the window, except to zeros: they are padding or imputed.

    Each sample and channel draws it from a normal distribution with this `std`, truncated at 2 std.

    Args:
        std: standard deviation, before truncation.
        values: how many columns, the first ones, hold values; those after them, observations, get none. None: all.
    """

    def __init__(self, std: float = 0.1, values: int | None = None, **kwargs) -> None:
        super().__init__(**kwargs)
        if not std >= 0:
            raise InputError(f"GaussianNoise: std must be 0 or more, got {std}")
        self.std, self.values = std, values

    def call(self, windows: tf.Tensor, draws: Draws, observed: tf.Tensor | None = None) -> tf.Tensor:
        columns = windows.shape[2]
        values = columns if self.values is None else self.values
        noise = draws.truncated_normal([tf.shape(windows)[0], 1, values], self.std)
        if values < columns:
            noise = tf.pad(noise, [[0, 0], [0, 0], [0, columns - values]])
        return tf.where(windows == 0, windows, windows + tf.cast(noise, windows.dtype))


class ChannelDropout(keras.layers.Layer):
    """Zeroes whole channels, each channel of each sample with probability `rate`.

    Args:
        rate: the probability.
        channels: number of the channel, from 0, that each column is about; columns of one channel are dropped together. None:
            every column is dropped on its own.
    """

    def __init__(self, rate: float = 0.2, channels: Sequence[int] | None = None, **kwargs) -> None:
        super().__init__(**kwargs)
        self.rate, self.channels = _fraction(self, "rate", rate), channels

    def call(self, windows: tf.Tensor, draws: Draws, observed: tf.Tensor | None = None) -> tf.Tensor:
        channels = windows.shape[2] if self.channels is None else max(self.channels) + 1
        dropped = draws.bernoulli([tf.shape(windows)[0], 1, channels], self.rate)
        return _zero(windows, dropped if self.channels is None else tf.gather(dropped, self.channels, axis=2))


class StaticDropout(keras.layers.Layer):
    """Zeroes static columns, each with probability `rate`, and scales the others by 1 / (1 - rate), as Keras' Dropout does."""

    def __init__(self, rate: float = 0.5, **kwargs) -> None:
        super().__init__(**kwargs)
        if not 0 <= rate < 1:
            raise InputError(f"StaticDropout: rate must be 0 or more and below 1, got {rate}")
        self.rate = rate

    def call(self, windows: tf.Tensor, draws: Draws, observed: tf.Tensor | None = None) -> tf.Tensor:
        dropped = draws.bernoulli([tf.shape(windows)[0], 1, windows.shape[2]], self.rate)
        return _zero(windows / (1 - self.rate), dropped)


class Augmentation(keras.layers.Layer):
    """One view of each sample: the layers in turn, each with its own stream of draws.

    The observed hours are counted here, on the untouched window over all channels: after a cutout, the beginning of a
    stay would look like padding, and a crop would keep too little.

    Args:
        static_columns: how many columns, the first ones, get dropout and nothing else; with 0, static values pass through
            the layers like all columns (authors' code, which has their dropout inside the encoders).
        layers: in order; None: cutout, crop, noise and channel dropout with the paper's settings.
        static_rate: rate of the static columns' dropout.
    """

    def __init__(
        self,
        static_columns: int,
        layers: Sequence[keras.layers.Layer] | None = None,
        static_rate: float = 0.5,
        **kwargs,
    ) -> None:
        super().__init__(**kwargs)
        if not static_columns >= 0:
            raise InputError(f"Augmentation: static_columns must be 0 or more, got {static_columns}")
        if layers is None:
            layers = [HistoryCutout(), HistoryCrop(), GaussianNoise(), ChannelDropout()]
        self.layers = list(layers)
        self.static_dropout = StaticDropout(static_rate)
        self.static_columns = static_columns

    def build(self, input_shape: Sequence[int | None]) -> None:
        """Build the layers for windows of shape [batch, hours, columns], which refuse those that they cannot augment."""
        for layer in self.layers:
            layer.build(input_shape)

    def call(self, windows: tf.Tensor, draws: Draws) -> tf.Tensor:
        """Make one view of each window: [N, T, C] -> [N, T, C]."""
        observed = observed_hours(windows)
        static, view = windows[:, :, : self.static_columns], windows[:, :, self.static_columns :]
        for index, layer in enumerate(self.layers):
            view = layer(view, draws=draws.stream(index), observed=observed)
        static = self.static_dropout(static, draws=draws.stream(len(self.layers)))
        return tf.concat([static, view], axis=2)


def _zero(windows: tf.Tensor, where: tf.Tensor) -> tf.Tensor:
    """Zero windows [N, T, C] where `where` (broadcast) is true."""
    return tf.where(where, tf.zeros((), windows.dtype), windows)


def _fraction(layer: keras.layers.Layer, name: str, value: float) -> float:
    if not 0 <= value <= 1:
        raise InputError(f"{type(layer).__name__}: {name} must be 0 to 1, got {value}")
    return value
