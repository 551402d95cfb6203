"""Figures of evaluations, from the predictions that bin/evaluate keeps: precision-recall and reliability curves."""

import dataclasses
from typing import Any

import numpy as np
import pandas as pd
from sklearn.metrics import precision_recall_curve

from ncl_tf.evaluation import metrics
from ncl_tf.evaluation.settings import EvaluationSettings
from ncl_tf.reporting.figures import figure
from ncl_tf.reporting.figures.figure import COLORS, Figure, legend_below, listed, panels
from ncl_tf.reporting.figures.groups import SPLIT_TITLES, data_text, dataset_title, evenly, facts, left_out
from ncl_tf.reporting.sources import MissingInputError, Sources, grouped
from ncl_tf.runs import StoredRun

RECALLS = np.linspace(0.01, 1, 100)
PANEL = ["dataset", "cohort", "task", "split"]  # what must be the same in curves that are compared
KEYS = [*PANEL, "run"]
REFERENCE = {"color": "#555555", "linestyle": ":"}


@dataclasses.dataclass(frozen=True)
class BinaryEvaluation:
    """An evaluation of a run on a binary task: what was asked of bin/evaluate, and the content of its JSON."""

    run: StoredRun
    settings: EvaluationSettings
    result: dict[str, Any]

    @property
    def metrics(self) -> dict[str, float]:
        """The metrics by name."""
        return self.result["metrics"]

    @property
    def panel(self) -> tuple[str, ...]:
        """The values of PANEL."""
        return dataset_title(self.run), self.run.record["cohort_checksum"], self.settings.task, self.stays

    @property
    def stays(self) -> str:
        """What was scored: a split of the run's cohort, or stays of another cohort in words."""
        return self.settings.stays if self.settings.external else self.settings.split

    @property
    def label(self) -> str:
        """The run, and head and features as in the evaluation's name."""
        variant = dataclasses.replace(self.settings, split="test", external=None).name.removeprefix(
            f"{self.settings.task}-"
        )
        return f"{self.run.label}, {variant}"

    @property
    def line(self) -> tuple[str, ...]:
        """The values of KEYS, which evaluations share that differ in the seed only."""
        return *self.panel, self.label

    @property
    def keys(self) -> dict[str, Any]:
        """The values of KEYS by name, and the seed."""
        return dict(zip(KEYS, self.line, strict=True)) | {"seed": self.run.record["seed"]}

    def predictions(self) -> tuple[np.ndarray, np.ndarray]:
        """Read the probabilities [H] and labels [H] of the labelled hours."""
        path, columns = self.run.predictions_path(self.settings.name), ["label", "probability_1"]
        table = pd.read_parquet(path, columns=columns).dropna()
        return table["probability_1"].to_numpy(np.float64), table["label"].to_numpy(np.int64)


def precision_recall(sources: Sources) -> Figure:
    """Draw precision over recall of every evaluation of a binary task."""
    found, thinned = binary_evaluations(sources)
    rows, prevalence = [], {}
    for evaluation in found:
        probabilities, labels = evaluation.predictions()
        prevalence[evaluation.panel] = 100 * labels.mean()
        curve = zip(RECALLS, precisions(probabilities, labels), strict=True)
        rows += [evaluation.keys | {"recall": recall, "value": precision} for recall, precision in curve]
    data = figure.over_seeds(pd.DataFrame(rows), [*KEYS, "recall"])
    canvas, axes = panels(len(prevalence), 4.1, 3.6)
    for ax, (panel, curves) in zip(axes, data.groupby(PANEL, sort=False), strict=True):
        for color, (label, line) in zip(COLORS, curves.groupby("run", sort=False), strict=False):
            figure.line_with_band(ax, 100 * line["recall"], line, scale=100, color=color, label=label)
        ax.axhline(prevalence[panel], label="prevalence", **REFERENCE)
        highest = 100 * (curves["mean"] + curves["std"].fillna(0)).max()
        ax.set(xlim=(0, 100), ylim=(0, min(1.1 * highest, 102)), xlabel="recall (%)", ylabel="precision (%)")
        ax.set_title(panel_title(panel))
    legend_below(canvas, axes)
    areas = _scores(found, "auprc", "AUPRC")
    return Figure(
        "precision_recall",
        "Precision-recall curves",
        "The share of alarmed hours that are positive over the share of positive hours that are alarmed, at 100 recalls. "
        f"{areas}{thinned} {evaluation_facts(found, 'bands')}",
        f"Curves of precision over recall, above a dotted line at the prevalence. {areas}",
        data.rename(columns={"mean": "precision"}),
        canvas,
    )


def reliability_curves(sources: Sources) -> Figure:
    """Draw the observed share of positives over the predicted probability of every evaluation of a binary task."""
    found, thinned = binary_evaluations(sources)
    data = _calibration(found)
    groups = list(data.groupby(PANEL, sort=False))
    columns, rows = min(len(groups), 3), -(-len(groups) // 3)
    canvas = figure.new_canvas(4.1 * columns, 4.8 * rows)
    grid = canvas.subplots(2 * rows, columns, squeeze=False, height_ratios=[3, 1] * rows)
    pairs = grid.reshape(rows, 2, columns).swapaxes(1, 2).reshape(-1, 2)  # the two axes of each panel
    for (upper, lower), (panel, curves) in zip(pairs, groups, strict=False):
        upper.plot([0, 100], [0, 100], label="perfectly calibrated", **REFERENCE)
        for color, (label, line) in zip(COLORS, curves.groupby("run", sort=False), strict=False):
            x, y, std = 100 * line["predicted"], 100 * line["observed"], 100 * line["std"].fillna(0)
            upper.errorbar(x, y, std, color=color, marker="o", label=label)
            lower.plot(50 * (line["low"] + line["high"]), 100 * line["share"], color=color, marker="o", linewidth=1)
        upper.set(xlim=(-2, 102), ylim=(-4, 104), ylabel="positive hours (%)", title=panel_title(panel))
        lower.set(xlim=(-2, 102), yscale="log", xlabel="predicted probability (%)", ylabel="hours (%)")
    for unused in pairs[len(groups) :].flat:
        unused.remove()
    legend_below(canvas, grid.flat)
    return Figure(
        "reliability",
        "Reliability curves",
        "In ten intervals of predicted probability: the share of hours that are positive (above), and the share of all hours "
        f"that fall into the interval (below). {_scores(found, 'brier', 'Brier score')}{thinned} "
        f"{evaluation_facts(found, 'error bars')}",
        "Observed share of positive hours over predicted probability, beside the diagonal of perfect calibration. "
        f"{_sides(data)}",
        data,
        canvas,
    )


def binary_evaluations(sources: Sources, block: str | None = None) -> tuple[list[BinaryEvaluation], str]:
    """Choose evaluations of binary tasks, in each panel at most as many lines as there are colors; state what is left out.

    block: what their JSON must have; None: they must have predictions beside it.
    """
    found = []
    for run in sources.runs:
        for content in run.evaluations:
            there = block in content if block else run.predictions_path(content["name"]).exists()
            if "auprc" in content["metrics"] and there:
                found.append(BinaryEvaluation(run, EvaluationSettings(**content["settings"]), content))
    if not found:
        needs = f"{block} in its JSON, which those of version 0.2.0 do not have" if block else "its predictions"
        raise MissingInputError(f"a run directory with an evaluation of a binary task by bin/evaluate, and {needs}")
    lines = grouped(found, lambda evaluation: evaluation.line)
    chosen: dict[tuple, list[BinaryEvaluation]] = {}
    for of_panel in grouped(lines, lambda line: line[:-1]).values():
        chosen |= evenly({line: lines[line] for line in of_panel}, len(COLORS))
    return [evaluation for line in chosen.values() for evaluation in line], left_out(lines, chosen)


def best_evaluations(found: list[BinaryEvaluation]) -> list[BinaryEvaluation]:
    """Choose the evaluation with the highest AUPRC for each cohort and task, on the test split where there is one."""
    by_task = grouped(found, lambda one: one.panel[:-1]).values()
    return [max(these, key=_rank) for these in by_task]


def _rank(one: BinaryEvaluation) -> tuple[bool, bool, float]:
    """Order evaluations of a cohort and task; better ones are greater."""
    return one.settings.on_own_test, one.settings.external is None, one.metrics["auprc"]


def precisions(probabilities: np.ndarray, labels: np.ndarray) -> np.ndarray:
    """Compute the precision at each of RECALLS [100]: at the highest threshold that reaches it."""
    precision, recall, _ = precision_recall_curve(labels, probabilities)
    return precision[::-1][np.searchsorted(recall[::-1], RECALLS)]  # scikit-learn's recalls fall


def panel_title(panel: tuple[str, ...]) -> str:
    """Name the values of PANEL for readers, in two lines."""
    dataset, checksum, task, split = panel
    return f"{data_text(dataset, checksum)}\n{task.replace('_', ' ')}, {stays_title(split)}"


def stays_title(stays: str) -> str:
    """Name what an evaluation scored for readers, from the last value of PANEL."""
    return f"{SPLIT_TITLES[stays]} split" if stays in SPLIT_TITLES else stays


def _calibration(found: list[BinaryEvaluation]) -> pd.DataFrame:
    rows = []
    for evaluation in found:
        probabilities, labels = evaluation.predictions()
        cells = metrics.reliability(probabilities, labels)
        rows += [evaluation.keys | cell | {"share": cell["hours"] / len(labels)} for cell in cells if cell["hours"]]
    return (
        pd.DataFrame(rows)
        .groupby([*KEYS, "low", "high"], sort=False, as_index=False)
        .agg(
            predicted=("mean_probability", "mean"),
            observed=("observed", "mean"),
            std=("observed", "std"),
            share=("share", "mean"),
            seeds=("seed", "nunique"),
        )
        .sort_values([*KEYS, "low"])
    )


def evaluation_facts(found: list[BinaryEvaluation], drawn: str) -> str:
    """State data, budget and number of seeds of evaluations, for captions."""
    lines = grouped(found, lambda evaluation: evaluation.line).values()
    return facts(([evaluation.run for evaluation in line] for line in lines), drawn)


def _scores(found: list[BinaryEvaluation], metric: str, title: str) -> str:
    """State a metric of each line: AUPRC (x 100): 12.3 ± 0.4 (cl, mlp), ..."""
    several = len({evaluation.panel for evaluation in found}) > 1
    texts = []
    for (_, _, task, split, label), line in grouped(found, lambda evaluation: evaluation.line).items():
        values = [100 * evaluation.metrics[metric] for evaluation in line]
        spread = f" ± {np.std(values, ddof=1):.1f}" if len(values) > 1 else ""
        texts.append(f"{np.mean(values):.1f}{spread} ({label}{f'; {task}, {split}' if several else ''})")
    return f"{title} (x 100): {', '.join(texts)}."


def _sides(data: pd.DataFrame) -> str:
    """State which lines predict too much in most hours, and which do not."""
    sides: dict[str, list[str]] = {}
    for label, line in data.groupby("run", sort=False):
        high = np.average(line["predicted"] > line["observed"], weights=line["share"]) > 0.5
        side = "below it, with probabilities that are too high" if high else "on or above it"
        sides.setdefault(side, []).append(label)
    return " ".join(f"Mostly {side}: {listed(labels)}." for side, labels in sides.items())
