"""The functions of an exported model as TensorFlow graphs: on prepared windows, on raw stays, and hour by hour.

T is the model's history, 48 hours in the paper. The state that follows a patient is a plain tensor [T - 1, F]: the raw values of
the last T - 1 hours, forward filled, NaN where nothing is known yet, and for a model with observation columns, what these need
(`ncl_tf.serving.raw`). An hour before the stay prepares to zeros, so the empty state is all NaN and needs no count of hours.
"""

import numpy as np
import tensorflow as tf

from ncl_tf.evaluation.calibration import Calibrator
from ncl_tf.methods.supervised import Classifier
from ncl_tf.networks.encoder import Encoder
from ncl_tf.serving.raw import RawPreprocessor
from ncl_tf.serving.risk import risk

Outputs = dict[str, tf.Tensor]
Specs = list[tf.TensorSpec]


class EncoderFunctions:
    """The function of an encoder, `embed`: prepared windows [B, T, C] -> representations [B, size]."""

    def __init__(self, encoder: Encoder, columns: int) -> None:
        self.encoder = encoder
        self.windows = tf.TensorSpec([None, encoder.history, columns], tf.float32, name="windows")

    @property
    def signatures(self) -> dict[str, Specs]:
        """The name of each function with the tensors that it takes."""
        return {"embed": [self.windows]}

    def embed(self, windows: tf.Tensor) -> Outputs:
        """Embed prepared windows [B, T, C]: representations [B, size]."""
        return {"representations": self.encoder(windows)}


class ClassifierFunctions(EncoderFunctions):
    """`embed`, `predict` from prepared windows and, where there is a preprocessor, the functions of raw values.

    All but `embed` return the `probabilities` of the K classes at N hours, [N, K], and with a calibrator their `risk` too, [N].

    Args:
        classifier: takes prepared windows.
        columns: the number C of columns of a prepared window.
        raw: prepares raw values of D dynamic and S static channels.
        calibrator: maps the probability of the second class to its risk; None: no risk.
    """

    def __init__(
        self, classifier: Classifier, columns: int, raw: RawPreprocessor | None, calibrator: Calibrator | None = None
    ) -> None:
        super().__init__(classifier.encoder, columns)
        self.classifier, self.raw, self.calibrator = classifier, raw, calibrator

    @property
    def signatures(self) -> dict[str, Specs]:
        """The name of each function with the tensors that it takes; the first one is the server's default."""
        prepared = {**super().signatures, "predict": [self.windows]}
        if self.raw is None:
            return prepared
        channels, static = len(self.raw.channels), self.raw.static
        rows = [
            tf.TensorSpec([None, channels - static], tf.float32, name="values"),
            tf.TensorSpec([None, static], tf.float32, name="static"),
        ]
        lengths = tf.TensorSpec([None], tf.int32, name="lengths")
        state = tf.TensorSpec([None, self.encoder.history - 1, self.raw.size], tf.float32, name="state")
        return {"score_stay": rows, "score_stays": [*rows, lengths], "score_next": [*rows, state], **prepared}

    def predict(self, windows: tf.Tensor) -> Outputs:
        """Classify prepared windows [B, T, C]: probabilities [B, K]."""
        return self._outputs(self.classifier.head(self.embed(windows)["representations"]))

    def score_stay(self, values: tf.Tensor, static: tf.Tensor) -> Outputs:
        """Score every hour of one stay: raw values [N, D], NaN where not measured -> probabilities [N, K].

        Raw static values are [H, S], one row for what was known at admission, or up to N for what became known later.
        """
        hours, given = tf.shape(values)[0], tf.shape(static)[0]
        tf.debugging.assert_less_equal(given, tf.maximum(hours, 1), "static has more rows than values")
        missing = tf.maximum(hours - given, 0)
        static = tf.pad(static[:hours], [[0, missing], [0, 0]], constant_values=np.nan)
        return self.score_stays(values, static, hours[None])

    def score_stays(self, values: tf.Tensor, static: tf.Tensor, lengths: tf.Tensor) -> Outputs:
        """Score every hour of many stays: raw values [N, D], stay after stay, NaN where not measured -> probabilities [N, K].

        Windows of one stay share most of their computation, and many stays use the whole machine, so this is much faster
        than `score_stay` for each stay or `predict` on windows. Raw static values [N, S] are in each stay's first row or in
        any of them; `lengths` [stays] int32 counts the rows of each stay.
        """
        checks = [
            tf.debugging.assert_positive(lengths, "a stay has no rows"),
            tf.debugging.assert_equal(
                tf.reduce_sum(lengths), tf.shape(values)[0], "lengths do not sum to the rows of values"
            ),
        ]
        with tf.control_dependencies(checks):  # their messages must come before those of other operations
            lengths = tf.identity(lengths)
        rows = tf.concat([static, values], axis=1)
        hour = tf.range(tf.shape(rows)[0]) - tf.repeat(tf.cumsum(lengths, exclusive=True), lengths)
        self.raw.check(rows, tf.where(hour[:, None] == 0, np.nan, tf.roll(rows, 1, axis=0)))
        prepared = self.raw.prepare(self.raw.fill(rows, hour))
        return self._outputs(self.classifier.head(self.encoder.stays(prepared, hour)))

    def score_next(self, values: tf.Tensor, static: tf.Tensor, state: tf.Tensor) -> Outputs:
        """Score one more hour of each of B patients: -> probabilities [B, K], and the state to pass on in the next hour.

        Raw values [B, D] are NaN where not measured, static ones [B, S] where unchanged. The state [B, T - 1, F] is the one that
        was returned an hour ago, all NaN at the first hour.
        """
        row = tf.concat([static, values], axis=1)
        self.raw.check(row, state[:, -1, : len(self.raw.channels)])
        rows = tf.concat([state, self.raw.fill_next(row, state[:, -1])[:, None]], axis=1)
        return self.predict(self.raw.prepare(rows)) | {"state": rows[:, 1:]}

    def _outputs(self, probabilities: tf.Tensor) -> Outputs:
        if self.calibrator is None:
            return {"probabilities": probabilities}
        return {"probabilities": probabilities, "risk": risk(self.calibrator, probabilities[:, 1])}
