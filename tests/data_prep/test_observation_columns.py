"""Observation columns of prepared cohorts, against a slow loop over the hours of each stay; and what is refused."""

import csv
import math
import pathlib

import h5py
import numpy as np
import pytest

from ncl_tf.data.cohort import Cohort
from ncl_tf.data.raw_file import RawFile
from ncl_tf.data.splits import SPLITS

EVERY = "--observations=change,recency,measured,count"


def observed(values: list[float], low: float = -math.inf, high: float = math.inf) -> np.ndarray:
    """Walk through one channel of one stay: [hours, 4] recency, log(1 + count), measured, change; NaN: not known."""
    rows, past = [], []
    for hour, value in enumerate(values):
        if not math.isnan(value):
            past.append((hour, value))
        change = math.nan
        if len(past) > 1 and all(low <= value <= high for _, value in past[-2:]):
            change = past[-1][1] - past[-2][1]
        since = 1 / (1 + hour - past[-1][0]) if past else 0
        rows.append([since, math.log(1 + len(past)), float(not math.isnan(value)), change])
    return np.array(rows)


def check(path: pathlib.Path, every: int = 1) -> None:
    """Compare all observation columns of all channels, in every n-th stay, with the loop over the raw rows."""
    cohort = Cohort(path)
    dataset, raw = cohort.preprocessor.dataset, RawFile(cohort)
    bounds = {c.name: (-math.inf if c.low is None else np.float32(c.low), c.high) for c in dataset.channels}
    for index, channel in enumerate(dataset.channels):
        names = [column for column in cohort.columns if column.startswith(f"{channel.name}:")]
        if channel.static or channel.name == dataset.hour:
            assert names == []
            continue
        known = ["recency", "count", "measured", *(["change"] if channel.kind == "continuous" else [])]
        assert names == [f"{channel.name}:{name}" for name in known]
        low, high = bounds[channel.name]
        high = math.inf if high is None else np.float32(high)
        expected = {}
        for split in SPLITS:
            values, windows = raw[split].values[:, index].tolist(), cohort[split].patient_windows
            expected[split] = [
                (first, last, observed(values[first : last + 1], low, high)) for first, last, _ in windows[::every]
            ]
        logarithms = np.concatenate([rows[:, 1] for _, _, rows in expected["train"]])
        mean, std = logarithms.mean(), logarithms.std() or 1
        if every > 1:  # of a part of the stays; the statistics of all are checked where all are walked through
            mean, std = cohort.preprocessor.count_mean[index], cohort.preprocessor.count_scale[index]
        for split in SPLITS:
            data = cohort[split].data[:, [cohort.columns.index(name) for name in names]]
            for first, last, rows in expected[split]:
                rows[:, 1] = (rows[:, 1] - mean) / std
                rows[:, 3] = np.nan_to_num(rows[:, 3] / cohort.preprocessor.scale[index])
                np.testing.assert_allclose(data[first : last + 1], rows[:, : len(names)], rtol=1e-4, atol=2e-5)


def prepare(run, output: pathlib.Path, *arguments: str) -> str:
    done = run("bin/prepare", *arguments, f"--output={output}", "--keep_raw")
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_of_a_ward(run, ward, tmp_path):
    source = ("physionet2019", f"--source={ward}", "--split=random")
    text = prepare(run, tmp_path / "observed.h5", *source, EVERY)
    assert "176 columns, the first 5 static" in text  # 40 + 4 x 34
    assert "136 observation columns (recency, count, measured, change): HR:recency to Platelets:change" in text
    check(tmp_path / "observed.h5")
    prepare(run, tmp_path / "plain.h5", *source)
    for split in SPLITS:  # what is measured is as without them
        plain = Cohort(tmp_path / "plain.h5")[split].data
        np.testing.assert_array_equal(Cohort(tmp_path / "observed.h5")[split].data[:, :40], plain)
    with h5py.File(tmp_path / "plain.h5") as file:
        assert "observations" not in file.attrs["preprocessor"]


def test_of_a_users_table_with_gaps_in_its_hours(run, tmp_path):
    random = np.random.default_rng(0)
    with (tmp_path / "hourly.csv").open("w", newline="") as file:
        write = csv.writer(file).writerow
        write(["stay", "hour", "age", "HR", "GCS", "sepsis"])
        for stay in range(40):
            for hour in np.flatnonzero(random.random(30) < 0.5):  # half of the hours are absent
                heart_rate, coma = random.normal(80, 60), random.integers(3)
                cells = [round(heart_rate), "abc"[coma]]
                write([stay, hour + 5, 50, *("" if random.random() < 0.5 else c for c in cells), int(stay < 8)])
    (tmp_path / "schema.toml").write_text(
        """
        name = "small"
        stay = "stay"
        hour = "hour"
        channels = [
          {name = "age", static = true}, {name = "HR", low = 10, high = 200}, {name = "hour"},
          {name = "GCS", kind = "categorical", levels = ["a", "b", "c"]},
        ]
        tasks = [{name = "sepsis"}]
        """
    )
    files = (f"--source={tmp_path / 'hourly.csv'}", f"--schema={tmp_path / 'schema.toml'}")
    prepare(run, tmp_path / "small.h5", "table", *files, EVERY)
    cohort = Cohort(tmp_path / "small.h5")
    values = ["age", "HR", "hour", "GCS=0", "GCS=1", "GCS=2"]
    expected = [f"{channel}:{name}" for name in ("recency", "count", "measured") for channel in ("HR", "GCS")]
    assert cohort.columns == [*values, *expected, "HR:change"]
    check(tmp_path / "small.h5")
    with (tmp_path / "hourly.csv").open() as file:
        rows = list(csv.DictReader(file))
    for split in SPLITS:  # gaps count as hours, by the file itself
        data = cohort[split]
        for name, (first, last, _) in zip(data.stay_names, data.patient_windows, strict=True):
            measured = {int(row["hour"]) for row in rows if row["stay"] == name and row["HR"]}
            begin = min(int(row["hour"]) for row in rows if row["stay"] == name)
            for hour in range(last - first + 1):
                before = [h for h in measured if h <= begin + hour]
                expected = 1 / (1 + begin + hour - max(before)) if before else 0
                assert data.data[first + hour, 6] == np.float32(expected)


def test_of_the_demo_of_mimic3(run, mimic3_demo, tmp_path):
    prepare(run, tmp_path / "demo.h5", "mimic3_benchmark", f"--source={mimic3_demo}", EVERY)
    check(tmp_path / "demo.h5")


@pytest.mark.slow
def test_of_physionet2019(run, physionet2019_zips, physionet2019_cohort, tmp_path):
    """Every 50th stay; the paper's columns are those of the default cohort, whose checksum is the one of all results."""
    prepare(run, tmp_path / "real.h5", "physionet2019", *(f"--source={path}" for path in physionet2019_zips), EVERY)
    check(tmp_path / "real.h5", every=50)
    plain = Cohort(physionet2019_cohort)
    assert plain.checksum.startswith("7281c65e2d4c")
    for split in SPLITS:
        np.testing.assert_array_equal(Cohort(tmp_path / "real.h5")[split].data[:, :40], plain[split].data)


@pytest.mark.parametrize(("given", "named"), [("recency,age", "age"), ("count,count", "count")])
def test_unknown_observations_are_refused_before_anything_is_read(run, tmp_path, given, named):
    output = f"--output={tmp_path / 'x.h5'}"
    done = run("bin/prepare", "physionet2019", "--source=nowhere", output, f"--observations={given}")
    assert done.returncode == 1
    allowed = "recency, count, measured, change, each at most once"
    assert f"--observations must be of {allowed}, got '{named}'" in done.stderr
