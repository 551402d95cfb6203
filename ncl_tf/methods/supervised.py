"""End-to-End: encoder and head trained together on the labels; also the form of a fine-tuned or a scored model."""

from typing import NamedTuple

import keras
import numpy as np
import tensorflow as tf

from ncl_tf.data.cohort import SplitData
from ncl_tf.data.windows import HISTORY, Batch
from ncl_tf.encoders import Encoder
from ncl_tf.evaluation.heads import cross_entropy
from ncl_tf.fast.pieces import means_in_pieces
from ncl_tf.plans import EarlyStopping


class Terms(NamedTuple):
    """The objective: a scalar."""

    loss: tf.Tensor


class Classifier(keras.Model):
    """Head on encoder. Nothing is augmented or dropped: the encoder is called as for evaluation, also when it is trained.

    Args:
        encoder: f_e.
        head: gives class probabilities.
        task: position of its label among a batch's labels.
        class_weights: [K] float32, in the loss.
        seed: of the order of samples.
        early_stopping: how `bin/train` trains it; None: a form that something else trains or only scores.
        training: the training split and the rows of it to learn from; None: all labelled rows of any split.
    """

    window_hours = HISTORY

    def __init__(
        self,
        encoder: Encoder,
        head: keras.Model,
        task: int,
        class_weights: np.ndarray,
        seed: int = 0,
        early_stopping: EarlyStopping | None = None,
        training: tuple[SplitData, np.ndarray] | None = None,
        name: str = "classifier",
    ) -> None:
        super().__init__(name=name)
        self.encoder, self.head, self.task, self.seed = encoder, head, task, seed
        self.early_stopping = early_stopping
        self._training = training
        self.class_weights = tf.constant(class_weights, tf.float32)
        self.mean_loss = keras.metrics.Mean(name="loss")

    def build(self, input_shape: tuple[int | None, ...]) -> None:
        """Creates those variables that are not there yet, for windows of shape [batch, hours, columns]."""
        if not self.encoder.built:
            self.encoder.build(input_shape)
        if not self.head.built:
            self.head.build((None, self.encoder.merge.units))
        self.built = True

    def sample_rows(self, split: SplitData) -> np.ndarray:
        """The labelled rows of a split; of the training split those to learn from."""
        if self._training and split is self._training[0]:
            return self._training[1]
        return np.flatnonzero(split.classes[:, self.task] >= 0)

    @property
    def metrics(self) -> list[keras.metrics.Metric]:
        """The mean loss; Keras resets it at the start of each epoch."""
        return [self.mean_loss]

    def call(self, windows: tf.Tensor, training: bool = False) -> tf.Tensor:
        """Class probabilities: [B, T, C] -> [B, K]."""
        return self.head(self.encoder(windows), training=training)

    def train_step(self, batch: Batch) -> dict[str, tf.Tensor]:
        """One step of Adam on the weighted cross-entropy."""
        with tf.GradientTape() as tape:
            terms = self.cross_entropy(batch, training=True, in_pieces=self.encoder.fast)
            loss = terms.loss / tf.distribute.get_strategy().num_replicas_in_sync  # Keras sums gradients over replicas
        weights = self.trainable_variables
        self.optimizer.apply_gradients(zip(tape.gradient(loss, weights), weights, strict=True))
        return self.report(terms, tf.shape(batch["label"])[0])

    def test_step(self, batch: Batch) -> dict[str, tf.Tensor]:
        """The same loss, on the labelled hours of a stretch of other data: a batch of one, of `Windows.stretches`."""
        classes = batch["label"][0, :, self.task]
        representations = self.encoder.stays(batch["rows"][0], batch["hour"][0], HISTORY)[HISTORY - 1 :]
        losses = cross_entropy(self.head(representations), tf.maximum(classes, 0), self.class_weights)
        samples = tf.math.count_nonzero(classes >= 0, dtype=losses.dtype)
        total = tf.reduce_sum(tf.where(classes >= 0, losses, 0))
        return self.report(Terms(tf.math.divide_no_nan(total, samples)), samples)

    def cross_entropy(self, batch: Batch, training: bool = False, in_pieces: bool = False) -> Terms:
        """Weighted cross-entropy, the mean over the samples.

        Args:
            batch: the samples.
            training: for the head.
            in_pieces: the same, faster; then it has a gradient with respect to the variables alone.
        """

        def mean(samples: tuple[tf.Tensor, tf.Tensor]) -> Terms:
            windows, classes = samples
            return Terms(tf.reduce_mean(cross_entropy(self(windows, training=training), classes, self.class_weights)))

        samples = batch["window"], batch["label"][:, self.task]
        return means_in_pieces(mean, samples, self.trainable_variables, Terms) if in_pieces else mean(samples)

    def report(self, terms: Terms, samples: tf.Tensor) -> dict[str, tf.Tensor]:
        """Takes the loss of a number of samples into the running mean and returns that."""
        self.mean_loss.update_state(terms.loss, sample_weight=samples)
        return {"loss": self.mean_loss.result()}
