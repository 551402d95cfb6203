"""Figures of trainings, from the reports that run directories keep."""

from typing import Any

import pandas as pd

from ncl_tf.reporting.figures.figure import COLORS, Figure, legend_below, line_with_band, listed, over_seeds, panels
from ncl_tf.reporting.figures.groups import evenly, facts, left_out
from ncl_tf.reporting.sources import MissingInputError, Sources, grouped
from ncl_tf.runs import StoredRun

TERM_TITLES = {
    "loss": "objective (nats)",
    "alignment": "$L_{NA}$, alignment (nats)",
    "discrimination": "$L_{ND}$, discrimination (nats)",
    "accuracy": "contrastive accuracy (%)",
    "other_loss": "loss of methods that do not contrast",
}
CURVES = {"training": ("", "-"), "validation": ("val_", "--")}


def training_curves(sources: Sources) -> Figure:
    """Draw the objective, its two parts and the contrastive accuracy over the steps of training."""
    groups = grouped((run for run in sources.runs if run.reports), lambda run: run.label)
    if not groups:
        raise MissingInputError("a run directory with reports of its training")
    shown = evenly(groups, len(COLORS))
    rows = [row for label, runs in shown.items() for run in runs for row in _terms(label, run)]
    data = over_seeds(pd.DataFrame(rows), ["run", "term", "split", "step"])
    terms = [term for term in TERM_TITLES if term in set(data["term"])]
    canvas, axes = panels(len(terms), 3.9, 2.7, columns=2)
    for ax, term in zip(axes, terms, strict=True):
        for (label, split), line in data[data["term"] == term].groupby(["run", "split"], sort=False):
            looks = {"color": COLORS[list(shown).index(label)], "linestyle": CURVES[split][1]}
            line_with_band(ax, line["step"], line, label=label if split == "training" else None, **looks)
        ax.set_xlabel("training step")
        ax.set_ylabel(TERM_TITLES[term])
    for split, (_, style) in CURVES.items():
        axes[0].plot([], [], color="#555555", linestyle=style, label=split)
    legend_below(canvas, axes)
    return Figure(
        "training_curves",
        "Training curves",
        "Objective, its two parts and contrastive accuracy during training: solid on training batches, dashed on validation "
        f"data.{left_out(groups, shown)} {facts(shown.values(), 'bands')}",
        f"Curves over training steps. The training loss of {listed(_trends(data))}.",
        data,
        canvas,
    )


def _terms(label: str, run: StoredRun) -> list[dict[str, Any]]:
    """List the terms of a run's objective, a row for each step and split; losses of other methods are another term."""
    rows = []
    for report in run.reports:
        contrasts = "alignment" in report
        for split, (prefix, _) in CURVES.items():
            for term in [term for term in (TERM_TITLES if contrasts else ["loss"]) if prefix + term in report]:
                facts = {"run": label, "seed": run.record["seed"], "split": split, "step": report["step"]}
                value = report[prefix + term] * (100 if term == "accuracy" else 1)
                rows.append(facts | {"term": term if contrasts else "other_loss", "value": value})
    return rows


def _trends(data: pd.DataFrame) -> list[str]:
    losses = data[data["term"].isin(["loss", "other_loss"]) & (data["split"] == "training")]
    return [
        f"{label} goes from {line['mean'].iloc[0]:.3g} to {line['mean'].iloc[-1]:.3g}"
        for label, line in losses.groupby("run", sort=False)
    ]
