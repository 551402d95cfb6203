"""The paper's data tables for a cohort file, and what is measured in it."""

import pathlib

import numpy as np

from ncl_tf.data.cohort import Cohort
from ncl_tf.data.datasets import PAPER_COUNTS
from ncl_tf.data.splits import SPLITS


def counts(cohort: Cohort) -> dict[str, dict[str, tuple[int, ...]]]:
    """Count stays, hours, labelled hours and positives per split (train, val, test), as the paper counts them."""
    splits = [cohort[name] for name in SPLITS]
    table = {
        "": {
            "stays": tuple(len(split.patient_windows) for split in splits),
            "hours": tuple(len(split.data) for split in splits),
        }
    }
    if splits[0].subjects is not None:
        table[""]["patients"] = tuple(len(np.unique(split.subjects)) for split in splits)
    for position, task in enumerate(cohort.tasks):
        labels = [split.labels[:, position] for split in splits]
        table[task.name] = {"labelled hours": tuple(int((~np.isnan(label)).sum()) for label in labels)}
        if task.kind == "binary":
            table[task.name]["positive hours"] = tuple(int((label == 1).sum()) for label in labels)
            table[task.name]["positive stays"] = tuple(
                int(np.maximum.reduceat(label == 1, split.patient_windows[:, 0]).sum())
                for label, split in zip(labels, splits, strict=True)
            )
    return table


def describe(path: str | pathlib.Path, channels: bool = True) -> str:
    """Tabulate counts per split, beside the paper's if the splits are the same; with `channels`, also missingness and ranges."""
    cohort = Cohort(path)
    table, paper = counts(cohort), PAPER_COUNTS.get(cohort.name, {})
    published = paper.get("stays") == table[""]["stays"]
    lines = [
        f"{cohort.path}: {cohort.title}, {len(cohort.columns)} columns, the first {cohort.static_columns} static",
        *([observed] if (observed := _observations(cohort)) else []),
        "",
        f"{'':34}{'train':>12}{'val':>12}{'test':>12}",
    ]
    for task, rows in table.items():
        for what, numbers in rows.items():
            lines.append(_row(f"{task}: {what}" if task else what, numbers))
            theirs = paper.get(task, {}).get(what) if task else paper.get(what)
            if published and theirs:
                lines.append(_row("  in the paper", theirs, "  same" if theirs == numbers else "  differs"))
    if paper and not published:
        stays = " / ".join(f"{number:,}" for number in paper["stays"])
        lines += ["", f"not the paper's cohort, which has {stays} stays"]
    if channels:
        lines += ["", *_channel_lines(cohort)]
    return "\n".join(lines)


def _observations(cohort: Cohort) -> str:
    """Say which observation columns there are; empty if there are none."""
    if not cohort.observations:
        return ""
    dataset = cohort.preprocessor.dataset
    columns = dataset.columns[len(dataset.value_columns) :]
    return f"{len(columns)} observation columns ({', '.join(cohort.observations)}): {columns[0]} to {columns[-1]}"


def _row(title: str, numbers: tuple[int, ...], remark: str = "") -> str:
    return f"{title:34}" + "".join(f"{number:>12,}" for number in numbers) + remark


def _channel_lines(cohort: Cohort) -> list[str]:
    """Make a line per channel: how often it is measured, known after forward fill, and its range in the training split."""
    if not cohort.channel_statistics:
        data = cohort["train"].data
        lines = [
            "prepared columns of the training split (this file records no raw measurements)",
            f"{'column':36}{'not zero':>10}{'min':>12}{'mean':>12}{'max':>12}",
        ]
        for index, name in enumerate(cohort.columns):
            column = data[:, index]
            share = float((column != 0).mean())
            lines.append(f"{name:36}{share:>10.1%}{column.min():>12.4g}{column.mean():>12.4g}{column.max():>12.4g}")
        return lines
    positive = measured_in_positive_hours(cohort)
    task, shares = positive or ("", {})
    lines = [
        f"channels in the training split: hours measured, {f'of the hours with {task} measured, ' * bool(task)}"
        "hours known after forward fill, range of what is known",
        f"{'channel':36}{'kind':>20}{'measured':>10}{'positive' * bool(task):>{10 * bool(task)}}{'known':>10}{'min':>10}"
        f"{'mean':>10}{'max':>10}  unit",
    ]
    for channel in cohort.preprocessor.dataset.channels:
        s = cohort.channel_statistics[channel.name]
        kind = ("static " if channel.static else "") + channel.kind
        span = "".join(f"{'-' if s[key] is None else format(s[key], '.4g'):>10}" for key in ("min", "mean", "max"))
        share = f"{shares[channel.name]:.1%}" if channel.name in shares else ""
        lines.append(
            f"{channel.name:36}{kind:>20}{s['measured']:>10.1%}{share:>{10 * bool(task)}}{s['known']:>10.1%}{span}  "
            f"{channel.unit}".rstrip()
        )
    return lines


def measured_in_positive_hours(cohort: Cohort) -> tuple[str, dict[str, float]] | None:
    """Return the first binary task, and the share of its positive training hours in which each observed channel is measured.

    None without such hours, or without the observation recency or measured, which show them.
    """
    observation = next((name for name in ("recency", "measured") if name in cohort.observations), None)
    binary = [position for position, task in enumerate(cohort.tasks) if task.kind == "binary"]
    if observation is None or not binary:
        return None
    data, dataset = cohort["train"], cohort.preprocessor.dataset
    positive = data.data[data.labels[:, binary[0]] == 1]
    if not len(positive):
        return None
    names = [dataset.channels[channel].name for channel in dataset.observed]
    columns = [cohort.columns.index(f"{name}:{observation}") for name in names]
    shares = (positive[:, columns] == 1).mean(axis=0)
    return cohort.tasks[binary[0]].name, dict(zip(names, shares.tolist(), strict=True))
