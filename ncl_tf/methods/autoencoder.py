"""Seq2Seq auto-encoders: a representation from which the window, or the one that follows it, can be told."""

from typing import NamedTuple

import keras
import numpy as np
import tensorflow as tf

from ncl_tf.data.cohort import SplitData
from ncl_tf.data.windows import Batch
from ncl_tf.decoders import Decoder
from ncl_tf.encoders import Encoder
from ncl_tf.errors import InputError
from ncl_tf.fast.pieces import means_in_pieces


class Terms(NamedTuple):
    """Parts of the objective, and the error of predicting zero that `sequence_mse` has to stay below; scalars."""

    loss: tf.Tensor
    static_mse: tf.Tensor
    sequence_mse: tf.Tensor
    zero_mse: tf.Tensor


class Autoencoder(keras.Model):
    """Encoder and decoder, trained to reconstruct the window that is encoded or to forecast the one after it.

    Nothing is augmented or dropped, and nothing is random but the initial weights.

    Args:
        encoder: f_e, without normalisation to the unit sphere and without static dropout.
        decoder: of `decoder.hours` hours, 48 in the paper.
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
        super().__init__(name=name)
        if encoder.static_dropout.rate:
            raise InputError(f"{name}: the encoder's static_dropout is {encoder.static_dropout.rate}; allowed: 0")
        if encoder.static_columns != decoder.static_columns:
            raise InputError(
                f"{name}: the decoder has {decoder.static_columns} static columns; allowed: {encoder.static_columns}, "
                "as in the encoder"
            )
        self.encoder, self.decoder = encoder, decoder
        self.forecast, self.all_samples, self.seed = forecast, all_samples, seed
        self.terms = {name: keras.metrics.Mean(name=name) for name in Terms._fields}

    @property
    def window_hours(self) -> int:
        """Length of the windows that it is trained on."""
        return self.decoder.hours * (2 if self.forecast else 1)

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

    @property
    def metrics(self) -> list[keras.metrics.Metric]:
        """Means of the objective's terms; Keras resets them at the start of each epoch."""
        return list(self.terms.values())

    def call(self, windows: tf.Tensor) -> tuple[tf.Tensor, tf.Tensor]:
        """Encodes the first `decoder.hours` hours: [B, window_hours, C] -> static values [B, S], sequence [B, hours, C - S]."""
        return self.decoder(self.encoder(windows[:, : self.decoder.hours]))

    def train_step(self, batch: Batch) -> dict[str, tf.Tensor]:
        """One step of the optimizer on the reconstruction's error."""
        with tf.GradientTape() as tape:
            terms = self.errors(batch["window"], in_pieces=self.encoder.fast)
            loss = terms.loss / tf.distribute.get_strategy().num_replicas_in_sync  # Keras sums gradients over replicas
        weights = self.trainable_variables
        self.optimizer.apply_gradients(zip(tape.gradient(loss, weights), weights, strict=True))
        return self.report(terms)

    def test_step(self, batch: Batch) -> dict[str, tf.Tensor]:
        """The same error, on other data."""
        return self.report(self.errors(batch["window"]))

    def errors(self, windows: tf.Tensor, in_pieces: bool = False) -> Terms:
        """L = mean (d^ - d)^2 + mean (s^ - s)^2, over all samples, static values d and, hour by hour, the sequence s.

        Hours before the stay and values never measured are zero and count like others.

        Args:
            windows: [B, window_hours, C]; d are the static values of the last hour, s the last `decoder.hours` hours.
            in_pieces: the same, faster; then the loss alone has a gradient, with respect to the variables alone.
        """
        if in_pieces:
            return means_in_pieces(self.errors, windows, self.trainable_variables, Terms)
        static, sequence = self(windows)
        columns = self.decoder.static_columns
        static_mse = _mean_square(static - windows[:, -1, :columns])
        target = windows[:, -self.decoder.hours :, columns:]
        sequence_mse = _mean_square(sequence - target)
        return Terms(static_mse + sequence_mse, static_mse, sequence_mse, _mean_square(target))

    def report(self, terms: Terms) -> dict[str, tf.Tensor]:
        """Takes the terms into the running means and returns these."""
        for name, value in terms._asdict().items():
            self.terms[name].update_state(value)
        return {name: metric.result() for name, metric in self.terms.items()}


def _mean_square(values: tf.Tensor) -> tf.Tensor:
    """0 for a cohort without static columns, rather than the mean of nothing."""
    return tf.math.divide_no_nan(tf.reduce_sum(tf.square(values)), tf.cast(tf.size(values), values.dtype))
