"""Sums over sets of keys that grow chunk by chunk, as the objective and its gradient need them."""

from __future__ import annotations

from typing import NamedTuple

import tensorflow as tf


class Sums(NamedTuple):
    """Sums of exp(s_ik) over a set of keys k for every anchor i, relative to the highest score: nothing overflows.

    Attributes:
        peak: [A], max_k s_ik; the lowest float for an empty set.
        total: [A], sum_k m_ik exp(s_ik - peak_i).
        moment: [A, D], sum_k m_ik exp(s_ik - peak_i) q_k.
    """

    peak: tf.Tensor
    total: tf.Tensor
    moment: tf.Tensor

    @classmethod
    def of(cls, scores: tf.Tensor, keys: tf.Tensor, members: tf.Tensor | None = None) -> Sums:
        """Sum over keys [C, D] with memberships [A, C] and scores [A, C], -inf where the anchor does not have the key."""
        if members is not None:
            scores = tf.where(members > 0, scores, float("-inf"))
        peak = tf.maximum(tf.reduce_max(scores, axis=1), scores.dtype.min)
        exponentials = tf.exp(scores - peak[:, None])
        if members is not None:
            exponentials *= members
        return cls(peak, tf.reduce_sum(exponentials, axis=1), exponentials @ keys)

    def __add__(self, others: Sums) -> Sums:
        """Add the sums over two disjoint sets of keys."""
        peak = tf.maximum(self.peak, others.peak)
        ours, theirs = tf.exp(self.peak - peak), tf.exp(others.peak - peak)
        return Sums(
            peak,
            ours * self.total + theirs * others.total,
            ours[:, None] * self.moment + theirs[:, None] * others.moment,
        )

    def of_anchors(self, chosen: tf.Tensor) -> Sums:
        """Keep the sums of the chosen anchors, [A] bool; those of the others become sums over an empty set."""
        kept = tf.cast(chosen, self.total.dtype)
        peak = tf.where(chosen, self.peak, self.peak.dtype.min)
        return Sums(peak, kept * self.total, kept[:, None] * self.moment)

    @property
    def log(self) -> tf.Tensor:
        """log sum_k m_ik exp(s_ik), [A]."""
        return self.peak + tf.math.log(self.total)

    @property
    def mean_key(self) -> tf.Tensor:
        """The keys' mean, weighted with m_ik exp(s_ik): the gradient of `log` with respect to p_i / tau, [A, D]."""
        return self.moment / self.total[:, None]


class Neighbors(NamedTuple):
    """Sums over the neighborhoods N(i).

    Attributes:
        sums: for L_ND.
        size: [A], sum_k m_ik.
        key_sum: [A, D], sum_k m_ik q_k, for L_NA.
    """

    sums: Sums
    size: tf.Tensor
    key_sum: tf.Tensor

    @classmethod
    def of(cls, scores: tf.Tensor, keys: tf.Tensor, members: tf.Tensor) -> Neighbors:
        """Sum over the neighbors among keys [C, D] with scores and memberships [A, C]."""
        return cls(Sums.of(scores, keys, members), tf.reduce_sum(members, axis=1), members @ keys)

    @classmethod
    def one(cls, score: tf.Tensor, key: tf.Tensor, member: tf.Tensor) -> Neighbors:
        """Sum over one key per anchor, [A, D], with score [A], which may be a neighbor, [A] bool."""
        size = tf.cast(member, score.dtype)
        moment = size[:, None] * key
        return cls(Sums(tf.where(member, score, score.dtype.min), size, moment), size, moment)

    def __add__(self, others: Neighbors) -> Neighbors:
        """Add the sums over two disjoint sets of keys."""
        return Neighbors(self.sums + others.sums, self.size + others.size, self.key_sum + others.key_sum)

    @property
    def mean_key(self) -> tf.Tensor:
        """sum_k m_ik q_k / sum_k m_ik, [A, D]."""
        return self.key_sum / self.size[:, None]
