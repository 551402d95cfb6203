"""Risks and alarms of a trained classifier for a binary task: what is fitted and chosen on validation data alone."""

import dataclasses
from typing import Any

import numpy as np

from ncl_tf.data.declaration import Task
from ncl_tf.errors import InputError
from ncl_tf.evaluation.calibration import Calibrator, calibration_metrics, fit_calibrator
from ncl_tf.evaluation.events import AlarmPolicy, count_alarms, threshold_of_rate
from ncl_tf.evaluation.settings import OF_ALARMS, EvaluationSettings
from ncl_tf.evaluation.utility import best_threshold, stay_of_hours, utility

ALARMS_PER_DAY = 1.0  # of a patient, for tasks without a utility


@dataclasses.dataclass(frozen=True)
class HourScores:
    """The hours of a split: what a classifier predicts, and what happened.

    Attributes:
        probabilities: [H] of the positive class, of all hours.
        labels: [H] 0 or 1, NaN where unlabelled.
        lengths: [S] hours of each stay.
    """

    probabilities: np.ndarray
    labels: np.ndarray
    lengths: np.ndarray

    @property
    def labelled(self) -> "HourScores":
        """The labelled hours alone; a stay may have none."""
        rows = ~np.isnan(self.labels)
        stay = stay_of_hours(self.lengths, len(self.labels))
        lengths = np.bincount(stay[rows], minlength=len(self.lengths))
        return HourScores(self.probabilities[rows], self.labels[rows], lengths)


@dataclasses.dataclass(frozen=True)
class AlarmChoice:
    """The threshold above which a probability raises an alarm, and how it was chosen.

    Attributes:
        threshold: of the classifier's probability, whose classes may have been weighted in training.
        aim: what it was chosen for: "utility", of which it has the most, or "alarms_per_day", of which it has at most ...
        alarms_per_day: ... so many; None if the aim is the utility.
        policy: by which alarms are raised and counted.
        validation: what it reaches on validation data: recall of events, precision of alarms, alarms_per_day and, where the
            task has one, utility; None where it is not defined.
    """

    threshold: float
    aim: str
    alarms_per_day: float | None
    policy: AlarmPolicy
    validation: dict[str, float | None]


@dataclasses.dataclass(frozen=True)
class Risks:
    """What turns the probabilities of one classifier into risks and alarms.

    Attributes:
        calibrator: maps probabilities to risks.
        fold_log_loss: of each kind of calibrator, on the validation stays; see `fit_calibrator`.
        alarm: the choice of the alarm threshold.
    """

    calibrator: Calibrator
    fold_log_loss: dict[str, float | None]
    alarm: AlarmChoice

    def to_json(self, scores: HourScores) -> dict[str, Any]:
        """Return `calibration` and `alarm` of an evaluation's JSON, with the calibration of the scores as the split has it."""
        labelled, alarm = scores.labelled, self.alarm
        return {
            "calibration": {
                "calibrator": self.calibrator.to_json(),
                "fold_log_loss": self.fold_log_loss,
                "before": calibration_metrics(labelled.probabilities, labelled.labels),
                "after": calibration_metrics(self.calibrator(labelled.probabilities), labelled.labels),
            },
            "alarm": {
                "threshold": alarm.threshold,
                "risk": float(self.calibrator(alarm.threshold)),
                "aim": alarm.aim,
                "alarms_per_day": alarm.alarms_per_day,
                **dataclasses.asdict(alarm.policy),
                "validation": alarm.validation,
            },
        }


def check_task(settings: EvaluationSettings, task: Task, classes: np.ndarray) -> None:
    """Refuse, before the training, what no risks or alarms can come of; classes: [H] of validation hours, -1 unlabelled."""
    if task.kind != "binary":
        usual = EvaluationSettings().of_alarms
        for name in OF_ALARMS:
            if (value := settings.of_alarms[name]) != usual[name]:
                raise InputError(
                    f"task {task.name!r}: must be binary for {name}, as others raise no alarms, got {task.classes} classes "
                    f"and {name} {value}"
                )
        return
    labelled, positives = int(np.sum(classes >= 0)), int(np.sum(classes == 1))
    if not 0 < positives < labelled:
        raise InputError(
            f"task {task.name!r}: split 'val' must have positive and negative hours to calibrate risks and choose an alarm "
            f"threshold, got {positives} positive among {labelled} labelled hours"
        )


def fit_risks(validation: HourScores, task: Task, settings: EvaluationSettings) -> Risks:
    """Fit the calibrator and choose the alarm threshold for what the settings ask, both on validation data."""
    labelled = validation.labelled
    calibrator, losses = fit_calibrator(labelled.probabilities, labelled.labels, labelled.lengths)
    return Risks(calibrator, losses, choose_alarm(validation, task, settings))


def alarm_policy(task: Task, settings: EvaluationSettings) -> AlarmPolicy:
    """Return how alarms are raised and counted for a task."""
    horizon = task.warning_horizon if settings.horizon is None else settings.horizon
    return AlarmPolicy(horizon, settings.silence, task.onset_lead)


def choose_alarm(validation: HourScores, task: Task, settings: EvaluationSettings) -> AlarmChoice:
    """Choose the threshold of most utility, or the lowest one with at most a number of alarms per patient-day."""
    policy, labelled = alarm_policy(task, settings), validation.labelled
    hours = validation.probabilities, validation.labels, validation.lengths, policy
    if task.has_utility and settings.alarms_per_day is None:
        aim, rate = "utility", None
        threshold = best_threshold(labelled.probabilities, labelled.labels, labelled.lengths)
    else:
        aim, rate = "alarms_per_day", settings.alarms_per_day or ALARMS_PER_DAY
        threshold = threshold_of_rate(*hours, rate)
    curve = count_alarms(*hours, thresholds=np.array([threshold])).curve()
    reached = {name: None if np.isnan(value[0]) else float(value[0]) for name, value in curve.items()}
    if task.has_utility:
        reached["utility"] = utility(labelled.probabilities > threshold, labelled.labels, labelled.lengths)
    return AlarmChoice(threshold, aim, rate, policy, reached)
