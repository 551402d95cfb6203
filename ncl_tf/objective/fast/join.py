"""Neighbors found by a join on the stay instead of comparing every anchor with every key."""

from __future__ import annotations

import math
from typing import NamedTuple

import tensorflow as tf

from ncl_tf.objective.fast.scan import Keys
from ncl_tf.objective.fast.sums import Neighbors
from ncl_tf.objective.neighborhoods import Attributes, Intersection, Neighborhood, SameLabel, SameStayWithin


class StayJoin(NamedTuple):
    """Finds neighbors of the same stay, at most `reach` hours apart, optionally with the same label, among sorted keys.

    Attributes:
        order: [K] int32, the keys' indices, sorted by stay and hour.
        places: [K] int64, what they are sorted by.
    """

    reach: int
    same_label: bool
    order: tf.Tensor
    places: tf.Tensor

    @classmethod
    def of(cls, neighborhood: Neighborhood, keys: Attributes) -> StayJoin | None:
        """Sort keys [K] for n_w, or for an intersection of n_w and n_Y; None for any other neighborhood.

        A subclass counts as another neighborhood, since it may have redefined the membership.
        """
        parts = neighborhood.neighborhoods if type(neighborhood) is Intersection else (neighborhood,)
        windows = [part for part in parts if type(part) is SameStayWithin]
        labels = [part for part in parts if type(part) is SameLabel]
        if not windows or len(windows) + len(labels) < len(parts):
            return None
        places = _place(keys.stay, keys.hour)
        order = tf.argsort(places, stable=True)
        return cls(min(map(_reach, windows)), bool(labels), order, tf.gather(places, order))

    def ranges(self, anchors: Attributes) -> tuple[tf.Tensor, tf.Tensor]:
        """Find every anchor's neighbors in `order`: the place of the first one and that after the last one, [A] int32 each."""
        hour = tf.cast(anchors.hour, tf.int64)
        earliest = _place(anchors.stay, tf.maximum(hour - self.reach, tf.int32.min))
        latest = _place(anchors.stay, tf.minimum(hour + self.reach, tf.int32.max))
        return _count_below(self.places, earliest), _count_below(self.places, latest + 1)

    def neighbors(
        self, first: tf.Tensor, end: tf.Tensor, projections: tf.Tensor, anchors: Attributes, keys: Keys
    ) -> Neighbors:
        """Sum over all neighbors except the own other view: one key per anchor at a time, up to the longest range.

        `first` and `end` are those of `ranges`; the projections [A, D] are p / tau.
        """

        def add_next(step: tf.Tensor, found: Neighbors) -> tuple[tf.Tensor, Neighbors]:
            place = first + step
            index = tf.gather(self.order, tf.minimum(place, tf.size(self.order) - 1))
            member = (place < end) & (index != keys.own) & (index != keys.other)
            member &= tf.gather(keys.attributes.stay, index) >= 0
            if self.same_label:
                member &= (anchors.label == tf.gather(keys.attributes.label, index)) & (anchors.label >= 0)
            key = tf.gather(keys.vectors, index)
            return step + 1, found + Neighbors.one(tf.reduce_sum(projections * key, axis=1), key, member)

        score, longest = tf.zeros_like(projections[:, 0]), tf.reduce_max(end - first)
        nobody = Neighbors.one(score, tf.zeros_like(projections), tf.zeros_like(score, tf.bool))
        return tf.while_loop(lambda step, _: step < longest, add_next, (0, nobody))[1]


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
