"""Evaluating a run: loads it, trains a head or scores what it has, and writes metrics, predictions and the classifier."""

import contextlib
import dataclasses
import inspect
import pathlib
import time
from collections.abc import Callable
from typing import Any

import gin
import keras
import numpy as np

from ncl_tf import files
from ncl_tf.data.cohort import Cohort
from ncl_tf.data.groups import characteristics
from ncl_tf.errors import InputError
from ncl_tf.evaluation.evaluator import Evaluator, TrainedClassifier
from ncl_tf.evaluation.heads import Progress, no_progress
from ncl_tf.evaluation.predictions import Scores, check_meds, check_psv, write, write_meds, write_predictions
from ncl_tf.evaluation.risk import check_task, fit_risks
from ncl_tf.evaluation.settings import EvaluationSettings
from ncl_tf.evaluation.ward import ward_metrics
from ncl_tf.methods.supervised import Classifier
from ncl_tf.runs import EvaluationFolder, Run, StoredRun, bindings, environment
from ncl_tf.training import config, factories, trainer  # noqa: F401 - a run's configuration binds training
from ncl_tf.training.loop import FitResult, OnReport


def evaluate(
    folder: pathlib.Path,
    settings: EvaluationSettings,
    cohort: str | None = None,
    gin_params: tuple[str, ...] = (),
    overwrite: bool = False,
    psv: pathlib.Path | None = None,
    meds: pathlib.Path | None = None,
    on_report: OnReport = lambda step, report: None,
    progress: Progress = no_progress,
    export: Callable[..., None] | None = None,
) -> dict[str, Any]:
    """Evaluate the run in `folder`, write `evaluations/<name>.*` there and return the JSON's content.

    An evaluation that was killed resumes where it was, if nothing that its result depends on has changed.

    Args:
        cohort: path of the run's cohort file; None: where it was in training.
        gin_params: bindings of the protocol.
        psv: a new or empty folder for the predictions in the challenge's form.
        meds: a new Parquet file for the predictions of labelled hours in the form of MEDS.
        on_report, progress: see `Evaluator`.
        export: writes the classifier, `ncl_tf.serving.export.export_classifier`; None: no export.
    """
    began = time.monotonic()
    run, data, model = load_run(folder, cohort, gin_params)
    settings = completed(settings, run, data, model, gin_params)
    output = run.evaluation_path(settings.name)
    _refuse_existing(output, overwrite)
    protocol, kept = factories.protocol(), EvaluationFolder(output.with_suffix(""))
    limits = settings.labels, settings.label_seed
    evaluator = Evaluator(data, settings.task, protocol, run.record["seed"], *limits, kept, on_report, progress)
    evaluator.labelled(settings.split)  # refuses what could not be scored, before the work
    check_task(settings, evaluator.task, data["val"].classes[:, evaluator.position])
    if psv:
        check_psv(psv, evaluator.task, data[settings.split].stay_names)
    if meds:
        check_meds(meds, evaluator.task, data[settings.split])
    with contextlib.closing(kept):
        asked = {"settings": settings.of_training, "protocol": dataclasses.asdict(protocol)}
        kept.start(asked | {"run": run.record})
        _refuse_existing(output, overwrite)  # another process may have made it meanwhile
        spent = kept.record["wall_seconds"]
        trained = train_classifier(evaluator, settings, run, model)
        scores, predictions, risks = scored(evaluator, trained, settings)
        result = _result(settings, asked["protocol"], run, trained.fitted, scores)
        result |= {"wall_seconds": spent + time.monotonic() - began, **environment()}
        result |= {name: kept.record[name] for name in ("continued",) if name in kept.record}
        output.unlink(missing_ok=True)  # it does not describe the files that now appear beside it
        split = data[settings.split]
        write_predictions(output.with_suffix(".parquet"), split, evaluator.position, predictions, risks)
        if export and settings.features == "representation":
            export(run.classifier_path(settings.name), trained.classifier, data, run.record, result)
        files.write_json(output, result)
        kept.remove()
    if psv:
        write(psv, Scores(split.stay_names, split.lengths, split.hour, predictions), "psv")
    if meds:
        write_meds(meds, split, evaluator.position, predictions)
    return result


def scored(
    evaluator: Evaluator, trained: TrainedClassifier, settings: EvaluationSettings
) -> tuple[dict[str, Any], np.ndarray, np.ndarray | None]:
    """Score the split that the settings name, after all that is fitted and chosen on validation data.

    Returns what the evaluation's JSON gets of it; the predictions of all hours, [H, K]; and for a binary task their risks, [H].
    """
    if evaluator.task.kind != "binary":
        return *evaluator.score(trained, settings.split), None
    fitted = fit_risks(evaluator.hour_scores(trained, "val"), evaluator.task, settings)
    found, predictions = evaluator.score(trained, settings.split)
    hours = evaluator.hour_scores(trained, settings.split)
    found |= fitted.to_json(hours)
    found |= ward_metrics(hours, fitted, characteristics(evaluator.cohort, settings.split))
    return found, predictions, fitted.calibrator(hours.probabilities)


def _refuse_existing(output: pathlib.Path, overwrite: bool) -> None:
    """Refuse to replace an evaluation, unless it is wanted."""
    if output.exists() and not overwrite:
        raise InputError(f"{output}: exists already; pass --overwrite to replace it")


def _result(
    settings: EvaluationSettings, protocol: dict[str, Any], run: StoredRun, fitted: FitResult, scores: dict[str, Any]
) -> dict[str, Any]:
    """Return the content of the evaluation's JSON, without what was measured while it was made."""
    kept = ("seed", "budget", "dataset", "cohort_checksum", "step", "wall_seconds")
    return {
        "name": settings.name,
        "settings": dataclasses.asdict(settings),
        **scores,
        "best_epoch": fitted.best_epoch,
        "curve": fitted.curve,
        "stopped_by_budget": fitted.stopped_by_budget or run.record.get("stopped_by_budget", False),
        "protocol": protocol,
        "run": {key: run.record[key] for key in kept},
        "config": run.config,
    }


def load_run(
    folder: pathlib.Path, cohort: str | None, gin_params: tuple[str, ...]
) -> tuple[StoredRun, Cohort, keras.Model]:
    """Load a finished run, its cohort (checked to be the same) and its model with the trained weights."""
    stored = StoredRun(folder)
    stored.require_finished()
    config.configure_again(stored.configuration, [])
    trained = bindings(gin.config_str())
    config.configure_again(stored.configuration, gin_params)
    for name, value in bindings(gin.config_str()).items():
        if value != trained.get(name) and not name.startswith("protocol."):
            raise InputError(
                f"--gin_param must set bindings of the protocol, protocol.NAME = VALUE with a NAME of "
                f"{', '.join(inspect.signature(factories.protocol).parameters)}, got {name} = {value}"
            )
    data = stored.cohort(Cohort, cohort)
    model = config.method()(cohort=data, seed=stored.record["seed"], fast=True)
    model.build((None, model.window_hours, len(data.columns)))
    run = Run(folder)
    run.writes = False
    if run.restore(model) != stored.record["step"]:
        raise InputError(
            f"{folder}: no readable checkpoint of step {stored.record['step']}, so there is no encoder to evaluate; "
            "train again in another --run_dir"
        )
    return stored, data, model


def completed(
    settings: EvaluationSettings, run: StoredRun, data: Cohort, model: keras.Model, gin_params: tuple[str, ...]
) -> EvaluationSettings:
    """Return the settings with task and head named; an End-to-End run has both, and allows nothing else."""
    if not isinstance(model, Classifier):
        return dataclasses.replace(settings, task=settings.task or data.tasks[0].name, head=settings.head or "mlp")
    free = {"split": settings.split} | settings.of_alarms
    own = EvaluationSettings(data.tasks[model.task].name, model.head.kind, **free)
    asked = dataclasses.replace(settings, task=settings.task or own.task, head=settings.head or own.head)
    for name, value in dataclasses.asdict(asked).items():
        if value != (allowed := dataclasses.asdict(own)[name]):
            raise InputError(
                f"{run.folder}: End-to-End has trained its own head, so it is only scored; --{name} must be {allowed}, "
                f"got {value}"
            )
    if gin_params:
        raise InputError(f"{run.folder}: End-to-End is only scored, so it takes no --gin_param, got {gin_params[0]!r}")
    return own


def train_classifier(
    evaluator: Evaluator, settings: EvaluationSettings, run: StoredRun, model: keras.Model
) -> TrainedClassifier:
    """Train the classifier that the settings describe, or take that of an End-to-End run."""
    if isinstance(model, Classifier):
        return evaluator.scored(model, FitResult(run.record["step"], run.reports, run.record["best_epoch"]))
    if settings.features != "representation":
        return evaluator.raw(settings.features, settings.head, model.encoder.history)
    if settings.fine_tune:
        return evaluator.fine_tuned(model.encoder, settings.head)
    return evaluator.frozen(model.encoder, settings.head)
