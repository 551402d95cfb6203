"""Training from a configuration: data, model, schedule, reports, checkpoints, and the encoder at the end."""

import contextlib
import math
from collections.abc import Callable
from typing import Any

import gin
import keras
import tensorflow as tf
from tqdm import tqdm

from ncl_tf import files
from ncl_tf.data.cohort import Cohort
from ncl_tf.data.windows import Windows
from ncl_tf.errors import InputError
from ncl_tf.methods.base import Method
from ncl_tf.networks.encoder import Encoder
from ncl_tf.runs import Run, bindings
from ncl_tf.runs.checkpoints import checksum
from ncl_tf.training.distribution import Alone
from ncl_tf.training.factories import typed
from ncl_tf.training.plans import Best, Clock, EarlyStopping, FixedSteps


@gin.configurable(denylist=["run", "gather", "export"])
@typed
def train(
    run: Run,
    gather: Callable[[], Alone] = Alone,
    export: Callable[..., None] | None = None,
    cohort: str = gin.REQUIRED,
    method: Callable[..., Method] = gin.REQUIRED,
    budget: str = gin.REQUIRED,
    steps: int = gin.REQUIRED,
    batch_size: int = gin.REQUIRED,
    seed: int = gin.REQUIRED,
    warmup: float = 0.1,
    lowest_rate: float = 1e-5,
    highest_rate: float = 1e-3,
    report_every: int = 250,
    max_minutes: float | None = None,
    fast: bool = True,
    jit_compile: bool = True,
) -> None:
    """Trains a method on a cohort in `run`'s directory, from its newest checkpoint on.

    A method that is trained with early stopping (End-to-End) has its own batch size and learning rate, and no `steps`.

    Args:
        run: the run directory.
        gather: gives those who train together, see `ncl_tf.training.distribution`; a run may be resumed with others.
        export: writes the encoder at the end, `ncl_tf.serving.export.export_encoder`; None: no export.
        cohort: path of the cohort file.
        method: makes the model from the cohort, the seed and `fast`.
        budget: name of the budget, for the record.
        steps, batch_size, warmup, lowest_rate, highest_rate, report_every: see `ncl_tf.training.plans.FixedSteps`.
        seed: of initial weights, order of samples, views and queue.
        max_minutes: wall time after which the training ends as if it had come to its end; None: no cap.
        fast: the exact fast forms of encoder and objective instead of the readable ones.
        jit_compile: compile the step with XLA; several replicas do without.
    """
    data = Cohort(cohort)
    run.open(gin.config_str(), _facts(data, seed, budget))
    if run.finished:
        print(f"{run.folder}: this run is finished ({run.record['step']} steps); nothing to do")
        return
    if not 0 <= seed < 2**32:
        raise InputError(f"seed is {seed}; allowed: 0 to {2**32 - 1}")
    group = gather()
    run.writes = group.chief
    clock = Clock(run.record["wall_seconds"], max_minutes, group.any)
    with contextlib.closing(run), group.report_lost_workers(run):
        group.check_same("configuration or cohort", run.fingerprint)
        with group.scope():
            model = method(cohort=data, seed=seed, fast=fast)
            plan = model.early_stopping or FixedSteps(
                steps, batch_size, warmup, lowest_rate, highest_rate, report_every
            )
            training, validation = (
                Samples(model, data, split, group.part, group.replicas) for split in ("train", "val")
            )
            plan.check(model, training.count)
            group.check_batch(plan.batch_size)
            optimizer = keras.optimizers.Adam(plan.learning_rate(), name="adam")
            model.build((None, model.window_hours, len(data.columns)))
            model.compile(optimizer=optimizer, jit_compile=jit_compile and group.replicas == 1)
            optimizer.build(model.trainable_variables)
            run.start()
            best = Best(model) if plan.chooses else None
            first = run.restore(model, best)
            group.check_same(f"first step, {first},", first)
            run.resume_from(first)
            _announce(run, data, model, training.count, plan, first, group)
            try:
                _train(run, model, plan, best, training, validation, clock, group)
            except KeyboardInterrupt:
                print(f"{run.folder}: start the same command again to go on from step {run.kept_step}")
                raise
        if run.writes:
            _finish(run, model.encoder, data, max_minutes, export)
        group.any(False)  # nobody leaves before the run is finished
    if group.replicas > 1:
        print(f"worker {group.part[0]}: ended at step {run.record['step']} with weights {checksum(model)}")


def _train(
    run: Run,
    model: Method,
    plan: FixedSteps | EarlyStopping,
    best: Best | None,
    training: "Samples",
    validation: "Samples",
    clock: Clock,
    group: Alone,
) -> None:
    """Trains to the plan's or the clock's end, with a checkpoint at every report; the weights to keep are in the model then."""
    hours, step = training.count, int(model.optimizer.iterations.numpy())
    held_out = plan.held_out(validation, model.seed)
    logs = run.folder / "logs"
    writer = tf.summary.create_file_writer(str(logs)) if run.writes else tf.summary.create_noop_writer()
    with tqdm(initial=step, total=plan.total_steps, unit=" steps", smoothing=0.05, disable=not run.writes) as bar:
        while not (plan.over(step, hours, best) or (step and clock.over)):
            batches = training.batches(plan.batch_size, model.seed, step)
            count = plan.next_report(step, hours) - step
            report = group.fit(model, batches, count, held_out, Progress(bar, step, run, clock))
            report["learning_rate"] = float(tf.convert_to_tensor(model.optimizer.learning_rate))
            if best:
                report["epoch"] = plan.epoch(step, hours)
                best.update(report["epoch"], report["val_loss"])
                bar.write(f"epoch {report['epoch']}: loss {report['loss']:.4f}, val_loss {report['val_loss']:.4f}")
            step = int(model.optimizer.iterations.numpy())
            _log(run, writer, step, report)
            run.checkpoint(model, step, best)
            run.save(step=step, wall_seconds=clock.seconds)
    if best:
        best.restore_best_weights()
        run.checkpoint(model, step, best)  # now with the weights that the run ends with
    if run.writes:
        run.save(**_outcome(run, step, plan.over(step, hours, best), best))


def _finish(
    run: Run, encoder: Encoder, cohort: Cohort, max_minutes: float | None, export: Callable[..., None] | None
) -> None:
    if export:
        export(run.folder / "encoder", encoder, cohort, bindings(gin.config_str()), run.record)
    files.write_text(run.folder / "operative_config.gin", gin.operative_config_str())
    run.save(status="finished")
    if run.record["stopped_by_budget"]:
        print(f"stopped by budget: {max_minutes:g} minutes are over")
    print(f"finished: {run.folder} ({run.record['wall_seconds']:.0f} s). Encoder: {run.folder / 'encoder'}")


def _outcome(run: Run, step: int, over: bool, best: Best | None) -> dict[str, Any]:
    reports = run.reports()
    outcome = {"step": step, "stopped_by_budget": not over, "result": reports[-1]}
    if best:
        outcome |= {
            "best_epoch": int(best.epoch.numpy()),
            "result": min(reports, key=lambda report: report["val_loss"]),
        }
    return outcome


class Samples:
    """The samples of a split that a method learns from: all hours, or those that it chooses."""

    def __init__(
        self, model: Method, cohort: Cohort, split: str, part: tuple[int, int] = (0, 1), replicas: int = 1
    ) -> None:
        self.rows, self.replicas = model.sample_rows(cohort[split]), replicas
        self.windows = Windows(cohort[split], model.window_hours, part)
        self.count = self.windows.hours if self.rows is None else len(self.rows)

    def batches(self, batch_size: int, seed: int, first_step: int = 0) -> tf.data.Dataset:
        """Random batches; see `Windows.training`."""
        return self.windows.training(batch_size, seed, first_step, self.rows)

    def stretches(self, size: int) -> tf.data.Dataset:
        """The whole split, a stretch of it at a time for each replica; see `Windows.stretches`."""
        return self.windows.stretches(size, self.replicas)


class Progress(keras.callbacks.Callback):
    """Moves the progress bar; stops a training whose loss is no longer a number, or whose time is up."""

    def __init__(self, bar: tqdm, first: int, run: Run, clock: Clock) -> None:
        super().__init__()
        self.bar, self.first, self.run, self.clock = bar, first, run, clock

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
        self.model.stop_training = self.clock.over  # the report, with its validation, is still made


def _facts(cohort: Cohort, seed: int, budget: str) -> dict[str, Any]:
    return {
        "seed": seed,
        "budget": budget,
        "dataset": cohort.name,
        "simulated": cohort.simulated,
        "cohort_checksum": cohort.checksum,
        "columns": len(cohort.columns),
        "static_columns": cohort.static_columns,
    }


def _announce(
    run: Run, cohort: Cohort, model: Method, hours: int, plan: FixedSteps | EarlyStopping, first: int, group: Alone
) -> None:
    print(
        f"{run.folder}: {model.name} on {cohort.title} ({cohort.path}), {hours:,} training hours, {len(cohort.columns)} columns"
    )
    print(f"  {plan.describe(hours)}, seed {model.seed}")
    for line in model.describe(plan.batch_size):
        print(f"  {line}")
    if group.replicas > 1:
        share = f"{plan.batch_size // group.replicas:,} samples of each batch"
        print(f"  {group.replicas} replicas, {share} on each, without XLA, which cannot compile what they do together")
    if first:
        print(f"  going on from step {first:,}")
    if model.jit_compile:
        print("  the first step is compiled by XLA, which takes about half a minute")


def _log(run: Run, writer: tf.summary.SummaryWriter, step: int, report: dict[str, float]) -> None:
    run.log({"step": step, **report})
    with writer.as_default():
        for name, value in report.items():
            tf.summary.scalar(name, value, step)
    writer.flush()
