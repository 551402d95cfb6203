"""The contract of a method: how its loss is computed from a batch, what it learns from and how long it is trained."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, NamedTuple

import keras
import numpy as np
import tensorflow as tf

from ncl_tf.data.cohort import SplitData
from ncl_tf.data.windows import Batch
from ncl_tf.networks.encoder import Encoder, Means, Samples

if TYPE_CHECKING:
    from ncl_tf.training.early_stopping import EarlyStopping


class Step(NamedTuple):
    """What a method computes from a batch.

    Attributes:
        terms: named tuple of scalars, the loss first; metrics of the same names are reported.
        samples: how many samples the terms are means of, where batches differ in size; None: all batches count alike.
        state: passed on to `Method.after_step`.
    """

    terms: tuple
    samples: tf.Tensor | None = None
    state: Any = None


class Method(keras.Model):
    """Base of all methods: a subclass writes `compute_step`, and the base trains and validates with it.

    Args:
        encoder: f_e, which is exported after training.
        terms: the class of named tuples that `compute_step` returns; its fields name the metrics.
        seed: of the order of samples and of everything else that is random.
        name: first part of the variables' paths.

    Attributes:
        early_stopping: how long it is trained, if its validation loss decides; None: a given number of steps.
        queue_size: keys that are kept; 0 for methods without a queue.
        keys_per_sample: keys that are enqueued for each sample; 0 for methods without a queue.
    """

    early_stopping: EarlyStopping | None = None
    queue_size: int = 0
    keys_per_sample: int = 0

    def __init__(self, encoder: Encoder, terms: type[tuple], seed: int, name: str) -> None:
        super().__init__(name=name)
        self.encoder, self.seed = encoder, seed
        self.terms = {field: keras.metrics.Mean(name=field) for field in terms._fields}

    def start_momentum_networks(self) -> None:
        """Start networks that follow the encoder as copies of it; most methods have none."""

    @property
    def window_hours(self) -> int:
        """Length of the windows that it is trained on: the encoder's history, unless a method needs more."""
        return self.encoder.history

    def compute_step(self, batch: Batch, training: bool) -> Step:
        """Compute the objective's terms of a batch."""
        raise TypeError(f"{type(self).__name__} must define compute_step")

    def validation_step(self, batch: Batch) -> Step:
        """Compute the terms of held-out data, by default as in training, without changing anything."""
        return self.compute_step(batch, training=False)

    def after_step(self, state: Any) -> None:
        """Update what else follows the optimizer's step, such as momentum networks; by default nothing."""

    def sample_rows(self, split: SplitData) -> np.ndarray | None:
        """Return the rows of the split's table to learn from; None: every hour, labelled or not."""

    def describe(self, batch_size: int) -> list[str]:
        """Return the settings as lines for the screen."""
        return []

    @property
    def metrics(self) -> list[keras.metrics.Metric]:
        """Means of the objective's terms; Keras resets them at the start of each epoch."""
        return list(self.terms.values())

    def train_step(self, batch: Batch) -> dict[str, tf.Tensor]:
        """Compute the loss of a batch and its gradients, and take one step of the optimizer."""
        with tf.GradientTape() as tape:
            step = self.compute_step(batch, training=True)
            loss = step.terms[0] / tf.distribute.get_strategy().num_replicas_in_sync  # Keras sums over replicas
        weights = self.trainable_variables
        self.optimizer.apply_gradients(zip(tape.gradient(loss, weights), weights, strict=True))
        self.after_step(step.state)
        return self.report(step)

    def test_step(self, batch: Batch) -> dict[str, tf.Tensor]:
        """Compute the terms of a held-out batch."""
        return self.report(self.validation_step(batch))

    def report(self, step: Step) -> dict[str, tf.Tensor]:
        """Add a step's terms to the running means and return these."""
        for name, value in step.terms._asdict().items():
            self.terms[name].update_state(value, sample_weight=step.samples)
        return {name: metric.result() for name, metric in self.terms.items()}

    def means(self, function: Callable[[Samples], Means], samples: Samples, kind: type[Means], training: bool) -> Means:
        """Return `function(samples)`, terms that are means over the samples, in the way that suits the encoder.

        The loss alone may have a gradient, and with respect to the trainable variables alone.
        """
        return self.encoder.means(function, samples, self.trainable_variables if training else (), kind)
