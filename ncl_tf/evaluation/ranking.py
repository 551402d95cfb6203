"""AUROC and average precision of many cohorts at once, which have the same stays, each of them so and so often."""

import numpy as np
from scipy import sparse

from ncl_tf.evaluation.utility import stay_of_hours

CELLS = 2**22  # numbers that are in memory at once, in an array of which there are a few


class StayRanking:
    """How H hours of S stays rank by their scores.

    Hours are sorted once. What a cohort needs are sums of multiplicities between the scores of positive hours, which a sparse
    matrix gives for all cohorts in one product.

    Args:
        scores: [H].
        positive: [H] bool.
        lengths: [S] hours of each stay.
    """

    def __init__(self, scores: np.ndarray, positive: np.ndarray, lengths: np.ndarray) -> None:
        stay, stays = stay_of_hours(lengths, len(scores)), len(lengths)
        levels = np.unique(-scores[positive])  # the scores of positive hours, from high to low
        lower, upper = (np.searchsorted(levels, -scores[~positive], side) for side in ("left", "right"))
        level = np.searchsorted(levels, -scores[positive])
        # Negative hours lie between two levels, in an even row, or on one, in an odd row.
        self._positives = _counts(level, stay[positive], (len(levels), stays))
        self._negatives = _counts(lower + upper, stay[~positive], (2 * len(levels) + 1, stays))

    def __call__(self, multiplicities: np.ndarray, prevalence: float | None = None) -> dict[str, np.ndarray]:
        """Compute auroc and auprc (average precision), each [B], NaN in cohorts whose hours are of one class.

        With a prevalence, between 0 and 1, also auprc_at_prevalence: the average precision if negative hours counted so much
        more or less that this were the share of positive ones.

        Args:
            multiplicities: [B, S] how often each stay occurs in each cohort.
        """
        size = max(CELLS // self._negatives.shape[0], 1)
        parts = [
            self._areas(np.asarray(multiplicities[start : start + size], np.float64).T, prevalence)
            for start in range(0, len(multiplicities), size)
        ]
        return {name: np.concatenate([part[name] for part in parts]) for name in parts[0]}

    def _areas(self, weights: np.ndarray, prevalence: float | None) -> dict[str, np.ndarray]:
        """Compute the areas; weights: [S, B]."""
        at = self._positives @ weights
        true, false = np.cumsum(at, axis=0), np.cumsum(self._negatives @ weights, axis=0)
        positives, negatives = at.sum(0), false[-1]
        higher, not_lower = false[:-1:2], false[1::2]  # negatives above each level; and those on it, too
        with np.errstate(invalid="ignore", divide="ignore"):
            share = at / positives * np.where(negatives, 1, np.nan)

            def average_precision(negative: np.ndarray | float) -> np.ndarray:
                return (share * (true / np.maximum(true + negative * not_lower, np.finfo(float).tiny))).sum(0)

            # Of each positive hour: the share of negatives with lower scores, ties counted half; precision down to its score.
            areas = {
                "auroc": (share * (1 - (higher + not_lower) / (2 * negatives))).sum(0),
                "auprc": average_precision(1.0),
            }
            if prevalence is not None:
                negative = positives / negatives * (1 - prevalence) / prevalence  # what a negative hour counts
                areas["auprc_at_prevalence"] = average_precision(negative)
        return areas


def _counts(row: np.ndarray, stay: np.ndarray, shape: tuple[int, int]) -> sparse.csr_array:
    """Count the hours of each row and stay; row, stay: [hours]."""
    return sparse.csr_array((np.ones(len(row)), (row, stay)), shape)
