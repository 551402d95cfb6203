"""What the columns of a table mean: numbers, names or times, by their Arrow types; other types are refused.

Durations are hours, booleans are 0 and 1, decimals and dictionaries are the values that they hold. `place` names a row for error
messages.
"""

import re
from collections.abc import Callable

import numpy as np
import pyarrow as pa
import pyarrow.compute

from ncl_tf.data.declaration import Channel
from ncl_tf.errors import InputError

Place = Callable[[int], str]

LARGEST = float(np.finfo(np.float32).max)  # values are stored as float32
LARGEST_ID = 2**53  # tools that hold numbers as floating point round larger whole numbers, so that two ids become one
SECONDS = {"s": 1, "ms": 1e-3, "us": 1e-6, "ns": 1e-9}
MICROSECONDS_PER_HOUR = 3_600_000_000
TIME = re.compile(r"\d{4}-\d\d-\d\d.*?(Z|[+-]\d\d(?::?\d\d)?)?", re.DOTALL)  # with the time zone, if it has one


def numbers(column: pa.ChunkedArray, channel: Channel, place: Place) -> np.ndarray:
    """Convert a column of texts or numbers to float64 [rows], NaN where null; an error names the place of a bad cell."""
    column, where = plain(column), f"column {channel.name}"
    if pa.types.is_null(column.type):
        return np.full(len(column), np.nan)
    if pa.types.is_duration(column.type) and channel.kind == "continuous":
        return durations(column)
    if pa.types.is_boolean(column.type) and not channel.text_only:
        column = column.cast(pa.int8())
    number = pa.types.is_integer(column.type) or pa.types.is_floating(column.type) or pa.types.is_decimal(column.type)
    if not (number or pa.types.is_boolean(column.type) or is_text(column.type)):
        raise InputError(f"{place(0)}, {where}: must hold numbers or texts, got type {column.type}")
    if number and channel.kind == "continuous":
        values = column.cast(pa.float64(), safe=False).to_numpy()
        for row in np.flatnonzero(np.abs(values) > LARGEST):
            raise InputError(f"{place(row)}, {where}: must be a number, got '{values[row]:g}'")
        return values
    if pa.types.is_floating(column.type):
        column = pa.compute.if_else(pa.compute.is_nan(column), None, column)
    return _codes(column.cast(pa.string()), channel, place)


def _codes(column: pa.ChunkedArray, channel: Channel, place: Place) -> np.ndarray:
    """Convert a column of texts, each distinct text once."""
    texts = column.combine_chunks().dictionary_encode()
    codes = np.full(len(texts.dictionary) + 1, np.nan)  # the last one is for null
    for index, text in enumerate(texts.dictionary.to_pylist()):
        try:
            codes[index] = channel.code(text)
        except ValueError as error:
            row = texts.indices.to_pylist().index(index)
            raise InputError(f"{place(row)}, column {channel.name}: must be {channel.allowed}, got {text!r}") from error
    return codes[texts.indices.fill_null(-1).to_numpy()]


def durations(column: pa.ChunkedArray) -> np.ndarray:
    """Convert a column of durations to hours, float64 [rows], NaN where null."""
    ticks = column.cast(pa.int64())
    per_hour = round(3600 / SECONDS[column.type.unit])  # whole, so that whole hours stay whole
    return ticks.cast(pa.float64(), safe=False).to_numpy() / per_hour


def identifiers(column: pa.ChunkedArray, name: str, place: Place) -> tuple[np.ndarray, np.ndarray]:
    """Read a column that names stays or patients: the index of each row's name, and the names, sorted (as numbers if all are)."""
    column, where = plain(column), f"column {name}"
    kind = column.type
    if not (is_text(kind) or pa.types.is_integer(kind) or pa.types.is_floating(kind) or pa.types.is_null(kind)):
        raise InputError(f"{place(0)}, {where}: must hold whole numbers or texts, got type {kind}")
    for row in np.flatnonzero(column.is_null(nan_is_null=True)):
        raise InputError(f"{place(row)}, {where}: must name a stay or a patient, got an empty cell")
    if not is_text(kind):
        values = column.cast(pa.float64(), safe=False).to_numpy()
        for row in np.flatnonzero(values != np.floor(values)):
            raise InputError(f"{place(row)}, {where}: must be a whole number or a text, got {values[row]:g}")
        for row in np.flatnonzero(np.abs(values) >= LARGEST_ID):
            raise InputError(
                f"{place(row)}, {where}: whole numbers must be below 2^53, since larger ones may have been rounded on their way, "
                f"got {column[int(row)]}; write them as texts"
            )
        column = column.cast(pa.int64())
    encoded = column.combine_chunks().dictionary_encode()
    texts = [str(name) for name in encoded.dictionary.to_pylist()]
    _check_names(texts, encoded, where, place)
    names, rank = np.unique(texts, return_inverse=True)
    if all(name.isdecimal() and name.isascii() for name in names):
        digits = [name.lstrip("0") for name in names]  # of any number, more than Python converts
        order = np.array(sorted(range(len(names)), key=lambda index: (len(digits[index]), digits[index])), int)
        names, rank = names[order], np.argsort(order)[rank]
    return rank[encoded.indices.to_numpy()], names


def _check_names(texts: list[str], encoded: pa.DictionaryArray, where: str, place: Place) -> None:
    """Refuse names of stays or patients that cannot be kept apart: with NUL, or the same but for spaces around them."""
    seen: dict[str, str] = {}
    for index, text in enumerate(texts):
        other = seen.setdefault(text.strip(), text)
        if "\0" in text or other != text:
            row = encoded.indices.to_pylist().index(index)
            got = "" if "\0" in text else f", but another one is {other!r}"
            raise InputError(
                f"{place(row)}, {where}: must be a name without NUL and not differ in spaces only, got {text!r}{got}"
            )


def times(column: pa.ChunkedArray, name: str, place: Place) -> tuple[np.ndarray, str] | None:
    """Read a column of timestamps, or of texts such as 2026-01-31 14:00, in one time zone; None if it holds something else.

    Returns:
        Microseconds since the beginning of 1970, int64 [rows], and the time zone, "" if none is given.
    """
    column = plain(column)
    zone = (_zone(column, name, place) if is_text(column.type) else getattr(column.type, "tz", None)) or ""
    if is_text(column.type) and TIME.match(next((text for text in column.to_pylist() if text), "")):
        try:
            column = column.cast(pa.timestamp("us", "UTC" if zone else None))
        except pa.ArrowInvalid as error:
            raise InputError(
                f"{place(0)} and after, column {name}: must hold times such as 2026-01-31 14:00 ({error})"
            ) from error
    if not pa.types.is_timestamp(column.type):
        return None
    for row in np.flatnonzero(column.is_null()):
        raise InputError(f"{place(row)}, column {name}: must be a time, got an empty cell")
    return column.cast(pa.timestamp("us", column.type.tz), safe=False).cast(pa.int64()).to_numpy(), zone


def _zone(column: pa.ChunkedArray, name: str, place: Place) -> str:
    """Read the time zone at the end of all texts that are times."""
    rows: dict[str, int] = {}  # of each zone, the first row with it
    for row, text in enumerate(column.to_pylist()):
        if text is not None and (match := TIME.fullmatch(text)):
            rows.setdefault(match[1] or "", row)
    if len(rows) > 1:
        (first, _), (other, row), *_ = rows.items()
        raise InputError(
            f"{place(row)}, column {name}: all times must be in one time zone, got {other or 'none'!r} after {first or 'none'!r}"
        )
    return next(iter(rows), "")


def plain(column: pa.ChunkedArray) -> pa.ChunkedArray:
    """Replace a dictionary by the values that it holds."""
    return column.cast(column.type.value_type) if pa.types.is_dictionary(column.type) else column


def is_text(kind: pa.DataType) -> bool:
    """Whether it is one of Arrow's types of texts."""
    return pa.types.is_string(kind) or pa.types.is_large_string(kind) or pa.types.is_string_view(kind)
