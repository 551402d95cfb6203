"""Figures of what a ward would ask of a classifier: events found for so many alarms, subgroups, and the decision curve."""

from typing import Any

import numpy as np
import pandas as pd
from matplotlib.axes import Axes

from ncl_tf.evaluation.decision_curve import useful_span
from ncl_tf.evaluation.subgroups import worst_group
from ncl_tf.reporting.figures import figure
from ncl_tf.reporting.figures.evaluations import (
    KEYS,
    PANEL,
    REFERENCE,
    BinaryEvaluation,
    best_evaluations,
    binary_evaluations,
    evaluation_facts,
    panel_title,
)
from ncl_tf.reporting.figures.figure import COLORS, GRAY, Figure, legend_below, listed, panels
from ncl_tf.reporting.sources import Sources, grouped

RATE_POINTS = 100
OF_ALARMS = ("event_recall", "alarm_precision")
OF_GROUPS = {  # what the figure of subgroups shows of each, as titled, and its scale
    "auroc": ("AUROC", 100),
    "auprc_at_prevalence": ("AUPRC, equal prevalence", 100),
    "event_recall": ("events found (%)", 100),
    "observed_to_expected": ("observed / expected", 1),
}
ROW, HEAD = 0.235, 1.25  # inches


def event_recall(sources: Sources) -> Figure:
    """Draw the share of events that are found, and the precision of alarms, over alarms per patient-day."""
    found, thinned = binary_evaluations(sources, "events")
    most = max(max(_curve(one, "alarms_per_day")) for one in found)
    rates = np.linspace(0, most, RATE_POINTS + 1)[1:]
    rows = []
    for one in found:
        curves = (np.interp(rates, _curve(one, "alarms_per_day"), _curve(one, name)) for name in OF_ALARMS)
        rows += [
            one.keys | {"alarms_per_day": rate, "metric": name, "value": value}
            for name, curve in zip(OF_ALARMS, curves, strict=True)
            for rate, value in zip(rates, curve, strict=True)
        ]
    data = figure.over_seeds(pd.DataFrame(rows), [*KEYS, "metric", "alarms_per_day"])
    groups = list(data.groupby(PANEL, sort=False))
    columns = min(len(groups), 3)
    high = -(-len(groups) // columns)
    canvas = figure.new_canvas(4.6 * columns, 4.9 * high)
    grid = canvas.subplots(2 * high, columns, squeeze=False, height_ratios=[2.2, 1] * high)
    pairs = grid.reshape(high, 2, columns).swapaxes(1, 2).reshape(-1, 2)
    for axes, (panel, curves) in zip(pairs, groups, strict=False):
        for color, (label, lines) in zip(COLORS, curves.groupby("run", sort=False), strict=False):
            for ax, name in zip(axes, OF_ALARMS, strict=True):
                line = lines[lines["metric"] == name]
                figure.line_with_band(ax, line["alarms_per_day"], line, scale=100, color=color, label=label)
            _points(axes, [one for one in found if one.line == (*panel, label)], color)
        axes[0].set(xlim=(0, most), ylim=(0, 102), ylabel="events found (%)", title=panel_title(panel))
        axes[1].set(xlim=(0, most), ylabel="correct alarms (%)", xlabel="alarms per patient-day")
        axes[1].set_ylim(bottom=0)
        axes[0].tick_params(labelbottom=False)
    for unused in pairs[len(groups) :].flat:
        unused.remove()
    legend_below(canvas, pairs[: len(groups)].flat)
    chosen = _at_threshold(found)
    return Figure(
        "event_recall",
        "Events found, by alarm rate",
        "Share of events that an alarm warns of in time, and share of alarms that do, over alarms per patient-day. "
        f"{_policy(found)} Diamonds: the alarm threshold. Error bars: 95 % intervals over stays, of a single seed. "
        f"{chosen}{thinned} {evaluation_facts(found, 'bands')}",
        f"Curves of events found, rising with alarms per patient-day; below, the share of correct alarms. {chosen}"[
            :880
        ],
        data,
        canvas,
    )


def subgroups(sources: Sources) -> Figure:
    """Draw the metrics of all subgroups with their intervals, of the best evaluation of each cohort and task."""
    found, _ = binary_evaluations(sources, "subgroups")
    shown = best_evaluations(found)
    entries = [_entries(one) for one in shown]
    heights = [ROW * len(rows) + HEAD for rows in entries]
    canvas = figure.new_canvas(10.5, sum(heights))
    grid = canvas.subplots(len(shown), len(OF_GROUPS), squeeze=False, sharey="row", height_ratios=heights)
    rows = []
    for axes, one, lines in zip(grid, shown, entries, strict=True):
        for ax, (metric, (title, scale)) in zip(axes, OF_GROUPS.items(), strict=True):
            _dots(ax, lines, metric, scale, one.result["subgroups"])
            ax.set_xlabel(title)
        axes[0].set_yticks(range(len(lines)), [_named(line) for line in lines])
        axes[0].set_ylim(len(lines) - 0.4, -0.6)
        axes[0].set_ylabel("group (stays, of which positive)")
        for label, line in zip(axes[0].get_yticklabels(), lines, strict=True):
            label.set_fontweight("bold" if line["metrics"] is None else "normal")
        axes[0].set_title(f"{panel_title(one.panel)}\n{one.label}, seed {one.run.record['seed']}", loc="left")
        rows += [
            one.keys | _counted(line) | {"metric": metric, "value": line["metrics"][metric]} | _bounds(line, metric)
            for line in lines
            if line["metrics"] is not None
            for metric in OF_GROUPS
        ]
    worst = listed(_worst_text(one) for one in shown)
    return Figure(
        "subgroups",
        "Subgroups",
        "Metrics of groups of stays with 95 % intervals over stays; the vertical line and its band: all stays. Orange: the worst "
        "group with at least 10 positive stays. Where the prevalence differs, so does precision; AUPRC is shown as if all "
        "groups had the same. Observed / expected: positive hours by the sum of risks, above 1 where risks are too low. A dash: "
        f"hours of one class only. {worst} {evaluation_facts(shown, '')}",
        f"Dots with intervals, a row for each group of stays and a column for each metric. {worst}",
        pd.DataFrame(rows),
        canvas,
    )


def decision_curves(sources: Sources) -> Figure:
    """Draw the net benefit of acting on risks above a threshold."""
    found, thinned = binary_evaluations(sources, "decision_curve")
    rows = []
    for one in found:
        curve = pd.DataFrame(one.result["decision_curve"])
        rows += [
            one.keys | {"risk_threshold": row.risk_threshold, "value": row.net_benefit} for row in curve.itertuples()
        ]
    data = figure.over_seeds(pd.DataFrame(rows), [*KEYS, "risk_threshold"])
    groups = list(data.groupby(PANEL, sort=False))
    canvas, axes = panels(len(groups), 4.6, 3.7)
    for ax, (panel, curves) in zip(axes, groups, strict=True):
        of_panel = [one for one in found if one.panel == panel]
        for color, (label, line) in zip(COLORS, curves.groupby("run", sort=False), strict=False):
            figure.line_with_band(ax, 100 * line["risk_threshold"], line, scale=1000, color=color, label=label)
            same = [one.result["decision_curve"] for one in of_panel if one.line[-1] == label]
            if len(same) == 1:
                low, high = (1000 * np.array(same[0][end]) for end in ("low", "high"))
                ax.fill_between(100 * line["risk_threshold"], low, high, color=color, alpha=0.12, linewidth=0)
        curve = of_panel[0].result["decision_curve"]
        every = 1000 * np.array(curve["treat_all"])
        ax.plot(100 * np.array(curve["risk_threshold"]), every, label="act on all hours", **REFERENCE)
        ax.axhline(0, label="act on none", color=GRAY, linewidth=1.2)
        top = 1.1 * max(every[0], 1000 * curves["mean"].max())
        ax.set(xscale="log", xlim=(0.1, 50), ylim=(-0.12 * top, top), title=panel_title(panel))
        ax.set(xlabel="act on risks above (%)", ylabel="net benefit per 1,000 hours")
        ax.set_xticks([0.1, 0.3, 1, 3, 10, 30], ["0.1", "0.3", "1", "3", "10", "30"])
        ax.minorticks_off()
    legend_below(canvas, axes)
    return Figure(
        "decision_curve",
        "Decision curve",
        "Net benefit of acting on calibrated risks above a threshold, in positive hours acted on per 1,000 hours: each needless "
        "action counts against it by the odds of the threshold. A model is worth using where its curve is above both "
        f"references. Bands: 95 % intervals over stays, of a single seed.{thinned} {evaluation_facts(found, 'bands')}",
        f"Net benefit over the risk threshold, beside acting on all hours and on none. {_useful(found)}",
        data.rename(columns={"mean": "net_benefit"}),
        canvas,
    )


def _curve(one: BinaryEvaluation, name: str) -> np.ndarray:
    """A curve of alarms by rising rate [K]; precision where nothing is alarmed is that of the rarest alarms."""
    values = pd.Series(one.result["events"]["curve"][name], dtype=float)[::-1]
    return values.bfill().to_numpy()


def _points(axes: Any, same: list[BinaryEvaluation], color: str) -> None:
    """Mark the alarm threshold of each seed, with intervals where there is a single one."""
    for one in same:
        events = one.result["events"]
        x = events["metrics"]["alarms_per_day"]
        for ax, name in zip(axes, OF_ALARMS, strict=True):
            y, interval = events["metrics"][name], events["intervals"][name]
            if y is not None:
                error = None if len(same) > 1 else [[100 * max(y - interval[0], 0)], [100 * max(interval[1] - y, 0)]]
                ax.errorbar(x, 100 * y, error, color=color, marker="D", markersize=6, markeredgecolor="white", zorder=3)


def _policy(found: list[BinaryEvaluation]) -> str:
    texts = []
    for policy in {tuple(sorted(one.result["events"]["policy"].items())) for one in found}:
        hours = dict(policy)
        texts.append(
            f"an alarm warns of an onset within {hours['horizon']} hours, and silences others for {hours['silence']}"
        )
    return f"{'; or '.join(sorted(texts)).capitalize()}."


def _at_threshold(found: list[BinaryEvaluation]) -> str:
    """State what each line finds at its alarm threshold, averaged over seeds."""
    texts = []
    for line, same in grouped(found, lambda one: one.line).items():
        found_share, rate = (
            np.mean([one.result["events"]["metrics"][name] or 0 for one in same])
            for name in ("event_recall", "alarms_per_day")
        )
        texts.append(f"{line[-1]} finds {100 * found_share:.0f} % at {rate:.2f} alarms per patient-day")
    return f"At the alarm threshold: {'; '.join(texts)}."


def _entries(one: BinaryEvaluation) -> list[dict[str, Any]]:
    """The rows of a panel: all stays, and each characteristic's name above its groups."""
    content = one.result["subgroups"]
    rows = [content["all"] | {"characteristic": "all", "group": "all stays"}]
    for name, groups in grouped(content["groups"], lambda group: group["characteristic"]).items():
        rows += [{"characteristic": name, "group": name, "metrics": None}, *groups]
    return rows


def _named(line: dict[str, Any]) -> str:
    """A row's name; a heading has no counts."""
    if line["metrics"] is None:
        return line["group"]
    return f"{line['group']} ({line['stays']:,}, {line['positive_stays']:,})"


def _counted(line: dict[str, Any]) -> dict[str, Any]:
    return {
        name: line[name] for name in ("characteristic", "group", "stays", "positive_stays", "hours", "positive_hours")
    }


def _bounds(line: dict[str, Any], metric: str) -> dict[str, float | None]:
    low, high = line["intervals"][metric] or (None, None)
    return {"low": low, "high": high}


def _dots(ax: Axes, lines: list[dict[str, Any]], metric: str, scale: float, content: dict[str, Any]) -> None:
    """Draw a column of dots with intervals; [0, 0] is the row of all stays."""
    worst, every = content["worst"][metric], content["all"]
    if every["intervals"][metric]:
        ax.axvspan(*(scale * end for end in every["intervals"][metric]), color=GRAY, alpha=0.3, linewidth=0)
    if every["metrics"][metric] is not None:
        ax.axvline(scale * every["metrics"][metric], color="#555555", linewidth=0.9)
    for y, line in enumerate(lines):
        if line["metrics"] is None:
            continue
        value, interval = line["metrics"][metric], line["intervals"][metric]
        if value is None:
            ax.text(0.5, y, "–", transform=ax.get_yaxis_transform(), ha="center", va="center", color="#555555")
            continue
        is_worst = worst == {name: line[name] for name in ("characteristic", "group")}
        color = COLORS[1] if is_worst else COLORS[0]
        ax.plot([scale * end for end in interval or (value, value)], [y, y], color=color, linewidth=1.4)
        ax.plot(scale * value, y, "o", color=color)
    if metric == "event_recall":
        ax.set_xlim(-4, 104)
    if metric == "observed_to_expected":
        ax.set_xscale("log", base=2)
        ax.xaxis.set_major_formatter(lambda value, _: f"{value:g}")
    ax.grid(visible=False, axis="y")
    ax.tick_params(axis="y", length=0)
    ax.spines["left"].set_visible(False)


def _worst_text(one: BinaryEvaluation) -> str:
    content = one.result["subgroups"]
    if (group := worst_group(content, "auroc")) is None:
        return f"{one.label}: no group has enough positive stays to be compared."
    return (
        f"Lowest AUROC of {one.label}: {100 * group['metrics']['auroc']:.1f} for {group['characteristic']} {group['group']}, "
        f"{100 * content['all']['metrics']['auroc']:.1f} for all."
    )


def _useful(found: list[BinaryEvaluation]) -> str:
    """State at which thresholds each line is better than both references, in its first seed."""
    texts = []
    for line, same in grouped(found, lambda one: one.line).items():
        span = useful_span(same[0].result["decision_curve"])
        where = f"between {100 * span[0]:.2g} % and {100 * span[1]:.2g} %" if span else "nowhere"
        texts.append(f"{line[-1]}: above both {where}")
    return f"{'; '.join(texts)}."
