"""The neighbourhood contrastive objective, equal to `ncl_tf.losses` without its anchors x keys matrices.

Keys carry no gradient, so one pass over the keys gives value and gradient. With Z_i = sum_{k != i} exp(s_ik),

    d log Z_i / d p_i = sum_{k != i} exp(s_ik) q_k / (Z_i tau),

and the mean score of the neighbours is linear in the keys: it needs only the neighbours' mean key. Memory grows with the
chunk of keys that is looked at, not with their number.
"""

import tensorflow as tf

from ncl_tf.errors import InputError
from ncl_tf.fast.join import StayJoin
from ncl_tf.fast.scan import Found, Keys, Scan, shared_label
from ncl_tf.fast.sums import Neighbors
from ncl_tf.losses import Terms
from ncl_tf.neighborhoods import Attributes, Neighborhood, SameLabel

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
    chunk: int = 1024,
) -> Terms:
    """L_NCL = alpha L_NA + (1 - alpha) L_ND, averaged over the anchors: see `ncl_tf.losses`.

    With scores s_ik = p_i . q_k / tau and memberships m_ik, for anchor i, whose other view is v(i):

        L_NA(i) = log sum_{k != i} exp(s_ik)  -  p_i . (sum_k m_ik q_k / sum_k m_ik) / tau
        L_ND(i) = log sum_k m_ik exp(s_ik)    -  s_i,v(i)

    Args:
        projections: p, [A, D] unit vectors.
        attributes: of the anchors, [A].
        keys: q, [K, D] unit vectors; no gradient flows into them.
        key_attributes: of the keys, [K].
        own: [A] int32, index of the anchor's own momentum projection; -1: the keys hold none.
        other: [A] int32, index of the momentum projection of the anchor's other view.
        neighborhood: n(x_i, x_k).
        alpha: weight of the alignment, in [0, 1].
        temperature: tau > 0.
        chunk: how many keys to look at together.
    """
    if not 0 <= alpha <= 1:
        raise InputError(f"neighborhood_contrastive_loss: alpha is {alpha}; allowed: 0 to 1")
    if not temperature > 0:
        raise InputError(f"neighborhood_contrastive_loss: temperature is {temperature}; allowed: > 0")
    if not chunk >= 1:
        raise InputError(f"neighborhood_contrastive_loss: chunk is {chunk}; allowed: 1 key or more")
    views = Keys(tf.stop_gradient(keys), key_attributes, own, other)

    @tf.custom_gradient
    def terms(projections: tf.Tensor):
        # The gradient is written by hand: without this, persistent tapes would also derive every chunk's.
        scaled = tf.stop_gradient(projections) / temperature
        positives = tf.gather(views.vectors, other)
        score = tf.reduce_sum(scaled * positives, axis=1)
        other_view = Neighbors.one(score, positives, tf.ones_like(score, tf.bool))
        negatives, neighbors = _find(scaled, attributes, views, other_view, neighborhood, chunk)
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


def _find(
    scaled: tf.Tensor,
    anchors: Attributes,
    keys: Keys,
    other_view: Neighbors,
    neighborhood: Neighborhood,
    chunk: int,
) -> Found:
    """All sums that the objective needs, the cheapest way that the neighbourhood allows.

    Args:
        scaled: p / tau, [A, D].
        anchors: attributes of the anchors, [A].
        keys: the keys.
        other_view: the neighbour that every anchor has.
        neighborhood: n(x_i, x_k).
        chunk: how many keys to look at together.
    """
    compare_all = Scan(scaled, anchors, neighborhood)
    join = StayJoin.of(neighborhood)
    if join is not None:
        ranges = join.ranges(anchors, keys.attributes)
        return tf.cond(
            ranges.longest * KEYS_PER_JOINED <= keys.size,
            lambda: Scan(scaled, anchors)(keys, other_view + join.neighbors(ranges, scaled, anchors, keys), chunk),
            lambda: compare_all(keys, other_view, chunk),
        )
    if type(neighborhood) is SameLabel:
        return Scan(scaled, anchors, neighborhood, shared_label)(keys.sorted_by_label(), other_view, chunk)
    return compare_all(keys, other_view, chunk)
