"""Preparation of raw measurements as a TensorFlow graph: what `ncl_tf.data.preprocessing` does, for exported models.

A raw row has one number per declared channel, static channels first: the measured value, a level's code, or NaN. The order of
steps is the pipeline's: forward fill first, then ranges. So a value outside its range is missing until a new one is measured,
and hides the value before it.

A filled row is all that must be known of an hour to prepare it, raw and carried forward: the value of every channel and, for
observation columns, of each observed channel the hours since its last measurement, their number so far, and the value before
the last one (`ncl_tf.serving.rows.state_columns`). NaN is what is not known, everywhere in an hour before the stay.
"""

from collections.abc import Sequence

import numpy as np
import tensorflow as tf

from ncl_tf.data.preprocessing import Preprocessor
from ncl_tf.serving.rows import remembered


class RawPreprocessor(tf.Module):
    """A fitted preprocessor; R raw channels become filled rows of F numbers, and these C prepared columns.

    Attributes:
        channels: names of the R channels.
        size: the number F; that of the channels if there are no observation columns.
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
        # Variables, since TensorFlow would replace division by or of a constant with products that differ in the last bit.
        self.mean = tf.Variable(preprocessor.mean[self._source], trainable=False, name="mean")
        self.scale = tf.Variable(preprocessor.scale[self._source], trainable=False, name="scale")
        self._observe(preprocessor)

    def _observe(self, preprocessor: Preprocessor) -> None:
        """Find where in a filled row is what observation columns need, and what scales them."""
        dataset = preprocessor.dataset
        self._remembered, begin = (
            {},
            len(self.channels),
        )  # by name: its part of a filled row, and of which channels it is
        for name, channels in remembered(dataset):
            self._remembered[name] = slice(begin, begin + len(channels)), np.array(channels, int)
            begin += len(channels)
        self.size = begin
        self._observations = list(dict.fromkeys(name for name, _ in dataset.observation_columns))
        if "since" in self._remembered:
            self.one = tf.Variable(1.0, trainable=False, name="one")
        if "count" in dataset.observations:
            mean, scale = preprocessor.count_mean[dataset.observed], preprocessor.count_scale[dataset.observed]
            self.count_mean = tf.Variable(mean, trainable=False, name="count_mean")
            self.count_scale = tf.Variable(scale, trainable=False, name="count_scale")
        if "change" in dataset.observations:
            change_scale = preprocessor.scale[self._remembered["before"][1]]
            self.change_scale = tf.Variable(change_scale, trainable=False, name="change_scale")

    def fill(self, rows: tf.Tensor, hour: tf.Tensor) -> tf.Tensor:
        """Fill forward within each stay: raw [N, R] -> filled [N, F]; `hour` [N] int32 counts from the stay's first row."""
        values = tf.transpose(rows)
        # True but for NaN. TensorFlow would move ~is_nan before the transposition, of which oneDNN then prints an error.
        measured = values <= np.inf
        # Number the measurements through all channels: each hour's value is the one with the number reached so far ...
        number = tf.reshape(tf.cumsum(tf.cast(tf.reshape(measured, [-1]), tf.int32)), tf.shape(values))
        each = tf.concat([[np.nan], tf.boolean_mask(values, measured)], 0)
        # ... unless that was reached before the stay, or before the channel.
        first = tf.range(tf.shape(rows)[0]) - hour
        count = number - tf.gather(number - tf.cast(measured, tf.int32), first, axis=1)
        filled = [tf.where(count > 0, tf.gather(each, number), np.nan)]
        for name, (_, channels) in self._remembered.items():
            number_of, count_of = tf.gather(number, channels), tf.gather(count, channels)
            if name == "since":
                row = tf.range(tf.shape(rows)[0]) + tf.zeros_like(number)
                measured_at = tf.gather(tf.concat([[0], tf.boolean_mask(row, measured)], 0), number_of)
                hours = tf.cast(tf.gather(row, channels) - measured_at, tf.float32)
                filled.append(tf.where(count_of > 0, hours, np.nan))
            elif name == "count":
                filled.append(tf.cast(count_of, tf.float32))
            else:
                before = tf.gather(each, tf.maximum(number_of - 1, 0))
                filled.append(tf.where(count_of > 1, before, np.nan))
        return tf.transpose(tf.concat(filled, axis=0))

    def fill_next(self, rows: tf.Tensor, last: tf.Tensor) -> tf.Tensor:
        """Fill one more hour of each of B stays: raw [B, R] and the filled rows of the hour before [B, F] -> [B, F]."""
        values = last[:, : len(self.channels)]
        filled = [tf.where(tf.math.is_nan(rows), values, rows)]
        for name, (part, channels) in self._remembered.items():
            measured = ~tf.math.is_nan(tf.gather(rows, channels, axis=1))
            so_far = last[:, part]
            if name == "since":
                filled.append(tf.where(measured, 0.0, so_far + 1))
            elif name == "count":
                filled.append(tf.where(tf.math.is_nan(so_far), 0.0, so_far) + tf.cast(measured, tf.float32))
            else:
                filled.append(tf.where(measured, tf.gather(values, channels, axis=1), so_far))
        return tf.concat(filled, axis=1)

    def prepare(self, filled: tf.Tensor) -> tf.Tensor:
        """Apply ranges, scaling, one-hot coding and zero imputation; append observations: [..., F] -> [..., C]."""
        plausible = self._plausible(filled[..., : len(self.channels)], np.arange(len(self.channels)))
        values = tf.gather(plausible, self._source, axis=-1)
        scaled = _zeros_for_nan((values - self.mean) / self.scale)
        prepared = tf.where(np.isnan(self._level), scaled, tf.cast(values == self._level, tf.float32))
        known = {name: filled[..., part] for name, (part, _) in self._remembered.items()}
        made = {}
        if "since" in known:
            made["recency"] = _zeros_for_nan(self.one / (1 + known["since"]))
            made["measured"] = tf.cast(known["since"] == 0, tf.float32)
        if "count" in known:
            made["count"] = _zeros_for_nan((tf.math.log1p(known["count"]) - self.count_mean) / self.count_scale)
        if "before" in known:
            channels = self._remembered["before"][1]
            before = self._plausible(known["before"], channels)
            made["change"] = _zeros_for_nan((tf.gather(plausible, channels, axis=-1) - before) / self.change_scale)
        return tf.concat([prepared, *(made[name] for name in self._observations)], axis=-1)

    def _plausible(self, values: tf.Tensor, channels: np.ndarray) -> tf.Tensor:
        """Replace values [..., K] of the channels [K] outside their plausible ranges by NaN."""
        return tf.where((values < self._low[channels]) | (values > self._high[channels]), np.nan, values)

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


def _zeros_for_nan(values: tf.Tensor) -> tf.Tensor:
    return tf.where(tf.math.is_nan(values), 0.0, values)
