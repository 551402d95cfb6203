"""Functions of a batch, evaluated piece by piece, so that intermediate values stay in the processor's caches.

The gradient of a mean over samples is the mean of the pieces' gradients. Each is computed right after the piece's forward
pass, so that nothing is computed twice, nothing large is written to memory, and the memory does not grow with the batch.
"""

import os
from collections.abc import Callable, Sequence

import tensorflow as tf

from ncl_tf.networks.encoder import Means, Samples

SIZE_PER_THREAD = 128  # samples whose activations fit into the caches of a processor's core


def default_size() -> int:
    """Return the samples in a piece: threads share each operation on it, and each has a core with its own caches."""
    threads = os.environ.get("TF_NUM_INTRAOP_THREADS", "")
    if threads.isdigit() and int(threads):
        return int(threads) * SIZE_PER_THREAD
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count()
    return cores * SIZE_PER_THREAD


def map_in_pieces(function: Callable[[tf.Tensor], tf.Tensor], inputs: tf.Tensor, size: int | None = None) -> tf.Tensor:
    """Return `function(inputs)` of a function that treats the samples of a batch independently of each other.

    The function maps [b, ...] -> [b, D], for any number b of samples, and may use variables. Where the number of inputs [B, ...]
    is unknown or at most `size`, the samples in a piece, it is simply called.
    """
    batch, size = inputs.shape[0], size or default_size()
    if batch is None or batch <= size:
        return function(inputs)
    count = -(-batch // size)
    size = -(-batch // count)
    padded = tf.pad(inputs, [[0, count * size - batch]] + [[0, 0]] * (inputs.shape.rank - 1))
    outputs = tf.map_fn(function, tf.reshape(padded, [count, size, *inputs.shape[1:]]))
    return tf.reshape(outputs, [count * size, *outputs.shape[2:]])[:batch]


def means_in_pieces(
    function: Callable[[Samples], Means],
    samples: Samples,
    variables: Sequence[tf.Variable],
    kind: type[Means],
    size: int | None = None,
) -> Means:
    """Return `function(samples)` of a function whose outputs are means over the samples; see `Encoder.means`.

    Only the first output, the loss, has a gradient, and only with respect to the variables. Where the number of samples is
    unknown or at most `size`, those in a piece, the function is simply called.
    """
    flat = tf.nest.flatten(samples)
    batch, size = flat[0].shape[0], size or default_size()
    if batch is None or batch <= size:
        return function(samples)

    def add(start: int | tf.Tensor, length: int, means: Means, gradients: list[tf.Tensor]):
        parts = [
            tf.slice(values, [start, *[0] * (values.shape.rank - 1)], [length, *values.shape[1:]]) for values in flat
        ]  # with a shape that XLA knows
        piece = tf.nest.pack_sequence_as(samples, parts)
        with tf.GradientTape() as tape:
            of_piece = function(piece)
        of_variables = tape.gradient(of_piece[0], variables)
        share = length / batch
        means = kind(*(total + share * value for total, value in zip(means, of_piece, strict=True)))
        return means, [
            total if value is None else total + share * value
            for total, value in zip(gradients, of_variables, strict=True)
        ]

    whole = batch // size * size
    sums = kind(*[0.0] * len(kind._fields)), [tf.zeros_like(variable) for variable in variables]
    _, sums = tf.while_loop(
        lambda start, _: start < whole,
        lambda start, sums: (start + size, add(start, size, *sums)),
        (0, sums),
        parallel_iterations=1,
        maximum_iterations=batch // size,
    )
    if whole < batch:
        sums = add(whole, batch - whole, *sums)
    means, gradients = (tf.nest.map_structure(tf.stop_gradient, values) for values in sums)
    zeros_with_gradients = (
        tf.reduce_sum(gradient * (variable - tf.stop_gradient(variable)))
        for variable, gradient in zip(variables, gradients, strict=True)
    )
    return kind(sum(zeros_with_gradients, means[0]), *means[1:])
