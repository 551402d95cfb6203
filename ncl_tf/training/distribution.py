"""Training in one process, on all devices of a machine, or on several machines, by `tf.distribute`.

Every replica computes an equal share of each batch and all hold the same weights, so they follow one process on the whole
batch, up to the order in which floats are added.
"""

import contextlib
import functools
import os
import re
from collections.abc import Callable, Iterator

import keras
import tensorflow as tf
from keras.callbacks import Callback

from ncl_tf import stopping
from ncl_tf.compat import raise_errors_of_workers
from ncl_tf.data.windows import Batch, share_of
from ncl_tf.errors import InputError
from ncl_tf.runs import Run
from ncl_tf.training.cluster import Cluster, read_cluster

STRATEGIES = ("none", "mirrored", "multiworker")
STEPS_BETWEEN_REQUESTS = 10  # after which workers ask each other whether one of them is to stop
# What collectives raise when another worker, or the way to it, is gone.
LOST = (
    tf.errors.AbortedError,
    tf.errors.CancelledError,
    tf.errors.DeadlineExceededError,
    tf.errors.FailedPreconditionError,
    tf.errors.InternalError,
    tf.errors.UnavailableError,
)

Batches = tf.data.Dataset
Logs = dict[str, tf.Tensor]


class Alone:
    """One replica in one process, trained by the loop of Keras.

    Attributes:
        replicas: number of devices that compute a share of each batch.
        part: index of this worker, a process, and number of workers.
    """

    replicas, part = 1, (0, 1)

    @property
    def chief(self) -> bool:
        """Whether this worker is the one that writes the run directory."""
        return self.part[0] == 0

    def scope(self) -> contextlib.AbstractContextManager:
        """Return the context in which variables have to be created."""
        return contextlib.nullcontext()

    def fit(
        self, model: keras.Model, batches: Batches, steps: int, held_out: Batches | None, progress: Callback
    ) -> dict[str, float]:
        """Train for some steps, then validate; return the metrics by name, those of the validation as `val_...`.

        Args:
            batches, held_out: this worker's share of the batches to train and to validate on.
            progress: called at the end of every step; may set `model.stop_training`.
        """
        history = model.fit(
            batches, steps_per_epoch=steps, validation_data=held_out, callbacks=[progress], shuffle=False, verbose=0
        ).history
        return {name: float(values[-1]) for name, values in history.items()}

    def any(self, here: bool) -> bool:
        """Return whether `here` is True on any worker; all workers have to call it together."""
        return here

    def asked_to_stop(self, step: int = 0) -> bool:
        """Return whether a worker was asked to stop; workers call it together, and ask each other after some steps only."""
        return stopping.requested()

    def check_same(self, what: str, value: int) -> None:
        """Refuse a value that is not the same on all workers; all workers have to call it together."""

    def check_batch(self, batch_size: int) -> None:
        """Refuse a batch size that the replicas cannot share equally."""

    def report_lost_workers(self, run: Run) -> contextlib.AbstractContextManager:
        """Wrap what workers do together: when one is lost, raise an error that names the step to resume from."""
        return contextlib.nullcontext()


class Together(Alone):
    """Several replicas, which take the model's own steps by `strategy.run`: the loop of Keras cannot serve several workers."""

    def __init__(self, strategy: tf.distribute.Strategy, part: tuple[int, int] = (0, 1)) -> None:
        self.strategy, self.part = strategy, part
        self.replicas = strategy.num_replicas_in_sync
        self._local = self.replicas // part[1]
        self._compiled: dict[Callable, Callable] = {}
        self._step = 0

    def scope(self) -> contextlib.AbstractContextManager:
        return self.strategy.scope()

    def fit(
        self, model: keras.Model, batches: Batches, steps: int, held_out: Batches | None, progress: Callback
    ) -> dict[str, float]:
        progress.set_model(model)
        model.stop_training = False
        model.reset_metrics()
        progress.on_epoch_begin(0)
        for number, share in enumerate(batches.take(steps)):
            self._step = int(model.optimizer.iterations.numpy()) + 1
            progress.on_train_batch_end(number, self._run(model.train_step, share))
            if model.stop_training:
                break
        report = _means(model)
        if held_out is not None:
            model.reset_metrics()
            for share in held_out:
                self._run(model.test_step, share)
            report |= {f"val_{name}": value for name, value in _means(model).items()}
        return report

    def any(self, here: bool) -> bool:
        return self._sum(int(here)) > 0

    def asked_to_stop(self, step: int = 0) -> bool:
        if self.part[1] == 1:
            return stopping.requested()
        return step % STEPS_BETWEEN_REQUESTS == 0 and self.any(stopping.requested())

    def check_same(self, what: str, value: int) -> None:
        if self._sum(value) != value * self.replicas:
            raise InputError(
                f"worker {self.part[0]}: {what} must be the same on all workers, got another one; "
                "start the same command on each, with one run directory in a folder that they share"
            )

    def check_batch(self, batch_size: int) -> None:
        if batch_size % self.replicas:
            nearest = max(round(batch_size / self.replicas), 1) * self.replicas
            raise InputError(
                f"batch_size must be a multiple of {self.replicas}, the number of replicas, got {batch_size}; nearest: {nearest}"
            )

    @contextlib.contextmanager
    def report_lost_workers(self, run: Run) -> Iterator[None]:
        try:
            yield
        except LOST as error:
            if self.part[1] == 1:
                raise
            reason = (re.search(r"aborted by: (.+)", error.message) or re.search(r"(.+)", error.message))[1]
            raise InputError(
                f"worker {self.part[0]}: another worker was lost at step {self._step} ({reason}). "
                f"Start all workers again with the same commands: they resume from step {run.kept_step}"
            ) from error

    def _run(self, step: Callable[[Batch], Logs], share: Batch) -> Logs:
        """Take a step on every replica, each with its part of this worker's share, and return the means of all logs."""
        if step not in self._compiled:
            take = functools.partial(self.strategy.run, _averaged)
            self._compiled[step] = tf.function(lambda batch: take((step, batch)), autograph=False)

        def of_replica(context: tf.distribute.experimental.ValueContext) -> Batch:
            part = context.replica_id_in_sync_group % self._local, self._local
            return {name: share_of(value, *part) for name, value in share.items()}

        logs = self._compiled[step](self.strategy.experimental_distribute_values_from_function(of_replica))
        return {name: self.strategy.experimental_local_results(value)[0] for name, value in logs.items()}

    def _sum(self, value: int) -> int:
        """Return the sum over all replicas of their workers' values."""
        values = self.strategy.experimental_distribute_values_from_function(lambda _: tf.constant(value, tf.int64))
        return int(self.strategy.reduce(tf.distribute.ReduceOp.SUM, values, axis=None))


def gather(strategy: str, wait: float = 300) -> Alone:
    """Connect all devices or workers of a training, and return how they train together.

    Args:
        strategy: "none"; "mirrored", all GPUs of this machine, or all its logical CPUs where it has no GPU; "multiworker",
            the workers that the environment variable TF_CONFIG names.
        wait: seconds until all workers have to be there.
    """
    if strategy == "none":
        return Alone()
    if strategy == "mirrored":
        devices = tf.config.list_logical_devices("GPU") or tf.config.list_logical_devices("CPU")
        together = Together(tf.distribute.MirroredStrategy([device.name for device in devices]))
    elif strategy == "multiworker":
        cluster = read_cluster(os.environ.get("TF_CONFIG"))
        together = Together(_connected(cluster, wait), (cluster.index, len(cluster.workers)))
    else:
        raise InputError(f"strategy must be one of {', '.join(STRATEGIES)}, got {strategy!r}")
    if together.replicas == 1:
        print(f"strategy {strategy}: found one device, so training runs as without a strategy")
        return Alone()
    return together


def _connected(cluster: Cluster, wait: float) -> tf.distribute.Strategy:
    cluster.check_port()
    raise_errors_of_workers(wait)
    try:
        return tf.distribute.MultiWorkerMirroredStrategy()
    except (RuntimeError, *LOST) as error:
        raise InputError(
            f"worker {cluster.index}: not all workers joined within {wait:g} seconds ({', '.join(cluster.workers)}); "
            "all must be started within --wait seconds and be able to reach each other"
        ) from error


def _averaged(step: Callable[[Batch], Logs], batch: Batch) -> Logs:
    """Return the logs of a step, averaged over the replicas by one operation."""
    logs = step(batch)
    replica, values = tf.distribute.get_replica_context(), tf.stack(list(logs.values()))
    means = replica.all_reduce(tf.distribute.ReduceOp.MEAN, values)
    return dict(zip(logs, tf.unstack(means), strict=True))


def _means(model: keras.Model) -> dict[str, float]:
    """Return the model's metrics over the samples of all replicas."""
    return {metric.name: float(metric.result()) for metric in model.metrics}
