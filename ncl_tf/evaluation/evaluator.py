"""Evaluating a representation (section 5 of the paper): a head is trained and chosen, then the test split is seen once."""

import dataclasses
import functools
from collections.abc import Callable
from typing import Any

import keras
import numpy as np
import tensorflow as tf

from ncl_tf.data.cohort import Cohort
from ncl_tf.data.windows import Windows
from ncl_tf.errors import InputError
from ncl_tf.evaluation import metrics
from ncl_tf.evaluation.heads import LabelledSamples, Progress, embedder, fit, no_progress, predictor
from ncl_tf.evaluation.risk import HourScores
from ncl_tf.evaluation.trees import TreeInputs, Trees, fit_trees
from ncl_tf.methods.supervised import Classifier
from ncl_tf.networks.encoder import Encoder
from ncl_tf.networks.heads import Head
from ncl_tf.runs import TrainingFolder
from ncl_tf.training.early_stopping import SeparateEpochs
from ncl_tf.training.loop import FitResult, OnReport
from ncl_tf.training.protocol import (
    Protocol,
    TreeProtocol,
    check_classes,
    labelled_rows,
    labelled_training,
    limited_batch,
)


@dataclasses.dataclass
class TrainedClassifier:
    """A classifier that was trained and chosen, and how.

    Attributes:
        classifier: windows [B, T, C] -> probabilities [B, K]; for raw features, the head alone; or trees, on their features.
        fitted: how the training went.
        predict: split -> class probabilities of all its hours, labelled or not, [hours, K]; computed once.
    """

    classifier: keras.Model | Trees
    fitted: FitResult
    predict: Callable[[str], np.ndarray]

    def __post_init__(self) -> None:
        self.predict = functools.cache(self.predict)


class Evaluator:
    """Trains classifiers for one task of a cohort.

    Args:
        protocol: the constants of networks, or those of trees.
        seed: of weights and order of samples.
        labels: fraction of the training stays whose labels are used, chosen by `label_seed`.
        folder: keeps checkpoints of the training and resumes from them; None: nothing is kept.
        on_report: called with every epoch's losses.
        progress: wraps embedding, each epoch and predictions.
    """

    def __init__(
        self,
        cohort: Cohort,
        task: str,
        protocol: Protocol | TreeProtocol,
        seed: int,
        labels: float = 1.0,
        label_seed: int = 0,
        folder: TrainingFolder | None = None,
        on_report: OnReport = lambda step, report: None,
        progress: Progress = no_progress,
    ) -> None:
        self.cohort, self.protocol, self.seed, self.progress = cohort, protocol, seed, progress
        self.folder, self.on_report = folder, on_report
        self.position, self.task = cohort.task(task)
        self.training_rows, self.weights = labelled_training(cohort, task, protocol, labels, label_seed)
        self.labels = labels

    def frozen(self, encoder: Encoder, head: str) -> TrainedClassifier:
        """Train a head on the frozen encoder, on embeddings that are computed once."""
        embed = embedder(encoder, progress=self.progress)
        embedded: dict[str, np.ndarray] = {}

        def features(split: str) -> np.ndarray:
            if split not in embedded:
                embedded[split] = embed(Windows(self.cohort[split], encoder.history))
            return embedded[split]

        made, fitted = self._fit_head(head, features, encoder.merge.units)
        classifier = self._classifier(encoder, made)
        return TrainedClassifier(classifier, fitted, lambda split: self._predict(made, features(split)))

    def raw(self, features: str, head: str, history: int) -> TrainedClassifier:
        """Train a sanity baseline: a head on raw inputs, the last hour's columns or a window of `history` hours."""
        if features == "last_hour":
            made, fitted = self._fit_head(head, lambda split: self.cohort[split].data, len(self.cohort.columns))
            return TrainedClassifier(made, fitted, lambda split: self._predict(made, self.cohort[split].data))
        flat = keras.Sequential([keras.layers.Flatten(), Head(head, self.task.classes)], name="flat")
        return self._fit_on_windows(flat, history, self.protocol.rates[head])

    def trees(self, features: str, encoder: Encoder | None) -> TrainedClassifier:
        """Train gradient-boosted trees on features of the encoder, of raw rows, or of both."""
        inputs = TreeInputs(self.cohort, features, encoder, self.progress)
        labelled = {split: self._labelled(split) for split in ("train", "val")}
        classes = {split: self.cohort[split].classes[rows, self.position] for split, rows in labelled.items()}
        samples = [(inputs(split)[rows], classes[split]) for split, rows in labelled.items()]
        trees, fitted = fit_trees(*samples, self.weights, self.protocol, self.seed, self.on_report)
        return TrainedClassifier(trees, fitted, lambda split: trees(inputs(split)))

    def fine_tuned(self, encoder: Encoder, head: str) -> TrainedClassifier:
        """Train a new head and the encoder together."""
        classifier = self._classifier(encoder, self._new_head(head, encoder.merge.units))
        rate, cap = self.protocol.fine_tune_rate, self.protocol.max_minutes
        return self._fit_on_windows(classifier, encoder.history, rate, cap)

    def scored(self, classifier: Classifier, fitted: FitResult) -> TrainedClassifier:
        """Take the classifier of an End-to-End run as it is; nothing is trained."""
        return TrainedClassifier(classifier, fitted, self._predict_windows(classifier, classifier.encoder.history))

    def labelled(self, split: str) -> tuple[np.ndarray, np.ndarray]:
        """Return rows [H] and classes [H] of a split's labelled hours, which must be of two classes and several stays."""
        data = self.cohort[split]
        if len(data.patient_windows) < 2:
            raise InputError(
                f"split {split!r} must have at least 2 stays for intervals, got {len(data.patient_windows)}"
            )
        rows = labelled_rows(data, self.position)
        classes = data.classes[rows, self.position]
        check_classes(classes, self.task, split)
        return rows, classes

    def score(self, trained: TrainedClassifier, split: str) -> tuple[dict[str, Any], np.ndarray]:
        """Return metrics over a split's labelled hours, with intervals over stays, and predictions of all its hours [H, K]."""
        data = self.cohort[split]
        rows, classes = self.labelled(split)
        stay_of_row = np.repeat(np.arange(len(data.patient_windows)), data.lengths)
        lengths = np.bincount(stay_of_row[rows], minlength=len(data.patient_windows))
        predictions = trained.predict(split)
        probabilities = predictions[rows]
        if self.task.kind == "bins":
            scores = metrics.multiclass_metrics(probabilities, classes)
            by_stay = metrics.multiclass_by_stay(probabilities, classes, lengths)
            return {"metrics": scores, "intervals": metrics.bootstrap(by_stay, len(lengths))}, predictions
        positive = probabilities[:, 1].astype(np.float64)
        scores = metrics.binary_metrics(positive, classes, lengths, utility=self.task.has_utility)
        by_stay = metrics.binary_by_stay(positive, classes, lengths, utility=self.task.has_utility)
        return {
            "metrics": scores,
            "intervals": metrics.bootstrap(by_stay, len(lengths)),
            "reliability": metrics.reliability(positive, classes),
        }, predictions

    def hour_scores(self, trained: TrainedClassifier, split: str) -> HourScores:
        """Return the probabilities and labels of all hours of a split; the task must be binary."""
        data = self.cohort[split]
        classes = data.classes[:, self.position]
        labels = np.where(classes >= 0, classes, np.nan)
        return HourScores(trained.predict(split)[:, 1].astype(np.float64), labels, data.lengths)

    def _new_head(self, kind: str, size: int) -> keras.Model:
        keras.utils.set_random_seed(self.seed)
        head = Head(kind, self.task.classes)
        head.build((None, size))
        return head

    def _classifier(self, encoder: Encoder, head: keras.Model) -> Classifier:
        classifier = Classifier(encoder, head, self.position, self.weights, self.seed)
        classifier.build((None, encoder.history, len(self.cohort.columns)))
        return classifier

    def _labelled(self, split: str) -> np.ndarray:
        return self.training_rows if split == "train" else labelled_rows(self.cohort[split], self.position)

    def _windows(self, split: str, history: int, rows: np.ndarray) -> LabelledSamples:
        windows = Windows(self.cohort[split], history)
        classes = self.cohort[split].classes[rows, self.position]
        return LabelledSamples(lambda chosen: windows.gather(chosen)["window"], rows.astype(np.int32), classes)

    def _predict(self, head: keras.Model, features: np.ndarray) -> np.ndarray:
        everything = np.arange(len(features))
        return predictor(head, LabelledSamples.from_array(features, np.zeros(len(features), np.int32), everything))()

    def _predict_windows(self, classifier: keras.Model, history: int) -> Callable[[str], np.ndarray]:
        def predict(split: str) -> np.ndarray:
            everything = self._windows(split, history, np.arange(len(self.cohort[split].data)))
            return predictor(classifier, everything, progress=self.progress)()

        return predict

    def _fit_head(self, kind: str, features: Callable[[str], np.ndarray], size: int) -> tuple[keras.Model, FitResult]:
        head = self._new_head(kind, size)
        samples = [
            LabelledSamples.from_array(
                features(split), self.cohort[split].classes[:, self.position], self._labelled(split)
            )
            for split in ("train", "val")
        ]
        return head, self._fit(head, samples, self.protocol.rates[kind])

    def _fit_on_windows(
        self, classifier: keras.Model, history: int, rate: float, max_minutes: float | None = None
    ) -> TrainedClassifier:
        keras.utils.set_random_seed(self.seed)
        classifier(tf.zeros([1, history, len(self.cohort.columns)]))  # creates the weights of a flat baseline
        samples = [self._windows(split, history, self._labelled(split)) for split in ("train", "val")]
        fitted = self._fit(classifier, samples, rate, max_minutes)
        return TrainedClassifier(classifier, fitted, self._predict_windows(classifier, history))

    def _fit(
        self, classifier: keras.Model, samples: list[LabelledSamples], rate: float, max_minutes: float | None = None
    ) -> FitResult:
        batch_size = limited_batch(self.protocol, self.labels)
        plan = SeparateEpochs(rate, batch_size, self.protocol.patience, self.protocol.max_epochs)
        kept = {"folder": self.folder, "on_report": self.on_report, "progress": self.progress}
        return fit(classifier, *samples, self.weights, plan, self.seed, max_minutes, **kept)
