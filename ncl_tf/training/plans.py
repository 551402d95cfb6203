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

VALIDATION_BATCHES = 10  # of a training of a fixed number of steps
VALIDATION_HOURS = 4096  # at a time, where the whole split is validated

Rate = float | keras.optimizers.schedules.LearningRateSchedule


@dataclasses.dataclass(frozen=True)
class FixedSteps:
    """A number of steps under a learning rate that rises and falls; the last weights are kept.

    Attributes:
        steps: of training.
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
        """The schedule."""
        return schedule(self.steps, self.warmup, self.lowest_rate, self.highest_rate)

    @property
    def total_steps(self) -> int:
        """How many steps there will be."""
        return self.steps

    def check(self, model: Method, hours: int) -> None:
        """Refuses sizes that do not suit each other, the model or the cohort's `hours` to learn from."""
        check_sizes(model, hours, self.batch_size, self.steps, self.report_every)

    def next_report(self, step: int, hours: int) -> int:
        """The step after which to report next; always the same ones, wherever a run was interrupted."""
        return min((step // self.report_every + 1) * self.report_every, self.steps)

    def over(self, step: int, hours: int, best: None = None) -> bool:
        """Whether the training has come to its end."""
        return step >= self.steps

    def held_out(self, validation: Any, seed: int) -> tf.data.Dataset | None:
        """Some random batches, always the same; None if the split has not even one."""
        batches = min(VALIDATION_BATCHES, validation.count // self.batch_size)
        return validation.batches(self.batch_size, seed).take(batches) if batches else None

    def describe(self, hours: int) -> str:
        """For the screen."""
        epochs = self.steps * self.batch_size / hours
        return f"{self.steps:,} steps of {self.batch_size:,} samples, {epochs:.1f} epochs"


@dataclasses.dataclass(frozen=True)
class EarlyStopping:
    """Epochs at a constant learning rate until the loss on the whole validation split stops falling; the best is kept.

    Epochs follow each other without a gap, in whole batches: of H hours and batches of B, epoch e ends with step
    ceil(e H / B).

    Attributes:
        rate: learning rate.
        batch_size: B, samples per step.
        patience: epochs to wait for a better validation loss.
        max_epochs: at the most.
    """

    rate: float
    batch_size: int
    patience: int
    max_epochs: int

    chooses = True
    total_steps = None  # the validation loss decides

    def learning_rate(self) -> Rate:
        """A constant."""
        return self.rate

    def check(self, model: Method, hours: int) -> None:
        """Refuses a rate without a meaning, and batches larger than an epoch; the protocol has checked the rest."""
        if not self.rate > 0:
            raise InputError(f"rate is {self.rate}; allowed: above 0")
        if not 1 <= self.batch_size <= hours:
            raise InputError(
                f"batches are of {self.batch_size} samples, protocol.batch_size times the fraction of labels; "
                f"allowed: 1 to {hours}, the labelled training hours"
            )

    def epoch(self, step: int, hours: int) -> int:
        """The epoch, counted from 1, that the step after `step` steps belongs to."""
        return step * self.batch_size // hours + 1

    def next_report(self, step: int, hours: int) -> int:
        """The last step of the epoch."""
        return -(-self.epoch(step, hours) * hours // self.batch_size)

    def over(self, step: int, hours: int, best: "Best") -> bool:
        """Whether the validation loss has not fallen for `patience` epochs, or `max_epochs` are done."""
        done = self.epoch(step, hours) - 1
        return done >= self.max_epochs or done - int(best.epoch.numpy()) >= self.patience

    def held_out(self, validation: Any, seed: int) -> tf.data.Dataset:
        """All of the validation split."""
        return validation.stretches(VALIDATION_HOURS)

    def describe(self, hours: int) -> str:
        """For the screen."""
        return (
            f"epochs of {hours / self.batch_size:,.0f} steps of {self.batch_size:,} samples, learning rate {self.rate:g}, "
            f"until the validation loss has not fallen for {self.patience}, at most {self.max_epochs:,}"
        )


class Best:
    """The best epoch's number, validation loss and weights, as variables: checkpoints hold them like the model's."""

    def __init__(self, model: keras.Model) -> None:
        """Takes a built model; nothing has been chosen yet."""
        with keras.name_scope("best"):
            self.epoch = keras.Variable(0, dtype="int32", trainable=False, name="epoch")
            self.loss = keras.Variable(math.inf, dtype="float64", trainable=False, name="loss")
            self._pairs = [
                (weight, keras.Variable(weight.numpy(), trainable=False, name=weight.path.replace("/", ".")))
                for weight in model.trainable_variables
            ]

    @property
    def variables(self) -> list[keras.Variable]:
        """All of them."""
        return [self.epoch, self.loss, *(kept for _, kept in self._pairs)]

    def update(self, epoch: int, loss: float) -> None:
        """Keeps the model's weights if `loss` is the lowest so far."""
        if loss < float(self.loss.numpy()):
            self.epoch.assign(epoch)
            self.loss.assign(loss)
            for weight, kept in self._pairs:
                kept.assign(weight)

    def restore_best_weights(self) -> None:
        """Puts the best weights into the model."""
        for weight, kept in self._pairs:
            weight.assign(kept)


class Clock:
    """Wall time of a run from its beginning, however often it was interrupted, and a cap on it."""

    def __init__(self, spent: float, max_minutes: float | None, any_worker: Callable[[bool], bool] = bool) -> None:
        """Takes the seconds spent before, the cap (None: no cap), and what says whether a thing holds on any worker."""
        if max_minutes is not None and not max_minutes > 0:
            raise InputError(f"max_minutes is {max_minutes}; allowed: above 0, or None for no cap")
        self._began = time.monotonic() - spent
        self._cap = math.inf if max_minutes is None else 60 * max_minutes
        self._any_worker = any_worker

    @property
    def seconds(self) -> float:
        """Spent so far."""
        return time.monotonic() - self._began

    @property
    def left(self) -> float:
        """Seconds until the time is up; infinite without cap."""
        return self._cap - self.seconds

    @property
    def over(self) -> bool:
        """Whether the time is up; workers that train together have to ask together."""
        return self._cap < math.inf and self._any_worker(self.left <= 0)


def schedule(
    steps: int, warmup: float, lowest: float, highest: float
) -> keras.optimizers.schedules.LearningRateSchedule:
    """Linear from `lowest` to `highest` in the first share of the steps, then a cosine down to `lowest`."""
    if not 0 <= warmup <= 1:
        raise InputError(f"warmup is {warmup}; allowed: 0 to 1, a share of the steps")
    if not 0 < lowest <= highest:
        raise InputError(
            f"lowest_rate is {lowest} and highest_rate {highest}; allowed: 0 < lowest_rate <= highest_rate"
        )
    rising = round(warmup * steps)
    return keras.optimizers.schedules.CosineDecay(
        float(lowest), max(steps - rising, 1), alpha=lowest / highest, warmup_target=highest, warmup_steps=rising
    )


def check_sizes(model: Method, hours: int, batch_size: int, steps: int, report_every: int) -> None:
    """Refuses sizes that do not suit each other or the cohort."""
    for name, value in (("steps", steps), ("report_every", report_every)):
        if value < 1:
            raise InputError(f"{name} is {value}; allowed: 1 or more")
    queue_size, per_sample = model.queue_size, max(model.keys_per_sample, 1)
    if not 1 <= batch_size <= hours // per_sample:
        raise InputError(
            f"batch_size is {batch_size}; allowed: 1 to {hours // per_sample}, as the cohort has {hours} hours to learn from"
        )
    if not queue_size:
        return
    enqueued = batch_size * per_sample
    if queue_size > hours:
        raise InputError(
            f"queue_size is {queue_size}, but the cohort has only {hours} training hours; most keys would be copies of "
            f"each other. Set for example --gin_param='queue_size = {max(hours // 2 // enqueued, 1) * enqueued}'"
        )
    if queue_size % enqueued:
        nearest = min(max(round(queue_size / enqueued), 1), hours // enqueued) * enqueued
        raise InputError(
            f"queue_size is {queue_size}, which is not a multiple of the {enqueued} keys that each step enqueues "
            f"(batch_size {batch_size}); nearest: {nearest}"
        )
