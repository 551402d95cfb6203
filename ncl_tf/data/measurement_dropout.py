"""Measurement dropout: views of what a patient with fewer measurements would look like."""

import keras
import numpy as np
import tensorflow as tf

from ncl_tf.data.augmentations import Draws
from ncl_tf.data.preprocessing import Preprocessor
from ncl_tf.errors import InputError

NEVER = -1e6  # the hour of a measurement that there was not; hours since it are still exact in float32


class MeasurementDropout(keras.layers.Layer):
    """Drops single measurements at random, then fills forward and makes all observations anew from what is left.

    It acts on prepared windows [N, T, C] that nothing has changed yet. A measurement is where recency (or measured) is 1. The
    hours from a dropped measurement to the next kept one get the value of the kept one before, its recency, and a count
    without those that were dropped.

    What lies before the window is not known, so its first hour stays as it is: a measurement there is never dropped, and its
    value, which may have been carried into the window, is what hours get before the first kept measurement. Its recency shows
    its age, and the count goes on from there. In a window that reaches back to before the stay, this value is the zero of
    padding: hours before the first kept measurement are as if nothing had been measured.

    All columns are then those that preparation would make of the stay without the dropped measurements. One thing cannot be
    seen in a window: a value of exactly zero, the mean, is taken for one outside its plausible range, and its change is zero.

    Args:
        probability: that a measurement is dropped.
        preprocessor: what prepared the windows; it names their columns.
        left_out: how many of its columns, the first ones, windows do not have.
    """

    def __init__(self, probability: float, preprocessor: Preprocessor, left_out: int = 0, **kwargs) -> None:
        super().__init__(**kwargs)
        if not 0 <= probability <= 1:
            raise InputError(f"MeasurementDropout: probability must be 0 to 1, got {probability}")
        dataset = preprocessor.dataset
        if not {"recency", "measured"} & set(dataset.observations):
            raise InputError(
                "MeasurementDropout: the cohort must have the observation recency or measured, got "
                f"{', '.join(dataset.observations) or 'none'}; prepare it with bin/prepare ... --observations=recency"
            )
        self.probability = probability
        position = {channel: index for index, channel in enumerate(dataset.observed)}
        about = dataset.column_channels[left_out : len(dataset.value_columns)]
        self._values = len(about)
        # Which observed channel each column with values is of; the last number is for those that none is dropped from.
        self._of_column = np.array([position.get(channel, len(position)) for channel in about])
        self._blocks, begin = {}, self._values
        for observation in dict.fromkeys(observation for observation, _ in dataset.observation_columns):
            channels = [position[channel] for name, channel in dataset.observation_columns if name == observation]
            self._blocks[observation] = slice(begin, begin + len(channels)), np.array(channels)
            begin += len(channels)
        if "count" in self._blocks:
            self._mean, self._scale = (x[dataset.observed] for x in (preprocessor.count_mean, preprocessor.count_scale))

    def call(self, windows: tf.Tensor, draws: Draws, observed: tf.Tensor | None = None) -> tf.Tensor:
        observations = {name: windows[:, :, block] for name, (block, _) in self._blocks.items()}
        recency = observations.get("recency")
        measured = (observations["measured"] if recency is None else recency) == 1  # [N, T, D]
        shape = tf.shape(measured)
        hour = tf.range(windows.shape[1], dtype=tf.float32)[:, None]
        dropped = (
            measured & (hour > 0) & draws.bernoulli([shape[0], windows.shape[1], measured.shape[2]], self.probability)
        )
        kept = measured & ~dropped
        # The hour of the last measurement, which may lie before the window; NEVER - 1 gives way to the first hour's NEVER.
        first = NEVER if recency is None else tf.where(recency > 0, 1 - tf.round(1 / recency), NEVER)
        measured_at = tf.where(kept, hour, tf.where(hour == 0, first, NEVER - 1))
        values = windows[:, :, : self._values]
        values, last = _fill(values, self._spread(measured_at, hour)), _last(measured_at)
        made = {"measured": tf.cast(kept, windows.dtype)}
        if recency is not None:
            made["recency"] = tf.where(last > NEVER / 2, 1 / (1 + hour - last), 0)
        if "count" in observations:
            made["count"] = self._count(observations["count"], dropped)
        if "change" in observations:
            made["change"] = self._change(observations["change"], values, measured_at)
        return tf.concat([values, *(made[name] for name in self._blocks)], axis=2)

    def _spread(self, measured_at: tf.Tensor, hour: tf.Tensor) -> tf.Tensor:
        """Repeat what is about channels [N, T, D] for their columns; other columns are known at every hour."""
        always = tf.broadcast_to(hour, [*tf.unstack(tf.shape(measured_at)[:2]), 1])
        return tf.gather(tf.concat([measured_at, always], axis=2), self._of_column, axis=2)

    def _count(self, count: tf.Tensor, dropped: tf.Tensor) -> tf.Tensor:
        """Count again without the dropped measurements, [N, T, D]."""
        fewer = tf.cumsum(tf.cast(dropped, tf.float32), axis=1)
        measurements = tf.round(tf.math.expm1(count * self._scale + self._mean))
        again = (tf.math.log1p(measurements - fewer) - self._mean) / self._scale
        return tf.where(fewer > 0, again, count)

    def _change(self, change: tf.Tensor, values: tf.Tensor, measured_at: tf.Tensor) -> tf.Tensor:
        """Compute the change from the kept measurement before the last one to that one, for numbers: [N, T, K]."""
        channels = self._blocks["change"][1]
        values = tf.gather(values, [list(self._of_column).index(channel) for channel in channels], axis=2)
        measured_at = tf.gather(measured_at, channels, axis=2)
        before = _later(values, 1, 0)
        known = (values != 0) & (before != 0)
        begins = tf.range(tf.shape(values)[1])[:, None] == 0
        return _fill(tf.where(begins, change, tf.where(known, values - before, 0)), measured_at)


def _later(x: tf.Tensor, hours: int, filling: float) -> tf.Tensor:
    """Move what happened [N, T, C] some hours later."""
    return tf.pad(x[:, :-hours], [[0, 0], [hours, 0], [0, 0]], constant_values=filling)


def _last(measured_at: tf.Tensor) -> tf.Tensor:
    """Find the largest number up to each hour: [N, T, C] -> [N, T, C]."""
    hours = 1
    while hours < measured_at.shape[1]:  # each pass looks back twice as far
        measured_at = tf.maximum(measured_at, _later(measured_at, hours, 2 * NEVER))
        hours *= 2
    return measured_at


def _fill(values: tf.Tensor, measured_at: tf.Tensor) -> tf.Tensor:
    """Take the values [N, T, C] of the hour up to each one with the largest number `measured_at` [N, T, C]."""
    hours = 1
    while hours < values.shape[1]:
        before = _later(measured_at, hours, 2 * NEVER)
        values = tf.where(before > measured_at, _later(values, hours, 0), values)
        measured_at = tf.maximum(measured_at, before)
        hours *= 2
    return values
