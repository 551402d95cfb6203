"""Small classifiers on a representation, and their training on embeddings that were computed once."""

import dataclasses
import math
import time
from collections.abc import Callable, Iterable

import keras
import numpy as np
import tensorflow as tf

from ncl_tf.data.windows import Windows, shuffled
from ncl_tf.errors import InputError
from ncl_tf.networks.encoder import Encoder
from ncl_tf.networks.heads import cross_entropy
from ncl_tf.training.plans import Clock

BATCHES_AT_ONCE = 32  # of an epoch, before progress is told
Progress = Callable[[range, str], Iterable[int]]  # wraps the parts of long work, of which it is told what it is


def no_progress(parts: range, _: str) -> range:
    """Nobody watches."""
    return parts


@dataclasses.dataclass(frozen=True)
class Samples:
    """What a classifier learns from or is judged on.

    Attributes:
        inputs: gives the classifier's inputs for rows [B] of a split: embeddings, windows, or whatever it takes.
        rows: [H] int32, the labelled rows.
        classes: [H] int32, their classes.
    """

    inputs: Callable[[tf.Tensor], tf.Tensor]
    rows: np.ndarray
    classes: np.ndarray

    @classmethod
    def from_array(cls, inputs: np.ndarray, classes: np.ndarray, rows: np.ndarray | None = None) -> "Samples":
        """Samples whose inputs [all hours, D] are in memory; `rows` picks some of the hours, by default the labelled."""
        rows = np.flatnonzero(classes >= 0) if rows is None else rows
        table = tf.constant(inputs)
        return cls(lambda chosen: tf.gather(table, chosen), rows.astype(np.int32), classes[rows])


def embedder(
    encoder: Encoder, batch_size: int = 4096, progress: Progress = no_progress
) -> Callable[[Windows], np.ndarray]:
    """A function that gives the representations of all hours of a split, [hours, size] float32, in inference mode.

    It is compiled once for all splits.
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
    classifier: keras.Model, samples: Samples, batch_size: int = 4096, progress: Progress = no_progress
) -> Callable[[], np.ndarray]:
    """A function that gives the class probabilities of the samples, [H, K] float32, with the weights of the moment."""
    call = tf.function(lambda rows: classifier(samples.inputs(rows)), reduce_retracing=True)

    def predict() -> np.ndarray:
        starts = progress(range(0, len(samples.rows), batch_size), "prediction")
        return np.concatenate([call(tf.constant(samples.rows[start : start + batch_size])).numpy() for start in starts])

    return predict


@dataclasses.dataclass
class FitResult:
    """How a training with early stopping went.

    Attributes:
        best_epoch: the one whose weights the classifier has now, counted from 1.
        curve: training and validation loss of each epoch.
        stopped_by_budget: whether the time was up before the validation loss stopped falling.
    """

    best_epoch: int
    curve: list[dict[str, float]]
    stopped_by_budget: bool = False


def fit(
    classifier: keras.Model,
    training: Samples,
    validation: Samples,
    weights: np.ndarray,
    learning_rate: float,
    seed: int,
    batch_size: int = 2048,
    patience: int = 20,
    max_epochs: int = 1000,
    max_minutes: float | None = None,
    report: Callable[[int, float, float], None] = lambda epoch, loss, val_loss: None,
    progress: Progress = no_progress,
) -> FitResult:
    """Trains with Adam until the validation loss has not fallen for `patience` epochs; keeps the best epoch's weights.

    Args:
        classifier: built, changed in place; what of it is trainable is trained.
        training, validation: labelled samples.
        weights: [K] of the classes, in both losses.
        learning_rate: constant.
        seed: of the order of samples.
        batch_size: samples per step; the last batch of an epoch may be smaller.
        patience: epochs to wait for a better validation loss.
        max_epochs: at the most.
        max_minutes: wall time after which an epoch is cut short and validated as the last one; None: no cap.
        report: called after each epoch.
        progress: of each epoch.
    """
    clock = Clock(0.0, max_minutes)
    optimizer = keras.optimizers.Adam(learning_rate)
    optimizer.build(classifier.trainable_variables)
    run_epoch = epoch_function(classifier, optimizer, training, weights, batch_size, progress)
    predict_validation = predictor(classifier, validation, progress=progress)
    best_loss, best_epoch, best_weights, curve = math.inf, 0, classifier.get_weights(), []
    stopped_by_budget = False
    for epoch in range(1, max_epochs + 1):
        loss = run_epoch(epoch, seed, clock.left)
        val_loss = mean_loss(predict_validation(), validation.classes, weights)
        if not math.isfinite(loss + val_loss):
            raise InputError(
                f"epoch {epoch}: loss {loss}, validation loss {val_loss}; the learning rate, {learning_rate}, may be too high"
            )
        curve.append({"loss": loss, "val_loss": val_loss})
        report(epoch, loss, val_loss)
        if val_loss < best_loss:
            best_loss, best_epoch, best_weights = val_loss, epoch, classifier.get_weights()
        elif epoch - best_epoch >= patience:
            break
        if clock.over and epoch < max_epochs:
            stopped_by_budget = True
            break
    classifier.set_weights(best_weights)
    return FitResult(best_epoch, curve, stopped_by_budget)


def mean_loss(probabilities: np.ndarray, classes: np.ndarray, weights: np.ndarray) -> float:
    """Mean weighted cross-entropy."""
    return float(tf.reduce_mean(cross_entropy(tf.constant(probabilities), tf.constant(classes), tf.constant(weights))))


def epoch_function(
    classifier: keras.Model,
    optimizer: keras.Optimizer,
    training: Samples,
    weights: np.ndarray,
    batch_size: int,
    progress: Progress = no_progress,
) -> Callable[..., float]:
    """A function of epoch, seed and time that takes one step per batch, in the epoch's own order, and returns the mean loss.

    After the given number of seconds, infinite by default, the rest of the epoch is left out.
    """
    rows, classes, weights = tf.constant(training.rows), tf.constant(training.classes), tf.constant(weights)
    hours = len(training.rows)
    full = hours // batch_size

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
        """Batches `first` to `end`, as far as the deadline lets, but at least the very first: sum of losses, number done."""
        total, done = tf.constant(0.0), first
        while done < end and (done == 0 or tf.timestamp() < deadline):
            total += step(tf.gather(batches, done))
            done += 1
        return total, done

    def run_epoch(epoch: int, seed: int, seconds: float = math.inf) -> float:
        deadline = time.time() + seconds
        order = shuffled(tf.range(hours, dtype=tf.int64), tf.constant(epoch, tf.int64), hours, seed)
        total, done = 0.0, 0
        batches = tf.reshape(order[: full * batch_size], [full, batch_size])
        for first in progress(range(0, full, BATCHES_AT_ONCE), "epoch"):
            end = min(first + BATCHES_AT_ONCE, full)
            loss, done = full_batches(batches, *map(tf.constant, (first, end)), tf.constant(deadline, tf.float64))
            total, done = total + float(loss), int(done)
            if done < end:
                break
        if done < full:
            return total / (done * batch_size)
        if hours % batch_size:
            total += float(step(order[full * batch_size :]))
        return total / hours

    return run_epoch
