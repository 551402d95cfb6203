"""Figures of cohorts: the prevalence of the bins of a task, such as the remaining length of stay."""

import numpy as np
import pandas as pd

from ncl_tf.data.declaration import Task
from ncl_tf.reporting.figures.figure import COLORS, Figure, legend_below, listed, panels
from ncl_tf.reporting.figures.groups import SPLIT_TITLES, data_text
from ncl_tf.reporting.sources import MissingInputError, Sources

NEEDS = "a cohort with a task in bins, such as length of stay: that of a run, or one named by --cohort"


def length_of_stay_bins(sources: Sources) -> Figure:
    """Draw bars of the share of labelled hours in each bin, by split."""
    found = [
        (cohort, position, task)
        for cohort in sources.opened_cohorts()
        for position, task in enumerate(cohort.tasks)
        if task.kind == "bins"
    ]
    if not found:
        raise MissingInputError(NEEDS)
    canvas, axes = panels(len(found), 6.2, 3.1, columns=1)
    rows = []
    for ax, (cohort, position, task) in zip(axes, found, strict=True):
        names = bin_names(task)
        for number, split in enumerate(SPLIT_TITLES):
            classes = cohort[split].classes[:, position]
            hours = np.bincount(classes[classes >= 0], minlength=task.classes)
            share = hours / max(hours.sum(), 1)
            places = np.arange(task.classes) + 0.27 * (number - 1)
            ax.bar(places, 100 * share, 0.25, color=COLORS[number], label=SPLIT_TITLES[split])
            facts = {"dataset": cohort.title, "cohort": cohort.checksum, "task": task.name, "split": split}
            rows += [
                facts | {"bin": name, "hours": int(count), "share": part}
                for name, count, part in zip(names, hours, share, strict=True)
            ]
        unit = "remaining length of stay (days)" if _in_hours(task) else task.name.replace("_", " ")
        ax.set(xlabel=unit, ylabel="labelled hours (%)", title=data_text(cohort.title, cohort.checksum))
        ax.set_xticks(range(task.classes), names)
        ax.grid(False, axis="x")
    legend_below(canvas, axes)
    data = pd.DataFrame(rows)
    largest = data.loc[data[data["split"] == "train"].groupby("cohort", sort=False)["share"].idxmax()]
    cohorts = listed(data_text(d, c) for d, c in zip(data["dataset"], data["cohort"], strict=True))
    tops = listed(f"{row.bin} with {row.share:.0%} of the training hours" for row in largest.itertuples())
    return Figure(
        "length_of_stay_bins",
        "Prevalence of length-of-stay bins",
        f"Share of the labelled hours in each bin of the {listed(data['task'].str.replace('_', ' '))} task, by split. Data: "
        f"{cohorts}. Counts of a cohort, so without budget or seeds.",
        f"Bars for each bin, three by three for training, validation and test split. The largest bin is {tops}.",
        data,
        canvas,
    )


def bin_names(task: Task) -> list[str]:
    """Name the bins of a task '< 1', '1–2', ..., '≥ 14': in days where the edges are hours of stay."""
    edges = [f"{edge / 24 if _in_hours(task) else edge:g}" for edge in task.edges]
    return [f"< {edges[0]}", *(f"{a}–{b}" for a, b in zip(edges, edges[1:], strict=False)), f"≥ {edges[-1]}"]


def _in_hours(task: Task) -> bool:
    return task.name == "length_of_stay"
