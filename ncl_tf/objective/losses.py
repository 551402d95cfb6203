"""The neighbourhood contrastive objective (section 3 of the paper), in its readable form.

Every faster form is tested equal to this one.
"""

from typing import NamedTuple

import tensorflow as tf

from ncl_tf.errors import InputError
from ncl_tf.objective.neighborhoods import Attributes, Neighborhood


class Terms(NamedTuple):
    """The objective and what it is made of: scalars, means over the anchors.

    Attributes:
        loss: L_NCL = alpha L_NA + (1 - alpha) L_ND.
        alignment: L_NA.
        discrimination: L_ND.
        accuracy: fraction of anchors whose best-scoring key is their own other view, and no other key as well.
    """

    loss: tf.Tensor
    alignment: tf.Tensor
    discrimination: tf.Tensor
    accuracy: tf.Tensor


def membership(
    neighborhood: Neighborhood,
    anchors: Attributes,
    keys: Attributes,
    own: tf.Tensor,
    other: tf.Tensor,
    dtype: tf.DType = tf.float32,
) -> tf.Tensor:
    """How much key k belongs to N(i): m_ik, [A, K] in [0, 1].

    Whatever the neighbourhood says, an anchor's own projection and the start-up entries of the queue are never in N(i),
    and its own other view always is.

    Args:
        neighborhood: n(x_i, x_k).
        anchors: attributes of the anchors, [A].
        keys: attributes of the keys, [K].
        own: [A] int32, the key that is the anchor's own momentum projection; -1: none is.
        other: [A] int32, the key that is the momentum projection of the anchor's other view.
        dtype: of the result.
    """
    members = tf.cast(neighborhood(anchors, keys), dtype)
    size = tf.size(keys.stay)
    never = (keys.stay < 0)[None, :] | _is_key(own, size)
    members = tf.where(never, tf.zeros((), dtype), members)
    return tf.where(_is_key(other, size), tf.ones((), dtype), members)


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
) -> Terms:
    """L_NCL = alpha L_NA + (1 - alpha) L_ND, averaged over the anchors.

    With scores s_ik = p_i . q_k / tau and memberships m_ik, for anchor i, whose other view is v(i):

        L_NA(i) = log sum_{k != i} exp(s_ik)  -  sum_k m_ik s_ik / sum_k m_ik
        L_ND(i) = log sum_k m_ik exp(s_ik)    -  s_i,v(i)

    For memberships of 0 and 1 these are the paper's sums over N(i).

    Args:
        projections: p of the anchors, [A, D] unit vectors.
        attributes: of the anchors, [A].
        keys: q, [K, D] unit vectors; no gradient flows into them.
        key_attributes: of the keys, [K]. Start-up entries (stay -1) are negatives like any other key.
        own: [A] int32, index of the anchor's own momentum projection, which is no key of that anchor; -1: the keys
            hold none.
        other: [A] int32, index of the momentum projection of the anchor's other view: the positive.
        neighborhood: n(x_i, x_k).
        alpha: weight of the alignment, in [0, 1].
        temperature: tau > 0.
    """
    check_settings(alpha, temperature)
    members = membership(neighborhood, attributes, key_attributes, own, other, projections.dtype)
    scores = tf.matmul(projections, tf.stop_gradient(keys), transpose_b=True) / temperature
    scores_without_own = tf.where(_is_key(own, tf.shape(keys)[0]), _minus_infinity(scores), scores)

    alignment = tf.reduce_mean(_neighbors_alignment(scores, scores_without_own, members))
    discrimination = tf.reduce_mean(_neighbors_discrimination(scores, members, other))
    rivals = tf.where(_is_key(other, tf.shape(keys)[0]), _minus_infinity(scores), scores_without_own)
    correct = tf.gather(scores, other, batch_dims=1) > tf.reduce_max(rivals, axis=1)
    return Terms(
        loss=alpha * alignment + (1 - alpha) * discrimination,
        alignment=alignment,
        discrimination=discrimination,
        accuracy=tf.reduce_mean(tf.cast(correct, scores.dtype)),
    )


class Contrast(NamedTuple):
    """L_NCL against given keys, for all anchors together or for some of them at a time.

    Attributes:
        keys, key_attributes: [K, D] and [K]; see `neighborhood_contrastive_loss`, as for the rest.
        own, other: [A] of all anchors; slice them like the anchors.
    """

    keys: tf.Tensor
    key_attributes: Attributes
    own: tf.Tensor
    other: tf.Tensor
    neighborhood: Neighborhood
    alpha: float
    temperature: float

    def __call__(self, projections: tf.Tensor, attributes: Attributes, own: tf.Tensor, other: tf.Tensor) -> Terms:
        """The objective of some anchors."""
        return neighborhood_contrastive_loss(
            projections,
            attributes,
            self.keys,
            self.key_attributes,
            own,
            other,
            self.neighborhood,
            self.alpha,
            self.temperature,
        )


def check_settings(alpha: float, temperature: float) -> None:
    """Refuses settings for which the objective is not defined."""
    if not 0 <= alpha <= 1:
        raise InputError(f"alpha must be 0 to 1, got {alpha}")
    if not temperature > 0:
        raise InputError(f"temperature must be above 0, got {temperature}")


def _neighbors_alignment(scores: tf.Tensor, scores_without_own: tf.Tensor, members: tf.Tensor) -> tf.Tensor:
    """L_NA(i) = log sum_{k != i} exp(s_ik) - sum_k m_ik s_ik / sum_k m_ik: [A, K] each -> [A]."""
    mean_score = tf.reduce_sum(members * scores, axis=1) / tf.reduce_sum(members, axis=1)
    return tf.reduce_logsumexp(scores_without_own, axis=1) - mean_score


def _neighbors_discrimination(scores: tf.Tensor, members: tf.Tensor, other: tf.Tensor) -> tf.Tensor:
    """L_ND(i) = log sum_k m_ik exp(s_ik) - s_i,v(i): [A, K], [A, K], [A] -> [A]."""
    weighted = tf.where(members > 0, scores + tf.math.log(members), _minus_infinity(scores))
    return tf.reduce_logsumexp(weighted, axis=1) - tf.gather(scores, other, batch_dims=1)


def _is_key(index: tf.Tensor, size: tf.Tensor) -> tf.Tensor:
    """Which of `size` keys `index` [A] means, [A, size] bool; none for -1."""
    return index[:, None] == tf.range(size, dtype=index.dtype)[None, :]


def _minus_infinity(like: tf.Tensor) -> tf.Tensor:
    return tf.constant(float("-inf"), like.dtype)
