"""Reader of cohorts that YAIB writes: a folder with dyn.parquet, sta.parquet and outc.parquet."""

import dataclasses
import pathlib

import numpy as np
import pyarrow as pa
import pyarrow.parquet

from ncl_tf.data.concepts import CONCEPTS, HOUR
from ncl_tf.data.declaration import Channel, Dataset, Task
from ncl_tf.data.sources import arrow, columns, table
from ncl_tf.data.stays import Stays
from ncl_tf.errors import InputError, placed, reading

FILES = ("dyn.parquet", "sta.parquet", "outc.parquet")
STAY = "stay_id"
TASKS = {
    "sepsis": Task("sepsis"),
    "aki": Task("aki"),
    "mortality24": Task("mortality24"),
    "los": Task("los", kind="bins", edges=(24, 48, 72, 96, 120, 144, 168)),  # hours; YAIB caps labels at 168
}
LABEL_PER_STAY = "mortality24"  # which belongs to the last hour
# The columns of a stay and its patient, in tables of ricu's, MIMIC's and eICU's.
PATIENTS = (("stay_id", "subject_id"), ("icustay_id", "subject_id"), ("patientunitstayid", "uniquepid"))


def find_task(folders: list[pathlib.Path], name: str | None) -> Task:
    """Look up the task by its name, or else by that of the folder which the sources are in."""
    names = [name] if name else sorted({folder.absolute().parent.name for folder in folders})
    if names == ["kidney_function"]:
        raise InputError(
            f"the task must be one of {', '.join(TASKS)}, got 'kidney_function': it predicts a number, the creatinine of the "
            "second day, and heads predict classes"
        )
    if len(names) > 1 or names[0] not in TASKS:
        raise InputError(
            f"the task must be one of {', '.join(TASKS)}, got {' and '.join(map(repr, names))} "
            + ("from --task" if name else "from the folders that the sources are in; name it by --task")
        )
    return TASKS[names[0]]


def declare(folder: pathlib.Path, task: Task) -> Dataset:
    """Declare the channels that a folder's files have: static ones, the hour, then concepts, known ones in our order."""
    order = list(CONCEPTS)
    channels = []
    for name, static in (("sta.parquet", True), ("dyn.parquet", False)):
        found = [column for column in _columns(folder / name) if column not in (STAY, HOUR.name)]
        found.sort(key=lambda column: order.index(column) if column in order else len(order))
        channels += [HOUR] * (not static)
        channels += [dataclasses.replace(CONCEPTS.get(column, Channel(column)), static=static) for column in found]
    with reading(folder, "a folder that YAIB wrote"):
        return Dataset("yaib", tuple(channels), (task,), HOUR.name)


def without_range(dataset: Dataset) -> list[str]:
    """Name the concepts that we know no plausible range of."""
    return [channel.name for channel in dataset.channels if channel.name not in (*CONCEPTS, HOUR.name)]


def read_stays(folder: pathlib.Path, dataset: Dataset, patients: pathlib.Path | None = None) -> Stays:
    """Read the stays of a folder, with the patients that a table names, if there is one."""
    own = declare(folder, dataset.tasks[0])
    if differing := sorted({channel.name for channel in dataset.channels} ^ {channel.name for channel in own.channels}):
        raise InputError(
            f"{folder}: must have the same concepts as the first source; those that differ: {', '.join(differing)}"
        )
    static = tuple(channel for channel in dataset.channels if channel.static)
    dynamic = dataclasses.replace(dataset, channels=dataset.channels[len(static) :])
    dyn, place = _open(folder / "dyn.parquet", [STAY, *(channel.name for channel in dynamic.channels)])
    names, index, _, hours, values = table.read_rows(dyn, dynamic, STAY, HOUR.name, place)
    lengths = np.bincount(index)
    begins = hours[np.cumsum(lengths) - lengths]
    with placed(folder):
        stays = Stays.from_rows(names, lengths, hours, values, np.full((len(hours), 1), np.nan, np.float32))
    of_stay = _read_static(folder / "sta.parquet", static, names)
    values = np.empty((len(stays.values), len(dataset.channels)), np.float32, order="F")
    for position in range(len(static)):
        values[:, position] = np.repeat(of_stay[:, position], stays.lengths)
    values[:, len(static) :] = stays.values
    stays.values, stays.labels = values, stays.labels.copy()
    stays.fill_hours(len(static))
    _fill_labels(folder / "outc.parquet", dataset.tasks[0], stays, begins)
    if patients is not None:
        stays.subjects = read_patients(patients, names)
    return stays


def _read_static(path: pathlib.Path, static: tuple[Channel, ...], names: np.ndarray) -> np.ndarray:
    """Read what is known of each stay at admission: [stays, channels]."""
    sta, place = _open(path, [STAY, *(channel.name for channel in static)])
    row = _row_of_stays(sta, names, place, path)
    return (
        np.stack([columns.numbers(sta[c.name], c, place)[row] for c in static], axis=1)
        if static
        else np.empty((len(names), 0))
    )


def _fill_labels(path: pathlib.Path, task: Task, stays: Stays, begins: np.ndarray) -> None:
    """Write the labels of outc.parquet into those of stays, which begin at some hours [stays]."""
    hourly = HOUR.name in _columns(path)
    if not hourly and task.name != LABEL_PER_STAY:
        raise InputError(f"{path}: must have the column {HOUR.name!r}, since labels of {task.name} are hourly")
    outc, place = _open(path, [STAY, "label", *[HOUR.name] * hourly])
    labels = columns.numbers(outc["label"], Channel("label"), place)
    wrong, allowed = ~np.isin(labels, (0, 1)), "0 or 1"
    if task.kind == "bins":
        if pa.types.is_boolean(outc["label"].type):
            raise InputError(
                f"{path}, column label: labels of {task.name} must be hours, got booleans, of another task"
            )
        wrong, allowed = labels < 0, "hours, 0 or more,"
    for row in np.flatnonzero(wrong & ~np.isnan(labels)):
        raise InputError(
            f"{place(row)}, column label: labels of {task.name} must be {allowed} or empty, got {labels[row]:g}"
        )
    if not hourly:
        row = _row_of_stays(outc, stays.names, place, path)
        stays.labels[np.cumsum(stays.lengths) - 1, 0] = labels[row]
        return
    index, names = columns.identifiers(outc[STAY], STAY, place)
    _check_same_stays(names, stays.names, path)
    hours = table.read_hours(outc, HOUR.name, None, index, names, place)
    offset = hours - begins[index]
    for row in np.flatnonzero((offset < 0) | (offset >= stays.lengths[index])):
        last = begins[index[row]] + stays.lengths[index[row]] - 1
        raise InputError(
            f"{place(row)}: hour {hours[row]:g} of stay {names[index[row]]} must be among its hours in dyn.parquet, "
            f"{begins[index[row]]:g} to {last:g}"
        )
    target = stays.first_rows[index] + offset.astype(np.int64)
    order = np.argsort(target, kind="stable")
    for row in np.flatnonzero(np.diff(target[order]) == 0) + 1:
        raise InputError(
            f"{place(order[row])}: stay {names[index[order[row]]]}, hour {hours[order[row]]:g} must occur once; it also "
            f"occurs at {place(order[row - 1])}"
        )
    stays.labels[target, 0] = labels


def read_patients(path: pathlib.Path, stays: np.ndarray) -> np.ndarray:
    """Look up the patient of each stay [stays] in a table, .csv or .parquet."""
    found = {name.lower(): name for name in arrow.read_table(path).column_names}
    pair = next((pair for pair in PATIENTS if set(pair) <= set(found)), None)
    if pair is None:
        pairs = "; ".join(" and ".join(pair) for pair in PATIENTS)
        raise InputError(
            f"{path}: must have the columns of a stay and its patient, {pairs}; got {', '.join(found.values())}"
        )
    stay, patient = (found[name] for name in pair)
    rows, place = arrow.open_tables([path], [stay, patient], "name stays and patients")
    (index, names), (of_row, patients) = (columns.identifiers(rows[name], name, place) for name in (stay, patient))
    patient_of = dict(zip(names, table.of_stays(patients[of_row], patient, index, names, place), strict=True))
    for name in stays:
        if name not in patient_of:
            raise InputError(f"{path}: must name the patient of each stay, got none for stay {name}")
    return np.array([patient_of[name] for name in stays])


def _row_of_stays(rows: pa.Table, stays: np.ndarray, place: columns.Place, path: pathlib.Path) -> np.ndarray:
    """Find the one row of each stay [stays] in a table with a row per stay."""
    index, names = columns.identifiers(rows[STAY], STAY, place)
    _check_same_stays(names, stays, path)
    order = np.argsort(index, kind="stable")
    for row in np.flatnonzero(np.diff(index[order]) == 0) + 1:
        raise InputError(
            f"{place(order[row])}: stay {names[index[order[row]]]} must occur once; it also occurs at {place(order[row - 1])}"
        )
    return order


def _check_same_stays(names: np.ndarray, stays: np.ndarray, path: pathlib.Path) -> None:
    """Refuse a file with other stays than dyn.parquet."""
    only = [np.setdiff1d(names, stays), np.setdiff1d(stays, names)]
    if len(only[0]) or len(only[1]):
        where = [
            f"{len(some)} only in {name}, such as {some[0]},"
            for some, name in zip(only, (path.name, FILES[0]), strict=True)
            if len(some)
        ]
        raise InputError(f"{path}: must have the same stays as {FILES[0]}, got {' and '.join(where).rstrip(',')}")


def _columns(path: pathlib.Path) -> list[str]:
    if not path.exists():
        raise InputError(
            f"{path.parent}: must be a folder with {', '.join(FILES)}, got none or one without {path.name}"
        )
    with reading(path, "a table that can be read", pa.ArrowException):
        return pa.parquet.read_schema(path).names


def _open(path: pathlib.Path, names: list[str]) -> tuple[pa.Table, columns.Place]:
    return arrow.open_tables([path], names, "YAIB writes")
