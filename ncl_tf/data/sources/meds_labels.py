"""Labels of MEDS stays: from label files, by the time of the prediction, or from the time until an event."""

import pathlib
from typing import NamedTuple

import numpy as np
import pyarrow as pa

from ncl_tf.data.declaration import Task
from ncl_tf.data.sources.columns import MICROSECONDS_PER_HOUR as HOUR
from ncl_tf.data.sources.meds_events import NO_TIME, holds_text, microseconds, read_parquet, time_text
from ncl_tf.data.sources.meds_periods import Periods, latest
from ncl_tf.data.sources.meds_schema import MedsSchema, Until
from ncl_tf.errors import InputError

NUMBERS = {
    "boolean_value": (pa.types.is_boolean, "a boolean"),
    "integer_value": (pa.types.is_integer, "an integer"),
    "float_value": (pa.types.is_floating, "a number"),
}
TYPES = {
    "subject_id": (pa.types.is_integer, "an integer"),
    "prediction_time": (lambda kind: pa.types.is_timestamp(kind) and kind.tz is None, "a timestamp without time zone"),
    **NUMBERS,
    "categorical_value": (holds_text, "a string"),
}


class LabelFiles(NamedTuple):
    """The labels of a task, sorted by subject and time.

    Attributes:
        subject, time: [labels] int64, microseconds.
        value: [labels] float64.
        file, row: [labels] where each one is; `paths` are the files.
    """

    paths: list[pathlib.Path]
    file: np.ndarray
    row: np.ndarray
    subject: np.ndarray
    time: np.ndarray
    value: np.ndarray

    def place(self, label: int) -> str:
        """Name the file, row, subject and time of a label, for messages."""
        path = self.paths[self.file[label]]
        return f"{path}, row {self.row[label]}: subject {self.subject[label]}, {time_text(self.time[label])}"


def label_paths(schema: MedsSchema, folder: pathlib.Path | None) -> dict[int, list[pathlib.Path]]:
    """List the label files of each task that needs them: those in the subfolder of its name, or all if it is the only one."""
    tasks = [(i, schema.dataset.tasks[i].name) for i in schema.labelled]
    if tasks and folder is None:
        raise InputError(
            f"--labels=DIR must name the label files of task {tasks[0][1]!r}, which has no 'until' in the schema"
        )
    if folder is not None and not tasks:
        raise InputError(f"--labels: all tasks of the schema come from events ('until'), so none needs {folder}")
    paths = {}
    for position, name in tasks:
        own = folder / name
        if not own.is_dir() and len(tasks) > 1:
            raise InputError(f"{folder}: must have a folder {name!r} for the labels of that task, one of {len(tasks)}")
        paths[position] = sorted((own if own.is_dir() else folder).rglob("*.parquet"))
        if not paths[position]:
            raise InputError(f"{own if own.is_dir() else folder}: must hold label files, *.parquet, got none")
    return paths


def read_label_files(paths: list[pathlib.Path], task: Task) -> LabelFiles:
    """Read the label files of a task."""
    parts = []
    for file, path in enumerate(paths):
        table = read_parquet(path, TYPES, ("subject_id", "prediction_time"))
        for name in ("subject_id", "prediction_time"):
            for row in np.flatnonzero(table[name].is_null()):
                raise InputError(f"{path}, row {row}, column {name}: must not be null")
        subject = table["subject_id"].cast(pa.int64()).to_numpy()
        time = microseconds(table["prediction_time"])
        parts.append((np.full(len(table), file), np.arange(len(table)), subject, time, _values(table, path, task)))
    labels = LabelFiles(paths, *map(np.concatenate, zip(*parts, strict=True)))
    order = np.lexsort((labels.time, labels.subject))
    labels = LabelFiles(paths, *(part[order] for part in labels[1:]))
    for label in np.flatnonzero((np.diff(labels.subject) == 0) & (np.diff(labels.time) == 0)) + 1:
        raise InputError(f"{labels.place(label)}: must have one label, got another in {labels.place(label - 1)}")
    return labels


def _values(table: pa.Table, path: pathlib.Path, task: Task) -> np.ndarray:
    """Read the labels' only column of values: [labels] float64."""
    used = [name for name in [*NUMBERS, "categorical_value"] if name in table.column_names]
    used = [name for name in used if table[name].null_count < len(table)]
    if len(used) != 1 or used[0] not in NUMBERS:
        raise InputError(
            f"{path}: labels of task {task.name!r} must be in one column of {', '.join(NUMBERS)}, got "
            f"{' and '.join(used) or 'none'}"
        )
    column = table[used[0]]
    value = column.cast(pa.int64() if used[0] == "boolean_value" else column.type).to_numpy().astype(np.float64)
    allowed = np.isin(value, (0, 1)) if task.kind == "binary" else np.isfinite(value)
    for row in np.flatnonzero(~allowed):  # true of null, too
        words = "0 or 1, or false or true" if task.kind == "binary" else "a number"
        raise InputError(f"{path}, row {row}, column {used[0]}: must be {words}, got {column[int(row)].as_py()}")
    return value


def hours_of(periods: Periods) -> tuple[np.ndarray, np.ndarray]:
    """List stay and time, int64 microseconds, of all hours on the grid."""
    lengths = periods.lengths
    stay = np.repeat(np.arange(len(lengths)), lengths)
    hour = np.arange(len(stay)) - np.repeat(np.cumsum(lengths) - lengths, lengths)
    return stay, periods.opened[stay] + hour * HOUR


def put_on_grid(labels: LabelFiles, periods: Periods) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Put labels at the last hour at or before the time of the prediction, so that nothing later is seen.

    Returns:
        [hours] float32, NaN where unlabelled; [hours] int64, the labels' own times, NO_TIME where unlabelled; of each label
        the stay, -1 if it lies outside of all. Of several labels in an hour, the last one stays.
    """
    lengths = periods.lengths
    stay = periods.at(labels.subject, labels.time)
    inside = stay >= 0
    offset = (labels.time[inside] - periods.opened[stay[inside]]) // HOUR
    row = (np.cumsum(lengths) - lengths)[stay[inside]] + offset
    value, time = np.full(lengths.sum(), np.nan, np.float32), np.full(lengths.sum(), NO_TIME)
    value[row], time[row] = labels.value[inside], labels.time[inside]
    return value, time, stay


def event_labels(
    until: Until, periods: Periods, subject: np.ndarray, time: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    """Label hours by the time until the subject's next event, of those at [events] `subject` and `time`.

    Hours at or after the end of the stay are unlabelled.

    Returns:
        [hours] float32: 1 in the hours `within` hours before an event and 0 in others; or, without `within`, the hours until
        the event, NaN if none follows. [hours] int64: the time of the hour.
    """
    stay, at = hours_of(periods)
    event = latest(periods.subject[stay], -at - 1, subject, -time)  # the first one after the hour
    hours = np.where(event >= 0, (np.append(time, 0)[event] - at) / HOUR, np.inf)
    labels = hours <= until.within if until.within is not None else np.where(np.isinf(hours), np.nan, hours)
    labels = np.where(at < periods.closed[stay], labels, np.nan).astype(np.float32)
    return labels, np.where(np.isnan(labels), NO_TIME, at)
