"""Training a method from a configuration: data, model, progress on the screen, and the encoder at the end."""

import contextlib
import math
from collections.abc import Callable, Sequence
from typing import Any

import gin
import keras
import tensorflow as tf
from tqdm import tqdm

from ncl_tf import files, stopping
from ncl_tf.data.cohort import Cohort, SplitData
from ncl_tf.data.windows import Windows
from ncl_tf.errors import InputError
from ncl_tf.methods.base import Method
from ncl_tf.networks.encoder import Encoder
from ncl_tf.runs import Run, bindings, checksum
from ncl_tf.training.clock import Clock
from ncl_tf.training.distribution import Alone
from ncl_tf.training.early_stopping import Best, EarlyStopping
from ncl_tf.training.factories import typed
from ncl_tf.training.loop import Report, UnfinishedSums, learn
from ncl_tf.training.pretrained import PretrainedEncoder
from ncl_tf.training.schedules import FixedSteps
from ncl_tf.training.writing import writing


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
    observations: Sequence[str] | None = None,
    initial_encoder: str | None = None,
) -> None:
    """Train a method on a cohort in `run`'s directory, from its newest checkpoint on.

    Args:
        gather: returns those who train together, see `ncl_tf.training.distribution`; a run may be resumed with others.
        export: writes the encoder at the end, `ncl_tf.serving.export.export_encoder`; None: no export.
        cohort: path of the cohort file.
        method: makes the model from the cohort, the seed and `fast`.
        budget: name of the budget, for the record.
        steps, batch_size, warmup, lowest_rate, highest_rate, report_every: see `ncl_tf.training.schedules.FixedSteps`; methods
            with early stopping (End-to-End) have others.
        seed: of initial weights, order of samples, views and queue.
        max_minutes: wall time after which the training ends as if it had come to its end; None: no cap.
        fast, jit_compile: the exact fast forms of encoder and objective; compiled with XLA, which several replicas do without.
        observations: that the cohort must have, and no others; None: any or none.
        initial_encoder: a model that ships, or an export, whose weights the encoder begins with; None: random ones.
    """
    data = Cohort(cohort)
    data.require_observations(data.observations if observations is None else observations)
    pretrained = PretrainedEncoder(initial_encoder) if initial_encoder else None
    run.open(gin.config_str(), _facts(data, seed, budget, pretrained))
    if run.finished:
        print(f"{run.folder}: this run is finished ({run.record['step']} steps); nothing to do")
        return
    group = gather()
    run.writes = group.chief
    clock = Clock(run.record["wall_seconds"], max_minutes, group.any)
    fixed = FixedSteps(steps, batch_size, warmup, lowest_rate, highest_rate, report_every)
    with contextlib.closing(run), group.report_lost_workers(run):
        group.check_same("configuration or cohort", run.fingerprint)
        with group.scope():
            model = method(cohort=data, seed=seed, fast=fast)
            learner = WindowLearner(model, data, model.early_stopping or fixed, group, run, clock)
            learner.compile(jit_compile, pretrained)
            run.start()
            _train(run, learner, data)
        if run.writes:
            _finish(run, model.encoder, data, max_minutes, export)
        group.any(False)  # no worker leaves before the run is finished
    if group.replicas > 1:
        print(f"worker {group.part[0]}: ended at step {run.record['step']} with weights {checksum(model)}")


class WindowLearner:
    """Trains a method on random batches of windows, together with the other workers of its group.

    Args:
        cohort: of which it learns from the training split and is validated on the validation split.
        plan: batch size, learning rate and what to validate on.
        group: those who train together.
        run: whose newest checkpoint errors name.
        clock: ends a training whose time is up.

    Attributes:
        bar: moves with every step.
        notes: lines for the screen, about what the training begins with.
        means: the model's running means, as variables; `sums` holds them when a report's steps are interrupted.
    """

    def __init__(
        self, model: Method, cohort: Cohort, plan: FixedSteps | EarlyStopping, group: Alone, run: Run, clock: Clock
    ) -> None:
        self.model, self.plan, self.group, self.run, self.clock = model, plan, group, run, clock
        self._training, validation = (MethodSamples(model, cohort[split], group) for split in ("train", "val"))
        self.hours = self._training.count
        plan.check(model, self.hours)
        group.check_batch(plan.batch_size)
        self._held_out = plan.held_out(validation, model.seed)
        self.optimizer = keras.optimizers.Adam(plan.learning_rate(), name="adam")
        self._shape, self._columns = (None, model.window_hours, len(cohort.columns)), cohort.columns
        self.notes: list[str] = []
        self.bar = tqdm(disable=True)

    def compile(self, jit_compile: bool, pretrained: PretrainedEncoder | None = None) -> None:
        """Create all variables, with the weights of an encoder that was trained before, if there is one, and compile the step.

        It is compiled with XLA, unless several replicas take it.
        """
        self.model.build(self._shape)
        if pretrained:
            self.notes.append(pretrained.begin(self.model.encoder, self._columns))
            self.model.start_momentum_networks()
        self.model.compile(optimizer=self.optimizer, jit_compile=jit_compile and self.group.replicas == 1)
        self.optimizer.build(self.model.trainable_variables)
        self.means = [variable for metric in self.model.metrics for variable in metric.variables]
        self.sums = UnfinishedSums([variable.path.replace("/", ".") for variable in self.means])

    def take_steps(self, step: int, count: int) -> Report:
        """Take `count` steps on the batches that follow those of `step` steps, then validate."""
        batches = self._training.batches(self.plan.batch_size, self.model.seed, step)
        watch = StepCallback(self, step, count)
        report = self.group.fit(self.model, batches, count, self._held_out, watch)
        return report | {"learning_rate": float(tf.convert_to_tensor(self.optimizer.learning_rate))}

    def asked_to_stop(self) -> bool:
        """Return whether this worker or another one was asked to stop."""
        return self.group.asked_to_stop()


def _train(run: Run, learner: WindowLearner, cohort: Cohort) -> None:
    """Train from the newest checkpoint to the end, with a progress bar and logs for TensorBoard; record the outcome."""
    model, plan, group = learner.model, learner.plan, learner.group
    best = Best(model) if plan.chooses else None
    first = run.restore(model, learner.optimizer, *([best] if best else []), unfinished=learner.sums)
    group.check_same(f"first step, {first},", first)
    run.resume_from(first)
    _announce(run, cohort, learner, first)
    logs = run.folder / "logs"
    writer = tf.summary.create_file_writer(str(logs)) if run.writes else tf.summary.create_noop_writer()

    def on_report(step: int, report: Report) -> None:
        if best:
            bar.write(f"epoch {report['epoch']}: loss {report['loss']:.4f}, val_loss {report['val_loss']:.4f}")
        with writing(logs), writer.as_default():
            for name, value in report.items():
                tf.summary.scalar(name, value, step)
            writer.flush()

    total = None if plan.chooses else plan.steps
    progress = {"initial": first, "total": total, "unit": " steps", "smoothing": 0.05}
    with run.resumable(), tqdm(**progress, disable=not run.writes) as bar:
        learner.bar = bar
        fitted = learn(run, learner, plan, learner.clock, best, on_report)
    if run.writes:
        chosen = {} if fitted.best_epoch is None else {"best_epoch": fitted.best_epoch}
        run.save(step=fitted.step, stopped_by_budget=fitted.stopped_by_budget, result=fitted.result, **chosen)


def _finish(
    run: Run, encoder: Encoder, cohort: Cohort, max_minutes: float | None, export: Callable[..., None] | None
) -> None:
    """Export the encoder and mark the run as finished."""
    if export:
        export(run.folder / "encoder", encoder, cohort, bindings(gin.config_str()), run.record)
    files.write_text(run.folder / "operative_config.gin", gin.operative_config_str())
    run.save(status="finished")
    if run.record["stopped_by_budget"]:
        print(f"stopped by budget, after {max_minutes:g} minutes")
    print(f"finished: {run.folder} ({run.record['wall_seconds']:.0f} s). Encoder: {run.folder / 'encoder'}")


class MethodSamples:
    """The samples of a split that a method learns from: all hours, or those that it chooses; this worker's share of them."""

    def __init__(self, model: Method, split: SplitData, group: Alone) -> None:
        self.rows, self.replicas = model.sample_rows(split), group.replicas
        self.windows = Windows(split, model.window_hours, group.part)
        self.count = self.windows.hours if self.rows is None else len(self.rows)

    def batches(self, batch_size: int, seed: int, first_step: int = 0) -> tf.data.Dataset:
        """Return random batches; see `Windows.training`."""
        return self.windows.training(batch_size, seed, first_step, self.rows)

    def stretches(self, size: int) -> tf.data.Dataset:
        """Return the whole split, a stretch of it at a time for each replica; see `Windows.stretches`."""
        return self.windows.stretches(size, self.replicas)


class StepCallback(keras.callbacks.Callback):
    """Moves the progress bar; stops a training whose loss is no longer a number, whose time is up, or that is asked to stop.

    Args:
        first, count: the steps before the report's, and how many it has.
    """

    def __init__(self, learner: WindowLearner, first: int, count: int) -> None:
        super().__init__()
        self.learner, self.first, self.count = learner, first, count

    def on_epoch_begin(self, epoch: int, logs: dict[str, Any] | None = None) -> None:
        """Let the means, which have just been reset, begin where they were when the report's steps were interrupted."""
        for variable, kept in zip(self.learner.means, self.learner.sums.variables, strict=True):
            variable.assign(kept)

    def on_train_batch_end(self, batch: int, logs: dict[str, Any] | None = None) -> None:
        learner, done = self.learner, batch + 1
        if not math.isfinite(logs["loss"]):
            step, loss = self.first + done, float(logs["loss"])
            raise InputError(f"step {step}: the loss is {loss}, so training stops. {learner.run.last_good()}")
        learner.bar.update()
        shown = {name: f"{float(logs[name]):.3f}" for name in ("loss", "accuracy") if name in logs}
        learner.bar.set_postfix(shown, refresh=False)
        self.model.stop_training = learner.clock.over  # the report, with its validation, is still made
        if done < self.count and not self.model.stop_training and learner.group.asked_to_stop(done):
            learner.sums.keep(learner.means)
            stopping.stop()


def _facts(cohort: Cohort, seed: int, budget: str, pretrained: PretrainedEncoder | None) -> dict[str, Any]:
    """Return what must not change when a run is resumed, beside its configuration."""
    if not 0 <= seed < 2**32:
        raise InputError(f"seed must be 0 to {2**32 - 1}, got {seed}")
    return {
        "seed": seed,
        "budget": budget,
        "dataset": cohort.name,
        "simulated": cohort.simulated,
        "cohort_checksum": cohort.checksum,
        "columns": len(cohort.columns),
        "static_columns": cohort.static_columns,
        **({"observations": list(cohort.observations)} if cohort.observations else {}),
        **({"initial_encoder_checksum": pretrained.checksum} if pretrained else {}),
    }


def _announce(run: Run, cohort: Cohort, learner: WindowLearner, first: int) -> None:
    """Print what is trained, on what and how."""
    model, hours, size, group = learner.model, learner.hours, learner.plan.batch_size, learner.group
    print(
        f"{run.folder}: {model.name} on {cohort.title} ({cohort.path}), {hours:,} training hours, {len(cohort.columns)} columns"
    )
    print(f"  {learner.plan.describe(hours)}, seed {model.seed}")
    for line in [*model.describe(size), *learner.notes]:
        print(f"  {line}")
    if group.replicas > 1:
        share = f"{size // group.replicas:,} samples of each batch"
        print(f"  {group.replicas} replicas, {share} on each, without XLA, which cannot compile their communication")
    if first:
        print(f"  resuming from step {first:,}")
    if model.jit_compile:
        print("  compiling the first step by XLA, which takes about half a minute")
