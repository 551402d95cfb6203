"""MIMIC-III Benchmark: the demo's counts, and a slow preparation in plain Python beside the pipeline."""

import csv
import io
import math
import pathlib
import random
import tarfile

import h5py
import numpy as np
import pytest

from ncl_tf.data.cohort import Cohort, write_cohort
from ncl_tf.data.datasets import MIMIC3_BENCHMARK
from ncl_tf.data.sources import mimic3_benchmark
from ncl_tf.data.splits import SPLITS

# Continuous channels with their ranges, in the order of the columns together with the categorical ones.
RANGES = {
    "Height": (50, 300), "Weight": (5, 250), "Heart Rate": (10, 300), "Diastolic blood pressure": (10, 200),
    "Mean blood pressure": (10, 200), "Systolic blood pressure": (10, 300), "Oxygen saturation": (0, 100),
    "Respiratory rate": (0, 45), "pH": (0, 14), "Temperature": (30, 50), "Glucose": (0, 2200),
    "Fraction inspired oxygen": (0.2, 1.1),
}  # fmt: skip
LEVELS = {
    "Capillary refill rate": [1], "Glascow coma scale eye opening": [1, 2, 3, 4],
    "Glascow coma scale motor response": [1, 2, 3, 4, 5, 6], "Glascow coma scale total": list(range(3, 16)),
    "Glascow coma scale verbal response": [1, 2, 3, 4, 5],
}  # fmt: skip
WORDS = {
    "Glascow coma scale eye opening": ["none", "to pain", "to speech", "spontaneously"],
    "Glascow coma scale motor response": [
        "no response", "abnormal extension", "abnormal flexion", "flex-withdraws", "localizes pain", "obeys commands",
    ],
    "Glascow coma scale verbal response": [
        "no response-ett", "incomprehensible sounds", "inappropriate words", "confused", "oriented",
    ],
}  # fmt: skip


def value_of(name: str, text: str) -> float:
    """A cell's number: its own, the one that its text begins with, or the place of its text among the words."""
    if text[0].isdigit() or text[0] == "-":
        return float(text.split()[0])
    if (name, text) == ("Glascow coma scale verbal response", "No Response"):
        return 1.0
    return float(WORDS[name].index(text.lower()) + 1)


def hours_of(series: str, stay: float) -> list[dict[str, float | None]]:
    """Hours 0 to ceil(stay): the last value at or before each hour, missing if implausible."""
    events = list(csv.DictReader(io.StringIO(series)))
    hours, last = [], {}
    for hour in range(math.ceil(stay) + 1):
        while events and float(events[0]["Hours"]) <= hour:
            last |= {name: text for name, text in events.pop(0).items() if text != ""}
        row = {}
        for name in [*RANGES, *LEVELS]:
            value = value_of(name, last[name]) if name in last else None
            low, high = RANGES.get(name, (-math.inf, math.inf))
            row[name] = value if value is not None and low <= value <= high else None
        hours.append({**row, "Hours": float(hour)})
    return hours


def labels_of(cell: str, length: int) -> list[float]:
    entries = cell.split(";") if cell else []
    half = len(entries) // 2
    labels = [math.nan] * length
    for hour in range(half):
        if entries[hour] == "1":
            labels[hour] = float(entries[half + hour])
    return labels


def prepare_slowly(folder: pathlib.Path) -> dict[str, dict[str, tuple]]:
    """split -> stay -> prepared rows, decompensation labels, remaining hours; with nothing but loops."""
    stays = {split: {} for split in SPLITS}
    for split in SPLITS:
        for entry in csv.DictReader(io.StringIO((folder / f"{split}_listfile.csv").read_text())):
            series = (folder / ("test" if split == "test" else "train") / entry["filename"]).read_text()
            hours = hours_of(series, float(entry["length of stay"]))
            tasks = ("decompensation task (masks;labels)", "length of stay task (masks;labels)")
            stays[split][entry["filename"].replace("_timeseries.csv", "")] = (
                hours,
                *(labels_of(entry[task], len(hours)) for task in tasks),
            )
    scaling = {}
    for name in [*RANGES, "Hours"]:
        known = []
        for hours, _, _ in stays["train"].values():
            known += [hour[name] for hour in (hours[:1] if name == "Height" else hours) if hour[name] is not None]
        mean = math.fsum(known) / len(known) if known else 0.0
        variance = math.fsum((value - mean) ** 2 for value in known) / len(known) if known else 1.0
        scaling[name] = mean, math.sqrt(variance) or 1.0
    for split in SPLITS:
        for name, (hours, *labels) in stays[split].items():
            rows = []
            for hour in hours:
                row = {}
                for channel, (mean, scale) in scaling.items():
                    row[channel] = 0.0 if hour[channel] is None else (hour[channel] - mean) / scale
                for channel, levels in LEVELS.items():
                    for level in levels:
                        column = channel if len(levels) == 1 else f"{channel}={level}"
                        row[column] = float(hour[channel] == level)
                rows.append(row)
            stays[split][name] = rows, *labels
    return stays


def assert_equals_slow_preparation(folder: pathlib.Path, path: pathlib.Path) -> None:
    stays, split, checksum = mimic3_benchmark.read_stays(folder, carry_back=False, shift=0)
    write_cohort(path, MIMIC3_BENCHMARK, stays, split, checksum)
    cohort, expected = Cohort(path), prepare_slowly(folder)
    assert len(cohort.columns) == 42
    assert cohort.columns[0] == "Height"
    for split in SPLITS:
        part = cohort[split]
        assert sorted(part.stay_names) == sorted(expected[split])
        for name, (first, last, _) in zip(part.stay_names, part.patient_windows, strict=True):
            rows, *labels = expected[split][name]
            table = [[row[column] for column in cohort.columns] for row in rows]
            np.testing.assert_allclose(part.data[first : last + 1], table, rtol=1e-5, atol=1e-5, err_msg=name)
            np.testing.assert_allclose(part.labels[first : last + 1], np.transpose(labels), rtol=1e-6, err_msg=name)


def test_equals_a_slow_preparation(mimic_ward, tmp_path):
    assert_equals_slow_preparation(mimic_ward, tmp_path / "ward.h5")


def test_equals_a_slow_preparation_of_messy_files(mimic_ward, tmp_path):
    """Implausible values, all spellings, events on whole hours and in the same hour, other line ends."""
    rng = random.Random(0)
    for file in sorted(mimic_ward.rglob("*.csv")):
        target = tmp_path / "messy" / file.relative_to(mimic_ward)
        target.parent.mkdir(parents=True, exist_ok=True)
        header, *lines = file.read_text().splitlines()
        if "timeseries" in file.name:
            names, rows = header.split(","), [line.split(",") for line in lines]
            for row in rows:
                if rng.random() < 0.2:
                    row[0] = str(math.floor(float(row[0])))  # stays in order: everything later is larger
                for name, (low, high) in RANGES.items():
                    if rng.random() < 0.05:
                        row[names.index(name)] = str(rng.choice([low, high, low - 0.5, high + 0.5, high * 10]))
            rows.sort(key=lambda row: float(row[0]))
            lines = [",".join(row) for row in rows]
        newline = rng.choice(["\n", "\r\n"])
        target.write_bytes((newline.join([header, *lines]) + rng.choice(["", newline])).encode())
    assert_equals_slow_preparation(tmp_path / "messy", tmp_path / "messy.h5")


@pytest.fixture(scope="module")
def demo_folder(mimic3_demo, tmp_path_factory) -> pathlib.Path:
    folder = tmp_path_factory.mktemp("demo")
    with tarfile.open(mimic3_demo) as archive:
        archive.extractall(folder, filter="data")
    return next(folder.rglob("train_listfile.csv")).parent


def test_equals_a_slow_preparation_of_the_demo(demo_folder, tmp_path):
    assert_equals_slow_preparation(demo_folder, tmp_path / "demo.h5")


def test_counts_of_the_demo(mimic3_demo_cohort):
    with h5py.File(mimic3_demo_cohort) as file:
        assert file["labels"].attrs["tasks"].tolist() == ["decompensation", "length_of_stay"]
        labels = [file[f"labels/{split}"][:] for split in SPLITS]
        assert [len(file[f"patient_windows/{split}"]) for split in SPLITS] == [81, 14, 18]
        assert [int((~np.isnan(label[:, 1])).sum()) for label in labels] == [8283, 759, 1899]
        assert [int((~np.isnan(label[:, 0])).sum()) for label in labels] == [8236, 753, 1874]
        assert [int((label[:, 0] == 1).sum()) for label in labels] == [292, 40, 124]
        assert file["data/train"].shape[1] == len(file["data"].attrs["columns"]) == 42
        assert all(np.isfinite(file[f"data/{split}"][:]).all() for split in SPLITS)
        names = [name for split in SPLITS for name in file[f"stay_names/{split}"][:].tolist()]
        ids = [int(window[2]) for split in SPLITS for window in file[f"patient_windows/{split}"][:]]
        assert {b"41976_episode1", b"41976_episode11"} <= set(names)
        assert len(set(names)) == len(set(ids)) == 113


def test_guessed_channels_of_the_demo(mimic3_demo):
    """Height becomes 13 columns, as it does in the authors' preparation."""
    stays, split, _ = mimic3_benchmark.read_stays(mimic3_demo, carry_back=False, shift=0)
    guessed = mimic3_benchmark.guess_categorical(MIMIC3_BENCHMARK, stays, split["train"])
    assert guessed.static_columns == 13
    assert sum(column.startswith("Height=") for column in guessed.columns) == 13
    unchanged = [column for column in MIMIC3_BENCHMARK.columns if column != "Height"]
    assert guessed.columns[13:] == unchanged
