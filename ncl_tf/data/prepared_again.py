"""A cohort whose raw rows are prepared again, by the preprocessor of another one, such as that of a trained encoder.

Channels are mapped by name. Scaling, plausible ranges and columns are those of the other cohort; stays, labels and splits stay.
`WithExternal` is a cohort that also has the stays of another one, prepared again for what was trained on it.
"""

import dataclasses
import pathlib
from typing import Any

import numpy as np

from ncl_tf.data.cohort import Cohort, SplitData
from ncl_tf.data.declaration import Channel, Task
from ncl_tf.data.preprocessing import Preprocessor
from ncl_tf.data.raw_file import RawFile
from ncl_tf.data.splits import SPLITS
from ncl_tf.data.stays import Stays
from ncl_tf.errors import InputError

ALL = "all"  # names the stays of all splits together
EXTERNAL = "external"  # names the stays of another cohort


class PreparedAgain(Cohort):
    """A cohort with its raw rows beside it (FILE.raw.h5), prepared again; split "all" has the stays of all splits.

    Args:
      preprocessor: of the other cohort.
      tasks: whose labels it has, in this order; in a task that the file does not have, every hour is unlabelled. None: its own.

    Attributes:
      missing: names of the preprocessor's channels that the cohort does not have; they stay missing in every hour.
      unused: names of the cohort's channels that the preprocessor does not know.
    """

    readable = (*SPLITS, ALL)

    def __init__(
        self, path: str | pathlib.Path, preprocessor: Preprocessor, tasks: tuple[Task, ...] | None = None
    ) -> None:
        super().__init__(path)
        self._labels = self._positions(tasks or self.tasks)
        self.tasks = tasks or self.tasks
        self._raw = RawFile(Cohort(path))
        own, wanted = self._raw.dataset, preprocessor.dataset
        positions = {channel.name: position for position, channel in enumerate(own.channels)}
        names = [channel.name for channel in wanted.channels]
        self._sources = [positions.get(name) for name in names]
        self.missing = [name for name in names if name not in positions]
        self.unused = [name for name in positions if name not in names]
        if len(self.missing) == len(names):
            raise InputError(
                f"{self.path}: must have channels such as {', '.join(names[:6])}, got {', '.join(positions)}"
            )
        self._recoded = {}
        for channel, source in zip(wanted.channels, self._sources, strict=True):
            if source is not None:
                self._recoded[channel.name] = self._level_codes(own.channels[source], channel)
        self.preprocessor = dataclasses.replace(
            preprocessor, dataset=dataclasses.replace(wanted, name=self.name, tasks=self.tasks)
        )
        self.columns, self.static_columns = wanted.columns, wanted.static_columns

    def require_same_channels(self) -> None:
        """Refuse a cohort that has other channels than the preprocessor."""
        differing = [
            f"{where}: {', '.join(names)}"
            for where, names in (("missing here", self.missing), ("only here", self.unused))
            if names
        ]
        if differing:
            raise InputError(f"{self.path}: raw channels must be the same as in training; {'; '.join(differing)}")

    def _positions(self, tasks: tuple[Task, ...]) -> list[int | None]:
        """Find the tasks among the file's own, by name; those of the same name must have the same classes."""
        own = {task.name: (position, task) for position, task in enumerate(self.tasks)}
        for task in tasks:
            if task.name in own and own[task.name][1] != task:
                raise InputError(
                    f"{self.path}: task {task.name!r} must be {_in_words(task)}, got {_in_words(own[task.name][1])}"
                )
        return [own[task.name][0] if task.name in own else None for task in tasks]

    def _level_codes(self, own: Channel, wanted: Channel) -> list[float]:
        """Return the code that each level of a categorical channel has in the other cohort; refuse what means something else."""
        where = f"{self.path}: channel {own.name!r}"
        if own.kind != wanted.kind:
            raise InputError(f"{where}: must be {wanted.kind}, got {own.kind}")
        if own.unit and wanted.unit and own.unit != wanted.unit:
            raise InputError(f"{where}: must be in {wanted.unit}, got {own.unit}; prepare it in the same unit")
        codes = []
        for level in own.levels:
            texts = [text for text, code in own.spellings.items() if code == level]
            found = {_code(wanted, text) for text in texts + [f"{level:g}"] * (not own.text_only)} - {None}
            if len(found) != 1:
                raise InputError(f"{where}: levels must be {wanted.allowed}, got {(texts or [f'{level:g}'])[0]!r}")
            codes += found
        return codes

    def _read(self, split: str) -> SplitData:
        if split == ALL:
            return joined_splits([self[name] for name in SPLITS])
        stored = Cohort(self.path)[split]  # by its own tasks, and not kept
        raw = self._raw.stays(split, stored)
        return dataclasses.replace(
            stored,
            data=self.preprocessor(dataclasses.replace(raw, values=self._recode(raw.values))),
            labels=self._of_tasks(stored.labels, np.nan),
            classes=self._of_tasks(stored.classes, -1),
            label_times=None if stored.label_times is None else self._of_tasks(stored.label_times, 0),
        )

    def raw(self, split: str) -> Stays:
        """Read the stays of a split with raw values of the preprocessor's channels, NaN where nothing was measured."""
        parts, data = SPLITS if split == ALL else [split], self[split]
        values = np.concatenate([self._recode(self._raw[part].values) for part in parts])
        return Stays(data.stay_names, data.lengths, np.asfortranarray(values), data.labels)

    def _recode(self, rows: np.ndarray) -> np.ndarray:
        """Give raw rows [hours, channels of the file] the preprocessor's channels and codes: [hours, channels]."""
        values = np.full((len(rows), len(self._sources)), np.nan, np.float32, order="F")
        for position, (channel, source) in enumerate(
            zip(self.preprocessor.dataset.channels, self._sources, strict=True)
        ):
            if source is None:
                continue
            values[:, position] = rows[:, source]
            for level, code in zip(self._raw.dataset.channels[source].levels, self._recoded[channel.name], strict=True):
                values[rows[:, source] == np.float32(level), position] = code
        return values

    def _of_tasks(self, columns: np.ndarray, unknown: float) -> np.ndarray:
        """Reorder columns [hours, tasks of the file] as the tasks are."""
        none = np.full(len(columns), unknown, columns.dtype)
        return np.stack([none if at is None else columns[:, at] for at in self._labels], axis=1)


class WithExternal(Cohort):
    """A cohort with a further split, "external": stays of another cohort with the same raw channels, prepared again for it.

    Args:
      cohort: the one that an encoder was trained on.
      external: path of the other cohort.
      task: name of a task that it must have.
      split: which of its stays.

    Attributes:
      external: the other cohort.
    """

    readable = (*SPLITS, EXTERNAL)

    def __init__(self, cohort: Cohort, external: str | pathlib.Path, task: str, split: str = ALL) -> None:
        super().__init__(cohort.path)
        self._cohort, self._split, self.columns = cohort, split, cohort.columns  # which may be without observations
        if self.preprocessor is None:
            raise InputError(
                f"{self.path}: must hold the scaling to prepare other stays by, got a file of the authors' code; use one of "
                "bin/prepare"
            )
        Cohort(external).task(task)
        self.external = PreparedAgain(external, self.preprocessor, self.tasks)
        self.external.require_same_channels()
        if self.external.checksum == self.checksum or self.external.source_checksum == self.source_checksum != "":
            raise InputError(
                f"{self.external.path}: must hold other stays than the run's cohort {self.path}, got the same source, with "
                f"checksum {self.source_checksum}: models have been trained on some of them"
            )

    def facts(self) -> dict[str, Any]:
        """Return what an evaluation records of the other stays."""
        stays = self[EXTERNAL]
        return {
            "dataset": self.external.title,
            "cohort_checksum": self.external.checksum,
            "source_checksum": self.external.source_checksum,
            "stays": len(stays.stay_names),
            "hours": len(stays.data),
        }

    def raw(self, split: str) -> Stays:
        """Read the raw rows of a split; they lie beside the file of its cohort."""
        return self.external.raw(self._split) if split == EXTERNAL else RawFile(self)[split]

    def _read(self, split: str) -> SplitData:
        if split != EXTERNAL:
            return self._cohort[split]
        stored = self.external[self._split]
        return dataclasses.replace(stored, data=stored.data[:, : len(self.columns)])


def _in_words(task: Task) -> str:
    return f"bins with edges {', '.join(f'{edge:g}' for edge in task.edges)}" if task.edges else task.kind


def _code(channel: Channel, text: str) -> float | None:
    try:
        return channel.code(text)
    except ValueError:
        return None


def joined_splits(parts: list[SplitData]) -> SplitData:
    """Join splits of a cohort, stay after stay."""
    rows = np.cumsum([0, *(len(part.data) for part in parts)])
    windows = [part.patient_windows + np.int32([row, row, 0]) for part, row in zip(parts, rows, strict=False)]
    fields = {
        field.name: np.concatenate([getattr(part, field.name) for part in parts])
        for field in dataclasses.fields(SplitData)
        if getattr(parts[0], field.name) is not None
    }
    return SplitData(**fields | {"patient_windows": np.concatenate(windows)})
