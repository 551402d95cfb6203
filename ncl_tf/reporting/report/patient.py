"""The patient view's content: simulated stays, scored hour by hour by the best classifier at hand.

The stays come from the simulator and from nowhere else: no row of a cohort, and so of no real patient, can get into the page.
"""

import contextlib
import dataclasses
import io
import pathlib
import tempfile
from collections.abc import Iterator
from typing import Any

import numpy as np

import ncl_tf
from ncl_tf.data.datasets import MIMIC3_BENCHMARK, PHYSIONET2019
from ncl_tf.data.declaration import Task
from ncl_tf.data.exports import read_card
from ncl_tf.data.simulator.ward import write_ward
from ncl_tf.data.sources import mimic3_benchmark, physionet2019
from ncl_tf.data.stays import Stays
from ncl_tf.evaluation.events import find_events, raise_alarms
from ncl_tf.evaluation.predictions import ALARM
from ncl_tf.evaluation.risk import alarm_policy
from ncl_tf.evaluation.settings import EvaluationSettings
from ncl_tf.reporting.sources import Sources, grouped
from ncl_tf.runs import StoredRun

WARD, SEED = 90, 20210718  # stays that are simulated, and a seed that no training uses
SHOWN, POSITIVE = 12, 5  # stays on the page, and how many of them have a positive hour
DATASETS = {dataset.name: dataset for dataset in (PHYSIONET2019, MIMIC3_BENCHMARK)}
STATES = ("no alarm", "alarm", "silenced", "event known")  # of an hour
# What a bedside monitor shows, as it names it, and the step of its scale; and the channels of the datasets that hold it.
SCALES = {"Heart rate": 20, "Mean arterial pressure": 20, "Respiration": 10, "Temperature": 1, "Oxygen saturation": 5}
VITALS = {
    "physionet2019": ("HR", "MAP", "Resp", "Temp", "O2Sat"),
    "mimic3_benchmark": ("Heart Rate", "Mean blood pressure", "Respiratory rate", "Temperature", "Oxygen saturation"),
}


def monitors(sources: Sources) -> list[dict[str, Any]]:
    """Score simulated stays: for each cohort and binary task that a classifier was exported for, values, scores and labels."""
    groups = grouped(_classifiers(sources), lambda one: (one[0].record["cohort_checksum"], one[1]["settings"]["task"]))
    return [_monitor(*max(group, key=_rank)) for group in groups.values()]


def _classifiers(sources: Sources) -> Iterator[tuple[StoredRun, dict[str, Any]]]:
    """Find the evaluations of a binary task whose classifier takes the raw values of a dataset that can be simulated."""
    for run in sources.finished:
        for evaluation in run.evaluations:
            folder = run.classifier_path(evaluation["name"])
            declared = DATASETS.get(run.record["dataset"])
            if declared is None or "auprc" not in evaluation["metrics"] or not folder.is_dir():
                continue
            inputs = read_card(folder)["inputs"]
            raw = [*(inputs["static"] or ()), *(inputs["values"] or ())]
            if raw == [channel.name for channel in declared.channels]:
                yield run, evaluation


def _rank(classifier: tuple[StoredRun, dict[str, Any]]) -> tuple[bool, float]:
    """Order evaluations; better ones are greater."""
    return classifier[1]["settings"]["split"] == "test", classifier[1]["metrics"]["auprc"]


def _monitor(run: StoredRun, evaluation: dict[str, Any]) -> dict[str, Any]:
    model, dataset = ncl_tf.load(run.classifier_path(evaluation["name"])), run.record["dataset"]
    task = [declared.name for declared in model.dataset.tasks].index(evaluation["settings"]["task"])
    stays = simulated(dataset, task)
    outputs = model.outputs_of_stays(stays)
    scores, risks = outputs["probabilities"][:, 1], outputs.get("risk")
    alarm = _alarm(evaluation, model.dataset.tasks[task])
    states = alarm_states(scores, stays.labels[:, task], stays.lengths, alarm)
    columns = {channel.name: column for column, channel in enumerate(model.dataset.channels)}
    shown = [columns[name] for name in VITALS[dataset]]
    units = [model.dataset.channels[column].unit.replace("deg C", "°C") for column in shown]
    return {
        "dataset": dataset,
        "task": evaluation["settings"]["task"].replace("_", " "),
        "model": f"{run.name}, {evaluation['name']}",
        "threshold": alarm["threshold"],
        "silence": alarm["silence"],
        "states": STATES,
        "channels": [
            {"title": title, "unit": unit, "step": step, "decimals": int(step == 1)}
            for (title, step), unit in zip(SCALES.items(), units, strict=True)
        ],
        "stays": [
            {
                "hours": stays.values[rows, columns[model.dataset.hour]].astype(int).tolist(),
                "values": [_numbers(stays.values[rows, column], 1) for column in shown],
                "score": _numbers(scores[rows], 4),
                "risk": None if risks is None else _numbers(risks[rows], 5),
                "state": states[rows].tolist(),
                "label": [None if np.isnan(label) else int(label) for label in stays.labels[rows, task]],
            }
            for first, length in zip(stays.first_rows, stays.lengths, strict=True)
            for rows in [slice(first, first + length)]
        ],
    }


def _alarm(evaluation: dict[str, Any], task: Task) -> dict[str, Any]:
    """Find how an evaluation raises alarms; those of version 0.2.0 do at the paper's threshold."""
    usual = {"threshold": ALARM, **dataclasses.asdict(alarm_policy(task, EvaluationSettings()))}
    return usual | evaluation.get("alarm", {})


def alarm_states(scores: np.ndarray, labels: np.ndarray, lengths: np.ndarray, alarm: dict[str, Any]) -> np.ndarray:
    """Find what a ward hears in each hour, [H] numbers of STATES; scores, labels: [H], lengths: [S] hours of each stay."""
    watched = find_events(labels, lengths, alarm["lead"]).watched
    raised = raise_alarms(scores, watched, lengths, alarm["threshold"], alarm["silence"])
    rows, stay = np.arange(len(scores)), np.repeat(np.arange(len(lengths)), lengths)
    last = np.maximum.accumulate(np.where(raised, rows, -1))  # the latest alarm, perhaps of another stay
    silenced = (last >= 0) & (rows - last <= alarm["silence"]) & (stay == stay[last])
    return np.select([raised, ~watched, silenced], [1, 3, 2], 0)


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
    chosen = np.sort([*np.flatnonzero(positive)[:POSITIVE], *np.flatnonzero(~positive)[: SHOWN - POSITIVE]])
    rows = stays.rows(chosen)
    return Stays(stays.names[chosen], stays.lengths[chosen], stays.values[rows], stays.labels[rows])


def _numbers(values: np.ndarray, decimals: int) -> list[float | None]:
    """Round values for JSON, which has no NaN."""
    return [None if np.isnan(value) else round(float(value), decimals) for value in values]
