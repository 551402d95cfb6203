"""How long a method is trained and what is kept: a fixed number of steps, or epochs until the validation loss stops falling."""

import dataclasses
import math
import time
from collections.abc import Callable
from typing import Any

import keras
import tensorflow as tf

from ncl_tf.errors import InputError
from ncl_tf.methods.base import Method

VALIDATION_BATCHES = 10  # where a number of steps is given
VALIDATION_HOURS = 4096  # at a time, where the whole split is validated

Rate = float | keras.optimizers.schedules.LearningRateSchedule


@dataclasses.dataclass(frozen=True)
class FixedSteps:
    """Trains for a number of steps under a learning rate that rises and falls, and keeps the last weights.

    Attributes:
        steps: how many steps are taken.
        batch_size: N, samples per step.
        warmup: share of the steps in which the learning rate rises linearly; a cosine brings it down again.
        lowest_rate, highest_rate: learning rates at both ends and at the peak.
        report_every: steps between reports, validations on a few batches, and checkpoints.
    """

    steps: int
    batch_size: int
    warmup: float
    lowest_rate: float
    highest_rate: float
    report_every: int

    chooses = False

    def learning_rate(self) -> Rate:
        """Return the schedule."""
        return schedule(self.steps, self.warmup, self.lowest_rate, self.highest_rate)

    def check(self, model: Method, hours: int) -> None:
        """Refuse sizes that do not suit each other, the model or the `hours` to learn from."""
        check_sizes(model, hours, self.batch_size, self.steps, self.report_every)

    def next_report(self, step: int, hours: int) -> int:
        """Return the step after which to report next, the same one wherever a run was interrupted."""
        return min((step // self.report_every + 1) * self.report_every, self.steps)

    def over(self, step: int, hours: int, best: None = None) -> bool:
        """Return whether all steps are taken."""
        return step >= self.steps

    def held_out(self, validation: Any, seed: int) -> tf.data.Dataset | None:
        """Return some random batches, always the same; None if the split is smaller than a batch."""
        batches = min(VALIDATION_BATCHES, validation.count // self.batch_size)
        return validation.batches(self.batch_size, seed).take(batches) if batches else None

    def describe(self, hours: int) -> str:
        """Return a line for the screen."""
        epochs = self.steps * self.batch_size / hours
        return f"{self.steps:,} steps of {self.batch_size:,} samples, {epochs:.1f} epochs"


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

    def learning_rate(self) -> Rate:
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
            self.loss = keras.Variable(math.inf, dtype="float64", trainable=False, name="loss")
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


class Clock:
    """Wall time of a training from its beginning, however often it was interrupted, and a cap on it.

    Args:
        spent: seconds spent before an interruption.
        max_minutes: the cap; None: no cap.
        any_worker: returns whether a condition holds on any of the workers that train together.
    """

    def __init__(self, spent: float, max_minutes: float | None, any_worker: Callable[[bool], bool] = bool) -> None:
        if max_minutes is not None and not max_minutes > 0:
            raise InputError(f"max_minutes must be above 0, or None for no cap, got {max_minutes}")
        self._began = time.monotonic() - spent
        self._cap = math.inf if max_minutes is None else 60 * max_minutes
        self._any_worker = any_worker

    @property
    def seconds(self) -> float:
        """Seconds spent so far."""
        return time.monotonic() - self._began

    @property
    def left(self) -> float:
        """Seconds until the time is up; infinite without cap."""
        return self._cap - self.seconds

    @property
    def over(self) -> bool:
        """Whether the time is up; workers that train together must ask together."""
        return self._cap < math.inf and self._any_worker(self.left <= 0)


def schedule(
    steps: int, warmup: float, lowest: float, highest: float
) -> keras.optimizers.schedules.LearningRateSchedule:
    """Rise linearly from `lowest` to `highest` in the first share of the steps, then fall to `lowest` by a cosine."""
    if not 0 <= warmup <= 1:
        raise InputError(f"warmup must be 0 to 1, a share of the steps, got {warmup}")
    if not 0 < lowest <= highest:
        raise InputError(
            f"rates must be 0 < lowest_rate <= highest_rate, got lowest_rate {lowest} and highest_rate {highest}"
        )
    rising = round(warmup * steps)
    return keras.optimizers.schedules.CosineDecay(
        float(lowest), max(steps - rising, 1), alpha=lowest / highest, warmup_target=highest, warmup_steps=rising
    )


def check_sizes(model: Method, hours: int, batch_size: int, steps: int, report_every: int) -> None:
    """Refuse sizes that do not suit each other or the cohort."""
    for name, value in (("steps", steps), ("report_every", report_every)):
        if value < 1:
            raise InputError(f"{name} must be 1 or more, got {value}")
    queue_size, per_sample = model.queue_size, max(model.keys_per_sample, 1)
    if not 1 <= batch_size <= hours // per_sample:
        raise InputError(
            f"batch_size must be 1 to {hours // per_sample}, as the cohort has {hours} hours to learn from, got {batch_size}"
        )
    if not queue_size:
        return
    enqueued = batch_size * per_sample
    if queue_size > hours:
        raise InputError(
            f"queue_size must be at most {hours}, the training hours of the cohort, got {queue_size}; most keys would be "
            f"copies of each other. Set for example --gin_param='queue_size = {max(hours // 2 // enqueued, 1) * enqueued}'"
        )
    if queue_size % enqueued:
        nearest = min(max(round(queue_size / enqueued), 1), hours // enqueued) * enqueued
        raise InputError(
            f"queue_size must be a multiple of the {enqueued} keys that each step enqueues (batch_size {batch_size}), "
            f"got {queue_size}; nearest: {nearest}"
        )
