"""One run, trained for a moment, of which the figures and the report of the tests are made."""

import pathlib
from collections.abc import Callable

import gin
import pytest
import tensorflow as tf

from ncl_tf import runs
from ncl_tf.evaluation.evaluate import EvaluationSettings, evaluate
from ncl_tf.evaluation.subject import load_run
from ncl_tf.paper import tables
from ncl_tf.paper.plan import Plan
from ncl_tf.serving.export import export_classifier, export_encoder
from ncl_tf.training import config, trainer

TINY = {"fast": False, "jit_compile": False, "encoder.dilations": (24,), "encoder.filters": 8, "report_every": 1}
TINY |= {"batch_size": 256, "queue_size": 512, "protocol.batch_size": 256, "protocol.mlp_rate": 1e-2}


@pytest.fixture(scope="session")
def trained_run(ward_cohort: pathlib.Path, made_once: Callable[..., pathlib.Path]) -> pathlib.Path:
    """A run of NCL(n_w) as bin/reproduce trains it for alpha 0, evaluated on the validation and the test split."""
    table = tables.load_table("alpha_n_w_physionet2019").narrowed(["alpha_0.0"])

    def make(folder: pathlib.Path) -> None:
        params = [f"{name} = {value!r}" for name, value in TINY.items()]
        training = Plan(table, str(ward_cohort), "smoke", 1, gin_params=params, output=str(folder)).jobs()[0]
        flags = [tuple(argument.removeprefix("--").split("=", 1)) for argument in training.arguments]
        tf.config.run_functions_eagerly(True)  # tracing costs more than a few steps
        config.configure(*([value for name, value in flags if name == kind] for kind in ("gin_file", "gin_param")))
        trainer.train(runs.Run(training.run_dir), export=export_encoder)
        evaluate(load_run(training.run_dir), EvaluationSettings("sepsis", "mlp", split="val"))
        evaluate(load_run(training.run_dir), EvaluationSettings("sepsis", "mlp"), export=export_classifier)
        gin.clear_config()
        tf.config.run_functions_eagerly(False)

    return made_once("reporting", make) / "runs" / "ncl_w-alpha_0.0-window_12-seed1111"
