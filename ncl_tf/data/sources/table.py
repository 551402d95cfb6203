"""Reader of a user's hourly table and of the schema that declares its columns."""

import pathlib
import tomllib
from typing import Any

import numpy as np
import pyarrow as pa

from ncl_tf.data.declaration import Channel, Dataset, Task
from ncl_tf.data.sources import arrow, columns
from ncl_tf.data.sources.arrow import MISSING
from ncl_tf.data.sources.columns import Place
from ncl_tf.data.splits import SPLITS, Split, random_split, split_around
from ncl_tf.data.stays import Stays
from ncl_tf.errors import InputError, placed, reading

# The keys that a schema may have: type or types (of the elements in LISTS), and in words.
LISTS = ("channels", "tasks", "levels", "edges", "codes", "opens", "closes", "until")
TEXT, NUMBER = (str, "a text"), ((int, float), "a number")
TABLES = (dict, "a list of tables")
TOP_KEYS = {"name": TEXT, "stay": TEXT, "hour": TEXT, "channels": TABLES, "tasks": TABLES}
TOP_KEYS |= dict.fromkeys(("intime", "subject", "split"), TEXT)
CHANNEL_KEYS = {
    "name": TEXT,
    "kind": TEXT,
    "static": (bool, "true or false"),
    "low": NUMBER,
    "high": NUMBER,
    "unit": TEXT,
    "levels": ((str, int, float), "a list of texts or numbers"),
    "spellings": (dict, "a table of texts and levels"),
}
TASK_KEYS = {"name": TEXT, "kind": TEXT, "edges": ((int, float), "a list of numbers")}


def read_schema(path: pathlib.Path) -> tuple[Dataset, dict[str, Any]]:
    """Read a schema file: the declaration that it makes, and its content."""
    schema = read_toml(path)
    try:
        check_keys(schema, TOP_KEYS, ("name", "stay", "hour", "channels", "tasks"), "top level")
        channels = [read_channel(value, f"channel {i}") for i, value in enumerate(schema["channels"], start=1)]
        tasks = [read_task(value, f"task {i}") for i, value in enumerate(schema["tasks"], start=1)]
        channels.sort(key=lambda channel: not channel.static)  # static first, otherwise as written
        hour = schema["hour"] if any(channel.name == schema["hour"] for channel in channels) else None
        return Dataset(schema["name"], tuple(channels), tuple(tasks), hour), schema
    except InputError as error:
        raise InputError(f"{path}: {error}") from error


def read_toml(path: pathlib.Path) -> dict[str, Any]:
    """Read a TOML file."""
    with reading(path, "a TOML file"):
        return tomllib.loads(path.read_text(encoding="utf-8"))


def read_channel(value: dict[str, Any], where: str) -> Channel:
    """Declare a channel; levels that are texts become the codes 0, 1, 2, ... and spellings of themselves."""
    check_keys(value, CHANNEL_KEYS, ("name",), where)
    levels, spellings = value.get("levels", []), dict(value.get("spellings", {}))
    if unseen := [text for text in (*levels, *spellings) if text in MISSING]:
        raise InputError(f"{where}: levels and spellings must not mean a missing value in a table, got {unseen[0]!r}")
    text_only = any(isinstance(level, str) for level in levels)
    if text_only:
        codes = {str(level): float(code) for code, level in enumerate(levels)}
        if len(codes) < len(levels):
            raise InputError(f"{where}: levels must differ, got {levels}")
        spellings = codes | {text: codes.get(str(level), level) for text, level in spellings.items()}
        levels = range(len(levels))
    levels = tuple(float(level) for level in levels)
    return Channel(**{**value, "levels": levels, "spellings": spellings, "text_only": text_only})


def read_task(value: dict[str, Any], where: str) -> Task:
    """Declare a task."""
    check_keys(value, TASK_KEYS, ("name",), where)
    return Task(**{**value, "edges": tuple(value.get("edges", ()))})


def check_keys(value: dict[str, Any], allowed: dict[str, tuple], required: tuple[str, ...], where: str) -> None:
    """Refuse unknown keys, values of a wrong type and missing keys."""
    for key, item in value.items():
        if key not in allowed:
            raise InputError(f"{where}: keys must be among {', '.join(allowed)}, got {key!r}")
        types, words = allowed[key]
        parts = item if isinstance(item, list) else [item]
        if isinstance(item, list) != (key in LISTS) or not all(isinstance(part, types) for part in parts):
            raise InputError(f"{where}: {key} must be {words}, got {item!r}")
    for key in required:
        if key not in value:
            raise InputError(f"{where}: key {key!r} is missing")


def read_stays(
    paths: list[pathlib.Path],
    dataset: Dataset,
    schema: dict[str, Any],
    seed: int,
    testing: list[pathlib.Path] | None = None,
) -> tuple[Stays, Split]:
    """Read a table of one or several files as raw stays, and their split.

    With `testing`, the files of another table such as another hospital's, the stays of that one test and the others train and
    validate; the names of stays and patients then begin with "train_" and "test_".
    """
    if not testing:
        stays, split = _read_table(paths, dataset, schema)
        return stays, split or random_split(_ever_positive(stays, dataset), seed, stays.subjects)
    if "split" in schema:
        raise InputError(f"with a test source, the schema must have no split, got split = {schema['split']!r}")
    parts = {name: _read_table(some, dataset, schema)[0] for name, some in (("train", paths), ("test", testing))}
    stays = Stays.joined(parts)
    test = np.repeat([False, True], [len(part.names) for part in parts.values()])
    return stays, split_around(_ever_positive(stays, dataset), test, seed, stays.subjects)


def _ever_positive(stays: Stays, dataset: Dataset) -> np.ndarray:
    """Find the stays that are ever positive in the first binary task: [stays] bool; none without such a task."""
    binary = [position for position, task in enumerate(dataset.tasks) if task.kind == "binary"]
    return stays.ever_positive(binary[0]) if binary else np.zeros(len(stays.names), bool)


def _read_table(paths: list[pathlib.Path], dataset: Dataset, schema: dict[str, Any]) -> tuple[Stays, Split | None]:
    """Read the raw stays of a table, and their split if it has a column of that."""
    keys = [schema[key] for key in ("stay", "hour", "intime", "subject", "split") if key in schema]
    columns_of_schema = [*keys, *(item.name for item in dataset.channels + dataset.tasks)]
    table, place = arrow.open_tables(paths, columns_of_schema, "the schema names")
    rows = read_rows(table, dataset, schema["stay"], schema["hour"], place, schema.get("intime"))
    names, index, order, hours, values = rows
    check_static(table, dataset, names, index, order, values, place)
    labels = np.stack([read_labels(table, task, place)[order] for task in dataset.tasks], axis=1).astype(np.float32)
    with placed(paths[0]):
        stays = Stays.from_rows(names, np.bincount(index), hours, values, labels)
    if dataset.hour:
        stays.fill_hours([channel.name for channel in dataset.channels].index(dataset.hour))
    if "subject" in schema:
        patient, subjects = columns.identifiers(table[schema["subject"]], schema["subject"], place)
        stays.subjects = of_stays(subjects[patient], schema["subject"], index, names, place)
    return stays, read_split(table, schema["split"], index, names, place) if "split" in schema else None


def read_rows(
    table: pa.Table, dataset: Dataset, stay: str, hour: str, place: Place, intime: str | None = None
) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
    """Read the raw rows, sorted by stay and hour, which the columns named `stay` and `hour` identify.

    Returns:
        The stays' names, sorted; of each row of the table the index of its stay; the order that sorts the rows; sorted, the
        rows' hours [rows] and values [rows, channels] float32, column-major.
    """
    index, names = columns.identifiers(table[stay], stay, place)
    hours = read_hours(table, hour, intime, index, names, place)
    order = np.lexsort((hours, index))
    for row in np.flatnonzero((np.diff(index[order]) == 0) & (np.diff(hours[order]) == 0)) + 1:
        raise InputError(
            f"{place(order[row])}: stay {names[index[order[row]]]}, hour {hours[order[row]]:g} must occur once; "
            f"it also occurs at {place(order[row - 1])}"
        )
    values = np.empty((len(table), len(dataset.channels)), np.float32, order="F")
    for position, channel in enumerate(dataset.channels):
        column = hours if channel.name == hour else columns.numbers(table[channel.name], channel, place)
        values[:, position] = column[order]
    return names, index, order, hours[order], values


def read_hours(
    table: pa.Table, hour: str, intime: str | None, index: np.ndarray, names: np.ndarray, place: Place
) -> np.ndarray:
    """Read the hour of each row: a number or a duration, or from a time the hours since `intime`, or since the stay's first."""
    times = columns.times(table[hour], hour, place)
    if times is None and intime is None:
        hours = columns.numbers(table[hour], Channel(hour), place)
    elif times is None:
        raise InputError(
            f"{place(0)}, column {hour}: must hold times, since the schema has intime = {intime!r}, got {table[hour][0]}"
        )
    else:
        instants, zone = times
        begin = np.full(len(names), np.iinfo(np.int64).max)
        np.minimum.at(begin, index, instants)
        if intime is not None:
            begin = read_intimes(table, intime, zone, hour, index, names, place)
        hours = (instants - begin[index]) / columns.MICROSECONDS_PER_HOUR
    for row in np.flatnonzero(hours != np.floor(hours)):  # true of NaN, too
        raise InputError(f"{place(row)}, column {hour}: must be a whole hour, got {hours[row]:g}")
    return hours


def read_intimes(
    table: pa.Table, intime: str, zone: str, hour: str, index: np.ndarray, names: np.ndarray, place: Place
) -> np.ndarray:
    """Read when each stay begins, in microseconds [stays]."""
    times = columns.times(table[intime], intime, place)
    if times is None:
        raise InputError(f"{place(0)}, column {intime}: must hold times, got {table[intime][0]}")
    if times[1] != zone:
        raise InputError(
            f"{place(0)}, column {intime}: must be in the time zone of column {hour}, {zone or 'none'!r}, got "
            f"{times[1] or 'none'!r}"
        )
    return of_stays(times[0], intime, index, names, place)


def check_static(
    table: pa.Table,
    dataset: Dataset,
    names: np.ndarray,
    index: np.ndarray,
    order: np.ndarray,
    values: np.ndarray,
    place: Place,
) -> None:
    """Refuse a static channel with two values in one stay; for the arguments see `read_rows`."""
    for position, channel in enumerate(channel for channel in dataset.channels if channel.static):  # they come first
        known = np.flatnonzero(~np.isnan(values[:, position]))
        same_stay = np.diff(index[order[known]]) == 0
        for change in np.flatnonzero(same_stay & (np.diff(values[known, position]) != 0)):
            before, row = order[known[change : change + 2]]
            cells = [str(table[channel.name][int(at)].as_py()) for at in (before, row)]
            raise InputError(
                f"{place(row)}, column {channel.name}: {cells[1]!r}, but stay {names[index[row]]} has {cells[0]!r} at "
                f"{place(before)}; a static channel has one value in a stay"
            )


def read_labels(table: pa.Table, task: Task, place: Place) -> np.ndarray:
    """Read the labels of one task, NaN where empty."""
    labels = columns.numbers(table[task.name], Channel(task.name), place)
    if task.kind == "binary":
        for row in np.flatnonzero(~np.isnan(labels) & ~np.isin(labels, (0, 1))):
            raise InputError(f"{place(row)}, column {task.name}: labels must be 0, 1 or empty, got {labels[row]:g}")
    return labels


def read_split(table: pa.Table, column: str, index: np.ndarray, names: np.ndarray, place: Place) -> Split:
    """Read the split from a column, which must be the same in all rows of a stay."""
    texts = np.array(
        [str(text) for text in table[column].to_pylist()], object
    )  # numpy's own texts lose a NUL at the end
    for row in np.flatnonzero([text not in SPLITS for text in texts]):
        raise InputError(f"{place(row)}, column {column}: must be one of {', '.join(SPLITS)}, got '{texts[row]}'")
    split = of_stays(texts, column, index, names, place)
    for name in SPLITS:
        if name not in split:
            raise InputError(
                f"{place(0)} and after, column {column}: must put at least one stay into {name!r}, got none"
            )
    return {name: np.flatnonzero(split == name) for name in SPLITS}


def of_stays(values: np.ndarray, column: str, index: np.ndarray, names: np.ndarray, place: Place) -> np.ndarray:
    """Reduce a column's values [rows] to those of stays [stays], of which each must have one."""
    first = np.unique(index, return_index=True)[1]
    for row in np.flatnonzero(values != values[first][index]):
        raise InputError(
            f"{place(row)}, column {column}: '{values[row]}', but stay {names[index[row]]} has '{values[first][index[row]]}' at "
            f"{place(first[index[row]])}; a stay has one"
        )
    return values[first]
