"""Shared fixtures: small simulated wards in both forms, cohorts prepared from them, and real data where it is at hand.

Real data is found by the environment: NCL_PHYSIONET2019 is a folder with training_setA.zip and training_setB.zip,
NCL_MIMIC3_DEMO one with raw/, multitask.tar.xz and benchmark_resources/, NCL_YAIB_DEMO one with cohorts of YAIB, NCL_PAPER
one with the paper's LaTeX text.
"""

import dataclasses
import fcntl
import os
import pathlib
import resource
import shutil
import subprocess
import time
from collections.abc import Callable, Iterator

import gin
import pytest

from ncl_tf.data.cohort import write_cohort
from ncl_tf.data.datasets import MIMIC3_BENCHMARK, PHYSIONET2019
from ncl_tf.data.raw_file import write_raw_file
from ncl_tf.data.simulator.ward import write_ward
from ncl_tf.data.sources import mimic3_benchmark, physionet2019
from ncl_tf.data.splits import random_split
from processes import ROOT, preloaded_python

BEGIN = time.monotonic()
LONGEST = ["bin_reproduce", "distribution", "learning", "fast_training", "evaluate", "end_to_end", "gin", "autoencoder"]

# For all tests and the processes that they start: compiled code need not be fast, and two workers share two cores.
os.environ.setdefault("XLA_FLAGS", "--xla_backend_optimization_level=1")
for _variable in ("TF_NUM_INTRAOP_THREADS", "TF_NUM_INTEROP_THREADS", "OMP_NUM_THREADS"):
    os.environ.setdefault(_variable, "1")


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Put the longest files first, so that two workers end at about the same time."""
    ranks = {f"test_{name}": rank for rank, name in enumerate(LONGEST)}
    items.sort(key=lambda item: ranks.get(item.path.stem, len(LONGEST)))


@pytest.hookimpl(trylast=True)
def pytest_terminal_summary(terminalreporter) -> None:
    """Show how long the tests took; workers of pytest-xdist and programs that tests ran have ended by now and count."""
    times = [resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)]
    cpu = sum(used.ru_utime + used.ru_stime for used in times)
    wall = time.monotonic() - BEGIN
    terminalreporter.write_line(f"took {wall / 60:.1f} minutes and {cpu / 60:.1f} minutes of CPU time")


@pytest.fixture(scope="session")
def made_once(tmp_path_factory: pytest.TempPathFactory) -> Callable[..., pathlib.Path]:
    """Make a file or folder once for all workers: made_once("ward", lambda path: write_ward(72, seed=1, output=path)).

    The first worker that needs it makes it, while others that need it wait; tests must not change it.
    """
    base = tmp_path_factory.getbasetemp()
    shared = (base.parent if "PYTEST_XDIST_WORKER" in os.environ else base) / "shared"
    shared.mkdir(exist_ok=True)

    def made_once(name: str, make: Callable[[pathlib.Path], object]) -> pathlib.Path:
        path, made = shared / name, shared / f"{name}.made"
        with (shared / f"{name}.lock").open("w") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX)
            if not made.exists():
                make(path)
                made.touch()
        return path

    return made_once


@pytest.fixture(scope="session")
def ward(made_once: Callable[..., pathlib.Path]) -> pathlib.Path:
    """72 simulated stays as .psv files, 8 of them septic."""
    return made_once("ward", lambda folder: write_ward(72, seed=1, output=folder))


@pytest.fixture(scope="session")
def mimic_ward(made_once: Callable[..., pathlib.Path]) -> pathlib.Path:
    """72 simulated stays in the form of the MIMIC-III Benchmark's multitask folder."""
    return made_once("mimic_ward", lambda folder: write_ward(72, seed=1, output=folder, form="mimic3_benchmark"))


@pytest.fixture(scope="session")
def ward_cohort(ward: pathlib.Path, made_once: Callable[..., pathlib.Path]) -> pathlib.Path:
    """The cohort file of `ward`."""

    def make(path: pathlib.Path) -> None:
        stays, checksum = physionet2019.read_stays([ward])
        write_cohort(path, PHYSIONET2019, stays, random_split(stays.ever_positive(), seed=0), checksum)

    return made_once("ward.h5", make)


@pytest.fixture(scope="session")
def observed_cohort(ward: pathlib.Path, made_once: Callable[..., pathlib.Path]) -> pathlib.Path:
    """The cohort file of `ward` with the observations recency and count."""

    def make(path: pathlib.Path) -> None:
        stays, checksum = physionet2019.read_stays([ward])
        dataset = dataclasses.replace(PHYSIONET2019, observations=("recency", "count"))
        write_cohort(path, dataset, stays, random_split(stays.ever_positive(), seed=0), checksum)

    return made_once("observed.h5", make)


@pytest.fixture(scope="session")
def raw_ward_cohort(
    ward: pathlib.Path, observed_cohort: pathlib.Path, made_once: Callable[..., pathlib.Path]
) -> pathlib.Path:
    """A copy of `observed_cohort` with its raw rows beside it."""

    def make(path: pathlib.Path) -> None:
        stays = physionet2019.read_stays([ward])[0]
        shutil.copy(observed_cohort, path)
        write_raw_file(path, PHYSIONET2019, stays, random_split(stays.ever_positive(), seed=0))

    return made_once("with_raw_rows.h5", make)


@pytest.fixture(scope="session")
def mimic_ward_cohort(mimic_ward: pathlib.Path, made_once: Callable[..., pathlib.Path]) -> pathlib.Path:
    """The cohort file of `mimic_ward`."""

    def make(path: pathlib.Path) -> None:
        stays, split, checksum = mimic3_benchmark.read_stays(mimic_ward, carry_back=False, shift=0)
        write_cohort(path, MIMIC3_BENCHMARK, stays, split, checksum)

    return made_once("mimic_ward.h5", make)


@pytest.fixture(autouse=True)
def no_configuration_stays():
    """Let no test see the configuration of another."""
    yield
    gin.clear_config()


@pytest.fixture(scope="module")
def eager():
    """Run without graphs: tracing one costs more than a few steps."""
    from tiny import eagerly

    with eagerly():
        yield


def _real_data(variable: str, content: str) -> pathlib.Path:
    if not os.environ.get(variable):
        pytest.skip(f"{variable} is not set; it names the folder with {content}")
    return pathlib.Path(os.environ[variable])


@pytest.fixture(scope="session")
def physionet2019_zips() -> list[pathlib.Path]:
    """The two official zips of PhysioNet 2019."""
    folder = _real_data("NCL_PHYSIONET2019", "training_setA.zip and training_setB.zip")
    return [folder / f"training_set{letter}.zip" for letter in "AB"]


@pytest.fixture(scope="session")
def mimic3_demo() -> pathlib.Path:
    """The multitask output of mimic3-benchmarks on the open demo of MIMIC-III, as tar file."""
    return _real_data("NCL_MIMIC3_DEMO", "multitask.tar.xz") / "multitask.tar.xz"


@pytest.fixture(scope="session")
def yaib_demo() -> pathlib.Path:
    """Cohorts that YAIB writes, of the open demos of eICU and MIMIC-III."""
    return _real_data("NCL_YAIB_DEMO", "TASK/eicu_demo and TASK/mimic_demo, cohorts of YAIB")


@pytest.fixture(scope="session")
def paper_text() -> str:
    """The paper in LaTeX."""
    files = sorted(_real_data("NCL_PAPER", "the paper's LaTeX text").iterdir())
    return "\n".join(path.read_text(encoding="utf-8") for path in files if path.suffix in (".txt", ".tex"))


@pytest.fixture(scope="session")
def prepared(made_once: Callable[..., pathlib.Path], run: Callable) -> Callable[..., pathlib.Path]:
    """Prepare a cohort once, as a user does it."""

    def prepared(dataset: str, *sources: pathlib.Path) -> pathlib.Path:
        def make(path: pathlib.Path) -> None:
            result = run("bin/prepare", dataset, *(f"--source={source}" for source in sources), f"--output={path}")
            assert result.returncode == 0, result.stderr

        return made_once(f"{dataset}.h5", make)

    return prepared


@pytest.fixture(scope="session")
def physionet2019_cohort(physionet2019_zips: list[pathlib.Path], prepared: Callable) -> pathlib.Path:
    """The paper's PhysioNet cohort."""
    return prepared("physionet2019", *physionet2019_zips)


@pytest.fixture(scope="session")
def mimic3_demo_cohort(mimic3_demo: pathlib.Path, prepared: Callable) -> pathlib.Path:
    """The cohort of the open demo of MIMIC-III."""
    return prepared("mimic3_benchmark", mimic3_demo)


@pytest.fixture(scope="session")
def python() -> Iterator[str]:
    """A Python for start([python, "bin/train", ...]): programs of bin/ find TensorFlow imported (see preloaded.py)."""
    with preloaded_python() as python:
        yield python


@pytest.fixture(scope="session")
def run(python: str) -> Callable[..., subprocess.CompletedProcess]:
    """Run a program of the project in a process of its own: run("bin/prepare", "table", "--help")."""

    def run(*command: str | pathlib.Path) -> subprocess.CompletedProcess:
        settings = {"cwd": ROOT, "capture_output": True, "text": True, "timeout": 300}
        return subprocess.run([python, *map(str, command)], check=False, **settings)

    return run
