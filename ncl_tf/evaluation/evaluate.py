"""Judging a run: loads it, trains a head or scores what it has, and writes metrics, predictions and the classifier."""

import dataclasses
import pathlib
import time
from collections.abc import Callable
from typing import Any

import keras
import numpy as np
import pyarrow as pa
import pyarrow.parquet

from ncl_tf import config, files, training  # noqa: F401 - a run's configuration binds training
from ncl_tf.data.cohort import Cohort, SplitData
from ncl_tf.data.splits import SPLITS
from ncl_tf.data.windows import HISTORY
from ncl_tf.errors import InputError
from ncl_tf.evaluation.heads import HEADS
from ncl_tf.evaluation.protocol import FEATURES, Judge, Judged
from ncl_tf.runs import Run, environment
from ncl_tf.serving.export import export_classifier


@dataclasses.dataclass(frozen=True)
class Question:
    """What to find out about a run.

    Attributes:
        task: name of the task; None: the cohort's first.
        head: 'linear' or 'mlp'.
        features: 'representation', or as sanity baselines the raw 'last_hour' or 'window'.
        fine_tune: train the encoder, too.
        labels, label_seed: fraction of the training stays whose labels are used, and the choice of them.
        split: on which to report.
    """

    task: str | None = None
    head: str = "mlp"
    features: str = "representation"
    fine_tune: bool = False
    labels: float = 1.0
    label_seed: int = 0
    split: str = "test"

    def __post_init__(self) -> None:
        for name, value, allowed in (
            ("head", self.head, HEADS),
            ("features", self.features, FEATURES),
            ("split", self.split, SPLITS),
        ):
            if value not in allowed:
                raise InputError(f"{name} is {value!r}; allowed: {', '.join(allowed)}")

    @property
    def name(self) -> str:
        """Of the evaluation's files."""
        parts = [self.task, self.head]
        parts += [self.features] * (self.features != "representation") + ["fine_tuned"] * self.fine_tune
        parts += [f"labels_{self.labels:g}_{self.label_seed}"] * (self.labels != 1)
        parts += [self.split] * (self.split != "test")
        return "-".join(parts)


def evaluate(
    folder: pathlib.Path,
    question: Question,
    cohort: str | None = None,
    gin_params: tuple[str, ...] = (),
    overwrite: bool = False,
    report: Callable[[int, float, float], None] = lambda *_: None,
    progress: Callable = lambda batches: batches,
) -> dict[str, Any]:
    """Answers a question about the run in `folder`, writes `evaluations/<name>.*` there and returns the JSON's content."""
    began = time.monotonic()
    run, data, model = load_run(folder, cohort, gin_params)
    question = dataclasses.replace(question, task=question.task or data.tasks[0].name)
    output = run.folder / "evaluations" / f"{question.name}.json"
    if output.exists() and not overwrite:
        raise InputError(f"{output}: exists already; pass --overwrite to make it anew")
    protocol = config.protocol()
    seed = run.record["seed"]
    judge = Judge(data, question.task, protocol, seed, question.labels, question.label_seed, report)
    judged = answer(judge, question, model, progress)
    scores, predictions = judge.score(judged, question.split)
    result = {
        "name": question.name,
        "question": dataclasses.asdict(question),
        **scores,
        "best_epoch": judged.fitted.best_epoch,
        "curve": judged.fitted.curve,
        "protocol": dataclasses.asdict(protocol),
        "run": {
            key: run.record[key] for key in ("seed", "budget", "dataset", "cohort_checksum", "step", "wall_seconds")
        },
        "config": config.bindings((run.folder / "config.gin").read_text(encoding="utf-8")),
        "wall_seconds": time.monotonic() - began,
        **environment(),
    }
    write_predictions(output.with_suffix(".parquet"), data[question.split], judge.position, predictions)
    if question.features == "representation":
        export_classifier(output.with_suffix("") / "classifier", judged.classifier, HISTORY, len(data.columns))
    files.write_json(output, result)
    return result


def load_run(folder: pathlib.Path, cohort: str | None, gin_params: tuple[str, ...]) -> tuple[Run, Cohort, keras.Model]:
    """The run, its cohort (checked to be the same) and its model with the trained weights."""
    run = Run(folder)
    if not (folder / "run.json").exists():
        raise InputError(f"{folder}: no run.json, so not a run directory")
    run.read()
    if not run.finished:
        raise InputError(
            f"{folder}: the training has not finished (step {run.record['step']}), so there is no encoder; "
            "start the same bin/train command again"
        )
    config.load([str(folder / "config.gin")], gin_params)
    data = Cohort(cohort or config.macro("cohort"))
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
    model.build((None, HISTORY, len(data.columns)))
    run.restore(model)
    return run, data, model


def answer(judge: Judge, question: Question, model: keras.Model, progress: Callable) -> Judged:
    """The classifier that the question asks for."""
    if question.features != "representation":
        return judge.raw(question.features, question.head)
    if question.fine_tune:
        return judge.fine_tuned(model.encoder, question.head)
    return judge.frozen(model.encoder, question.head, progress)


def write_predictions(path: pathlib.Path, split: SplitData, task: int, predictions: np.ndarray) -> None:
    """Every hour of the split: stay, hour, label (null where unlabelled) and the probability of each class."""
    columns = {
        "stay": np.repeat(split.stay_names, split.lengths),
        "hour": split.hour,
        "label": pa.array(split.labels[:, task], from_pandas=True),
    }
    columns |= {f"probability_{k}": predictions[:, k] for k in range(predictions.shape[1])}
    with files.atomic_path(path) as partial:
        pa.parquet.write_table(pa.table(columns), partial)


def write_psv(folder: pathlib.Path, predictions: pathlib.Path, threshold: float = 0.5) -> int:
    """A binary task's predictions in the challenge's form, one file per stay; returns the number of files."""
    table = pa.parquet.read_table(predictions).to_pydict()
    if "probability_2" in table:
        raise InputError("the challenge's form is for binary tasks")
    folder.mkdir(parents=True, exist_ok=True)
    lines: dict[str, list[str]] = {}
    for stay, probability in zip(table["stay"], table["probability_1"], strict=True):
        lines.setdefault(stay, ["PredictedProbability|PredictedLabel"]).append(
            f"{probability:.6g}|{int(probability > threshold)}"
        )
    for stay, rows in lines.items():
        (folder / f"{stay}.psv").write_text("\n".join(rows) + "\n", encoding="utf-8")
    return len(lines)
