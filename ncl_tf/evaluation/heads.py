"""Small classifiers on a representation, and their training on embeddings that were computed once."""

import dataclasses
from collections.abc import Callable

import keras
import numpy as np
import tensorflow as tf

from ncl_tf.data.windows import Windows, shuffled
from ncl_tf.encoders import Encoder
from ncl_tf.errors import InputError

HEADS = ("linear", "mlp")


def make_head(kind: str, classes: int, size: int = 64) -> keras.Sequential:
    """linear: Dense with softmax. mlp: Dense -> LayerNormalization -> ReLU -> Dense with softmax (paper, appendix A)."""
    if kind not in HEADS:
        raise InputError(f"no head {kind!r}; allowed: {', '.join(HEADS)}")
    hidden = [
        keras.layers.Dense(size, name="hidden"),
        keras.layers.LayerNormalization(name="norm"),
        keras.layers.ReLU(name="relu"),
    ]
    output = keras.layers.Dense(classes, activation="softmax", name="output")
    return keras.Sequential([*(hidden if kind == "mlp" else []), output], name="head")


def class_weights(classes: np.ndarray, count: int, balanced: bool) -> np.ndarray:
    """Weight of each class in the loss, [count] float32: 1, or balanced: 0.5/(1 - p) and 0.5/p for prevalence p.

    For more than two classes the balanced weight is 1 / (count * share of the class).
    """
    if not balanced:
        return np.ones(count, np.float32)
    share = np.bincount(classes, minlength=count) / len(classes)
    missing = np.flatnonzero(share == 0)
    if len(missing):
        raise InputError(f"no training hour has class {missing[0]}, so the classes cannot be balanced")
    return (1 / (count * share)).astype(np.float32)


def cross_entropy(probabilities: tf.Tensor, classes: tf.Tensor, weights: tf.Tensor) -> tf.Tensor:
    """Weighted cross-entropy of each sample, - w_y log p_y: [B, K], [B], [K] -> [B]."""
    losses = keras.losses.sparse_categorical_crossentropy(classes, probabilities)
    return tf.gather(weights, classes) * losses


def embed(encoder: Encoder, windows: Windows, batch_size: int = 4096, progress: Callable = lambda batches, total: batches):
    """Representations of all hours of a split, [hours, size] float32, each computed once.

    Args:
        encoder: used as it is, in inference mode.
        windows: of the split.
        batch_size: hours at once.
        progress: wraps the iteration over batches, given their number.
    """
    represent = tf.function(encoder, jit_compile=True)
    batches = windows.sequential(batch_size)
    return np.concatenate([represent(batch["window"]).numpy() for batch in progress(batches, len(batches))])


@dataclasses.dataclass
class Fitted:
    """How a training with early stopping went.

    Attributes:
        best_epoch: the one whose weights the model has now, counted from 1.
        curve: training and validation loss of each epoch.
    """

    best_epoch: int
    curve: list[dict[str, float]]


def fit_head(
    head: keras.Model,
    training: tuple[np.ndarray, np.ndarray],
    validation: tuple[np.ndarray, np.ndarray],
    weights: np.ndarray,
    learning_rate: float,
    seed: int,
    batch_size: int = 2048,
    patience: int = 20,
    max_epochs: int = 1000,
    report: Callable[[int, float, float], None] = lambda epoch, loss, val_loss: None,
) -> Fitted:
    """Trains a head with Adam until the validation loss has not fallen for `patience` epochs; keeps the best epoch.

    Args:
        head: built, changed in place.
        training, validation: features [H, D] float32 and classes [H] int32.
        weights: [K] of the classes, in both losses.
        learning_rate: constant.
        seed: of the order of samples.
        batch_size: samples per step; the last, smaller batch of an epoch counts like the others.
        patience: epochs to wait for a better validation loss.
        max_epochs: at the most.
        report: called after each epoch.
    """
    features, classes = (tf.constant(array) for array in training)
    held_out, held_out_classes = (tf.constant(array) for array in validation)
    weights = tf.constant(weights)
    optimizer = keras.optimizers.Adam(learning_rate)
    optimizer.build(head.trainable_variables)
    hours = len(training[1])
    full = hours // batch_size

    def step(rows: tf.Tensor) -> tf.Tensor:
        with tf.GradientTape() as tape:
            losses = cross_entropy(head(tf.gather(features, rows)), tf.gather(classes, rows), weights)
            loss = tf.reduce_mean(losses)
        variables = head.trainable_variables
        optimizer.apply_gradients(zip(tape.gradient(loss, variables), variables, strict=True))
        return tf.reduce_sum(losses)

    @tf.function(jit_compile=True)
    def epoch_of_full_batches(order: tf.Tensor) -> tf.Tensor:
        total = tf.constant(0.0)
        for batch in tf.range(full):
            total += step(order[batch * batch_size : (batch + 1) * batch_size])
        return total

    last_batch = tf.function(step)
    validation_loss = tf.function(lambda: tf.reduce_mean(cross_entropy(head(held_out), held_out_classes, weights)))
    best, curve = (np.inf, 0, head.get_weights()), []
    for epoch in range(1, max_epochs + 1):
        order = shuffled(tf.range(hours, dtype=tf.int64), tf.constant(epoch, tf.int64), hours, seed)
        total = float(epoch_of_full_batches(order[: full * batch_size])) if full else 0.0
        if hours % batch_size:
            total += float(last_batch(order[full * batch_size :]))
        loss, val_loss = total / hours, float(validation_loss())
        curve.append({"loss": loss, "val_loss": val_loss})
        report(epoch, loss, val_loss)
        if val_loss < best[0]:
            best = (val_loss, epoch, head.get_weights())
        elif epoch - best[1] >= patience:
            break
    head.set_weights(best[2])
    return Fitted(best[1], curve)
