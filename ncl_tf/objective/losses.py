"""The neighborhood contrastive objective (section 3 of the paper) in its readable form.

The fast form, `ncl_tf.objective.fast.losses`, is tested to be equal to this one.
"""

from dataclasses import dataclass
from typing import NamedTuple

import tensorflow as tf

from ncl_tf.errors import InputError
from ncl_tf.objective.neighborhoods import Attributes, Neighborhood


class Terms(NamedTuple):
    """The objective and its parts, each a scalar: the mean over the anchors.

    Attributes:
        loss: L_NCL = alpha L_NA + (1 - alpha) L_ND.
        alignment: L_NA.
        discrimination: L_ND.
        accuracy: fraction of anchors that score their own other view higher than every other key.
    """

    loss: tf.Tensor
    alignment: tf.Tensor
    discrimination: tf.Tensor
    accuracy: tf.Tensor


class Anchors(NamedTuple):
    """What the objective knows of A anchors beside their projections.

    Attributes:
        attributes: of the anchors, [A].
        own: [A] int32, index of the anchor's own momentum projection, which is not a key of that anchor; -1 if the keys
            do not contain it.
        other: [A] int32, index of the key that is the momentum projection of the anchor's other view: the positive.
    """

    attributes: Attributes
    own: tf.Tensor
    other: tf.Tensor


@dataclass(frozen=True)
class Objective:
    """L_NCL = alpha L_NA + (1 - alpha) L_ND, averaged over the anchors.

    With scores s_ik = p_i . q_k / tau and memberships m_ik = n(x_i, x_k), for anchor i, whose other view is v(i):

        L_NA(i) = log sum_{k != i} exp(s_ik)  -  sum_k m_ik s_ik / sum_k m_ik
        L_ND(i) = log sum_k m_ik exp(s_ik)    -  s_i,v(i)

    For memberships of 0 and 1 these are the paper's sums over the neighborhood N(i).

    Attributes:
        neighborhood: n(x_i, x_k).
        alpha: weight of the alignment, in [0, 1].
        temperature: tau > 0.
    """

    neighborhood: Neighborhood
    alpha: float
    temperature: float

    def __post_init__(self) -> None:
        if not 0 <= self.alpha <= 1:
            raise InputError(f"alpha must be 0 to 1, got {self.alpha}")
        if not self.temperature > 0:
            raise InputError(f"temperature must be above 0, got {self.temperature}")

    def against(self, keys: tf.Tensor, key_attributes: Attributes, anchors: Anchors) -> "Contrast":
        """Prepare the objective of the anchors against these keys.

        Args:
            keys: q, [K, D] unit vectors; no gradient flows into them.
            key_attributes: of the keys, [K]. Start-up entries of the queue (stay -1) are negatives like any other key.
            anchors: all anchors.
        """
        return Contrast(self, tf.stop_gradient(keys), key_attributes, anchors)


class Contrast(NamedTuple):
    """The objective against given keys q [K, D], for any part of its anchors; slice `anchors` like their projections."""

    objective: Objective
    keys: tf.Tensor
    key_attributes: Attributes
    anchors: Anchors

    def __call__(self, projections: tf.Tensor, anchors: Anchors) -> Terms:
        """Evaluate the objective for some of the anchors, whose projections p [A, D] are unit vectors."""
        alpha, temperature = self.objective.alpha, self.objective.temperature
        members = membership(self.objective.neighborhood, anchors, self.key_attributes, projections.dtype)
        scores = tf.matmul(projections, self.keys, transpose_b=True) / temperature
        is_own, is_other = (_is_key(index, tf.shape(self.keys)[0]) for index in (anchors.own, anchors.other))
        scores_without_own = tf.where(is_own, _minus_infinity(scores), scores)

        alignment = tf.reduce_mean(_neighbors_alignment(scores, scores_without_own, members))
        discrimination = tf.reduce_mean(_neighbors_discrimination(scores, members, anchors.other))
        rivals = tf.where(is_other, _minus_infinity(scores), scores_without_own)
        correct = tf.gather(scores, anchors.other, batch_dims=1) > tf.reduce_max(rivals, axis=1)
        return Terms(
            loss=alpha * alignment + (1 - alpha) * discrimination,
            alignment=alignment,
            discrimination=discrimination,
            accuracy=tf.reduce_mean(tf.cast(correct, scores.dtype)),
        )


def membership(
    neighborhood: Neighborhood, anchors: Anchors, keys: Attributes, dtype: tf.DType = tf.float32
) -> tf.Tensor:
    """Return how much key k belongs to N(i): m_ik, [A, K] in [0, 1].

    Whatever the neighborhood returns, an anchor's own projection and the start-up entries of the queue are never in
    N(i), and its own other view always is.
    """
    members = tf.cast(neighborhood(anchors.attributes, keys), dtype)
    size = tf.size(keys.stay)
    never = (keys.stay < 0)[None, :] | _is_key(anchors.own, size)
    members = tf.where(never, tf.zeros((), dtype), members)
    return tf.where(_is_key(anchors.other, size), tf.ones((), dtype), members)


def _neighbors_alignment(scores: tf.Tensor, scores_without_own: tf.Tensor, members: tf.Tensor) -> tf.Tensor:
    """L_NA(i) = log sum_{k != i} exp(s_ik) - sum_k m_ik s_ik / sum_k m_ik: [A, K] each -> [A]."""
    mean_score = tf.reduce_sum(members * scores, axis=1) / tf.reduce_sum(members, axis=1)
    return tf.reduce_logsumexp(scores_without_own, axis=1) - mean_score


def _neighbors_discrimination(scores: tf.Tensor, members: tf.Tensor, other: tf.Tensor) -> tf.Tensor:
    """L_ND(i) = log sum_k m_ik exp(s_ik) - s_i,v(i): [A, K], [A, K], [A] -> [A]."""
    weighted = tf.where(members > 0, scores + tf.math.log(members), _minus_infinity(scores))
    return tf.reduce_logsumexp(weighted, axis=1) - tf.gather(scores, other, batch_dims=1)


def _is_key(index: tf.Tensor, size: tf.Tensor) -> tf.Tensor:
    """Mark the key at each index [A] among `size` keys, [A, size] bool; none for -1."""
    return index[:, None] == tf.range(size, dtype=index.dtype)[None, :]


def _minus_infinity(like: tf.Tensor) -> tf.Tensor:
    """Return minus infinity as a scalar of the same type."""
    return tf.constant(float("-inf"), like.dtype)
