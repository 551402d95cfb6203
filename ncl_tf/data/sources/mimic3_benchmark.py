"""Reader of the multitask output of mimic3-benchmarks (Harutyunyan et al., 2019)."""

import dataclasses
import hashlib
import io
import pathlib
from collections.abc import Callable
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.csv

from ncl_tf.data.datasets import MIMIC3_BENCHMARK
from ncl_tf.data.declaration import Channel, Dataset
from ncl_tf.data.preprocessing import clean
from ncl_tf.data.sources import archives, common
from ncl_tf.data.sources.columns import numbers
from ncl_tf.data.splits import SPLITS, Split
from ncl_tf.data.stays import LONGEST_STAY, Stays, hourly_grid
from ncl_tf.errors import InputError

LISTFILE_COLUMNS = (
    "filename",
    "length of stay",
    "length of stay task (masks;labels)",
    "decompensation task (masks;labels)",
)
LABEL_COLUMNS = {"decompensation": LISTFILE_COLUMNS[3], "length_of_stay": LISTFILE_COLUMNS[2]}
CHANNELS = {channel.name: channel for channel in MIMIC3_BENCHMARK.channels}
CHUNK = 500  # series parsed at once

# A line of a listfile: its cells by column, the length of the stay in `hours`, its place in `where`.
Row = dict[str, Any]


@dataclasses.dataclass
class Multitask:
    """The multitask folder: its files and its three lists of stays."""

    where: str
    files: dict[str, Callable[[], bytes]]
    lists: dict[str, list[Row]]

    @classmethod
    def open(cls, path: pathlib.Path) -> "Multitask":
        found = dict(archives.open_source(path, ".csv"))
        tops = [name.removesuffix("train_listfile.csv") for name in found if name.endswith("train_listfile.csv")]
        top = min(tops, key=len, default="")
        return cls.of(str(path), {name.removeprefix(top): read for name, read in found.items() if name.startswith(top)})

    @classmethod
    def of(cls, where: str, files: dict[str, Callable[[], bytes]]) -> "Multitask":
        """Read the lists of a folder's files, given by their names in it."""
        lists = {}
        for split in SPLITS:
            name = f"{split}_listfile.csv"
            if name not in files:
                raise InputError(
                    f"{where}: no {name}; in mimic3-benchmarks, `python -m mimic3models.split_train_val "
                    "data/multitask/` makes the three listfiles"
                )
            lists[split] = read_listfile(files[name](), f"{where}: {name}")
        return cls(where, files, lists)

    def series(self, split: str, filename: str) -> str:
        """Find the name of a stay's series; the validation stays are in train/."""
        name = f"{'test' if split == 'test' else 'train'}/{filename}"
        if name not in self.files:
            raise InputError(f"{self.where}: {split}_listfile.csv names {filename}, but there is no {name}")
        return name


def read_listfile(data: bytes, where: str) -> list[Row]:
    """Read the stays that a listfile names."""
    header, *lines = [line.split(",") for line in data.decode(errors="replace").splitlines()] or [[]]
    for column in LISTFILE_COLUMNS:
        if column not in header:
            raise InputError(f"{where}, line 1: must have a column {column!r}, got {', '.join(header) or 'none'}")
    if not lines:
        raise InputError(f"{where}: no stays")
    rows = []
    for number, cells in enumerate(lines, start=2):
        place = f"{where}, line {number}"
        if len(cells) != len(header):
            raise InputError(f"{place}: must have {len(header)} cells separated by commas, got {len(cells)}")
        row = dict(zip(header, cells, strict=True))
        try:
            row["hours"] = float(row["length of stay"])
        except ValueError:
            row["hours"] = np.nan
        if not 0 <= row["hours"] < LONGEST_STAY:
            raise InputError(
                f"{place}, column length of stay: must be hours below {LONGEST_STAY}, got {row['length of stay']!r}"
            )
        rows.append({**row, "where": place})
    return rows


def read_label_lists(row: Row, length: int, shift: int) -> np.ndarray:
    """Read the labels of one stay [length, tasks]: entry j on row j + shift; masked and absent entries are NaN."""
    labels = np.full((length, len(MIMIC3_BENCHMARK.tasks)), np.nan, np.float32)
    for position, task in enumerate(MIMIC3_BENCHMARK.tasks):
        column = LABEL_COLUMNS[task.name]
        place = f"{row['where']}, column {column}"
        try:
            entries = np.array(row[column].split(";") if row[column].strip(";") else [], float)
        except ValueError as error:
            raise InputError(f"{place}: must be numbers separated by ; ({error})") from error
        if len(entries) % 2:
            raise InputError(f"{place}: must have as many masks as labels, got {len(entries)} entries in all")
        masks, values = np.split(entries, 2)
        for mask in masks[~np.isin(masks, (0, 1))]:
            raise InputError(
                f"{place}: masks must be 0 or 1, got {mask:g} (the list has masks first, then as many labels)"
            )
        sound = np.isin(values, (0, 1)) if task.kind == "binary" else np.isfinite(values)
        for value in values[(masks == 1) & ~sound]:
            allowed = "0 or 1" if task.kind == "binary" else "numbers of hours"
            raise InputError(f"{place}: labels must be {allowed}, got {value:g}")
        if len(masks) > np.floor(row["hours"]) + 1:
            raise InputError(
                f"{place}: must have labels for the hours 0 to {np.floor(row['hours']):g}, got {len(masks)}"
            )
        values = np.where(masks == 1, values, np.nan)[: length - shift]
        labels[shift : shift + len(values), position] = values
    return labels


def parse_series(texts: list[bytes], where: list[str]) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Parse many series at once: rows of each, time [rows], raw values [rows, channels]; errors name the place of a fault."""
    texts = [common.with_newlines(text) for text in texts]
    headers, bodies = zip(*(text.partition(b"\n")[::2] for text in texts), strict=True)
    for header, body, place in zip(headers, bodies, where, strict=True):
        check_header(header, place)
        if not body.strip():
            raise InputError(f"{place}: no row after the header")
        if header != headers[0]:
            raise InputError(f"{place}, line 1: columns are in another order than in {where[0]}")
    lengths = np.array([body.count(b"\n") for body in bodies])
    firsts = np.cumsum(lengths) - lengths

    def place(row: int) -> str:
        series = np.searchsorted(firsts, row, side="right") - 1
        return f"{where[series]}, line {row - firsts[series] + 2}"

    table = read_cells(b"".join(bodies), headers[0].decode().split(","), place)
    columns = {c.name: numbers(table[c.name], c, place) for c in MIMIC3_BENCHMARK.channels}
    time = columns["Hours"]
    steps = np.diff(time)
    steps[firsts[1:] - 1] = 0
    for row in np.flatnonzero(np.isnan(time)):
        raise InputError(f"{place(row)}, column Hours: empty")
    for row in np.flatnonzero(steps < 0) + 1:
        raise InputError(f"{place(row)}, column Hours: must not decrease, got {time[row]:g} after {time[row - 1]:g}")
    return lengths, time, np.stack(list(columns.values()), axis=1).astype(np.float32)


def check_header(header: bytes, where: str) -> None:
    """Refuse a first line that does not have each column once."""
    if not header:
        raise InputError(f"{where}: empty file, or its first line is")
    names = header.decode(errors="replace").split(",")
    faults = {
        "missing column": [name for name in CHANNELS if name not in names],
        "unknown column": [name for name in names if name not in CHANNELS],
        "repeated column": sorted({name for name in names if names.count(name) > 1}),
    }
    for fault, found in faults.items():
        if found:
            raise InputError(f"{where}, line 1: {fault} {', '.join(found)}; the columns must be {','.join(CHANNELS)}")


def read_cells(lines: bytes, names: list[str], place: Callable[[int], str]) -> pa.Table:
    """Read lines of comma-separated cells as a table of texts, null where empty."""
    try:
        return pa.csv.read_csv(
            io.BytesIO(lines),
            pa.csv.ReadOptions(column_names=names),
            pa.csv.ParseOptions(quote_char=False, ignore_empty_lines=False),
            pa.csv.ConvertOptions(
                column_types=dict.fromkeys(names, pa.string()), null_values=[""], strings_can_be_null=True
            ),
        )
    except pa.ArrowInvalid as error:
        for row, line in enumerate(lines.split(b"\n")[:-1]):
            cells = line.count(b",") + 1
            if cells != len(names):
                raise InputError(
                    f"{place(row)}: must have {len(names)} cells separated by commas, got {cells}"
                ) from error
        raise InputError(f"{place(0)} and following: {error}") from error


def read_stays(path: pathlib.Path, carry_back: bool, shift: int) -> tuple[Stays, Split, str]:
    """Read the stays of a multitask folder, or of a tar file of it; see `stays_of_multitask`."""
    stays, split, checksum = stays_of_multitask(Multitask.open(path), carry_back, shift)
    return dataclasses.replace(stays, simulated=archives.is_ward(path, ".csv")), split, checksum


def stays_of_multitask(multitask: Multitask, carry_back: bool, shift: int) -> tuple[Stays, Split, str]:
    """Read raw stays on their hourly grid 0 .. ceil(length of stay), the benchmark's split, and a checksum of the files."""
    rows = [
        (row, split, multitask.series(split, row["filename"])) for split in SPLITS for row in multitask.lists[split]
    ]
    rows.sort(key=lambda item: item[2].split("/")[1])
    names = np.array([series.split("/")[1].removesuffix("_timeseries.csv") for _, _, series in rows])
    repeated = sorted({name for name, follower in zip(names, names[1:], strict=False) if name == follower})
    if repeated:
        raise InputError(f"{multitask.where}: stay {repeated[0]} is listed twice")
    digest = hashlib.sha256()
    parts = []
    with common.progress(None, "reading", total=len(rows)) as bar:
        for start in range(0, len(rows), CHUNK):
            chunk = rows[start : start + CHUNK]
            texts = [multitask.files[series]() for _, _, series in chunk]
            for (row, _, series), text in zip(chunk, texts, strict=True):
                digest.update(f"{series}\0{';'.join(row[column] for column in LISTFILE_COLUMNS)}\0".encode() + text)
            parts.append(parse_series(texts, [f"{multitask.where}: {series}" for _, _, series in chunk]))
            bar.update(len(chunk))
    lengths = np.array([int(np.ceil(row["hours"])) + 1 for row, _, _ in rows])
    grid = _on_grid(*map(np.concatenate, zip(*parts, strict=True)), lengths, carry_back)
    labels = np.concatenate(
        [read_label_lists(row, length, shift) for (row, _, _), length in zip(rows, lengths, strict=True)]
    )
    membership = np.array([split for _, split, _ in rows])
    split = {name: np.flatnonzero(membership == name) for name in SPLITS}
    return Stays(names, lengths, grid, labels), split, digest.hexdigest()


def _on_grid(
    counts: np.ndarray, time: np.ndarray, values: np.ndarray, lengths: np.ndarray, carry_back: bool
) -> np.ndarray:
    """Put events on the hourly grid; the hour column holds the hour."""
    stay = np.repeat(np.arange(len(counts)), counts)
    if carry_back:
        first_event = np.concatenate([[0], np.cumsum(counts)[:-1]])
        stay, time, values = (np.insert(part, first_event, part[first_event], axis=0) for part in (stay, time, values))
        time[first_event + np.arange(len(first_event))] = 0
    grid = hourly_grid(stay, time, values, np.zeros(len(lengths), np.int64), lengths)
    grid[:, list(CHANNELS).index("Hours")] = np.arange(len(grid)) - np.repeat(np.cumsum(lengths) - lengths, lengths)
    return grid


def guess_categorical(dataset: Dataset, stays: Stays, training: np.ndarray) -> Dataset:
    """Declare channels as the authors' code does: categorical if there are at most 25 distinct plausible values in the
    training split, all whole numbers. The levels are the values in any split."""
    values, training_rows = clean(dataset, stays).values, stays.rows(training)

    def guess(channel: Channel, column: np.ndarray) -> Channel:
        levels = np.unique(column[~np.isnan(column)])
        seen = levels[np.isin(levels, column[training_rows])]
        whole = len(levels) >= 2 and len(seen) <= 25 and (seen == np.floor(seen)).all()
        return dataclasses.replace(
            channel,
            kind="categorical" if whole else "continuous",
            levels=tuple(map(float, levels)) if whole else (),
            spellings={},
        )

    channels = tuple(guess(channel, values[:, index]) for index, channel in enumerate(dataset.channels))
    return dataclasses.replace(dataset, channels=channels)
