"""Datasets in the Medical Event Data Standard, written with pyarrow alone, and a schema that reads the small one.

The small dataset has the form of those that meds-testing-helpers makes: two sharded splits and one that is not, static events
without time, a birth, an admission with its kind in the code, vital signs and a discharge.
"""

import csv
import datetime
import json
import pathlib

import h5py
import pyarrow as pa
import pyarrow.parquet

from psv import DYNAMIC, RANGES, STATIC

MEDS_SPLITS = {"train": "train", "val": "tuning", "test": "held_out"}
EVENT = pa.schema(
    [("subject_id", pa.int64()), ("time", pa.timestamp("us")), ("code", pa.string()), ("numeric_value", pa.float32())]
    + [("text_value", pa.large_string())]
)
LABEL = pa.schema(
    [("subject_id", pa.int64()), ("prediction_time", pa.timestamp("us")), ("boolean_value", pa.bool_())]
    + [("integer_value", pa.int64()), ("float_value", pa.float32()), ("categorical_value", pa.string())]
)
SCHEMA = """
name = "small"
opens = ["ADMISSION//*"]
closes = ["DISCHARGE", "MEDS_DEATH"]
hour = "hour"

[[channels]]
name = "hour"

[[channels]]
name = "HR"
codes = ["HR", "PULSE//*"]
low = 10
high = 300

[[channels]]
name = "temperature"
codes = ["TEMP//C", { code = "TEMP//F", factor = 0.5, offset = -10 }]

[[channels]]
name = "rhythm"
kind = "categorical"
levels = ["sinus", "paced", "other"]
codes = ["RHYTHM"]

[[channels]]
name = "age"
static = true
years_since = "MEDS_BIRTH"

[[channels]]
name = "unit"
kind = "categorical"
static = true
levels = ["cardiac", "surgical"]
codes = [{ code = "ADMISSION//CARDIAC", level = "cardiac" }, { code = "ADMISSION//SURGICAL", level = "surgical" }]

[[channels]]
name = "height"
static = true
codes = ["HEIGHT"]

[[tasks]]
name = "ill"
"""
# By shard; time, code, number, text.
SHARDS = {
    "train/0": {
        17: """
            -                   HEIGHT              171.5
            1960-01-01T00:00    MEDS_BIRTH
            2020-01-01T06:00    ADMISSION//CARDIAC
            2020-01-01T06:00    HR                  80
            2020-01-01T06:20    HR                  81
            2020-01-01T06:20    TEMP//C             36.5
            2020-01-01T07:00    PULSE//finger       82
            2020-01-01T07:00    RHYTHM              -       sinus
            2020-01-01T07:00:01 TEMP//F             98
            2020-01-01T08:10    RHYTHM              -       Paced
            2020-01-01T08:30    DISCHARGE
            2020-03-01T12:00    ADMISSION//SURGICAL
            2020-03-01T12:30    HR                  999
            2020-03-01T13:00    DISCHARGE
            """,
        5: """
            2020-02-01T00:00    ADMISSION//SURGICAL
            2020-02-01T00:30    HEIGHT              160
            2020-02-01T01:30    HR                  70
            2020-02-01T02:00    MEDS_DEATH
            2020-02-01T02:00    DISCHARGE
            """,
    },
    "tuning/0": {
        9: """
            1990-01-01T00:00    MEDS_BIRTH
            2020-05-01T00:00    ADMISSION//CARDIAC
            2020-05-01T00:15    HR                  90
            2020-05-01T01:00    DISCHARGE
            """
    },
    "held_out/0": {
        3: """
            2020-06-01T00:00    ADMISSION//CARDIAC
            2020-06-01T00:30    TEMP//C             37
            2020-06-01T01:00    DISCHARGE
            """
    },
}
SPLITS = {17: "train", 5: "train", 9: "tuning", 3: "held_out"}
LABELS = {
    17: {"2020-01-01T06:10": False, "2020-01-01T06:50": True, "2020-01-01T08:00": False, "2020-03-01T12:00": False},
    5: {"2020-02-01T01:00": True},
    9: {"2020-05-01T00:00": False, "2020-05-01T01:00": True},
    3: {"2020-06-01T00:59": True},
}


def write_events(events: list[tuple], path: pathlib.Path) -> None:
    """Write one shard from (subject, time, code, number, text)."""
    path.parent.mkdir(parents=True, exist_ok=True)
    columns = [list(column) for column in zip(*events, strict=True)] or [[]] * len(EVENT)
    pa.parquet.write_table(pa.table(columns, schema=EVENT), path)


def write_metadata(folder: pathlib.Path, splits: dict[int, str], version: str | None = "0.4.1") -> None:
    """Write the version and the splits of a dataset."""
    (folder / "metadata").mkdir(parents=True, exist_ok=True)
    (folder / "metadata/dataset.json").write_text(json.dumps({"meds_version": version} if version else {}))
    table = pa.table({"subject_id": pa.array(splits, pa.int64()), "split": list(splits.values())})
    pa.parquet.write_table(table, folder / "metadata/subject_splits.parquet")


def write_labels(
    labels: list[tuple[int, datetime.datetime, object]], path: pathlib.Path, column="boolean_value"
) -> None:
    """Write one label file, with values in one of the standard's columns and nulls in the others."""
    path.parent.mkdir(parents=True, exist_ok=True)
    rows = [{"subject_id": subject, "prediction_time": time, column: value} for subject, time, value in labels]
    pa.parquet.write_table(pa.Table.from_pylist(rows, schema=LABEL), path)


def small_events() -> dict[str, list[tuple]]:
    """Return the events of the small dataset by shard."""
    shards = {}
    for shard, subjects in SHARDS.items():
        shards[shard] = []
        for subject, text in subjects.items():
            for line in text.strip().splitlines():
                time, code, number, words = [*line.split(), "-", "-"][:4]
                time = None if time == "-" else datetime.datetime.fromisoformat(time)
                row = (subject, time, code, None if number == "-" else float(number), None if words == "-" else words)
                shards[shard].append(row)
    return shards


def write_small(folder: pathlib.Path, shards: dict[str, list[tuple]] | None = None) -> pathlib.Path:
    """Write the small dataset, or one with other events, its labels and its schema.toml; return the folder."""
    for shard, events in (shards or small_events()).items():
        write_events(events, folder / f"data/{shard}.parquet")
    write_metadata(folder, SPLITS)
    labels = [
        (subject, datetime.datetime.fromisoformat(time), value)
        for subject, of_subject in LABELS.items()
        for time, value in of_subject.items()
    ]
    write_labels(labels[:3], folder / "task_labels/ill/a.parquet")
    write_labels(labels[3:], folder / "task_labels/ill/b.parquet")
    (folder / "schema.toml").write_text(SCHEMA)
    return folder


def write_ward_as_meds(ward: pathlib.Path, cohort: pathlib.Path, folder: pathlib.Path) -> None:
    """Write 72 .psv files as a MEDS dataset, cell by cell, with labels and schema.toml; codes are the columns' names.

    The splits are those of a cohort.
    """
    with h5py.File(cohort) as file:
        part_of = {name.decode(): part for part in MEDS_SPLITS for name in file[f"stay_names/{part}"]}
    shards, labels = [[], [], []], []
    for number, path in enumerate(sorted(ward.glob("*.psv"))):
        subject, events = int(path.stem[1:]), shards[number * 3 // 72]
        with path.open(newline="") as lines:
            rows = list(csv.DictReader(lines, delimiter="|"))
        times = [
            datetime.datetime(2100, 1, 1, 7, 30) + int(row["ICULOS"]) * datetime.timedelta(hours=1) for row in rows
        ]
        events += [(subject, None, name, float(rows[0][name]), None) for name in STATIC if rows[0][name] != "NaN"]
        events.append((subject, times[0], "ICU//in", None, None))
        for row, time in zip(rows, times, strict=True):
            cells = [(name, row[name]) for name in [*DYNAMIC, "ICULOS"] if row[name] != "NaN"]
            events += [(subject, time, name, float(cell), None) for name, cell in cells]
            events.append((subject, time, "BILLING//visit", 1.0, None))  # of no channel
            labels.append((subject, time, row["SepsisLabel"] == "1"))
        events.append((subject, times[-1], "ICU//out", None, None))
    for number, events in enumerate(shards):
        write_events(events, folder / f"data/{number}.parquet")
    write_labels(labels, folder / "labels/sepsis.parquet")
    (folder / "schema.toml").write_text(physionet_schema())
    write_metadata(folder, {int(name[1:]): MEDS_SPLITS[part] for name, part in part_of.items()})


def time_of_hour(hour: int) -> datetime.datetime:
    """Return the time that hours of PhysioNet's stays have here."""
    return datetime.datetime(2100, 1, 1, 7, 30) + hour * datetime.timedelta(hours=1)


def physionet_schema() -> str:
    """Write the schema that reads them."""
    lines = ['name = "icu"', 'opens = ["ICU//in"]', 'closes = ["ICU//out"]']
    for name in [*STATIC, "ICULOS", *DYNAMIC]:
        lines += ["[[channels]]", f'name = "{name}"', f'codes = ["{name}"]']
        lines += ["static = true"] * (name in STATIC)
        lines += ['kind = "categorical"', "levels = [0, 1]"] * (name in STATIC[:3])
        lines += [f"low = {RANGES[name][0]}", f"high = {RANGES[name][1]}"] if name in RANGES else []
    return "\n".join([*lines, "[[tasks]]", 'name = "sepsis"', ""])
