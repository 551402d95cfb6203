"""MIMIC-III Benchmark: what the flags do, and where events and labels go, on hand-made stays."""

import pathlib

import numpy as np

from ncl_tf.data.cohort import Cohort, write_cohort
from ncl_tf.data.datasets import MIMIC3_BENCHMARK
from ncl_tf.data.sources import mimic3_benchmark

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


def write_benchmark(
    folder: pathlib.Path, events: list[str], stay: str = "2.5", los: str = "", decompensation: str = ""
):
    """One stay in each split; the training one has the given events and labels."""
    for split, name, rows in (
        ("train", "1_episode1", events),
        ("val", "2_episode1", None),
        ("test", "3_episode1", None),
    ):
        subfolder = folder / ("test" if split == "test" else "train")
        subfolder.mkdir(parents=True, exist_ok=True)
        lines = [HEADER, *(rows or [event(0.5, Heart_Rate="90")]), ""]
        (subfolder / f"{name}_timeseries.csv").write_text("\n".join(lines))
        line = (
            f"{name}_timeseries.csv,{stay},0;0;0,{los},0,{decompensation}"
            if rows
            else f"{name}_timeseries.csv,1.5,0;0;0,,0,"
        )
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
    (folder / "train" / "2_episode1_timeseries.csv").write_text("\n".join([HEADER, event(0.5, Heart_Rate="90.5"), ""]))
    stays, split, _ = mimic3_benchmark.read_stays(folder, carry_back=False, shift=0)
    guessed = mimic3_benchmark.guess_categorical(MIMIC3_BENCHMARK, stays, split["train"])
    channels = {channel.name: channel for channel in guessed.channels}
    assert channels["Height"].levels == (170, 180)
    assert channels["Heart Rate"].levels == (80, 90, 90.5)  # guessed from the training stay, with the levels of all stays
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
    stays, split, _ = mimic3_benchmark.read_stays(folder, carry_back=False, shift=0)
    write_cohort(tmp_path / "many.h5", MIMIC3_BENCHMARK, stays, split, "")
    train = Cohort(tmp_path / "many.h5")["train"]
    assert sorted(train.stay_names) == sorted([*names, "1_episode1"])
    assert len(set(train.patient_windows[:, 2])) == 5
