"""A run that was trained briefly, evaluated and exported, and an environment without this project to load it in."""

import pathlib
import shutil
import subprocess
import sys
from collections.abc import Callable, Mapping
from typing import NamedTuple

import gin
import numpy as np
import pyarrow.parquet
import pytest

import ncl_tf
from docs.models import ship
from ncl_tf import runs
from ncl_tf.serving.export import export_encoder
from ncl_tf.serving.loading import Model
from ncl_tf.training import config, trainer
from tiny import eagerly, evaluate

# What hospitals have: nothing of this project, nor of what it is made with.
WITHOUT = """
import sys

class Blocker:
    def find_spec(self, name, path=None, target=None):
        if name.split(".")[0] in {"ncl_tf", "data_prep", "tcn", "gin", "h5py", "pandas", "pyarrow", "sklearn"}:
            raise ModuleNotFoundError(f"No module named {name!r}")

sys.meta_path.insert(0, Blocker())
"""
# Reads .psv files with Python alone; some stays are followed hour by hour, too.
SCORE = """
import json
import pathlib

import numpy as np
import tensorflow as tf

model, stays, output = map(pathlib.Path, sys.argv[1:4])
inputs = json.loads((model / "model.json").read_text())["inputs"]
functions, results = tf.saved_model.load(str(model / "1")), {}
print(sorted(functions.signatures))
for number, path in enumerate(sorted(stays.iterdir())):
    header, *lines = [line.split("|") for line in path.read_text().splitlines()]
    rows = np.array(lines, np.float32)
    values, static = (rows[:, [header.index(name) for name in inputs[part]]] for part in ("values", "static"))
    score = functions.signatures["score_stay"]
    outputs = score(values=tf.constant(values), static=tf.constant(static[:1]))
    results[path.stem], results["risk_" + path.stem] = (outputs[name].numpy() for name in ("probabilities", "risk"))
    if number % int(sys.argv[4]) == 0:
        size = [1, inputs["windows"]["hours"] - 1, len(inputs["state"])]
        state, hours, risks = np.full(size, np.nan, np.float32), [], []
        for row in values:
            following = functions.score_next(row[None], static[:1], state)
            hours.append(following["probabilities"][0])
            risks.append(following["risk"][0])
            state = following["state"]
        results["stream_" + path.stem], results["risk_stream_" + path.stem] = np.stack(hours), np.stack(risks)
np.savez(output, **results)
"""


class Exported(NamedTuple):
    """A run and its classifier."""

    run: pathlib.Path
    folder: pathlib.Path  # of the export
    predictions: dict  # of bin/evaluate for every hour of the test split, [hours, classes], by stay
    risks: dict  # of the same hours, [hours], by stay


@pytest.fixture(scope="session")
def export() -> Callable[..., Exported]:
    """Trains NCL(n_w) on a cohort with the given macros, evaluates it with an MLP head of one epoch and exports it."""

    def export(cohort: pathlib.Path, run: pathlib.Path, **macros: object) -> Exported:
        params = {"cohort": str(cohort), "jit_compile": False, "max_epochs": 1, "train.highest_rate": 0.01} | macros
        config.configure(["paper/physionet2019/ncl_w.gin"], [f"{name} = {value!r}" for name, value in params.items()])
        trainer.train(runs.Run(run), export=export_encoder)
        rate = ("protocol.mlp_rate = 0.01",)
        evaluate(run, gin_params=rate)
        gin.clear_config()
        return read(run)

    return export


def read(run: pathlib.Path) -> Exported:
    """Read what `export` has written."""
    frame = pyarrow.parquet.read_table(run / "evaluations/sepsis-mlp.parquet").to_pandas()
    classes = ["probability_0", "probability_1"]
    stays = dict(list(frame.groupby("stay", sort=False)))
    predictions = {stay: part[classes].to_numpy() for stay, part in stays.items()}
    risks = {stay: part["risk"].to_numpy() for stay, part in stays.items()}
    return Exported(run, run / "evaluations/sepsis-mlp/classifier", predictions, risks)


@pytest.fixture(scope="session")
def exported(export: Callable[..., Exported], ward_cohort: pathlib.Path, made_once: Callable) -> Exported:
    """A small model of the simulated ward, of half the paper's history."""
    return read(made_once("exported", lambda run: small(export, ward_cohort, run)))


@pytest.fixture(scope="session")
def shipped_models(exported: Exported, made_once: Callable) -> pathlib.Path:
    """A folder like models/, with the encoder and the classifier of `exported` as ward/ncl_w and ward/sepsis."""

    def make(folder: pathlib.Path) -> None:
        run = shutil.copytree(exported.run, folder / "run")
        evaluate(run, gin_params=("protocol.mlp_rate = 0.01",), split="val")
        ship("ward/ncl_w", run, None, folder / "models")
        ship("ward/sepsis", run, "sepsis-mlp", folder / "models")

    return made_once("shipped", make) / "models"


@pytest.fixture(scope="session")
def exported_observed(export: Callable[..., Exported], observed_cohort: pathlib.Path, made_once: Callable) -> Exported:
    """The same of the ward's cohort with observation columns."""
    return read(made_once("exported_observed", lambda run: small(export, observed_cohort, run)))


def small(export: Callable[..., Exported], cohort: pathlib.Path, run: pathlib.Path) -> None:
    """Export a small model of half the paper's history."""
    macros = {"steps": 2, "batch_size": 256, "queue_size": 1024, "report_every": 2}
    macros |= {"history": 24, "encoder.filters": 8, "encoder.dilations": (1, 12), "augmentation.layers": ()}
    with eagerly():  # tracing costs more than a few steps
        export(cohort, run, **macros)


@pytest.fixture(scope="session")
def model(exported: Exported) -> Model:
    """The classifier, loaded."""
    return ncl_tf.load(exported.folder)


@pytest.fixture(scope="session")
def observed_model(exported_observed: Exported) -> Model:
    """The classifier with observation columns, loaded."""
    return ncl_tf.load(exported_observed.folder)


@pytest.fixture(scope="session")
def stay_files(ward: pathlib.Path, exported: Exported, tmp_path_factory) -> pathlib.Path:
    """The files of the test split."""
    folder = tmp_path_factory.mktemp("stay_files")
    for stay in exported.predictions:
        shutil.copy(ward / f"{stay}.psv", folder)
    return folder


@pytest.fixture(scope="session")
def score_alone(tmp_path_factory) -> Callable[..., tuple[str, Mapping[str, np.ndarray]]]:
    """Score .psv files where only TensorFlow and numpy can be imported: what was printed, and the probabilities.

    Every n-th stay is scored hour by hour, too: its probabilities have the name stream_ and the stay's. The risks have the
    names of the probabilities after risk_.
    """

    def score_alone(model: pathlib.Path, stays: pathlib.Path, streamed_every: int):
        folder = tmp_path_factory.mktemp("elsewhere")
        command = [sys.executable, "-I", "-c", WITHOUT + SCORE, model, stays, folder / "out.npz", str(streamed_every)]
        done = subprocess.run(command, cwd=folder, capture_output=True, text=True, check=False)
        assert done.returncode == 0, done.stderr
        return done.stdout, np.load(folder / "out.npz")

    return score_alone
