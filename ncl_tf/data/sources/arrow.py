"""Reader of tables, .csv and .parquet, one file or several."""

import bisect
import csv
import hashlib
import pathlib
from collections.abc import Sequence

import numpy as np
import pyarrow as pa
import pyarrow.csv
import pyarrow.parquet

from ncl_tf import files
from ncl_tf.data.sources.columns import Place, plain
from ncl_tf.errors import InputError, reading
from ncl_tf.memory import check_claim

MISSING = ["", "NaN", "nan", "NA"]  # cells of a CSV without a value


def find_files(paths: Sequence[pathlib.Path]) -> list[pathlib.Path]:
    """List the files that sources name: files, and folders of Parquet files, whose own folders are searched too."""
    found: list[pathlib.Path] = []
    for path in paths:
        inside = sorted(path.rglob("*.parquet")) if path.is_dir() else [path]
        if not inside:
            raise InputError(f"{path}: must be a table, or a folder with .parquet files, got a folder without one")
        found += inside
    for index, path in enumerate(found):
        if path.suffix != found[0].suffix:
            raise InputError(f"{path}: all files of one table must be .csv, or all .parquet, got {found[0]} beside it")
        if path in found[:index]:
            raise InputError(f"{path}: must be named once as a source, got it twice")
    return found


def read_table(path: pathlib.Path) -> pa.Table:
    """Read one file; CSV cells stay text, so that errors can name the line of a bad one."""
    with reading(path, "a table that can be read", pa.ArrowException, csv.Error):
        if path.suffix == ".parquet":
            check_parquet(pa.parquet.ParquetFile(path), path)
            table = pa.parquet.read_table(path, partitioning=None)  # no columns from the names of folders
            table.validate(full=True)  # texts may hold any bytes
            return table
        if path.suffix == ".csv":
            names = _check_text(path)
            types = dict.fromkeys(names, pa.string())
            convert = pa.csv.ConvertOptions(column_types=types, null_values=MISSING, strings_can_be_null=True)
            parse = pa.csv.ParseOptions(ignore_empty_lines=False)  # else the lines in messages would be wrong
            try:
                return pa.csv.read_csv(path, parse_options=parse, convert_options=convert)
            except pa.ArrowInvalid:  # again on one thread: then the message has the row
                return pa.csv.read_csv(path, pa.csv.ReadOptions(use_threads=False), parse, convert)
    raise InputError(f"{path}: the table must be a .csv or .parquet file")


def _check_text(path: pathlib.Path) -> list[str]:
    """Refuse a CSV with NUL, or with quotes that do not close, behind which rows would be lost; return its header."""
    quoted = False
    with path.open("rb") as file:
        for part in iter(lambda: file.read(2**20), b""):
            quoted = quoted or b'"' in part
            if b"\0" in part:
                raise ValueError("it has NUL, which a text in UTF-8 has not")
    with path.open(encoding="utf-8-sig", newline="") as file:
        reader = csv.reader(file, strict=True)
        try:
            names = next(reader, [])
            for _ in reader if quoted else ():
                pass
        except csv.Error as error:
            raise InputError(
                f"{path}, line {reader.line_num}: quotes must open and close a whole cell ({error})"
            ) from error
    return names


def check_parquet(file: pa.parquet.ParquetFile, path: pathlib.Path) -> None:
    """Refuse a Parquet file that claims more values than there is memory for; a few bytes can stand for millions of rows."""
    widths = [_width(kind) for kind in file.schema_arrow.types]
    check_claim(path, file.metadata.num_rows * sum(widths))


def _width(kind: pa.DataType) -> float:
    try:
        return kind.bit_width / 8
    except ValueError:  # of texts and lists, which have no fixed one
        return 8


def open_tables(paths: Sequence[pathlib.Path], columns: list[str], who: str) -> tuple[pa.Table, Place]:
    """Read files as one table that has rows and each of the columns once, and a function that names a row's place.

    `who` needs the columns, in words for a message: "the schema names".
    """
    tables = [_with_columns(path, columns, who) for path in paths]
    try:
        table = pa.concat_tables(tables, promote_options="permissive")  # whole numbers and fractions become fractions
    except pa.ArrowException as error:
        raise _different_types(paths, tables) from error
    if not len(table):
        raise InputError(f"{paths[0]}: no rows")
    ends = np.cumsum([len(part) for part in tables]).tolist()

    def place(row: int) -> str:
        part = bisect.bisect_right(ends, row)
        row -= ends[part] - len(tables[part])
        return f"{paths[part]}, line {row + 2}" if paths[part].suffix == ".csv" else f"{paths[part]}, row {row}"

    return table, place


def _with_columns(path: pathlib.Path, columns: list[str], who: str) -> pa.Table:
    table = read_table(path)
    hint = "; commas separate columns" if path.suffix == ".csv" and len(table.column_names) == 1 else ""
    for name in columns:
        if table.column_names.count(name) != 1:
            raise InputError(
                f"{path}: must have one column {name!r}, which {who}, got {table.column_names.count(name)} among "
                f"{', '.join(table.column_names)}{hint}"
            )
    names = list(dict.fromkeys(columns))
    return pa.table([plain(table[name]) for name in names], names=names)


def _different_types(paths: Sequence[pathlib.Path], tables: list[pa.Table]) -> InputError:
    """Make the error for files of which a column has types that do not go together."""
    for path, table in zip(paths[1:], tables[1:], strict=True):
        for field in table.schema:
            first = tables[0].schema.field(field.name)
            try:
                pa.unify_schemas([pa.schema([first]), pa.schema([field])], promote_options="permissive")
            except pa.ArrowException:
                zones = [pa.types.is_timestamp(part.type) and part.type.tz for part in (first, field)]
                what = "one time zone" if zones[0] != zones[1] else "one type"
                return InputError(
                    f"{path}, column {field.name}: must have {what} in all files, got {field.type}, and {first.type} in "
                    f"{paths[0]}"
                )
    return InputError(f"{paths[0]} ... {paths[-1]}: columns must have the same types in all files")


def checksum_of_files(paths: Sequence[pathlib.Path]) -> str:
    """Compute the SHA-256 of a file's bytes, or that of the checksums of several, in hex."""
    sums = [files.sha256(path) for path in paths]
    return sums[0] if len(sums) == 1 else hashlib.sha256("".join(sums).encode()).hexdigest()
