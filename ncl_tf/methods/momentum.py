"""Momentum contrast with neighborhoods: every contrastive method of the paper is a setting of this model."""

from typing import NamedTuple

import keras
import tensorflow as tf

from ncl_tf.data.augmentations import Augmentation, Draws
from ncl_tf.data.windows import Batch
from ncl_tf.errors import InputError
from ncl_tf.methods.base import Method, Step
from ncl_tf.networks.encoder import Encoder, Projector
from ncl_tf.objective.losses import Anchors, Objective, Terms
from ncl_tf.objective.neighborhoods import Attributes


class Queue(NamedTuple):
    """Past momentum projections, newest first.

    Attributes:
        keys: [M, D] unit vectors.
        attributes: of the M keys; stay -1 marks a start-up entry, which is in no neighborhood.
    """

    keys: tf.Tensor
    attributes: Attributes

    def prepend(self, newest: "Queue", size: int) -> "Queue":
        """Return the queue with `newest` in front, cut to `size` keys."""
        keys, *attributes = (
            tf.concat([new, old], axis=0)[:size]
            for new, old in zip((newest.keys, *newest.attributes), (self.keys, *self.attributes), strict=True)
        )
        return Queue(keys, Attributes(*attributes))


class MomentumContrast(Method):
    """Two views per sample, encoder against momentum encoder, a queue of keys, and L_NCL between them.

    Args:
        encoder: f_e, trained.
        projector: h_e, trained.
        momentum_encoder: f_m, which follows the encoder.
        momentum_projector: h_m, which follows the projector.
        augmentation: makes a view.
        objective: L_NCL, readable or fast.
        momentum: rho in [0, 1).
        queue_size: M, a multiple of what is enqueued per step.
        task: position of the label, among a batch's labels, that neighborhoods see; None: they see none.
        seed: of the views and of the queue's start-up entries.
        freeze_projector: keeps h_e at its initial weights (SCL on MIMIC-III, paper, Table 2).
    """

    keys_per_sample = 2  # both views are enqueued

    def __init__(
        self,
        encoder: Encoder,
        projector: Projector,
        momentum_encoder: Encoder,
        momentum_projector: Projector,
        augmentation: Augmentation,
        objective: Objective,
        momentum: float,
        queue_size: int,
        task: int | None = None,
        seed: int = 0,
        freeze_projector: bool = False,
    ) -> None:
        super().__init__(encoder, Terms, seed, "momentum_contrast")
        if not 0 <= momentum < 1:
            raise InputError(f"momentum must be 0 to 1, without 1, got {momentum}")
        if not queue_size > 0:
            raise InputError(f"queue_size must be above 0, got {queue_size}")
        self.projector = projector
        self.momentum_encoder, self.momentum_projector = momentum_encoder, momentum_projector
        self.augmentation, self.objective = augmentation, objective
        self.momentum, self.queue_size, self.task = momentum, queue_size, task
        self.freeze_projector = freeze_projector

    def build(self, input_shape: tuple[int | None, ...]) -> None:
        """Create all variables for windows of shape [batch, hours, columns].

        The first step does this if it has not been done; under a distribution strategy, call it within the scope.
        """
        if isinstance(input_shape, dict):
            raise InputError(
                f"{self.name}: a shape to build from must be (None, hours, columns), got those of a whole batch; call "
                "build before fit, under a distribution strategy within its scope"
            )
        self.augmentation.build(input_shape)
        representation = (None, self.encoder.merge.units)
        for encoder, projector in self._networks:
            encoder.build(input_shape)
            projector.build(representation)
        self.projector.trainable = not self.freeze_projector
        self.momentum_encoder.trainable = self.momentum_projector.trainable = False
        self.start_momentum_networks()
        size, dimension = self.queue_size, self.projector.projection.units
        start = tf.random.stateless_normal([size, dimension], [self.seed, 0], alg="philox")
        self.queue_keys = self._state("queue_keys", tf.math.l2_normalize(start, axis=1))
        for name in Attributes._fields:
            setattr(self, f"queue_{name}", self._state(f"queue_{name}", tf.fill([size], -1)))
        self.built = True

    @property
    def _networks(self) -> tuple[tuple[Encoder, Projector], ...]:
        return (self.encoder, self.projector), (self.momentum_encoder, self.momentum_projector)

    @property
    def _pairs(self) -> list[tuple[keras.Variable, keras.Variable]]:
        """Pair each weight of f_e and h_e with the one of f_m and h_m that follows it."""
        (encoder, projector), (momentum_encoder, momentum_projector) = self._networks
        followers = momentum_encoder.weights + momentum_projector.weights
        return list(zip(encoder.weights + projector.weights, followers, strict=True))

    def _state(self, name: str, value: tf.Tensor) -> keras.Variable:
        return self.add_weight(
            shape=value.shape,
            dtype=value.dtype.name,
            initializer=lambda *_, **__: value,
            trainable=False,
            aggregation="only_first_replica",  # every replica holds the gathered, hence the same, value
            name=name,
        )

    def start_momentum_networks(self) -> None:
        """Start f_m and h_m as copies of f_e and h_e."""
        for trained, following in self._pairs:
            following.assign(trained)

    def describe(self, batch_size: int) -> list[str]:
        """Describe the settings in lines for the screen."""
        fill = self.queue_size // (batch_size * self.keys_per_sample)
        alpha, temperature = self.objective.alpha, self.objective.temperature
        return [
            f"{self.objective.neighborhood}, alpha {alpha}, temperature {temperature}, momentum {self.momentum}",
            f"queue of {self.queue_size:,} keys: the loss rises in the first {fill:,} steps, "
            "while real keys replace random ones",
        ]

    @property
    def queue(self) -> Queue:
        """The queue before the next step."""
        attributes = (tf.convert_to_tensor(getattr(self, f"queue_{name}")) for name in Attributes._fields)
        return Queue(tf.convert_to_tensor(self.queue_keys), Attributes(*attributes))

    def call(self, inputs: tf.Tensor | Batch) -> tf.Tensor:
        """Represent windows [B, T, C], or those of a batch, by the trained encoder: -> [B, size]."""
        return self.encoder(inputs["window"] if isinstance(inputs, dict) else inputs)

    def compute_step(self, batch: Batch, training: bool) -> Step:
        """Contrast two views of each sample with the queue of momentum projections (section 3 of the paper)."""
        views, attributes = self.two_views(batch, self.view_step(training))
        keys = self.momentum_projector(self.momentum_encoder(views))
        terms, queue = self.contrast(views, attributes, keys, training)
        return Step(terms, state=queue)

    def after_step(self, queue: Queue) -> None:
        """Update f_m <- rho f_m + (1 - rho) f_e, and likewise h_m, and store the queue that holds the batch's keys."""
        for trained, following in self._pairs:  # in a form that keeps equal weights equal to the last bit
            following.assign_add((1 - self.momentum) * (trained - following))
        self.store(queue)

    def view_step(self, training: bool) -> int | tf.Tensor:
        """Return the step whose draws make the views; validation has one of its own."""
        return self.optimizer.iterations if training else -1

    def two_views(self, batch: Batch, step: int | tf.Tensor) -> tuple[tf.Tensor, Attributes]:
        """Augment each of n samples twice: views [2n, T, C], all first ones before all second ones; attributes [2n]."""
        windows = batch["window"]
        if not self.built:
            with tf.init_scope():
                self.build((None, *windows.shape[1:]))
        draws = [self.draws(windows, step, view) for view in range(2)]
        views = tf.concat([self.augmentation(windows, draws=draw) for draw in draws], axis=0)
        label = tf.fill(tf.shape(batch["stay"]), -1) if self.task is None else batch["label"][:, self.task]
        return views, Attributes(*(tf.tile(value, [2]) for value in (batch["stay"], batch["hour"], label)))

    def draws(self, windows: tf.Tensor, step: int | tf.Tensor, view: int, blocks: int = 1) -> Draws:
        """Return a step's draws for the samples of this replica [n, ...]; see `Draws`."""
        replicas = tf.distribute.get_strategy().num_replicas_in_sync
        if replicas > 1 and self.jit_compile:
            raise InputError(f"{self.name}: jit_compile must be False on {replicas} replicas, got True")
        total = None if replicas == 1 else replicas * tf.shape(windows)[0]
        return Draws(self.seed, step, view, self._first_sample(windows), total, blocks)

    def contrast(
        self, views: tf.Tensor, attributes: Attributes, keys: tf.Tensor, training: bool
    ) -> tuple[Terms, Queue]:
        """Evaluate L_NCL of the views' projections P against the queue in which their keys P^m are the newest.

        Args:
            views: [2n, T, C], both views of the n samples of this replica; their attributes are [2n].
            keys: P^m of the views, [2n, D].

        Returns:
            The terms, and the queue after this step.
        """
        newest, sample, total = self.newest_keys(keys, attributes)
        queue = self.queue.prepend(newest, self.queue_size)
        own = tf.concat([sample, sample + total], axis=0)  # q_k = p^m_k for k < 2N
        other = tf.concat([sample + total, sample], axis=0)
        return self.mean_terms(views, queue, Anchors(attributes, own, other), training), queue

    def mean_terms(self, views: tf.Tensor, queue: Queue, anchors: Anchors, training: bool) -> Terms:
        """Evaluate L_NCL of the projections of views [A, T, C], which are the anchors [A], against the keys of a queue."""
        contrast = self.objective.against(queue.keys, queue.attributes, anchors)

        def terms(samples: tuple[tf.Tensor, Anchors]) -> Terms:
            views, anchors = samples
            return contrast(self.projector(self.encoder(views)), anchors)

        return self.means(terms, (views, contrast.anchors), Terms, training)

    def newest_keys(self, keys: tf.Tensor, attributes: Attributes) -> tuple[Queue, tf.Tensor, tf.Tensor]:
        """Return the keys of all replicas [2N], the index of each local sample [n] in the joint batch, and N."""
        newest = Queue(*_gathered((keys, attributes)))
        samples = tf.shape(keys)[0] // 2
        return newest, self._first_sample(keys[:samples]) + tf.range(samples), tf.shape(newest.keys)[0] // 2

    def store(self, queue: Queue) -> None:
        """Replace the queue."""
        self.queue_keys.assign(queue.keys)
        for name, value in zip(Attributes._fields, queue.attributes, strict=True):
            getattr(self, f"queue_{name}").assign(value)

    def _first_sample(self, local: tf.Tensor) -> int | tf.Tensor:
        """Return the index of this replica's first sample in the joint batch."""
        context = tf.distribute.get_replica_context()
        return 0 if context.num_replicas_in_sync == 1 else context.replica_id_in_sync_group * tf.shape(local)[0]


def _gathered(both_views: tuple[tf.Tensor, Attributes]) -> tuple[tf.Tensor, Attributes]:
    """Gather both views' keys and attributes [2n, ...] of all replicas in the order of one device with the joint batch."""
    context = tf.distribute.get_replica_context()
    if context.num_replicas_in_sync == 1:
        return both_views
    keys, attributes = both_views

    def gather(value: tf.Tensor) -> tf.Tensor:
        by_view = tf.reshape(value, tf.concat([[2, -1], tf.shape(value)[1:]], axis=0))
        return tf.reshape(context.all_gather(by_view, axis=1), tf.concat([[-1], tf.shape(value)[1:]], axis=0))

    return gather(keys), Attributes(*(gather(value) for value in attributes))
