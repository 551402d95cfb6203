"""Predicted probabilities of stays, and the files that hold them."""

import pathlib
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.csv
import pyarrow.parquet

from ncl_tf import files
from ncl_tf.data.cohort import SplitData
from ncl_tf.data.declaration import Task
from ncl_tf.errors import InputError

ALARM = 0.5  # the challenge's predicted label is 1 above this probability


class Scores(NamedTuple):
    """Scored stays, hours stacked.

    Attributes:
        names, lengths: [stays] identifier and number of scored hours.
        hours: [hours] of the stay, as the source counts them; of a cohort, since the stay's first row.
        probabilities: [hours, K].
        risks: [hours] calibrated, of the positive class; None where the model gives none.
    """

    names: np.ndarray
    lengths: np.ndarray
    hours: np.ndarray
    probabilities: np.ndarray
    risks: np.ndarray | None = None


def write(folder: pathlib.Path, scores: Scores, form: str) -> None:
    """Write `folder`: a file per stay in the challenge's form, or one table predictions.csv or predictions.parquet."""
    with files.atomic_folder(folder) as new:
        if form == "psv":
            write_psv(new, scores)
            return
        columns = {"stay": np.repeat(scores.names, scores.lengths), "hour": scores.hours}
        columns |= {f"probability_{k}": values for k, values in enumerate(scores.probabilities.T)}
        columns |= {} if scores.risks is None else {"risk": scores.risks}
        table = pa.table({name: np.ascontiguousarray(column) for name, column in columns.items()})
        if form == "csv":
            pa.csv.write_csv(table, new / "predictions.csv")
        else:
            pa.parquet.write_table(table, new / "predictions.parquet")


def write_psv(folder: pathlib.Path, scores: Scores) -> None:
    """Write one NAME.psv per stay, a row per hour: the probability of class 1 and whether it is an alarm."""
    if (classes := scores.probabilities.shape[1]) != 2:
        raise InputError(f"the challenge's form, psv, must have 2 classes, got {classes}; choose csv or parquet")
    for name in scores.names:
        if pathlib.PurePath(name).name != name:
            raise InputError(f"stay '{name}' cannot be a file name; choose csv or parquet")
    lines = [f"{p:.6g}|{int(p > ALARM)}" for p in scores.probabilities[:, 1].tolist()]
    for name, last, length in zip(scores.names, np.cumsum(scores.lengths), scores.lengths, strict=True):
        text = "\n".join(["PredictedProbability|PredictedLabel", *lines[last - length : last], ""])
        (folder / f"{name}.psv").write_text(text, encoding="utf-8")


def write_predictions(
    path: pathlib.Path, split: SplitData, task: int, predictions: np.ndarray, risks: np.ndarray | None = None
) -> None:
    """Write every hour of the split: stay, hour, label (null where unlabelled), class where labels are numbers of another kind,
    probability of each class, and risk if given.

    predictions: [H, K]; risks: [H].
    """
    labels, classes = split.labels[:, task], split.classes[:, task]
    columns = {"stay": np.repeat(split.stay_names, split.lengths), "hour": split.hour}
    columns["label"] = pa.array(labels, from_pandas=True)
    if (labels != classes)[classes >= 0].any():
        columns["class"] = pa.array(classes, mask=classes < 0)
    columns |= {f"probability_{k}": predictions[:, k] for k in range(predictions.shape[1])}
    columns |= {} if risks is None else {"risk": risks.astype(np.float32)}
    with files.atomic_path(path) as partial:
        pa.parquet.write_table(pa.table(columns), partial)


def write_meds(path: pathlib.Path, split: SplitData, task: int, predictions: np.ndarray) -> None:
    """Write every labelled hour of the split in the form of the Medical Event Data Standard, which meds-evaluation reads."""
    labelled = split.classes[:, task] >= 0
    columns = {
        "subject_id": np.repeat(split.subjects.astype(np.int64), split.lengths)[labelled],
        "prediction_time": split.label_times[labelled, task].astype("datetime64[us]"),
        "boolean_value": split.classes[labelled, task] == 1,
        "predicted_boolean_probability": predictions[labelled, 1].astype(np.float32),
    }
    with files.atomic_path(path) as partial:
        pa.parquet.write_table(pa.table(columns), partial)


def check_meds(path: pathlib.Path, task: Task, split: SplitData) -> None:
    """Refuse, before any work is done, what cannot be written in the form of MEDS, and a file that exists."""
    if task.kind != "binary":
        raise InputError(f"--write_meds: the task must be binary, got {task.name!r} with {task.classes} classes")
    if split.subjects is None or split.label_times is None:
        raise InputError(
            "--write_meds: the cohort must know subjects and times, as those of `bin/prepare meds` do, got neither"
        )
    files.check_output(path, overwrite=False)


def check_psv(folder: pathlib.Path, task: Task, stays: Sequence[str]) -> None:
    """Refuse, before any work is done, what cannot be written in the challenge's form or would mix with other files."""
    if task.kind != "binary":
        raise InputError(
            f"--write_psv: the task must be binary in the challenge's form, got {task.name!r} with {task.classes} classes"
        )
    if folder.exists() and (not folder.is_dir() or any(folder.iterdir())):
        raise InputError(f"{folder}: must be a new or empty folder for --write_psv")
    for stay in stays:
        if "/" in stay:
            raise InputError(f"--write_psv: stay {stay!r} cannot be a file name, as it contains a /")
