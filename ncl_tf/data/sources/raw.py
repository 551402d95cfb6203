"""Readers of raw stays for exported models: the challenge's .psv files or an hourly table."""

import pathlib
from collections.abc import Iterator
from typing import NamedTuple

import numpy as np

from ncl_tf.data.declaration import Dataset
from ncl_tf.data.sources import arrow, columns, physionet2019, table
from ncl_tf.data.stays import Stays, rows_on_grid
from ncl_tf.errors import InputError, placed

CHUNK = 250  # stays of .psv files at once: enough to fill the machine, few enough for reading and scoring to overlap


class RawStays(NamedTuple):
    """Stays as a source has them.

    Attributes:
        stays: on their hourly grid, without labels.
        rows: [rows] the row of the grid that each row of the source became; the others are hours that it left out.
        hours: [rows] as the source counts them.
    """

    stays: Stays
    rows: np.ndarray
    hours: np.ndarray


def read_raw(
    paths: list[pathlib.Path], dataset: Dataset, stay: str, hour: str | None
) -> tuple[int, Iterator[RawStays]]:
    """Count the stays of .psv files, folders or zips of them, or of one table, .csv or .parquet; read them, some at a time.

    `stay` and `hour` name a table's columns; None: that of the hour channel, or "hour".
    """
    single = [path for path in paths if path.suffix in (".csv", ".parquet", ".h5")]
    if not single:
        return psv_stays(paths, dataset)
    if len(paths) > 1:
        raise InputError(f"{single[0]}: a table or a cohort must be the only --input")
    whole = table_stays(single[0], dataset, stay, hour or dataset.hour or "hour")
    return len(whole.stays.names), iter([whole])


def psv_stays(paths: list[pathlib.Path], dataset: Dataset) -> tuple[int, Iterator[RawStays]]:
    """Count the stays of folders, zips and single .psv files, and read them in order of their names, some at a time."""
    columns = [column for column in physionet2019.COLUMNS if column != physionet2019.LABEL.name]
    unknown = [channel.name for channel in dataset.channels if channel.name not in columns]
    if unknown:
        raise InputError(f"the model needs channels that the challenge's .psv files do not have: {', '.join(unknown)}")
    members = physionet2019.find_stays(paths)
    if members[0][2]().partition(b"\n")[0].rstrip(b"\r").endswith(b"|" + physionet2019.LABEL.name.encode()):
        columns = physionet2019.COLUMNS
    order = [columns.index(channel.name) for channel in dataset.channels]

    def chunks() -> Iterator[RawStays]:
        for start in range(0, len(members), CHUNK):
            names, where, read = zip(*members[start : start + CHUNK], strict=True)
            lengths, values = physionet2019.parse([text() for text in read], list(where), columns)
            hours = values[:, columns.index("ICULOS")]
            yield _on_grid(np.array(names), lengths, hours, values[:, order], dataset)

    return len(members), chunks()


def table_stays(path: pathlib.Path, dataset: Dataset, stay: str, hour: str) -> RawStays:
    """Read the stays of an hourly table, .csv or .parquet; `stay` and `hour` name the columns that identify a row."""
    needed = [stay, hour, *(channel.name for channel in dataset.channels)]
    rows, place = arrow.open_tables([path], needed, "the model needs")
    if dataset.hour and columns.times(rows[hour], hour, place) is not None:  # the first row need not be the first hour
        raise InputError(
            f"{place(0)}, column {hour}: must be the hour of the stay, a number or a duration, since the model sees it; got the "
            f"time {rows[hour][0]}"
        )
    names, index, _, hours, values = table.read_rows(rows, dataset, stay, hour, place)
    with placed(path):
        return _on_grid(names, np.bincount(index), hours, values, dataset)


def _on_grid(
    names: np.ndarray, lengths: np.ndarray, hours: np.ndarray, values: np.ndarray, dataset: Dataset
) -> RawStays:
    """Put rows with missing hours on the hourly grid."""
    stays = Stays.from_rows(names, lengths, hours, values, np.empty((len(values), 0), np.float32))
    if dataset.hour:
        stays.fill_hours([channel.name for channel in dataset.channels].index(dataset.hour))
    return RawStays(stays, rows_on_grid(lengths, hours), hours.astype(np.int64))
