"""Evaluating a run or a cohort: trains a head or scores what there is, and writes metrics, predictions and the classifier."""

import contextlib
import dataclasses
import pathlib
import time
from collections.abc import Callable
from typing import Any

import numpy as np

from ncl_tf import files
from ncl_tf.data.cohort import SplitData
from ncl_tf.data.declaration import Task
from ncl_tf.data.groups import characteristics
from ncl_tf.data.prepared_again import WithExternal
from ncl_tf.errors import InputError
from ncl_tf.evaluation.evaluator import Evaluator, TrainedClassifier
from ncl_tf.evaluation.heads import Progress, no_progress
from ncl_tf.evaluation.predictions import Scores, check_meds, check_psv, write, write_meds, write_predictions
from ncl_tf.evaluation.risk import check_task, fit_risks
from ncl_tf.evaluation.settings import TREES, EvaluationSettings
from ncl_tf.evaluation.subject import Subject
from ncl_tf.evaluation.ward import ward_metrics
from ncl_tf.methods.supervised import Classifier
from ncl_tf.runs import EvaluationFolder, environment
from ncl_tf.training import factories
from ncl_tf.training.loop import FitResult, OnReport


def evaluate(
    subject: Subject,
    settings: EvaluationSettings,
    overwrite: bool = False,
    psv: pathlib.Path | None = None,
    meds: pathlib.Path | None = None,
    on_report: OnReport = lambda step, report: None,
    progress: Progress = no_progress,
    export: Callable[..., None] | None = None,
    external: pathlib.Path | None = None,
) -> dict[str, Any]:
    """Evaluate a run or a cohort, write `<name>.*` into the subject's folder and return the JSON's content.

    An evaluation that was killed resumes where it was, if nothing that its result depends on has changed; trees start over.

    Args:
        psv: a new or empty folder for the predictions in the challenge's form.
        meds: a new Parquet file for the predictions of labelled hours in the form of MEDS.
        on_report, progress: see `Evaluator`.
        export: writes the classifier, `ncl_tf.serving.export.export_classifier`; None: no export.
        external: another cohort file, whose stays are scored instead; the settings have its name.
    """
    began = time.monotonic()
    settings, data, record = subject.completed(settings), subject.cohort, subject.record
    output = subject.evaluation_path(settings.name)
    _refuse_existing(output, overwrite)
    protocol = factories.trees() if settings.head == TREES else factories.protocol()
    kept = EvaluationFolder(output.with_suffix(""))
    limits = settings.labels, settings.label_seed
    held = WithExternal(data, external, settings.task, settings.split) if external else data
    evaluator = Evaluator(held, settings.task, protocol, record["seed"], *limits, kept, on_report, progress)
    evaluator.labelled(settings.scored)  # refuses what could not be scored, before the work
    check_task(settings, evaluator.task, data["val"].classes[:, evaluator.position])
    split = held[settings.scored]
    _check_outputs(psv, meds, evaluator.task, split)
    with contextlib.closing(kept):
        asked = {"settings": settings.of_training, "protocol": dataclasses.asdict(protocol)}
        kept.start(asked | {"run": record})
        _refuse_existing(output, overwrite)  # another process may have made it meanwhile
        spent = kept.record["wall_seconds"]
        trained = train_classifier(evaluator, settings, subject)
        scores, predictions, risks = scored(evaluator, trained, settings)
        result = _result(settings, asked["protocol"], subject, trained.fitted, scores)
        result |= {"wall_seconds": spent + time.monotonic() - began, **environment()}
        result |= {name: kept.record[name] for name in ("continued",) if name in kept.record}
        output.unlink(missing_ok=True)  # it does not describe the files that now appear beside it
        write_predictions(output.with_suffix(".parquet"), split, evaluator.position, predictions, risks)
        if export and settings.features == "representation" and settings.head != TREES and not external:
            export(kept.folder / "classifier", trained.classifier, data, record, result)
        kept.check_present()
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
    """Score the stays that the settings name, after all that is fitted and chosen on validation data.

    Returns what the evaluation's JSON gets of it; the predictions of all hours, [H, K]; and for a binary task their risks, [H].
    """
    binary, held = evaluator.task.kind == "binary", evaluator.cohort
    fitted = fit_risks(evaluator.hour_scores(trained, "val"), evaluator.task, settings) if binary else None
    found, predictions = evaluator.score(trained, settings.scored)
    found |= {"external": held.facts()} if settings.external else {}
    if not fitted:
        return found, predictions, None
    hours = evaluator.hour_scores(trained, settings.scored)
    found |= fitted.to_json(hours)
    groups = characteristics(held.external if settings.external else held, settings.split)
    found |= ward_metrics(hours, fitted, groups)
    return found, predictions, fitted.calibrator(hours.probabilities)


def _check_outputs(psv: pathlib.Path | None, meds: pathlib.Path | None, task: Task, split: SplitData) -> None:
    """Refuse further outputs that could not be written, before the work."""
    if psv:
        check_psv(psv, task, split.stay_names)
    if meds:
        check_meds(meds, task, split)


def _refuse_existing(output: pathlib.Path, overwrite: bool) -> None:
    """Refuse to replace an evaluation, unless it is wanted."""
    if output.exists() and not overwrite:
        raise InputError(f"{output}: exists already; pass --overwrite to replace it")


def _result(
    settings: EvaluationSettings, protocol: dict[str, Any], subject: Subject, fitted: FitResult, scores: dict[str, Any]
) -> dict[str, Any]:
    """Return the content of the evaluation's JSON, without what was measured while it was made."""
    kept = ("seed", "budget", "dataset", "cohort_checksum", "step", "wall_seconds")
    return {
        "name": settings.name,
        "settings": dataclasses.asdict(settings),
        **scores,
        "best_epoch": fitted.best_epoch,
        "curve": fitted.curve,
        "stopped_by_budget": fitted.stopped_by_budget or subject.record.get("stopped_by_budget", False),
        "protocol": protocol,
        "run": {key: subject.record[key] for key in kept},
        **{key: subject.record[key] for key in ("encoder",) if key in subject.record},
        "config": subject.config,
    }


def train_classifier(evaluator: Evaluator, settings: EvaluationSettings, subject: Subject) -> TrainedClassifier:
    """Train the classifier that the settings describe, or take that of an End-to-End run."""
    encoder, head = subject.encoder, settings.head
    if isinstance(subject.model, Classifier):
        run = subject.run
        return evaluator.scored(subject.model, FitResult(run.record["step"], run.reports, run.record["best_epoch"]))
    if head == TREES:
        return evaluator.trees(settings.features, encoder if settings.needs_encoder else None)
    if not settings.needs_encoder:
        return evaluator.raw(settings.features, head, subject.history)
    if settings.fine_tune:
        return evaluator.fine_tuned(encoder, head)
    return evaluator.frozen(encoder, head)
