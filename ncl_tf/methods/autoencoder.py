"""Seq2Seq auto-encoders: a representation from which the window, or the one that follows it, can be told."""

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
    """Parts of the objective, and the error of predicting zero that `sequence_mse` has to stay below; scalars."""

    loss: tf.Tensor
    static_mse: tf.Tensor
    sequence_mse: tf.Tensor
    zero_mse: tf.Tensor


class Autoencoder(Method):
    """Encoder and decoder, trained to reconstruct the window that is encoded or to forecast the one after it.

    Nothing is augmented or dropped, and nothing is random but the initial weights.

    Args:
        encoder: f_e, without normalisation to the unit sphere and without static dropout.
        decoder: of as many hours as the encoder's history, 48 in the paper.
        forecast: windows are twice as long; the first half is encoded, the second one reconstructed.
        all_samples: forecasts are also learnt from windows whose first half lies before the stay, as in the authors' code.
        seed: of the order of samples.
        name: first part of the variables' paths.
    """

    def __init__(
        self,
        encoder: Encoder,
        decoder: Decoder,
        forecast: bool = False,
        all_samples: bool = False,
        seed: int = 0,
        name: str = "autoencoder",
    ) -> None:
        super().__init__(encoder, Reconstruction, seed, name)
        if encoder.static_dropout.rate:
            raise InputError(f"{name}: the encoder's static_dropout is {encoder.static_dropout.rate}; allowed: 0")
        if (decoder.static_columns, decoder.hours) != (encoder.static_columns, encoder.history):
            raise InputError(
                f"{name}: the decoder must have the encoder's {encoder.static_columns} static columns and "
                f"{encoder.history} hours, got {decoder.static_columns} and {decoder.hours}"
            )
        self.decoder, self.forecast, self.all_samples = decoder, forecast, all_samples

    @property
    def window_hours(self) -> int:
        """Length of the windows that it is trained on; a forecast's are twice as long as the encoder's history."""
        return self.encoder.history * (2 if self.forecast else 1)

    def build(self, input_shape: tuple[int | None, ...]) -> None:
        """Creates all variables for windows of shape [batch, window_hours, columns]; the first step does it, too."""
        batch, hours, columns = input_shape
        expected = self.window_hours, self.decoder.static_columns + self.decoder.dynamic_columns
        if (hours, columns) != expected:
            raise InputError(
                f"{self.name}: windows have {hours} hours and {columns} columns; allowed: {expected[0]} and {expected[1]}"
            )
        self.encoder.build((batch, self.decoder.hours, columns))
        self.decoder.build((batch, self.encoder.merge.units))
        self.built = True

    def sample_rows(self, split: SplitData) -> np.ndarray | None:
        """Rows of the split's table to learn from; None: all. A forecast needs an observed hour in the first half."""
        if not self.forecast or self.all_samples:
            return None
        return np.flatnonzero(split.hour >= self.decoder.hours)

    def call(self, windows: tf.Tensor) -> tuple[tf.Tensor, tf.Tensor]:
        """Encodes the first `decoder.hours` hours: [B, window_hours, C] -> static values [B, S], sequence [B, hours, C - S]."""
        return self.decoder(self.encoder(windows[:, : self.decoder.hours]))

    def compute_step(self, batch: Batch, training: bool) -> Step:
        """The reconstruction's error."""
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
    """0 for a cohort without static columns, rather than the mean of nothing."""
    return tf.math.divide_no_nan(tf.reduce_sum(tf.square(values)), tf.cast(tf.size(values), values.dtype))
