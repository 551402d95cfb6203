"""What evaluations found, from the predictions that bin/evaluate keeps as Parquet: precision-recall and reliability."""

import dataclasses
import pathlib
from typing import Any

import numpy as np
import pandas as pd
from sklearn.metrics import precision_recall_curve

from ncl_tf import files
from ncl_tf.evaluation import metrics
from ncl_tf.evaluation.settings import EvaluationSettings
from ncl_tf.reporting.figures.figure import (
    COLOURS,
    Figure,
    legend_below,
    line_with_band,
    listed,
    new_canvas,
    over_seeds,
    panels,
)
from ncl_tf.reporting.figures.sources import SPLITS, Lacking, Run, Sources, data_text, evenly, facts, left_out

RECALLS = np.linspace(0.01, 1, 100)
PANEL = ["dataset", "cohort", "task", "split"]  # what must be the same in curves that are compared
KEYS = [*PANEL, "run"]
REFERENCE = {"color": "#555555", "linestyle": ":"}


@dataclasses.dataclass(frozen=True)
class Judged:
    """An evaluation of a binary task.

    Attributes:
        run: that was judged.
        path: of its JSON; the predictions are beside it.
        question, metrics: as in the JSON.
    """

    run: Run
    path: pathlib.Path
    question: EvaluationSettings
    metrics: dict[str, float]

    @property
    def panel(self) -> tuple[str, ...]:
        """The values of PANEL."""
        return self.run.dataset, self.run.record["cohort_checksum"], self.question.task, self.question.split

    @property
    def label(self) -> str:
        """The run, and head and features as in the evaluation's name."""
        variant = dataclasses.replace(self.question, split="test").name.removeprefix(f"{self.question.task}-")
        return f"{self.run.label}, {variant}"

    @property
    def keys(self) -> dict[str, Any]:
        """The values of KEYS, and the seed."""
        return dict(zip(KEYS, (*self.panel, self.label), strict=True)) | {"seed": self.run.record["seed"]}

    def predictions(self) -> tuple[np.ndarray, np.ndarray]:
        """Probabilities [H] and labels [H] of the labelled hours."""
        columns = ["label", "probability_1"]
        table = pd.read_parquet(self.path.with_suffix(".parquet"), columns=columns).dropna()
        return table["probability_1"].to_numpy(np.float64), table["label"].to_numpy(np.int64)


def precision_recall(sources: Sources) -> Figure:
    """Precision over recall of every evaluation of a binary task."""
    found, thinned = evaluations(sources)
    rows, prevalence = [], {}
    for judged in found:
        probabilities, labels = judged.predictions()
        prevalence[judged.panel] = 100 * labels.mean()
        curve = zip(RECALLS, precisions(probabilities, labels), strict=True)
        rows += [judged.keys | {"recall": recall, "value": precision} for recall, precision in curve]
    data = over_seeds(pd.DataFrame(rows), [*KEYS, "recall"])
    canvas, axes = panels(len(prevalence), 4.1, 3.6)
    for ax, (panel, curves) in zip(axes, data.groupby(PANEL, sort=False), strict=True):
        for colour, (label, line) in zip(COLOURS, curves.groupby("run", sort=False), strict=False):
            line_with_band(ax, 100 * line["recall"], line, scale=100, color=colour, label=label)
        ax.axhline(prevalence[panel], label="prevalence", **REFERENCE)
        highest = 100 * (curves["mean"] + curves["std"].fillna(0)).max()
        ax.set(xlim=(0, 100), ylim=(0, min(1.1 * highest, 102)), xlabel="recall (%)", ylabel="precision (%)")
        ax.set_title(_title(panel))
    legend_below(canvas, axes)
    areas = _scores(found, "auprc", "AUPRC")
    return Figure(
        "precision_recall",
        "Precision-recall curves",
        "The share of alarmed hours that are positive over the share of positive hours that are alarmed, at 100 recalls. "
        f"{areas}{thinned} {facts(_by_line(found).values(), 'bands')}",
        f"Curves of precision over recall, above a dotted line at the prevalence. {areas}",
        data.rename(columns={"mean": "precision"}),
        canvas,
    )


def reliability(sources: Sources) -> Figure:
    """Observed share of positives over predicted probability of every evaluation of a binary task."""
    found, thinned = evaluations(sources)
    data = _calibration(found)
    groups = list(data.groupby(PANEL, sort=False))
    columns, rows = min(len(groups), 3), -(-len(groups) // 3)
    canvas = new_canvas(4.1 * columns, 4.8 * rows)
    grid = canvas.subplots(2 * rows, columns, squeeze=False, height_ratios=[3, 1] * rows)
    for index, (panel, curves) in enumerate(groups):
        upper, lower = grid[2 * (index // 3) : 2 * (index // 3) + 2, index % 3]
        upper.plot([0, 100], [0, 100], label="perfectly calibrated", **REFERENCE)
        for colour, (label, line) in zip(COLOURS, curves.groupby("run", sort=False), strict=False):
            x, y, std = 100 * line["predicted"], 100 * line["observed"], 100 * line["std"].fillna(0)
            upper.errorbar(x, y, std, color=colour, marker="o", label=label)
            lower.plot(50 * (line["low"] + line["high"]), 100 * line["share"], color=colour, marker="o", linewidth=1)
        upper.set(xlim=(-2, 102), ylim=(-4, 104), ylabel="positive hours (%)", title=_title(panel))
        lower.set(xlim=(-2, 102), yscale="log", xlabel="predicted probability (%)", ylabel="hours (%)")
    for unused in range(len(groups), columns * rows):
        grid[2 * (unused // 3), unused % 3].remove()
        grid[2 * (unused // 3) + 1, unused % 3].remove()
    legend_below(canvas, grid.flat)
    return Figure(
        "reliability",
        "Reliability curves",
        "In ten intervals of predicted probability: the share of hours that are positive (above), and the share of all hours "
        f"that fall into the interval (below). {_scores(found, 'brier', 'Brier score')}{thinned} "
        f"{facts(_by_line(found).values(), 'error bars')}",
        "Observed share of positive hours over predicted probability, beside the diagonal of perfect calibration. "
        f"{_sides(data)}",
        data,
        canvas,
    )


def evaluations(sources: Sources) -> tuple[list[Judged], str]:
    """Those of binary tasks, in each panel not more lines than there are colours, and what to tell of the rest."""
    found = []
    for run in sources.runs:
        for path in sorted(run.folder.glob("evaluations/*.json")):
            content = files.read_json(path)
            if "auprc" in content["metrics"] and path.with_suffix(".parquet").exists():
                found.append(Judged(run, path, EvaluationSettings(**content["question"]), content["metrics"]))
    if not found:
        raise Lacking("a run directory with an evaluation of a binary task by bin/evaluate, evaluations/NAME.parquet")
    lines: dict[tuple, dict[str, list[Judged]]] = {}
    for judged in found:
        lines.setdefault(judged.panel, {}).setdefault(judged.label, []).append(judged)
    chosen = {panel: evenly(of_panel, len(COLOURS)) for panel, of_panel in lines.items()}
    all_lines, some = ([line for of_panel in x.values() for line in of_panel] for x in (lines, chosen))
    return [j for of_panel in chosen.values() for line in of_panel.values() for j in line], left_out(all_lines, some)


def precisions(probabilities: np.ndarray, labels: np.ndarray) -> np.ndarray:
    """Precision at each of RECALLS [100]: at the highest threshold that reaches it."""
    precision, recall, _ = precision_recall_curve(labels, probabilities)
    return precision[::-1][np.searchsorted(recall[::-1], RECALLS)]  # scikit-learn's recalls fall


def _title(panel: tuple[str, ...]) -> str:
    dataset, checksum, task, split = panel
    return f"{data_text(dataset, checksum)}\n{task.replace('_', ' ')}, {SPLITS[split]} split"


def _calibration(found: list[Judged]) -> pd.DataFrame:
    rows = []
    for judged in found:
        probabilities, labels = judged.predictions()
        cells = metrics.reliability(probabilities, labels)
        rows += [judged.keys | cell | {"share": cell["hours"] / len(labels)} for cell in cells if cell["hours"]]
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


def _by_line(found: list[Judged]) -> dict[tuple, list[Run]]:
    lines: dict[tuple, list[Run]] = {}
    for judged in found:
        lines.setdefault((judged.panel, judged.label), []).append(judged.run)
    return lines


def _scores(found: list[Judged], metric: str, title: str) -> str:
    """AUPRC (x 100): 12.3 ± 0.4 (cl, mlp), ..."""
    values: dict[str, list[float]] = {}
    several = len({judged.panel for judged in found}) > 1
    for judged in found:
        name = f"{judged.label}; {judged.question.task}, {judged.question.split}" if several else judged.label
        values.setdefault(name, []).append(100 * judged.metrics[metric])
    texts = [
        f"{np.mean(v):.1f}{f' ± {np.std(v, ddof=1):.1f}' if len(v) > 1 else ''} ({name})" for name, v in values.items()
    ]
    return f"{title} (x 100): {', '.join(texts)}."


def _sides(data: pd.DataFrame) -> str:
    """Which lines predict too much in most hours, and which do not."""
    sides: dict[str, list[str]] = {}
    for label, line in data.groupby("run", sort=False):
        high = np.average(line["predicted"] > line["observed"], weights=line["share"]) > 0.5
        side = "below it, with probabilities that are too high" if high else "on or above it"
        sides.setdefault(side, []).append(label)
    return " ".join(f"Mostly {side}: {listed(labels)}." for side, labels in sides.items())
