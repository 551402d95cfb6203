"""Reader of the PhysioNet / Computing in Cardiology Challenge 2019: one `.psv` file per stay."""

import hashlib
import io
import pathlib
import re
from collections.abc import Callable, Sequence

import numpy as np
import pyarrow as pa
import pyarrow.csv

from ncl_tf.data.datasets import PHYSIONET2019
from ncl_tf.data.declaration import Channel
from ncl_tf.data.sources import archives, common
from ncl_tf.data.stays import Stays
from ncl_tf.errors import InputError, placed

# The order of columns in the challenge's files.
HEADER = (
    "HR|O2Sat|Temp|SBP|MAP|DBP|Resp|EtCO2|BaseExcess|HCO3|FiO2|pH|PaCO2|SaO2|AST|BUN|Alkalinephos|Calcium|Chloride|Creatinine|"
    "Bilirubin_direct|Glucose|Lactate|Magnesium|Phosphate|Potassium|Bilirubin_total|TroponinI|Hct|Hgb|PTT|WBC|Fibrinogen|"
    "Platelets|Age|Gender|Unit1|Unit2|HospAdmTime|ICULOS|SepsisLabel"
)
COLUMNS = HEADER.split("|")
CHANNELS = {channel.name: channel for channel in PHYSIONET2019.channels}
LABEL = Channel("SepsisLabel", kind="categorical", levels=(0, 1))
CHUNK = 2000  # stays parsed at once

Member = tuple[str, str, Callable[[], bytes]]  # stay, where it is (for messages), function that reads it


def find_stays(paths: list[pathlib.Path]) -> list[Member]:
    """List all stays of all sources, sorted by name."""
    members: dict[str, Member] = {}
    for path in paths:
        for name, read in archives.open_source(path, ".psv"):
            inside = path / name if path.is_dir() else path
            where = str(inside) if inside.name.endswith(".psv") else f"{path}: {name}"
            stay = pathlib.PurePosixPath(name).stem
            if not re.fullmatch(r"p\d{6}", stay):
                raise InputError(f"{where}: the file name must be pNNNNNN.psv, a p and six digits")
            if stay in members:
                raise InputError(f"{where}: stay {stay} must occur once; its other file is {members[stay][1]}")
            members[stay] = (stay, where, read)
    if not members:
        raise InputError(f"no pNNNNNN.psv file in {', '.join(map(str, paths))}")
    return [members[stay] for stay in sorted(members)]


def read_stays(paths: list[pathlib.Path]) -> tuple[Stays, str]:
    """Read the raw stays, and a checksum of their names and bytes that is the same for a folder and its zip."""
    members = find_stays(paths)
    digest = hashlib.sha256()
    lengths, tables = [], []
    with common.progress(None, "reading", total=len(members)) as bar:
        for start in range(0, len(members), CHUNK):
            chunk = members[start : start + CHUNK]
            texts = [read() for _, _, read in chunk]
            for (stay, _, _), text in zip(chunk, texts, strict=True):
                digest.update(stay.encode() + b"\0" + text)
            rows, table = parse(texts, [where for _, where, _ in chunk])
            lengths.append(rows)
            tables.append(table)
            bar.update(len(chunk))
    names, lengths = np.array([stay for stay, _, _ in members]), np.concatenate(lengths)
    order = [COLUMNS.index(channel.name) for channel in PHYSIONET2019.channels]
    values = np.empty((int(lengths.sum()), len(order)), np.float32, order="F")
    for target, source in enumerate(order):
        np.concatenate([table[:, source] for table in tables], out=values[:, target])
    labels = np.concatenate([table[:, -1:] for table in tables])
    hour = list(CHANNELS).index("ICULOS")
    with placed(paths[0] if len(paths) == 1 else f"{paths[0]} ... {paths[-1]}"):
        stays = Stays.from_rows(names, lengths, values[:, hour], values, labels)
    stays.fill_hours(hour)
    stays.simulated = all(archives.is_ward(path, ".psv") for path in paths)
    return stays, digest.hexdigest()


def parse(texts: list[bytes], where: list[str], columns: Sequence[str] = COLUMNS) -> tuple[np.ndarray, np.ndarray]:
    """Parse many files at once: rows of each, float32 [rows, columns] column-major; errors name file, line and column.

    `columns` are the 41, or the 40 without the label.
    """
    header = "|".join(columns).encode() + b"\n"
    texts = [common.with_newlines(text) for text in texts]
    for text, place in zip(texts, where, strict=True):
        if not text.startswith(header):
            raise header_error(text, place, columns)
    bodies = [text[len(header) :] for text in texts]
    lengths = np.array([body.count(b"\n") for body in bodies])
    for place, length in zip(where, lengths, strict=True):
        if length == 0:
            raise InputError(f"{place}: no row after the header; a stay has at least one hour")
    try:
        arrow = pa.csv.read_csv(
            io.BytesIO(b"".join(bodies)),
            pa.csv.ReadOptions(column_names=columns),
            pa.csv.ParseOptions(delimiter="|", quote_char=False, ignore_empty_lines=False),
            pa.csv.ConvertOptions(column_types=dict.fromkeys(columns, pa.float32()), null_values=["NaN"]),
        )
        table = np.empty((len(arrow), len(columns)), np.float32, order="F")
        for index, column in enumerate(arrow.columns):
            table[:, index] = column.to_numpy()
        sound = len(arrow) == lengths.sum() and is_sound(table, lengths)
    except pa.ArrowInvalid:
        sound = False
    if not sound:
        for body, place in zip(bodies, where, strict=True):
            find_fault(body, place, columns)
        raise InputError(f"{where[0]} ... {where[-1]}: must hold numbers separated by |")
    return lengths, table


def is_sound(table: np.ndarray, lengths: np.ndarray) -> bool:
    """Whether values are finite, labels 0 or 1, categories known and hours whole and rising within each stay."""
    hours, labels = table[:, COLUMNS.index("ICULOS")], table[:, len(CHANNELS) :]
    steps = np.diff(hours)
    steps[np.cumsum(lengths)[:-1] - 1] = 1  # from one stay to the next, hours may fall
    categories = [table[:, COLUMNS.index(c.name)] for c in PHYSIONET2019.channels if c.kind == "categorical"]
    return bool(
        not np.isinf(table).any()
        and np.isin(labels, (0, 1)).all()
        and (hours == np.floor(hours)).all()
        and (steps > 0).all()
        and all((np.isnan(values) | np.isin(values, (0, 1))).all() for values in categories)
    )


def header_error(text: bytes, where: str, columns: Sequence[str] = COLUMNS) -> InputError:
    """Make the error for a bad first line of a file."""
    if not text.strip():
        return InputError(f"{where}: empty file")
    first = text.split(b"\n", 1)[0].decode(errors="replace")
    if "|" not in first:
        return InputError(f"{where}, line 1: columns must be separated by '|', got {first[:60]!r}")
    names = first.split("|")
    missing, unknown = [n for n in columns if n not in names], [n for n in names if n not in columns]
    if missing or unknown:
        parts = [f"missing column {', '.join(missing)}"] * bool(missing)
        parts += [f"unknown column {', '.join(unknown)}"] * bool(unknown)
        return InputError(f"{where}, line 1: {'; '.join(parts)}. The {len(columns)} columns are {'|'.join(columns)}")
    return InputError(f"{where}, line 1: columns must be {'|'.join(columns)}; they repeat or are in another order")


def find_fault(body: bytes, where: str, columns: Sequence[str] = COLUMNS) -> None:
    """Read one file slowly, and raise an error that names line, column and value of its first fault, if it has one."""
    previous = None
    for line, text in enumerate(body.decode(errors="replace").removesuffix("\n").split("\n"), start=2):
        cells = text.split("|")
        if len(cells) != len(columns):
            raise InputError(f"{where}, line {line}: must have {len(columns)} cells separated by |, got {len(cells)}")
        for name, cell in zip(columns, cells, strict=True):
            channel = CHANNELS.get(name, LABEL)
            if channel is not LABEL and cell.casefold() == "nan":
                continue
            try:
                channel.code(cell)
            except ValueError as error:
                allowed = channel.allowed if channel is LABEL else f"{channel.allowed}, or NaN"
                raise InputError(f"{where}, line {line}, column {name}: must be {allowed}, got {cell!r}") from error
        hour = float(cells[COLUMNS.index("ICULOS")])
        place = f"{where}, line {line}, column ICULOS"
        if hour != np.floor(hour):  # true of NaN, too
            raise InputError(f"{place}: must be a whole hour, got {hour:g}")
        if previous is not None and hour <= previous:
            raise InputError(f"{place}: hours must increase, got {hour:g} after {previous:g}")
        previous = hour
