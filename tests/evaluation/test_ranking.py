"""Areas of resampled cohorts against scikit-learn on the hours of the drawn stays, literally repeated."""

import numpy as np
import pytest
from sklearn import metrics

from ncl_tf.evaluation import ranking
from ncl_tf.evaluation.ranking import StayRanking


def stays_with_ties(seed: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Scores, classes and lengths; one stay has no hours."""
    random = np.random.default_rng(seed)
    lengths = np.append(random.integers(1, 12, 30), 0)
    positive = random.random(lengths.sum()) < 0.3
    return np.round(random.random(lengths.sum()) * 0.7 + 0.3 * positive, 1), positive, lengths


@pytest.mark.parametrize("cells", [1, 200, 2**22])  # cohorts one by one, some at once, all at once
def test_areas_equal_those_of_repeated_stays(monkeypatch, cells):
    monkeypatch.setattr(ranking, "CELLS", cells)
    scores, positive, lengths = stays_with_ties(0)
    stays = np.split(np.arange(len(scores)), np.cumsum(lengths)[:-1])
    random = np.random.default_rng(1)
    drawn = random.integers(len(lengths), size=(25, len(lengths)))
    multiplicities = np.stack([np.bincount(one, minlength=len(lengths)) for one in drawn])
    areas = StayRanking(scores, positive, lengths)(multiplicities, prevalence=0.1)
    for b, one in enumerate(drawn):
        rows = np.concatenate([stays[stay] for stay in one])
        share = positive[rows].mean()
        weights = np.where(positive[rows], 0.1 / share, 0.9 / (1 - share))
        assert np.average(positive[rows], weights=weights) == pytest.approx(0.1)
        expected = {
            "auroc": metrics.roc_auc_score(positive[rows], scores[rows]),
            "auprc": metrics.average_precision_score(positive[rows], scores[rows]),
            "auprc_at_prevalence": metrics.average_precision_score(positive[rows], scores[rows], sample_weight=weights),
        }
        assert {name: values[b] for name, values in areas.items()} == pytest.approx(expected, rel=1e-12)


def test_precision_at_equal_prevalence_by_hand():
    # From the top: positive, negative, positive, negative, negative. At a prevalence of 0.2, the two positive hours are worth
    # 0.1 each and the three negative ones 0.8 / 3 each: precisions are 1, then 0.2 / (0.2 + 0.8 / 3) = 3 / 7.
    ranking = StayRanking(
        np.array([0.9, 0.8, 0.7, 0.6, 0.5]), np.array([True, False, True, False, False]), np.array([5])
    )
    areas = ranking(np.ones((1, 1)), prevalence=0.2)
    assert areas["auprc_at_prevalence"] == pytest.approx((1 + 3 / 7) / 2)
    assert areas["auprc"] == pytest.approx((1 + 2 / 3) / 2)
    assert areas["auroc"] == pytest.approx(5 / 6)


def test_a_cohort_of_one_class_has_no_areas():
    ranking = StayRanking(np.array([0.2, 0.4, 0.6]), np.array([False, True, False]), np.array([1, 1, 1]))
    areas = ranking(np.array([[2, 0, 1], [0, 3, 0], [0, 0, 0], [1, 1, 1]]))
    assert {name: values.tolist() for name, values in areas.items()} == {
        "auroc": pytest.approx([np.nan, np.nan, np.nan, 0.5], nan_ok=True),
        "auprc": pytest.approx([np.nan, np.nan, np.nan, 0.5], nan_ok=True),
    }
