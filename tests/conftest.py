"""Shared fixtures: small simulated wards in both forms, cohorts prepared from them, and real data where it is at hand.

Real data is found by the environment: NCL_PHYSIONET2019 is a folder with training_setA.zip and training_setB.zip,
NCL_MIMIC3_DEMO one with multitask.tar.xz. NCL_PAPER is a folder with the paper's LaTeX text.
"""

import os
import pathlib
import resource
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator

import pytest

from ncl_tf.data.cohort import write_cohort
from ncl_tf.data.datasets import MIMIC3_BENCHMARK, PHYSIONET2019
from ncl_tf.data.simulator.ward import write_ward
from ncl_tf.data.sources import mimic3_benchmark, physionet2019
from ncl_tf.data.splits import random_split
from processes import ROOT, start, wait_for

BEGIN = time.monotonic()
LONGEST = (
    "test_bin_reproduce.py",
    "test_learning.py",
    "test_distribution.py",
    "test_evaluate.py",
    "test_end_to_end.py",
    "test_gin.py",
    "test_autoencoder.py",
    "test_bin_train.py",
    "test_training.py",
    "test_momentum.py",
)


# For all tests and the processes that they start: compiled code need not be fast, and two workers share two cores.
os.environ.setdefault("XLA_FLAGS", "--xla_backend_optimization_level=1")
for _variable in ("TF_NUM_INTRAOP_THREADS", "TF_NUM_INTEROP_THREADS", "OMP_NUM_THREADS"):
    os.environ.setdefault(_variable, "1")


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """The longest files come first, so that two workers end at about the same time."""
    items.sort(key=lambda item: LONGEST.index(item.path.name) if item.path.name in LONGEST else len(LONGEST))


@pytest.hookimpl(trylast=True)
def pytest_terminal_summary(terminalreporter) -> None:
    """Show how long the tests took; workers of pytest-xdist and programs that tests ran have ended by now and count."""
    times = [resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)]
    cpu = sum(used.ru_utime + used.ru_stime for used in times)
    wall = time.monotonic() - BEGIN
    terminalreporter.write_line(f"took {wall / 60:.1f} minutes and {cpu / 60:.1f} minutes of CPU time")


@pytest.fixture(scope="session")
def ward(tmp_path_factory: pytest.TempPathFactory) -> pathlib.Path:
    """72 simulated stays as .psv files, 8 of them septic."""
    folder = tmp_path_factory.mktemp("wards") / "physionet2019"
    write_ward(72, seed=1, output=folder)
    return folder


@pytest.fixture(scope="session")
def mimic_ward(tmp_path_factory: pytest.TempPathFactory) -> pathlib.Path:
    """72 simulated stays in the form of the MIMIC-III Benchmark's multitask folder."""
    folder = tmp_path_factory.mktemp("wards") / "mimic3_benchmark"
    write_ward(72, seed=1, output=folder, form="mimic3_benchmark")
    return folder


@pytest.fixture(scope="session")
def ward_cohort(ward: pathlib.Path, tmp_path_factory: pytest.TempPathFactory) -> pathlib.Path:
    """The cohort file of `ward`."""
    path = tmp_path_factory.mktemp("cohorts") / "ward.h5"
    stays, checksum = physionet2019.read_stays([ward])
    write_cohort(path, PHYSIONET2019, stays, random_split(stays.ever_positive(), seed=0), checksum)
    return path


@pytest.fixture(scope="session")
def mimic_ward_cohort(mimic_ward: pathlib.Path, tmp_path_factory: pytest.TempPathFactory) -> pathlib.Path:
    """The cohort file of `mimic_ward`."""
    path = tmp_path_factory.mktemp("cohorts") / "mimic_ward.h5"
    stays, split, checksum = mimic3_benchmark.read_stays(mimic_ward, carry_back=False, shift=0)
    write_cohort(path, MIMIC3_BENCHMARK, stays, split, checksum)
    return path


def _real_data(variable: str, names: list[str]) -> list[pathlib.Path]:
    folder = os.environ.get(variable)
    if not folder:
        pytest.skip(f"{variable} is not set; it names the folder with {' and '.join(names)}")
    return [pathlib.Path(folder) / name for name in names]


@pytest.fixture(scope="session")
def physionet2019_zips() -> list[pathlib.Path]:
    """The two official zips of PhysioNet 2019."""
    return _real_data("NCL_PHYSIONET2019", ["training_setA.zip", "training_setB.zip"])


@pytest.fixture(scope="session")
def mimic3_demo() -> pathlib.Path:
    """The multitask output of mimic3-benchmarks on the open demo of MIMIC-III, as tar file."""
    return _real_data("NCL_MIMIC3_DEMO", ["multitask.tar.xz"])[0]


@pytest.fixture(scope="session")
def paper_text() -> str:
    """The paper in LaTeX."""
    folder = os.environ.get("NCL_PAPER")
    if not folder:
        pytest.skip("NCL_PAPER is not set; it names the folder with the paper's LaTeX text")
    files = sorted(path for path in pathlib.Path(folder).iterdir() if path.suffix in (".txt", ".tex"))
    return "\n".join(path.read_text(encoding="utf-8") for path in files)


@pytest.fixture(scope="session")
def physionet2019_cohort(
    physionet2019_zips: list[pathlib.Path], tmp_path_factory: pytest.TempPathFactory, run: Callable
) -> pathlib.Path:
    """The paper's PhysioNet cohort, prepared once as a user does it."""
    path = tmp_path_factory.mktemp("cohorts") / "physionet2019.h5"
    result = run("bin/prepare", "physionet2019", *(f"--source={zip}" for zip in physionet2019_zips), f"--output={path}")
    assert result.returncode == 0, result.stderr
    return path


@pytest.fixture(scope="session")
def mimic3_demo_cohort(
    mimic3_demo: pathlib.Path, tmp_path_factory: pytest.TempPathFactory, run: Callable
) -> pathlib.Path:
    """The demo's cohort, prepared as a user does it."""
    path = tmp_path_factory.mktemp("cohorts") / "mimic3_demo.h5"
    result = run("bin/prepare", "mimic3_benchmark", f"--source={mimic3_demo}", f"--output={path}")
    assert result.returncode == 0, result.stderr
    return path


@pytest.fixture(scope="session")
def python() -> Iterator[str]:
    """A Python for start([python, "bin/train", ...]): programs of bin/ find TensorFlow imported (see preloaded.py)."""
    with tempfile.TemporaryDirectory(prefix="ncl_") as folder:  # pytest's folders are too long for the name of a socket
        listener, python = pathlib.Path(folder, "listener"), pathlib.Path(folder, "python")
        script = ROOT / "tests" / "preloaded.py"
        python.write_text(f'#!/bin/sh\nexec "{sys.executable}" -SE "{script}" run {listener} "$0" "$@"\n')
        python.chmod(0o755)
        environment = os.environ | {"PYTHONPATH": str(ROOT)}
        server = start([sys.executable, script, "serve", listener], env=environment, stdin=subprocess.PIPE)
        wait_for(listener.exists, server)
        yield str(python)
        server.communicate()


@pytest.fixture(scope="session")
def run(python: str) -> Callable[..., subprocess.CompletedProcess]:
    """Run a program of the project in a process of its own: run("bin/prepare", "table", "--help")."""

    def run(*command: str | pathlib.Path) -> subprocess.CompletedProcess:
        return subprocess.run(
            [python, *map(str, command)], cwd=ROOT, capture_output=True, text=True, timeout=300, check=False
        )

    return run
