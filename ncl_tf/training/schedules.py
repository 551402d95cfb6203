"""Training for a fixed number of steps under a learning rate that rises and falls, and the sizes that this allows."""

import dataclasses
from typing import Any

import keras
import tensorflow as tf

from ncl_tf.errors import InputError
from ncl_tf.methods.base import Method

VALIDATION_BATCHES = 10


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

    def learning_rate(self) -> keras.optimizers.schedules.LearningRateSchedule:
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
