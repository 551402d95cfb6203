"""Settings of an evaluation. Imports no TensorFlow."""

import dataclasses
from collections.abc import Mapping
from typing import Any

from ncl_tf.data.splits import SPLITS
from ncl_tf.errors import InputError
from ncl_tf.networks import HEADS

FEATURES = ("representation", "last_hour", "window")


@dataclasses.dataclass(frozen=True)
class EvaluationSettings:
    """How a run is evaluated.

    Attributes:
        task: name of the task; None: the cohort's first, or that of an End-to-End run.
        head: 'linear' or 'mlp'; None: 'mlp', or that of an End-to-End run.
        features: 'representation', or as sanity baselines the raw 'last_hour' or 'window'.
        fine_tune: train the encoder, too.
        labels, label_seed: fraction of the training stays whose labels are used, and the choice of them.
        split: which split to report on.
    """

    task: str | None = None
    head: str | None = None
    features: str = "representation"
    fine_tune: bool = False
    labels: float = 1.0
    label_seed: int = 0
    split: str = "test"

    def __post_init__(self) -> None:
        for name, value, allowed in (
            ("head", self.head, (None, *HEADS)),
            ("features", self.features, FEATURES),
            ("split", self.split, SPLITS),
        ):
            if value not in allowed:
                raise InputError(f"{name} must be one of {', '.join(filter(None, allowed))}, got {value!r}")
        if self.fine_tune and self.features != "representation":
            raise InputError(
                f"with fine_tune, features must be representation, got {self.features!r}, which have no encoder"
            )
        if not self.label_seed >= 0:
            raise InputError(f"label_seed must be 0 or more, got {self.label_seed}")

    @property
    def name(self) -> str:
        """The name of the evaluation's files."""
        parts = [self.task, self.head]
        parts += [self.features] * (self.features != "representation") + ["fine_tuned"] * self.fine_tune
        parts += [f"labels_{self.labels:g}_{self.label_seed}"] * (self.labels != 1)
        parts += [self.split] * (self.split != "test")
        return "-".join(parts)


def share_of_labels(result: Mapping[str, Any]) -> float:
    """Return the fraction of the training stays whose labels were used, by a result's head or by End-to-End in training."""
    return result["settings"]["labels"] * float(result["config"].get("end_to_end.labels", 1))
