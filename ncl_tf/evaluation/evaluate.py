"""Judging a run: loads it, trains a head or scores what it has, and writes metrics, predictions and the classifier."""

import dataclasses
import inspect
import pathlib
import time
from collections.abc import Callable
from typing import Any

import gin
import keras

from ncl_tf import files  # noqa: F401 - a run's configuration binds training
from ncl_tf.data.cohort import Cohort
from ncl_tf.errors import InputError
from ncl_tf.evaluation.evaluator import Evaluator, TrainedClassifier
from ncl_tf.evaluation.heads import FitResult, Progress, no_progress
from ncl_tf.evaluation.predictions import Scores, check_psv, write, write_predictions
from ncl_tf.evaluation.settings import EvaluationSettings
from ncl_tf.methods.supervised import Classifier
from ncl_tf.runs import Run, bindings, environment
from ncl_tf.training import config, factories, trainer  # noqa: F401 - a run's configuration binds training


def evaluate(
    folder: pathlib.Path,
    question: EvaluationSettings,
    cohort: str | None = None,
    gin_params: tuple[str, ...] = (),
    overwrite: bool = False,
    psv: pathlib.Path | None = None,
    report: Callable[[int, float, float], None] = lambda *_: None,
    progress: Progress = no_progress,
    export: Callable[..., None] | None = None,
) -> dict[str, Any]:
    """Answers a question about the run in `folder`, writes `evaluations/<name>.*` there and returns the JSON's content.

    Args:
        folder: the run directory.
        question: what to find out.
        cohort: path of the run's cohort file; None: where it was in training.
        gin_params: bindings of the protocol.
        overwrite: make an evaluation of that name anew.
        psv: a new or empty folder for the predictions in the challenge's form.
        report: called after each epoch with its number and both losses.
        progress: of embedding, of each epoch and of predictions.
        export: writes the classifier, `ncl_tf.serving.export.export_classifier`; None: no export.
    """
    began = time.monotonic()
    run, data, model = load_run(folder, cohort, gin_params)
    question = completed(question, run, data, model, gin_params)
    output = run.folder / "evaluations" / f"{question.name}.json"
    if output.exists() and not overwrite:
        raise InputError(f"{output}: exists already; pass --overwrite to make it anew")
    protocol = factories.protocol()
    seed = run.record["seed"]
    judge = Evaluator(data, question.task, protocol, seed, question.labels, question.label_seed, report, progress)
    judge.labelled(question.split)  # refuses what could not be scored, before the work
    if psv:
        check_psv(psv, judge.task, data[question.split].stay_names)
    judged = answer(judge, question, run, model)
    scores, predictions = judge.score(judged, question.split)
    result = {
        "name": question.name,
        "settings": dataclasses.asdict(question),
        **scores,
        "best_epoch": judged.fitted.best_epoch,
        "curve": judged.fitted.curve,
        "stopped_by_budget": judged.fitted.stopped_by_budget or run.record.get("stopped_by_budget", False),
        "protocol": dataclasses.asdict(protocol),
        "run": {
            key: run.record[key] for key in ("seed", "budget", "dataset", "cohort_checksum", "step", "wall_seconds")
        },
        "config": bindings((run.folder / "config.gin").read_text(encoding="utf-8")),
        "wall_seconds": time.monotonic() - began,
        **environment(),
    }
    output.unlink(missing_ok=True)  # what it told is no longer true of the files beside it
    write_predictions(output.with_suffix(".parquet"), data[question.split], judge.position, predictions)
    if export and question.features == "representation":
        export(output.with_suffix("") / "classifier", judged.classifier, data, run.record, result)
    files.write_json(output, result)
    if psv:
        split = data[question.split]
        write(psv, Scores(split.stay_names, split.lengths, split.hour, predictions), "psv")
    return result


def load_run(folder: pathlib.Path, cohort: str | None, gin_params: tuple[str, ...]) -> tuple[Run, Cohort, keras.Model]:
    """The run, its cohort (checked to be the same) and its model with the trained weights."""
    run = Run(folder)
    run.writes = False
    if not (folder / "run.json").exists():
        raise InputError(f"{folder}: no run.json, so not a run directory")
    run.read()
    if not run.finished:
        raise InputError(
            f"{folder}: the training has not finished (step {run.record['step']}), so there is no encoder; "
            "start the same bin/train command again"
        )
    config.load_again(folder / "config.gin", [])
    trained = bindings(gin.config_str())
    config.load_again(folder / "config.gin", gin_params)
    for name, value in bindings(gin.config_str()).items():
        if value != trained.get(name) and not name.startswith("protocol."):
            raise InputError(
                f"--gin_param sets {name} = {value}; allowed: bindings of the protocol, protocol.NAME = VALUE with a "
                f"NAME of {', '.join(inspect.signature(factories.protocol).parameters)}"
            )
    path = pathlib.Path(cohort or config.macro("cohort"))
    if not cohort and not path.exists():
        raise InputError(
            f"{path}: no such file, and the run was trained on it; if it has moved, or the path holds for another folder "
            "than this one, name it by --cohort"
        )
    data = Cohort(path)
    if len(data.columns) != run.record["columns"]:
        raise InputError(
            f"{data.path}: {len(data.columns)} columns, but the run was trained on {run.record['columns']}"
        )
    if data.checksum != run.record["cohort_checksum"]:
        raise InputError(
            f"{data.path}: another cohort than the run's; its SHA-256 is {data.checksum}, "
            f"the run's {run.record['cohort_checksum']}"
        )
    model = config.method()(cohort=data, seed=run.record["seed"], fast=True)
    model.build((None, model.window_hours, len(data.columns)))
    if run.restore(model) != run.record["step"]:
        raise InputError(
            f"{folder}: no readable checkpoint of step {run.record['step']}, so there is no encoder to judge; "
            "train again in another --run_dir"
        )
    return run, data, model


def completed(
    question: EvaluationSettings, run: Run, data: Cohort, model: keras.Model, gin_params: tuple[str, ...]
) -> EvaluationSettings:
    """The question with task and head named; of an End-to-End run, which has both, nothing else can be asked."""
    if not isinstance(model, Classifier):
        return dataclasses.replace(question, task=question.task or data.tasks[0].name, head=question.head or "mlp")
    own = EvaluationSettings(data.tasks[model.task].name, model.head.kind, split=question.split)
    asked = dataclasses.replace(question, task=question.task or own.task, head=question.head or own.head)
    for name, value in dataclasses.asdict(asked).items():
        if value != getattr(own, name):
            raise InputError(
                f"{run.folder}: End-to-End has trained its own head, so it is only scored; "
                f"--{name}={value}, allowed: {getattr(own, name)}"
            )
    if gin_params:
        raise InputError(f"{run.folder}: End-to-End is only scored, so --gin_param={gin_params[0]!r} has no meaning")
    return own


def answer(judge: Evaluator, question: EvaluationSettings, run: Run, model: keras.Model) -> TrainedClassifier:
    """The classifier that the question asks for."""
    if isinstance(model, Classifier):
        curve = [{name: line[name] for name in ("loss", "val_loss")} for line in run.reports()]
        return judge.scored(model, FitResult(run.record["best_epoch"], curve))
    if question.features != "representation":
        return judge.raw(question.features, question.head, model.encoder.history)
    if question.fine_tune:
        return judge.fine_tuned(model.encoder, question.head)
    return judge.frozen(model.encoder, question.head)
