"""A function of a batch, applied piece by piece: what it computes on the way stays in the processor's caches.

The gradient is computed piece by piece, too, going through each piece once more. Where memory is the bottleneck, that costs
less than writing every intermediate result and reading it again; and the memory needed does not grow with the batch.
"""

from collections.abc import Callable, Sequence

import tensorflow as tf


def in_pieces(function: Callable[[tf.Tensor], tf.Tensor], inputs: tf.Tensor, size: int = 256) -> tf.Tensor:
    """`function(inputs)`, for a function that treats the samples of a batch independently of each other.

    Args:
        function: [b, ...] -> [b, D], for any number b of samples; may use variables.
        inputs: [B, ...]. Where B is unknown or at most `size`, the function is simply called.
        size: samples in a piece, at the most.

    Returns:
        [B, D].
    """
    batch = inputs.shape[0]
    if batch is None or batch <= size:
        return function(inputs)
    count = -(-batch // size)
    size = -(-batch // count)

    def split(samples: tf.Tensor) -> tf.Tensor:
        padding = [[0, count * size - batch]] + [[0, 0]] * (samples.shape.rank - 1)
        return tf.reshape(tf.pad(samples, padding), [count, size, *samples.shape[1:]])

    def join(pieces: tf.Tensor) -> tf.Tensor:
        return tf.reshape(pieces, [count * size, *pieces.shape[2:]])[:batch]

    @tf.custom_gradient
    def apply(inputs: tf.Tensor):
        pieces = split(inputs)

        def gradient(upstream: tf.Tensor, variables: Sequence[tf.Variable] = ()):
            of_pieces, of_variables = _gradients(function, pieces, split(upstream), variables)
            return (join(of_pieces), of_variables) if variables else join(of_pieces)

        return join(tf.map_fn(function, pieces)), gradient

    return apply(inputs)


def _gradients(
    function: Callable[[tf.Tensor], tf.Tensor], pieces: tf.Tensor, upstream: tf.Tensor, variables: Sequence[tf.Variable]
) -> tuple[tf.Tensor, list[tf.Tensor]]:
    """Gradients with respect to the pieces [count, size, ...] and, summed over them, to the variables."""

    def add_next(index: tf.Tensor, of_pieces: tf.TensorArray, sums: list[tf.Tensor]):
        with tf.GradientTape() as tape:
            piece = pieces[index]
            tape.watch(piece)
            outputs = function(piece)
        of_piece, *of_variables = tape.gradient(
            outputs, [piece, *variables], upstream[index], unconnected_gradients=tf.UnconnectedGradients.ZERO
        )
        sums = [total + value for total, value in zip(sums, of_variables, strict=True)]
        return index + 1, of_pieces.write(index, of_piece), sums

    count = pieces.shape[0]
    nothing = tf.TensorArray(pieces.dtype, count, element_shape=pieces.shape[1:])
    start = (0, nothing, [tf.zeros_like(variable) for variable in variables])
    _, of_pieces, sums = tf.while_loop(
        lambda index, *_: index < count, add_next, start, parallel_iterations=1, maximum_iterations=count
    )
    return of_pieces.stack(), sums
