"""End-to-End: encoder and head trained together on the labels. Evaluations fine-tune and export the same class."""

from typing import TYPE_CHECKING, NamedTuple

import keras
import numpy as np
import tensorflow as tf

from ncl_tf.data.cohort import SplitData
from ncl_tf.data.windows import Batch
from ncl_tf.methods.base import Method, Step
from ncl_tf.networks.encoder import Encoder
from ncl_tf.networks.heads import cross_entropy

if TYPE_CHECKING:
    from ncl_tf.training.early_stopping import EarlyStopping


class CrossEntropy(NamedTuple):
    """The objective's only term, a scalar."""

    loss: tf.Tensor


class Classifier(Method):
    """A head on an encoder. Nothing is augmented or dropped: the encoder is called as for evaluation, also in training.

    Args:
        encoder: f_e.
        head: maps representations to class probabilities.
        task: position of its label among a batch's labels.
        class_weights: [K] float32, in the loss.
        seed: of the order of samples.
        early_stopping: how `bin/train` trains it; None: it is trained elsewhere, or only scored.
        training: the training split and the rows of it to learn from; None: all labelled rows of any split.
    """

    def __init__(
        self,
        encoder: Encoder,
        head: keras.Model,
        task: int,
        class_weights: np.ndarray,
        seed: int = 0,
        early_stopping: "EarlyStopping | None" = None,
        training: tuple[SplitData, np.ndarray] | None = None,
    ) -> None:
        super().__init__(encoder, CrossEntropy, seed, "classifier")
        self.head, self.task, self.early_stopping = head, task, early_stopping
        self._training = training
        self.class_weights = tf.constant(class_weights, tf.float32)

    def build(self, input_shape: tuple[int | None, ...]) -> None:
        """Create the variables that do not exist yet, for windows of shape [batch, hours, columns]."""
        if not self.encoder.built:
            self.encoder.build(input_shape)
        if not self.head.built:
            self.head.build((None, self.encoder.merge.units))
        self.built = True

    def sample_rows(self, split: SplitData) -> np.ndarray:
        """Return the labelled rows of a split; of the training split those to learn from."""
        if self._training and split is self._training[0]:
            return self._training[1]
        return np.flatnonzero(split.classes[:, self.task] >= 0)

    def call(self, windows: tf.Tensor, training: bool = False) -> tf.Tensor:
        """Compute class probabilities: [B, T, C] -> [B, K]."""
        return self.head(self.encoder(windows), training=training)

    def compute_step(self, batch: Batch, training: bool) -> Step:
        """Compute the weighted cross-entropy, - w_y log p_y, as a mean over the samples."""

        def mean(samples: tuple[tf.Tensor, tf.Tensor]) -> CrossEntropy:
            windows, classes = samples
            losses = cross_entropy(self(windows, training=training), classes, self.class_weights)
            return CrossEntropy(tf.reduce_mean(losses))

        samples = batch["window"], batch["label"][:, self.task]
        return Step(self.means(mean, samples, CrossEntropy, training), tf.shape(batch["label"])[0])

    def validation_step(self, batch: Batch) -> Step:
        """Compute the same loss on the labelled hours of a held-out stretch: a batch of one, of `Windows.stretches`."""
        classes = batch["label"][0, :, self.task]
        representations = self.encoder.stays(batch["rows"][0], batch["hour"][0])[self.encoder.history - 1 :]
        losses = cross_entropy(self.head(representations), tf.maximum(classes, 0), self.class_weights)
        samples = tf.math.count_nonzero(classes >= 0, dtype=losses.dtype)
        total = tf.reduce_sum(tf.where(classes >= 0, losses, 0))
        return Step(CrossEntropy(tf.math.divide_no_nan(total, samples)), samples)
