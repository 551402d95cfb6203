"""From a split to batches of windows: the hours up to each sample, gathered in the graph from one table."""

import ncl_tf.quiet  # noqa: F401, I001 - before TensorFlow

import numpy as np
import tensorflow as tf

from ncl_tf.data.cohort import SplitData
from ncl_tf.errors import InputError

Batch = dict[str, tf.Tensor]  # tensors by name; see `Windows` and `Windows.stretches`


class Windows:
    """The windows of one split.

    A batch holds `window` [N, history, columns] float32 (zeros before the stay began), `stay` [N] int32 (its id), `hour` [N]
    int32 (since the stay's first row) and `label` [N, tasks] int32 (the class; -1 where unlabelled).
    """

    def __init__(self, split: SplitData, history: int, part: tuple[int, int] = (0, 1)) -> None:
        """Put a split's table where the graph can gather windows of `history` hours from it.

        `part` is which part of every training batch to make, and of how many; workers that train together each make one.
        """
        if history < 1:
            raise InputError(f"history must be 1 hour or more, got {history}")
        self.history, self._part = history, part
        self.hours = len(split.data)
        with tf.device("CPU"):
            # Row 0 of the table is all zeros: hours before a stay began point to it.
            self._table = tf.constant(np.concatenate([np.zeros_like(split.data[:1]), split.data]))
            self._first_row = tf.constant(split.first_row)
            self._stay = tf.constant(split.stay)
            self._labels = tf.constant(split.classes)

    def gather(self, rows: tf.Tensor) -> Batch:
        """Gather the samples at the given rows [N] of the split's table."""
        first = tf.gather(self._first_row, rows)
        steps = rows[:, None] + tf.range(1 - self.history, 1, dtype=rows.dtype)
        return {
            "window": tf.gather(self._table, tf.where(steps < first[:, None], 0, steps + 1)),
            "stay": tf.gather(self._stay, rows),
            "hour": rows - first,
            "label": tf.gather(self._labels, rows),
        }

    def training(
        self, batch_size: int, seed: int, first_step: int = 0, rows: np.ndarray | None = None
    ) -> tf.data.Dataset:
        """Make endless random batches; batch k depends on (seed, k) alone, so training can resume from any step.

        Every hour occurs once per epoch. Epochs follow each other without a gap: sample number g = k * batch_size + j
        of the run is position g mod H of epoch g div H, and each epoch has its own permutation of the H hours.
        With `rows`, the H hours are those at these rows of the split's table.
        """
        rows = np.arange(self.hours) if rows is None else rows
        hours, table_rows = len(rows), tf.constant(rows, tf.int32)
        if not 1 <= batch_size <= hours:
            raise InputError(f"batch_size must be 1 to {hours}, the number of hours to choose from, got {batch_size}")

        def batch(step: tf.Tensor) -> Batch:
            sample = share_of(step * batch_size + tf.range(batch_size, dtype=tf.int64), *self._part)
            position, epoch = sample % hours, sample[0] // hours
            this, following = (shuffled(position, e, hours, seed) for e in (epoch, epoch + 1))
            return self.gather(tf.gather(table_rows, tf.where(sample // hours == epoch, this, following)))

        steps = tf.data.Dataset.counter(first_step)
        return _prefetched(steps.map(batch, num_parallel_calls=2, deterministic=True))

    def sequential(self, batch_size: int, rows: np.ndarray | None = None) -> tf.data.Dataset:
        """Make batches of all samples, or of those at `rows`, once and in order; the last batch may be smaller."""
        if batch_size < 1:
            raise InputError(f"batch_size must be 1 or more, got {batch_size}")
        rows = np.arange(self.hours) if rows is None else rows
        chosen = tf.data.Dataset.from_tensor_slices(rows.astype(np.int32)).batch(batch_size)
        return _prefetched(chosen.map(self.gather, num_parallel_calls=2, deterministic=True))

    def stretch(self, start: tf.Tensor, size: int) -> tuple[tf.Tensor, tf.Tensor]:
        """Gather `size` hours from row `start` on, for encoders that compute what windows have in common only once.

        Returns rows [history - 1 + size, columns], beginning as far before `start` as its window reaches, zero outside the
        split, and hour [history - 1 + size] int32, since the stay's first of these rows.
        """
        rows = tf.range(1 - self.history, size) + start
        inside = (rows >= 0) & (rows < self.hours)
        first = tf.gather(self._first_row, tf.clip_by_value(rows, 0, self.hours - 1))
        hour = tf.minimum(tf.where(inside, rows - first, 0), tf.range(self.history - 1 + size))
        return tf.gather(self._table, tf.where(inside, rows + 1, 0)), hour

    def stretches(self, size: int, count: int = 1) -> tf.data.Dataset:
        """Make batches of `count` stretches of `size` hours, which cover all hours once and in order.

        A batch holds `rows` [count, history - 1 + size, columns] and `hour` [count, history - 1 + size] as `stretch`
        returns them, and `label` [count, size, tasks], which is -1 also for what a stretch has beyond the split's end.
        """
        end = -(-self.hours // (size * count)) * size * count
        starts = tf.data.Dataset.range(0, end, size, output_type=tf.int32).batch(count, drop_remainder=True)
        labels = tf.pad(self._labels, [[0, end - self.hours], [0, 0]], constant_values=-1)

        def batch(starts: tf.Tensor) -> Batch:
            chosen = tf.unstack(share_of(starts, *self._part))
            rows, hour = zip(*(self.stretch(start, size) for start in chosen), strict=True)
            label = [labels[start : start + size] for start in chosen]
            return {"rows": tf.stack(rows), "hour": tf.stack(hour), "label": tf.stack(label)}

        return _prefetched(starts.map(batch, num_parallel_calls=2, deterministic=True))


def _prefetched(batches: tf.data.Dataset) -> tf.data.Dataset:
    """Prefetch batches, without tf.data's autotuning.

    Deleting the iterator of an autotuned pipeline can wait for the end of a tuning thread: trainings with the laptop budget
    stood still for 17 of 40 seconds at every report, and do not without autotuning.
    """
    options = tf.data.Options()
    options.autotune.enabled = False
    return batches.prefetch(4).with_options(options)


def share_of(values: tf.Tensor, part: int, parts: int) -> tf.Tensor:
    """Select one of `parts` consecutive parts of values [N, ...], all of one size if N is a multiple of `parts`."""
    if parts == 1:
        return values
    size = values.shape[0] or tf.shape(values)[0]
    return values[part * size // parts : (part + 1) * size // parts]


def every_window(rows: tf.Tensor, hour: tf.Tensor, history: int) -> tf.Tensor:
    """Cut the window that ends with each hour of whole stays: rows [N, C], hours of the stay [N] -> [N, history, C]."""
    back = tf.range(history - 1, -1, -1)
    steps = tf.range(1, tf.shape(rows)[0] + 1)[:, None] - back
    return tf.gather(tf.pad(rows, [[1, 0], [0, 0]]), tf.where(hour[:, None] < back, 0, steps))


def shuffled(position: tf.Tensor, epoch: tf.Tensor, count: int, seed: int) -> tf.Tensor:
    """Permute positions [N] of 0 .. count - 1 at random, in another way for each epoch: [N] int32."""
    # The operation looks at few bits of its three numbers, 8 of each for a small count: seeds or epochs that agree in these
    # would have the same order. So the numbers are drawn at random (tf.random.experimental.index_shuffle passes only two).
    key = tf.random.stateless_uniform([3], tf.stack([seed, epoch]), None, None, tf.int32, alg="philox")
    order = tf.raw_ops.RandomIndexShuffle(index=position, seed=key, max_index=tf.cast(count - 1, tf.int64), rounds=8)
    return tf.cast(order, tf.int32)
