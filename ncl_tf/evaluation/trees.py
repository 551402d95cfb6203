"""Gradient-boosted trees as a head: scikit-learn's histogram gradient boosting, on representations or on raw rows."""

import dataclasses
import itertools
from collections.abc import Callable

import numpy as np
from sklearn import metrics
from sklearn.ensemble import HistGradientBoostingClassifier

from ncl_tf.data.cohort import Cohort
from ncl_tf.data.prepared_again import PreparedAgain, WithExternal
from ncl_tf.data.raw_features import RawFeatures
from ncl_tf.data.raw_file import RawFile
from ncl_tf.data.windows import Windows
from ncl_tf.evaluation.heads import Progress, embedder, no_progress
from ncl_tf.evaluation.metrics import multiclass_metrics
from ncl_tf.networks.encoder import Encoder
from ncl_tf.training.loop import FitResult, OnReport
from ncl_tf.training.protocol import TreeProtocol

ITERATIONS_AT_ONCE = 20  # before the progress bar moves
Samples = tuple[np.ndarray, np.ndarray]  # features [H, D] and classes [H]


class TreeInputs:
    """The features of all hours of a split: [hours, D] float32.

    Args:
        features: of `ncl_tf.evaluation.settings.FEATURES`.
        encoder: for those of its representation.
    """

    def __init__(
        self, cohort: Cohort, features: str, encoder: Encoder | None, progress: Progress = no_progress
    ) -> None:
        self._parts: list[Callable[[str], np.ndarray]] = []
        if features.startswith("representation"):
            embed = embedder(encoder, progress=progress)
            self._parts.append(lambda split: embed(Windows(cohort[split], encoder.history)))
        if kind := features.removeprefix("representation").removeprefix("+"):
            compute = RawFeatures.of_cohort(kind, cohort)
            raw = cohort.raw if isinstance(cohort, PreparedAgain | WithExternal) else RawFile(cohort).__getitem__
            self._parts.append(lambda split: compute(raw(split)))

    def __call__(self, split: str) -> np.ndarray:
        """Compute the features of a split."""
        parts = [part(split) for part in self._parts]
        return parts[0] if len(parts) == 1 else np.concatenate(parts, axis=1)


@dataclasses.dataclass(frozen=True)
class Trees:
    """Trained trees, of which the first iterations are used.

    Attributes:
        model: with all its trees.
        iterations: how many are used.
        classes: K.
    """

    model: HistGradientBoostingClassifier
    iterations: int
    classes: int

    def __call__(self, features: np.ndarray) -> np.ndarray:
        """Compute class probabilities [H, K] float32 of features [H, D]; a class that was never seen has 0."""
        stages = self.model.staged_predict_proba(features)
        return self._all_classes(next(itertools.islice(stages, self.iterations - 1, None)))

    def _all_classes(self, probabilities: np.ndarray) -> np.ndarray:
        found = np.zeros((len(probabilities), self.classes), np.float32)
        found[:, self.model.classes_] = probabilities
        return found


def fit_trees(
    training: Samples,
    validation: Samples,
    weights: np.ndarray,
    protocol: TreeProtocol,
    seed: int,
    on_report: OnReport = lambda step, report: None,
) -> tuple[Trees, FitResult]:
    """Grow trees on the training samples, and use as many iterations as are best on the validation samples.

    The best is the first one of the highest AUPRC or, of more than two classes, the highest kappa.

    Args:
        weights: [K] of the classes.
        seed: of the choice of hours by which the thresholds of many are placed.
    """
    features, classes = training
    features[:, np.isnan(features).all(axis=0)] = 0  # scikit-learn fails where a column has no value at all
    model = HistGradientBoostingClassifier(
        learning_rate=protocol.rate,
        max_leaf_nodes=protocol.leaves,
        early_stopping=False,  # that of scikit-learn would take validation hours from stays that it trains on
        warm_start=True,
        random_state=seed,
    )
    for first in range(0, protocol.max_iterations, ITERATIONS_AT_ONCE):
        done = min(first + ITERATIONS_AT_ONCE, protocol.max_iterations)
        model.set_params(max_iter=done).fit(features, classes, sample_weight=weights[classes])
        on_report(done, {"epoch": done})
    trees = Trees(model, protocol.max_iterations, len(weights))
    name, scores = _validation_scores(trees, *validation)
    best = int(np.argmax(scores)) + 1
    reports = [{"epoch": epoch, name: score} for epoch, score in enumerate(scores, 1)]
    return dataclasses.replace(trees, iterations=best), FitResult(protocol.max_iterations, reports, best)


def _validation_scores(trees: Trees, features: np.ndarray, classes: np.ndarray) -> tuple[str, list[float]]:
    """Score the first iteration alone, the first two, and so on; return the name of the score, too."""
    stages = map(trees._all_classes, trees.model.staged_predict_proba(features))
    if trees.classes > 2:
        return "val_kappa", [multiclass_metrics(probabilities, classes)["kappa"] for probabilities in stages]
    return "val_auprc", [float(metrics.average_precision_score(classes, stage[:, 1])) for stage in stages]
