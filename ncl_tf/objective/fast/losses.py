"""The neighbourhood contrastive objective, equal to `ncl_tf.objective.losses` without its anchors x keys matrices.

Keys carry no gradient, so one pass over the keys gives value and gradient. With Z_i = sum_{k != i} exp(s_ik),

    d log Z_i / d p_i = sum_{k != i} exp(s_ik) q_k / (Z_i tau),

and the mean score of the neighbours is linear in the keys: it needs only the neighbours' mean key. Memory grows with the
chunk of keys that is looked at, not with their number.
"""

from __future__ import annotations

from typing import NamedTuple

import tensorflow as tf

from ncl_tf.errors import InputError
from ncl_tf.objective.fast.join import Sorted, StayJoin
from ncl_tf.objective.fast.scan import Found, Keys, Scan, shared_label
from ncl_tf.objective.fast.sums import Neighbors
from ncl_tf.objective.losses import Terms, check_settings
from ncl_tf.objective.neighborhoods import Attributes, Neighborhood, SameLabel

# Adding up an anchor's neighbours one by one takes as long as comparing it with about this many keys for each.
KEYS_PER_JOINED = 128


def neighborhood_contrastive_loss(
    projections: tf.Tensor,
    attributes: Attributes,
    keys: tf.Tensor,
    key_attributes: Attributes,
    own: tf.Tensor,
    other: tf.Tensor,
    neighborhood: Neighborhood,
    alpha: float,
    temperature: float,
    chunk: int = 2048,
) -> Terms:
    """L_NCL = alpha L_NA + (1 - alpha) L_ND, averaged over the anchors: see `ncl_tf.objective.losses`.

    With scores s_ik = p_i . q_k / tau and memberships m_ik, for anchor i, whose other view is v(i):

        L_NA(i) = log sum_{k != i} exp(s_ik)  -  p_i . (sum_k m_ik q_k / sum_k m_ik) / tau
        L_ND(i) = log sum_k m_ik exp(s_ik)    -  s_i,v(i)

    Arguments are those of the readable form; `chunk` is how many keys to look at together.
    """
    contrast = Contrast(keys, key_attributes, own, other, neighborhood, alpha, temperature, chunk)
    return contrast(projections, attributes, contrast.own, contrast.other)


class Contrast:
    """L_NCL against given keys, which are sorted once; then for all anchors together or for some of them at a time.

    The arguments are those of `ncl_tf.objective.losses.Contrast`.

    Attributes:
        own, other: [A] of all anchors, as the sorted keys are numbered; slice them like the anchors.
    """

    def __init__(
        self,
        keys: tf.Tensor,
        key_attributes: Attributes,
        own: tf.Tensor,
        other: tf.Tensor,
        neighborhood: Neighborhood,
        alpha: float,
        temperature: float,
        chunk: int = 2048,
    ) -> None:
        check_settings(alpha, temperature)
        if not chunk >= 1:
            raise InputError(f"chunk must be 1 key or more, got {chunk}")
        self.alpha, self.temperature = alpha, temperature
        self._search = Search.of(Keys(tf.stop_gradient(keys), key_attributes, own, other), neighborhood, chunk)
        self.own, self.other = self._search.keys.own, self._search.keys.other

    def __call__(self, projections: tf.Tensor, attributes: Attributes, own: tf.Tensor, other: tf.Tensor) -> Terms:
        """The objective of some anchors."""
        search = self._search._replace(keys=self._search.keys._replace(own=own, other=other))
        return _terms(projections, attributes, search, self.alpha, self.temperature)


def _terms(projections: tf.Tensor, attributes: Attributes, search: Search, alpha: float, temperature: float) -> Terms:
    """The objective of some anchors."""

    @tf.custom_gradient
    def terms(projections: tf.Tensor):
        # The gradient is written by hand: without this, persistent tapes would also derive every chunk's.
        scaled = tf.stop_gradient(projections) / temperature
        positives = tf.gather(search.keys.vectors, search.keys.other)
        score = tf.reduce_sum(scaled * positives, axis=1)
        other_view = Neighbors.one(score, positives, tf.ones_like(score, tf.bool))
        negatives, neighbors = search(scaled, attributes, other_view)
        everything = negatives + other_view.sums
        alignment = everything.log - tf.reduce_sum(scaled * neighbors.mean_key, axis=1)
        discrimination = neighbors.sums.log - score

        def gradient(of_alignment: tf.Tensor, of_discrimination: tf.Tensor, _: tf.Tensor) -> tf.Tensor:
            by_alignment = everything.mean_key - neighbors.mean_key
            by_discrimination = neighbors.sums.mean_key - positives
            anchors = tf.cast(tf.shape(projections)[0], projections.dtype)
            return (of_alignment * by_alignment + of_discrimination * by_discrimination) / (anchors * temperature)

        accuracy = tf.reduce_mean(tf.cast(score > negatives.peak, projections.dtype))
        return (tf.reduce_mean(alignment), tf.reduce_mean(discrimination), accuracy), gradient

    alignment, discrimination, accuracy = terms(projections)
    return Terms(alpha * alignment + (1 - alpha) * discrimination, alignment, discrimination, accuracy)


class Search(NamedTuple):
    """How to find all sums that the objective needs, the cheapest way that the neighbourhood allows.

    Attributes:
        keys: in an order that suits the neighbourhood.
        neighborhood: n(x_i, x_k).
        chunk: how many keys to look at together.
        join: how neighbours are found without comparing every anchor with every key; None: it can't be done.
        sorted: the keys as the join needs them.
    """

    keys: Keys
    neighborhood: Neighborhood
    chunk: int
    join: StayJoin | None = None
    sorted: Sorted | None = None

    @classmethod
    def of(cls, keys: Keys, neighborhood: Neighborhood, chunk: int) -> Search:
        """Sorts the keys, once for all anchors."""
        join = StayJoin.of(neighborhood)
        if join is not None:
            return cls(keys, neighborhood, chunk, join, Sorted.of(keys.attributes))
        return cls(keys.sorted_by_label() if type(neighborhood) is SameLabel else keys, neighborhood, chunk)

    def __call__(self, scaled: tf.Tensor, anchors: Attributes, other_view: Neighbors) -> Found:
        """Searches for the neighbours of some anchors.

        Args:
            scaled: p / tau, [A, D].
            anchors: their attributes, [A].
            other_view: the neighbour that every anchor has.
        """
        if self.join is not None:
            ranges = self.join.ranges(anchors, self.sorted)
            return tf.cond(
                ranges.longest * KEYS_PER_JOINED <= self.keys.size,
                lambda: Scan(scaled, anchors)(
                    self.keys, other_view + self.join.neighbors(ranges, scaled, anchors, self.keys), self.chunk
                ),
                lambda: Scan(scaled, anchors, self.neighborhood)(self.keys, other_view, self.chunk),
            )
        shared = shared_label if type(self.neighborhood) is SameLabel else None
        return Scan(scaled, anchors, self.neighborhood, shared)(self.keys, other_view, self.chunk)
