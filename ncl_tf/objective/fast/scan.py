"""A pass over the keys chunk by chunk, without an anchors x keys matrix."""

from __future__ import annotations

from typing import NamedTuple

import tensorflow as tf

from ncl_tf.objective.fast.sums import Neighbors, Sums
from ncl_tf.objective.neighborhoods import Attributes, Neighborhood


class Keys(NamedTuple):
    """Keys, and which of them are views of the anchors.

    Attributes:
        vectors: q, [K, D].
        attributes: of the keys, [K].
        own: [A] int32, the anchor's own projection, which is no key of that anchor; -1: none is.
        other: [A] int32, the anchor's other view.
    """

    vectors: tf.Tensor
    attributes: Attributes
    own: tf.Tensor
    other: tf.Tensor

    @property
    def size(self) -> int | tf.Tensor:
        """The number of keys, K."""
        static = self.vectors.shape[0]
        return tf.shape(self.vectors)[0] if static is None else static

    def sorted_by_label(self) -> Keys:
        """Return the same keys sorted by label, views of anchors last."""
        views = tf.concat([tf.where(self.own < 0, self.other, self.own), self.other], axis=0)
        is_view = tf.scatter_nd(views[:, None], tf.ones_like(views), [self.size]) > 0
        order = tf.argsort(tf.where(is_view, tf.int32.max, label_of_known(self.attributes)), stable=True)
        place = tf.scatter_nd(order[:, None], tf.range(self.size), [self.size])
        return Keys(
            vectors=tf.gather(self.vectors, order),
            attributes=Attributes(*(tf.gather(attribute, order) for attribute in self.attributes)),
            own=tf.where(self.own < 0, -1, tf.gather(place, tf.maximum(self.own, 0))),
            other=tf.gather(place, self.other),
        )

    def padded(self, multiple: int) -> Keys:
        """Append start-up entries, up to a multiple of some number of keys."""
        missing = -self.size % multiple
        attributes = (tf.pad(attribute, [[0, missing]], constant_values=-1) for attribute in self.attributes)
        return self._replace(vectors=tf.pad(self.vectors, [[0, missing], [0, 0]]), attributes=Attributes(*attributes))

    def part(self, start: tf.Tensor, size: int) -> Keys:
        """Return `size` keys from `start` on; views of anchors that are not among them get an index outside of them."""
        attributes = (tf.slice(attribute, [start], [size]) for attribute in self.attributes)
        vectors = tf.slice(self.vectors, [start, 0], [size, self.vectors.shape[1]])
        return Keys(vectors, Attributes(*attributes), self.own - start, self.other - start)

    def any_view(self) -> tf.Tensor:
        """Return whether any view of an anchor is among the keys."""
        views = tf.concat([self.own, self.other], axis=0)
        return tf.reduce_any((views >= 0) & (views < self.size))


class Found(NamedTuple):
    """Sums over the keys compared so far.

    Attributes:
        negatives: sums over all keys but the anchor's own projection and its other view.
        neighbors: N(i).
    """

    negatives: Sums
    neighbors: Neighbors


class Scan(NamedTuple):
    """A pass over keys.

    Attributes:
        projections: p / tau, [A, D].
        anchors: attributes of the anchors, [A].
        neighborhood: n(x_i, x_k); None: all neighbors are known before the pass.
        by_label: whether it is n_Y and the keys are sorted by label: sums over neighbors of keys with one label cost nothing.
    """

    projections: tf.Tensor
    anchors: Attributes
    neighborhood: Neighborhood | None = None
    by_label: bool = False

    def __call__(self, keys: Keys, known: Neighbors, chunk: int) -> Found:
        """Sum over all keys, `chunk` at a time, adding to the neighbors already known (at least the other views)."""
        size = keys.size
        chunk = min(chunk, size) if isinstance(size, int) else chunk
        padded = keys.padded(chunk)

        def compare(start: tf.Tensor, found: Found) -> tuple[tf.Tensor, Found]:
            part = padded.part(start, chunk)
            inside = start + tf.range(chunk) < size
            return start + chunk, self._compare(part, inside, found)

        zero = tf.zeros_like(self.projections[:, 0])
        nothing = Sums(tf.fill(tf.shape(zero), zero.dtype.min), zero, tf.zeros_like(self.projections))
        return tf.while_loop(lambda start, _: start < size, compare, (0, Found(nothing, known)))[1]

    def _compare(self, keys: Keys, inside: tf.Tensor, found: Found) -> Found:
        """Add one chunk of keys; `inside` [C] is false for padding."""
        scores = tf.matmul(self.projections, keys.vectors, transpose_b=True)
        if self.neighborhood is not None and not self.by_label:
            return self._carefully(scores, keys, inside, found)
        special = keys.any_view() | ~inside[-1]
        member = None
        if self.by_label:
            known, member = shared_label(self.anchors, keys.attributes)
            special |= ~known
        return tf.cond(
            special,
            lambda: self._carefully(scores, keys, inside, found),
            lambda: self._quickly(scores, keys, member, found),
        )

    def _quickly(self, scores: tf.Tensor, keys: Keys, member: tf.Tensor | None, found: Found) -> Found:
        """Add keys without views of anchors among them, of which an anchor has all or none as neighbors."""
        sums = Sums.of(scores, keys.vectors)
        neighbors = found.neighbors
        if member is not None:
            weight = tf.cast(member, scores.dtype)
            key_sum = weight[:, None] * tf.reduce_sum(keys.vectors, axis=0)
            neighbors += Neighbors(sums.of_anchors(member), weight * keys.size, key_sum)
        return Found(found.negatives + sums, neighbors)

    def _carefully(self, scores: tf.Tensor, keys: Keys, inside: tf.Tensor, found: Found) -> Found:
        """Add any keys, with a decision for every pair of anchor and key."""
        is_view = (keys.own[:, None] == tf.range(keys.size)) | (keys.other[:, None] == tf.range(keys.size))
        scores = tf.where(is_view | ~inside, float("-inf"), scores)
        neighbors = found.neighbors
        if self.neighborhood is not None:
            members = tf.cast(self.neighborhood(self.anchors, keys.attributes), scores.dtype)
            members = tf.where(is_view | (keys.attributes.stay < 0), 0.0, members)
            neighbors += Neighbors.of(scores, keys.vectors, members)
        return Found(found.negatives + Sums.of(scores, keys.vectors), neighbors)


def label_of_known(attributes: Attributes) -> tf.Tensor:
    """Return the labels, -1 for unlabelled samples and for start-up entries."""
    return tf.where(attributes.stay >= 0, tf.maximum(attributes.label, -1), -1)


def shared_label(anchors: Attributes, keys: Attributes) -> tuple[tf.Tensor, tf.Tensor]:
    """Return whether all keys [C] have one label and, if so, which anchors have it, too: [A] bool."""
    labels = label_of_known(keys)
    return tf.reduce_all(labels == labels[0]), (anchors.label == labels[0]) & (labels[0] >= 0)
