"""The tables of MIMIC-III as they are downloaded: found, checked, and read row by row or in large blocks."""

import collections
import contextlib
import csv
import dataclasses
import gzip
import io
import os
import pathlib
import zlib
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from datetime import datetime

import pyarrow as pa
import pyarrow.csv

from ncl_tf.data.sources.common import progress
from ncl_tf.errors import InputError

EVENT_COLUMNS = ("SUBJECT_ID", "HADM_ID", "ITEMID", "CHARTTIME", "VALUE", "VALUEUOM")
NEEDED = {
    "ICUSTAYS": (
        *("SUBJECT_ID", "HADM_ID", "ICUSTAY_ID", "FIRST_CAREUNIT", "LAST_CAREUNIT"),
        *("FIRST_WARDID", "LAST_WARDID", "INTIME", "OUTTIME", "LOS"),
    ),
    "ADMISSIONS": ("SUBJECT_ID", "HADM_ID", "ADMITTIME", "DISCHTIME", "DEATHTIME"),
    "PATIENTS": ("SUBJECT_ID", "DOB", "DOD"),
    "CHARTEVENTS": (*EVENT_COLUMNS, "ICUSTAY_ID"),
    "LABEVENTS": EVENT_COLUMNS,
    "OUTPUTEVENTS": (*EVENT_COLUMNS, "ICUSTAY_ID"),
}
EVENT_TABLES = ("CHARTEVENTS", "LABEVENTS", "OUTPUTEVENTS")
DOWNLOAD = "https://physionet.org/content/mimiciii/1.4/"
# What MIMIC-IV has in place of ICUSTAY_ID and DOB.
COLUMNS_OF_MIMIC4 = {"STAY_ID", "ANCHOR_AGE"}
TYPES = {name: pa.int32() for name in ("SUBJECT_ID", "HADM_ID", "ICUSTAY_ID", "ITEMID")}
TYPES |= {name: pa.string() for name in ("CHARTTIME", "VALUE", "VALUEUOM")}
# Texts that the six scripts take for an empty cell; "None" is not among them, for it is a level of the Glasgow coma scale.
MISSING = (
    *("", "#N/A", "#N/A N/A", "#NA", "-1.#IND", "-1.#QNAN", "-NaN", "-nan", "1.#IND", "1.#QNAN"),
    *("<NA>", "N/A", "NA", "NULL", "NaN", "n/a", "nan", "null"),
)
MOST_DIGITS = 18  # of an id
BLOCK = 2**24  # bytes of text that are parsed at once
MOST_WORKERS = 8  # unpacking, which is one thread, feeds no more
EPOCH = datetime(1970, 1, 1)
DATE = "2130-02-04 04:25:00"  # an example
DATE_LENGTH = len(DATE)


@dataclasses.dataclass(frozen=True)
class RawTable:
    """One table of the download.

    Attributes:
      name: such as CHARTEVENTS.
      path: NAME.csv or NAME.csv.gz.
      columns: its header, in upper case.
    """

    name: str
    path: pathlib.Path
    columns: tuple[str, ...]

    def open(self) -> tuple[io.RawIOBase, io.BufferedIOBase]:
        """Open the file, and the text in it; the first one's position is the progress in bytes of the disk."""
        file = self.path.open("rb")
        return file, gzip.GzipFile(fileobj=file) if self.path.suffix == ".gz" else file

    def damaged(self, error: Exception) -> InputError:
        """Return the error of a file that ends early or cannot be unpacked."""
        return InputError(
            f"{self.path}: cannot be read to its end ({error}); if it is a truncated download, fetch it again"
        )


def find_tables(folder: pathlib.Path) -> dict[str, RawTable]:
    """Find the six tables in the folder of the download, and check that each has the columns that are needed."""
    if not folder.is_dir():
        raise InputError(f"{folder}: --raw must be the folder of the MIMIC-III download, got {_kind(folder)}")
    present = {path.name.upper(): path for path in sorted(folder.iterdir(), reverse=True)}
    paths = {name: present.get(f"{name}.CSV", present.get(f"{name}.CSV.GZ")) for name in NEEDED}
    tables = {name: RawTable(name, path, _header(path)) for name, path in paths.items() if path}
    for table in tables.values():
        if COLUMNS_OF_MIMIC4.intersection(table.columns):
            raise InputError(f"{table.path}, line 1: has the columns of MIMIC-IV; this reads MIMIC-III ({DOWNLOAD})")
    for name, needed in NEEDED.items():
        if name not in tables:
            if (folder / "icu").is_dir() or (folder / "hosp").is_dir():
                raise InputError(f"{folder}: has the folders of MIMIC-IV; this reads MIMIC-III ({DOWNLOAD})")
            raise InputError(f"{folder}: no {name}.csv or {name}.csv.gz; it is part of the download ({DOWNLOAD})")
        table = tables[name]
        missing = [column for column in needed if column not in table.columns]
        if missing:
            got = f"no {', '.join(missing)}" if table.columns else "an empty file"
            raise InputError(f"{table.path}, line 1: must have the columns {', '.join(needed)}; got {got}")
    return tables


def _kind(path: pathlib.Path) -> str:
    return "a file" if path.exists() else "a path that does not exist"


def _header(path: pathlib.Path) -> tuple[str, ...]:
    table = RawTable(path.name, path, ())
    try:
        file, text = table.open()
        with file, text:
            line = text.readline().decode("utf-8-sig", errors="replace")
    except (OSError, EOFError, zlib.error) as error:
        raise table.damaged(error) from error
    return tuple(name.strip().upper() for name in next(csv.reader([line]), ()))


def dict_rows(table: RawTable) -> Iterator[tuple[str, dict[str, str]]]:
    """Read a small table: the place of each row, and its needed cells by column."""
    wanted = [(column, table.columns.index(column)) for column in NEEDED[table.name]]
    try:
        file, text = table.open()
        with file, text:
            reader = csv.reader(io.TextIOWrapper(text, "utf-8", errors="replace", newline=""))
            next(reader, None)
            for cells in filter(None, reader):
                place = f"{table.path}, line {reader.line_num}"
                if len(cells) != len(table.columns):
                    raise InputError(f"{place}: must have {len(table.columns)} cells, got {len(cells)}")
                yield place, {column: cells[index].strip() for column, index in wanted}
    except (OSError, EOFError, zlib.error) as error:
        raise table.damaged(error) from error


def whole_number(row: dict[str, str], column: str, place: str) -> int:
    """Return an id of a row."""
    if not row[column].isdecimal() or len(row[column]) > MOST_DIGITS:
        raise InputError(f"{place}, column {column}: must be a whole number, got {row[column]!r}")
    return int(row[column])


def seconds(row: dict[str, str], column: str, place: str) -> int | None:
    """Return a date of a row in seconds since 1970, or None if the cell is empty."""
    if row[column] in MISSING:
        return None
    with contextlib.suppress(ValueError):
        moment = datetime.fromisoformat(row[column])
        if str(moment) == row[column] and len(row[column]) == DATE_LENGTH:
            return round((moment - EPOCH).total_seconds())
    raise InputError(f"{place}, column {column}: must be a date such as {DATE}, got {row[column]!r}")


def map_blocks(tables: list[RawTable], work: Callable[[RawTable, int, bytes], object]) -> Iterator[object]:
    """Apply `work` to blocks of lines of large tables on all cores, and yield its results in order.

    Memory is bounded by a few blocks per core. A bar shows the share of the files that was read, in bytes on the disk.

    Args:
      work: called with the table, the number of the block's first line, and the block, whole lines.
    """
    workers = min(os.cpu_count() or 1, MOST_WORKERS)
    size = sum(table.path.stat().st_size for table in tables)
    waiting: collections.deque[Future] = collections.deque()
    with (
        progress(None, "reading", unit="B", total=size, unit_scale=True, unit_divisor=1024) as bar,
        ThreadPoolExecutor(workers) as pool,
    ):
        try:
            for table in tables:
                for first, block in _blocks(table, bar.update):
                    waiting.append(pool.submit(work, table, first, block))
                    if len(waiting) > workers + 1:
                        yield waiting.popleft().result()
            while waiting:
                yield waiting.popleft().result()
        finally:
            for future in waiting:
                future.cancel()


def _blocks(table: RawTable, advance: Callable[[int], object]) -> Iterator[tuple[int, bytes]]:
    """Yield the lines after the header in blocks, each with the number of its first line."""
    number, rest, position = 2, b"", 0
    try:
        file, text = table.open()
        with file, text:
            text.readline()
            while part := text.read(BLOCK):
                advance(file.tell() - position)
                position = file.tell()
                part = rest + part
                end = _end_of_lines(part)
                if end:
                    yield number, part[:end]
                number, rest = number + part.count(b"\n", 0, end), part[end:]
            if rest:
                yield number, rest
        advance(table.path.stat().st_size - position)  # a table may have no rows
    except (OSError, EOFError, zlib.error) as error:
        raise table.damaged(error) from error


def _end_of_lines(text: bytes) -> int:
    """Return where the last line ends, 0 if none does; a line break within a quoted cell ends no line."""
    end = last = text.rfind(b"\n") + 1
    quotes = text.count(b'"', 0, end)
    while end and quotes % 2:
        before = text.rfind(b"\n", 0, end - 1) + 1
        quotes -= text.count(b'"', before, end)
        end = before
    return end or last  # no line has its quotes in pairs: then they are text


def parse_block(table: RawTable, first: int, block: bytes) -> pa.Table:
    """Parse lines of an event table: its needed columns; ids are null where empty, texts where missing."""
    wanted = list(NEEDED[table.name])
    try:
        return pa.csv.read_csv(
            pa.py_buffer(block),
            pa.csv.ReadOptions(column_names=table.columns, use_threads=False, block_size=len(block)),
            convert_options=pa.csv.ConvertOptions(
                include_columns=wanted,
                column_types={column: TYPES[column] for column in wanted},
                null_values=MISSING,
                strings_can_be_null=True,
            ),
        )
    except pa.ArrowInvalid as error:
        check_lines(table, first, block)
        raise InputError(f"{table.path}, line {first} and following: {error}") from error


def check_lines(table: RawTable, first: int, block: bytes) -> None:
    """Raise the error of the first line whose cells cannot be parsed; slow."""
    try:
        block.decode()
    except UnicodeDecodeError as error:
        line, got = first + block.count(b"\n", 0, error.start), block[error.start : error.end]
        raise InputError(f"{table.path}, line {line}: must be text in UTF-8, got the bytes {got!r}") from error
    reader = csv.reader(io.StringIO(block.decode("utf-8", errors="replace"), newline=""))
    for cells in filter(None, reader):
        place = f"{table.path}, line {first + reader.line_num - 1}"
        if len(cells) != len(table.columns):
            raise InputError(f"{place}: must have {len(table.columns)} cells, got {len(cells)}")
        row = dict(zip(table.columns, cells, strict=True))
        for column in NEEDED[table.name]:
            if TYPES[column] == pa.int32() and row[column] not in MISSING:
                whole_number(row, column, place)
        seconds(row, "CHARTTIME", place)
