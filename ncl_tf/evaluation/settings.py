"""Settings of an evaluation. Imports no TensorFlow."""

import dataclasses
import math
from collections.abc import Mapping
from typing import Any

from ncl_tf.data.prepared_again import ALL, EXTERNAL
from ncl_tf.data.splits import SPLITS
from ncl_tf.errors import InputError
from ncl_tf.evaluation.events import SILENCE
from ncl_tf.networks import HEADS

OF_ALARMS = ("silence", "horizon", "alarms_per_day")  # what is asked once a classifier is trained
TREES = "trees"  # a head that is no network
RAW_FEATURES = ("last_hour", "window", "engineered")  # those without an encoder
FEATURES = ("representation", *RAW_FEATURES, "representation+last_hour", "representation+engineered")
OF_NETWORKS = ("representation", "last_hour", "window")


@dataclasses.dataclass(frozen=True)
class EvaluationSettings:
    """How a run is evaluated.

    Attributes:
        task: name of the task; None: the cohort's first, or that of an End-to-End run.
        head: 'linear', 'mlp' or 'trees'; None: 'mlp', or that of an End-to-End run.
        features: 'representation', or without the encoder 'last_hour' or 'window'; of trees, `FEATURES`.
        fine_tune: train the encoder, too.
        labels, label_seed: fraction of the training stays whose labels are used, and the choice of them.
        split: which split to report on; of an external cohort also 'all'.
        external: name of another cohort whose stays are scored instead of the run's own; None: there is none.
        silence: hours after an alarm in which no other one is raised.
        horizon: hours before its onset in which an alarm warns of an event; None: the task's.
        alarms_per_day: the alarm threshold lets at most so many alarms per patient-day pass on validation data; None: it is
            the threshold of most utility where the task has one, otherwise that of at most one alarm per patient-day.
    """

    task: str | None = None
    head: str | None = None
    features: str = "representation"
    fine_tune: bool = False
    labels: float = 1.0
    label_seed: int = 0
    split: str = "test"
    silence: int = SILENCE
    horizon: int | None = None
    alarms_per_day: float | None = None
    external: str | None = None

    def __post_init__(self) -> None:
        for name, value, allowed in (
            ("head", self.head, (None, *HEADS, TREES)),
            ("features", self.features, FEATURES),
            ("split", self.split, (*SPLITS, *[ALL] * bool(self.external))),
        ):
            if value not in allowed:
                raise InputError(f"{name} must be one of {', '.join(filter(None, allowed))}, got {value!r}")
        if self.head != TREES and self.features not in OF_NETWORKS:
            raise InputError(
                f"features must be one of {', '.join(OF_NETWORKS)} for head {self.head or 'mlp'}, got {self.features!r}, which "
                "is for trees"
            )
        if self.fine_tune and self.head == TREES:
            raise InputError(
                "with fine_tune, head must be linear or mlp, got 'trees', which give the encoder no gradients"
            )
        if self.fine_tune and self.features != "representation":
            raise InputError(
                f"with fine_tune, features must be representation, got {self.features!r}, which have no encoder"
            )
        if not self.label_seed >= 0:
            raise InputError(f"label_seed must be 0 or more, got {self.label_seed}")
        for name in ("silence", "horizon"):
            if (hours := getattr(self, name)) is not None and not hours >= 0:
                raise InputError(f"{name} must be 0 or more hours, got {hours}")
        if self.alarms_per_day is not None and not 0 < self.alarms_per_day < math.inf:
            raise InputError(f"alarms_per_day must be a number above 0, got {self.alarms_per_day}")

    @property
    def needs_encoder(self) -> bool:
        """Whether the features are, at least in part, of an encoder."""
        return self.features not in RAW_FEATURES

    @property
    def name(self) -> str:
        """The name of the evaluation's files."""
        parts = [self.task, self.head]
        parts += [self.features] * (self.features != "representation") + ["fine_tuned"] * self.fine_tune
        parts += [f"labels_{self.labels:g}_{self.label_seed}"] * (self.labels != 1)
        parts += [f"external_{self.external}"] * bool(self.external)
        parts += [self.split] * (self.split != (ALL if self.external else "test"))
        return "-".join(parts)

    @property
    def scored(self) -> str:
        """The split that is scored, of the run's cohort or of `WithExternal`."""
        return EXTERNAL if self.external else self.split

    @property
    def on_own_test(self) -> bool:
        """Whether the test split of the run's cohort is scored."""
        return self.scored == "test"

    @property
    def stays(self) -> str:
        """What is scored, in words."""
        if not self.external:
            return f"{self.split} split"
        return f"{'all stays' if self.split == ALL else f'{self.split} split'} of {self.external}"

    @property
    def of_training(self) -> dict[str, Any]:
        """The settings that the training of the classifier depends on, and the split that it is to score, by name."""
        return {name: value for name, value in dataclasses.asdict(self).items() if name not in (*OF_ALARMS, "external")}

    @property
    def of_alarms(self) -> dict[str, Any]:
        """The settings that change nothing but how alarms are raised and counted, by name."""
        return {name: getattr(self, name) for name in OF_ALARMS}


def share_of_labels(result: Mapping[str, Any]) -> float:
    """Return the fraction of the training stays whose labels were used, by a result's head or by End-to-End in training."""
    return result["settings"]["labels"] * float(result["config"].get("end_to_end.labels", 1))
