"""Speed of preparing a cohort from its source files, and of making windows."""

import pathlib
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence

import numpy as np

from benchmarks import meds_export
from benchmarks.measure import Row, cpu_of_children, interleaved, worker_environment
from ncl_tf.data.cohort import Cohort, SplitData
from ncl_tf.data.simulator.ward import write_ward
from ncl_tf.data.sources import physionet2019
from ncl_tf.data.splits import SPLITS
from ncl_tf.data.windows import Windows
from ncl_tf.errors import InputError

BATCH, BATCHES = 2048, 200
HISTORY = 48  # hours, as in the paper
SIMULATED_STAYS = 2000
MEDS_SHARDS = 8

# Runs a preparation in a process of its own and prints its peak memory.
PREPARE = """
from benchmarks.measure import peak_memory
from data_prep import {0}
from ncl_tf import cli
cli.run(lambda: ({0}.main(), print(peak_memory())))
"""


def data(sources: Sequence[str]) -> list[Row]:
    """Measure source files -> cohort file -> windows; without sources, on a simulated ward."""
    with tempfile.TemporaryDirectory() as folder:
        name, found, cost = prepare(sources, pathlib.Path(folder))
        cohort = Cohort(pathlib.Path(folder) / "cohort.h5")
        stays = sum(len(cohort[split].patient_windows) for split in SPLITS)
        return [
            {"data": f"prepare {name}", "stays": stays, **cost},
            {
                "data": f"prepare {name} as MEDS",
                "stays": stays,
                **prepare_meds(found, cohort, pathlib.Path(folder) / "meds"),
            },
            windows(cohort["train"]),
        ]


def sources_of(sources: Sequence[str], folder: pathlib.Path) -> tuple[str, Sequence[str], list[str]]:
    """Return name, sources and arguments of a preparation; without sources, those of a ward that it writes to folder/ward."""
    name, arguments = "PhysioNet 2019", []
    if not sources:
        name, sources, arguments = "simulated ward", [f"{folder}/ward"], ["--split=random"]
        write_ward(SIMULATED_STAYS, seed=1, output=folder / "ward", form="physionet2019")
    return name, sources, arguments + [f"--source={source}" for source in sources]


def prepare(sources: Sequence[str], folder: pathlib.Path) -> tuple[str, Sequence[str], Row]:
    """Write folder/cohort.h5 in a process of its own; return its name, its sources, and what that cost."""
    name, sources, arguments = sources_of(sources, folder)
    _, cost = run_preparation("physionet2019", [*arguments, f"--output={folder / 'cohort.h5'}"])
    return name, sources, cost


def prepare_meds(sources: Sequence[str], cohort: Cohort, folder: pathlib.Path) -> Row:
    """Write the stays of a cohort as a MEDS dataset, every measured value an event; measure how long preparing it takes."""
    stays, _ = physionet2019.read_stays([pathlib.Path(source) for source in sources])
    split = {part: np.flatnonzero(np.isin(stays.names, cohort[part].stay_names)) for part in SPLITS}
    events = meds_export.export(stays, split, folder, MEDS_SHARDS)
    (folder / "schema.toml").write_text(meds_export.schema_text(), encoding="utf-8")
    arguments = [f"--source={folder}", f"--schema={folder / 'schema.toml'}", f"--labels={folder / 'task_labels'}"]
    _, cost = run_preparation("meds", [*arguments, f"--output={folder / 'cohort.h5'}"])
    return {"events": events, **cost, "events/s": events / cost["seconds"]}


def run_preparation(source: str, arguments: list[str]) -> tuple[str, Row]:
    """Run `bin/prepare SOURCE` in a process of its own; return what it prints, and its seconds, CPU seconds and GiB."""
    began, cpu = time.perf_counter(), cpu_of_children()
    command = [sys.executable, "-c", PREPARE.format(source), *arguments]
    done = subprocess.run(command, stdout=subprocess.PIPE, text=True, check=False, env=worker_environment())
    if done.returncode:
        raise InputError(f"{' '.join(arguments)}: cannot be prepared, for the reason above")
    memory = float(done.stdout.split()[-1])
    return done.stdout, {"seconds": time.perf_counter() - began, "CPU s": cpu_of_children() - cpu, "GiB": memory}


def windows(split: SplitData) -> Row:
    """Measure windows per second from the pipeline, and from a plain loop over numpy slices."""
    pipeline = iter(Windows(split, HISTORY).training(BATCH, seed=1))
    rows = np.random.default_rng(1).integers(len(split.data), size=BATCH)

    def from_pipeline() -> None:
        for _ in range(BATCHES):
            next(pipeline)

    def from_loop() -> None:
        batch = np.zeros((BATCH, HISTORY, split.data.shape[1]), np.float32)
        for target, row in zip(batch, rows, strict=True):
            window = split.data[max(split.first_row[row], row - HISTORY + 1) : row + 1]
            target[HISTORY - len(window) :] = window

    seconds = interleaved({"readable": from_loop, "fast": from_pipeline}, repeats=3)
    readable, fast = BATCH / seconds["readable"], BATCH * BATCHES / seconds["fast"]
    return {"data": "windows", "readable windows/s": readable, "fast windows/s": fast, "ratio": fast / readable}
