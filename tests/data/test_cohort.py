"""The cohort file: its layout, exchange with the authors' files, what is refused."""

import json
import pathlib
import shutil

import h5py
import numpy as np
import pytest

from ncl_tf.data.cohort import FORMAT_VERSION, Cohort, write_cohort
from ncl_tf.data.datasets import PHYSIONET2019
from ncl_tf.data.declaration import Channel, Dataset, Task
from ncl_tf.data.describe import describe
from ncl_tf.data.sources import physionet2019
from ncl_tf.data.splits import SPLITS
from ncl_tf.data.stays import Stays
from psv import DYNAMIC, STATIC
from refusals import refused

COLUMNS = [*STATIC, "ICULOS", *DYNAMIC]
AUTHORS_COLUMNS = [f"{name}_cat" for name in STATIC[:3]] + COLUMNS[3:]  # how the authors' preparation calls them
SMALL = Dataset("small", (Channel("a"),), (Task("ill"),))


def write_three(path: pathlib.Path, names: list, dataset: Dataset = SMALL, test: int = 2) -> Cohort:
    """Write three stays of two hours, one in each split, and open them."""
    values = np.random.default_rng(0).normal(size=(6, len(dataset.channels))).astype(np.float32)
    stays = Stays(np.array(names), np.array([2, 2, 2]), values, (values[:, :1] > 0).astype(np.float32))
    write_cohort(path, dataset, stays, {"train": np.array([0]), "val": np.array([1]), "test": np.array([test])}, "")
    return Cohort(path)


def write_authors_file(path: pathlib.Path, columns: list[str], tasks: list[str], **options) -> dict[str, np.ndarray]:
    """A file in the layout alone, without any attribute of the file itself; returns the training split's arrays."""
    rng = np.random.default_rng(0)
    train = None
    with h5py.File(path, "w") as file:
        for split in SPLITS:
            lengths = rng.integers(1, 60, 6)
            last = np.cumsum(lengths) - 1
            data = rng.normal(size=(lengths.sum(), len(columns)))
            labels = options.get("labels", rng.integers)(0, 2, (lengths.sum(), len(tasks))).astype(float)
            labels[rng.random(labels.shape) < 0.2] = np.nan
            ids = options.get("ids", np.arange(6) + 1000000) + 10000000 * SPLITS.index(split)
            windows = np.stack([last - lengths + 1, last, ids], axis=1)
            file.create_dataset(f"data/{split}", data=data, dtype=np.float32)
            file.create_dataset(f"labels/{split}", data=labels, dtype=np.float32)
            file.create_dataset(f"patient_windows/{split}", data=windows, dtype=options.get("dtype", np.int32))
            train = train or {"data": data, "labels": labels, "windows": windows}
        file["data"].attrs["columns"] = columns
        file["labels"].attrs["tasks"] = tasks
    return train


@pytest.mark.parametrize(
    ("fixture", "columns", "static", "tasks"),
    [("ward_cohort", COLUMNS, 5, ["sepsis"]), ("mimic_ward_cohort", None, 1, ["decompensation", "length_of_stay"])],
)
def test_layout_of_our_files(fixture, columns, static, tasks, request):
    """The three groups that the authors' loader reads, with its attributes and types; the rest are additions."""
    with h5py.File(request.getfixturevalue(fixture)) as file:
        assert set(file) == {"data", "labels", "patient_windows", "stay_names"}
        assert dict(file["patient_windows"].attrs) == {}
        found = file["data"].attrs["columns"].tolist()
        assert all(type(name) is str for name in found)  # the authors compare them with Python texts
        assert found == columns or (columns is None and len(found) == 42 and found[0] == "Height")
        assert file["labels"].attrs["tasks"].tolist() == tasks
        assert file.attrs["static_columns"] == static
        assert file.attrs["format_version"] == FORMAT_VERSION
        assert len(file.attrs["source_checksum"]) == 64
        assert set(json.loads(file.attrs["preprocessor"])) == {"dataset", "mean", "scale"}
        for split in SPLITS:
            data, labels = file[f"data/{split}"], file[f"labels/{split}"]
            windows = file[f"patient_windows/{split}"]
            assert (data.dtype, labels.dtype, windows.dtype) == (np.float32, np.float32, np.int32)
            assert data.shape == (len(labels), len(found))
            assert labels.shape[1] == len(tasks)
            assert not np.isnan(data[:]).any()
            assert len(windows) == len(file[f"stay_names/{split}"]) > 0
            rows = [row for first, last, _ in windows for row in range(first, last + 1)]
            assert rows == list(range(len(data)))


def test_what_is_written_is_what_is_read(ward, ward_cohort):
    cohort = Cohort(ward_cohort)
    assert (cohort.name, cohort.columns, cohort.static_columns) == ("physionet2019", COLUMNS, 5)
    assert cohort.tasks == PHYSIONET2019.tasks
    assert cohort.task("sepsis") == (0, Task("sepsis"))
    stays, _ = physionet2019.read_stays([ward])
    prepared = cohort.preprocessor(stays)
    for split in SPLITS:
        part = cohort[split]
        for name, (first, last, stay_id) in zip(part.stay_names, part.patient_windows, strict=True):
            index = stays.names.tolist().index(name)
            rows = stays.rows(np.array([index]))
            assert stay_id == index  # p000001 is no 32-bit integer: stays are numbered in the order of their names
            np.testing.assert_array_equal(part.data[first : last + 1], prepared[rows])
            np.testing.assert_array_equal(part.labels[first : last + 1], stays.labels[rows])
            np.testing.assert_array_equal(part.stay[first : last + 1], index)
            np.testing.assert_array_equal(part.hour[first : last + 1], np.arange(last - first + 1))
            np.testing.assert_array_equal(part.first_row[first : last + 1], first)
        np.testing.assert_array_equal(part.classes, np.nan_to_num(part.labels, nan=-1))
    assert cohort["train"] is cohort["train"]


@pytest.mark.parametrize(
    ("names", "ids"),
    [
        (["17", "5", "2147483647"], [17, 5, 2147483647]),
        (["17", "5", "2147483648"], [0, 1, 2]),
        (["17", "5", "-3"], [0, 1, 2]),
        (["7", "07", "8"], [0, 1, 2]),
        (["p1", "5", "6"], [0, 1, 2]),
        (["Müller", "Şahin", "王"], [0, 1, 2]),
        (["9" * 30, "5", "6"], [0, 1, 2]),
    ],
)
def test_stay_ids(names, ids, tmp_path):
    """32-bit integers are kept, others numbered; the originals are kept in any case."""
    cohort = write_three(tmp_path / "small.h5", names)
    assert [int(cohort[name].patient_windows[0, 2]) for name in SPLITS] == ids
    assert [str(cohort[name].stay_names[0]) for name in SPLITS] == names


def test_many_channels(tmp_path):
    """HDF5 limits the size of attributes; several hundred channels must still fit."""
    channels = tuple(Channel(f"a measurement with quite a long name, number {i}", unit="mmol/L") for i in range(800))
    cohort = write_three(tmp_path / "wide.h5", ["a", "b", "c"], Dataset("wide", channels, SMALL.tasks))
    assert cohort.columns == [channel.name for channel in channels]
    assert cohort.preprocessor.dataset.channels == channels


def test_observations_are_kept_and_others_refused(ward_cohort, observed_cohort):
    plain, cohort = Cohort(ward_cohort), Cohort(observed_cohort)
    assert (plain.observations, cohort.observations) == ((), ("recency", "count"))
    assert cohort.static_columns == 5
    assert cohort.columns[:40] == plain.columns
    for names in (["recency", "count"], ["count", "recency"]):
        cohort.require_observations(names)
    differs = "Columns that differ: HR:recency, O2Sat:recency, Temp:recency"
    with refused("got recency, count", differs, "prepare it again. "):
        cohort.require_observations([])
    with refused("recency, change, got none", "--observations=recency,change", "HR:recency", "and 62 more"):
        plain.require_observations(["recency", "change"])


@pytest.mark.parametrize("dtype", [np.int32, np.int64])
def test_opens_the_authors_physionet_file(tmp_path, dtype):
    path = tmp_path / "authors.h5"
    train = write_authors_file(path, AUTHORS_COLUMNS, ["sepsis"], dtype=dtype)
    cohort = Cohort(path)
    assert (cohort.name, cohort.static_columns, cohort.columns) == ("physionet2019", 5, AUTHORS_COLUMNS)
    assert cohort.tasks == (Task("sepsis"),)
    assert cohort.preprocessor is None
    np.testing.assert_array_equal(cohort["train"].data, train["data"].astype(np.float32))
    np.testing.assert_array_equal(cohort["train"].labels, train["labels"].astype(np.float32))
    np.testing.assert_array_equal(cohort["train"].patient_windows, train["windows"])
    assert cohort["train"].patient_windows.dtype == np.int32
    assert cohort["train"].stay_names.tolist() == [str(1000000 + i) for i in range(6)]
    text = describe(path)
    assert "the first 5 static" in text
    assert "HospAdmTime" in text
    cohort.require_observations([])
    with refused(path, "must have the observations recency, got none", "holds no raw values", "CHANNEL:recency"):
        cohort.require_observations(["recency"])


@pytest.mark.parametrize(("heights", "static"), [(["Height"], 1), ([f"Height_cat_{i}" for i in range(13)], 13)])
def test_opens_the_authors_mimic_file(tmp_path, heights, static):
    """Tasks in their order and with their names; hours of stay become bins. Ids of theirs that collide are numbered."""
    columns = [*heights, "Hours", "Heart Rate", "Glascow coma scale total_cat_0", "Glascow coma scale total_cat_1"]
    rng = np.random.default_rng(1)

    def labels(low, high, shape):
        return np.stack([rng.uniform(0, 400, shape[0]), rng.integers(0, 2, shape[0])], axis=1)

    ids = np.array([1041976, 1041976, 2000001, 2000002, 2000003, 2000004])  # episodes 1 and 11 of one patient
    write_authors_file(tmp_path / "authors.h5", columns, ["los", "decomp"], labels=labels, ids=ids)
    cohort = Cohort(tmp_path / "authors.h5")
    assert (cohort.name, cohort.static_columns) == ("mimic3_benchmark", static)
    tasks = [(task.name, task.kind, task.classes) for task in cohort.tasks]
    assert tasks == [("los", "bins", 10), ("decomp", "binary", 2)]
    assert len({stay for split in SPLITS for stay in cohort[split].patient_windows[:, 2]}) == 3 * 6
    assert cohort["train"].stay_names.tolist() == ids.astype(str).tolist()


def test_authors_labels_of_one_task_may_be_flat(tmp_path):
    train = write_authors_file(tmp_path / "authors.h5", AUTHORS_COLUMNS, ["sepsis"])
    with h5py.File(tmp_path / "authors.h5", "r+") as file:
        for split in SPLITS:
            flat = file[f"labels/{split}"][:, 0]
            del file[f"labels/{split}"]
            file[f"labels/{split}"] = flat
    np.testing.assert_array_equal(Cohort(tmp_path / "authors.h5")["train"].labels, train["labels"].astype(np.float32))


def test_a_strange_file_is_not_guessed(tmp_path):
    write_authors_file(tmp_path / "strange.h5", ["pulse", "Age"], ["sepsis"])
    with refused("first column is 'pulse'"):
        Cohort(tmp_path / "strange.h5")


@pytest.fixture
def copy(ward_cohort, tmp_path) -> pathlib.Path:
    """A copy of a cohort, to be damaged."""
    return pathlib.Path(shutil.copy(ward_cohort, tmp_path / "copy.h5"))


@pytest.mark.parametrize(
    "place", ["data", "labels", "patient_windows", "stay_names", "data/val", "patient_windows/test"]
)
def test_missing_datasets(copy, place):
    with h5py.File(copy, "r+") as file:
        del file[place]
    with refused("copy.h5", f"no dataset '{place}"):
        Cohort(copy)


@pytest.mark.parametrize(("place", "attribute"), [("data", "columns"), ("labels", "tasks"), ("/", "preprocessor")])
def test_missing_attributes(copy, place, attribute):
    with h5py.File(copy, "r+") as file:
        del file[place].attrs[attribute]
    with refused("copy.h5", f"no attribute '{attribute}'"):
        Cohort(copy)


def test_newer_format_version(copy):
    with h5py.File(copy, "r+") as file:
        file.attrs["format_version"] = FORMAT_VERSION + 1
    with refused("copy.h5", f"at most {FORMAT_VERSION}, got {FORMAT_VERSION + 1}"):
        Cohort(copy)


@pytest.mark.parametrize("group", ["patient_windows", "labels"])
def test_rows_that_do_not_fit(copy, group):
    with h5py.File(copy, "r+") as file:
        shorter, rows = file[f"{group}/val"][:-1], len(file["data/val"])
        del file[f"{group}/val"]
        file[f"{group}/val"] = shorter
    Cohort(copy)["train"]
    with refused("copy.h5", f"the {rows} rows of data/val"):
        Cohort(copy)["val"]


def test_files_that_are_no_cohort(copy, tmp_path):
    (tmp_path / "text.h5").write_text("no HDF5")
    copy.write_bytes(copy.read_bytes()[:20000])
    for name, named in (("none.h5", "no such file & bin/prepare"), ("", ""), ("text.h5", ""), ("copy.h5", "damaged")):
        with refused(tmp_path / name, named or "not an HDF5 file"):
            Cohort(tmp_path / name)


def test_unknown_split_and_task(ward_cohort):
    cohort = Cohort(ward_cohort)
    with refused("one of train, val, test", "'valid'"):
        cohort["valid"]
    with refused("one of sepsis", "'mortality'"):
        cohort.task("mortality")


def test_a_failed_write_leaves_nothing(tmp_path):
    """Here the third split cannot be written, when half of the file is."""
    with pytest.raises(IndexError):
        write_three(tmp_path / "small.h5", ["a", "b", "c"], test=99)
    assert list(tmp_path.iterdir()) == []
