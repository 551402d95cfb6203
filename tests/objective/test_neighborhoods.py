"""Neighborhoods against loops over pairs of samples."""

import numpy as np
import pytest
import tensorflow as tf

from ncl_tf.errors import InputError
from ncl_tf.objective.neighborhoods import (
    Attributes,
    DecayingWithin,
    Intersection,
    SameLabel,
    SameStayWithin,
    Union,
    compares_labels,
)


def random_attributes(seed: int, size: int) -> Attributes:
    random = np.random.default_rng(seed)
    columns = random.integers(0, 4, size), random.integers(0, 12, size), random.integers(-1, 3, size)
    return Attributes(*(tf.constant(column, tf.int32) for column in columns))


def pairwise(anchors: Attributes, keys: Attributes, membership) -> np.ndarray:
    """membership(stay_i, hour_i, label_i, stay_k, hour_k, label_k) for every pair, [N, K]."""
    anchors, keys = (list(zip(*(column.numpy().tolist() for column in a), strict=True)) for a in (anchors, keys))
    return np.array([[float(membership(*anchor, *key)) for key in keys] for anchor in anchors])


def within_4(stay, hour, label, other_stay, other_hour, other_label):
    return stay == other_stay and abs(hour - other_hour) < 4


def same_label(stay, hour, label, other_stay, other_hour, other_label):
    return label == other_label and label != -1


def decaying(stay, hour, label, other_stay, other_hour, other_label):
    return (stay == other_stay) * 2 ** (-abs(hour - other_hour) / 3)


CASES = {
    "strict": (SameStayWithin(4), within_4),
    "inclusive": (SameStayWithin(4, inclusive=True), lambda s, h, _, t, g, __: s == t and abs(h - g) <= 4),
    "fractional": (SameStayWithin(3.5), within_4),  # whole hours: < 3.5 is < 4
    "nobody": (SameStayWithin(0), lambda *_: False),
    "same hour": (SameStayWithin(0, inclusive=True), lambda s, h, _, t, g, __: s == t and h == g),
    "infinite": (SameStayWithin(None), lambda s, h, _, t, g, __: s == t),
    "label": (SameLabel(), same_label),
    "decaying": (DecayingWithin(3), decaying),
    "intersection": (Intersection(SameStayWithin(4), SameLabel()), lambda *x: within_4(*x) and same_label(*x)),
    "union": (Union(SameStayWithin(4), SameLabel()), lambda *x: within_4(*x) or same_label(*x)),
    "soft intersection": (Intersection(SameLabel(), DecayingWithin(3)), lambda *x: same_label(*x) * decaying(*x)),
    "soft union": (Union(DecayingWithin(3), SameLabel()), lambda *x: max(same_label(*x), decaying(*x))),
    "nested": (
        Union(Intersection(SameStayWithin(None), SameLabel()), SameStayWithin(4)),
        lambda *x: (x[0] == x[3] and same_label(*x)) or within_4(*x),
    ),
}


@pytest.mark.parametrize("case", CASES)
@pytest.mark.parametrize("seed", range(3))
def test_equals_loop_over_pairs(case, seed):
    neighborhood, membership = CASES[case]
    anchors, keys = random_attributes(seed, 17), random_attributes(seed + 100, 29)
    expected = pairwise(anchors, keys, membership)
    assert case == "nobody" or 0 < expected.mean() < 1
    np.testing.assert_allclose(tf.cast(neighborhood(anchors, keys), tf.float32), expected, rtol=1e-6)
    compiled = tf.function(neighborhood, jit_compile=True)
    np.testing.assert_allclose(tf.cast(compiled(anchors, keys), tf.float32), expected, rtol=1e-6)


def test_unlabelled_samples_share_no_label():
    unlabelled = Attributes(tf.range(3), tf.range(3), tf.fill([3], -1))
    assert not np.any(SameLabel()(unlabelled, unlabelled))


def test_a_plain_function_combines():
    def same_parity(anchors, keys):
        return anchors.hour[:, None] % 2 == keys.hour[None, :] % 2

    anchors, keys = random_attributes(0, 11), random_attributes(1, 13)
    expected = pairwise(anchors, keys, lambda *x: within_4(*x) and (x[1] - x[4]) % 2 == 0)
    np.testing.assert_array_equal(Intersection(SameStayWithin(4), same_parity)(anchors, keys), expected)


def test_neighborhoods_that_compare_labels_are_known_by_what_they_return():
    own = lambda x, y: (x.label[:, None] == y.label) & (x.stay[:, None] != y.stay)  # noqa: E731
    assert all(map(compares_labels, (SameLabel(), Intersection(SameStayWithin(4), SameLabel()), own)))
    earlier = lambda x, y: x.hour[:, None] < y.hour  # noqa: E731
    assert not any(map(compares_labels, (SameStayWithin(4), DecayingWithin(3), Union(SameStayWithin(None), earlier))))


def test_repr_reads_like_its_construction():
    neighborhood = Union(Intersection(SameStayWithin(window=16, inclusive=False), SameLabel()), DecayingWithin(3))
    assert repr(eval(repr(neighborhood))) == repr(neighborhood)
    assert repr(SameStayWithin(None)) == "SameStayWithin(window=None, inclusive=False)"


def test_bad_arguments():
    for kind, value in ((SameStayWithin, -1), (SameStayWithin, float("nan")), (DecayingWithin, 0)):
        with pytest.raises(InputError, match=str(value)):
            kind(value)
    for kind in (Intersection, Union):
        with pytest.raises(InputError, match="Intersection|Union"):
            kind()
