"""Training of classifiers on samples in memory, such as heads on embeddings that were computed once."""

import dataclasses
import math
import time
from collections.abc import Callable, Iterable

import keras
import numpy as np
import tensorflow as tf

from ncl_tf import stopping
from ncl_tf.data.windows import Windows, shuffled
from ncl_tf.networks.encoder import Encoder
from ncl_tf.networks.heads import cross_entropy
from ncl_tf.runs import TrainingFolder, Unsaved
from ncl_tf.training.clock import Clock
from ncl_tf.training.early_stopping import Best, SeparateEpochs
from ncl_tf.training.loop import FitResult, OnReport, Report, UnfinishedSums, learn

BATCHES_AT_ONCE = 32  # of an epoch, before the progress bar moves
Progress = Callable[[range, str], Iterable[int]]  # wraps parts of long work, named by the text, for a progress bar


def no_progress(parts: range, _: str) -> range:
    """No-op progress wrapper."""
    return parts


@dataclasses.dataclass(frozen=True)
class LabelledSamples:
    """What a classifier learns from or is evaluated on.

    Attributes:
        inputs: returns the classifier's inputs for rows [B] of a split: embeddings, windows, or whatever it takes.
        rows: [H] int32, the labelled rows.
        classes: [H] int32, their classes.
    """

    inputs: Callable[[tf.Tensor], tf.Tensor]
    rows: np.ndarray
    classes: np.ndarray

    @classmethod
    def from_array(cls, inputs: np.ndarray, classes: np.ndarray, rows: np.ndarray | None = None) -> "LabelledSamples":
        """Make samples from inputs [all hours, D] in memory; `rows` picks some of the hours, by default the labelled."""
        rows = np.flatnonzero(classes >= 0) if rows is None else rows
        table = tf.constant(inputs)
        return cls(lambda chosen: tf.gather(table, chosen), rows.astype(np.int32), classes[rows])


def embedder(
    encoder: Encoder, batch_size: int = 4096, progress: Progress = no_progress
) -> Callable[[Windows], np.ndarray]:
    """Return a function that computes the representations of all hours of a split in inference mode.

    It maps windows to [hours, size] float32 and is compiled once for all splits.
    """

    @tf.function(jit_compile=True, autograph=False)
    def represent(rows: tf.Tensor, hour: tf.Tensor) -> tf.Tensor:
        return encoder.stays(rows, hour)[encoder.history - 1 :]

    def embed(windows: Windows) -> np.ndarray:
        starts = progress(range(0, windows.hours, batch_size), "embedding")
        stretches = (windows.stretch(tf.constant(start), batch_size) for start in starts)
        return np.concatenate([represent(*stretch) for stretch in stretches])[: windows.hours]

    return embed


def predictor(
    classifier: keras.Model, samples: LabelledSamples, batch_size: int = 4096, progress: Progress = no_progress
) -> Callable[[], np.ndarray]:
    """Return a function that computes the samples' class probabilities, [H, K] float32, with the weights of the moment."""
    call = tf.function(lambda rows: classifier(samples.inputs(rows)), reduce_retracing=True)

    def predict() -> np.ndarray:
        starts = progress(range(0, len(samples.rows), batch_size), "prediction")
        return np.concatenate([call(tf.constant(samples.rows[start : start + batch_size])).numpy() for start in starts])

    return predict


class SampleLearner:
    """Trains a classifier on samples in memory, an epoch at a time, each in an order of its own.

    Args:
        classifier: built; what of it is trainable is trained.
        weights: [K] of the classes, in both losses.
        plan: learning rate, batch size and the count of epochs.
        seed: of the order of samples.
        clock: an epoch is cut short when its time is up.
    """

    def __init__(
        self,
        classifier: keras.Model,
        training: LabelledSamples,
        validation: LabelledSamples,
        weights: np.ndarray,
        plan: SeparateEpochs,
        seed: int,
        clock: Clock,
        progress: Progress = no_progress,
    ) -> None:
        self.model, self.hours, self._plan, self._seed, self._clock = classifier, len(training.rows), plan, seed, clock
        self.optimizer = keras.optimizers.Adam(plan.learning_rate(), name="adam")
        self.optimizer.build(classifier.trainable_variables)
        self._run_epoch = epoch_function(classifier, self.optimizer, training, weights, plan.batch_size, progress)
        predict = predictor(classifier, validation, progress=progress)
        self.sums = UnfinishedSums(["loss"], "float64")
        self._validate = lambda: mean_loss(predict(), validation.classes, weights)

    def take_steps(self, step: int, count: int) -> Report:
        """Train the epoch that the next `count` steps are, and compute the loss on all validation samples."""
        epoch = self._plan.epoch(step, self.hours)
        done = step % self._plan.next_report(0, self.hours)  # where it was stopped
        total = float(self.sums.variables[0].numpy())
        loss = self._run_epoch(epoch, self._seed, lambda: self._clock.left, done, total, self._between_steps)
        return {"loss": loss, "val_loss": self._validate()}

    def _between_steps(self, total: float) -> None:
        """Stop here if that is asked for, and keep the sum of the losses so far."""
        if self.asked_to_stop():
            self.sums.keep([total])
            stopping.stop()

    def asked_to_stop(self) -> bool:
        """Return whether the program was asked to stop."""
        return stopping.requested()


def fit(
    classifier: keras.Model,
    training: LabelledSamples,
    validation: LabelledSamples,
    weights: np.ndarray,
    plan: SeparateEpochs,
    seed: int,
    max_minutes: float | None = None,
    folder: TrainingFolder | None = None,
    on_report: OnReport = lambda step, report: None,
    progress: Progress = no_progress,
) -> FitResult:
    """Train with Adam until the validation loss stops falling; restore the best epoch's weights.

    Args:
        classifier, training, validation, weights, plan, seed, progress: see `SampleLearner`; the classifier is changed.
        max_minutes: wall time after which an epoch is cut short and validated as the last one; None: no cap.
        folder, on_report: see `Evaluator`.
    """
    folder = folder or Unsaved()
    clock = Clock(folder.record["wall_seconds"], max_minutes)
    learner = SampleLearner(classifier, training, validation, weights, plan, seed, clock, progress)
    best = Best(classifier)
    first = folder.restore(classifier, learner.optimizer, best, unfinished=learner.sums)
    folder.resume_from(first)
    if first:
        print(f"{folder.folder}: resuming from epoch {plan.epoch(first, learner.hours)}")
    with folder.resumable():
        return learn(folder, learner, plan, clock, best, on_report)


def mean_loss(probabilities: np.ndarray, classes: np.ndarray, weights: np.ndarray) -> float:
    """Return the mean weighted cross-entropy of probabilities [H, K] and classes [H]."""
    return float(tf.reduce_mean(cross_entropy(tf.constant(probabilities), tf.constant(classes), tf.constant(weights))))


def epoch_function(
    classifier: keras.Model,
    optimizer: keras.Optimizer,
    training: LabelledSamples,
    weights: np.ndarray,
    batch_size: int,
    progress: Progress = no_progress,
) -> Callable[..., float]:
    """Return a function of epoch and seed that trains an epoch and returns the mean loss of its samples.

    It takes one step per batch in the epoch's own order; the last batch may be smaller. `left` returns the seconds until the rest
    is left out; `done` batches were taken before a stop, with losses of `total`; `between` gets that sum after each part.
    """
    rows, classes, weights = tf.constant(training.rows), tf.constant(training.classes), tf.constant(weights)
    hours, full = len(training.rows), len(training.rows) // batch_size

    @tf.function(jit_compile=True)
    def update(inputs: tf.Tensor, batch_classes: tf.Tensor) -> tf.Tensor:
        with tf.GradientTape() as tape:
            losses = cross_entropy(classifier(inputs, training=True), batch_classes, weights)
            loss = tf.reduce_mean(losses)
        variables = classifier.trainable_variables
        optimizer.apply_gradients(zip(tape.gradient(loss, variables), variables, strict=True))
        return tf.reduce_sum(losses)

    @tf.function
    def step(chosen: tf.Tensor) -> tf.Tensor:
        return update(training.inputs(tf.gather(rows, chosen)), tf.gather(classes, chosen))

    @tf.function
    def full_batches(
        batches: tf.Tensor, first: tf.Tensor, end: tf.Tensor, deadline: tf.Tensor
    ) -> tuple[tf.Tensor, tf.Tensor]:
        """Take the batches from `first` to `end` until the deadline, at least the very first: sum of losses, number done."""
        total, done = tf.constant(0.0), first
        while done < end and (done == 0 or tf.timestamp() < deadline):
            total += step(tf.gather(batches, done))
            done += 1
        return total, done

    def run_epoch(
        epoch: int, seed: int, left=lambda: math.inf, done: int = 0, total: float = 0.0, between=lambda total: None
    ) -> float:
        order = shuffled(tf.range(hours, dtype=tf.int64), tf.constant(epoch, tf.int64), hours, seed)
        batches = tf.reshape(order[: full * batch_size], [full, batch_size])
        for first in progress(range(done, full, BATCHES_AT_ONCE), "epoch"):
            end = min(first + BATCHES_AT_ONCE, full)
            while done < end and not (done and left() <= 0):  # twice where the system's clock jumped forward
                span = map(tf.constant, (done, end))
                loss, done = full_batches(batches, *span, tf.constant(time.time() + left(), tf.float64))
                total, done = total + float(loss), int(done)
            if done < end:
                return total / (done * batch_size)
            if end < full or hours % batch_size:
                between(total)
        if hours % batch_size:
            total += float(step(order[full * batch_size :]))
        return total / hours

    return run_epoch
