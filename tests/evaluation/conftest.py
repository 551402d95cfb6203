"""Runs to be evaluated: trained for a moment, without graphs."""

import json
import pathlib
import shutil

import pytest

import tiny
from ncl_tf.data.cohort import Cohort
from trainings import record

SETTINGS = {"augmentation.layers": ("channel_dropout",)}  # one draw by step suffices here
SETTINGS |= {"batch_size": 256, "queue_size": 512, "steps": 2, "report_every": 1, "max_epochs": 3}
RATES = {"linear_rate": 1e-2, "mlp_rate": 1e-2, "fine_tune_rate": 1e-3}
SETTINGS |= {f"protocol.{name}": value for name, value in (RATES | {"batch_size": 256}).items()}


@pytest.fixture(scope="module")
def cohort(ward_cohort):
    return Cohort(ward_cohort)


@pytest.fixture(scope="module")
def trained(eager, tmp_path_factory):
    """Train a method of the paper with tiny settings."""

    def trained(method: str, cohort: pathlib.Path, **macros) -> pathlib.Path:
        folder = tmp_path_factory.mktemp("runs")
        settings = folder / "settings.gin"  # files may hold what a method ignores
        settings.write_text("\n".join(tiny.bindings(SETTINGS)))
        tiny.train(folder / "run", method, cohort, files=(str(settings),), **macros)
        return folder / "run"

    return trained


@pytest.fixture(scope="module")
def adopted():
    """Copies a run into a folder, where it takes another cohort for its own."""

    def adopted(run_dir: pathlib.Path, data: pathlib.Path, folder: pathlib.Path) -> pathlib.Path:
        shutil.copytree(run_dir, folder, ignore=shutil.ignore_patterns("evaluations"))
        found = record(folder) | {"cohort_checksum": Cohort(data).checksum}
        (folder / "run.json").write_text(json.dumps(found))
        return folder

    return adopted


@pytest.fixture(scope="module")
def ncl_w(trained, ward_cohort):
    """A run of NCL(n_w)."""
    return trained("physionet2019/ncl_w", ward_cohort)
