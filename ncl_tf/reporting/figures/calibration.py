"""The figure of calibration: probability and risk beside what happened."""

import numpy as np
import pandas as pd
from matplotlib.axes import Axes

from ncl_tf.reporting.figures import figure
from ncl_tf.reporting.figures.evaluations import (
    REFERENCE,
    BinaryEvaluation,
    best_evaluations,
    binary_evaluations,
    evaluation_facts,
    panel_title,
)
from ncl_tf.reporting.figures.figure import COLORS, Figure
from ncl_tf.reporting.sources import Sources

SIDES = {"before": "mean probability, as trained (%)", "after": "mean risk, calibrated (%)"}
TICKS = (0.0, 0.1, 0.5, 1.0, 2.0, 5.0, 10.0, 20.0, 40.0, 70.0, 100.0)  # percent
APART = 0.07  # of the axis, which ticks must be apart


def calibration(sources: Sources) -> Figure:
    """Draw the share of positive hours over probability and over risk, of the best evaluation of each cohort and task."""
    found, _ = binary_evaluations(sources, "calibration")
    shown = best_evaluations(found)
    canvas = figure.new_canvas(8.2, 4.2 * len(shown))
    grid = canvas.subplots(len(shown), 2, squeeze=False)
    rows = []
    for axes, one in zip(grid, shown, strict=True):
        for ax, (when, label) in zip(axes, SIDES.items(), strict=True):
            bins = pd.DataFrame(one.result["calibration"][when]["bins"])
            _draw(ax, bins)
            ax.set(xlabel=label, ylabel="positive hours (%)")
            rows.append(bins.assign(when=when, **one.keys))
        axes[0].set_title(f"{panel_title(one.panel)}\n{one.label}, seed {one.run.record['seed']}", loc="left")
    errors = " ".join(_errors(one) for one in shown)
    return Figure(
        "calibration",
        "Does 3 % mean 3 %?",
        "The share of hours that are positive, over the mean of the probability (left) and of the risk (right), in 20 bins of "
        "equally many hours. On the dotted diagonal, a prediction of 3 % comes true in 3 % of the hours. Axes are stretched "
        f"toward 0. The risk is calibrated on the validation split. {errors} {evaluation_facts(shown, '')}",
        f"Points of observed over predicted frequency, for the probability and for the risk, beside a diagonal. {errors}",
        pd.concat(rows, ignore_index=True),
        canvas,
    )


def _draw(ax: Axes, bins: pd.DataFrame) -> None:
    """Draw a diagram on axes that grow like the square root, with a tick wherever there is room."""
    top = 103 * max(bins["mean_risk"].max(), bins["observed"].max())
    ax.set_xscale("function", functions=(_root, np.square))
    ax.set_yscale("function", functions=(_root, np.square))
    ax.plot([0, top], [0, top], **REFERENCE)
    ax.plot(100 * bins["mean_risk"], 100 * bins["observed"], "o-", color=COLORS[0], linewidth=1)
    ticks = [0.0]
    for tick in TICKS:
        if tick <= top and np.sqrt(tick / top) - np.sqrt(ticks[-1] / top) > APART:
            ticks.append(tick)
    names = [f"{tick:g}" for tick in ticks]
    ax.set_xticks(ticks, names)
    ax.set_yticks(ticks, names)
    ax.set(xlim=(0, top), ylim=(0, top))
    ax.minorticks_off()


def _root(values: np.ndarray) -> np.ndarray:
    return np.sqrt(np.maximum(values, 0))


def _errors(one: BinaryEvaluation) -> str:
    """State the calibration error before and after, and the slope after."""
    before, after = (one.result["calibration"][when] for when in SIDES)
    slope = "" if after["slope"] is None else f", slope {after['slope']:.2f}"
    return (
        f"Calibration error of {one.label}: {100 * before['ece']:.2g} % of the probability, {100 * after['ece']:.2g} % of the "
        f"risk{slope}."
    )
