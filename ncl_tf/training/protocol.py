"""How classifiers are trained: the constants of the protocol, and the labels that they learn from."""

import dataclasses

import numpy as np

from ncl_tf.data.cohort import Cohort, SplitData
from ncl_tf.data.declaration import Task
from ncl_tf.errors import InputError
from ncl_tf.networks.heads import class_weights


@dataclasses.dataclass(frozen=True)
class Protocol:
    """The constants of the protocol.

    Attributes:
        rates: learning rate of each head.
        fine_tune_rate: learning rate when the encoder is trained, too.
        balanced: weights of 0.5/(1 - p) and 0.5/p for the classes of a binary task, p the training prevalence.
        batch_size: for all labels; with a fraction of them, the same fraction of it.
        patience: epochs without a better validation loss.
        max_epochs: upper limit of epochs.
        max_minutes: wall time after which fine-tuning ends, with the best epoch so far; None: no cap.
    """

    rates: dict[str, float]
    fine_tune_rate: float = 1e-5
    balanced: bool = False
    batch_size: int = 2048
    patience: int = 20
    max_epochs: int = 1000
    max_minutes: float | None = None

    def __post_init__(self) -> None:
        counts = {"batch_size": self.batch_size, "patience": self.patience, "max_epochs": self.max_epochs}
        for name, value in counts.items():
            if not value >= 1:
                raise InputError(f"protocol.{name} must be 1 or more, got {value}")
        rates = {f"{head}_rate": rate for head, rate in self.rates.items()} | {"fine_tune_rate": self.fine_tune_rate}
        for name, rate in rates.items():
            if not rate > 0:
                raise InputError(f"protocol.{name} must be above 0, got {rate}")


@dataclasses.dataclass(frozen=True)
class TreeProtocol:
    """The constants by which gradient-boosted trees are trained.

    Attributes:
        max_iterations: upper limit of iterations; how many are used is chosen on validation data.
        rate: learning rate, by which the trees of each iteration are shrunk.
        leaves: upper limit of the leaves of a tree.
        balanced: weights of 0.5/(1 - p) and 0.5/p for the classes of a binary task, p the training prevalence.
    """

    max_iterations: int
    rate: float
    leaves: int
    balanced: bool

    def __post_init__(self) -> None:
        for name, lowest in (("max_iterations", 1), ("leaves", 2)):
            if not (value := getattr(self, name)) >= lowest:
                raise InputError(f"trees.{name} must be {lowest} or more, got {value}")
        if not self.rate > 0:
            raise InputError(f"trees.rate must be above 0, got {self.rate}")


def limited_stays(split: SplitData, task: int, fraction: float, seed: int, binary: bool = True) -> np.ndarray:
    """Choose a fraction of the stays, of a binary task the same fraction of those with and without a positive hour.

    Returns their indices, sorted; `task` is the position of the label.
    """
    if not 0 < fraction <= 1:
        raise InputError(f"the fraction of labels must be above 0, up to 1, got {fraction}")
    if seed < 0:
        raise InputError(f"the label seed must be 0 or more, got {seed}")
    strata = {"": np.ones(len(split.patient_windows), bool)}
    if binary:
        positive = np.maximum.reduceat(split.classes[:, task] == 1, split.patient_windows[:, 0])
        strata = {" with a positive hour": positive, " without a positive hour": ~positive}
    generator = np.random.default_rng(seed)
    chosen = []
    for kind, members in strata.items():
        stays = np.flatnonzero(members)
        count = round(fraction * len(stays))
        if len(stays) and not count:
            raise InputError(
                f"the fraction of labels must leave a stay, got {fraction} of the {len(stays)} training stays{kind}"
            )
        chosen.append(generator.permutation(stays)[:count])
    return np.sort(np.concatenate(chosen))


def labelled_rows(split: SplitData, task: int, stays: np.ndarray | None = None) -> np.ndarray:
    """Return the rows with a label in the task, of all stays or of some."""
    labelled = split.classes[:, task] >= 0
    if stays is not None:
        kept = np.zeros(len(split.patient_windows), bool)
        kept[stays] = True
        labelled &= np.repeat(kept, split.lengths)
    return np.flatnonzero(labelled)


def labelled_training(
    cohort: Cohort, task: str, protocol: Protocol | TreeProtocol, labels: float = 1.0, label_seed: int = 0
) -> tuple[np.ndarray, np.ndarray]:
    """Return rows [H] of the training split to learn a task from, and the weight of each class in the loss [K].

    The rows are those of the fraction `labels` of the training stays, chosen by `label_seed`. They must be of two classes, and
    validation hours must be labelled.
    """
    position, declared = cohort.task(task)
    training = cohort["train"]
    stays = None if labels == 1 else limited_stays(training, position, labels, label_seed, declared.kind == "binary")
    rows = labelled_rows(training, position, stays)
    classes = training.classes[rows, position]
    check_classes(classes, declared, "train")
    if not len(labelled_rows(cohort["val"], position)):
        raise InputError(
            f"{cohort.path}: task {task!r}: split 'val' must have labelled hours to choose an epoch by, got none"
        )
    return rows, class_weights(classes, declared.classes, protocol.balanced and declared.kind == "binary")


def limited_batch(protocol: Protocol, labels: float) -> int:
    """Return the batch size for a fraction of the labels: the same fraction of the protocol's."""
    return max(1, round(protocol.batch_size * labels))


def check_classes(classes: np.ndarray, task: Task, split: str) -> None:
    """Refuse labelled hours of one class alone."""
    present = np.unique(classes)
    if len(present) < 2:
        raise InputError(
            f"task {task.name!r}: the labelled hours of split {split!r} must be of two classes, got {present.tolist()}"
        )
