"""Neighborhood functions n(x_i, x_k), which define the samples that should lie close to each other.

A neighborhood is any callable `(anchors: Attributes [N], keys: Attributes [K]) -> membership [N, K]`, where membership
is bool or a float in [0, 1]. It compares attributes only; the objective itself treats an anchor's own views and the
start-up entries of the queue (`ncl_tf.objective.losses.membership`). A neighborhood of your own takes a few lines:

    def same_parity(anchors: Attributes, keys: Attributes) -> tf.Tensor:
        return anchors.hour[:, None] % 2 == keys.hour[None, :] % 2
"""

import itertools
from collections.abc import Callable
from dataclasses import dataclass
from functools import reduce
from typing import NamedTuple

import tensorflow as tf

from ncl_tf.errors import InputError


class Attributes(NamedTuple):
    """Attributes of N samples that neighborhoods compare.

    Attributes:
        stay: [N] int32, the stay's number; -1: a start-up entry of the queue, of no stay.
        hour: [N] int32, hour within the stay.
        label: [N] int32, class index; -1: unlabelled.
    """

    stay: tf.Tensor
    hour: tf.Tensor
    label: tf.Tensor


Neighborhood = Callable[[Attributes, Attributes], tf.Tensor]


def _same_stay(anchors: Attributes, keys: Attributes) -> tf.Tensor:
    """Return whether anchor and key come from the same stay, [N, K] bool."""
    return anchors.stay[:, None] == keys.stay[None, :]


def _hours_apart(anchors: Attributes, keys: Attributes) -> tf.Tensor:
    """Return |t_i - t_k|, [N, K] float32."""
    return tf.cast(tf.abs(anchors.hour[:, None] - keys.hour[None, :]), tf.float32)


@dataclass(frozen=True)
class SameStayWithin:
    """n_w: two hours of the same stay with |t_i - t_k| < window are neighbors.

    Attributes:
        window: w in hours; None: any two hours of a stay.
        inclusive: <= instead of <, as in the authors' code.
    """

    window: float | None
    inclusive: bool = False

    def __post_init__(self) -> None:
        if self.window is not None and not self.window >= 0:
            raise InputError(f"SameStayWithin: window must be 0 hours or more, or None for infinite, got {self.window}")

    def __call__(self, anchors: Attributes, keys: Attributes) -> tf.Tensor:
        same_stay = _same_stay(anchors, keys)
        if self.window is None:
            return same_stay
        apart = _hours_apart(anchors, keys)
        return same_stay & (apart <= self.window if self.inclusive else apart < self.window)


@dataclass(frozen=True)
class SameLabel:
    """n_Y: samples with the same label are neighbors; unlabelled samples have none."""

    def __call__(self, anchors: Attributes, keys: Attributes) -> tf.Tensor:
        return (anchors.label[:, None] == keys.label[None, :]) & (anchors.label[:, None] >= 0)


@dataclass(frozen=True)
class DecayingWithin:
    """A soft n_w, not in the paper: within a stay, the membership is 0.5 ** (|t_i - t_k| / half_life), in hours."""

    half_life: float

    def __post_init__(self) -> None:
        if not self.half_life > 0:
            raise InputError(f"DecayingWithin: half_life must be above 0 hours, got {self.half_life}")

    def __call__(self, anchors: Attributes, keys: Attributes) -> tf.Tensor:
        decay = 0.5 ** (_hours_apart(anchors, keys) / self.half_life)
        return tf.where(_same_stay(anchors, keys), decay, 0.0)


class _Combination:
    """Base of combinations of several neighborhoods into one."""

    def __init__(self, *neighborhoods: Neighborhood) -> None:
        if not neighborhoods:
            raise InputError(f"{type(self).__name__} must have one neighborhood or more, got none")
        self.neighborhoods = neighborhoods

    def __repr__(self) -> str:
        return f"{type(self).__name__}({', '.join(map(repr, self.neighborhoods))})"

    def _memberships(self, anchors: Attributes, keys: Attributes) -> list[tf.Tensor]:
        return [tf.cast(neighborhood(anchors, keys), tf.float32) for neighborhood in self.neighborhoods]


class Intersection(_Combination):
    """Neighbors by all of several neighborhoods: the product of the memberships."""

    def __call__(self, anchors: Attributes, keys: Attributes) -> tf.Tensor:
        return reduce(tf.multiply, self._memberships(anchors, keys))


class Union(_Combination):
    """Neighbors by any of several neighborhoods: the maximum of the memberships."""

    def __call__(self, anchors: Attributes, keys: Attributes) -> tf.Tensor:
        return reduce(tf.maximum, self._memberships(anchors, keys))


def check(neighborhood: Neighborhood) -> None:
    """Raise an error for anything that is not a neighborhood, such as a class instead of its instance."""
    anchors, keys = (Attributes(*[tf.zeros(samples, tf.int32)] * 3) for samples in (2, 3))
    try:
        shape = list(tf.shape(neighborhood(anchors, keys)).numpy())
    except Exception as error:  # a user's own may raise anything
        raise InputError(
            "neighborhood must be a function of anchors and keys, or an instance of a class, @SameStayWithin() in gin, "
            f"got {neighborhood}, which fails for two anchors and three keys: "
            f"{type(error).__name__}, {str(error).partition(chr(10))[0][:200]}"
        ) from error
    if shape != [2, 3]:
        raise InputError(f"neighborhood {neighborhood} must return [2, 3] for two anchors and three keys, got {shape}")


def compares_labels(neighborhood: Neighborhood) -> bool:
    """Return whether the membership of any of a few samples, of two stays, depends on their labels."""
    samples = itertools.product((0, 1), (0, 1, 30), (-1, 0, 1))
    labelled = Attributes(*(tf.constant(values, tf.int32) for values in zip(*samples, strict=True)))
    alike = labelled._replace(label=tf.zeros_like(labelled.label))
    members = [tf.cast(neighborhood(attributes, attributes), tf.float32) for attributes in (labelled, alike)]
    return bool(tf.reduce_any(members[0] != members[1]))
