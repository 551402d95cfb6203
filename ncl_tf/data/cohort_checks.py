"""What a cohort file must hold: its layout, and values that can be right.

Errors name the place in the file; `ncl_tf.data.hdf5.opened` puts the file before it.
"""

import json
from collections.abc import Sequence
from typing import Any

import h5py
import numpy as np

from ncl_tf.data import hdf5
from ncl_tf.data.datasets import LENGTH_OF_STAY_EDGES, MIMIC3_BENCHMARK, PHYSIONET2019
from ncl_tf.data.declaration import Task
from ncl_tf.data.preprocessing import Preprocessor
from ncl_tf.data.splits import SPLITS
from ncl_tf.errors import InputError

FORMAT_VERSION = 1
STATISTICS = ("measured", "known", "min", "mean", "max")


def format_version(file: h5py.File) -> int:
    """Check groups and attributes, and return the format version; 0 in a file of the authors' code."""
    version = int(file.attrs.get("format_version", 0))
    if not 0 <= version <= FORMAT_VERSION:
        raise InputError(f"format_version must be at most {FORMAT_VERSION}, got {version}; update ncl_tf")
    groups = ("data", "labels", "patient_windows") + (("stay_names",) if version else ())
    for name in [f"{group}/{split}" for group in groups for split in SPLITS]:
        if name not in file:
            raise InputError(
                f"no dataset {name!r}; a cohort file has {', '.join(groups)}, each with {', '.join(SPLITS)}"
            )
    for group, attribute in (("data", "columns"), ("labels", "tasks")):
        if attribute not in file[group].attrs:
            raise InputError(f"group {group!r} has no attribute {attribute!r}")
    if version and "preprocessor" not in file.attrs:
        raise InputError(f"no attribute 'preprocessor', which a file of format version {version} has")
    return version


def check_declaration(
    file: h5py.File, columns: list[str], tasks: Sequence[Task], preprocessor: Preprocessor | None
) -> None:
    """Refuse columns and tasks that are not those of the declaration, or are none."""
    names = hdf5.decoded(file["labels"].attrs["tasks"])
    declared = [task.name for task in tasks]
    if names != declared or not names:
        raise InputError(f"attribute 'tasks' must be {', '.join(declared)}, as declared, got {', '.join(names)}")
    if preprocessor and columns != preprocessor.dataset.columns:
        raise InputError(
            f"attribute 'columns' must be {', '.join(preprocessor.dataset.columns)}, as declared, got {', '.join(columns)}"
        )


def channel_statistics(file: h5py.File, preprocessor: Preprocessor | None) -> dict[str, Any]:
    """Read what is known of each channel; empty in files without it."""
    found = json.loads(file.attrs.get("channel_statistics", "{}"))
    if found and preprocessor:
        channels = [channel.name for channel in preprocessor.dataset.channels]
        kinds = {type(found[channel][name]) for channel in channels for name in STATISTICS}
        if list(found) != channels or not kinds <= {int, float, type(None)}:
            raise InputError(f"channel_statistics must have numbers of {', '.join(channels)}, got {', '.join(found)}")
    return found


def windows(file: h5py.File, split: str) -> np.ndarray:
    """Read first row, last row and id of the stays: [stays, 3] int32."""
    found = hdf5.array(file, f"patient_windows/{split}", (2,), "iuf")
    rounded = found.astype(np.int32)
    if found.shape[1] != 3 or not np.array_equal(found, rounded):
        raise InputError(f"patient_windows/{split}: must have three whole numbers below 2^31 for each stay")
    return rounded


def check_rows(
    split: str,
    data: np.ndarray,
    labels: np.ndarray,
    windows: np.ndarray,
    names: np.ndarray | None,
    subjects: np.ndarray | None,
    times: np.ndarray | None,
) -> None:
    """Refuse stays that do not cover all rows, one after the other, and arrays of other stays or rows."""
    starts = np.append(0, windows[:, 1] + 1)  # where each stay must begin, and the end of the last one
    covered = np.array_equal(starts, np.append(windows[:, 0], len(data))) and (windows[:, 1] >= windows[:, 0]).all()
    if not covered or len(labels) != len(data):
        raise InputError(
            f"patient_windows/{split} and labels/{split} do not cover the {len(data)} rows of data/{split}, stay after stay"
        )
    for what, found in (("stay_names", names), ("subjects", subjects)):
        if found is not None and len(found) != len(windows):
            raise InputError(f"{what}/{split}: must have a text for each of {len(windows)} stays, got {len(found)}")
    if names is not None and len(set(names.tolist())) < len(names):
        raise InputError(f"stay_names/{split}: must name each stay once")
    if times is not None and times.shape != labels.shape:
        raise InputError(f"label_times/{split}: must have the shape {labels.shape} of labels, got {times.shape}")


def check_values(file: h5py.File, split: str, data: np.ndarray, labels: np.ndarray, tasks: Sequence[Task]) -> None:
    """Refuse data that is not finite, and labels that their task does not allow."""
    columns = hdf5.decoded(file["data"].attrs["columns"])
    for what, found, names in (("data", data, columns), ("labels", labels, [task.name for task in tasks])):
        if found.shape[1] != len(names):
            raise InputError(f"{what}/{split}: must have {len(names)} columns, as the file names, got {found.shape[1]}")
    if not np.isfinite([data.min(initial=0), data.max(initial=0)]).all():
        row, column = np.argwhere(~np.isfinite(data))[0]
        raise InputError(
            f"data/{split}, row {row}, column {columns[column]}: must be a finite number, got {data[row, column]}"
        )
    for position, task in enumerate(tasks):
        values = labels[:, position]
        wrong = ~np.isnan(values) & ~((values == 0) | (values == 1) if task.kind == "binary" else np.isfinite(values))
        for row in np.flatnonzero(wrong):
            allowed = "0, 1" if task.kind == "binary" else "a finite number"
            raise InputError(
                f"labels/{split}, row {row}, task {task.name}: must be {allowed} or NaN (unlabelled), got {values[row]:g}"
            )


def recognize(columns: list[str]) -> tuple[str, int]:
    """Dataset and number of static columns of a file without attributes, by the names of its first columns."""
    for dataset in (PHYSIONET2019, MIMIC3_BENCHMARK):
        static = {channel.name for channel in dataset.channels if channel.static}
        leading = [column.split("_cat")[0] in static for column in columns]
        if leading[0]:
            return dataset.name, leading.index(False) if False in leading else len(leading)
    raise InputError(
        "a cohort file without format version is read only for physionet2019 and mimic3_benchmark, known by "
        f"their static columns, which come first; the first column is {columns[0]!r}"
    )


def foreign_task(file: h5py.File, position: int, name: str) -> Task:
    """A task of a file without declaration: binary if its labels are, else hours of stay in the paper's bins."""
    labels = hdf5.array(file, "labels/train", (1, 2), "fiub")
    labels = labels.reshape(len(labels), -1)[:, position]
    binary = np.isin(labels[~np.isnan(labels)], (0, 1)).all()
    return Task(name) if binary else Task(name, kind="bins", edges=LENGTH_OF_STAY_EDGES)
