"""Declarations of datasets: their channels with kinds and plausible ranges, and their tasks."""

import dataclasses
import functools
import math
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from ncl_tf.errors import InputError

CHANNEL_KINDS = ("continuous", "categorical")
TASK_KINDS = ("binary", "bins")
# What a cohort can say about when and how often a channel was measured, in the order of its columns.
OBSERVATIONS = ("recency", "count", "measured", "change")
# What a task's labels announce, by its name. Cohort files do not hold it, so that their bytes stay as they always were.
# Hours by which labels turn positive before the onset, and hours before it in which a warning is timely:
# sepsis: both as in the PhysioNet challenge of 2019; decompensation: death within 24 hours.
_ONSET_LEADS = {"sepsis": 6, "decompensation": 24}
_WARNING_HORIZONS = {"sepsis": 12, "decompensation": 24}
_OTHER_HORIZON = 12
_LARGEST = float(np.finfo(np.float32).max)  # numbers are stored as float32, and NaN and infinity are none


@dataclasses.dataclass(frozen=True)
class Channel:
    """One measurement.

    Attributes:
      name: its column in the source.
      kind: 'continuous' (standard-scaled) or 'categorical' (one-hot; two levels stay one 0/1 column).
      static: known at admission; static channels come first among a cohort's columns.
      low, high: plausible range, both ends included; values outside become missing. None: no bound.
      unit: for people and model cards.
      levels: the numeric codes of a categorical channel, in the order of its columns.
      spellings: texts found in sources and the level that each of them means; upper and lower case mean the same.
      text_only: whether a source must use the spellings, because the codes are ours and it does not know them.
    """

    name: str
    kind: str = "continuous"
    static: bool = False
    low: float | None = None
    high: float | None = None
    unit: str = ""
    levels: tuple[float, ...] = ()
    spellings: Mapping[str, float] = dataclasses.field(default_factory=dict)
    text_only: bool = False

    def __post_init__(self) -> None:
        where = f"channel {self.name!r}"
        if self.kind not in CHANNEL_KINDS:
            raise InputError(f"{where}: kind must be one of {', '.join(CHANNEL_KINDS)}, got {self.kind!r}")
        if (self.kind == "categorical") != (len(self.levels) > 1):
            raise InputError(
                f"{where}: a categorical channel must have two or more levels, a continuous one none, "
                f"got kind {self.kind!r} with levels {self._written}"
            )
        if len(set(self.levels)) < len(self.levels):
            raise InputError(f"{where}: levels must differ, got {list(self.levels)}")
        if self.low is not None and self.high is not None and not self.low < self.high:
            raise InputError(f"{where}: low must be below high, got {self.low} and {self.high}")
        for text, level in self.spellings.items():
            if level not in self.levels:
                raise InputError(f"{where}: spelling {text!r} must name one of {self._written}, got {level}")
            if self._folded[text.casefold()] != level:
                raise InputError(f"{where}: spelling {text!r} must name one level in upper and lower case, got two")

    @property
    def columns(self) -> list[str]:
        """Names of the prepared columns: one, or one per level of a categorical channel with more than two."""
        if len(self.levels) <= 2:
            return [self.name]
        return [f"{self.name}={level:g}" for level in self.levels]

    def code(self, text: str) -> float:
        """Convert a cell of the source to its number; raise ValueError if it has none."""
        key = text.strip().casefold()
        if key in self._folded:
            return self._folded[key]
        value = float(text)
        known = abs(value) <= _LARGEST if self.kind == "continuous" else value in self.levels and not self.text_only
        if not known or "_" in text:  # Python reads 1_000 as a number
            raise ValueError(text)
        return value

    @functools.cached_property
    def _folded(self) -> dict[str, float]:
        return {spelling.casefold(): level for spelling, level in self.spellings.items()}

    @property
    def _written(self) -> list[str | float]:
        """The levels as the source writes them: texts where the codes are ours."""
        texts = [next((text for text, code in self.spellings.items() if code == level), level) for level in self.levels]
        return texts if self.text_only else list(self.levels)

    @property
    def allowed(self) -> str:
        """The values that a cell may hold, for error messages."""
        if self.kind == "continuous":
            return "a number"
        codes = [] if self.text_only else [f"{level:g}" for level in self.levels]
        texts = codes + [repr(text) for text in self.spellings]
        return "one of " + ", ".join(texts)


@dataclasses.dataclass(frozen=True)
class Task:
    """A target to predict at every hour.

    Attributes:
      name: its column in the source and in the cohort.
      kind: 'binary' (labels 0 and 1) or 'bins' (a number, predicted as the bin that it falls into).
      edges: inner edges of the bins; k edges make k + 1 classes, each bin including its lower edge.
    """

    name: str
    kind: str = "binary"
    edges: tuple[float, ...] = ()

    def __post_init__(self) -> None:
        if not self.name or "/" in self.name:
            raise InputError(f"a task's name must name files, so not be empty or contain '/', got {self.name!r}")
        if self.kind not in TASK_KINDS:
            raise InputError(f"task {self.name!r}: kind must be one of {', '.join(TASK_KINDS)}, got {self.kind!r}")
        if (self.kind == "bins") != bool(self.edges) or list(self.edges) != sorted(set(self.edges)):
            raise InputError(
                f"task {self.name!r}: kind 'bins' must have one or more rising edges, 'binary' none, "
                f"got kind {self.kind!r} with edges {list(self.edges)}"
            )

    @property
    def classes(self) -> int:
        """Number of classes."""
        return len(self.edges) + 1 if self.kind == "bins" else 2

    @property
    def onset_lead(self) -> int:
        """Hours from the first positive hour of an event until its onset; 0 if nothing else is known of the task."""
        return _ONSET_LEADS.get(self.name, 0)

    @property
    def warning_horizon(self) -> int:
        """Hours before the onset of an event in which an alarm is a timely warning, unless a user says otherwise."""
        return _WARNING_HORIZONS.get(self.name, _OTHER_HORIZON)

    @property
    def has_utility(self) -> bool:
        """Whether the utility of the PhysioNet challenge of 2019 is meant for its labels."""
        return self.kind == "binary" and self.name == "sepsis"

    def classify(self, labels: np.ndarray) -> np.ndarray:
        """Class of each label [hours] as int32; -1 where unlabelled (NaN)."""
        classes = np.digitize(labels, self.edges) if self.kind == "bins" else np.nan_to_num(labels)
        return np.where(np.isnan(labels), -1, classes).astype(np.int32)


def check_observations(observations: Sequence[str], where: str) -> None:
    """Refuse observations that are not known, or named twice."""
    for observation in observations:
        if observation not in OBSERVATIONS or list(observations).count(observation) > 1:
            raise InputError(f"{where} must be of {', '.join(OBSERVATIONS)}, each at most once, got {observation!r}")


@dataclasses.dataclass(frozen=True)
class Dataset:
    """The channels and tasks that a source of stays has.

    Attributes:
      name: 'physionet2019', 'mimic3_benchmark' or a user's own.
      channels: in the order of the cohort's columns, static ones first.
      tasks: in the order of the cohort's labels.
      hour: name of the channel that holds the hour of the stay, if one does.
      observations: of `OBSERVATIONS`, what the cohort's columns say about when and how often channels were measured.
    """

    name: str
    channels: tuple[Channel, ...]
    tasks: tuple[Task, ...]
    hour: str | None = None
    observations: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        check_observations(self.observations, f"dataset {self.name!r}: observations")
        names = [channel.name for channel in self.channels] + [task.name for task in self.tasks]
        names += self.columns[len(self.value_columns) :]
        repeated = sorted({name for name in names if names.count(name) > 1})
        if repeated:
            raise InputError(
                f"dataset {self.name!r}: channels and tasks must have different names, got {repeated[0]!r} twice"
            )
        if not self.channels or not self.tasks:
            raise InputError(f"dataset {self.name!r}: must have at least one channel and one task")
        static = [channel.static for channel in self.channels]
        if static != sorted(static, reverse=True):
            raise InputError(f"dataset {self.name!r}: static channels must come before the others")

    @property
    def columns(self) -> list[str]:
        """Names of all prepared columns: those with the values of all channels, then those with their observations."""
        return self.value_columns + [
            f"{self.channels[channel].name}:{observation}" for observation, channel in self.observation_columns
        ]

    @property
    def value_columns(self) -> list[str]:
        """Names of the prepared columns with the values of all channels."""
        return [column for channel in self.channels for column in channel.columns]

    @property
    def observed(self) -> list[int]:
        """Positions of the channels that have observations: the dynamic ones without the hour, which is always known."""
        return [i for i, channel in enumerate(self.channels) if not channel.static and channel.name != self.hour]

    @property
    def observation_columns(self) -> list[tuple[str, int]]:
        """Observation and position of the channel of each observation column; only numbers have a change."""
        return [
            (observation, channel)
            for observation in OBSERVATIONS
            if observation in self.observations
            for channel in self.observed
            if observation != "change" or self.channels[channel].kind == "continuous"
        ]

    @property
    def column_channels(self) -> list[int]:
        """Position of the channel that each prepared column is about."""
        values = [i for i, channel in enumerate(self.channels) for _ in channel.columns]
        return values + [channel for _, channel in self.observation_columns]

    @property
    def static_columns(self) -> int:
        """How many of the prepared columns are static; they are the first ones."""
        return sum(len(channel.columns) for channel in self.channels if channel.static)

    def to_json(self) -> dict[str, Any]:
        """Convert to plain values; without observations, those of files from before there were any."""
        value = dataclasses.asdict(self)
        if not self.observations:
            del value["observations"]
        return value

    @classmethod
    def from_json(cls, value: dict[str, Any]) -> "Dataset":
        """Convert back from the result of `to_json`, which may come from a damaged file."""
        channels = tuple(_from_json(Channel, part) for part in value["channels"])
        tasks = tuple(_from_json(Task, part) for part in value["tasks"])
        return _from_json(cls, value | {"channels": channels, "tasks": tasks})


# The types of a declaration's plain values, by name.
_NUMBERS = (int, float)
_TYPES = dict.fromkeys(("name", "kind", "unit"), str) | dict.fromkeys(("static", "text_only"), bool)
_TYPES |= dict.fromkeys(("low", "high"), (*_NUMBERS, type(None))) | {"spellings": dict, "hour": (str, type(None))}
_ELEMENTS = dict.fromkeys(("levels", "edges"), _NUMBERS) | {"observations": str, "channels": Channel, "tasks": Task}


def _from_json(kind: type, value: dict[str, Any]) -> Any:
    """Make a channel, task or dataset from plain values, which must be all that it has, of its types and finite."""
    expected = {field.name for field in dataclasses.fields(kind)}
    if not value.keys() <= expected or not expected - {"observations"} <= value.keys():
        raise InputError(f"a {kind.__name__.lower()} must have {', '.join(sorted(expected))}, got {', '.join(value)}")
    made = {name: tuple(item) if name in _ELEMENTS else item for name, item in value.items()}
    for name, item in made.items():
        parts = item if name in _ELEMENTS else item.values() if name == "spellings" else [item]
        allowed = _ELEMENTS.get(name, _NUMBERS if name == "spellings" else _TYPES.get(name))
        right = isinstance(item, (tuple, _TYPES.get(name, tuple))) and all(isinstance(part, allowed) for part in parts)
        if not right or any(isinstance(part, float) and not math.isfinite(part) for part in parts):
            raise InputError(
                f"{kind.__name__.lower()} {value.get('name')!r}: {name} must be a value that fits, got {item!r}"
            )
    return kind(**made)
