"""Cohort files that were damaged: found by their checksum, or else by what they hold, in a bounded time."""

import hashlib
import json
import pathlib
import shutil
import subprocess
import sys
import time

import h5py
import numpy as np
import pytest

from ncl_tf import memory
from ncl_tf.data.cohort import Cohort
from ncl_tf.data.describe import describe
from ncl_tf.data.hdf5 import sums_path
from refusals import refused


@pytest.fixture
def copy(ward_cohort, tmp_path) -> pathlib.Path:
    """A copy of a cohort without its checksum, to be damaged."""
    return pathlib.Path(shutil.copy(ward_cohort, tmp_path / "copy.h5"))


def test_the_checksum_lies_beside_the_file_and_follows_it(ward_cohort, tmp_path):
    digest = hashlib.sha256(ward_cohort.read_bytes()).hexdigest()
    assert sums_path(ward_cohort).read_text() == f"{digest}  {ward_cohort.name}\n"
    done = subprocess.run(["sha256sum", "--check", sums_path(ward_cohort)], cwd=ward_cohort.parent, check=False)
    assert done.returncode == 0
    moved = tmp_path / "other name.h5"
    shutil.copy(ward_cohort, moved)
    assert Cohort(moved).checksum == digest  # without sums
    shutil.copy(sums_path(ward_cohort), sums_path(moved))
    assert Cohort(moved).checksum == digest


def test_one_flipped_bit_is_found_wherever_it_is(copy, ward_cohort):
    shutil.copy(sums_path(ward_cohort), sums_path(copy))
    whole = copy.read_bytes()
    for position in np.random.default_rng(0).choice(len(whole) * 8, 40).tolist():
        damaged = bytearray(whole)
        damaged[position // 8] ^= 1 << position % 8
        copy.write_bytes(damaged)
        with refused(copy, "SHA-256", "copy.h5.sums", "damaged"):
            Cohort(copy)
    copy.write_bytes(whole)
    for sums in (b"", b"\xff\xfe", b"7281c65e  copy.h5\n"):
        sums_path(copy).write_bytes(sums)
        with refused(sums_path(copy), "64 hexadecimal digits" if sums != b"\xff\xfe" else "utf-8"):
            Cohort(copy)


@pytest.mark.parametrize(
    ("place", "value", "words"),
    [
        ("data/val", np.nan, "data/val, row 3, column Unit1 & must be a finite number, got nan"),
        ("data/val", -np.inf, "data/val, row 3, column Unit1 & must be a finite number, got -inf"),
        ("labels/val", 2, "labels/val, row 3, task sepsis & must be 0, 1 or NaN (unlabelled), got 2"),
        ("labels/val", -1, "must be 0, 1 or NaN (unlabelled), got -1"),
        ("labels/val", 1e9, "must be 0, 1 or NaN (unlabelled), got 1e+09"),
        ("labels/val", np.inf, "must be 0, 1 or NaN (unlabelled), got inf"),
    ],
)
def test_values_that_cannot_be_right(copy, place, value, words):
    with h5py.File(copy, "r+") as file:
        file[place][3, 1 if place == "data/val" else 0] = value
    Cohort(copy)["train"]
    with refused(copy, words):
        Cohort(copy)["val"]


def test_labels_of_bins_are_finite_numbers(mimic_ward_cohort, tmp_path):
    copy = shutil.copy(mimic_ward_cohort, tmp_path / "copy.h5")
    with h5py.File(copy, "r+") as file:
        file["labels/val"][3, 1] = 123.25
    assert Cohort(copy)["val"].labels[3, 1] == 123.25
    with h5py.File(copy, "r+") as file:
        file["labels/val"][3, 1] = np.inf
    with refused("row 3, task length_of_stay & finite number"):
        Cohort(copy)["val"]


PREPROCESSORS = {
    "nan": "declaration",
    "{": "Expecting property name",
    "[]": "cohort file",
    "{}": "no 'dataset'",
    "1e999": "cohort file",
    "[" * 100_000: "recursion",
    '{"dataset": 1}': "cohort file",
}


@pytest.mark.parametrize("text", PREPROCESSORS)
def test_declarations_of_another_form(copy, text):
    with h5py.File(copy, "r+") as file:
        file.attrs["preprocessor"] = text
    with refused(copy, "cohort file"):
        Cohort(copy)


@pytest.mark.parametrize(
    ("change", "words"),
    [
        (lambda p: p.update(mean=p["mean"][:-1]), "preprocessor, mean: must be 40 finite numbers"),
        (lambda p: p["scale"].__setitem__(3, 0), "preprocessor, scale: must be 40 finite numbers above 0"),
        (lambda p: p["mean"].__setitem__(3, float("inf")), "mean: must be 40 finite numbers"),
        (lambda p: p["mean"].__setitem__(3, "a"), "could not convert"),
        (lambda p: p.pop("scale"), "must have mean, scale, got mean"),
        (lambda p: p["dataset"]["channels"][3].update(low="a"), "low must be a value that fits, got 'a'"),
        (lambda p: p["dataset"]["channels"][3].update(static=0), "static must be a value that fits, got 0"),
        (lambda p: p["dataset"]["channels"][3].update(name="other"), "'columns' must be"),
        (lambda p: p["dataset"]["channels"][3].pop("unit"), "a channel must have"),
        (lambda p: p["dataset"]["tasks"][0].update(name="other"), "'tasks' must be other & got sepsis"),
    ],
)
def test_declarations_that_do_not_fit(copy, change, words):
    with h5py.File(copy, "r+") as file:
        content = json.loads(file.attrs["preprocessor"])
        change(content)
        file.attrs["preprocessor"] = json.dumps(content)
    with refused(copy, words):
        Cohort(copy)


@pytest.mark.parametrize("statistics", ["[1]", "{", '{"HR": {}}', "null1", '{"Gender": 3}'])
def test_statistics_of_another_form(copy, statistics):
    with h5py.File(copy, "r+") as file:
        file.attrs["channel_statistics"] = statistics
    with refused(copy, ""):
        describe(copy)


def test_what_claims_more_than_the_memory_or_than_the_file_holds(copy, monkeypatch):
    with h5py.File(copy, "r+") as file:
        file.create_dataset("labels/large", shape=(10**10, 8), dtype=np.float32)  # takes no space until it is written
        file.move("labels/train", "labels/before")
        file.move("labels/large", "labels/train")
    with refused(copy, "labels/train & 298.0 GB & --max_gigabytes"):
        Cohort(copy)["train"]
    monkeypatch.setattr(memory, "most", 2.0**50)
    with refused(copy, "labels/train: must hold 320000000000 bytes, got 0"):  # else 298 GiB of zeros
        Cohort(copy)["train"]


def test_a_structure_in_which_the_library_would_loop(copy, tmp_path):
    """A name index of the global heap whose objects have no size: the library looks for the next one at the same place."""
    data = bytearray(copy.read_bytes())
    heap = data.index(b"GCOL")
    data[heap + 16 + 8 : heap + 16 + 16] = bytes(8)
    copy.write_bytes(data)
    begin = time.monotonic()
    with refused(copy, ""):
        Cohort(copy)
    assert time.monotonic() - begin < 60


def test_the_trial_ends_where_reading_does_not(tmp_path):
    """The limit of processor time, in a program that reads without end."""
    from ncl_tf.data import hdf5_probe

    code = f"import runpy; runpy.run_path({hdf5_probe.__file__!r})['limit']({__file__!r}, 1)\nwhile True: pass"
    done = subprocess.run([sys.executable, "-c", code], check=False, timeout=60)
    assert done.returncode == -24  # SIGXCPU
