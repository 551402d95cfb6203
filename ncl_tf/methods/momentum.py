"""Momentum contrast with neighbourhoods: every contrastive method of the paper is a setting of this model."""

from collections.abc import Callable, Sequence
from typing import NamedTuple

import keras
import tensorflow as tf

from ncl_tf.augmentations import Augmentation, Draws
from ncl_tf.data.cohort import SplitData
from ncl_tf.data.windows import HISTORY, Batch
from ncl_tf.encoders import Encoder, Projector
from ncl_tf.errors import InputError
from ncl_tf.losses import Terms
from ncl_tf.neighborhoods import Attributes, Neighborhood

Objective = Callable[..., Terms]  # ncl_tf.losses.neighborhood_contrastive_loss, or its fast form


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


class MomentumContrast(keras.Model):
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
        authors_keys: an anchor's keys are the N projections of the other view and then the whole queue, of which view 1
            replaces N entries; in the paper, they are the queue after both views replaced 2N.
        independent_start: f_m and h_m start from weights of their own, as in the authors' code, not as copies.
    """

    window_hours = HISTORY

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
        authors_keys: bool = False,
        independent_start: bool = False,
        name: str = "momentum_contrast",
    ) -> None:
        super().__init__(name=name)
        _check("alpha", alpha, 0 <= alpha <= 1, "0 to 1")
        _check("temperature", temperature, temperature > 0, "above 0")
        _check("momentum", momentum, 0 <= momentum < 1, "0 to 1, without 1")
        _check("queue_size", queue_size, queue_size > 0, "above 0")
        self.encoder, self.projector = encoder, projector
        self.momentum_encoder, self.momentum_projector = momentum_encoder, momentum_projector
        self.augmentation = augmentation
        self.objective, self.neighborhood = objective, neighborhood
        self.alpha, self.temperature, self.momentum = alpha, temperature, momentum
        self.queue_size, self.task, self.seed = queue_size, task, seed
        self.authors_keys, self.independent_start = authors_keys, independent_start
        self.freeze_projector = freeze_projector
        self.terms = {name: keras.metrics.Mean(name=name) for name in Terms._fields}

    def build(self, input_shape: tuple[int | None, ...]) -> None:
        """Creates all variables for windows of shape [batch, hours, columns].

        The first step does it, unless it is done before; under a distribution strategy it has to be, within its scope.
        """
        if isinstance(input_shape, dict):
            raise InputError(
                f"{self.name}: cannot be built from a whole batch; call build((None, hours, columns)), under a "
                "distribution strategy within its scope, before fit"
            )
        representation = (None, self.encoder.merge.units)
        for encoder, projector in self._networks:
            encoder.build(input_shape)
            projector.build(representation)
        self.projector.trainable = not self.freeze_projector
        self.momentum_encoder.trainable = self.momentum_projector.trainable = False
        if not self.independent_start:
            for trained, following in self._pairs:
                following.assign(trained)
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

    def sample_rows(self, split: SplitData) -> None:
        """Every hour is a sample, labelled or not."""

    @property
    def metrics(self) -> list[keras.metrics.Metric]:
        """Means of the objective's terms; Keras resets them at the start of each epoch."""
        return list(self.terms.values())

    @property
    def queue(self) -> Queue:
        """The queue as it is."""
        attributes = (tf.convert_to_tensor(getattr(self, f"queue_{name}")) for name in Attributes._fields)
        return Queue(tf.convert_to_tensor(self.queue_keys), Attributes(*attributes))

    def call(self, inputs: tf.Tensor | Batch) -> tf.Tensor:
        """Representations by the trained encoder, of windows [B, T, C] or of a batch that holds them: -> [B, size]."""
        return self.encoder(inputs["window"] if isinstance(inputs, dict) else inputs)

    def train_step(self, batch: Batch) -> dict[str, tf.Tensor]:
        """One step of section 3: two views, momentum projections, the objective, and both encoders move."""
        views, anchors, draws = self.two_views(batch, self.optimizer.iterations)
        keys = self.momentum_projector(self.momentum_encoder(views, training=True, draws=draws.stream(1)))
        with tf.GradientTape() as tape:
            terms, queue = self.contrast(views, anchors, keys, training=True, draws=draws.stream(2))
            loss = terms.loss / tf.distribute.get_strategy().num_replicas_in_sync  # Keras sums gradients over replicas
        weights = self.trainable_variables
        self.optimizer.apply_gradients(zip(tape.gradient(loss, weights), weights, strict=True))
        self.follow()
        self.store(queue)
        return self.report(terms)

    def test_step(self, batch: Batch) -> dict[str, tf.Tensor]:
        """The objective on other data against the queue as it is; nothing changes."""
        views, anchors, _ = self.two_views(batch, step=-1)
        keys = self.momentum_projector(self.momentum_encoder(views))
        terms, _ = self.contrast(views, anchors, keys)
        return self.report(terms)

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
            training: whether it will be derived, and for the encoder.
            draws: for the encoder.
        """

        def project(views: tf.Tensor) -> tf.Tensor:
            return self.projector(self.encoder(views, training=training, draws=draws))

        samples = tf.shape(views)[0] // 2
        newest = Queue(*_gathered((keys, anchors)))
        total = tf.shape(newest.keys)[0] // 2
        sample = self._first_sample(views[:samples]) + tf.range(samples)
        if self.authors_keys:
            return self._contrast_with_other_view(project(views), anchors, newest, sample)
        queue = self.queue.prepend(newest, self.queue_size)
        own = tf.concat([sample, sample + total], axis=0)  # q_k = p^m_k for k < 2N
        other = tf.concat([sample + total, sample], axis=0)
        if self.encoder.static_dropout.rate:  # drawn for all views together
            return self._objective(project(views), anchors, queue, own, other), queue
        weights = self.trainable_variables if training else ()  # what is not derived costs nothing
        return self._objective(views, anchors, queue, own, other, project, weights), queue

    def _contrast_with_other_view(
        self, projections: tf.Tensor, anchors: Attributes, newest: Queue, sample: tf.Tensor
    ) -> tuple[Terms, Queue]:
        """The authors' keys: per view, the N momentum projections of the other one before the whole queue."""
        halves = [_half(part, newest) for part in range(2)]
        local = [_half(part, Queue(projections, anchors)) for part in range(2)]
        terms = [
            self._objective(
                *local[view],
                self.queue.prepend(halves[1 - view], self.queue_size + tf.shape(halves[0].keys)[0]),
                own=tf.fill(tf.shape(sample), -1),
                other=sample,
            )
            for view in range(2)
        ]
        mean = Terms(*((first + second) / 2 for first, second in zip(*terms, strict=True)))
        return mean, self.queue.prepend(halves[0], self.queue_size)

    def _objective(
        self,
        samples: tf.Tensor,
        anchors: Attributes,
        queue: Queue,
        own: tf.Tensor,
        other: tf.Tensor,
        project: Callable[[tf.Tensor], tf.Tensor] | None = None,
        variables: Sequence[keras.Variable] = (),
    ) -> Terms:
        return self.objective(
            samples,
            anchors,
            queue.keys,
            queue.attributes,
            own,
            other,
            self.neighborhood,
            self.alpha,
            self.temperature,
            project,
            variables,
        )

    def follow(self) -> None:
        """f_m <- rho f_m + (1 - rho) f_e, and likewise h_m; written so that equal weights stay equal to the last bit."""
        for trained, following in self._pairs:
            following.assign_add((1 - self.momentum) * (trained - following))

    def store(self, queue: Queue) -> None:
        """Makes `queue` the queue."""
        self.queue_keys.assign(queue.keys)
        for name, value in zip(Attributes._fields, queue.attributes, strict=True):
            getattr(self, f"queue_{name}").assign(value)

    def report(self, terms: Terms) -> dict[str, tf.Tensor]:
        """Takes the terms into the running means and returns these."""
        for name, value in zip(Terms._fields, terms, strict=True):
            self.terms[name].update_state(value)
        return {name: metric.result() for name, metric in self.terms.items()}

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


def _half(part: int, both_views: Queue) -> Queue:
    """One view's half."""
    samples = tf.shape(both_views.keys)[0] // 2
    keys, *attributes = (
        value[part * samples : (part + 1) * samples] for value in (both_views.keys, *both_views.attributes)
    )
    return Queue(keys, Attributes(*attributes))


def _check(name: str, value: float, holds: bool, allowed: str) -> None:
    if not holds:
        raise InputError(f"{name} is {value}; allowed: {allowed}")
