"""MIMIC-III Benchmark: what the flags do, and where events and labels go, on hand-made stays."""

import pathlib

import numpy as np
import pytest

from ncl_tf.data.cohort import Cohort, write_cohort
from ncl_tf.data.datasets import MIMIC3_BENCHMARK
from ncl_tf.data.sources import mimic3_benchmark

NAN = np.nan
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


def write_series(folder: pathlib.Path, name: str, *events: str) -> None:
    (folder / f"{name}_timeseries.csv").write_text("\n".join([HEADER, *events, ""]))


def write_benchmark(
    folder: pathlib.Path, events: list[str], stay: str = "2.5", los: str = "", decompensation: str = ""
):
    """One stay in each split; the training one has the given events and labels."""
    usual = [event(0.5, Heart_Rate="90")], "1.5", "", ""
    stays = {"train": (events, stay, los, decompensation), "val": usual, "test": usual}
    for number, (split, (rows, length, *labels)) in enumerate(stays.items(), start=1):
        subfolder, name = folder / ("test" if split == "test" else "train"), f"{number}_episode1"
        subfolder.mkdir(parents=True, exist_ok=True)
        write_series(subfolder, name, *rows)
        line = f"{name}_timeseries.csv,{length},0;0;0,{labels[0]},0,{labels[1]}"
        (folder / f"{split}_listfile.csv").write_text(f"{LIST_HEADER}\n{line}\n")
    return folder


def training_stay(folder: pathlib.Path, **options):
    stays, split, _ = mimic3_benchmark.read_stays(folder, **{"carry_back": False, "shift": 0, **options})
    rows = stays.rows(split["train"])
    heart_rate = [channel.name for channel in MIMIC3_BENCHMARK.channels].index("Heart Rate")
    return stays.values[rows, heart_rate], stays.labels[rows]


@pytest.mark.parametrize(
    ("stay", "los", "decompensation", "same"),
    [
        ("2.5", "0;1;1;2.5;1.5;0.5", "1;0;0;1", [[0, NAN], [NAN, 1.5], [NAN, 0.5], [NAN, NAN]]),
        ("2.0", "1;1;1;2;1;0", "", [[NAN, 2], [NAN, 1], [NAN, 0]]),
    ],
    ids=["entry j is on row j, masked ones are unlabelled", "a stay of whole hours has a label on each of them"],
)
def test_labels_and_their_row(tmp_path, stay, los, decompensation, same):
    """--label_row=next: entry j is on row j + 1, and one beyond the last row is left out."""
    folder = write_benchmark(tmp_path, [event(0, Heart_Rate="80")], stay, los, decompensation)
    np.testing.assert_array_equal(training_stay(folder)[1], np.float32(same))
    np.testing.assert_array_equal(training_stay(folder, shift=1)[1], np.float32([[NAN, NAN], *same[:-1]]))


def test_hours_before_the_first_event(tmp_path):
    """Missing; --before_first_event=carry_back: the first row's values (not those of later rows) from hour 0 on."""
    events = [event(1.2, Glucose="100"), event(1.3, Heart_Rate="80"), event(1.8, Heart_Rate="85")]
    for rows, carried in ((events, np.nan), ([event(1.2, Heart_Rate="80"), events[2]], 80)):
        folder = write_benchmark(tmp_path, rows)
        for carry_back, first in ((False, np.nan), (True, carried)):
            found, _ = training_stay(folder, carry_back=carry_back)
            np.testing.assert_array_equal(found, np.float32([first, np.nan, 85, np.nan]))
    stays, split, _ = mimic3_benchmark.read_stays(folder, carry_back=True, shift=0)
    write_cohort(tmp_path / "back.h5", MIMIC3_BENCHMARK, stays, split, "")
    train = Cohort(tmp_path / "back.h5")["train"]  # filled: 80, 80, 85, 85
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
    write_series(folder / "train", "2_episode1", event(0.5, Heart_Rate="90.5"))
    stays, split, _ = mimic3_benchmark.read_stays(folder, carry_back=False, shift=0)
    guessed = mimic3_benchmark.guess_categorical(MIMIC3_BENCHMARK, stays, split["train"])
    channels = {channel.name: channel for channel in guessed.channels}
    assert channels["Height"].levels == (170, 180)
    assert channels["Heart Rate"].levels == (80, 90, 90.5)  # of all stays, though guessed from the training stay
    assert channels["pH"].kind == "continuous"
    assert channels["Hours"].levels == (0, 1, 2, 3)
    write_cohort(tmp_path / "guessed.h5", guessed, stays, split, "")
    train = Cohort(tmp_path / "guessed.h5")["train"]
    first = guessed.columns.index("Heart Rate=80")
    np.testing.assert_array_equal(train.data[:, first : first + 3], [[1, 0, 0]] + [[0, 0, 0]] * 3)
    assert train.data[:, guessed.columns.index("Height")].tolist() == [0, 1, 1, 1]
