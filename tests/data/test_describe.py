"""The tables of a cohort: counts by loops, the paper's beside them, missingness and ranges."""

import dataclasses
import re

import h5py
import numpy as np
import pandas as pd
import pytest

from ncl_tf.data.cohort import Cohort, write_cohort
from ncl_tf.data.datasets import PHYSIONET2019
from ncl_tf.data.describe import counts, describe
from ncl_tf.data.sources import physionet2019
from ncl_tf.data.splits import SPLITS, random_split
from ncl_tf.data.stays import Stays
from refusals import refused


def test_counts_equal_loops(mimic_ward_cohort):
    table = counts(Cohort(mimic_ward_cohort))
    with h5py.File(mimic_ward_cohort) as file:
        for column, split in enumerate(SPLITS):
            labels, windows = file[f"labels/{split}"][:], file[f"patient_windows/{split}"][:]
            assert table[""]["stays"][column] == len(windows)
            assert table[""]["hours"][column] == sum(last - first + 1 for first, last, _ in windows) == len(labels)
            decompensation = [[x for x in labels[first : last + 1, 0] if x == x] for first, last, _ in windows]
            assert table["decompensation"]["labelled hours"][column] == sum(map(len, decompensation))
            assert table["decompensation"]["positive hours"][column] == sum(x == 1 for s in decompensation for x in s)
            assert table["decompensation"]["positive stays"][column] == sum(1 in stay for stay in decompensation)
            assert table["length_of_stay"]["labelled hours"][column] == sum(x == x for x in labels[:, 1])
    assert "positive hours" not in table["length_of_stay"]
    assert table["decompensation"]["positive hours"][0] > 0


def test_patients_are_counted_beside_stays_where_they_are_known(ward, ward_cohort, tmp_path):
    """Two stays per patient; and a file that does not know them has no such row."""
    stays, _ = physionet2019.read_stays([ward])
    stays.subjects = np.arange(len(stays.names)) // 2
    positive = stays.ever_positive()
    split = random_split(positive, 0, stays.subjects)
    write_cohort(tmp_path / "patients.h5", PHYSIONET2019, stays, split, "")
    patients = [str(len({index // 2 for index in split[name]})) for name in SPLITS]
    row = re.search(r"^stays .*\nhours .*\npatients +(.*)$", describe(tmp_path / "patients.h5"), re.MULTILINE)
    assert row[1].split() == patients
    assert sum(map(int, patients)) == 36
    assert Cohort(tmp_path / "patients.h5")["val"].subjects.tolist() == [str(index // 2) for index in split["val"]]
    assert "patients" not in describe(ward_cohort)
    assert Cohort(ward_cohort)["val"].subjects is None
    with refused("must be in one split, got patient"):
        write_cohort(tmp_path / "shared.h5", PHYSIONET2019, stays, random_split(positive, 0), "")
    assert not (tmp_path / "shared.h5").exists()


def test_text_has_the_counts_beside_the_paper_only_where_the_stays_are_split_as_there(ward_cohort, tmp_path):
    text = describe(ward_cohort)
    assert ": simulated physionet2019, 40 columns, the first 5 static" in text
    stays = re.search(r"^stays +(.*)$", text, re.MULTILINE)[1]
    assert stays.split() == [str(len(Cohort(ward_cohort)[split].patient_windows)) for split in SPLITS]
    assert "in the paper" not in text
    assert "not the paper's cohort, which has 25,813 / 6,454 / 8,066 stays" in text
    ends = np.cumsum([0, 25813, 6454, 8066])
    split = {name: np.arange(ends[i], ends[i + 1]) for i, name in enumerate(SPLITS)}
    hours = np.zeros((ends[-1], len(PHYSIONET2019.channels)), np.float32)  # one of each stay
    stays = Stays(np.arange(ends[-1]).astype(str), np.ones(ends[-1], int), hours, np.ones((ends[-1], 1), np.float32))
    write_cohort(tmp_path / "same_stays.h5", PHYSIONET2019, stays, split, "")
    text = describe(tmp_path / "same_stays.h5", channels=False)
    assert re.search(r"^stays +25,813 .*\n +in the paper +25,813 +6,454 +8,066  same$", text, re.MULTILINE)
    assert re.search(r"sepsis: positive hours .*\n +in the paper +17,891 +4,475 +5,550  differs", text)


def test_text_shows_where_the_paper_is_matched(physionet2019_cohort):
    text = describe(physionet2019_cohort, channels=False)
    assert text.count("  same") == 3
    assert "differs" not in text


def test_channels_are_described_by_their_raw_values(ward, ward_cohort):
    """Share of hours measured, share known after forward fill and the range, from the files themselves."""
    cohort = Cohort(ward_cohort)
    stays = [pd.read_csv(ward / f"{stay}.psv", sep="|")["Temp"] for stay in cohort["train"].stay_names]
    filled = pd.concat([stay.ffill() for stay in stays])
    expected = {"measured": pd.concat(stays).notna().mean(), "known": filled.notna().mean()}
    expected |= {"min": filled.min(), "mean": filled.mean(), "max": filled.max()}
    statistics = cohort.channel_statistics["Temp"]
    assert {name: statistics[name] for name in expected} == pytest.approx(expected, rel=1e-6)
    line = next(line for line in describe(ward_cohort).splitlines() if line.startswith("Temp "))
    measured, known, *values = expected.values()
    shown = [f"{measured:.1%}", f"{known:.1%}", *(f"{value:.4g}" for value in values)]
    assert line.split() == ["Temp", "continuous", *shown, "deg", "C"]


def test_a_channel_that_is_never_measured(ward, tmp_path):
    """Its range is shown as unknown, its column is all zeros."""
    stays, _ = physionet2019.read_stays([ward])
    stays.values[:, PHYSIONET2019.columns.index("Temp")] = np.nan
    write_cohort(tmp_path / "cohort.h5", PHYSIONET2019, stays, random_split(stays.ever_positive(), 0), "")
    line = next(line for line in describe(tmp_path / "cohort.h5").splitlines() if line.startswith("Temp "))
    assert line.split()[2:7] == ["0.0%", "0.0%", "-", "-", "-"]
    for split in SPLITS:
        assert not Cohort(tmp_path / "cohort.h5")[split].data[:, PHYSIONET2019.columns.index("Temp")].any()


@pytest.mark.parametrize("chosen", [("recency", "count"), ("count", "measured")])
def test_measured_in_positive_hours_by_the_files_of_the_ward(ward, tmp_path, chosen):
    """As pandas counts them; labs are ordered more often for the septic, the monitor is always on."""
    stays, _ = physionet2019.read_stays([ward])
    dataset = dataclasses.replace(PHYSIONET2019, observations=chosen)
    split = random_split(stays.ever_positive(), 0)
    write_cohort(tmp_path / "observed.h5", dataset, stays, split, "")
    text = describe(tmp_path / "observed.h5")
    table = pd.concat(pd.read_csv(ward / f"{name}.psv", sep="|") for name in stays.names[split["train"]])
    septic = table.SepsisLabel == 1
    for channel in ("HR", "pH", "Fibrinogen"):
        (line,) = (line.split() for line in text.splitlines() if line.startswith(f"{channel} "))
        expected = [table[channel].notna().mean(), table[channel][septic].notna().mean()]
        assert line[2:4] == [f"{share:.1%}" for share in expected]
    (hour,) = (line.split() for line in text.splitlines() if line.startswith("ICULOS "))
    assert hour[2:4] == ["100.0%", "100.0%"]  # measured and known: it has no observations
    assert "hours measured, of the hours with sepsis measured, hours known" in text


def test_only_cohorts_with_observations_show_what_is_measured_in_positive_hours(ward_cohort):
    assert "positive  " not in describe(ward_cohort)
    assert "hours measured, hours known after forward fill" in describe(ward_cohort)
