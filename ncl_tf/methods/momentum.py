"""Momentum contrast with neighbourhoods: every contrastive method of the paper is a setting of this model."""

from collections.abc import Callable
from typing import NamedTuple

import keras
import tensorflow as tf

from ncl_tf.data.augmentations import Augmentation, Draws
from ncl_tf.data.windows import Batch
from ncl_tf.errors import InputError
from ncl_tf.methods.base import Method, Step
from ncl_tf.networks.encoder import Encoder, Projector
from ncl_tf.objective.losses import Terms
from ncl_tf.objective.neighborhoods import Attributes, Neighborhood

Objective = Callable[..., Callable[..., Terms]]  # `Contrast` of ncl_tf.objective.losses, or of its fast form


class Queue(NamedTuple):
    """Past momentum projections, newest first.

    Attributes:
        keys: [M, D] unit vectors.
        attributes: of the M keys; stay -1 marks a start-up entry, which is nobody's neighbour.
    """

    keys: tf.Tensor
    attributes: Attributes

    def prepend(self, newest: "Queue", size: int) -> "Queue":
        """The queue with `newest` in front, cut to `size` keys."""
        keys, *attributes = (
            tf.concat([new, old], axis=0)[:size]
            for new, old in zip((newest.keys, *newest.attributes), (self.keys, *self.attributes), strict=True)
        )
        return Queue(keys, Attributes(*attributes))


class MomentumContrast(Method):
    """Two views per sample, encoder against momentum encoder, a queue of keys, and L_NCL between them.

    Args:
        encoder, projector: f_e and h_e, trained.
        momentum_encoder, momentum_projector: f_m and h_m, which follow them.
        augmentation: makes a view.
        objective: L_NCL, readable or fast.
        neighborhood: n(x_i, x_k).
        alpha: weight of L_NA against L_ND, in [0, 1].
        temperature: tau > 0.
        momentum: rho in [0, 1).
        queue_size: M, a multiple of what is enqueued per step.
        task: position of the label, among a batch's labels, that neighbourhoods see; None: they see none.
        seed: of the views and of the queue's start-up entries.
        freeze_projector: keeps h_e at its initial weights (SCL on MIMIC-III, paper, Table 2).
        name: first part of the variables' paths.
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
        neighborhood: Neighborhood,
        alpha: float,
        temperature: float,
        momentum: float,
        queue_size: int,
        task: int | None = None,
        seed: int = 0,
        freeze_projector: bool = False,
        name: str = "momentum_contrast",
    ) -> None:
        super().__init__(encoder, Terms, seed, name)
        _check("alpha", alpha, 0 <= alpha <= 1, "0 to 1")
        _check("temperature", temperature, temperature > 0, "above 0")
        _check("momentum", momentum, 0 <= momentum < 1, "0 to 1, without 1")
        _check("queue_size", queue_size, queue_size > 0, "above 0")
        self.projector = projector
        self.momentum_encoder, self.momentum_projector = momentum_encoder, momentum_projector
        self.augmentation = augmentation
        self.objective, self.neighborhood = objective, neighborhood
        self.alpha, self.temperature, self.momentum = alpha, temperature, momentum
        self.queue_size, self.task = queue_size, task
        self.freeze_projector = freeze_projector

    def build(self, input_shape: tuple[int | None, ...]) -> None:
        """Creates all variables for windows of shape [batch, hours, columns].

        The first step does it, unless it is done before; under a distribution strategy it has to be, within its scope.
        """
        if isinstance(input_shape, dict):
            raise InputError(
                f"{self.name}: cannot be built from a whole batch; call build((None, hours, columns)), under a "
                "distribution strategy within its scope, before fit"
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
        """Each weight of f_e and h_e with its follower in f_m and h_m."""
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
        """f_m and h_m start as copies of f_e and h_e."""
        for trained, following in self._pairs:
            following.assign(trained)

    def describe(self, batch_size: int) -> list[str]:
        """The settings, as lines for the screen."""
        fill = self.queue_size // (batch_size * self.keys_per_sample)
        return [
            f"{self.neighborhood}, alpha {self.alpha}, temperature {self.temperature}, momentum {self.momentum}",
            f"queue of {self.queue_size:,} keys: the loss rises in the first {fill:,} steps, "
            "while real keys replace random ones",
        ]

    @property
    def queue(self) -> Queue:
        """The queue as it is."""
        attributes = (tf.convert_to_tensor(getattr(self, f"queue_{name}")) for name in Attributes._fields)
        return Queue(tf.convert_to_tensor(self.queue_keys), Attributes(*attributes))

    def call(self, inputs: tf.Tensor | Batch) -> tf.Tensor:
        """Representations by the trained encoder, of windows [B, T, C] or of a batch that holds them: -> [B, size]."""
        return self.encoder(inputs["window"] if isinstance(inputs, dict) else inputs)

    def compute_step(self, batch: Batch, training: bool) -> Step:
        """Section 3 of the paper: two views, their momentum projections, and the objective against the queue."""
        views, anchors, draws = self.two_views(batch, self.optimizer.iterations if training else -1)
        keys = self.momentum_projector(self.momentum_encoder(views, training=training, draws=draws.stream(1)))
        terms, queue = self.contrast(views, anchors, keys, training, draws.stream(2))
        return Step(terms, state=queue)

    def after_step(self, queue: Queue) -> None:
        """The momentum networks follow, and the queue takes the batch's keys."""
        self.follow()
        self.store(queue)

    def two_views(self, batch: Batch, step: int | tf.Tensor) -> tuple[tf.Tensor, Attributes, Draws]:
        """Views [2n, T, C] of n samples, all first ones and then all second ones, with attributes [2n]; and draws for them."""
        windows = batch["window"]
        if not self.built:
            with tf.init_scope():
                self.build((None, *windows.shape[1:]))
        replicas = tf.distribute.get_strategy().num_replicas_in_sync
        if replicas > 1 and self.jit_compile:
            raise InputError(f"{self.name}: jit_compile is True on {replicas} replicas; allowed: False")
        first, total = self._first_sample(windows), None if replicas == 1 else replicas * tf.shape(windows)[0]
        draws = [Draws(self.seed, step, view, first, total) for view in range(2)]
        views = tf.concat([self.augmentation(windows, draws=draw) for draw in draws], axis=0)
        label = tf.fill(tf.shape(batch["stay"]), -1) if self.task is None else batch["label"][:, self.task]
        attributes = (tf.tile(value, [2]) for value in (batch["stay"], batch["hour"], label))
        return views, Attributes(*attributes), Draws(self.seed, step, 2, first, total, blocks=2)

    def contrast(
        self, views: tf.Tensor, anchors: Attributes, keys: tf.Tensor, training: bool = False, draws: Draws | None = None
    ) -> tuple[Terms, Queue]:
        """L_NCL of the views' projections P against their keys, and the queue after this step.

        Args:
            views: [2n, T, C], both views of the n samples of this replica.
            anchors: their attributes [2n].
            keys: P^m [2n, D] of this replica.
            training: whether gradients are computed, and for the encoder.
            draws: for the encoder.
        """

        def project(views: tf.Tensor) -> tf.Tensor:
            return self.projector(self.encoder(views, training=training, draws=draws))

        newest, sample, total = self.newest_keys(keys, anchors)
        queue = self.queue.prepend(newest, self.queue_size)
        own = tf.concat([sample, sample + total], axis=0)  # q_k = p^m_k for k < 2N
        other = tf.concat([sample + total, sample], axis=0)
        contrast = self.against(queue, own, other)
        if self.encoder.static_dropout.rate:  # drawn for all views together
            return contrast(project(views), anchors, contrast.own, contrast.other), queue
        samples = views, anchors, contrast.own, contrast.other
        return self.means(lambda part: contrast(project(part[0]), *part[1:]), samples, Terms, training), queue

    def newest_keys(self, keys: tf.Tensor, anchors: Attributes) -> tuple[Queue, tf.Tensor, tf.Tensor]:
        """Keys of all replicas [2N], the number of each sample of this replica [n] in the joint batch, and N."""
        newest = Queue(*_gathered((keys, anchors)))
        samples = tf.shape(keys)[0] // 2
        return newest, self._first_sample(keys[:samples]) + tf.range(samples), tf.shape(newest.keys)[0] // 2

    def against(self, queue: Queue, own: tf.Tensor, other: tf.Tensor) -> Callable[..., Terms]:
        """The objective against the keys of a queue; see `ncl_tf.objective.losses.Contrast`."""
        settings = self.neighborhood, self.alpha, self.temperature
        return self.objective(queue.keys, queue.attributes, own, other, *settings)

    def follow(self) -> None:
        """f_m <- rho f_m + (1 - rho) f_e, and likewise h_m; written so that equal weights stay equal to the last bit."""
        for trained, following in self._pairs:
            following.assign_add((1 - self.momentum) * (trained - following))

    def store(self, queue: Queue) -> None:
        """Makes `queue` the queue."""
        self.queue_keys.assign(queue.keys)
        for name, value in zip(Attributes._fields, queue.attributes, strict=True):
            getattr(self, f"queue_{name}").assign(value)

    def _first_sample(self, local: tf.Tensor) -> int | tf.Tensor:
        """Index, in the global batch, of this replica's first sample."""
        context = tf.distribute.get_replica_context()
        return 0 if context.num_replicas_in_sync == 1 else context.replica_id_in_sync_group * tf.shape(local)[0]


def _gathered(both_views: tuple[tf.Tensor, Attributes]) -> tuple[tf.Tensor, Attributes]:
    """Both views' keys and attributes [2n, ...] of every replica, as one device with the joint batch would order them."""
    context = tf.distribute.get_replica_context()
    if context.num_replicas_in_sync == 1:
        return both_views
    keys, attributes = both_views

    def gather(value: tf.Tensor) -> tf.Tensor:
        by_view = tf.reshape(value, tf.concat([[2, -1], tf.shape(value)[1:]], axis=0))
        return tf.reshape(context.all_gather(by_view, axis=1), tf.concat([[-1], tf.shape(value)[1:]], axis=0))

    return gather(keys), Attributes(*(gather(value) for value in attributes))


def _check(name: str, value: float, holds: bool, allowed: str) -> None:
    if not holds:
        raise InputError(f"{name} is {value}; allowed: {allowed}")
