"""Neighbors found by a join on the stay instead of comparing every anchor with every key."""

from __future__ import annotations

import math
from typing import NamedTuple

import tensorflow as tf

from ncl_tf.objective.fast.scan import Keys
from ncl_tf.objective.fast.sums import Neighbors
from ncl_tf.objective.neighborhoods import Attributes, Intersection, Neighborhood, SameLabel, SameStayWithin


class StayJoin(NamedTuple):
    """A neighborhood that a join can find: the same stay, at most `reach` hours apart, optionally with the same label."""

    reach: int
    same_label: bool

    @classmethod
    def of(cls, neighborhood: Neighborhood) -> StayJoin | None:
        """Return the join for n_w, or for an intersection of n_w and n_Y; None for any other neighborhood.

        A subclass counts as another neighborhood, since it may have redefined the membership.
        """
        parts = neighborhood.neighborhoods if type(neighborhood) is Intersection else (neighborhood,)
        windows = [part for part in parts if type(part) is SameStayWithin]
        labels = [part for part in parts if type(part) is SameLabel]
        if not windows or len(windows) + len(labels) < len(parts):
            return None
        return cls(min(_reach(window) for window in windows), bool(labels))

    def ranges(self, anchors: Attributes, keys: Sorted) -> Ranges:
        """Find every anchor's neighbors among the sorted keys."""
        hour = tf.cast(anchors.hour, tf.int64)
        earliest = _place(anchors.stay, tf.maximum(hour - self.reach, tf.int32.min))
        latest = _place(anchors.stay, tf.minimum(hour + self.reach, tf.int32.max))
        return Ranges(keys.order, _count_below(keys.places, earliest), _count_below(keys.places, latest + 1))

    def neighbors(
        self,
        ranges: Ranges,
        projections: tf.Tensor,
        anchors: Attributes,
        keys: Keys,
    ) -> Neighbors:
        """Sum over all neighbors except the own other view: one key per anchor at a time, up to the longest range.

        Args:
            ranges: of `self.ranges`.
            projections: p / tau, [A, D].
            anchors: attributes of the anchors, [A].
            keys: the keys.
        """

        def add_next(step: tf.Tensor, found: Neighbors) -> tuple[tf.Tensor, Neighbors]:
            place = ranges.first + step
            index = tf.gather(ranges.order, tf.minimum(place, tf.size(ranges.order) - 1))
            member = (place < ranges.end) & (index != keys.own) & (index != keys.other)
            member &= tf.gather(keys.attributes.stay, index) >= 0
            if self.same_label:
                member &= (anchors.label == tf.gather(keys.attributes.label, index)) & (anchors.label >= 0)
            key = tf.gather(keys.vectors, index)
            return step + 1, found + Neighbors.one(tf.reduce_sum(projections * key, axis=1), key, member)

        score = tf.zeros_like(projections[:, 0])
        nobody = Neighbors.one(score, tf.zeros_like(projections), tf.zeros_like(score, tf.bool))
        return tf.while_loop(lambda step, _: step < ranges.longest, add_next, (0, nobody))[1]


class Sorted(NamedTuple):
    """Keys sorted by stay and hour.

    Attributes:
        order: [K] int32, the keys' indices, sorted.
        places: [K] int64, what they are sorted by.
    """

    order: tf.Tensor
    places: tf.Tensor

    @classmethod
    def of(cls, keys: Attributes) -> Sorted:
        """Sort keys with these attributes [K]."""
        places = _place(keys.stay, keys.hour)
        order = tf.argsort(places, stable=True)
        return cls(order, tf.gather(places, order))


class Ranges(NamedTuple):
    """Ranges of the anchors' neighbors among the keys sorted by stay and hour.

    Attributes:
        order: [K] int32, the keys' indices, sorted.
        first: [A] int32, the first neighbor's place in `order`.
        end: [A] int32, the place after the last one's.
    """

    order: tf.Tensor
    first: tf.Tensor
    end: tf.Tensor

    @property
    def longest(self) -> tf.Tensor:
        """The length of the longest range."""
        return tf.reduce_max(self.end - self.first)


def _reach(window: SameStayWithin) -> int:
    """Return the largest whole number of hours within the window; -1 if there is none."""
    if window.window is None or window.window > tf.int32.max:
        return tf.int32.max
    return math.floor(window.window) if window.inclusive else math.ceil(window.window) - 1


def _place(stay: tf.Tensor, hour: tf.Tensor) -> tf.Tensor:
    """Return a number that sorts by stay, then by hour: int64."""
    return tf.cast(stay, tf.int64) * 2**32 + (tf.cast(hour, tf.int64) - tf.int32.min)


def _count_below(places: tf.Tensor, bounds: tf.Tensor) -> tf.Tensor:
    """Count the sorted `places` [K] below each bound by bisection: [A] -> [A] int32.

    (Compiled by XLA, `tf.searchsorted` compares every bound with every place.)
    """
    size = tf.size(places)
    count = tf.zeros_like(bounds, tf.int32)
    for bit in reversed(range((places.shape[0] or 2**31 - 1).bit_length())):
        further = count + 2**bit
        below = (further <= size) & (tf.gather(places, tf.minimum(further, size) - 1) < bounds)
        count = tf.where(below, further, count)
    return count
