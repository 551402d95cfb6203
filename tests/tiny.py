"""Trainings of the paper's methods that are over in a moment, and evaluations, in the process of the tests."""

import contextlib
import pathlib
from collections.abc import Iterator

import tensorflow as tf

from ncl_tf import runs
from ncl_tf.evaluation import evaluate as evaluation
from ncl_tf.evaluation.settings import EvaluationSettings
from ncl_tf.evaluation.subject import load_run
from ncl_tf.serving.export import export_classifier, export_encoder
from ncl_tf.training import config, trainer

TINY = {"fast": False, "jit_compile": False, "encoder.dilations": (24,), "encoder.filters": 8}  # reaches 48 hours


def bindings(macros: dict[str, object]) -> list[str]:
    """Write macros as users give them by --gin_param."""
    return [f"{name} = {value!r}" for name, value in macros.items()]


def train(run_dir: pathlib.Path, method: str, cohort: pathlib.Path, /, files: tuple[str, ...] = (), **macros) -> None:
    """Train a method of the paper, for example "physionet2019/ncl_w"; its errors are those that users see."""
    config.configure([f"paper/{method}.gin", *files], bindings(TINY | {"cohort": str(cohort)} | macros))
    with config.plain_errors():
        trainer.train(runs.Run(run_dir), export=export_encoder)


def evaluate(
    run_dir: pathlib.Path, cohort=None, gin_params=(), overwrite=False, psv=None, meds=None, external=None, **settings
) -> dict:
    """Evaluate a run as bin/evaluate does: evaluate(run_dir, head="linear", labels=0.5)."""
    if external:
        settings = {"split": "all", "external": external.stem} | settings
    asked, subject = EvaluationSettings(**settings), load_run(run_dir, cohort, gin_params)
    files = {"psv": psv, "meds": meds, "external": external}
    return evaluation.evaluate(subject, asked, overwrite, **files, export=export_classifier)


@contextlib.contextmanager
def eagerly() -> Iterator[None]:
    """Run without graphs: tracing one costs more than a few steps."""
    tf.config.run_functions_eagerly(True)
    yield
    tf.config.run_functions_eagerly(False)
