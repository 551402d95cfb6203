"""The schema that declares which codes of a MEDS dataset become stays, channels and tasks."""

import dataclasses
import pathlib
import re
from typing import Any

from ncl_tf.data.declaration import Channel, Dataset, Task
from ncl_tf.data.sources.table import (
    CHANNEL_KEYS,
    NUMBER,
    TABLES,
    TASK_KEYS,
    TEXT,
    check_keys,
    read_channel,
    read_task,
    read_toml,
)
from ncl_tf.errors import InputError

CODES = (str, "a list of codes")
TOP_KEYS = {"name": TEXT, "opens": CODES, "closes": CODES, "outside_stays": TEXT, "hour": TEXT}
TOP_KEYS |= {"channels": TABLES, "tasks": TABLES}
SOURCE_KEYS = {
    "codes": ((str, dict), "a list of codes, or of tables with a code"),
    "years_since": TEXT,
    "hours_since": TEXT,
}
CODE_KEYS = {"code": TEXT, "factor": NUMBER, "offset": NUMBER, "level": ((str, int, float), "a text or a number")}
UNTIL_KEYS = {"until": CODES, "within": NUMBER}
HOURS = {"years_since": 365.25 * 24, "hours_since": 1.0}  # of one unit
OUTSIDE = ("refuse", "drop")


@dataclasses.dataclass(frozen=True)
class Measurement:
    """How the events of some codes become values of a channel.

    Attributes:
        pattern: a code, in which * stands for any text.
        channel: position of the channel.
        factor, offset: the value is factor x number + offset.
        level: the level that the code itself means; None: the event has the value.
    """

    pattern: str
    channel: int
    factor: float = 1.0
    offset: float = 0.0
    level: float | None = None


@dataclasses.dataclass(frozen=True)
class Since:
    """A static channel that is the time from the last event of a code until the stay opens, in units of some hours."""

    pattern: str
    channel: int
    hours: float


@dataclasses.dataclass(frozen=True)
class Until:
    """A task that is the time from an hour until the next event of some codes.

    Attributes:
        patterns: the codes.
        task: position of the task.
        within: for a binary task, the hours before the event in which the label is 1.
    """

    patterns: tuple[str, ...]
    task: int
    within: float | None


@dataclasses.dataclass(frozen=True)
class MedsSchema:
    """A schema: the declaration of the dataset, and the codes that it is made from.

    Attributes:
        opens, closes: codes that open and close a stay.
        measurements, since: of all channels but that of the hour.
        until: the tasks that come from events; the others come from label files.
        drop_outside: whether measurements and labels outside of every stay are left out, rather than refused.
    """

    dataset: Dataset
    opens: tuple[str, ...]
    closes: tuple[str, ...]
    measurements: tuple[Measurement, ...]
    since: tuple[Since, ...]
    until: tuple[Until, ...]
    drop_outside: bool

    @property
    def patterns(self) -> list[str]:
        """All codes that the schema names, once each."""
        named = [*self.opens, *self.closes, *(m.pattern for m in self.measurements), *(s.pattern for s in self.since)]
        return list(dict.fromkeys(named + [pattern for task in self.until for pattern in task.patterns]))

    @property
    def labelled(self) -> list[int]:
        """The positions of the tasks that label files have."""
        return [i for i in range(len(self.dataset.tasks)) if i not in {task.task for task in self.until}]


def expression(pattern: str) -> re.Pattern:
    """Return the regular expression of a pattern: * stands for any text, all other characters for themselves."""
    return re.compile(".*".join(map(re.escape, pattern.split("*"))), re.DOTALL)


def read_meds_schema(path: pathlib.Path) -> MedsSchema:
    """Read a schema file."""
    schema = read_toml(path)
    try:
        return _parse(schema)
    except InputError as error:
        raise InputError(f"{path}: {error}") from error


def _parse(schema: dict[str, Any]) -> MedsSchema:
    """Check a schema and declare what it describes."""
    check_keys(schema, TOP_KEYS, ("name", "opens", "closes", "channels", "tasks"), "top level")
    for key in ("opens", "closes"):
        if not schema[key]:
            raise InputError(f"top level: {key} must name at least one code, got []")
    outside, hour = schema.get("outside_stays", "refuse"), schema.get("hour")
    if outside not in OUTSIDE:
        raise InputError(f"top level: outside_stays must be one of {', '.join(OUTSIDE)}, got {outside!r}")
    declared = [_channel(value, f"channel {i}", hour) for i, value in enumerate(schema["channels"], start=1)]
    declared.sort(key=lambda pair: not pair[0].static)  # static first, otherwise as written
    if hour is not None and hour not in [channel.name for channel, _ in declared]:
        raise InputError(f"top level: hour must name one of the channels, got {hour!r}")
    tasks = [_task(value, f"task {i}") for i, value in enumerate(schema["tasks"], start=1)]
    return MedsSchema(
        Dataset(schema["name"], tuple(channel for channel, _ in declared), tuple(task for task, _ in tasks), hour),
        tuple(schema["opens"]),
        tuple(schema["closes"]),
        tuple(
            m for i, (channel, keys) in enumerate(declared) for m in _measurements(channel, keys.get("codes", ()), i)
        ),
        tuple(Since(keys[key], i, HOURS[key]) for i, (_, keys) in enumerate(declared) for key in HOURS if key in keys),
        tuple(Until(tuple(keys["until"]), i, keys.get("within")) for i, (_, keys) in enumerate(tasks) if keys),
        outside == "drop",
    )


def _taken_apart(value: dict[str, Any], keys: dict[str, tuple], own: dict[str, tuple], where: str) -> tuple[dict, dict]:
    """Check a table's keys; return those that a table of hours has too, and those that MEDS alone has."""
    check_keys(value, keys | own, ("name",), where)
    return {k: v for k, v in value.items() if k not in own}, {k: v for k, v in value.items() if k in own}


def _channel(value: dict[str, Any], where: str, hour: str | None) -> tuple[Channel, dict[str, Any]]:
    """Declare a channel, and return with it the keys that name its codes."""
    common, own = _taken_apart(value, CHANNEL_KEYS, SOURCE_KEYS, where)
    channel = read_channel(common, where)
    if channel.name == hour and (own or channel.static):
        raise InputError(f"{where}: the channel of the hour must be without codes and not static, got {value}")
    if channel.name != hour and len(own) != 1:
        raise InputError(
            f"{where}: {channel.name!r} must have one of {', '.join(SOURCE_KEYS)}, or be the hour, got {list(own) or 'none'}"
        )
    if not channel.static and own.keys() & HOURS.keys():
        raise InputError(f"{where}: {channel.name!r} is the time until the stay opens, so static must be true")
    if own.get("codes") == []:
        raise InputError(f"{where}: codes must name at least one code, got []")
    return channel, own


def _measurements(channel: Channel, codes: list[str | dict[str, Any]], position: int) -> list[Measurement]:
    """Read the codes of a channel, each a text or a table."""
    made = []
    for entry in codes:
        keys = {"code": entry} if isinstance(entry, str) else entry
        where = f"channel {channel.name!r}, codes"
        check_keys(keys, CODE_KEYS, ("code",), where)
        numeric, level = keys.keys() & {"factor", "offset"}, None
        if "level" in keys:
            if channel.kind != "categorical":
                raise InputError(f"{where}: level must be one of a categorical channel, got kind {channel.kind!r}")
            try:
                level = channel.code(str(keys["level"]))
            except ValueError as error:
                raise InputError(f"{where}: level must be {channel.allowed}, got {keys['level']!r}") from error
        if numeric and channel.kind == "categorical":
            raise InputError(f"{where}: {', '.join(sorted(numeric))} must scale a number, got kind {channel.kind!r}")
        if keys.get("factor") == 0:
            raise InputError(f"{where}: factor must not be 0")
        made.append(Measurement(keys["code"], position, keys.get("factor", 1.0), keys.get("offset", 0.0), level))
    return made


def _task(value: dict[str, Any], where: str) -> tuple[Task, dict[str, Any]]:
    """Declare a task, and return with it the keys that name its events."""
    common, own = _taken_apart(value, TASK_KEYS, UNTIL_KEYS, where)
    task = read_task(common, where)
    if own and not own.get("until"):
        raise InputError(f"{where}: until must name at least one code, got {own.get('until', 'none')}")
    if own and ("within" in own) != (task.kind == "binary"):
        raise InputError(
            f"{where}: until needs within (hours before the event in which labels are 1) for kind 'binary', and none for "
            f"'bins', got kind {task.kind!r} with {', '.join(own)}"
        )
    if own.get("within", 1) <= 0:
        raise InputError(f"{where}: within must be hours above 0, got {own['within']}")
    return task, own
