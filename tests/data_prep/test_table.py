"""A user's own table: the same stays give the same cohort as from PhysioNet's files; what is refused."""

import csv
import json
import pathlib
import random
import zipfile

import h5py
import numpy as np
import pyarrow as pa
import pyarrow.parquet
import pytest

from ncl_tf.data.cohort import Cohort, write_cohort
from ncl_tf.data.datasets import PHYSIONET2019
from ncl_tf.data.sources import arrow, physionet2019, table
from ncl_tf.data.splits import SPLITS, random_split
from psv import RANGES, STATIC
from refusals import refused


def physionet_schema(names: list[str], split: bool) -> str:
    """PhysioNet's channels as a user would write them down; the hour is a channel, too."""
    lines = ['name = "my_icu"', 'stay = "stay"', 'hour = "ICULOS"', 'split = "part"' if split else ""]
    for name in [*STATIC, "ICULOS", *(name for name in names if name not in (*STATIC, "ICULOS"))]:
        lines += ["[[channels]]", f'name = "{name}"']
        lines += ["static = true"] * (name in STATIC)
        lines += ['kind = "categorical"', "levels = [0, 1]"] * (name in STATIC[:3])
        lines += [f"low = {RANGES[name][0]}", f"high = {RANGES[name][1]}"] if name in RANGES else []
    return "\n".join([*lines, "[[tasks]]", 'name = "SepsisLabel"', ""])


def export(folder: pathlib.Path, part_of: dict[str, str], path: pathlib.Path) -> list[str]:
    """All rows of a folder of .psv files as one table, shuffled; returns the names of the measurements."""
    rows = []
    for file in folder.glob("*.psv"):
        with file.open(newline="") as lines:
            for cells in csv.DictReader(lines, delimiter="|"):
                rows.append({"part": part_of[file.stem], **cells, "stay": file.stem})
    random.Random(0).shuffle(rows)
    if path.suffix == ".csv":
        with path.open("w", newline="") as file:
            writer = csv.DictWriter(file, rows[0])
            writer.writeheader()
            writer.writerows({name: "" if cell == "NaN" else cell for name, cell in row.items()} for row in rows)
    else:
        text = ("part", "stay")
        columns = {name: [row[name] if name in text else float(row[name]) for row in rows] for name in rows[0]}
        pa.parquet.write_table(pa.table(columns), path)  # NaN stays NaN here; it is no null
    return [name for name in rows[0] if name not in ("part", "stay", "SepsisLabel")]


def assert_same_cohort(folder: pathlib.Path, suffix: str, with_split: bool, tmp_path: pathlib.Path) -> None:
    stays, checksum = physionet2019.read_stays([folder])
    split = random_split(stays.ever_positive(), seed=5)
    write_cohort(tmp_path / "files.h5", PHYSIONET2019, stays, split, checksum)
    part_of = {stays.names[index]: name for name in SPLITS for index in split[name]}
    names = export(folder, part_of, tmp_path / f"hourly{suffix}")
    (tmp_path / "schema.toml").write_text(physionet_schema(names, with_split))
    dataset, schema = table.read_schema(tmp_path / "schema.toml")
    read = table.read_stays([tmp_path / f"hourly{suffix}"], dataset, schema, seed=5)
    write_cohort(tmp_path / "table.h5", dataset, *read, "no checksum")
    with h5py.File(tmp_path / "files.h5") as one, h5py.File(tmp_path / "table.h5") as other:
        for group in ("data", "labels", "patient_windows", "stay_names"):
            for name in SPLITS:
                np.testing.assert_array_equal(one[group][name][:], other[group][name][:], err_msg=f"{group}/{name}")
        assert one["data"].attrs["columns"].tolist() == other["data"].attrs["columns"].tolist()
        assert one.attrs["static_columns"] == other.attrs["static_columns"]
        fitted, again = (json.loads(file.attrs["preprocessor"]) for file in (one, other))
        assert fitted | {"dataset": 0} == again | {"dataset": 0}


@pytest.mark.parametrize(("suffix", "with_split"), [(".csv", True), (".parquet", True), (".csv", False)])
def test_same_cohort_as_from_files(ward, tmp_path, suffix, with_split):
    """Also with hours left out and implausible values. Without a split column: the same random split."""
    (tmp_path / "stays").mkdir()
    rng = random.Random(1)
    for file in sorted(ward.glob("*.psv")):
        header, first, *lines = file.read_text().splitlines()
        lines = ["999|" + line.split("|", 1)[1] if rng.random() < 0.1 else line for line in lines]
        kept = [line for line in lines[:-1] if rng.random() < 0.8]
        (tmp_path / "stays" / file.name).write_text("\n".join([header, first, *kept, lines[-1], ""]))
    assert_same_cohort(tmp_path / "stays", suffix, with_split, tmp_path)


def test_same_cohort_from_real_stays(physionet2019_zips, tmp_path):
    (tmp_path / "stays").mkdir()
    with zipfile.ZipFile(physionet2019_zips[0]) as archive:
        for name in sorted(name for name in archive.namelist() if name.endswith(".psv"))[::250]:
            (tmp_path / "stays" / pathlib.Path(name).name).write_bytes(archive.read(name))
    assert_same_cohort(tmp_path / "stays", ".csv", True, tmp_path)


SCHEMA = """
name = "small"
stay = "id"
hour = "t"
split = "part"
[[channels]]
name = "HR"
low = 10
high = 300
[[channels]]
name = "sex"
kind = "categorical"
static = true
levels = ["female", "male"]
spellings = { f = "female", M = "male" }
[[channels]]
name = "ward"
kind = "categorical"
levels = ["icu", "ward", "home"]
[[tasks]]
name = "ill"
[[tasks]]
name = "left"
kind = "bins"
edges = [24, 48]
"""
CHANNELS_AND_TASKS, TASKS = SCHEMA[SCHEMA.index("[[channels]]") :], SCHEMA[SCHEMA.index("[[tasks]]") :]
LEVELS = 'levels = ["female", "male"]\nspellings = { f = "female", M = "male" }'
TABLE = """id,t,part,HR,sex,ward,ill,left,unused
10,0,train,80,F,icu,0,30.5,x
10,1,train,,female,,,,x
9,5,val,90,m,HOME,1,,x
9,7,val,91,Male,ward,0,50,x
100,3,test,NaN,,home,1,2,x
"""


def read(tmp_path: pathlib.Path, text: str = TABLE, schema: str = SCHEMA, seed: int = 0):
    (tmp_path / "schema.toml").write_text(schema)
    (tmp_path / "hourly.csv").write_text(text)
    dataset, parsed = table.read_schema(tmp_path / "schema.toml")
    return dataset, *table.read_stays([tmp_path / "hourly.csv"], dataset, parsed, seed)


def test_a_small_table_by_hand(tmp_path):
    """Stays sorted as numbers, static channels first, texts in any case, the gap at hour 6 filled with nothing."""
    dataset, stays, split = read(tmp_path)
    nan = np.nan
    assert dataset.columns == ["sex", "HR", "ward=0", "ward=1", "ward=2"]
    assert [task.classes for task in dataset.tasks] == [2, 3]
    assert stays.names.tolist() == ["9", "10", "100"]
    assert stays.lengths.tolist() == [3, 2, 1]
    expected = [[1, 90, 2], [nan, nan, nan], [1, 91, 1], [0, 80, 0], [0, nan, nan], [nan, nan, 2]]
    np.testing.assert_array_equal(stays.values, np.float32(expected))
    labels = [[1, nan], [nan, nan], [0, 50], [0, 30.5], [nan, nan], [1, 2]]
    np.testing.assert_array_equal(stays.labels, np.float32(labels))
    assert {name: indices.tolist() for name, indices in split.items()} == {"train": [1], "val": [0], "test": [2]}
    write_cohort(tmp_path / "small.h5", dataset, stays, split, "")
    cohort = Cohort(tmp_path / "small.h5")
    assert [cohort[name].patient_windows[0, 2] for name in SPLITS] == [10, 9, 100]
    assert cohort.preprocessor.dataset == dataset


@pytest.mark.parametrize(
    ("old", "new", "named"),
    [
        *(("train,,f", f"train,{text},f", f"line 3, column HR & {text!r} & a number") for text in ("fast", "inf")),
        ("90,m,HOME", "90,m,Garden", "line 4, column ward & 'Garden' & one of 'icu', 'ward', 'home'"),
        ("90,m,HOME", "90,1,HOME", "line 4, column sex & '1' & one of 'female', 'male', 'f', 'M'"),
        ("NaN,,home,1,2", "NaN,,home,2,2", "line 6, column ill & got 2 & 0, 1 or empty"),
        ("NaN,,home,1,2", "NaN,,home,1,soon", "line 6, column left & 'soon' & a number"),
        ("9,7,val", "9,5,val", "hourly.csv, line 5 & stay 9, hour 5 & hourly.csv, line 4"),
        ("9,7,val", "9,7.5,val", "line 5, column t & 7.5 & a whole hour"),
        ("9,7,val", "9,,val", "line 5, column t & nan & a whole hour"),
        ("9,7,val", "9,noon,val", "line 5, column t & 'noon' & a number"),
        ("9,7,val", ",7,val", "line 5, column id & empty"),
        ("9,7,val", "9,7,valid", "line 5, column part & 'valid' & one of train, val, test"),
        ("9,7,val", "9,7,train", "line 5, column part & 'train' & stay 9 & 'val' & hourly.csv, line 4"),
        ("91,Male", "91,f", "line 5, column sex & 'f' & stay 9 & 'm' & hourly.csv, line 4 & static"),
        ("test", "val", "column part & 'test'"),
        ("9,7,val", "\n9,7,val", "line 5, column id & empty"),
        ("9,7,val", "9,7,val,8", "Row #5: Expected 9 columns, got 10"),
        ("9,7,val", "9,7000000,val", "stay 9 & 100000 hours & 5 to 7000000"),
        ("9,7,val", "9,1e30,val", "stay 9 & 100000 hours & 5 to 1000000000000000019884624838656"),
        (",HR,", ",Pulse,", "hourly.csv & one column 'HR' & got 0 & id, t, part, Pulse"),
        *((f"{name},", "other,", f"hourly.csv & one column {name!r} & got 0") for name in ("id", "part", "left")),
        (",unused", ",HR", "hourly.csv & one column 'HR' & got 2"),
        (",", ";", "hourly.csv & one column 'id' & id;t;part & commas separate columns"),
        (TABLE.split("\n", 1)[1], "", "hourly.csv: no rows"),
        (TABLE, "", "hourly.csv & Empty CSV file"),
    ],
)
def test_bad_tables(tmp_path, old, new, named):
    assert old in TABLE
    with refused(named):
        read(tmp_path, TABLE.replace(old, new))


@pytest.mark.parametrize(
    ("old", "new", "named"),
    [
        ('stay = "id"', "", "top level: key 'stay' is missing"),
        ('stay = "id"', "stay = 3", "top level & stay & a text & got 3"),
        ("[[tasks]]", "[[labels]]", "top level & 'labels' & name, stay"),
        (CHANNELS_AND_TASKS, "channels = []\n" + TASKS, "at least one channel and one task"),
        (CHANNELS_AND_TASKS, 'channels = ["HR"]\n' + TASKS, "channels & ['HR'] & a list of tables"),
        (CHANNELS_AND_TASKS, 'channels = "HR"\n' + TASKS, "channels & 'HR' & a list of tables"),
        ("low = 10", "lowest = 10", "channel 1 & 'lowest' & name, kind, static, low"),
        ("low = 10", 'low = "ten"', "channel 1: low & 'ten' & a number"),
        ("low = 10", "low = 400", "channel 'HR' & low & high & 400 and 300"),
        ("static = true", 'static = "yes"', "channel 2: static & 'yes' & true or false"),
        ('"categorical"', '"category"', "channel 'sex': kind & 'category' & one of continuous, categorical"),
        ('["female", "male"]', '"female"', "channel 2: levels & 'female' & a list of texts or numbers"),
        ('["female", "male"]', '["female", "female"]', "channel 2: levels & ['female', 'female']"),
        ('["female", "male"]', '["a", "b", "A"]', "channel 'sex': spelling 'a' & one level"),
        ('["female", "male"]', '["NA", "male"]', "channel 2: levels & 'NA' & a missing value"),
        (LEVELS, "levels = [0, 1]\nspellings = { NA = 0 }", "channel 2: levels & 'NA' & a missing value"),
        ('M = "male"', 'nan = "male"', "channel 2: levels & 'nan' & a missing value"),
        ('M = "male"', 'M = "man"', "spelling 'M' & man & ['female', 'male']"),
        ('kind = "categorical"\nstatic', "static", "kind 'continuous' & levels ['female', 'male']"),
        ('{ f = "female", M = "male" }', "3", "channel 2: spellings & got 3 & a table"),
        ("edges = [24, 48]", "edges = [48, 24]", "task 'left' & one or more rising edges & [48, 24]"),
        ("edges = [24, 48]", 'edges = ["24"]', "task 2: edges & ['24'] & a list of numbers"),
        ('name = "left"', 'name = "left/alive"', "'left/alive' & '/'"),
        ('name = "left"', 'name = "HR"', "channels and tasks & 'HR'"),
        ('name = "small"', "name = small", "TOML & line 2"),
    ],
)
def test_bad_schemas(tmp_path, old, new, named):
    assert old in SCHEMA
    with refused("schema.toml", named):
        read(tmp_path, schema=SCHEMA.replace(old, new))


def test_files_that_are_none(tmp_path):
    with refused("none.toml & No such file"):
        table.read_schema(tmp_path / "none.toml")
    for name, named in (("none.csv", ""), ("hourly.parquet", ""), ("hourly.xlsx", ".csv or .parquet")):
        if name != "none.csv":
            (tmp_path / name).write_text("neither a table nor a spreadsheet")
        with refused(name, named):
            arrow.read_table(tmp_path / name)


def test_columns_that_hold_no_cells(tmp_path):
    (tmp_path / "schema.toml").write_text(SCHEMA)
    (tmp_path / "hourly.csv").write_text(TABLE)
    good = arrow.read_table(tmp_path / "hourly.csv")
    for column, values, named in [
        ("HR", [[80]] * len(good), "row 0, column HR & list< & numbers or texts"),
        ("id", [10.0, 10.0, float("nan"), *[9.0] * (len(good) - 3)], "row 2, column id & empty"),
    ]:
        bad = good.set_column(good.column_names.index(column), column, pa.array(values))
        pa.parquet.write_table(bad, tmp_path / "hourly.parquet")
        with refused(named):
            table.read_stays([tmp_path / "hourly.parquet"], *table.read_schema(tmp_path / "schema.toml"), seed=0)


def test_numbers_as_levels(tmp_path):
    """Numbers of a float column are levels, too: 1.0 is level 1."""
    schema = SCHEMA.replace('["icu", "ward", "home"]', "[1, 2, 3]")
    text = TABLE.replace("icu", "1.0").replace("HOME", "3").replace(",ward,0,50", ",2,0,50").replace("home", "3.0")
    dataset, stays, _ = read(tmp_path, text, schema)
    assert dataset.columns[2:] == ["ward=1", "ward=2", "ward=3"]
    np.testing.assert_array_equal(stays.values[:, 2], np.float32([3, np.nan, 2, 1, np.nan, 3]))


def test_random_split_is_stratified_by_the_first_binary_task(tmp_path):
    """Here a task with bins comes first, in which every stay has an hour with label 1."""
    tasks = '[[tasks]]\nname = "left"\nkind = "bins"\nedges = [24, 48]\n[[tasks]]\nname = "ill"\n'
    schema = SCHEMA.replace('split = "part"', "").replace(TASKS, tasks)
    rows = [f"{stay},{hour},,80,f,icu,{int(stay % 10 == 0)},{2 - hour},x" for stay in range(100) for hour in range(2)]
    text = "\n".join([TABLE.split("\n")[0], *rows, ""])
    _, stays, split = read(tmp_path, text, schema, seed=3)
    assert [len(split[name]) for name in SPLITS] == [64, 16, 20]
    assert [sum(int(stay) % 10 == 0 for stay in stays.names[split[name]]) for name in SPLITS] == [6, 2, 2]
    _, _, again = read(tmp_path, text, schema, seed=3)
    assert all(split[name].tolist() == again[name].tolist() for name in SPLITS)
    only_bins = schema.replace('[[tasks]]\nname = "ill"\n', "")
    assert [len(part) for part in read(tmp_path, text, only_bins)[2].values()] == [64, 16, 20]


def test_another_table_tests(run, tmp_path):
    """Stays and patients have the same numbers in both, and are others; scaled by the training stays alone."""
    schema = 'name = "icu"\nstay = "stay"\nhour = "hour"\nsubject = "who"\n'
    (tmp_path / "schema.toml").write_text(schema + '[[channels]]\nname = "HR"\n[[tasks]]\nname = "ill"\n')
    for name, level in (("here", 60), ("there", 90)):
        rows = [f"{stay},{hour},{stay // 2},{level + stay},{stay % 4 // 2}" for stay in range(60) for hour in range(2)]
        (tmp_path / f"{name}.csv").write_text("\n".join(["stay,hour,who,HR,ill", *rows, ""]))
    here, there = (f"source={tmp_path / name}.csv" for name in ("here", "there"))
    flags = ["bin/prepare", "table", f"--schema={tmp_path / 'schema.toml'}", f"--output={tmp_path / 'icu.h5'}"]
    result = run(*flags, "--" + here, "--test_" + there)
    assert result.returncode == 0, result.stderr
    cohort = Cohort(tmp_path / "icu.h5")
    assert cohort["test"].stay_names.tolist() == [f"test_{stay}" for stay in range(60)]
    rates = {part: [60 + int(name.split("_")[1]) for name in cohort[part].stay_names] for part in ("train", "val")}
    assert sorted(rates["train"] + rates["val"]) == list(range(60, 120)) and len(rates["val"]) == 12
    assert not set(cohort["train"].subjects) & set(cohort["val"].subjects)
    tested = np.array([90 + int(name.split("_")[1]) for name in cohort["test"].stay_names])
    expected = (tested - np.mean(rates["train"])) / np.std(rates["train"])
    np.testing.assert_allclose(cohort["test"].data[::2, 0], expected, rtol=1e-5)
    same = run(*flags, "--" + here, "--test_" + here, "--overwrite")
    assert same.returncode == 1 and "must be named once as a source, got it twice" in same.stderr
    (tmp_path / "schema.toml").write_text('split = "part"\n' + (tmp_path / "schema.toml").read_text())
    both = run(*flags, "--" + here, "--test_" + there, "--overwrite")
    assert both.returncode == 1 and "must have no split, got split = 'part'" in both.stderr
