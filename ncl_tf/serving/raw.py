"""Preparation of raw measurements as a TensorFlow graph: what `ncl_tf.data.preprocessing` does, for exported models.

A raw row has one number per declared channel, static channels first: the measured value, a level's code, or NaN. The order of
steps is the pipeline's: forward fill first, then ranges. So a value outside its range is missing until a new one is measured,
and hides the value before it.
"""

from collections.abc import Sequence

import numpy as np
import tensorflow as tf

from ncl_tf.data.preprocessing import Preprocessor


class RawPreprocessor(tf.Module):
    """A fitted preprocessor; R raw channels become C prepared columns.

    Attributes:
        channels: names of the R channels.
        static: how many of them, the first ones, are static.
        hour: position of the channel with the hour of the stay; None if there is none.
    """

    def __init__(self, preprocessor: Preprocessor) -> None:
        super().__init__(name="raw_preprocessor")
        declared = preprocessor.dataset.channels
        self.channels = [channel.name for channel in declared]
        self.static = sum(channel.static for channel in declared)
        self.hour = self.channels.index(preprocessor.dataset.hour) if preprocessor.dataset.hour else None
        self._low = np.array([-np.inf if c.low is None else c.low for c in declared], np.float32)
        self._high = np.array([np.inf if c.high is None else c.high for c in declared], np.float32)
        self._source = np.repeat(np.arange(len(declared)), [len(c.columns) for c in declared])
        # The level that each column stands for, NaN for a scaled one; two levels make one column, for the second.
        self._level = np.concatenate([c.levels[-len(c.columns) :] or [np.nan] for c in declared]).astype(np.float32)
        self._categorical = np.flatnonzero([c.kind == "categorical" for c in declared])
        most = max(len(channel.levels) for channel in declared)
        levels = [[*c.levels, *[np.nan] * (most - len(c.levels))] for c in declared if c.kind == "categorical"]
        self._levels = np.array(levels, np.float32)
        self._allowed = [c.allowed for c in declared]
        # Variables, since TensorFlow would replace division by a constant with a product that differs in the last bit.
        self.mean = tf.Variable(preprocessor.mean[self._source], trainable=False, name="mean")
        self.scale = tf.Variable(preprocessor.scale[self._source], trainable=False, name="scale")

    def fill(self, rows: tf.Tensor, hour: tf.Tensor) -> tf.Tensor:
        """Fill forward within each stay: [N, R] -> [N, R]; `hour` [N] int32 counts from the stay's first row."""
        values = tf.transpose(rows)
        # True but for NaN. TensorFlow would move ~is_nan before the transposition, of which oneDNN then prints an error.
        measured = values <= np.inf
        # Number the measurements through all channels: each hour's value is the one with the number reached so far ...
        number = tf.reshape(tf.cumsum(tf.cast(tf.reshape(measured, [-1]), tf.int32)), tf.shape(values))
        filled = tf.gather(tf.concat([[np.nan], tf.boolean_mask(values, measured)], 0), number)
        # ... unless that was reached before the stay, or before the channel.
        first = tf.range(tf.shape(rows)[0]) - hour
        before = tf.gather(number - tf.cast(measured, tf.int32), first, axis=1)
        return tf.transpose(tf.where(number > before, filled, np.nan))

    def prepare(self, filled: tf.Tensor) -> tf.Tensor:
        """Apply ranges, scaling, one-hot coding and zero imputation: [..., R] -> [..., C]."""
        plausible = tf.where((filled < self._low) | (filled > self._high), np.nan, filled)
        values = tf.gather(plausible, self._source, axis=-1)
        scaled = (values - self.mean) / self.scale
        scaled = tf.where(tf.math.is_nan(scaled), 0.0, scaled)
        return tf.where(np.isnan(self._level), scaled, tf.cast(values == self._level, tf.float32))

    def check(self, rows: tf.Tensor, before: tf.Tensor) -> None:
        """Stop the graph at a value that cannot be right, with a message that shows value, place and what is allowed.

        The rows [N, R] are raw; `before` [N, R] has the row before each one in its stay, NaN for the first.
        """
        everywhere = np.arange(len(self.channels))
        self._refuse(rows, tf.math.is_inf(rows), everywhere, ["a finite number, or NaN where not measured"])
        if len(self._categorical):
            codes = tf.gather(rows, self._categorical, axis=1)
            known = tf.reduce_any(codes[:, :, None] == self._levels, axis=2)
            allowed = [self._allowed[channel] for channel in self._categorical]
            self._refuse(rows, ~(known | tf.math.is_nan(codes)), self._categorical, allowed)
        if self.hour is not None:
            hour, last = rows[:, self.hour], before[:, self.hour]
            wrong = (hour != tf.floor(hour)) | ((hour != last + 1) & ~tf.math.is_nan(last))
            self._refuse(rows, wrong[:, None], [self.hour], ["a whole hour, one after the hour of the row before"])

    def _refuse(self, rows: tf.Tensor, bad: tf.Tensor, channels: Sequence[int], allowed: list[str]) -> None:
        """Stop at the first cell of raw rows [N, R] that is `bad` [N, K], in the K channels at the positions `channels`.

        `allowed` is what their cells may hold, [K] or, if all may hold the same, [1].
        """

        def stop() -> tf.Tensor:
            row, column = tf.unstack(tf.where(bad)[0])
            channel = tf.gather(tf.constant(channels, tf.int64), column)
            place = ["row ", tf.strings.as_string(row)]
            if self.hour is not None:
                hour = tf.strings.as_string(rows[row, self.hour], shortest=True)
                place += [f", {self.channels[self.hour]} ", hour]
            value = tf.strings.as_string(rows[row, channel], shortest=True)
            expected = allowed[0] if len(allowed) == 1 else tf.gather(allowed, column)
            fault = [", channel ", tf.gather(self.channels, channel), ": must be ", expected, ", got ", value]
            tf.debugging.Assert(False, [tf.strings.join([*place, *fault])])
            return tf.constant(False)

        tf.cond(tf.reduce_any(bad), stop, lambda: tf.constant(True))
