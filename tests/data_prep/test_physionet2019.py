"""PhysioNet 2019: the paper's counts, and a slow preparation in plain Python beside the pipeline."""

import csv
import io
import math
import pathlib
import random
import zipfile

import h5py
import numpy as np
import pytest

from ncl_tf.data.cohort import Cohort, write_cohort
from ncl_tf.data.datasets import PHYSIONET2019
from ncl_tf.data.sources import physionet2019
from ncl_tf.data.splits import SPLITS, random_split
from psv import RANGES

STATIC_NUMBERS, STATIC_BINARY = ("Age", "HospAdmTime"), ("Gender", "Unit1", "Unit2")


def hours_of(text: str) -> list[dict[str, float]]:
    """One stay, hour by hour without gaps: forward filled, then implausible values missing; None is missing."""
    rows = {}
    for cells in csv.DictReader(io.StringIO(text), delimiter="|"):
        hour = {name: None if cell == "NaN" else float(cell) for name, cell in cells.items()}
        rows[int(hour["ICULOS"])] = hour
    names, last, hours = list(cells), {}, []
    for hour in range(min(rows), max(rows) + 1):
        measured = rows.get(hour, {})
        filled = {"label": measured.get("SepsisLabel"), "ICULOS": float(hour)}
        for name in names[:-1]:
            if name == "ICULOS":
                continue
            if measured.get(name) is not None:
                last[name] = measured[name]
            low, high = RANGES.get(name, (-math.inf, math.inf))
            known = name in last and low <= last[name] <= high
            filled[name] = last[name] if known else None
        hours.append(filled)
    return hours


def prepare_slowly(texts: dict[str, str], training: list[str]) -> dict[str, tuple[list[list[float]], list[float]]]:
    """Every stay's prepared rows and labels, with nothing but loops."""
    stays = {name: hours_of(text) for name, text in texts.items()}
    names = next(iter(texts.values())).split("\n")[0].strip().split("|")
    dynamic = ["ICULOS"] + [name for name in names[:-1] if name not in (*STATIC_NUMBERS, *STATIC_BINARY, "ICULOS")]
    scaling = {}
    for name in [*STATIC_NUMBERS, *dynamic]:
        known = []
        for stay in training:
            hours = stays[stay][:1] if name in STATIC_NUMBERS else stays[stay]
            known += [hour[name] for hour in hours if hour[name] is not None]
        mean = math.fsum(known) / len(known) if known else 0.0
        variance = math.fsum((value - mean) ** 2 for value in known) / len(known) if known else 1.0
        scaling[name] = mean, math.sqrt(variance) or 1.0
    prepared = {}
    for stay, hours in stays.items():
        rows = []
        for hour in hours:
            row = [1.0 if hour[name] == 1 else 0.0 for name in STATIC_BINARY]
            for name in [*STATIC_NUMBERS, *dynamic]:
                mean, scale = scaling[name]
                row.append(0.0 if hour[name] is None else (hour[name] - mean) / scale)
            rows.append(row)
        prepared[stay] = rows, [math.nan if hour["label"] is None else hour["label"] for hour in hours]
    return prepared


def assert_equals_slow_preparation(folder: pathlib.Path, path: pathlib.Path, seed: int) -> None:
    stays, checksum = physionet2019.read_stays([folder])
    write_cohort(path, PHYSIONET2019, stays, random_split(stays.ever_positive(), seed), checksum)
    cohort = Cohort(path)
    texts = {file.stem: file.read_text() for file in folder.glob("*.psv")}
    expected = prepare_slowly(texts, list(cohort["train"].stay_names))
    compared = 0
    for split in SPLITS:
        for name, (first, last, _) in zip(cohort[split].stay_names, cohort[split].patient_windows, strict=True):
            rows, labels = expected[name]
            np.testing.assert_allclose(cohort[split].data[first : last + 1], rows, rtol=1e-5, atol=1e-5, err_msg=name)
            np.testing.assert_array_equal(cohort[split].labels[first : last + 1, 0], labels, err_msg=name)
            compared += 1
    assert compared == len(texts)


def mess_up(text: str, rng: random.Random) -> str:
    """Implausible values, hours left out, another system's line ends, no last newline."""
    header, *lines = text.splitlines()
    names = header.split("|")
    rows = [line.split("|") for line in lines]
    for row in rows:
        for name, (low, high) in RANGES.items():
            if rng.random() < 0.05:
                row[names.index(name)] = str(rng.choice([low, high, low - 0.5, high + 0.5, high * 10]))
    kept = [row for row in rows[1:-1] if rng.random() > 0.15]
    newline = rng.choice(["\n", "\r\n"])
    return newline.join("|".join(row) for row in [names, rows[0], *kept, rows[-1]]) + rng.choice(["", newline])


def test_equals_a_slow_preparation(ward, tmp_path):
    assert_equals_slow_preparation(ward, tmp_path / "ward.h5", seed=0)


def test_equals_a_slow_preparation_of_messy_files(ward, tmp_path):
    (tmp_path / "messy").mkdir()
    rng = random.Random(0)
    for file in sorted(ward.glob("*.psv")):
        (tmp_path / "messy" / file.name).write_bytes(mess_up(file.read_text(), rng).encode())
    assert_equals_slow_preparation(tmp_path / "messy", tmp_path / "messy.h5", seed=1)


def test_equals_a_slow_preparation_of_real_stays(physionet2019_zips, tmp_path):
    """Every 500th stay of both sets: some septic, some that do not start at hour 1."""
    (tmp_path / "stays").mkdir()
    for path in physionet2019_zips:
        with zipfile.ZipFile(path) as archive:
            names = sorted(name for name in archive.namelist() if name.endswith(".psv"))
            for name in names[::500]:
                (tmp_path / "stays" / pathlib.Path(name).name).write_bytes(archive.read(name))
    assert_equals_slow_preparation(tmp_path / "stays", tmp_path / "stays.h5", seed=0)


def test_the_papers_counts(physionet2019_cohort):
    with h5py.File(physionet2019_cohort) as file:
        labels = [file[f"labels/{split}"][:] for split in SPLITS]
        assert [len(file[f"patient_windows/{split}"]) for split in SPLITS] == [25813, 6454, 8066]
        assert [len(file[f"data/{split}"]) for split in SPLITS] == [992732, 247283, 312078]
        assert [(~np.isnan(label)).sum() for label in labels] == [992732, 247283, 312078]
        assert [(label == 1).sum() for label in labels] == [17891, 4475, 5550]
        assert all(np.isfinite(file[f"data/{split}"][:]).all() for split in SPLITS)
        columns = file["data"].attrs["columns"].tolist()
        assert columns[:6] == ["Gender", "Unit1", "Unit2", "Age", "HospAdmTime", "ICULOS"]
        assert (len(columns), file.attrs["static_columns"]) == (40, 5)
        names = set(np.concatenate([file[f"stay_names/{split}"][:] for split in SPLITS]))
        assert len(names) == 40333
        assert not {b"p013777", b"p108796", b"p115810"} & names
        train = file["data/train"][:]
        assert np.abs(train[:, 5:].mean(axis=0, dtype=float)).max() < 1e-3
        firsts = train[file["patient_windows/train"][:, 0], 3:5]
        np.testing.assert_allclose(firsts.mean(axis=0, dtype=float), 0, atol=1e-4)
        np.testing.assert_allclose(firsts.std(axis=0, dtype=float), 1, atol=1e-4)


def rows_of(path: pathlib.Path) -> list[dict[str, str]]:
    return list(csv.DictReader(path.open(), delimiter="|"))


def is_septic(path: pathlib.Path) -> bool:
    return any(row["SepsisLabel"] == "1" for row in rows_of(path))


@pytest.fixture
def two_hospitals(ward, tmp_path) -> pathlib.Path:
    """The ward, half of whose septic and of whose other stays are now named as those of hospital B are."""
    folder = tmp_path / "hospitals"
    folder.mkdir()
    for number, file in enumerate(sorted(ward.glob("*.psv"), key=is_septic)):
        name = f"p1{file.name[2:]}" if number % 2 else file.name
        (folder / name).write_bytes(file.read_bytes())
    return folder


def test_one_hospital_trains_and_the_other_tests(two_hospitals, run, tmp_path):
    """By the names of files alone: all of one test, 80 / 20 % of the other come before, and they alone scale."""
    of = {hospital: sorted(two_hospitals.glob(f"p{digit}*.psv")) for digit, hospital in enumerate("AB")}
    trained = {}
    for name, test, flags in [("b", "B", []), ("a", "A", ["--test_hospital=A"]), ("seed", "B", ["--seed=3"])]:
        output = tmp_path / f"{name}.h5"
        flags += [f"--source={two_hospitals}", "--split=hospital", f"--output={output}"]
        result = run("bin/prepare", "physionet2019", *flags)
        assert result.returncode == 0, result.stderr
        cohort = Cohort(output)
        assert cohort["test"].stay_names.tolist() == [file.stem for file in of[test]]
        parts = [cohort[split].stay_names.tolist() for split in ("train", "val")]
        assert sorted(parts[0] + parts[1]) == [file.stem for file in of["AB".replace(test, "")]]
        assert [len(part) for part in parts] == [28, 8]
        rates = [float(row["HR"]) for name in parts[0] for row in rows_of(two_hospitals / f"{name}.psv")]
        assert cohort.channel_statistics["HR"]["measured"] == pytest.approx(np.mean(~np.isnan(rates)))
        trained[name] = parts[0]
    assert trained["b"] != trained["seed"]


def test_hospitals_that_cannot_be_split(two_hospitals, ward, run, tmp_path):
    for flags, named in [
        ([f"--source={ward}", "--split=hospital"], "stays of set A and of set B, got 72 and 0"),
        ([f"--source={ward}", "--split=random", "--test_hospital=A"], "requires --split=hospital, got --split=random"),
        ([f"--source={two_hospitals}", "--split=hospital", "--test_hospital=C"], "must be one of A, B, got 'C'"),
    ]:
        result = run("bin/prepare", "physionet2019", f"--output={tmp_path / 'cohort.h5'}", *flags)
        assert (result.returncode, result.stdout) == (1, "")
        assert named in result.stderr
        assert not (tmp_path / "cohort.h5").exists()
    for path in list(two_hospitals.glob("p0*.psv"))[20:]:
        path.unlink()
    flags = [f"--source={two_hospitals}", "--split=hospital", f"--output={tmp_path / 'cohort.h5'}"]
    result = run("bin/prepare", "physionet2019", *flags)
    assert result.returncode == 1 and "at least 25 stays to train and validate" in result.stderr


@pytest.mark.slow
@pytest.mark.parametrize(("test", "stays"), [("B", (16268, 4068, 20000)), ("A", (16000, 4000, 20336))])
def test_counts_of_the_real_hospitals(physionet2019_zips, run, tmp_path, test, stays):
    """Hours and positive hours are those of the zips' lines, by their last cells."""
    sources = [f"--source={path}" for path in physionet2019_zips]
    flags = ["--split=hospital", f"--test_hospital={test}", f"--output={tmp_path / 'hospital.h5'}"]
    result = run("bin/prepare", "physionet2019", *sources, *flags)
    assert result.returncode == 0, result.stderr
    counted = {}
    for hospital, path in zip("AB", physionet2019_zips, strict=True):
        with zipfile.ZipFile(path) as archive:
            texts = [archive.read(name) for name in archive.namelist() if name.endswith(".psv")]
        rows = [text.strip().count(b"\n") for text in texts]
        counted[hospital] = len(rows), sum(rows), sum(text.count(b"|1\n") for text in texts)
    cohort = Cohort(tmp_path / "hospital.h5")
    found = {}
    for split in SPLITS:
        data = cohort[split]
        found[split] = np.array([len(data.stay_names), len(data.data), int((data.labels == 1).sum())])
    assert tuple(found[split][0] for split in SPLITS) == stays
    assert tuple(found["test"]) == counted[test]
    assert tuple(found["train"] + found["val"]) == counted["AB".replace(test, "")]


def test_many_stays_are_read_in_chunks(ward, monkeypatch):
    whole, checksum = physionet2019.read_stays([ward])
    monkeypatch.setattr(physionet2019, "CHUNK", 7)
    parts, again = physionet2019.read_stays([ward])
    assert checksum == again
    for field in ("names", "lengths", "values", "labels"):
        np.testing.assert_array_equal(getattr(parts, field), getattr(whole, field))
