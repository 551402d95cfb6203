"""Comparisons of evaluations, of `ncl_tf.evaluation.paired`, as a table and as a figure."""

from typing import Any

import pandas as pd

from ncl_tf.paper.compare import METRIC_TITLES
from ncl_tf.reporting.figures.figure import COLORS, Figure, panels, style
from ncl_tf.reporting.sources import grouped

NAME = "differences"


def markdown(found: dict[str, Any]) -> str:
    """Write a comparison as GitHub's Markdown: a row for each evaluation, below the first one its differences."""
    first, *others = found["evaluations"]
    metrics = list(first["metrics"])
    header = ["", *(METRIC_TITLES.get(metric, metric) for metric in metrics)]
    lines = [
        header,
        ["---"] * len(header),
        [first["name"], *(f"{100 * first['metrics'][name]:.2f}" for name in metrics)],
    ]
    for other in others:
        of_other = {one["metric"]: one for one in found["differences"] if one["evaluation"] == other["name"]}
        cells = [f"{100 * other['metrics'][name]:.2f}, {_text(of_other[name])}" for name in metrics]
        lines.append([other["name"], *cells])
    return "\n".join([*(f"| {' | '.join(line)} |" for line in lines), "", f"({_caption(found)})", ""])


def draw(found: dict[str, Any]) -> Figure:
    """Draw the differences to the first evaluation as dots with intervals, a panel for each metric."""
    data, first = pd.DataFrame(found["differences"]), found["evaluations"][0]["name"]
    low, high = zip(*(interval or (None, None) for interval in data.pop("interval")), strict=True)
    data = data.assign(low=low, high=high)
    by_metric = grouped(found["differences"], lambda one: one["metric"])
    count = len(found["evaluations"]) - 1
    with style(NAME):
        canvas, axes = panels(len(by_metric), 2.4, 0.9 + 0.3 * count, len(by_metric))
        for ax, (metric, lines) in zip(axes, by_metric.items(), strict=True):
            ax.axvline(0, color="#555555", linewidth=0.9)
            for y, line in enumerate(lines):
                value, interval = 100 * line["difference"], line["interval"]
                color = COLORS[0] if _excludes_zero(interval) else "#777777"
                ax.plot(
                    [100 * end for end in interval] if interval else [value] * 2, [y, y], color=color, linewidth=1.4
                )
                ax.plot(value, y, "o", color=color)
            ax.set_title(METRIC_TITLES.get(metric, metric))
            ax.set_yticks(range(count), [line["evaluation"] for line in lines] if ax is axes[0] else [""] * count)
            ax.set_ylim(count - 0.5, -0.5)
            ax.grid(visible=False, axis="y")
            ax.tick_params(axis="y", length=0)
        canvas.supxlabel(f"difference to {first}, x 100", fontsize=9)
        texts = (
            f"{one['evaluation']}: {METRIC_TITLES.get(one['metric'], one['metric'])} {_text(one)}"
            for one in found["differences"]
        )
        title = f"Differences to {first}"
        return Figure(
            NAME, title, _caption(found), f"Dots with intervals. {'; '.join(texts)}.", data, canvas
        ).laid_out()


def _text(line: dict[str, Any]) -> str:
    """Write a difference: +2.35 [1.70, 3.02]*."""
    value, interval = f"{100 * line['difference']:+.2f}", line["interval"]
    if interval is None:
        return value
    low, high = (100 * end for end in interval)
    return f"{value} [{low:.2f}, {high:.2f}]{'*' * _excludes_zero(interval)}"


def _excludes_zero(interval: list[float] | None) -> bool:
    return interval is not None and not interval[0] <= 0 <= interval[1]


def _caption(found: dict[str, Any]) -> str:
    first = found["evaluations"][0]["name"]
    return (
        f"{found['task']}, {found['split']} split of {found['dataset']}, {found['stays']:,} stays, x 100. With each "
        f"difference to {first}: its 95 % interval by a paired bootstrap over stays, {found['resamples']:,} resamples. "
        "*: it excludes 0."
    )
