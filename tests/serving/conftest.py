"""A run that was trained briefly, evaluated and exported, and an environment without this project to load it in."""

import pathlib
import subprocess
import sys
from collections.abc import Callable
from typing import NamedTuple

import gin
import pyarrow.parquet
import pytest
import tensorflow as tf

import ncl_tf
from ncl_tf import runs
from ncl_tf.evaluation import evaluate
from ncl_tf.serving.export import export_classifier, export_encoder
from ncl_tf.serving.loading import Model
from ncl_tf.training import config, trainer

# What hospitals have: nothing of this project, nor of what it is made with.
WITHOUT = """
import sys

class Blocker:
    def find_spec(self, name, path=None, target=None):
        if name.split(".")[0] in {"ncl_tf", "data_prep", "tcn", "gin", "h5py", "pandas", "pyarrow", "sklearn"}:
            raise ModuleNotFoundError(f"No module named {name!r}")

sys.meta_path.insert(0, Blocker())
"""


class Exported(NamedTuple):
    """A run and its classifier.

    Attributes:
        run: its directory.
        folder: of the export.
        predictions: of bin/evaluate for every hour of the test split, [hours, classes], by stay.
    """

    run: pathlib.Path
    folder: pathlib.Path
    predictions: dict


@pytest.fixture(scope="session")
def export() -> Callable[..., Exported]:
    """Trains NCL(n_w) on a cohort with the given macros, evaluates it with an MLP head of one epoch and exports it."""

    def export(cohort: pathlib.Path, run: pathlib.Path, **macros: object) -> Exported:
        params = {"cohort": str(cohort), "jit_compile": False, "max_epochs": 1, "train.highest_rate": 0.01} | macros
        config.configure(["paper/physionet2019/ncl_w.gin"], [f"{name} = {value!r}" for name, value in params.items()])
        trainer.train(runs.Run(run), export=export_encoder)
        evaluate.evaluate(
            run, evaluate.EvaluationSettings(), gin_params=("protocol.mlp_rate = 0.01",), export=export_classifier
        )
        gin.clear_config()
        return read(run)

    return export


def read(run: pathlib.Path) -> Exported:
    """Read what `export` has written."""
    frame = pyarrow.parquet.read_table(run / "evaluations/sepsis-mlp.parquet").to_pandas()
    classes = ["probability_0", "probability_1"]
    predictions = {stay: part[classes].to_numpy() for stay, part in frame.groupby("stay", sort=False)}
    return Exported(run, run / "evaluations/sepsis-mlp/classifier", predictions)


@pytest.fixture(scope="session")
def exported(
    export: Callable[..., Exported], ward_cohort: pathlib.Path, made_once: Callable[..., pathlib.Path]
) -> Exported:
    """A small model of the simulated ward, of half the paper's history."""
    sizes = {"steps": 2, "batch_size": 256, "queue_size": 1024, "report_every": 2}
    network = {"history": 24, "encoder.filters": 8, "encoder.dilations": (1, 12), "augmentation.layers": ()}

    def make(run: pathlib.Path) -> None:
        tf.config.run_functions_eagerly(True)  # tracing costs more than a few steps
        export(ward_cohort, run, **sizes, **network)
        tf.config.run_functions_eagerly(False)

    return read(made_once("exported", make))


@pytest.fixture(scope="session")
def model(exported: Exported) -> Model:
    """The classifier, loaded."""
    return ncl_tf.load(exported.folder)


@pytest.fixture(scope="session")
def alone(tmp_path_factory: pytest.TempPathFactory) -> Callable[..., str]:
    """Run Python code where only TensorFlow and numpy can be imported; return what it prints."""
    folder = tmp_path_factory.mktemp("elsewhere")

    def run(code: str, *arguments: object) -> str:
        command = [sys.executable, "-I", "-c", WITHOUT + code, *map(str, arguments)]
        done = subprocess.run(command, cwd=folder, capture_output=True, text=True, check=False)
        assert done.returncode == 0, done.stderr
        return done.stdout

    return run
