"""The events of a MEDS dataset: read shard after shard, checked, and reduced to the codes that a schema names."""

import difflib
import pathlib
import re
from collections.abc import Callable, Iterable, Iterator
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute
import pyarrow.parquet

from ncl_tf.data.sources.arrow import MISSING, check_parquet
from ncl_tf.data.sources.columns import is_text
from ncl_tf.data.sources.meds_schema import MedsSchema, expression
from ncl_tf.errors import InputError, reading

BATCH = 1 << 18  # events read at once
NO_TIME = np.iinfo(np.int64).min  # of static events; sorts before every time
TYPES: dict[str, tuple[Callable[[pa.DataType], bool], str]] = {
    "subject_id": (pa.types.is_integer, "an integer"),
    "time": (lambda kind: pa.types.is_timestamp(kind) and kind.tz is None, "a timestamp without time zone"),
    "code": (lambda kind: holds_text(kind), "a string"),
    "numeric_value": (lambda kind: pa.types.is_floating(kind) or pa.types.is_integer(kind), "a number"),
    "text_value": (lambda kind: holds_text(kind), "a string"),
}
REQUIRED = ("subject_id", "time", "code")


class MedsEvents(NamedTuple):
    """Events of codes that the schema names, those of a subject together and in order of time.

    Attributes:
        path: their file.
        row: [events] their rows in it.
        subject: [events] int64.
        time: [events] int64, microseconds; NO_TIME where an event has none.
        code: [events] number of the code in the code book.
        value: [events] float64, of its channel, NaN where it has none.
    """

    path: pathlib.Path
    row: np.ndarray
    subject: np.ndarray
    time: np.ndarray
    code: np.ndarray
    value: np.ndarray

    def chosen(self, which: np.ndarray) -> "MedsEvents":
        """Return some of the events, by mask or index."""
        return MedsEvents(self.path, *(part[which] for part in self[1:]))

    def place(self, event: int) -> str:
        """Name the file, row, subject and time of an event, for messages."""
        return f"{self.path}, row {self.row[event]}: subject {self.subject[event]}, {time_text(self.time[event])}"


class CodeBook:
    """The codes of a dataset, numbered as they occur if the schema names them.

    Attributes:
        names: the codes with numbers.
        measurement: [codes] the measurement of the schema that each code is, or -1.
    """

    def __init__(self, schema: MedsSchema) -> None:
        self.schema, self.names = schema, []
        self._expressions = [expression(pattern) for pattern in schema.patterns]
        self._any = re.compile("|".join(f"(?:{e.pattern})" for e in self._expressions), re.DOTALL)
        self._numbers: dict[str, int] = {}
        self._matched: list[list[bool]] = []
        self._measurement: list[int] = []

    def numbers(self, codes: Iterable[str]) -> np.ndarray:
        """Number codes; -1 for those that the schema does not name."""
        return np.array([self._number(code) for code in codes], np.int64)

    def _number(self, code: str) -> int:
        if code not in self._numbers:
            self._numbers[code] = len(self.names) if self._any.fullmatch(code) else -1
            if self._numbers[code] >= 0:
                self.names.append(code)
                self._matched.append([bool(e.fullmatch(code)) for e in self._expressions])
                self._measurement.append(self._only_measurement(code))
        return self._numbers[code]

    def _only_measurement(self, code: str) -> int:
        found = [i for i, m in enumerate(self.schema.measurements) if expression(m.pattern).fullmatch(code)]
        if len(found) > 1:
            first, other = (self.schema.measurements[i] for i in found[:2])
            channels = [self.schema.dataset.channels[m.channel].name for m in (first, other)]
            raise InputError(
                f"code {code!r} must be of one channel and one pattern of the schema, got {first.pattern!r} of "
                f"{channels[0]!r} and {other.pattern!r} of {channels[1]!r}"
            )
        return found[0] if found else -1

    @property
    def measurement(self) -> np.ndarray:
        return np.array(self._measurement, np.int64)

    def mask(self, patterns: Iterable[str]) -> np.ndarray:
        """Find the codes that one of the schema's patterns means: [codes] bool."""
        columns = [self.schema.patterns.index(pattern) for pattern in patterns]
        return np.array(self._matched, bool).reshape(len(self.names), len(self.schema.patterns))[:, columns].any(axis=1)

    def require_all(self, where: pathlib.Path) -> None:
        """Refuse a pattern of the schema that means no code of the dataset."""
        for position, pattern in enumerate(self.schema.patterns):
            if not any(matched[position] for matched in self._matched):
                raise InputError(f"{where}: the schema's code {pattern!r} never occurs{self.near(pattern)}")

    def near(self, pattern: str) -> str:
        """Suggest codes that occurred and are spelled like a pattern."""
        near = difflib.get_close_matches(pattern, self._numbers, 3)
        return f"; did you mean {' or '.join(map(repr, near))}?" if near else ""


def holds_text(kind: pa.DataType) -> bool:
    """Whether a column holds strings, as they are or as a dictionary."""
    return is_text(kind.value_type if pa.types.is_dictionary(kind) else kind)


def time_text(time: int) -> str:
    """Write a time for messages."""
    return "without time" if time == NO_TIME else str(np.datetime64(int(time), "us").astype("datetime64[s]"))


def open_parquet(path: pathlib.Path, types: dict[str, tuple], required: Iterable[str]) -> pa.parquet.ParquetFile:
    """Open a Parquet file that has the required columns, and columns of the given types."""
    with reading(path, "a Parquet file", pa.ArrowException):
        file = pa.parquet.ParquetFile(path)
        found = file.schema_arrow.names
    for name, (allowed, words) in types.items():
        position = file.schema_arrow.get_field_index(name)
        if found.count(name) > 1 or (name not in found and name in required):
            raise InputError(f"{path}: must have one column {name!r}, got {', '.join(found)}")
        if position >= 0 and not allowed(kind := file.schema_arrow.field(position).type):
            raise InputError(f"{path}, column {name}: must be {words}, got type {kind}")
    return file


def read_parquet(path: pathlib.Path, types: dict[str, tuple], required: Iterable[str]) -> pa.Table:
    """Read a whole Parquet file; arguments as in `open_parquet`."""
    file = open_parquet(path, types, required)
    check_parquet(file, path)
    with reading(path, "a Parquet file", pa.ArrowException):
        table = file.read()
        table.validate(full=True)
        return table


def microseconds(column: pa.Array) -> np.ndarray:
    """Convert timestamps to int64 microseconds, NO_TIME where null."""
    numbers = column.cast(pa.timestamp("us"), safe=False).cast(pa.int64())
    return numbers.fill_null(int(NO_TIME)).to_numpy(zero_copy_only=False)


def read_meds_events(paths: list[pathlib.Path], book: CodeBook, progress: Callable[[int], Any]) -> Iterator[MedsEvents]:
    """Read the events of all shards, some complete subjects at a time; `progress` is called with the number just read."""
    order = _Order()
    for path in paths:
        names = [name for name in open_parquet(path, TYPES, REQUIRED).schema_arrow.names if name in TYPES]
        waiting, row = [], 0  # the events of a subject who may continue in the next batch
        for batch in _batches(path, names):
            events = _read_batch(batch, path, row, order, book)
            row += len(batch)
            progress(len(batch))
            joined = map(np.concatenate, zip(*(part[1:] for part in [*waiting, events]), strict=True))
            events = MedsEvents(path, *joined)
            continues = events.subject == order.subject
            waiting = [events.chosen(continues)]
            yield events.chosen(~continues)
        yield from waiting


def _batches(path: pathlib.Path, names: list[str]) -> Iterator[pa.RecordBatch]:
    """Read some columns of a shard in batches that have rows."""
    with reading(path, "a Parquet file", pa.ArrowException):
        for batch in pa.parquet.ParquetFile(path, read_dictionary=["code"]).iter_batches(BATCH, columns=names):
            batch.validate(full=True)
            if len(batch):
                yield batch


class _Order:
    """Checks that the events of a subject follow one another in one file, and that their times rise.

    Attributes:
        subject: of the last event so far.
    """

    def __init__(self) -> None:
        self.subject = 0
        self._last = np.zeros((2, 0), np.int64)  # subject and time of the last event with a time, if there is one
        self._begins: dict[int, str] = {}

    def check(self, subject: np.ndarray, time: np.ndarray, path: pathlib.Path, first_row: int) -> None:
        """Check the next events, the first of which has this row in a file."""
        before = np.append(~subject[0] if first_row == 0 else self.subject, subject[:-1])
        for row in np.flatnonzero(subject != before):
            place = f"{path}, row {first_row + row}"
            if (other := self._begins.setdefault(int(subject[row]), place)) != place:
                raise InputError(
                    f"{place}: the events of subject {subject[row]} must follow one another in one file, got others at "
                    f"{other}"
                )
        timed = np.flatnonzero(time != NO_TIME)
        subjects, times = np.append(self._last, [subject[timed], time[timed]], axis=1)
        for fall in np.flatnonzero((np.diff(subjects) == 0) & (times[1:] < times[:-1])):
            row = timed[fall + 1 - self._last.shape[1]]
            raise InputError(
                f"{path}, row {first_row + row}: times of subject {subject[row]} must not fall, got "
                f"{time_text(time[row])} after {time_text(times[fall])}"
            )
        self.subject = subject[-1]
        self._last = np.array([subjects[-1:], times[-1:]])


def _read_batch(batch: pa.RecordBatch, path: pathlib.Path, first_row: int, order: _Order, book: CodeBook) -> MedsEvents:
    """Check a batch, and take the events of codes that the schema names."""
    for name in ("subject_id", "code"):
        for row in np.flatnonzero(batch[name].is_null()):
            raise InputError(f"{path}, row {first_row + row}, column {name}: must not be null")
    subject, time = batch["subject_id"].cast(pa.int64()).to_numpy(), microseconds(batch["time"])
    order.check(subject, time, path, first_row)
    code = batch["code"] if pa.types.is_dictionary(batch["code"].type) else batch["code"].dictionary_encode()
    number = book.numbers(code.dictionary.to_pylist())[code.indices.to_numpy()]
    kept = np.flatnonzero(number >= 0)
    events = MedsEvents(path, first_row + kept, subject[kept], time[kept], number[kept], np.full(len(kept), np.nan))
    return _with_values(events, batch.select([n for n in batch.schema.names if n.endswith("_value")]).take(kept), book)


def _with_values(events: MedsEvents, batch: pa.RecordBatch, book: CodeBook) -> MedsEvents:
    """Compute the value that each event gives its channel."""
    columns = {name: batch[name] for name in batch.schema.names}
    measured, measurements = np.append(book.measurement, -1)[events.code], book.schema.measurements
    numeric = columns.get("numeric_value", pa.nulls(len(batch), pa.float64()))
    number = numeric.cast(pa.float64()).fill_null(np.nan).to_numpy(zero_copy_only=False)
    factor, offset = (np.array([getattr(m, name) for m in measurements] + [np.nan]) for name in ("factor", "offset"))
    value = number * factor[measured] + offset[measured]
    for row in np.flatnonzero(np.isinf(value)):
        raise InputError(
            f"{events.place(row)}, code {book.names[events.code[row]]!r}: must be a number, got {number[row]}"
        )
    text = columns.get("text_value", pa.nulls(len(batch), pa.string()))
    for position, declared in enumerate(measurements):
        channel = book.schema.dataset.channels[declared.channel]
        if channel.kind == "categorical":
            rows = np.flatnonzero(measured == position)
            texts = pa.compute.coalesce(*(column.take(rows).cast(pa.string()) for column in (text, numeric)))
            value[rows] = np.nan if declared.level is None else declared.level
            for row, cell in zip(rows, texts.to_pylist(), strict=True) if declared.level is None else ():
                try:
                    value[row] = np.nan if cell in MISSING else channel.code(cell)
                except ValueError as error:
                    raise InputError(
                        f"{events.place(row)}, code {book.names[events.code[row]]!r}: must be {channel.allowed}, got {cell!r}"
                    ) from error
    return events._replace(value=value)
