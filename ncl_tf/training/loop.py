"""The loop behind every training: learn until the next report, report, checkpoint, and stop at the plan's or the clock's end."""

import dataclasses
import math
import time
from collections.abc import Callable, Iterable, Sequence
from typing import Any, Protocol

import keras

from ncl_tf import stopping
from ncl_tf.errors import InputError
from ncl_tf.runs import TrainingFolder
from ncl_tf.stopping import Stopped
from ncl_tf.training.clock import Clock
from ncl_tf.training.early_stopping import Best, EarlyStopping
from ncl_tf.training.schedules import FixedSteps

Report = dict[str, float]
OF_CURVE = ("loss", "val_loss", "val_auprc", "val_kappa")
OnReport = Callable[[int, Report], None]  # takes the step and what was reported after it


class Learner(Protocol):
    """Takes a model's training steps; `learn` decides how many, and keeps what comes of them.

    Attributes:
        model: built.
        optimizer: that trains it, built; its iterations count the steps.
        hours: number of samples to learn from.
        sums: of the report under way, when it was stopped between two steps.
    """

    model: keras.Model
    optimizer: keras.Optimizer
    hours: int
    sums: "UnfinishedSums"

    def take_steps(self, step: int, count: int) -> Report:
        """Take `count` steps, or fewer if the time is up, after `step` steps; validate, and return losses and metrics.

        Raises `Stopped` after a step, but not the last one, if the program was asked to stop; `sums` are then kept.
        """

    def asked_to_stop(self) -> bool:
        """Return whether the program, or another one that trains with it, was asked to stop."""


class UnfinishedSums:
    """What a report is computed from, as far as it has come: variables that a checkpoint between two reports holds, too.

    Args:
        names: of the sums.
    """

    def __init__(self, names: Sequence[str], dtype: str = "float32") -> None:
        with keras.name_scope("unfinished"):
            self.variables = [keras.Variable(0, dtype=dtype, trainable=False, name=name) for name in names]

    def keep(self, values: Iterable[Any]) -> None:
        """Set the sums."""
        for variable, value in zip(self.variables, values, strict=True):
            variable.assign(value)

    def clear(self) -> None:
        """Set the sums to 0, as a report begins with."""
        self.keep([0] * len(self.variables))


@dataclasses.dataclass(frozen=True)
class FitResult:
    """How a training went.

    Attributes:
        step: after which it ended.
        reports: of each epoch, or each few steps, oldest first.
        best_epoch: the one whose weights the model has now, counted from 1; None without early stopping.
        stopped_by_budget: whether the time was up before the plan's end.
    """

    step: int
    reports: list[Report]
    best_epoch: int | None = None
    stopped_by_budget: bool = False

    @property
    def curve(self) -> list[Report]:
        """Training and validation loss of each epoch; of trees, what their number is chosen by after each iteration."""
        return [{name: report[name] for name in OF_CURVE if name in report} for report in self.reports]

    @property
    def result(self) -> Report:
        """The report that the kept weights belong to: that of the best epoch, or the last one."""
        if self.best_epoch is None:
            return self.reports[-1]
        return min(self.reports, key=lambda report: report["val_loss"])


@stopping.deferred()
def learn(
    folder: TrainingFolder,
    learner: Learner,
    plan: FixedSteps | EarlyStopping,
    clock: Clock,
    best: Best | None = None,
    on_report: OnReport = lambda step, report: None,
) -> FitResult:
    """Train from where the model stands to the plan's or the clock's end; a request to stop is met after a step.

    Args:
        folder: takes reports and checkpoints; what it holds has been restored.
        plan: decides when to report and when to end.
        clock: caps the wall time; at least one step is taken.
        best: keeps the best epoch's weights, which the model has at the end, where the plan chooses among epochs.
    """
    step, hours, reports = steps_taken(learner), learner.hours, folder.reports()
    saved = -math.inf  # the first report is kept at once

    def save(*unfinished: UnfinishedSums) -> None:
        folder.checkpoint(step, learner.model, learner.optimizer, *([best] if best else []), *unfinished)
        folder.save(step=step, wall_seconds=clock.seconds)

    while not (plan.over(step, hours, best) or (step and clock.over)):
        try:
            report = learner.take_steps(step, plan.next_report(step, hours) - step)
        except Stopped:
            step = steps_taken(learner)
            save(learner.sums)
            raise
        learner.sums.clear()
        epoch = {"epoch": plan.epoch(step, hours)} if best else {}
        step, report = steps_taken(learner), report | epoch
        if best:
            _check_finite(report, learner, folder)
            best.update(report["epoch"], report["val_loss"])
        reports.append({"step": step, **report})
        folder.log(reports[-1])
        on_report(step, report)
        asked = learner.asked_to_stop()
        if asked or time.monotonic() - saved >= folder.checkpoint_seconds:
            save()
            saved = time.monotonic()
        if asked:
            stopping.stop()
    over = plan.over(step, hours, best)
    if not best:
        return FitResult(step, reports, stopped_by_budget=not over)
    best.restore_best_weights()
    if stopping.requested() or time.monotonic() - saved >= folder.checkpoint_seconds:
        save()  # now with the weights that the training ends with
    return FitResult(step, reports, int(best.epoch.numpy()), not over)


def steps_taken(learner: Learner) -> int:
    """Return how many steps the optimizer has taken."""
    return int(learner.optimizer.iterations.numpy())


def _check_finite(report: Report, learner: Learner, folder: TrainingFolder) -> None:
    """Refuse losses that are not numbers: no epoch can be chosen by them, and no further step repairs them."""
    losses = {name: report[name] for name in ("loss", "val_loss")}
    if not all(map(math.isfinite, losses.values())):
        found = ", ".join(f"{name} {value}" for name, value in losses.items())
        rate = float(learner.optimizer.learning_rate)
        raise InputError(
            f"epoch {report['epoch']}: losses must be finite, got {found}; the learning rate, {rate:g}, may be too high. "
            f"{folder.last_good()}"
        )
