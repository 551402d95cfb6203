"""What the types of a table's columns mean: the same stays in many types are the same cohort; what means nothing is refused."""

import datetime
import decimal
import pathlib

import numpy as np
import pyarrow as pa
import pyarrow.parquet
import pytest

from ncl_tf.data.sources import arrow, table
from refusals import refused

SCHEMA = """
name = "small"
stay = "id"
hour = "t"
split = "part"
[[channels]]
name = "t"
[[channels]]
name = "HR"
[[channels]]
name = "sedated"
[[tasks]]
name = "ill"
[[tasks]]
name = "left"
kind = "bins"
edges = [24, 48]
"""
# Three stays; the second begins at its hour 25 and has no hour 26, the channel sedated has a missing value.
ROWS = {
    "id": pa.array([4, 4, 9, 9, 12]),
    "t": pa.array([0, 1, 25, 27, 3]),
    "part": pa.array(["train", "train", "val", "val", "test"]),
    "HR": pa.array([80.5, 81.0, 90.0, 91.25, 70.0]),
    "sedated": pa.array([1, 0, None, 1, 0]),
    "ill": pa.array([0, 1, 0, 0, 1]),
    "left": pa.array([30, 29, 50, 48, 1]),
}
NAN = np.nan
VALUES = [[0, 80.5, 1], [1, 81, 0], [25, 90, NAN], [26, NAN, NAN], [27, 91.25, 1], [3, 70, 0]]
LABELS = [[0, 30], [1, 29], [0, 50], [NAN, NAN], [0, 48], [1, 1]]
MIDNIGHT = datetime.datetime(2149, 5, 7, 23, 40)  # the years of MIMIC-III


def read(paths: list[pathlib.Path], keys: str = "", schema: str = SCHEMA):
    schema_path = paths[0].parent / "schema.toml"
    schema_path.write_text(keys + schema)
    return table.read_stays(paths, *table.read_schema(schema_path), seed=0)


def read_columns(tmp_path: pathlib.Path, keys: str = "", **changed):
    path = tmp_path / "hourly.parquet"
    pa.parquet.write_table(pa.table(ROWS | changed), path)
    return read([path], keys)


def assert_is_the_cohort(stays, values=VALUES) -> None:
    assert stays.names.tolist() == ["4", "9", "12"]
    np.testing.assert_array_equal(stays.values, np.float32(values))
    np.testing.assert_array_equal(stays.labels, np.float32(LABELS))


def hours(unit: str, *numbers: int) -> pa.Array:
    """Whole hours as a column of durations."""
    return pa.array([datetime.timedelta(hours=number) for number in numbers], pa.duration(unit))


@pytest.mark.parametrize(
    "changed",
    [
        {},
        *({"t": hours(unit, 0, 1, 25, 27, 3), "left": hours(unit, 30, 29, 50, 48, 1)} for unit in ("s", "ms", "us", "ns")),
        {"sedated": pa.array([True, False, None, True, False]), "ill": pa.array([False, True, False, False, True])},
        {"HR": pa.array([decimal.Decimal(text) for text in ("80.50", "81.00", "90.00", "91.25", "70.00")])},
        {"HR": pa.array([80.5, 81.0, 90.0, 91.25, 70.0], pa.float16()), "t": pa.array([0, 1, 25, 27, 3], pa.uint8())},
        {"HR": pa.array(["80.5", "81", "9e1", "91.25", "70"], pa.large_string())},
        {"part": ROWS["part"].dictionary_encode(), "HR": ROWS["HR"].dictionary_encode()},
        {"id": pa.array(["4", "4", "9", "9", "12"]).dictionary_encode(), "sedated": pa.array([1.0, 0, NAN, 1, 0])},
        {"id": pa.array([4.0, 4, 9, 9, 12])},
    ],
    ids=["plain", "s", "ms", "us", "ns", "booleans", "decimals", "small", "texts", "dictionaries", "categories", "ids"],
)  # fmt: skip
def test_types_mean_the_same(tmp_path, changed):
    """25 hours are 25, not the 90,000 seconds that a duration holds."""
    stays, _ = read_columns(tmp_path, **changed)
    assert_is_the_cohort(stays)


def at(*hours: float) -> list[datetime.datetime]:
    return [MIDNIGHT + datetime.timedelta(hours=hour) for hour in hours]


@pytest.mark.parametrize("unit", ["s", "us", "ns"])
@pytest.mark.parametrize("zone", [None, "UTC", "Europe/Zurich"])
def test_times_count_from_the_stays_first_row_or_from_intime(tmp_path, unit, zone):
    kind = pa.timestamp(unit, zone)
    times = pa.array(at(0, 1, 25, 27, 3), kind)
    first = [[0, 80.5, 1], [1, 81, 0], [0, 90, NAN], [1, NAN, NAN], [2, 91.25, 1], [0, 70, 0]]
    assert_is_the_cohort(read_columns(tmp_path, t=times)[0], first)
    assert_is_the_cohort(read_columns(tmp_path, 'intime = "begin"\n', t=times, begin=pa.array([MIDNIGHT] * 5, kind))[0])


@pytest.mark.parametrize("end", ["", "Z", "+02:00"])
def test_times_as_texts(tmp_path, end):
    """In a CSV, with or without a zone, which all times share; without intime the first row is hour 0."""
    lines = ["id,t,part,HR,sedated,ill,left,begin"]
    for row in range(5):
        cells = {name: column[row].as_py() for name, column in ROWS.items()}
        cells["t"] = at(cells["t"])[0].isoformat(sep=" ") + end
        cells["begin"] = MIDNIGHT.strftime("%Y-%m-%dT%H:%M") + end
        lines.append(",".join("" if cells[name] is None else str(cells[name]) for name in lines[0].split(",")))
    path = tmp_path / "hourly.csv"
    path.write_text("\n".join([*lines, ""]))
    assert_is_the_cohort(read([path], 'intime = "begin"\n')[0])
    assert read([path])[0].values[:, 0].tolist() == [0, 1, 0, 1, 2, 0]
    for old, new, named in [
        (end + ",val,90.0", "-07:00,val,90.0", f"line 4, column t & one time zone & '-07:00' after {end or 'none'!r}"),
        (lines[3].split(",")[1], "in the morning", "column t & hold times & 'in the morning'"),
        (lines[3].split(",")[1], "", "line 4, column t & a time & empty"),
    ]:
        path.write_text("\n".join([*lines, ""]).replace(old, new, 1))
        with refused(named):
            read([path])


BIG = [2**53 + 1, 2**53 + 1, 9, 9, 12]


@pytest.mark.parametrize(
    ("changed", "keys", "named"),
    [
        ({"HR": pa.array(["80", "1,080", "90", "91", "70"])}, "", "row 1, column HR & a number & '1,080'"),
        ({"HR": pa.array(at(0, 1, 2, 3, 4))}, "", "column HR & numbers or texts & timestamp[us]"),
        ({"HR": pa.array([MIDNIGHT.date()] * 5)}, "", "column HR & numbers or texts & date32"),
        ({"HR": pa.array([MIDNIGHT.time()] * 5)}, "", "column HR & numbers or texts & time64"),
        ({"HR": pa.array([b"80"] * 5)}, "", "column HR & numbers or texts & binary"),
        ({"HR": pa.array([{"value": 80}] * 5)}, "", "column HR & numbers or texts & struct"),
        ({"HR": pa.array([80, 81, float("inf"), 91, 70])}, "", "row 2, column HR & a number & 'inf'"),
        ({"ill": hours("s", 0, 1, 2, 0, 0)}, "", "row 2, column ill & 0, 1 or empty & 2"),
        ({"id": pa.array(BIG)}, "", "row 0, column id & below 2^53 & 9007199254740993 & texts"),
        ({"id": pa.array([*BIG[:3], 9, 12], pa.uint64())}, "", "row 0, column id & below 2^53 & 9007199254740993"),
        ({"id": pa.array([1e300, 1e300, 9, 9, 12])}, "", "row 0, column id & below 2^53 & 1e+300"),
        ({"id": pa.array([4, 4.5, 9, 9, 12])}, "", "row 1, column id & a whole number or a text & 4.5"),
        ({"id": pa.array([True] * 5)}, "", "column id & whole numbers or texts & bool"),
        ({"t": pa.array([0, 1, 25, 27.5, 3])}, "", "row 3, column t & a whole hour & 27.5"),
        ({"t": pa.array([datetime.timedelta(minutes=90)] * 5)}, "", "row 0, column t & a whole hour & 1.5"),
        ({"t": pa.array(at(0, 1, 25, 26.25, 3))}, "", "row 3, column t & a whole hour & 1.25"),
        ({"t": pa.array([*at(0, 1, 25, 27), None])}, "", "row 4, column t & a time & empty"),
        ({"begin": ROWS["t"]}, 'intime = "begin"\n', "column t & hold times & intime = 'begin' & got 0"),
        ({"t": pa.array(at(0, 1, 25, 27, 3)), "begin": ROWS["t"]}, 'intime = "begin"\n', "column begin & hold times & 0"),
        ({"t": pa.array(at(0, 1, 25, 27, 3)), "begin": pa.array(at(0, 0, 0, 1, 0))}, 'intime = "begin"\n',
         "row 3, column begin & stay 9 & row 2"),
        ({"t": pa.array(at(0, 1, 25, 27, 3)), "begin": pa.array([MIDNIGHT] * 5, pa.timestamp("us", "UTC"))},
         'intime = "begin"\n', "column begin & time zone of column t & 'none' & 'UTC'"),
    ],
)  # fmt: skip
def test_what_cannot_be_meant(tmp_path, changed, keys, named):
    with refused("hourly.parquet", named):
        read_columns(tmp_path, keys, **changed)


def test_patients_stay_together(tmp_path):
    """In a random split; a given one that shares a patient is refused when the cohort is written."""
    rng = np.random.default_rng(0)
    stays = np.repeat(np.arange(200), 2)
    columns = {"id": stays, "t": np.tile([0, 1], 200), "patient": rng.integers(0, 60, 200)[stays] + 1000}
    columns |= {name: rng.integers(0, 2, 400) for name in ("HR", "sedated", "ill", "left")}
    path = tmp_path / "hourly.parquet"
    pa.parquet.write_table(pa.table(columns), path)
    schema = SCHEMA.replace('split = "part"\n', "")
    read_back, split = read([path], 'subject = "patient"\n', schema)
    assert read_back.subjects.tolist() == [str(patient) for patient in columns["patient"][::2]]
    parts = [set(read_back.subjects[indices]) for indices in split.values()]
    assert sum(map(len, parts)) == len(set.union(*parts)) == len(set(columns["patient"]))
    columns["patient"][1] += 1
    pa.parquet.write_table(pa.table(columns), path)
    with refused("row 1, column patient & stay 0 & row 0"):
        read([path], 'subject = "patient"\n', schema)


def test_several_files_are_one_table(tmp_path):
    """A column that one file has as whole numbers, the other as fractions or not at all; errors name file and row."""
    whole = pa.table(ROWS)
    folder = tmp_path / "hourly" / "part=1"  # the names of folders mean nothing
    folder.mkdir(parents=True)
    second = whole.slice(2).set_column(3, "HR", pa.array([90.0, 91.25, 70.0]))
    second = second.set_column(4, "sedated", pa.array([None, 1.0, 0.0]))
    pa.parquet.write_table(whole.slice(0, 2), folder / "1.parquet")
    pa.parquet.write_table(second, tmp_path / "hourly" / "2.parquet")
    paths = arrow.find_files([tmp_path / "hourly"])
    assert [path.name for path in paths] == ["2.parquet", "1.parquet"]  # sorted with their folders
    assert_is_the_cohort(read(paths)[0])
    assert arrow.checksum_of_files(paths) not in (
        arrow.checksum_of_files(paths[:1]),
        arrow.checksum_of_files(paths[::-1]),
    )
    for column, values, named in [
        ("t", [25, 27.5, 3], "2.parquet, row 1, column t & 27.5"),
        ("HR", ["90", "91", "70"], "1.parquet, column HR & one type in all files & double & string & 2.parquet"),
    ]:
        pa.parquet.write_table(second.set_column(second.column_names.index(column), column, pa.array(values)), paths[0])
        with refused(named):
            read(paths)
    zones = [pa.array(at(0, 1), pa.timestamp("us", zone)) for zone in ("UTC", "Asia/Tokyo")]
    for path, times in zip(paths, zones, strict=True):
        pa.parquet.write_table(whole.slice(0, 2).set_column(1, "t", times), path)
    with refused(paths[1], "column t & one time zone in all files & tz=Asia/Tokyo & tz=UTC"):
        read(paths)
    (tmp_path / "empty").mkdir()
    with refused("empty & .parquet"):
        arrow.find_files([tmp_path / "empty"])
    with refused("named once"):
        arrow.find_files([paths[0], paths[0]])
    with refused("all .parquet & hourly.csv"):
        arrow.find_files([paths[0], tmp_path / "hourly.csv"])
