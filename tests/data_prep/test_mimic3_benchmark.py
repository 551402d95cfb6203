"""MIMIC-III Benchmark: the demo's counts, a slow preparation in plain Python beside the pipeline, and the flags."""

import csv
import io
import math
import pathlib
import random
import tarfile

import h5py
import numpy as np
import pytest

from data_prep import mimic3_benchmark
from ncl_tf.data.cohort import Cohort, write_cohort
from ncl_tf.data.datasets import MIMIC3_BENCHMARK
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
            stays[split][entry["filename"].replace("_timeseries.csv", "")] = hours, *(
                labels_of(entry[task], len(hours)) for task in tasks
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


def prepare(folder: pathlib.Path, path: pathlib.Path, carry_back: bool = False, shift: int = 0) -> Cohort:
    stays, split, checksum = mimic3_benchmark.read_stays(folder, carry_back, shift)
    write_cohort(path, MIMIC3_BENCHMARK, stays, split, checksum)
    return Cohort(path)


def assert_equals_slow_preparation(folder: pathlib.Path, path: pathlib.Path) -> None:
    cohort, expected = prepare(folder, path), prepare_slowly(folder)
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


# A hand-made benchmark: three stays of which one is looked at.
HEADER = (
    "Hours,Capillary refill rate,Diastolic blood pressure,Fraction inspired oxygen,Glascow coma scale eye opening,"
    "Glascow coma scale motor response,Glascow coma scale total,Glascow coma scale verbal response,Glucose,Heart Rate,"
    "Height,Mean blood pressure,Oxygen saturation,Respiratory rate,Systolic blood pressure,Temperature,Weight,pH"
)
LIST_HEADER = (
    "filename,length of stay,in-hospital mortality task (pos;mask;label),length of stay task (masks;labels),"
    "phenotyping task (labels),decompensation task (masks;labels)"
)


def event(hours: float, **cells: str) -> str:
    cells = {"Hours": str(hours), **{name.replace("_", " "): text for name, text in cells.items()}}
    return ",".join(cells.get(name, "") for name in HEADER.split(","))


def write_benchmark(folder: pathlib.Path, events: list[str], stay: str = "2.5", los: str = "", decompensation: str = ""):
    """One stay in each split; the training one has the given events and labels."""
    for split, name, rows in (("train", "1_episode1", events), ("val", "2_episode1", None), ("test", "3_episode1", None)):
        subfolder = folder / ("test" if split == "test" else "train")
        subfolder.mkdir(parents=True, exist_ok=True)
        lines = [HEADER, *(rows or [event(0.5, Heart_Rate="90")]), ""]
        (subfolder / f"{name}_timeseries.csv").write_text("\n".join(lines))
        line = f"{name}_timeseries.csv,{stay},0;0;0,{los},0,{decompensation}" if rows else f"{name}_timeseries.csv,1.5,0;0;0,,0,"
        (folder / f"{split}_listfile.csv").write_text(f"{LIST_HEADER}\n{line}\n")
    return folder


def training_stay(folder: pathlib.Path, **options):
    stays, split, _ = mimic3_benchmark.read_stays(folder, **{"carry_back": False, "shift": 0, **options})
    rows = stays.rows(split["train"])
    heart_rate = [channel.name for channel in MIMIC3_BENCHMARK.channels].index("Heart Rate")
    return stays.values[rows, heart_rate], stays.labels[rows]


def test_labels_and_their_row(tmp_path):
    """Entry j is on row j, masked ones are unlabelled; --label_row=next: on row j + 1. A shorter list ends sooner."""
    los, decompensation = "0;1;1;2.5;1.5;0.5", "1;0;0;1"
    folder = write_benchmark(tmp_path, [event(0, Heart_Rate="80")], los=los, decompensation=decompensation)
    nan = np.nan
    same = [[0, nan], [nan, 1.5], [nan, 0.5], [nan, nan]]
    np.testing.assert_array_equal(training_stay(folder)[1], np.float32(same))
    following = [[nan, nan], [0, nan], [nan, 1.5], [nan, 0.5]]
    np.testing.assert_array_equal(training_stay(folder, shift=1)[1], np.float32(following))


def test_a_stay_of_whole_hours(tmp_path):
    """Hours 0, 1, 2 and labels for each of them; shifted, the last label has no row."""
    folder = write_benchmark(tmp_path, [event(0, Heart_Rate="80")], stay="2.0", los="1;1;1;2;1;0")
    np.testing.assert_array_equal(training_stay(folder)[1][:, 1], np.float32([2, 1, 0]))
    np.testing.assert_array_equal(training_stay(folder, shift=1)[1][:, 1], np.float32([np.nan, 2, 1]))


def test_hours_before_the_first_event(tmp_path):
    """Missing; --before_first_event=carry_back: the first row's values (not those of later rows) from hour 0 on."""
    events = [event(1.2, Glucose="100"), event(1.3, Heart_Rate="80"), event(1.8, Heart_Rate="85")]
    folder = write_benchmark(tmp_path, events)
    nan = np.nan
    np.testing.assert_array_equal(training_stay(folder)[0], np.float32([nan, nan, 85, nan]))
    np.testing.assert_array_equal(training_stay(folder, carry_back=True)[0], np.float32([nan, nan, 85, nan]))
    folder = write_benchmark(tmp_path, [event(1.2, Heart_Rate="80"), event(1.8, Heart_Rate="85")])
    np.testing.assert_array_equal(training_stay(folder)[0], np.float32([nan, nan, 85, nan]))
    np.testing.assert_array_equal(training_stay(folder, carry_back=True)[0], np.float32([80, nan, 85, nan]))
    train = prepare(folder, tmp_path / "back.h5", carry_back=True)["train"]  # filled: 80, 80, 85, 85
    column = MIMIC3_BENCHMARK.columns.index("Heart Rate")
    np.testing.assert_allclose(train.data[:, column], [-1, -1, 1, 1], rtol=1e-5)


def test_events_of_an_hour_and_beyond_the_stay(tmp_path):
    """The last of an hour counts, an event on the hour belongs to it, one after the last hour never shows."""
    events = [event(t, Heart_Rate=str(v)) for t, v in ((0, 80), (0.4, 81), (1, 82), (1.01, 83), (2.6, 84), (3.2, 85))]
    heart_rate, _ = training_stay(write_benchmark(tmp_path, events))
    np.testing.assert_array_equal(heart_rate, np.float32([80, 82, 83, 84]))


def test_guess_by_hand(tmp_path):
    """Whole numbers, at most 25 of them in the training split, make levels; implausible values are none."""
    events = [event(0, Heart_Rate="80", pH="7.3", Height="170"), event(1, Heart_Rate="5000", pH="7.4", Height="180")]
    folder = write_benchmark(tmp_path, events)
    (folder / "train" / "2_episode1_timeseries.csv").write_text("\n".join([HEADER, event(0.5, Heart_Rate="90.5"), ""]))
    stays, split, _ = mimic3_benchmark.read_stays(folder, carry_back=False, shift=0)
    guessed = mimic3_benchmark.guess_categorical(MIMIC3_BENCHMARK, stays, split["train"])
    channels = {channel.name: channel for channel in guessed.channels}
    assert channels["Height"].levels == (170, 180)
    assert channels["Heart Rate"].levels == (80, 90, 90.5)  # judged by the training stay, levels of all
    assert channels["pH"].kind == "continuous"
    assert channels["Hours"].levels == (0, 1, 2, 3)
    write_cohort(tmp_path / "guessed.h5", guessed, stays, split, "")
    train = Cohort(tmp_path / "guessed.h5")["train"]
    first = guessed.columns.index("Heart Rate=80")
    np.testing.assert_array_equal(train.data[:, first : first + 3], [[1, 0, 0]] + [[0, 0, 0]] * 3)
    assert train.data[:, guessed.columns.index("Height")].tolist() == [0, 1, 1, 1]


def test_many_episodes_do_not_collide(tmp_path):
    """Episodes 1 and 11 of a patient, and episode 1 of patient 21, are three stays."""
    folder = write_benchmark(tmp_path, [event(0, Heart_Rate="80")])
    names = ["1_episode11", "1_episode2", "21_episode1", "11_episode1"]
    for name in names:
        (folder / "train" / f"{name}_timeseries.csv").write_text("\n".join([HEADER, event(0, Heart_Rate="70"), ""]))
    with (folder / "train_listfile.csv").open("a") as file:
        file.writelines(f"{name}_timeseries.csv,1.5,0;0;0,,0,\n" for name in names)
    train = prepare(folder, tmp_path / "many.h5")["train"]
    assert sorted(train.stay_names) == sorted([*names, "1_episode1"])
    assert len(set(train.patient_windows[:, 2])) == 5
