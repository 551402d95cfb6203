"""MEDS datasets: hours worked by hand, the cohort of PhysioNet 2019 value for value, tasks from events and from files."""

import datetime
import json
import pathlib

import h5py
import numpy as np
import pytest

from benchmarks import meds_export
from meds_files import SCHEMA, small_events, write_events, write_labels, write_metadata, write_small, write_ward_as_meds
from ncl_tf.data.cohort import Cohort, write_cohort
from ncl_tf.data.datasets import PHYSIONET2019
from ncl_tf.data.sources import meds, meds_events, physionet2019
from ncl_tf.data.sources.meds_schema import read_meds_schema
from ncl_tf.data.splits import SPLITS, published_split

NAN = np.nan


def read(folder: pathlib.Path, schema: str | None = None, labels: str | None = "task_labels"):
    if schema is not None:
        (folder / "schema.toml").write_text(schema)
    declared = read_meds_schema(folder / "schema.toml")
    return declared.dataset, meds.read_meds(folder, declared, folder / labels if labels else None)


def test_a_small_dataset_by_hand(tmp_path):
    """Hour k ends k hours after the opening; static values are those of the opening; labels never look ahead."""
    dataset, (stays, split, _, left_out) = read(write_small(tmp_path))
    assert [channel.name for channel in dataset.channels] == [
        "age",
        "unit",
        "height",
        "hour",
        "HR",
        "temperature",
        "rhythm",
    ]
    order = np.argsort(stays.names)  # of shards, whose order means nothing
    assert stays.names[order].tolist() == ["17", "17-2", "3", "5", "9"]
    assert stays.subjects[order].tolist() == ["17", "17", "3", "5", "9"]
    assert stays.lengths[order].tolist() == [4, 2, 2, 3, 2]
    year = 365.25  # days; subject 17 is born on 1960-01-01, subject 9 on 1990-01-01
    ages = [(21915 + 0.25) / year, (21915 + 60.5) / year, 11078 / year]
    expected = {
        "17": [
            [ages[0], 0, 171.5, 0, 80, NAN, NAN],
            [ages[0], 0, 171.5, 1, 82, 36.5, 0],
            [ages[0], 0, 171.5, 2, NAN, 39, NAN],  # 98 x 0.5 - 10
            [ages[0], 0, 171.5, 3, NAN, NAN, 1],
        ],
        "17-2": [[ages[1], 1, 171.5, 0, NAN, NAN, NAN], [ages[1], 1, 171.5, 1, 999, NAN, NAN]],
        "3": [[NAN, 0, NAN, 0, NAN, NAN, NAN], [NAN, 0, NAN, 1, NAN, 37, NAN]],
        "5": [[NAN, 1, NAN, 0, NAN, NAN, NAN], [NAN, 1, NAN, 1, NAN, NAN, NAN], [NAN, 1, NAN, 2, 70, NAN, NAN]],
        "9": [[ages[2], 0, NAN, 0, NAN, NAN, NAN], [ages[2], 0, NAN, 1, 90, NAN, NAN]],
    }
    labels = {"17": [1, NAN, 0, NAN], "17-2": [0, NAN], "3": [1, NAN], "5": [NAN, 1, NAN], "9": [0, 1]}
    times = {"17": ["2020-01-01T06:50", None, "2020-01-01T08:00", None], "3": ["2020-06-01T00:59", None]}
    for stay, name in enumerate(stays.names):
        rows = stays.rows(np.array([stay]))
        np.testing.assert_allclose(stays.values[rows], expected[name], rtol=1e-6, err_msg=name)
        np.testing.assert_array_equal(stays.labels[rows, 0], labels[name])
        for row, time in zip(rows, times.get(name, []), strict=False):
            assert time is None or stays.label_times[row, 0].astype("datetime64[us]") == np.datetime64(time)
    assert {name: sorted(stays.names[part]) for name, part in split.items()} == {
        "train": ["17", "17-2", "5"],
        "val": ["9"],
        "test": ["3"],
    }
    assert left_out == {
        "measurements without a value": 0,
        "measurements outside of every stay": 0,
        "labels outside of every stay": 0,
        "labels before another one of the same hour": 1,
    }
    write_cohort(tmp_path / "small.h5", dataset, stays, split, "")
    train = Cohort(tmp_path / "small.h5")["train"]
    written = dict(zip(train.stay_names, np.split(train.label_times[:, 0], np.cumsum(train.lengths)[:-1]), strict=True))
    assert written["17"][2].astype("datetime64[us]") == np.datetime64("2020-01-01T08:00")
    assert sorted(train.subjects) == ["17", "17", "5"]


def test_what_is_outside_of_stays_can_be_dropped(tmp_path):
    """Values before a stay, after it, of subjects without one; a label of no stay; a number that is missing."""
    shards = small_events()
    before, after = datetime.datetime(2019, 12, 31), datetime.datetime(2020, 7, 1)
    shards["train/0"].insert(2, (17, before, "HR", 60.0, None))
    shards["held_out/0"] += [(3, after, "HR", 60.0, None), (8, after, "HR", 60.0, None)]
    shards["held_out/0"].insert(2, (3, datetime.datetime(2020, 6, 1, 0, 30), "HR", None, "too fast"))
    write_small(tmp_path, shards)
    write_labels([(3, after, True)], tmp_path / "task_labels/ill/c.parquet")
    _, (stays, _, _, left_out) = read(tmp_path, 'outside_stays = "drop"\n' + SCHEMA)
    assert len(stays.names) == 5 and not (stays.values == 60).any()
    assert left_out["measurements outside of every stay"] == 3
    assert left_out["labels outside of every stay"] == 1
    assert left_out["measurements without a value"] == 1


def test_tasks_from_events(tmp_path):
    """Death within two hours, hours until the discharge; the last hours are over, so they have no labels."""
    tasks = '[[tasks]]\nname = "dying"\nuntil = ["MEDS_DEATH"]\nwithin = 1\n'
    tasks += '[[tasks]]\nname = "left"\nkind = "bins"\nedges = [1, 2]\nuntil = ["DISCHARGE"]\n'
    schema = SCHEMA.replace('[[tasks]]\nname = "ill"\n', tasks)
    _, (stays, _, _, _) = read(write_small(tmp_path), schema, labels=None)
    found = dict(zip(stays.names, np.split(stays.labels, np.cumsum(stays.lengths)[:-1]), strict=True))
    np.testing.assert_array_equal(found["17"], [[0, 2.5], [0, 1.5], [0, 0.5], [NAN, NAN]])
    np.testing.assert_array_equal(found["17-2"], [[0, 1], [NAN, NAN]])
    np.testing.assert_array_equal(found["5"], [[0, 2], [1, 1], [NAN, NAN]])
    hours = stays.label_times[np.flatnonzero(~np.isnan(stays.labels[:, 1])), 1]
    assert np.datetime64("2020-02-01T01:00") in hours.astype("datetime64[us]")


@pytest.mark.parametrize(
    ("column", "kind", "values", "expected"),
    [
        ("integer_value", "", [0, 1], [0, 1]),
        ("float_value", 'kind = "bins"\nedges = [24]', [30.5, 2], [30.5, 2]),
        ("integer_value", 'kind = "bins"\nedges = [24]', [30, 2], [30, 2]),
    ],
)
def test_labels_of_other_kinds(tmp_path, column, kind, values, expected):
    write_small(tmp_path)
    times = [datetime.datetime(2020, 5, 1, hour) for hour in (0, 1)]
    labels = [(9, time, value) for time, value in zip(times, values, strict=True)]
    write_labels(labels, tmp_path / "labels/only.parquet", column)
    _, (stays, _, _, _) = read(tmp_path, SCHEMA + kind, "labels")
    rows = stays.rows(np.flatnonzero(stays.names == "9"))
    assert stays.labels[rows, 0].tolist() == expected


def test_other_types_and_versions_mean_the_same(tmp_path):
    """Nanoseconds, small integers, dictionaries, doubles, no text column, no version; an empty shard."""
    import pyarrow as pa

    _, one = read(write_small(tmp_path / "one"))
    folder = write_small(tmp_path / "other")
    write_metadata(folder, {17: "train", 5: "train", 9: "tuning", 3: "held_out"}, version=None)
    for path in (folder / "data").rglob("*.parquet"):
        table = pa.parquet.read_table(path)
        types = {"subject_id": pa.int32(), "time": pa.timestamp("ns"), "numeric_value": pa.float64()}
        columns = {name: table[name].cast(types.get(name, table[name].type)) for name in table.column_names}
        columns["code"] = table["code"].dictionary_encode()
        if path.parent.name == "tuning":
            del columns["text_value"]
        pa.parquet.write_table(pa.table(columns), path)
    write_events([], folder / "data/empty.parquet")
    _, other = read(folder)
    np.testing.assert_array_equal(one.stays.values, other.stays.values)
    np.testing.assert_array_equal(one.stays.label_times, other.stays.label_times)
    assert one.checksum != other.checksum


def assert_same_cohort(one: pathlib.Path, other: pathlib.Path) -> None:
    """The cohort of PhysioNet's files and that of the same stays in MEDS, whose subjects are the numbers in their names."""
    with h5py.File(one) as files, h5py.File(other) as of_meds:
        for part in SPLITS:
            for group in ("data", "labels"):
                np.testing.assert_array_equal(files[group][part][:], of_meds[group][part][:], err_msg=f"{group}/{part}")
            np.testing.assert_array_equal(
                files["patient_windows"][part][:, :2], of_meds["patient_windows"][part][:, :2]
            )
            names = [f"p{int(name):06}".encode() for name in of_meds["stay_names"][part]]
            assert files["stay_names"][part][:].tolist() == names
        assert files["data"].attrs["columns"].tolist() == of_meds["data"].attrs["columns"].tolist()
        assert files.attrs["static_columns"] == of_meds.attrs["static_columns"]
        statistics = [json.loads(file.attrs["channel_statistics"]) for file in (files, of_meds)]
        assert statistics[0] == statistics[1]
        fitted, again = (json.loads(file.attrs["preprocessor"]) for file in (files, of_meds))
        assert fitted | {"dataset": 0} == again | {"dataset": 0}


@pytest.mark.parametrize("batch", [997, 1 << 18])
def test_same_cohort_as_from_physionets_files(ward, ward_cohort, tmp_path, monkeypatch, batch):
    """With batches that end within subjects, and with all events at once."""
    monkeypatch.setattr(meds_events, "BATCH", batch)
    write_ward_as_meds(ward, ward_cohort, tmp_path)
    dataset, (stays, split, checksum, _) = read(tmp_path, labels="labels")
    write_cohort(tmp_path / "meds.h5", dataset, stays, split, checksum)
    assert_same_cohort(ward_cohort, tmp_path / "meds.h5")


@pytest.mark.slow
def test_same_cohort_as_from_all_real_stays(physionet2019_zips, physionet2019_cohort, tmp_path):
    stays, _ = physionet2019.read_stays(physionet2019_zips)
    split = published_split(stays.names, stays.ever_positive())
    meds_export.export(stays, split, tmp_path / "dataset", shards=8)
    dataset, (stays, split, checksum, _) = read(tmp_path / "dataset", meds_export.schema_text())
    assert dataset.columns == PHYSIONET2019.columns
    write_cohort(tmp_path / "meds.h5", dataset, stays, split, checksum)
    assert_same_cohort(physionet2019_cohort, tmp_path / "meds.h5")
