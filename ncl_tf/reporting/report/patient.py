"""The patient view's content: simulated stays, scored hour by hour by the best classifier at hand.

The stays come from the simulator and from nowhere else: no row of a cohort, and so of no real patient, can get into the page.
"""

import contextlib
import io
import pathlib
import tempfile
from collections.abc import Iterator
from typing import Any

import numpy as np

import ncl_tf
from ncl_tf.data.datasets import MIMIC3_BENCHMARK, PHYSIONET2019
from ncl_tf.data.declaration import Dataset
from ncl_tf.data.simulator.ward import write_ward
from ncl_tf.data.sources import mimic3_benchmark, physionet2019
from ncl_tf.data.stays import Stays
from ncl_tf.evaluation.predictions import ALARM
from ncl_tf.reporting.sources import Sources
from ncl_tf.runs import StoredRun
from ncl_tf.serving.loading import read_card

WARD, SEED = 90, 20210718  # stays that are simulated, and a seed that no training uses
SHOWN, POSITIVE = 12, 5  # stays on the page, and how many of them have a positive hour
DATASETS = {dataset.name: dataset for dataset in (PHYSIONET2019, MIMIC3_BENCHMARK)}
# What a bedside monitor shows, as it names it, and the step of its scale.
VITALS = {
    "physionet2019": {
        "HR": ("Heart rate", 20),
        "MAP": ("Mean arterial pressure", 20),
        "Resp": ("Respiration", 10),
        "Temp": ("Temperature", 1),
        "O2Sat": ("Oxygen saturation", 5),
    },
    "mimic3_benchmark": {
        "Heart Rate": ("Heart rate", 20),
        "Mean blood pressure": ("Mean arterial pressure", 20),
        "Respiratory rate": ("Respiration", 10),
        "Temperature": ("Temperature", 1),
        "Oxygen saturation": ("Oxygen saturation", 5),
    },
}


def monitors(sources: Sources) -> list[dict[str, Any]]:
    """Score simulated stays: for each cohort and binary task that a classifier was exported for, values, scores and labels."""
    best: dict[tuple[str, str], tuple[StoredRun, dict[str, Any]]] = {}
    for run, evaluation in _classifiers(sources):
        key = (run.record["cohort_checksum"], evaluation["settings"]["task"])
        if key not in best or _rank(evaluation) > _rank(best[key][1]):
            best[key] = run, evaluation
    return [_monitor(*chosen) for chosen in best.values()]


def _classifiers(sources: Sources) -> Iterator[tuple[StoredRun, dict[str, Any]]]:
    """Find the evaluations of a binary task whose classifier takes the raw values of a dataset that can be simulated."""
    for run in sources.finished:
        for evaluation in run.evaluations:
            folder = run.classifier_path(evaluation["name"])
            declared = DATASETS.get(run.record["dataset"])
            if declared is None or "auprc" not in evaluation["metrics"] or not folder.is_dir():
                continue
            inputs = read_card(folder)["inputs"]
            if [*(inputs["static"] or ()), *(inputs["values"] or ())] == [
                channel.name for channel in declared.channels
            ]:
                yield run, evaluation


def _rank(evaluation: dict[str, Any]) -> tuple[bool, float]:
    """Order evaluations; better ones are greater."""
    return evaluation["settings"]["split"] == "test", evaluation["metrics"]["auprc"]


def _monitor(run: StoredRun, evaluation: dict[str, Any]) -> dict[str, Any]:
    model, dataset = ncl_tf.load(run.classifier_path(evaluation["name"])), run.record["dataset"]
    task = [declared.name for declared in model.dataset.tasks].index(evaluation["settings"]["task"])
    stays = simulated(dataset, task)
    scores = model.score_stays(stays)[:, 1]
    columns = {channel.name: column for column, channel in enumerate(model.dataset.channels)}
    vitals = [stays.values[:, columns[name]] for name in VITALS[dataset]]
    return {
        "dataset": dataset,
        "task": evaluation["settings"]["task"].replace("_", " "),
        "model": f"{run.name}, {evaluation['name']}",
        "threshold": ALARM,
        "channels": [_channel(model.dataset, name) for name in VITALS[dataset]],
        "stays": [
            {
                "hours": stays.values[rows, columns[model.dataset.hour]].astype(int).tolist(),
                "values": [_numbers(values[rows], 1) for values in vitals],
                "score": _numbers(scores[rows], 4),
                "label": [None if np.isnan(label) else int(label) for label in stays.labels[rows, task]],
            }
            for first, length in zip(stays.first_rows, stays.lengths, strict=True)
            for rows in [slice(first, first + length)]
        ],
    }


def simulated(dataset: str, task: int) -> Stays:
    """Simulate the page's stays in the form of a dataset: the ward's first with a positive hour, and its first without one."""
    with tempfile.TemporaryDirectory() as scratch, contextlib.redirect_stderr(io.StringIO()):  # no bar for ninety files
        ward = pathlib.Path(scratch) / "ward"
        write_ward(WARD, SEED, ward, dataset)
        if dataset == "physionet2019":
            stays, _ = physionet2019.read_stays([ward])
        else:
            stays, *_ = mimic3_benchmark.read_stays(ward, carry_back=False, shift=0)
    positive = stays.ever_positive(task)
    chosen = np.sort(
        np.concatenate([np.flatnonzero(positive)[:POSITIVE], np.flatnonzero(~positive)[: SHOWN - POSITIVE]])
    )
    rows = stays.rows(chosen)
    return Stays(stays.names[chosen], stays.lengths[chosen], stays.values[rows], stays.labels[rows])


def _channel(dataset: Dataset, name: str) -> dict[str, Any]:
    """Describe how the chart shows a vital sign."""
    title, step = VITALS[dataset.name][name]
    (unit,) = [channel.unit for channel in dataset.channels if channel.name == name]
    return {"title": title, "unit": unit.replace("deg C", "°C"), "step": step, "decimals": int(step == 1)}


def _numbers(values: np.ndarray, decimals: int) -> list[float | None]:
    """Round values for JSON, which has no NaN."""
    return [None if np.isnan(value) else round(float(value), decimals) for value in values]
