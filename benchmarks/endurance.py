"""Long trainings, large cohorts, and which settings end in the same bits: programs of bin/ as users start them, measured."""

import os
import pathlib
import subprocess
import sys
import tempfile
import time
from collections.abc import Mapping

import numpy as np
import pyarrow as pa
import pyarrow.parquet

from benchmarks.heads import simulated
from benchmarks.measure import ROOT, Row
from ncl_tf.data.datasets import PHYSIONET2019
from ncl_tf.data.simulator.ward import write_ward
from ncl_tf.data.sources import physionet2019
from ncl_tf.data.stays import Stays
from ncl_tf.errors import InputError
from ncl_tf.runs import StoredRun

SOAK_STEPS, WARM_UP = 20_000, 2_000
MILLION_HOURS = (1, 3, 10)
SMALL = {"batch_size": 32, "queue_size": 512, "encoder.filters": 16}
METHOD = "--gin_file=gin/paper/physionet2019/ncl_w.gin"
SCHEMA = """name = "repeated"
stay = "stay"
hour = "hour"
{}
[[tasks]]
name = "sepsis"
"""


def soak() -> list[Row]:
    """Measure the memory of a small training, every 1,000 steps of 20,000."""
    with tempfile.TemporaryDirectory() as folder:
        cohort = simulated(pathlib.Path(folder)).path
        settings = SMALL | {"steps": SOAK_STEPS, "report_every": 1000, "cohort": str(cohort)}
        run_dir = pathlib.Path(folder) / "run"
        process = subprocess.Popen(train_command(settings, run_dir), cwd=ROOT, stdout=subprocess.DEVNULL)
        rows: list[Row] = []
        while process.poll() is None:
            time.sleep(0.1)
            if (step := 1000 * len(StoredRun(run_dir).reports)) > (rows[-1]["step"] if rows else 0):
                rows.append({"soak": "NCL(n_w), batch 32", "step": step, "MiB": resident_mebibytes(process.pid)})
    if process.returncode or len(rows) < SOAK_STEPS // 1000 - 1:
        raise InputError(f"the training ended with {process.returncode} after {len(rows)} reports")
    base = next(row["MiB"] for row in rows if row["step"] >= WARM_UP)
    return [row | {"since warm-up %": 100 * (row["MiB"] / base - 1)} for row in rows]


def sizes() -> list[Row]:
    """Measure preparation, 100 training steps and an evaluation of cohorts of 1, 3 and 10 million hours."""
    with tempfile.TemporaryDirectory() as name:
        folder = pathlib.Path(name)
        write_ward(2000, seed=1, output=folder / "ward")
        stays, _ = physionet2019.read_stays([folder / "ward"])
        rows = []
        for millions in MILLION_HOURS:
            source, cohort, run_dir = folder / "hourly.parquet", folder / "cohort.h5", folder / f"run{millions}"
            hours = write_repeated(stays, millions * 1_000_000, source)
            prepare = [f"--source={source}", f"--schema={folder / 'schema.toml'}", f"--output={cohort}", "--overwrite"]
            (folder / "schema.toml").write_text(schema(), encoding="utf-8")
            settings = {
                "steps": 100,
                "batch_size": 128,
                "queue_size": 16384,
                "report_every": 100,
                "cohort": str(cohort),
            }
            evaluate = [f"--run_dir={run_dir}", "--head=mlp", "--gin_param=protocol.max_epochs = 2"]
            for what, command in {
                "prepare": [sys.executable, "bin/prepare", "table", *prepare],
                "train, 100 steps": train_command(settings, run_dir),
                "evaluate, 2 epochs": [sys.executable, "bin/evaluate", *evaluate],
            }.items():
                rows.append({"sizes": what, "hours": hours, "columns": len(PHYSIONET2019.channels)} | measured(command))
                print(rows[-1], flush=True)
        return rows


def bits() -> list[Row]:
    """Compare the weights of trainings by threads, XLA and form, each of them twice; the first row is the reference."""
    fast, readable = {"fast": True, "jit_compile": True}, {"fast": False, "jit_compile": False}
    cases = {
        "one thread, XLA": (1, fast),
        "one thread, XLA, again": (1, fast),
        "two threads, XLA": (2, fast),
        "two threads, XLA, again": (2, fast),
        "one thread, without XLA": (1, fast | {"jit_compile": False}),
        "one thread, without XLA, again": (1, fast | {"jit_compile": False}),
        "two threads, without XLA": (2, fast | {"jit_compile": False}),
        "two threads, without XLA, again": (2, fast | {"jit_compile": False}),
        "readable forms, one thread": (1, readable),
        "readable forms, one thread, again": (1, readable),
    }
    found: dict[str, dict[str, np.ndarray]] = {}
    rows: list[Row] = []
    with tempfile.TemporaryDirectory() as folder:
        cohort = simulated(pathlib.Path(folder)).path
        settings = {"batch_size": 128, "queue_size": 1024, "steps": 50, "report_every": 50, "cohort": str(cohort)}
        for name, (threads, forms) in cases.items():
            run_dir = pathlib.Path(folder) / str(len(found))
            measured(train_command(settings | forms, run_dir), threads)
            with np.load(run_dir / "checkpoints" / "step-00000050.npz") as archive:
                found[name] = dict(archive)
            same = next(other for other in found if same_bits(found[other], found[name]))
            reference = found[next(iter(found))]
            rows.append({"bits": name, "same bits as": same, "largest difference": distance(reference, found[name])})
            print(rows[-1], flush=True)
    return rows


def same_bits(one: Mapping[str, np.ndarray], other: Mapping[str, np.ndarray]) -> bool:
    """Return whether two checkpoints hold the same bits."""
    return all(value.tobytes() == other[name].tobytes() for name, value in one.items())


def distance(one: Mapping[str, np.ndarray], other: Mapping[str, np.ndarray]) -> float:
    """Return the largest absolute difference of the encoders' weights."""
    names = [name for name in one if name.startswith("encoder/")]
    return max(float(np.abs(one[name] - other[name]).max()) for name in names)


def train_command(settings: Mapping[str, object], run_dir: pathlib.Path) -> list[str]:
    """Return the command of a contrastive training."""
    params = [f"--gin_param={name} = {value!r}" for name, value in settings.items()]
    return [sys.executable, "bin/train", METHOD, *params, f"--run_dir={run_dir}"]


def measured(command: list[str], threads: int = 1) -> Row:
    """Run a program; return seconds, seconds of CPU time and peak memory."""
    limits = dict.fromkeys(("TF_NUM_INTRAOP_THREADS", "OMP_NUM_THREADS"), str(threads))
    began = time.monotonic()
    process = subprocess.Popen(command, cwd=ROOT, env=os.environ | limits, stdout=subprocess.DEVNULL)
    _, status, used = os.wait4(process.pid, 0)
    if code := os.waitstatus_to_exitcode(status):
        raise InputError(f"{' '.join(command)}: ended with {code}")
    seconds = {"seconds": time.monotonic() - began, "CPU seconds": used.ru_utime + used.ru_stime}
    return seconds | {"GiB": used.ru_maxrss * (1 if sys.platform == "darwin" else 1024) / 2**30}


def write_repeated(stays: Stays, hours: int, path: pathlib.Path) -> int:
    """Write the stays again and again, each time under new names, as an hourly table; return its hours."""
    names = [channel.name for channel in PHYSIONET2019.channels]
    length, hour = len(stays.values), np.concatenate([np.arange(count, dtype=np.int32) for count in stays.lengths])
    stay = np.repeat(np.arange(len(stays.names), dtype=np.int32), stays.lengths)
    columns = {name: pa.array(stays.values[:, i], from_pandas=True) for i, name in enumerate(names)}
    columns["sepsis"] = pa.array(stays.labels[:, 0], from_pandas=True)
    schema = pa.schema([("stay", pa.int32()), ("hour", pa.int32()), *((name, pa.float32()) for name in columns)])
    copies = -(-hours // length)
    with pa.parquet.ParquetWriter(path, schema) as writer:
        for copy in range(copies):
            own = {"stay": stay + copy * len(stays.names), "hour": hour}
            writer.write_table(pa.table(own | columns).cast(schema))
    return copies * length


def schema() -> str:
    """Return the schema of the repeated table."""
    return SCHEMA.format("\n".join(f'[[channels]]\nname = "{channel.name}"' for channel in PHYSIONET2019.channels))


def resident_mebibytes(pid: int) -> float:
    """Return what a process holds in memory."""
    pages = int(pathlib.Path(f"/proc/{pid}/statm").read_text(encoding="utf-8").split()[1])
    return pages * os.sysconf("SC_PAGE_SIZE") / 2**20
