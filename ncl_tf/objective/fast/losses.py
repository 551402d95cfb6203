"""The neighborhood contrastive objective in its fast form: equal to the readable one, without anchors x keys matrices.

Keys carry no gradient, so one pass over the keys gives value and gradient. With Z_i = sum_{k != i} exp(s_ik),

    d log Z_i / d p_i = sum_{k != i} exp(s_ik) q_k / (Z_i tau),

and the mean score of the neighbors is linear in the keys: it needs only the neighbors' mean key. Memory grows with the
chunk of keys that is compared at a time, not with their number.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

import tensorflow as tf

from ncl_tf.errors import InputError
from ncl_tf.objective.fast.join import StayJoin
from ncl_tf.objective.fast.scan import Found, Keys, Scan
from ncl_tf.objective.fast.sums import Neighbors
from ncl_tf.objective.losses import Anchors, Objective, Terms
from ncl_tf.objective.neighborhoods import Attributes, Neighborhood, SameLabel

# Adding up an anchor's neighbors one by one takes as long as comparing it with about this many keys for each.
KEYS_PER_JOINED = 128


@dataclass(frozen=True)
class FastObjective(Objective):
    """L_NCL by one pass over the keys, equal to `ncl_tf.objective.losses.Objective`.

    With scores s_ik = p_i . q_k / tau and memberships m_ik, for anchor i, whose other view is v(i):

        L_NA(i) = log sum_{k != i} exp(s_ik)  -  p_i . (sum_k m_ik q_k / sum_k m_ik) / tau
        L_ND(i) = log sum_k m_ik exp(s_ik)    -  s_i,v(i)

    Attributes:
        chunk: how many keys are compared with the anchors at a time.
    """

    chunk: int = 2048

    def __post_init__(self) -> None:
        super().__post_init__()
        if not self.chunk >= 1:
            raise InputError(f"chunk must be 1 key or more, got {self.chunk}")

    def against(self, keys: tf.Tensor, key_attributes: Attributes, anchors: Anchors) -> FastContrast:
        """Sort the keys, once for all anchors; arguments as of the readable form."""
        numbered = Keys(tf.stop_gradient(keys), key_attributes, anchors.own, anchors.other)
        search = Search.of(numbered, self.neighborhood, self.chunk)
        anchors = anchors._replace(own=search.keys.own, other=search.keys.other)
        return FastContrast(self, search, anchors)


class FastContrast(NamedTuple):
    """The objective against sorted keys, for any part of its anchors.

    Attributes:
        anchors: all anchors, with `own` and `other` as the sorted keys are numbered; slice them like their projections.
    """

    objective: FastObjective
    search: Search
    anchors: Anchors

    def __call__(self, projections: tf.Tensor, anchors: Anchors) -> Terms:
        """Evaluate the objective for some of the anchors, whose projections p [A, D] are unit vectors."""
        alpha, temperature = self.objective.alpha, self.objective.temperature
        search = self.search._replace(keys=self.search.keys._replace(own=anchors.own, other=anchors.other))

        @tf.custom_gradient
        def terms(projections: tf.Tensor):
            # The gradient is written by hand: without this, persistent tapes would also differentiate every chunk.
            scaled = tf.stop_gradient(projections) / temperature
            positives = tf.gather(search.keys.vectors, anchors.other)
            score = tf.reduce_sum(scaled * positives, axis=1)
            other_view = Neighbors.one(score, positives, tf.ones_like(score, tf.bool))
            negatives, neighbors = search(scaled, anchors.attributes, other_view)
            everything = negatives + other_view.sums
            alignment = everything.log - tf.reduce_sum(scaled * neighbors.mean_key, axis=1)
            discrimination = neighbors.sums.log - score

            def gradient(of_alignment: tf.Tensor, of_discrimination: tf.Tensor, _: tf.Tensor) -> tf.Tensor:
                by_alignment = everything.mean_key - neighbors.mean_key
                by_discrimination = neighbors.sums.mean_key - positives
                count = tf.cast(tf.shape(projections)[0], projections.dtype)
                return (of_alignment * by_alignment + of_discrimination * by_discrimination) / (count * temperature)

            accuracy = tf.reduce_mean(tf.cast(score > negatives.peak, projections.dtype))
            return (tf.reduce_mean(alignment), tf.reduce_mean(discrimination), accuracy), gradient

        alignment, discrimination, accuracy = terms(projections)
        return Terms(alpha * alignment + (1 - alpha) * discrimination, alignment, discrimination, accuracy)


class Search(NamedTuple):
    """Finds all sums that the objective needs in the cheapest way that the neighborhood allows.

    Attributes:
        keys: in an order that suits the neighborhood.
        neighborhood: n(x_i, x_k).
        chunk: how many keys are compared with the anchors at a time.
        join: finds neighbors without comparing every anchor with every key; None if the neighborhood has no such form.
    """

    keys: Keys
    neighborhood: Neighborhood
    chunk: int
    join: StayJoin | None

    @classmethod
    def of(cls, keys: Keys, neighborhood: Neighborhood, chunk: int) -> Search:
        """Sort the keys as the neighborhood needs them, once for all anchors."""
        join = StayJoin.of(neighborhood, keys.attributes)
        return cls(keys.sorted_by_label() if type(neighborhood) is SameLabel else keys, neighborhood, chunk, join)

    def __call__(self, scaled: tf.Tensor, anchors: Attributes, other_view: Neighbors) -> Found:
        """Sum over all keys and over the neighbors of some anchors, p / tau [A, D]; each has its other view as a neighbor."""
        if self.join is not None:
            first, end = self.join.ranges(anchors)
            return tf.cond(
                tf.reduce_max(end - first) * KEYS_PER_JOINED <= self.keys.size,
                lambda: Scan(scaled, anchors)(
                    self.keys, other_view + self.join.neighbors(first, end, scaled, anchors, self.keys), self.chunk
                ),
                lambda: Scan(scaled, anchors, self.neighborhood)(self.keys, other_view, self.chunk),
            )
        by_label = type(self.neighborhood) is SameLabel
        return Scan(scaled, anchors, self.neighborhood, by_label)(self.keys, other_view, self.chunk)
