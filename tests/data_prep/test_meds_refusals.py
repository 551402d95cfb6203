"""MEDS datasets, label files and schemas that are refused: what the message names."""

import datetime
import pathlib

import pyarrow as pa
import pyarrow.parquet
import pytest

from meds_files import SCHEMA, SPLITS, small_events, write_labels, write_metadata, write_small
from ncl_tf.data.sources.meds import read_meds
from ncl_tf.data.sources.meds_schema import read_meds_schema
from refusals import refused

TRAIN = "data/train/0.parquet"


def read(folder: pathlib.Path, schema: str = SCHEMA, labels: str | None = "task_labels") -> None:
    (folder / "schema.toml").write_text(schema)
    read_meds(folder, read_meds_schema(folder / "schema.toml"), folder / labels if labels else None)


def time(text: str) -> datetime.datetime:
    return datetime.datetime.fromisoformat(text)


def event(subject: int, at: str | None, code: str, number: float | None = None, text: str | None = None) -> tuple:
    return subject, at and time(at), code, number, text


@pytest.mark.parametrize(
    ("shard", "position", "change", "named"),
    [
        # events of subject 17 begin at 0, those of 5 at 14
        ("train/0", 2, event(17, "2020-01-01T05:59", "HR", 70), "row 2 & subject 17 & 2020-01-01T05:59:00 & 'HR' & no & drop"),
        ("train/0", 10, event(17, "2020-01-01T08:31", "HR", 70), ""),
        ("train/0", 4, event(17, None, "HR", 70), "row 4 & subject 17, without time & 'HR' is not static"),
        ("train/0", 4, event(17, None, "ADMISSION//X"), "row 4 & 'ADMISSION//X' & must have a time"),
        ("train/0", 4, event(17, "2019-01-01", "HR", 70), "row 4 & subject 17 & 2019-01-01T00:00:00 after 2020-01-01T06:00:00"),
        ("train/0", 4, event(17, "2020-01-01T06:01", "ADMISSION//X"), "row 2 & before another one opens at 2020-01-01T06:01:00"),
        ("held_out/0", 3, event(3, "2020-06-02", "ADMISSION//X"), "row 3 & subject 3, 2020-06-02T00:00:00 & must close & DISCH"),
        ("held_out/0", 3, event(5, "2020-06-02", "X"), "row 3 & subject 5 & one file & train/0.parquet, row 14"),
        ("train/0", 3, event(4, None, "X"), "row 4 & subject 17 & follow one another & row 0"),
        ("train/0", 4, event(17, "2020-01-01T06:10", "RHYTHM", None, "slow"), "row 4 & 'RHYTHM' & 'slow' & 'sinus', 'paced'"),
        ("train/0", 4, event(17, "2020-01-01T06:10", "RHYTHM", 1), "row 4 & 'RHYTHM' & got '1' & one of 'sinus'"),
        ("train/0", 4, event(17, "2020-01-01T06:10", "HR", float("inf")), "row 4 & 'HR' & a number & inf"),
        ("train/0", 19, event(6, "2020-01-01", "DISCHARGE"), ""),
    ],
)  # fmt: skip
def test_bad_events(tmp_path, shard, position, change, named):
    """Not refused, and here to show it: a closing code without a stay; an event after a stay is."""
    shards = small_events()
    shards[shard].insert(position, change)
    write_small(tmp_path, shards)
    if change[2] == "DISCHARGE":
        read(tmp_path)
        return
    with refused(f"{shard}.parquet", named):
        read(tmp_path)


def test_a_stay_of_a_century(tmp_path):
    shards = small_events()
    shards["held_out/0"][-1] = event(3, "2120-06-01", "DISCHARGE")
    with refused("row 0 & subject 3, 2020-06-01T00:00:00 & 100000 hours & 2120-06-01T00:00:00"):
        read(write_small(tmp_path, shards))


def replace_column(path: pathlib.Path, name: str, values: list | None, kind: pa.DataType | None = None) -> None:
    table = pa.parquet.read_table(path)
    index = table.column_names.index(name)
    table = table.remove_column(index)
    if values is not None:
        table = table.add_column(index, name, pa.array((values * table.num_rows)[: table.num_rows], kind))
    pa.parquet.write_table(table, path)


@pytest.mark.parametrize(
    ("file", "name", "values", "kind", "named"),
    [
        (TRAIN, "code", None, None, f"{TRAIN} & column 'code' & subject_id, time, numeric_value"),
        (TRAIN, "code", [1], pa.int64(), f"{TRAIN}, column code & a string & int64"),
        (TRAIN, "time", [0], pa.timestamp("us", "UTC"), f"{TRAIN}, column time & without time zone & UTC"),
        (TRAIN, "time", ["2020-01-01"], pa.string(), f"{TRAIN}, column time & a timestamp & string"),
        (TRAIN, "subject_id", ["17"], pa.string(), f"{TRAIN}, column subject_id & an integer & string"),
        (TRAIN, "subject_id", [17, None], pa.int64(), f"{TRAIN}, row 1, column subject_id: must not be null"),
        (TRAIN, "code", ["HR", "HR", None], pa.string(), f"{TRAIN}, row 2, column code: must not be null"),
        (TRAIN, "numeric_value", ["1"], pa.string(), f"{TRAIN}, column numeric_value & a number & string"),
        ("metadata/subject_splits.parquet", "split", ["test"], None, "splits.parquet, row 0 & train, tuning, held_out & 'test'"),
        ("metadata/subject_splits.parquet", "split", None, None, "splits.parquet & column 'split'"),
        ("metadata/subject_splits.parquet", "split", ["train"], None, "splits.parquet & 'tuning' & at least one"),
        ("metadata/subject_splits.parquet", "subject_id", [17, 5, 5, 3], None, "splits.parquet, row 2 & subject 5 & once"),
        ("metadata/subject_splits.parquet", "subject_id", [17, 5, 9, 4], None, "splits.parquet & 3 is in none"),
        ("task_labels/ill/a.parquet", "prediction_time", [None], pa.timestamp("us"), "a.parquet, row 0, column prediction_time"),
        ("task_labels/ill/a.parquet", "boolean_value", [None], pa.bool_(), "a.parquet & 'ill' & boolean_value, integer & none"),
        ("task_labels/ill/a.parquet", "boolean_value", [True, None], pa.bool_(), "a.parquet, row 1, column boolean_value & None"),
        ("task_labels/ill/a.parquet", "integer_value", [1], pa.int64(), "a.parquet & got boolean_value and integer_value"),
        ("task_labels/ill/a.parquet", "categorical_value", ["x"], pa.string(), "a.parquet & boolean_value and categorical_value"),
        ("task_labels/ill/a.parquet", "subject_id", [4], None, "a.parquet, row 0: subject 4 & in a stay & drop"),
    ],
)  # fmt: skip
def test_bad_columns(tmp_path, file, name, values, kind, named):
    replace_column(write_small(tmp_path) / file, name, values, kind)
    with refused(named):
        read(tmp_path)


@pytest.mark.parametrize(
    ("labels", "named"),
    [
        ([("2020-05-01T00:00", 1)], "c.parquet, row 0: subject 9, 2020-05-01T00:00:00 & b.parquet, row 2"),
        ([("2020-05-01T00:10", 1), ("2020-05-01T00:20", 2)], "c.parquet, row 1, column integer_value & 0 or 1 & 2"),
        ([("2020-04-30T23:59", 1)], "c.parquet, row 0: subject 9, 2020-04-30T23:59:00 & in a stay & drop"),
        ([("2020-05-01T01:01", 1)], "c.parquet, row 0: subject 9, 2020-05-01T01:01:00 & in a stay & drop"),
    ],
)
def test_bad_labels(tmp_path, labels, named):
    write_small(tmp_path)
    rows = [(9, time(at), value) for at, value in labels]
    write_labels(rows, tmp_path / "task_labels/ill/c.parquet", "integer_value")
    with refused(named):
        read(tmp_path)


@pytest.mark.parametrize("version", ["0.2.1", "1.0", "0.40"])
def test_other_versions(tmp_path, version):
    write_small(tmp_path)
    write_metadata(tmp_path, SPLITS, version)
    with refused(f"dataset.json & meds_version & 0.3 or 0.4 & {version!r}"):
        read(tmp_path)


def test_folders_without_the_files(tmp_path):
    with refused(f"{tmp_path} & metadata/dataset.json"):
        read(tmp_path)
    write_metadata(tmp_path, SPLITS)
    with refused(f"{tmp_path / 'data'} & *.parquet & none"):
        read(tmp_path)
    write_small(tmp_path)
    (tmp_path / "metadata/subject_splits.parquet").unlink()
    with refused("subject_splits.parquet & no such file & train, tuning, held_out"):
        read(tmp_path)
    write_metadata(tmp_path, SPLITS)
    (tmp_path / TRAIN).write_bytes((tmp_path / TRAIN).read_bytes()[:-20])
    with refused(TRAIN, "a Parquet file"):
        read(tmp_path)


def test_label_folders(tmp_path):
    write_small(tmp_path)
    two, until = SCHEMA + '[[tasks]]\nname = "dead"\n', 'until = ["MEDS_DEATH"]\nwithin = 24\n'
    (tmp_path / "none").mkdir()
    for schema, labels, named in [
        (SCHEMA, None, "--labels & 'ill'"),
        (SCHEMA, "none", "none & label files & none"),
        (SCHEMA + until, "task_labels", "--labels & task_labels & until"),
        (two, "task_labels", "task_labels & 'dead' & 2"),
    ]:
        with refused(named):
            read(tmp_path, schema, labels)


@pytest.mark.parametrize(
    ("old", "new", "named"),
    [
        ('"TEMP//C",', '"TEMP//K",', "'TEMP//K' never occurs & did you mean & 'TEMP//C'"),
        ('"PULSE//*"', '"PULSES//*"', "'PULSES//*' never occurs & 'PULSE//finger'"),
        ("ADMISSION//*", "ADMISION//*", "'ADMISION//*' never occurs & 'ADMISSION//CARDIAC'"),
        ('["DISCHARGE", "MEDS_DEATH"]', '["DISCHARG"]', "row 0 & must close & DISCHARG; did you mean & 'DISCHARGE'"),
        ('closes = ["DISCHARGE"', 'closes = ["DISCHARGED", "DISCHARGE"', "'DISCHARGED' never occurs & 'DISCHARGE'"),
        ('"MEDS_BIRTH"', '"qqqq"', "'qqqq' never occurs"),
        ('["HR", ', '["HR", "H*", ', "code 'HEIGHT' & one channel & 'H*' of 'HR' & 'HEIGHT' of 'height'"),
        ('opens = ["ADMISSION//*"]', "", "schema.toml & key 'opens' is missing"),
        ('opens = ["ADMISSION//*"]', "opens = []", "schema.toml & opens & at least one code"),
        ('opens = ["ADMISSION//*"]', 'opens = "ADMISSION"', "schema.toml & opens & a list of codes & 'ADMISSION'"),
        ("hour =", 'outside_stays = "keep"\nhour =', "outside_stays & refuse, drop & 'keep'"),
        ('hour = "hour"\n\n[[channels]]\nname = "hour"\n', 'hour = "time"\n', "top level & hour & 'time'"),
        ('hour = "hour"', 'hour = "time"', "channel 1: 'hour' & codes, years_since, hours_since, or be the hour"),
        ('name = "hour"', 'name = "hour"\ncodes = ["X"]', "channel 1 & without codes"),
        ('codes = ["HEIGHT"]', "", "channel 7 & 'height' & codes, years_since, hours_since & none"),
        ('codes = ["HEIGHT"]', 'codes = ["HEIGHT"]\nhours_since = "X"', "channel 7 & ['codes', 'hours_since']"),
        ('codes = ["HEIGHT"]', "codes = []", "channel 7 & at least one code"),
        ('static = true\nyears', "years", "channel 5 & 'age' & static must be true"),
        ("factor = 0.5", "factor = 0", "channel 'temperature', codes & factor & 0"),
        ("factor = 0.5", 'factor = "half"', "channel 'temperature', codes & factor & a number & 'half'"),
        ("factor = 0.5", 'level = "hot"', "channel 'temperature', codes & level & categorical & 'continuous'"),
        ("factor = 0.5", "times = 0.5", "channel 'temperature', codes & 'times' & code, factor, offset, level"),
        ('level = "surgical"', 'level = "medical"', "channel 'unit', codes & 'cardiac', 'surgical' & 'medical'"),
        ('level = "surgical"', "factor = 2", "channel 'unit', codes & factor & 'categorical'"),
        ("low = 10", "lowest = 10", "channel 2 & 'lowest' & low, high & codes"),
        ('name = "ill"', 'name = "ill"\nwithin = 3', "task 1 & until & none"),
        ('name = "ill"', 'name = "ill"\nuntil = ["MEDS_DEATH"]', "task 1 & within & 'binary'"),
        ('name = "ill"', 'name = "ill"\nuntil = ["MEDS_DEATH"]\nwithin = -1', "task 1 & within & above 0 & -1"),
        ('name = "ill"', 'name = "ill"\nkind = "bins"\nedges = [1]\nuntil = ["X"]\nwithin = 1', "task 1 & within & 'bins'"),
    ],
)  # fmt: skip
def test_bad_schemas(tmp_path, old, new, named):
    assert old in SCHEMA
    with refused(named):
        read(write_small(tmp_path), SCHEMA.replace(old, new))
