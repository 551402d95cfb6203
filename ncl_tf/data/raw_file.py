"""The raw rows of a cohort: what was measured and when, before filling, cleaning and scaling.

Beside the cohort FILE.h5 lies FILE.raw.h5, if it is wanted: HDF5 with `raw/{train,val,test}` float32 [hours, channels], NaN where
nothing was measured, row by row the cohort's `data`, and attribute `channels` on the group. Attributes of the file:
`format_version` and `cohort_checksum`, the SHA-256 of the cohort file. Its own lies beside it (`ncl_tf.data.hdf5`).
"""

import pathlib

import h5py
import numpy as np

from ncl_tf import files
from ncl_tf.data import hdf5
from ncl_tf.data.cohort import Cohort, SplitData
from ncl_tf.data.declaration import Dataset
from ncl_tf.data.splits import SPLITS, Split
from ncl_tf.data.stays import Stays
from ncl_tf.errors import InputError

WHAT = "a file that bin/prepare --keep_raw wrote"
RAW_VERSION = 1
ROWS_PER_CHUNK = 16384


def raw_path(cohort: pathlib.Path) -> pathlib.Path:
    """Name the file of a cohort's raw rows: ward.raw.h5 for ward.h5."""
    return cohort.with_name(f"{cohort.name.removesuffix('.h5')}.raw.h5")


def write_raw_file(cohort: pathlib.Path, dataset: Dataset, stays: Stays, split: Split) -> pathlib.Path:
    """Write the raw rows of the stays that a cohort file was written from, atomically; return the path."""
    path = raw_path(cohort)
    # In memory first: where a disk is full, HDF5 notices it while it closes chunks, and then crashes.
    with h5py.File(path.name, "w", driver="core", backing_store=False) as file:
        for name in SPLITS:
            rows = stays.values[stays.rows(split[name])]
            chunks = (min(ROWS_PER_CHUNK, len(rows)), 1)  # a channel's values, which are mostly NaN, compress well
            file.create_dataset(f"raw/{name}", data=rows, chunks=chunks, compression="gzip", compression_opts=1)
        file["raw"].attrs["channels"] = [channel.name for channel in dataset.channels]
        file.attrs.update({"format_version": RAW_VERSION, "cohort_checksum": files.sha256(cohort)})
        file.flush()
        content = file.id.get_file_image()
    with files.atomic_path(path) as partial:
        partial.write_bytes(content)
        hdf5.sums_path(path).unlink(missing_ok=True)
    hdf5.write_sums(path)
    return path


class RawFile:
    """The raw rows of a cohort, opened for reading; splits are read when first asked for.

    Attributes:
        path: the file.
        dataset: declares the channels.
    """

    def __init__(self, cohort: Cohort) -> None:
        self.path = raw_path(cohort.path)
        if not self.path.exists():
            raise InputError(
                f"{self.path}: no such file, and the raw rows of {cohort.path} are needed. Prepare it again with "
                "--keep_raw --overwrite: bin/prepare then writes them beside the same cohort file"
            )
        hdf5.verified(self.path)
        with hdf5.opened(self.path, WHAT) as file:
            version, checksum = (file.attrs.get(name, "none") for name in ("format_version", "cohort_checksum"))
            channels = hdf5.decoded(file["raw"].attrs["channels"])
        if version != RAW_VERSION:
            raise InputError(f"{self.path}: format_version must be {RAW_VERSION}, got {version}; update ncl_tf")
        if checksum != cohort.checksum:
            raise InputError(
                f"{self.path}: must hold the raw rows of {cohort.path}, with SHA-256 {cohort.checksum}, got those of "
                f"{checksum}; prepare the cohort again with --keep_raw --overwrite"
            )
        declared = [channel.name for channel in cohort.preprocessor.dataset.channels]
        if channels != declared:
            raise InputError(
                f"{self.path}: channels must be those of {cohort.path}, {', '.join(declared)}, got {', '.join(channels)}"
            )
        self.dataset, self._cohort = cohort.preprocessor.dataset, cohort

    def __getitem__(self, split: str) -> Stays:
        """Read the stays of a split, in the cohort's order, with their raw values."""
        return self.stays(split, self._cohort[split])

    def stays(self, split: str, of_cohort: SplitData) -> Stays:
        """Read the stays of a split of the cohort, which has been read already."""
        with hdf5.opened(self.path, WHAT) as file:
            values = hdf5.array(file, f"raw/{split}", (2,), "f").astype(np.float32, copy=False)
        expected = (len(of_cohort.data), len(self.dataset.channels))
        if values.shape != expected:
            raise InputError(
                f"{self.path}: raw/{split} must be {expected}, as the cohort has hours, got {values.shape}"
            )
        if np.isinf(values).any():
            raise InputError(f"{self.path}: raw/{split} must hold finite numbers, or NaN where nothing was measured")
        return Stays(
            of_cohort.stay_names,
            of_cohort.lengths,
            np.asfortranarray(values),
            of_cohort.labels,
            subjects=of_cohort.subjects,
        )
