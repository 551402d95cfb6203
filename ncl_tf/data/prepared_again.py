"""A cohort whose raw rows are prepared again, by the preprocessor of another one, such as that of a trained encoder.

Channels are mapped by name. Scaling, plausible ranges and columns are those of the other cohort; stays, labels and splits stay.
"""

import dataclasses
import pathlib

import numpy as np

from ncl_tf.data.cohort import Cohort, SplitData
from ncl_tf.data.declaration import Channel
from ncl_tf.data.preprocessing import Preprocessor
from ncl_tf.data.raw_file import RawFile
from ncl_tf.data.splits import SPLITS
from ncl_tf.errors import InputError

ALL = "all"  # names the stays of all splits together


class PreparedAgain(Cohort):
    """A cohort with its raw rows beside it (FILE.raw.h5), prepared again; split "all" has the stays of all splits.

    Attributes:
      missing: names of the preprocessor's channels that the cohort does not have; they stay missing in every hour.
      unused: names of the cohort's channels that the preprocessor does not know.
    """

    readable = (*SPLITS, ALL)

    def __init__(self, path: str | pathlib.Path, preprocessor: Preprocessor) -> None:
        super().__init__(path)
        self._raw = RawFile(self)
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
        stored = super()._read(split)
        raw = self._raw.stays(split, stored)
        values = np.full((len(raw.values), len(self._sources)), np.nan, np.float32, order="F")
        for position, (channel, source) in enumerate(
            zip(self.preprocessor.dataset.channels, self._sources, strict=True)
        ):
            if source is None:
                continue
            values[:, position] = raw.values[:, source]
            for level, code in zip(self._raw.dataset.channels[source].levels, self._recoded[channel.name], strict=True):
                values[raw.values[:, source] == np.float32(level), position] = code
        return dataclasses.replace(stored, data=self.preprocessor(dataclasses.replace(raw, values=values)))


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
