"""Pre-training from a configuration: data, model, schedule, reports, checkpoints, and the encoder at the end."""

import math
import time
from collections.abc import Callable
from typing import Any

import gin
import keras
import tensorflow as tf
from tqdm import tqdm

from ncl_tf.config import typed
from ncl_tf.data.cohort import Cohort
from ncl_tf.data.windows import HISTORY, Windows
from ncl_tf.errors import InputError
from ncl_tf.runs import Run
from ncl_tf.serving.export import export_encoder

VALIDATION_BATCHES = 10


@gin.configurable(denylist=["run"])
@typed
def train(
    run: Run,
    cohort: str = gin.REQUIRED,
    method: Callable[..., keras.Model] = gin.REQUIRED,
    budget: str = gin.REQUIRED,
    steps: int = gin.REQUIRED,
    batch_size: int = gin.REQUIRED,
    seed: int = gin.REQUIRED,
    warmup: float = 0.1,
    lowest_rate: float = 1e-5,
    highest_rate: float = 1e-3,
    report_every: int = 250,
    fast: bool = True,
    jit_compile: bool = True,
) -> None:
    """Trains a method on a cohort in `run`'s directory, from its newest checkpoint on.

    Args:
        run: the run directory.
        cohort: path of the cohort file.
        method: makes the model from the cohort, the seed and `fast`.
        budget: name of the budget, for the record.
        steps: of training.
        batch_size: N, samples per step.
        seed: of initial weights, order of samples, views and queue.
        warmup: share of the steps in which the learning rate rises linearly; a cosine brings it down again.
        lowest_rate, highest_rate: learning rates at both ends and at the peak.
        report_every: steps between reports, validations and checkpoints.
        fast: the exact fast forms of encoder and objective instead of the readable ones.
        jit_compile: compile the step with XLA.
    """
    data = Cohort(cohort)
    run.open(gin.config_str(), _facts(data, seed, budget))
    if run.finished:
        print(f"{run.folder}: this run is finished ({run.record['step']} steps); nothing to do")
        return
    if not 0 <= seed < 2**32:
        raise InputError(f"seed is {seed}; allowed: 0 to {2**32 - 1}")
    model = method(cohort=data, seed=seed, fast=fast)
    training, validation = (Samples(model, data, split) for split in ("train", "val"))
    check_sizes(model, training.count, batch_size, steps, report_every)
    optimizer = keras.optimizers.Adam(schedule(steps, warmup, lowest_rate, highest_rate), name="adam")
    run.start()
    model.build((None, model.window_hours, len(data.columns)))
    model.compile(optimizer=optimizer, jit_compile=jit_compile)
    optimizer.build(model.trainable_variables)
    first = run.restore(model)
    run.forget_after(first)
    _announce(run, data, model, training.count, steps, batch_size, first)
    batches = min(VALIDATION_BATCHES, validation.count // batch_size)
    held_out = validation.batches(batch_size, seed).take(batches) if batches else None
    writer = tf.summary.create_file_writer(str(run.folder / "logs"))
    with tqdm(initial=first, total=steps, unit=" steps", smoothing=0.05) as bar:
        for start in range(first, steps, report_every):
            end = min(start + report_every, steps)
            began = time.monotonic()
            history = model.fit(
                training.batches(batch_size, seed, start),
                steps_per_epoch=end - start,
                validation_data=held_out,
                callbacks=[Progress(bar, start, run)],
                shuffle=False,
                verbose=0,
            ).history
            report = {name: float(values[-1]) for name, values in history.items()}
            report["learning_rate"] = float(model.optimizer.learning_rate)
            _log(run, writer, end, report)
            run.checkpoint(model, end)
            run.save(step=end, wall_seconds=run.record["wall_seconds"] + time.monotonic() - began)
    export_encoder(run.folder / "encoder", model.encoder, HISTORY, len(data.columns))
    (run.folder / "operative_config.gin").write_text(gin.operative_config_str(), encoding="utf-8")
    run.save(status="finished", result=run.last_report())
    print(f"finished: {run.folder} ({run.record['wall_seconds']:.0f} s). Encoder: {run.folder / 'encoder'}")


class Samples:
    """The samples of a split that a method learns from: all hours, or those that it chooses."""

    def __init__(self, model: keras.Model, cohort: Cohort, split: str) -> None:
        self.rows = model.sample_rows(cohort[split])
        self.windows = Windows(cohort[split], model.window_hours)
        self.count = self.windows.hours if self.rows is None else len(self.rows)

    def batches(self, batch_size: int, seed: int, first_step: int = 0) -> tf.data.Dataset:
        """Random batches; see `Windows.training`."""
        return self.windows.training(batch_size, seed, first_step, self.rows)


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


def check_sizes(model: keras.Model, hours: int, batch_size: int, steps: int, report_every: int) -> None:
    """Refuses sizes that do not suit each other or the cohort."""
    for name, value in (("steps", steps), ("report_every", report_every)):
        if value < 1:
            raise InputError(f"{name} is {value}; allowed: 1 or more")
    queue_size = getattr(model, "queue_size", None)
    per_sample = 1 if queue_size is None or model.authors_keys else 2  # keys that are enqueued
    if not 1 <= batch_size <= hours // per_sample:
        raise InputError(
            f"batch_size is {batch_size}; allowed: 1 to {hours // per_sample}, as the cohort has {hours} hours to learn from"
        )
    if queue_size is None:
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


class Progress(keras.callbacks.Callback):
    """Moves the progress bar, and stops a training whose loss is no longer a number."""

    def __init__(self, bar: tqdm, first: int, run: Run) -> None:
        super().__init__()
        self.bar, self.first, self.run = bar, first, run

    def on_train_batch_end(self, batch: int, logs: dict[str, Any] | None = None) -> None:
        if not math.isfinite(logs["loss"]):
            raise InputError(
                f"step {self.first + batch + 1}: the loss is {float(logs['loss'])}, so training stops. {self.run.last_good()}"
            )
        self.bar.update()
        shown = {"loss": f"{float(logs['loss']):.3f}"}
        if "accuracy" in logs:
            shown["accuracy"] = f"{float(logs['accuracy']):.3f}"
        self.bar.set_postfix(shown, refresh=False)


def _facts(cohort: Cohort, seed: int, budget: str) -> dict[str, Any]:
    return {
        "seed": seed,
        "budget": budget,
        "dataset": cohort.name,
        "cohort_checksum": cohort.checksum,
        "columns": len(cohort.columns),
        "static_columns": cohort.static_columns,
    }


def _announce(
    run: Run, cohort: Cohort, model: keras.Model, hours: int, steps: int, batch_size: int, first: int
) -> None:
    print(
        f"{run.folder}: {model.name} on {cohort.name} ({cohort.path}), {hours:,} training hours, {len(cohort.columns)} columns"
    )
    print(f"  {steps:,} steps of {batch_size:,} samples, {steps * batch_size / hours:.1f} epochs, seed {model.seed}")
    if hasattr(model, "queue_size"):
        print(
            f"  {model.neighborhood}, alpha {model.alpha}, temperature {model.temperature}, momentum {model.momentum}"
        )
        fill = model.queue_size // (batch_size * (1 if model.authors_keys else 2))
        print(
            f"  queue of {model.queue_size:,} keys: the loss rises in the first {fill:,} steps, "
            "while real keys replace random ones"
        )
    if first:
        print(f"  going on from step {first:,}")


def _log(run: Run, writer: tf.summary.SummaryWriter, step: int, report: dict[str, float]) -> None:
    run.log({"step": step, **report})
    with writer.as_default():
        for name, value in report.items():
            tf.summary.scalar(name, value, step)
    writer.flush()
