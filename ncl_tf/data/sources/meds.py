"""Reader of datasets in the Medical Event Data Standard (MEDS), versions 0.3 and 0.4, onto an hourly grid."""

import hashlib
import pathlib
from typing import NamedTuple

import numpy as np
import pyarrow as pa

from ncl_tf import files
from ncl_tf.data.sources import common
from ncl_tf.data.sources.meds_events import CodeBook, holds_text, open_parquet, read_meds_events, read_parquet
from ncl_tf.data.sources.meds_grid import Grid
from ncl_tf.data.sources.meds_labels import label_paths, read_label_files
from ncl_tf.data.sources.meds_schema import MedsSchema
from ncl_tf.data.splits import SPLITS, Split
from ncl_tf.data.stays import Stays
from ncl_tf.errors import InputError

VERSIONS = ("0.3", "0.4")  # their files have the same columns
MEDS_SPLITS = dict(zip(("train", "tuning", "held_out"), SPLITS, strict=True))


class MedsStays(NamedTuple):
    """What was read from a dataset.

    Attributes:
        stays, split: as of all sources.
        checksum: of the names and bytes of the files that were read.
        left_out: what was left out, and how often.
    """

    stays: Stays
    split: Split
    checksum: str
    left_out: dict[str, int]


def read_meds(folder: pathlib.Path, schema: MedsSchema, labels: pathlib.Path | None) -> MedsStays:
    """Read a dataset as the schema describes it, with the label files in `labels` for tasks that do not come from events."""
    shards, split_file = check_dataset(folder), folder / "metadata" / "subject_splits.parquet"
    subjects, parts = read_splits(split_file)
    paths = label_paths(schema, labels)
    labels_of = {task: read_label_files(found, schema.dataset.tasks[task]) for task, found in paths.items()}
    grid = Grid(schema, CodeBook(schema))
    with common.progress(
        None, "reading", total=sum(open_parquet(path, {}, ()).metadata.num_rows for path in shards)
    ) as bar:
        bar.unit = " events"
        for events in read_meds_events(shards, grid.book, bar.update):
            grid.add(events)
    grid.book.require_all(folder)
    stays = grid.stays(labels_of)
    split = split_stays(stays.subjects.astype(np.int64), subjects, parts, split_file)
    checksum = _checksum([*shards, split_file, *sorted(path for found in paths.values() for path in found)])
    return MedsStays(stays, split, checksum, grid.left_out)


def check_dataset(folder: pathlib.Path) -> list[pathlib.Path]:
    """Refuse a folder that is no MEDS dataset or one of another version; list its shards."""
    about = folder / "metadata" / "dataset.json"
    if not about.exists():
        raise InputError(f"{folder}: must be a MEDS dataset, with metadata/dataset.json, got none")
    version = files.read_json(about).get("meds_version")  # the standard lets writers omit it
    if version is not None and ".".join(str(version).split(".")[:2]) not in VERSIONS:
        raise InputError(f"{about}: meds_version must be {' or '.join(VERSIONS)}, got {version!r}")
    shards = sorted((folder / "data").rglob("*.parquet"))
    if not shards:
        raise InputError(f"{folder / 'data'}: must hold the shards of a MEDS dataset, *.parquet, got none")
    return shards


def read_splits(path: pathlib.Path) -> tuple[np.ndarray, np.ndarray]:
    """Read the subjects, rising, and the split of each."""
    if not path.exists():
        raise InputError(
            f"{path}: no such file; a MEDS dataset must have splits ({', '.join(MEDS_SPLITS)}) of its subjects"
        )
    types = {"subject_id": (pa.types.is_integer, "an integer"), "split": (holds_text, "a string")}
    table = read_parquet(path, types, types)
    subject, split = table["subject_id"].to_numpy(), np.array(table["split"].to_pylist())
    for row in np.flatnonzero(~np.isin(split, list(MEDS_SPLITS))):
        raise InputError(
            f"{path}, row {row}, column split: must be one of {', '.join(MEDS_SPLITS)}, got {split[row]!r}"
        )
    order = np.argsort(subject, kind="stable")
    for row in order[1:][np.diff(subject[order]) == 0]:
        raise InputError(f"{path}, row {row}: subject {subject[row]} must occur once")
    return subject[order], split[order]


def split_stays(stays: np.ndarray, subjects: np.ndarray, parts: np.ndarray, path: pathlib.Path) -> Split:
    """Split stays, given by their subjects, as the dataset splits its subjects."""
    index = np.minimum(np.searchsorted(subjects, stays), len(subjects) - 1)
    for stay in np.flatnonzero(subjects[index] != stays):
        raise InputError(f"{path}: every subject with a stay must be in a split, but {stays[stay]} is in none")
    split = {name: np.flatnonzero(parts[index] == part) for part, name in MEDS_SPLITS.items()}
    for part, name in MEDS_SPLITS.items():
        if not len(split[name]):
            raise InputError(f"{path}: {part!r} must have at least one subject with a stay, got none")
    return split


def _checksum(paths: list[pathlib.Path]) -> str:
    digest = hashlib.sha256()
    for path in paths:
        digest.update(f"{path.name}\0{files.sha256(path)}\0".encode())
    return digest.hexdigest()
