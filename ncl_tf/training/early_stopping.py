"""Training until the validation loss stops falling; the best epoch's weights are kept."""

import dataclasses
import sys
from typing import Any

import keras
import tensorflow as tf

from ncl_tf.errors import InputError
from ncl_tf.methods.base import Method

VALIDATION_HOURS = 4096  # at a time


@dataclasses.dataclass(frozen=True)
class EarlyStopping:
    """Trains epochs at a constant rate until the validation loss stops falling, and keeps the best epoch's weights.

    Epochs follow each other without a gap, in whole batches: of H hours and batches of B, epoch e ends with step
    ceil(e H / B).

    Attributes:
        rate: learning rate.
        batch_size: B, samples per step.
        patience: epochs to wait for a better validation loss.
        max_epochs: upper limit of epochs.
    """

    rate: float
    batch_size: int
    patience: int
    max_epochs: int

    chooses = True

    def learning_rate(self) -> float:
        """Return the constant rate."""
        return self.rate

    def check(self, model: Method, hours: int) -> None:
        """Refuse a rate that is not positive and batches larger than an epoch; the protocol has checked the rest."""
        if not self.rate > 0:
            raise InputError(f"rate must be above 0, got {self.rate}")
        if not 1 <= self.batch_size <= hours:
            raise InputError(
                f"batches must be of 1 to {hours} samples, the labelled training hours, got {self.batch_size}: "
                "protocol.batch_size times the fraction of labels"
            )

    def epoch(self, step: int, hours: int) -> int:
        """Return the epoch, counted from 1, that the step after `step` steps belongs to."""
        return step * self.batch_size // hours + 1

    def next_report(self, step: int, hours: int) -> int:
        """Return the last step of the epoch."""
        return -(-self.epoch(step, hours) * hours // self.batch_size)

    def over(self, step: int, hours: int, best: "Best") -> bool:
        """Return whether the validation loss has not fallen for `patience` epochs, or `max_epochs` are done."""
        done = self.epoch(step, hours) - 1
        return done >= self.max_epochs or done - int(best.epoch.numpy()) >= self.patience

    def held_out(self, validation: Any, seed: int) -> tf.data.Dataset:
        """Return all of the validation split."""
        return validation.stretches(VALIDATION_HOURS)

    def describe(self, hours: int) -> str:
        """Return a line for the screen."""
        return (
            f"epochs of {hours / self.batch_size:,.0f} steps of {self.batch_size:,} samples, learning rate {self.rate:g}, "
            f"until the validation loss has not fallen for {self.patience}, at most {self.max_epochs:,}"
        )


class SeparateEpochs(EarlyStopping):
    """The same with epochs that each begin with a batch of their own: the last batch of an epoch may be smaller."""

    def epoch(self, step: int, hours: int) -> int:
        return step // -(-hours // self.batch_size) + 1

    def next_report(self, step: int, hours: int) -> int:
        return self.epoch(step, hours) * -(-hours // self.batch_size)


class Best:
    """The best epoch's number, validation loss and weights, as variables that checkpoints hold like the model's.

    Args:
        model: built; its trainable weights are kept, and nothing has been chosen yet.
    """

    def __init__(self, model: keras.Model) -> None:
        with keras.name_scope("best"):
            self.epoch = keras.Variable(0, dtype="int32", trainable=False, name="epoch")
            self.loss = keras.Variable(sys.float_info.max, dtype="float64", trainable=False, name="loss")
            self._pairs = [
                (weight, keras.Variable(weight.numpy(), trainable=False, name=weight.path.replace("/", ".")))
                for weight in model.trainable_variables
            ]

    @property
    def variables(self) -> list[keras.Variable]:
        """Epoch, loss and weights."""
        return [self.epoch, self.loss, *(kept for _, kept in self._pairs)]

    def update(self, epoch: int, loss: float) -> None:
        """Keep the model's weights if `loss` is the lowest so far."""
        if loss < float(self.loss.numpy()):
            self.epoch.assign(epoch)
            self.loss.assign(loss)
            for weight, kept in self._pairs:
                kept.assign(weight)

    def restore_best_weights(self) -> None:
        """Set the model's weights to those of the best epoch."""
        for weight, kept in self._pairs:
            weight.assign(kept)
