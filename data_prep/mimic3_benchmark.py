"""MIMIC-III Benchmark (Harutyunyan et al., 2019) -> cohort file.

Reads the multitask output of mimic3-benchmarks: `train/` and `test/` with `*_timeseries.csv`, and `train_listfile.csv`,
`val_listfile.csv`, `test_listfile.csv` beside them; a folder or a tar file of it, which is not unpacked to disk.

  bin/prepare mimic3_benchmark --source=data/multitask --output=mimic3.h5

In mimic3-benchmarks, `python -m mimic3benchmark.scripts.create_multitask data/root/ data/multitask/` makes the series and
`python -m mimic3models.split_train_val data/multitask/` the three listfiles. Without access to MIMIC-III, try
`bin/prepare simulate --form=mimic3_benchmark`.

Where the authors' code prepares otherwise than the paper says, a flag follows it: --label_row=next,
--before_first_event=carry_back, --categorical=guess.
"""

import dataclasses
import hashlib
import io
import pathlib

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.csv
from absl import flags

from data_prep import common, sources
from ncl_tf import cli
from ncl_tf.data.datasets import MIMIC3_BENCHMARK
from ncl_tf.data.declaration import Channel, Dataset
from ncl_tf.data.splits import SPLITS, Split
from ncl_tf.data.stays import Stays, hourly_grid
from ncl_tf.errors import InputError

SOURCE = flags.DEFINE_string("source", None, "The multitask folder, or a tar file of it.", required=True)
LABEL_ROW = flags.DEFINE_enum(
    "label_row", "same", ["same", "next"], "Row that carries the label of hour j: j, or j + 1."
)
BEFORE_FIRST_EVENT = flags.DEFINE_enum(
    "before_first_event", "missing", ["missing", "carry_back"], "Hours before the first event: missing, or its values."
)
CATEGORICAL = flags.DEFINE_enum(
    "categorical",
    "declare",
    ["declare", "guess"],
    "Categorical channels: as declared, or all with <= 25 whole numbers.",
)
flags.adopt_module_key_flags(common)

LISTFILE_COLUMNS = (
    "filename",
    "length of stay",
    "length of stay task (masks;labels)",
    "decompensation task (masks;labels)",
)
LABEL_COLUMNS = {"decompensation": LISTFILE_COLUMNS[3], "length_of_stay": LISTFILE_COLUMNS[2]}
CHANNELS = {channel.name: channel for channel in MIMIC3_BENCHMARK.channels}
CHUNK = 500  # series parsed at once


@dataclasses.dataclass
class Multitask:
    """The multitask folder: its files and its three lists of stays."""

    where: str
    files: dict[str, sources.Callable[[], bytes]]
    lists: dict[str, pd.DataFrame]

    @classmethod
    def open(cls, path: pathlib.Path) -> "Multitask":
        found = dict(sources.open_source(path, ".csv"))
        tops = sorted(
            {name.removesuffix("train_listfile.csv") for name in found if name.endswith("train_listfile.csv")}, key=len
        )
        top = tops[0] if tops else ""
        files = {name.removeprefix(top): read for name, read in found.items() if name.startswith(top)}
        lists = {}
        for split in SPLITS:
            name = f"{split}_listfile.csv"
            if name not in files:
                raise InputError(
                    f"{path}: no {name}; in mimic3-benchmarks, `python -m mimic3models.split_train_val "
                    "data/multitask/` makes the three listfiles"
                )
            lists[split] = read_listfile(files[name](), f"{path}: {name}")
        if not sum(map(len, lists.values())):
            raise InputError(f"{path}: the listfiles name no stays at all")
        return cls(str(path), files, lists)

    def series(self, split: str, filename: str) -> str:
        """Name of a stay's series; the validation stays lie in train/."""
        name = f"{'test' if split == 'test' else 'train'}/{filename}"
        if name not in self.files:
            raise InputError(f"{self.where}: {split}_listfile.csv names {filename}, but there is no {name}")
        return name


def read_listfile(data: bytes, where: str) -> pd.DataFrame:
    """A listfile as text, with `hours` the length of each stay as a number."""
    table = pd.read_csv(io.BytesIO(data), dtype=str, keep_default_na=False)
    for column in LISTFILE_COLUMNS:
        if column not in table:
            raise InputError(f"{where}, line 1: no column {column!r}; it has {', '.join(table.columns)}")
    hours = pd.to_numeric(table["length of stay"], errors="coerce")
    for row in np.flatnonzero(~(hours >= 0)):
        raise InputError(
            f"{where}, line {row + 2}, column length of stay: {table['length of stay'][row]!r} is not a number of hours"
        )
    table["hours"] = hours
    table["where"] = [f"{where}, line {row + 2}" for row in range(len(table))]
    return table


def read_labels(row: pd.Series, length: int, shift: int) -> np.ndarray:
    """Labels of one stay [length, tasks]: entry j on row j + shift; masked and absent entries are NaN."""
    labels = np.full((length, len(MIMIC3_BENCHMARK.tasks)), np.nan, np.float32)
    for position, task in enumerate(MIMIC3_BENCHMARK.tasks):
        column = LABEL_COLUMNS[task.name]
        place = f"{row['where']}, column {column}"
        try:
            entries = np.array(row[column].split(";") if row[column] else [], float)
        except ValueError as error:
            raise InputError(f"{place}: {error}; allowed are numbers separated by ;") from error
        if len(entries) % 2:
            raise InputError(f"{place}: {len(entries)} entries, but as many masks as labels make an even number")
        masks, values = np.split(entries, 2)
        if not np.isin(masks, (0, 1)).all() or (
            task.kind == "binary" and not np.isin(values[masks == 1], (0, 1)).all()
        ):
            raise InputError(f"{place}: masks{' and labels' if task.kind == 'binary' else ''} must be 0 or 1")
        if len(masks) > np.floor(row["hours"]) + 1:
            raise InputError(f"{place}: {len(masks)} labels for the hours 0 to {np.floor(row['hours']):g} of the stay")
        values = np.where(masks == 1, values, np.nan)[: length - shift]
        labels[shift : shift + len(values), position] = values
    return labels


def parse_series(texts: list[bytes], where: list[str]) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Many series at once -> rows of each, time [rows] and raw values [rows, channels]; faults are told with their place."""
    header = texts[0].split(b"\n", 1)[0].rstrip(b"\r")
    names = header.decode().split(",")
    if sorted(names) != sorted(CHANNELS):
        odd = sorted(set(names) ^ set(CHANNELS))
        raise InputError(
            f"{where[0]}, line 1: missing or unknown columns {', '.join(odd)}; expected {', '.join(CHANNELS)}"
        )
    bodies = []
    for text, place in zip(texts, where, strict=True):
        first, _, body = text.replace(b"\r\n", b"\n").partition(b"\n")
        if first != header:
            raise InputError(
                f"{place}, line 1: header differs from that of {where[0]}: {first[:80].decode(errors='replace')!r}"
            )
        if not body.strip():
            raise InputError(f"{place}: no row after the header")
        bodies.append(body if body.endswith(b"\n") else body + b"\n")
    lengths = np.array([body.count(b"\n") for body in bodies])
    firsts = np.cumsum(lengths) - lengths

    def place(row: int) -> str:
        series = np.searchsorted(firsts, row, side="right") - 1
        return f"{where[series]}, line {row - firsts[series] + 2}"

    try:
        table = pa.csv.read_csv(
            io.BytesIO(b"".join(bodies)),
            pa.csv.ReadOptions(column_names=names),
            pa.csv.ParseOptions(ignore_empty_lines=False),
            pa.csv.ConvertOptions(
                column_types=dict.fromkeys(names, pa.string()), null_values=[""], strings_can_be_null=True
            ),
        )
    except pa.ArrowInvalid as error:
        raise InputError(f"{where[0]} ... {where[-1]}: {error}") from error
    columns = {c.name: common.numbers(table[c.name], c, place) for c in MIMIC3_BENCHMARK.channels}
    time = columns["Hours"]
    steps = np.diff(time)
    steps[np.cumsum(lengths)[:-1] - 1] = 0
    for row in np.flatnonzero(np.isnan(time)):
        raise InputError(f"{place(row)}, column Hours: empty")
    for row in np.flatnonzero(steps < 0) + 1:
        raise InputError(
            f"{place(row)}, column Hours: {time[row]:g} follows {time[row - 1]:g}; hours must not go backwards"
        )
    return lengths, time, np.stack(list(columns.values()), axis=1).astype(np.float32)


def read_stays(path: pathlib.Path, carry_back: bool, shift: int) -> tuple[Stays, Split, str]:
    """Raw stays on their hourly grid 0 .. ceil(length of stay), the benchmark's split, and a checksum of what was read."""
    multitask = Multitask.open(path)
    rows = [
        (row, split, multitask.series(split, row["filename"]))
        for split in SPLITS
        for _, row in multitask.lists[split].iterrows()
    ]
    rows.sort(key=lambda item: item[2].split("/")[1])
    names = np.array([series.split("/")[1].removesuffix("_timeseries.csv") for _, _, series in rows])
    repeated = sorted({name for name, follower in zip(names, names[1:], strict=False) if name == follower})
    if repeated:
        raise InputError(f"{path}: stay {repeated[0]} is listed twice")
    digest = hashlib.sha256()
    counts, times, values = [], [], []
    with common.progress(None, "reading", total=len(rows)) as bar:
        for start in range(0, len(rows), CHUNK):
            chunk = rows[start : start + CHUNK]
            texts = [multitask.files[series]() for _, _, series in chunk]
            for (row, _, series), text in zip(chunk, texts, strict=True):
                digest.update(f"{series}\0{';'.join(row[list(LISTFILE_COLUMNS)])}\0".encode() + text)
            for into, part in zip(
                (counts, times, values), parse_series(texts, [f"{path}: {s}" for _, _, s in chunk]), strict=True
            ):
                into.append(part)
            bar.update(len(chunk))
    lengths = np.array([int(np.ceil(row["hours"])) + 1 for row, _, _ in rows])
    grid = on_grid(np.concatenate(counts), np.concatenate(times), np.concatenate(values), lengths, carry_back)
    labels = np.concatenate(
        [read_labels(row, length, shift) for (row, _, _), length in zip(rows, lengths, strict=True)]
    )
    membership = np.array([split for _, split, _ in rows])
    split = {name: np.flatnonzero(membership == name) for name in SPLITS}
    return Stays(names, lengths, grid, labels), split, digest.hexdigest()


def on_grid(
    counts: np.ndarray, time: np.ndarray, values: np.ndarray, lengths: np.ndarray, carry_back: bool
) -> np.ndarray:
    """Events -> hourly values; the hour column holds the hour."""
    stay = np.repeat(np.arange(len(counts)), counts)
    if carry_back:
        first_event = np.concatenate([[0], np.cumsum(counts)[:-1]])
        stay, time, values = (np.insert(part, first_event, part[first_event], axis=0) for part in (stay, time, values))
        time[first_event + np.arange(len(first_event))] = 0
    grid = hourly_grid(stay, time, values, np.zeros(len(lengths), np.int64), lengths)
    grid[:, list(CHANNELS).index("Hours")] = np.arange(len(grid)) - np.repeat(np.cumsum(lengths) - lengths, lengths)
    return grid


def guess_categorical(dataset: Dataset, values: np.ndarray) -> Dataset:
    """The authors' rule: a channel with at most 25 distinct values, all whole numbers, is categorical with these levels."""

    def guess(channel: Channel, column: np.ndarray) -> Channel:
        levels = np.unique(column[~np.isnan(column)])
        whole = 2 <= len(levels) <= 25 and (levels == np.floor(levels)).all()
        return dataclasses.replace(
            channel,
            kind="categorical" if whole else "continuous",
            levels=tuple(map(float, levels)) if whole else (),
            spellings={},
        )

    channels = tuple(guess(channel, values[:, index]) for index, channel in enumerate(dataset.channels))
    return dataclasses.replace(dataset, channels=channels)


def main() -> None:
    output = common.checked_output()
    carry_back, shift = BEFORE_FIRST_EVENT.value == "carry_back", int(LABEL_ROW.value == "next")
    stays, split, checksum = read_stays(pathlib.Path(SOURCE.value), carry_back, shift)
    dataset = MIMIC3_BENCHMARK if CATEGORICAL.value == "declare" else guess_categorical(MIMIC3_BENCHMARK, stays.values)
    common.write_and_summarise(output, dataset, stays, split, checksum)


if __name__ == "__main__":
    cli.run(main)
