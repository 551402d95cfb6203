"""What observation columns cost: preparation and training steps of the laptop budget with them and without, in CPU time."""

import json
import pathlib
import resource
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence

import tensorflow as tf

from benchmarks.data import HISTORY, run_preparation, sources_of
from benchmarks.measure import Row, interleaved, worker_environment
from benchmarks.models import step_on
from ncl_tf.data.cohort import Cohort
from ncl_tf.data.windows import Windows
from ncl_tf.training import config, trainer  # noqa: F401 - configurations bind what it defines

CHOSEN = "recency,count"
FORMS = ("without", "with")
TURNS, STEPS = 3, 30
RECIPES = {"without": "paper/physionet2019/ncl_w.gin", "with": "beyond/physionet2019/observed_ncl_w.gin"}


def observations(sources: Sequence[str]) -> list[Row]:
    """Measure both forms in turns; without sources, on a simulated ward."""
    with tempfile.TemporaryDirectory() as temporary:
        folder = pathlib.Path(temporary)
        rows = [prepare(sources, folder)]
        call = "import json; from ncl_tf import quiet; from benchmarks import observations as o; "
        call += f"print(json.dumps(o.steps({temporary!r})))"
        command, environment = [sys.executable, "-c", call], worker_environment() | {"TF_NUM_INTRAOP_THREADS": "1"}
        done = subprocess.run(command, stdout=subprocess.PIPE, check=True, env=environment)
        return [*rows, json.loads(done.stdout.splitlines()[-1])]


def prepare(sources: Sequence[str], folder: pathlib.Path) -> Row:
    """Write folder/without.h5 and folder/with.h5; return the least CPU seconds of each form."""
    name, _, arguments = sources_of(sources, folder)
    seconds: dict[str, list[float]] = {form: [] for form in FORMS}
    for _ in range(TURNS):
        for form in FORMS:
            output = [f"--output={folder / form}.h5", "--overwrite"]
            began = children_seconds()
            run_preparation("physionet2019", [*arguments, *output, *[f"--observations={CHOSEN}"] * (form == "with")])
            seconds[form].append(children_seconds() - began)
    return _row(f"prepare {name}", folder, {form: min(times) for form, times in seconds.items()})


def steps(folder: str) -> Row:
    """Measure training steps of NCL(n_w) with the laptop budget, on one thread: median CPU seconds."""
    works = {}
    for form in FORMS:
        cohort = Cohort(pathlib.Path(folder) / f"{form}.h5")
        config.configure([RECIPES[form], "budgets/laptop.gin"], [f"cohort = {str(cohort.path)!r}"])
        model = config.method()(cohort=cohort, seed=config.macro("seed"), fast=True)
        data = Windows(cohort["val"], HISTORY)
        rows = tf.random.stateless_uniform([config.macro("batch_size")], [1, 2], 0, data.hours, tf.int32)
        works[form] = step_on(model, data.gather(rows)["window"], xla=True)
    seconds = interleaved(works, STEPS, clock=time.process_time)
    return _row("training step, laptop budget", pathlib.Path(folder), seconds)


def children_seconds() -> float:
    """Return the CPU time of all processes that this one has waited for."""
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


def _row(what: str, folder: pathlib.Path, seconds: dict[str, float]) -> Row:
    columns = {f"columns {form}": len(Cohort(folder / f"{form}.h5").columns) for form in FORMS}
    times = {f"{form} CPU s": seconds[form] for form in FORMS}
    return {"observations": what, **columns, **times, "ratio": seconds["with"] / seconds["without"]}
