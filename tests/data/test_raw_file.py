"""Raw rows beside a cohort file: those of the source, hour by hour, and refused where they do not belong to it."""

import pathlib
import shutil

import h5py
import numpy as np
import pytest

from ncl_tf.data.cohort import Cohort
from ncl_tf.data.datasets import PHYSIONET2019
from ncl_tf.data.hdf5 import sums_path
from ncl_tf.data.raw_file import RawFile, raw_path, write_raw_file
from ncl_tf.data.sources import physionet2019
from ncl_tf.data.splits import SPLITS, random_split
from refusals import refused


@pytest.fixture(scope="module")
def stays(ward):
    return physionet2019.read_stays([ward])[0]


@pytest.fixture
def cohort(ward_cohort, stays, tmp_path) -> pathlib.Path:
    """A copy of a cohort with its raw rows beside it."""
    path = pathlib.Path(shutil.copy(ward_cohort, tmp_path / "copy.h5"))
    assert write_raw_file(path, PHYSIONET2019, stays, random_split(stays.ever_positive(), seed=0)) == raw_path(path)
    return path


def without_sums(cohort: pathlib.Path) -> None:
    """Remove the checksum of the raw rows, as if another program had written them."""
    sums_path(raw_path(cohort)).unlink()


def test_raw_rows_are_those_of_the_source_in_the_cohorts_order(cohort, ward):
    """Against the source's texts, of which one is read without our reader."""
    opened = Cohort(cohort)
    raw = RawFile(opened)
    assert raw.path == cohort.with_name("copy.raw.h5")
    columns = [channel.name for channel in raw.dataset.channels]
    for split in SPLITS:
        found, of_cohort = raw[split], opened[split]
        assert found.values.dtype == np.float32
        np.testing.assert_array_equal(found.lengths, of_cohort.lengths)
        for name, first, length in zip(found.names, found.first_rows, found.lengths, strict=True):
            header, *lines = (ward / f"{name}.psv").read_text().split()
            order = [header.split("|").index(column) for column in columns]
            rows = np.array([line.split("|") for line in lines], np.float32)[:, order]
            np.testing.assert_array_equal(found.values[first : first + length], rows)
    assert np.isnan(found.values).mean() > 0.3  # nothing is filled or imputed


def test_they_are_small_and_the_same_every_time(cohort, stays):
    path = raw_path(cohort)
    before = path.read_bytes()
    write_raw_file(cohort, PHYSIONET2019, stays, random_split(stays.ever_positive(), seed=0))
    assert path.read_bytes() == before
    assert len(before) < cohort.stat().st_size / 2


def test_without_raw_rows_the_flag_that_makes_them_is_named(ward_cohort):
    with refused(raw_path(ward_cohort), ward_cohort, "--keep_raw --overwrite"):
        RawFile(Cohort(ward_cohort))


def test_raw_rows_of_another_cohort_are_refused_with_both_checksums(cohort, mimic_ward_cohort):
    shutil.copy(mimic_ward_cohort, cohort)
    with h5py.File(raw_path(cohort)) as file:
        before = file.attrs["cohort_checksum"]
    with refused(raw_path(cohort), before, Cohort(mimic_ward_cohort).checksum, "--keep_raw"):
        RawFile(Cohort(cohort))


@pytest.mark.parametrize(
    ("damage", "named"),
    [
        (lambda file: file.pop("raw"), "--keep_raw wrote"),
        (lambda file: file["raw"].attrs.update(channels=["HR"]), "channels must be & Gender, & got HR"),
        (lambda file: file.attrs.update(format_version=2), "format_version must be 1, got 2"),
    ],
)
def test_damaged_raw_rows_are_refused(cohort, damage, named):
    without_sums(cohort)
    with h5py.File(raw_path(cohort), "r+") as file:
        damage(file)
    with refused(raw_path(cohort), named):
        RawFile(Cohort(cohort))


def test_raw_rows_of_other_hours_are_refused(cohort):
    without_sums(cohort)
    with h5py.File(raw_path(cohort), "r+") as file:
        shorter = file["raw/val"][1:]
        del file["raw/val"]
        file["raw/val"] = shorter
    raw = RawFile(Cohort(cohort))
    raw["train"]
    with refused("raw/val", f"({len(shorter) + 1}, 40)", f"got ({len(shorter)}, 40)"):
        raw["val"]


def test_a_file_that_is_no_raw_file(cohort):
    without_sums(cohort)
    raw_path(cohort).write_text("no HDF5")
    with refused(raw_path(cohort), "not an HDF5 file"):
        RawFile(Cohort(cohort))
