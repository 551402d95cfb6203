"""Net benefit against counts made by hand, and intervals against literally drawn stays."""

import numpy as np
import pytest

from ncl_tf.evaluation.decision_curve import RISK_THRESHOLDS, decision_curve, useful_span
from refusals import refused


def test_net_benefit_by_hand():
    # Four hours, one of them positive, with a risk of 0.3; negative ones have 0.002, 0.2 and 0.6.
    risks, labels = np.array([0.002, 0.3, 0.2, 0.6]), np.array([0, 1, 0, 0])
    curve = decision_curve(risks, labels, np.array([2, 2]), np.ones((3, 2), int))
    for threshold, benefit, treat_all in zip(
        *(curve[k] for k in ("risk_threshold", "net_benefit", "treat_all")), strict=True
    ):
        true = int(threshold < 0.3)
        false = (threshold < 0.002) + (threshold < 0.2) + (threshold < 0.6)
        assert benefit == pytest.approx(true / 4 - false / 4 * threshold / (1 - threshold))
        assert treat_all == pytest.approx(1 / 4 - 3 / 4 * threshold / (1 - threshold))
    assert (curve["risk_threshold"][0], curve["risk_threshold"][-1]) == pytest.approx((0.001, 0.5))
    assert (curve["net_benefit"][0], curve["treat_all"][-1]) == pytest.approx((0.25 - 0.75 / 999, -0.5))
    assert curve["low"] == curve["high"] == pytest.approx(curve["net_benefit"])  # every cohort is the whole one


def test_a_risk_on_the_threshold_is_not_above_it():
    threshold = RISK_THRESHOLDS[20]
    curve = decision_curve(np.array([threshold, 0.0]), np.array([1, 0]), np.array([1, 1]), np.ones((1, 2), int))
    assert (curve["net_benefit"][19], curve["net_benefit"][20]) == (0.5, 0)


def test_intervals_are_percentiles_over_drawn_stays():
    random = np.random.default_rng(0)
    lengths = random.integers(0, 9, 20)
    labels = random.random(lengths.sum()) < 0.3
    risks = np.clip(random.random(lengths.sum()) * 0.4 + 0.2 * labels, 0, 1)
    drawn = random.integers(20, size=(30, 20))
    curve = decision_curve(risks, labels, lengths, np.stack([np.bincount(one, minlength=20) for one in drawn]))
    stays = np.split(np.arange(len(risks)), np.cumsum(lengths)[:-1])
    for k in (0, 30, 50):
        threshold, benefits = RISK_THRESHOLDS[k], []
        for one in drawn:
            rows = np.concatenate([stays[stay] for stay in one])
            called = risks[rows] > threshold
            true, false = (called & labels[rows]).sum(), (called & ~labels[rows]).sum()
            benefits.append((true - false * threshold / (1 - threshold)) / len(rows))
        assert [curve["low"][k], curve["high"][k]] == pytest.approx(np.percentile(benefits, [2.5, 97.5]).tolist())


def test_one_class_is_refused():
    with refused("decision curve & both classes & without label 1"):
        decision_curve(np.array([0.1, 0.2]), np.zeros(2), np.array([2]), np.ones((1, 1), int))


@pytest.mark.parametrize(
    ("benefit", "span"),
    [
        ([0.2, 0.0, 0.3, 0.2, 0.1, -0.1, 0.1], (3, 5)),  # better at 1 alone, at 3 to 5, and at 7 alone
        ([-0.1] * 7, None),
        ([0.1] * 7, (1, 7)),
    ],
)
def test_the_useful_span_is_the_longest_without_a_gap(benefit, span):
    curve = {"risk_threshold": [1.0, 2, 3, 4, 5, 6, 7], "net_benefit": benefit, "treat_all": [0.05] + [0.0] * 6}
    assert useful_span(curve) == span
