"""Seq2Seq auto-encoders: a representation from which the window, or the one that follows it, can be reconstructed."""

from typing import NamedTuple

import numpy as np
import tensorflow as tf

from ncl_tf.data.cohort import SplitData
from ncl_tf.data.windows import Batch
from ncl_tf.errors import InputError
from ncl_tf.methods.base import Method, Step
from ncl_tf.networks.decoder import Decoder
from ncl_tf.networks.encoder import Encoder


class Reconstruction(NamedTuple):
    """The objective and its parts, scalars; `zero_mse`, the error of predicting zero, is what `sequence_mse` must beat."""

    loss: tf.Tensor
    static_mse: tf.Tensor
    sequence_mse: tf.Tensor
    zero_mse: tf.Tensor


class Autoencoder(Method):
    """Encoder and decoder, trained to reconstruct the window that is encoded or to forecast the one after it.

    Nothing is augmented or dropped, and nothing is random but the initial weights.

    Args:
        encoder: f_e, without normalization to the unit sphere.
        decoder: of as many hours as the encoder's history, 48 in the paper.
        forecast: windows are twice as long; the first half is encoded, the second one reconstructed.
        seed: of the order of samples.
    """

    def __init__(self, encoder: Encoder, decoder: Decoder, forecast: bool = False, seed: int = 0) -> None:
        super().__init__(encoder, Reconstruction, seed, "autoencoder")
        if (decoder.static_columns, decoder.hours) != (encoder.static_columns, encoder.history):
            raise InputError(
                f"{self.name}: the decoder must have the encoder's {encoder.static_columns} static columns and "
                f"{encoder.history} hours, got {decoder.static_columns} and {decoder.hours}"
            )
        self.decoder, self.forecast = decoder, forecast

    @property
    def window_hours(self) -> int:
        """Length of the windows that it is trained on; a forecast's are twice as long as the encoder's history."""
        return self.encoder.history * (2 if self.forecast else 1)

    def build(self, input_shape: tuple[int | None, ...]) -> None:
        """Create all variables for windows of shape [batch, window_hours, columns], if the first step should not do it."""
        batch, hours, columns = input_shape
        expected = self.window_hours, self.decoder.static_columns + self.decoder.dynamic_columns
        if (hours, columns) != expected:
            raise InputError(
                f"{self.name}: windows must have {expected[0]} hours and {expected[1]} columns, got {hours} and {columns}"
            )
        self.encoder.build((batch, self.decoder.hours, columns))
        self.decoder.build((batch, self.encoder.merge.units))
        self.built = True

    def sample_rows(self, split: SplitData) -> np.ndarray | None:
        """Choose the rows of the split's table to learn from; None: all. Forecasts need an observed hour in the first half."""
        if not self.forecast:
            return None
        return np.flatnonzero(split.hour >= self.decoder.hours)

    def call(self, windows: tf.Tensor) -> tuple[tf.Tensor, tf.Tensor]:
        """Encode the first `decoder.hours` hours: [B, window_hours, C] -> static values [B, S], sequence [B, hours, C - S]."""
        return self.decoder(self.encoder(windows[:, : self.decoder.hours]))

    def compute_step(self, batch: Batch, training: bool) -> Step:
        """Evaluate the error of reconstructing the batch's windows."""
        return Step(self.means(self.errors, batch["window"], Reconstruction, training))

    def errors(self, windows: tf.Tensor) -> Reconstruction:
        """L = mean (d^ - d)^2 + mean (s^ - s)^2, over all samples, static values d and, hour by hour, the sequence s.

        Hours before the stay and values never measured are zero and count like others.

        Args:
            windows: [B, window_hours, C]; d are the static values of the last hour, s the last `decoder.hours` hours.
        """
        static, sequence = self(windows)
        columns = self.decoder.static_columns
        static_mse = _mean_square(static - windows[:, -1, :columns])
        target = windows[:, -self.decoder.hours :, columns:]
        sequence_mse = _mean_square(sequence - target)
        return Reconstruction(static_mse + sequence_mse, static_mse, sequence_mse, _mean_square(target))


def _mean_square(values: tf.Tensor) -> tf.Tensor:
    """Average the squares; 0 where there are no values, as in a cohort without static columns."""
    return tf.math.divide_no_nan(tf.reduce_sum(tf.square(values)), tf.cast(tf.size(values), values.dtype))
