"""The cohort file: prepared stays, split and labelled.

HDF5. `data/{train,val,test}` float32 [hours, columns] with attribute `columns` on the group; `labels/{...}` float32
[hours, tasks], NaN where unlabelled, attribute `tasks`; `patient_windows/{...}` int32 [stays, 3] = first row, last row
(included), stay id; `stay_names/{...}` the source's identifiers. The first three groups are what the authors' loader reads,
so files can be exchanged with their code in both directions. `subjects/{...}`, only where patients are known: the patient of
each stay; `label_times/{...}`, only where the source has a calendar: int64 [hours, tasks], microseconds since 1970, of labels.
Attributes of the file, not known to it: `format_version`, `dataset`, `static_columns`, `preprocessor` (JSON, with the
declaration), `source_checksum`, `channel_statistics` (JSON), `simulated` (only where that is true). The file's checksum lies
beside it (`ncl_tf.data.hdf5`).
"""

import dataclasses
import functools
import json
import pathlib
from collections.abc import Sequence
from typing import Any

import h5py
import numpy as np

from ncl_tf import files
from ncl_tf.data import cohort_checks, hdf5
from ncl_tf.data.cohort_checks import FORMAT_VERSION
from ncl_tf.data.declaration import Dataset, Task
from ncl_tf.data.preprocessing import Preprocessor, clean
from ncl_tf.data.splits import SPLITS, Split, check_subjects
from ncl_tf.data.stays import Stays
from ncl_tf.errors import InputError

WHAT = "a cohort file that bin/prepare or the authors' code wrote"


@dataclasses.dataclass(frozen=True)
class SplitData:
    """One split in memory.

    Attributes:
      data: [hours, columns] float32, prepared.
      labels: [hours, tasks] float32, NaN where unlabelled.
      classes: [hours, tasks] int32, the class of each label; -1 where unlabelled.
      patient_windows: [stays, 3] int32: first row, last row (included), stay id.
      stay_names: [stays] the source's identifiers.
      subjects: [stays] the patient whom each stay is of; None if the cohort does not say.
      label_times: [hours, tasks] int64, the time that each label is of; None if the cohort does not say.
    """

    data: np.ndarray
    labels: np.ndarray
    classes: np.ndarray
    patient_windows: np.ndarray
    stay_names: np.ndarray
    subjects: np.ndarray | None = None
    label_times: np.ndarray | None = None

    @property
    def lengths(self) -> np.ndarray:
        """[stays] hours of each stay."""
        return self.patient_windows[:, 1] - self.patient_windows[:, 0] + 1

    @functools.cached_property
    def first_row(self) -> np.ndarray:
        """[hours] int32: first row of the stay that each row belongs to."""
        return np.repeat(self.patient_windows[:, 0], self.lengths)

    @functools.cached_property
    def stay(self) -> np.ndarray:
        """[hours] int32: stay id of each row."""
        return np.repeat(self.patient_windows[:, 2], self.lengths)

    @functools.cached_property
    def hour(self) -> np.ndarray:
        """[hours] int32: hours since the first row of the stay."""
        return np.arange(len(self.data), dtype=np.int32) - self.first_row


class Cohort:
    """A cohort file, opened for reading; splits are read when first asked for.

    Attributes:
      name: the dataset's name.
      columns: names of the prepared columns.
      static_columns: how many of them, the first ones, are static.
      tasks: the tasks, in the order of the labels.
      preprocessor: what prepared it; None in a file that the authors' code wrote.
      simulated: whether it was prepared from a simulated ward; false in files from before this was recorded.
    """

    readable = SPLITS

    def __init__(self, path: str | pathlib.Path) -> None:
        self.path, self._splits = pathlib.Path(path), {}
        if not self.path.exists():
            raise InputError(f"{self.path}: no such file; `bin/prepare --help` shows how to make a cohort")
        self._verified = hdf5.verified(self.path)
        with hdf5.opened(self.path, WHAT) as file:
            version = cohort_checks.format_version(file)
            self.columns = hdf5.decoded(file["data"].attrs["columns"])
            self.source_checksum = str(file.attrs.get("source_checksum", ""))
            self.simulated = bool(file.attrs.get("simulated", False))
            if version:
                self.preprocessor = Preprocessor.from_json(json.loads(file.attrs["preprocessor"]))
                self.name, self.tasks = self.preprocessor.dataset.name, self.preprocessor.dataset.tasks
                self.static_columns = self.preprocessor.dataset.static_columns
            else:
                self.preprocessor = None
                self.name, self.static_columns = cohort_checks.recognize(self.columns)
                names = hdf5.decoded(file["labels"].attrs["tasks"])
                self.tasks = tuple(cohort_checks.foreign_task(file, i, name) for i, name in enumerate(names))
            cohort_checks.check_declaration(file, self.columns, self.tasks, self.preprocessor)
            self.channel_statistics = cohort_checks.channel_statistics(file, self.preprocessor)

    @property
    def observations(self) -> tuple[str, ...]:
        """What its columns say about when and how often channels were measured; none in a file of the authors' code."""
        return self.preprocessor.dataset.observations if self.preprocessor else ()

    def differing_columns(self, observations: Sequence[str]) -> str:
        """Name the columns that this cohort has and one with these observations had not, or the other way round, if any."""
        if self.preprocessor is None:
            return ", ".join(f"CHANNEL:{observation}" for observation in observations)
        others = dataclasses.replace(self.preprocessor.dataset, observations=tuple(observations)).columns
        names = [name for name in dict.fromkeys(self.columns + others) if (name in self.columns) != (name in others)]
        return ", ".join(names[:6]) + (f" and {len(names) - 6} more" if len(names) > 6 else "")

    def require_observations(self, observations: Sequence[str]) -> None:
        """Refuse to go on if the cohort has other observation columns than these."""
        if differing := self.differing_columns(observations):
            wanted, found = (", ".join(names) or "none" for names in (observations, self.observations))
            if self.preprocessor is None:
                how = "a file of the authors' code, which holds no raw values to compute them from; use bin/prepare"
            else:
                how = "prepare it again" + (f" with --observations={','.join(observations)}" if observations else "")
            raise InputError(
                f"{self.path}: must have the observations {wanted}, got {found}: {how}. Columns that differ: {differing}"
            )

    @property
    def title(self) -> str:
        """The name of its dataset as shown to readers."""
        return titled(self.name, self.simulated)

    def __getitem__(self, split: str) -> SplitData:
        if split not in self.readable:
            raise InputError(f"split must be one of {', '.join(self.readable)}, got {split!r}")
        if split not in self._splits:
            self._splits[split] = self._read(split)
        return self._splits[split]

    def _read(self, split: str) -> SplitData:
        with hdf5.opened(self.path, WHAT) as file:
            data = hdf5.array(file, f"data/{split}", (2,), "fiu").astype(np.float32, copy=False)
            labels = hdf5.array(file, f"labels/{split}", (1, 2), "fiub").astype(np.float32, copy=False)
            labels = labels.reshape(len(labels), -1)
            windows = cohort_checks.windows(file, split)
            stays = {
                name: windows[:, 2] if name == split else cohort_checks.windows(file, name)[:, 2] for name in SPLITS
            }
            names, subjects = (
                np.asarray(hdf5.decoded(hdf5.array(file, f"{group}/{split}", (1,), "SO"))) if group in file else None
                for group in ("stay_names", "subjects")
            )
            times = hdf5.array(file, f"label_times/{split}", (2,), "i") if "label_times" in file else None
            cohort_checks.check_rows(split, data, labels, windows, names, subjects, times)
            cohort_checks.check_values(file, split, data, labels, self.tasks)
        names = windows[:, 2].astype(str) if names is None else names
        every = np.concatenate(list(stays.values()))
        if len(np.unique(every)) < len(every):  # the authors' ids of episodes 1 and 11 are the same: number all stays
            before = sum(len(stays[name]) for name in SPLITS[: SPLITS.index(split)])
            windows[:, 2] = before + np.arange(len(windows))
        classes = np.stack([task.classify(labels[:, i]) for i, task in enumerate(self.tasks)], axis=1)
        return SplitData(data, labels, classes, windows, names, subjects, times)

    def task(self, name: str) -> tuple[int, Task]:
        """Look up a task by its name: its position among the labels and its declaration."""
        for position, task in enumerate(self.tasks):
            if task.name == name:
                return position, task
        raise InputError(
            f"{self.path}: task must be one of {', '.join(task.name for task in self.tasks)}, got {name!r}"
        )

    @functools.cached_property
    def checksum(self) -> str:
        """SHA-256 of the file."""
        return self._verified or files.sha256(self.path)


def write_cohort(path: pathlib.Path, dataset: Dataset, stays: Stays, split: Split, source_checksum: str) -> None:
    """Clean the stays, fit the preprocessor on the training split, transform and write all splits atomically."""
    if stays.subjects is not None:
        check_subjects(split, stays.names, stays.subjects)
    cleaned = clean(dataset, stays)
    preprocessor = Preprocessor.fit(dataset, stays, cleaned, split["train"])
    ids, hours = _stay_ids(stays.names), sum(int(stays.lengths[chosen].sum()) for chosen in split.values())
    with (
        files.atomic_path(path, 4 * hours * len(dataset.columns) + stays.labels.nbytes + 2**17) as partial,
        h5py.File(partial, "w") as file,
    ):
        for name in SPLITS:
            rows, lengths = stays.rows(split[name]), stays.lengths[split[name]]
            last = np.cumsum(lengths) - 1
            windows = np.stack([last - lengths + 1, last, ids[split[name]]], axis=1)
            data = file.create_dataset(None, (len(rows), len(dataset.columns)), np.float32)
            for part, columns in preprocessor.transform_parts(stays, cleaned, split[name]):
                data[part] = columns
            file[f"data/{name}"] = data  # named last: that keeps the bytes that cohort files always had
            file[f"labels/{name}"] = stays.labels[rows]
            file[f"patient_windows/{name}"] = windows.astype(np.int32)
            names = np.char.encode(stays.names[split[name]].astype(str), "utf-8")
            file.create_dataset(f"stay_names/{name}", data=names)  # file[...] = names would be stored with other bytes
            if stays.subjects is not None:
                file[f"subjects/{name}"] = np.char.encode(stays.subjects[split[name]].astype(str), "utf-8")
            if stays.label_times is not None:
                file.create_dataset(f"label_times/{name}", data=stays.label_times[rows], compression="gzip")
        file["data"].attrs["columns"] = dataset.columns
        file["labels"].attrs["tasks"] = [task.name for task in dataset.tasks]
        file.attrs.update(
            {
                "format_version": FORMAT_VERSION,
                "dataset": dataset.name,
                "static_columns": dataset.static_columns,
                "preprocessor": json.dumps(preprocessor.to_json()),
                "source_checksum": source_checksum,
                "channel_statistics": json.dumps(_channel_statistics(dataset, stays, cleaned, split["train"])),
            }
        )
        if stays.simulated:  # real cohorts keep the bytes, and so the checksum, that they always had
            file.attrs["simulated"] = True
        hdf5.sums_path(path).unlink(missing_ok=True)  # of a file that is replaced
    hdf5.write_sums(path)


def titled(dataset: str, simulated: bool) -> str:
    """Name a dataset for readers; a simulated ward has the name of the dataset whose form it has."""
    return f"simulated {dataset}" if simulated else dataset


def _channel_statistics(dataset: Dataset, stays: Stays, cleaned: Stays, training: np.ndarray) -> dict[str, Any]:
    """Per channel, over the training hours: share measured, share known after forward fill, range of what is known."""
    rows = stays.rows(training)
    statistics = {}
    for index, channel in enumerate(dataset.channels):
        measured, known = stays.values[rows, index], cleaned.values[rows, index]
        known = known[~np.isnan(known)]
        statistics[channel.name] = {
            "measured": float(1 - np.isnan(measured).mean()),
            "known": len(known) / len(rows),
            "min": float(known.min()) if len(known) else None,
            "mean": float(known.mean(dtype=np.float64)) if len(known) else None,
            "max": float(known.max()) if len(known) else None,
        }
    return statistics


def _stay_ids(names: np.ndarray) -> np.ndarray:
    """[stays] int32: the names where all of them are 32-bit integers, else 0, 1, 2, ... in their order."""
    try:
        ids = np.array([int(name) for name in names])
    except ValueError:
        return np.arange(len(names), dtype=np.int32)
    fits = len(ids) == len(set(ids)) and ids.min() >= 0 and ids.max() < 2**31
    return ids.astype(np.int32) if fits else np.arange(len(names), dtype=np.int32)
