"""The descriptions that travel with an exported model: model.json for programs, model_card.md for people."""

import dataclasses
from typing import Any

from ncl_tf.data.cohort import Cohort
from ncl_tf.data.declaration import Channel, Dataset, Task
from ncl_tf.evaluation.predictions import ALARM
from ncl_tf.runs import environment
from ncl_tf.runs.configuration import upgraded_evaluation
from ncl_tf.serving.rows import state_columns

# The first number changes when older programs can no longer use an export. Since 1.1, binary classifiers give risks, and
# those with observation columns take raw values; their state has more numbers.
FORMAT_VERSION = "1.1"
INTENDED_USE = (
    "Research on online patient monitoring. Not a medical device: "
    "not validated for, and not to be used in, the care of patients."
)

HOSPITALS = (
    "It learned from the patients, devices and documentation habits of the hospitals in its data; elsewhere its "
    "probabilities and risks can be wrong in ways that the numbers above do not show. Evaluate it on your own data first."
)
SIMULATED = (
    "It learned from simulated stays and knows nothing of real patients: it only demonstrates how an export works."
)
BALANCED = (
    " It was trained with both classes weighted alike, so its probabilities are far above the frequency of the event. They rank "
    "hours; they are no risks."
)
RISK = (
    "`risk` is calibrated: of all hours with a risk of 3 %, about 3 % should be positive. The {kind} calibrator was fitted to "
    "the validation split. Probability and risk beside what happened on split `{split}`:"
)
CALIBRATION = {
    "mean_risk": "mean",
    "prevalence": "share of positive hours",
    "ece": "calibration error, in 20 bins of equally many hours",
    "slope": "calibration slope",
    "intercept": "calibration intercept",
    "brier": "Brier score",
}
OBSERVED = (
    "The model also sees when and how often channels were measured ({names}). So give each value in the hour of its measurement "
    "only: one that is carried forward counts as a new measurement."
)
EXAMPLE = """```python
import numpy as np
import tensorflow as tf

model = tf.saved_model.load("1")  # with this folder as the working folder; needs nothing but TensorFlow
values = np.full([6, {values}], np.nan, np.float32)  # six hours; fill in what was measured
static = np.full([1, {static}], np.nan, np.float32)
{hours}print(model.score_stay(values, static)["probabilities"].numpy())
```"""


def make_card(
    cohort: Cohort,
    history: int,
    signatures: list[str],
    config: dict[str, str],
    run: dict[str, Any],
    evaluation: dict[str, Any] | None,
) -> dict[str, Any]:
    """Collect model.json: `config` has the run's bindings, `run` is its record, `evaluation` is None for an encoder."""
    evaluation = evaluation and upgraded_evaluation(evaluation)
    raw = cohort.preprocessor is not None
    names = {
        "static": [c.name for c in cohort.preprocessor.dataset.channels if c.static] if raw else None,
        "values": [c.name for c in cohort.preprocessor.dataset.channels if not c.static] if raw else None,
        "state": state_columns(cohort.preprocessor.dataset) if raw else None,
    }
    task = cohort.task(evaluation["settings"]["task"])[1] if evaluation else None
    kept = ("name", "settings", "metrics", "intervals", "calibration", "alarm", "protocol", "best_epoch")
    of_training = {name: value for name, value in config.items() if not name.startswith("protocol.")}
    public = {
        name: value for name, value in of_training.items() if "cohort" not in (name, value[1:])
    }  # no private path
    return {
        "format_version": FORMAT_VERSION,
        "kind": "classifier" if evaluation else "encoder",
        "intended_use": INTENDED_USE,
        "signatures": signatures,
        "inputs": {"windows": {"hours": history, "columns": cohort.columns}, **names},
        "task": {**dataclasses.asdict(task), "classes": class_names(task)} if task else None,
        "preprocessor": cohort.preprocessor.to_json() if raw else None,
        "data": {
            "dataset": cohort.name,
            "simulated": cohort.simulated,
            "cohort_checksum": cohort.checksum,
            "source_checksum": cohort.source_checksum,
        },
        "evaluation": {key: evaluation[key] for key in kept if key in evaluation} if evaluation else None,
        "run": {key: run[key] for key in ("seed", "budget", "step")},
        "config": public,
        **{key: value for key, value in environment().items() if key in ("code_version", "versions")},
    }


def class_names(task: Task) -> list[str]:
    """Name the class that each probability belongs to."""
    if task.kind == "binary":
        return [f"no {task.name}", task.name]
    bounds = [f"{edge:g}" for edge in task.edges]
    between = [f"{low} to {high}" for low, high in zip(bounds, bounds[1:], strict=False)]
    return [f"below {bounds[0]}", *between, f"{bounds[-1]} and more"]


def model_card(card: dict[str, Any]) -> str:
    """Write the text of model_card.md from the content of model.json."""
    data, run = card["data"], card["run"]
    ward = "a simulated ward in the form of " if data["simulated"] else ""
    parts = [
        f"# {card['kind'].capitalize()} for {ward}{data['dataset']}"
        + (f": {card['task']['name']}" if card["task"] else ""),
        f"**{card['intended_use']}**",
        *([_task(card)] if card["task"] else []),
        _functions(card),
        *([_channels(card["preprocessor"])] if card["preprocessor"] else []),
        "## Data\n\n"
        f"Dataset: {ward}{data['dataset']}. SHA-256 of the cohort file: `{data['cohort_checksum']}`; "
        f"of its sources: `{data['source_checksum'] or 'unknown'}`. No patient data is part of this folder.",
        "## Training\n\n"
        f"{run['step']} steps, budget {run['budget']}, seed {run['seed']}, ncl_tf {card['code_version']}, "
        + ", ".join(f"{name} {version}" for name, version in card["versions"].items())
        + ".\n\n```\n"
        + "\n".join(f"{name} = {value}" for name, value in card["config"].items())
        + "\n```",
        f"## Limits\n\n{SIMULATED if ward else HOSPITALS}",
    ]
    return "\n\n".join(parts) + "\n"


def _task(card: dict[str, Any]) -> str:
    task, evaluation = card["task"], card["evaluation"]
    lines = [
        "## Task and performance",
        "",
        f"Each hour: probabilities of {' | '.join(task['classes'])}. Measured on split `{evaluation['settings']['split']}` "
        f"(evaluation `{evaluation['name']}`), with 95 % intervals by resampling stays.",
        "",
        "| metric | value | interval |",
        "|---|---|---|",
    ]
    for name, value in evaluation["metrics"].items():
        low, high = evaluation["intervals"].get(name, (None, None))
        lines.append(f"| {name} | {value:.4f} | {'' if low is None else f'{low:.4f} to {high:.4f}'} |")
    if task["kind"] == "binary":
        alarm = f"In these metrics, an hour is alarmed where the probability of {task['name']} is above {ALARM}."
        lines += ["", alarm + BALANCED * bool(evaluation["protocol"].get("balanced"))]
    if "calibration" in evaluation:
        lines += _risk(evaluation)
    protocol = ", ".join(f"{name} {value}" for name, value in evaluation["protocol"].items())
    return "\n".join([*lines, "", f"Training on the labels: {protocol}; best epoch {evaluation['best_epoch']}."])


def _risk(evaluation: dict[str, Any]) -> list[str]:
    """Describe risk and alarm threshold, line by line."""
    calibration, alarm = evaluation["calibration"], evaluation["alarm"]
    lines = [
        "",
        RISK.format(kind=calibration["calibrator"]["kind"], split=evaluation["settings"]["split"]),
        "",
        "| | probability | risk |",
        "|---|---|---|",
    ]
    for name, title in CALIBRATION.items():
        cells = (calibration[when][name] for when in ("before", "after"))
        lines.append(f"| {title} | {' | '.join('-' if value is None else f'{value:.4f}' for value in cells)} |")
    rate = alarm["alarms_per_day"]
    reached = (f"{name} {'-' if value is None else f'{value:.4f}'}" for name, value in alarm["validation"].items())
    return [
        *lines,
        "",
        f"Alarm threshold: probability above {alarm['threshold']:.6g}, a risk of {alarm['risk']:.4f}. It was chosen on the "
        f"validation split for {f'at most {rate:g} alarms per patient-day' if rate else 'the most utility'}, and reached there: "
        f"{', '.join(reached)}. An alarm silences the next {alarm['silence']} hours, and is right if an event begins within "
        f"the next {alarm['horizon']} hours; an event begins {alarm['lead']} hours after its first positive hour.",
    ]


def _functions(card: dict[str, Any]) -> str:
    windows, values, static, state = (card["inputs"][name] for name in ("windows", "values", "static", "state"))
    shape = f"[B, {windows['hours']}, {len(windows['columns'])}]"
    outputs = "`probabilities`" + ", `risk`" * ("calibration" in (card["evaluation"] or {}))
    texts = {
        "embed": f"prepared `windows` {shape} -> `representations`",
        "predict": f"prepared `windows` {shape} -> {outputs}",
    }
    if values is not None:
        rows = f"raw `values` [%s, {len(values)}] and `static` [%s, {len(static)}]"
        size = f"[B, {windows['hours'] - 1}, {len(state)}]"
        texts |= {
            "score_stay": f"{rows % ('T', '1 to T')} of one stay -> {outputs} of its T hours",
            "score_stays": f"{rows % ('N', 'N')} of many stays stacked, `lengths` [stays] -> {outputs} [N, ...]",
            "score_next": f"{rows % ('B', 'B')} of one hour of B patients and their `state` {size} (all NaN before the "
            f"first hour) -> {outputs}, new `state`",
        }
    lines = [f"- `{name}`: {texts[name]}" for name in card["signatures"]]
    if values is not None and "score_stay" in card["signatures"]:
        hour = card["preprocessor"]["dataset"]["hour"]
        hours = f"values[:, {values.index(hour)}] = range(1, 7)  # {hour}\n" if hour in values else ""
        lines += ["", EXAMPLE.format(values=len(values), static=len(static), hours=hours)]
    return "\n".join(
        [
            "## Functions",
            "",
            "A TensorFlow SavedModel in folder `1`. All numbers are float32, `lengths` int32.",
            "",
            *lines,
        ]
    )


def _channels(preprocessor: dict[str, Any]) -> str:
    dataset = Dataset.from_json(preprocessor["dataset"])
    lines = [
        "## Raw channels",
        "",
        "In this order: the columns of `static`, then those of `values`. NaN means not measured. Values outside the range are "
        "treated as missing." + (f" {dataset.hour} rises by one from row to row." if dataset.hour else ""),
        *(["", OBSERVED.format(names=", ".join(dataset.observations))] if dataset.observations else []),
        "",
        "| channel | unit | range or levels | |",
        "|---|---|---|---|",
    ]
    for channel in dataset.channels:
        lines.append(f"| {channel.name} | {channel.unit} | {_range(channel)} | {'static' if channel.static else ''} |")
    return "\n".join(lines)


def _range(channel: Channel) -> str:
    if channel.kind == "categorical":
        texts = {level: [text for text, code in channel.spellings.items() if code == level] for level in channel.levels}
        return ", ".join(f"{level:g}" + (f" ({', '.join(t)})" if t else "") for level, t in texts.items())
    low, high = ("" if bound is None else f"{bound:g}" for bound in (channel.low, channel.high))
    return f"{low} to {high}" if low or high else "any"
