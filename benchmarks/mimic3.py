"""Speed and memory of preparing MIMIC-III from its download, on tables that are blown up by copies of all patients."""

import gzip
import pathlib
import re
import shutil
import tempfile

import pyarrow as pa
import pyarrow.compute
import pyarrow.csv

from benchmarks.data import run_preparation
from benchmarks.measure import Row
from ncl_tf.data.cohort import Cohort
from ncl_tf.data.sources.common import progress
from ncl_tf.data.sources.mimic3_raw.resources import ITEM_MAP, TEST_SET, VAL_SET, find_resource
from ncl_tf.data.sources.mimic3_raw.tables import RawTable, find_tables
from ncl_tf.errors import InputError

IDS = ("SUBJECT_ID", "HADM_ID", "ICUSTAY_ID")
BETWEEN_COPIES = 1_000_000  # of these ids, which are below that
MOST_COPIES = 2000  # so that ids still fit into 32 bits
# Rows of CHARTEVENTS, LABEVENTS and OUTPUTEVENTS in MIMIC-III 1.4.
FULL_RELEASE = 330_712_483 + 27_854_055 + 4_349_218


def mimic3(raw: str | None, benchmark: str | None, copies: int) -> list[Row]:
    """Measure a download as it is, for example the open demo, and many copies of it; extrapolate the full release."""
    if not raw or not benchmark:
        raise InputError("mimic3 needs --raw and --benchmark, the folders of bin/prepare mimic3; the open demo will do")
    if not 2 <= copies <= MOST_COPIES:
        raise InputError(f"--copies must be 2 to {MOST_COPIES}, got {copies}")
    with tempfile.TemporaryDirectory() as temporary:
        folder = pathlib.Path(temporary)
        one = _measured("as given", pathlib.Path(raw), pathlib.Path(benchmark), folder / "one.h5")
        blow_up(pathlib.Path(raw), pathlib.Path(benchmark), copies, folder)
        many = _measured(f"{copies} copies", folder / "raw", folder / "benchmark", folder / "many.h5")
    share = (FULL_RELEASE - many["rows"]) / (many["rows"] - one["rows"])
    full = {what: many[what] + share * (many[what] - one[what]) for what in ("seconds", "CPU s", "GiB")}
    return [one, many, {"mimic3": "full release, extrapolated", "rows": FULL_RELEASE, **full}]


def _measured(name: str, raw: pathlib.Path, benchmark: pathlib.Path, output: pathlib.Path) -> Row:
    arguments = [f"--raw={raw}", f"--benchmark={benchmark}", f"--output={output}"]
    printed, cost = run_preparation("mimic3", arguments)
    rows = int(re.search(r"^rows of events +([\d,]+)$", printed, re.MULTILINE)[1].replace(",", ""))
    cohort = Cohort(output)
    stays = sum(len(cohort[split].patient_windows) for split in ("train", "val", "test"))
    return {"mimic3": name, "stays": stays, "rows": rows, **cost, "rows/s": rows / cost["seconds"]}


def blow_up(raw: pathlib.Path, benchmark: pathlib.Path, copies: int, folder: pathlib.Path) -> None:
    """Write folder/raw and folder/benchmark: each patient so many times, under new ids."""
    for part in ("raw", "benchmark"):
        (folder / part).mkdir()
    tables = find_tables(raw)
    with progress(None, "copying", unit=" tables", total=copies * len(tables)) as bar:
        for table in tables.values():
            rows = _read_table(table)
            with gzip.open(folder / "raw" / f"{table.name}.csv.gz", "wb", compresslevel=1) as file:
                file.write(",".join(table.columns).encode() + b"\n")
                for copy in range(copies):
                    pa.csv.write_csv(_renumbered(rows, copy), file, pa.csv.WriteOptions(include_header=False))
                    bar.update()
    shutil.copy(find_resource(benchmark, ITEM_MAP), folder / "benchmark")
    for name in (TEST_SET, VAL_SET):
        pairs = [line.split(",") for line in find_resource(benchmark, name).read_text().split()]
        with (folder / "benchmark" / name).open("w") as file:
            for copy in range(copies):
                file.writelines(f"{int(subject) + copy * BETWEEN_COPIES},{member}\n" for subject, member in pairs)


def _read_table(table: RawTable) -> pa.Table:
    types = {column: pa.int64() if column in IDS else pa.string() for column in table.columns}
    return pa.csv.read_csv(
        table.path,
        pa.csv.ReadOptions(column_names=table.columns, skip_rows=1),
        convert_options=pa.csv.ConvertOptions(column_types=types, null_values=[""], strings_can_be_null=True),
    )


def _renumbered(rows: pa.Table, copy: int) -> pa.Table:
    for column in set(IDS).intersection(rows.column_names):
        ids = pa.compute.add(rows[column], copy * BETWEEN_COPIES)
        rows = rows.set_column(rows.column_names.index(column), column, ids)
    return rows
