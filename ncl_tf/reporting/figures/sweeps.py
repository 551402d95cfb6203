"""Figures of the searches in the paper's appendix, from results of bin/reproduce: lines over alpha, grids of two settings."""

import numpy as np
import pandas as pd
from matplotlib.axes import Axes

from ncl_tf.data.cohort import titled
from ncl_tf.paper import results, tables
from ncl_tf.paper.compare import METRIC_TITLES
from ncl_tf.reporting.figures.figure import COLORS, GRAY, Figure, listed, panels, seeds_text
from ncl_tf.reporting.figures.groups import SPLIT_TITLES, data_text
from ncl_tf.reporting.sources import MissingInputError, Sources

ACCURACY = "contrastive_accuracy"
AXIS = {
    "alpha": "α, the weight of alignment",
    "momentum": "momentum ρ",
    "temperature": "temperature τ",
    "window": "window w (hours)",
}
AUGMENTATIONS = {"cutout": "cutout", "crop": "crop", "noise": "noise", "channel_dropout": "channel\ndropout"}
SYMBOL = {"alpha": "α", "momentum": "ρ", "temperature": "τ", "window": "w"}


def alpha_n_w(sources: Sources) -> Figure:
    """Draw lines of performance over alpha of NCL(n_w)."""
    caption = "Performance of NCL(n_w) for different α: 0 only discriminates between neighbors, 1 only aligns them."
    return _lines("alpha_n_w", "α against performance, NCL(n_w)", caption, points(sources, "alpha_n_w", ["alpha"]))


def alpha_n_y(sources: Sources) -> Figure:
    """Draw lines of performance and contrastive accuracy over alpha of NCL(n_Y)."""
    data = points(sources, "alpha_n_y", ["alpha"], accuracy=True)
    caption = (
        "Performance of NCL(n_Y) for different α, and the contrastive accuracy of its training: the share of samples whose "
        "best-scoring key is their own other view."
    )
    return _lines("alpha_n_y", "α against performance and contrastive accuracy, NCL(n_Y)", caption, data)


def temperature_momentum(sources: Sources) -> Figure:
    """Draw a grid of temperature and momentum of CL."""
    return _grids(sources, "temperature_momentum", "Temperature and momentum of CL", "temperature", "momentum")


def window_alpha(sources: Sources) -> Figure:
    """Draw a grid of window and alpha of NCL(n_w)."""
    return _grids(sources, "window_alpha", "w and α of NCL(n_w)", "window", "alpha")


def augmentations(sources: Sources) -> Figure:
    """Draw a grid of pairs of augmentations of CL, single ones on the diagonal."""
    data = points(sources, "augmentations", ["layers"])
    names = list(AUGMENTATIONS)
    single = data["layers"].str.count(r"\+") < 2  # or a pair
    groups = [
        (panel, group)
        for panel, group in data.groupby(["source", "table", "task", "metric"], sort=False)
        if single[group.index].any()
    ]
    if not groups:
        raise MissingInputError("results of augmentations alone or in pairs, beside those of all four together")
    canvas, axes = panels(len(groups), 4.4, 3.9)
    best, all_four = [], []
    for ax, ((_, _, task, metric), group) in zip(axes, groups, strict=True):
        mean, std = np.full((2, len(names), len(names)), np.nan)
        for layers, value, spread in zip(group["layers"], group["mean"], group["std"], strict=True):
            chosen = [names.index(layer) for layer in layers.split("+")]
            if len(chosen) <= 2:
                i, j = chosen[0], chosen[-1]
                mean[i, j] = mean[j, i] = value
                std[i, j] = std[j, i] = spread
            else:
                all_four.append(f"{value:.1f}")
        pairs = group[single[group.index]]
        best.append(pairs.loc[pairs["mean"].idxmax(), "layers"].replace("+", " with ").replace("_", " "))
        ticks = list(AUGMENTATIONS.values())
        _grid(ax, mean, std, ticks, ticks, _score(metric))
        ax.set_title(f"{_header(group, data)}, {_words(task)}")
        ax.set_xlabel("augmentation")
        ax.set_ylabel("composed with")
    four = f" All four together reach {listed(all_four)}." if all_four else ""
    return Figure(
        "augmentations",
        "Pairwise composition of augmentations of CL",
        f"Performance of CL with two augmentations, or with one, on the diagonal.{four} {_facts(data, '±')}",
        f"A square grid of augmentations, colored by performance. The best cell is {listed(best)}.",
        data,
        canvas,
    )


def points(sources: Sources, name: str, axes: list[str], accuracy: bool = False) -> pd.DataFrame:
    """Collect the results of all sweeps of that name, whatever dataset or labels they are of.

    Returns:
        a row for each point and metric: source (number of the output folder), table, dataset, split, budget, cohort, task,
        metric, the settings in `axes`, mean and std over seeds (x 100), seeds, changed (settings that are neither the
        table's nor the budget's, in words).
    """
    found = []
    names = [known for known in tables.names() if known.startswith(f"{name}_")]
    for source, output in enumerate((s.output for s in sources.folders if s.output), start=1):
        own = [known for known in output.plan["tables"] if known.startswith(f"{name}-")]  # of any cohort
        for table in map(tables.load_table, names + own):
            metrics = {task: [c.metric for c in table.columns if c.task == task] for task in table.tasks}
            for row in results.rows(output.results, table):
                facts = {
                    "source": source,
                    "table": table.name,
                    "dataset": titled(row["dataset"] if table.name in own else table.dataset, row["simulated"]),
                    "split": table.split,
                    "budget": row["budget"],
                    "cohort": row["cohort_checksum"],
                    **{axis: tables.value_name(row[axis]) if axis == "layers" else row[axis] for axis in axes},
                    "seed": row["seed"],
                    "changed": ", ".join(f"{setting} = {value}" for setting, value in row["changed"].items()),
                }
                for metric in dict.fromkeys(metrics[row["task"]]):
                    found.append(facts | {"task": row["task"], "metric": metric, "value": row["metrics"][metric]})
                if accuracy and "accuracy" in row["training"]:
                    value = row["training"]["accuracy"]
                    found.append(facts | {"task": "training", "metric": ACCURACY, "value": value})
    if not found:
        raise MissingInputError(f"results of bin/reproduce --table={' or '.join(names)}")
    values = pd.DataFrame(found).drop_duplicates()  # two tasks may share a training, and its accuracy
    values["value"] *= 100
    by = [*(column for column in values.columns if column not in ("seed", "changed", "value", *axes)), *axes]
    return values.groupby(by, sort=False, as_index=False).agg(
        mean=("value", "mean"), std=("value", "std"), seeds=("seed", "nunique"), changed=("changed", "max")
    )


def _lines(name: str, title: str, caption: str, data: pd.DataFrame) -> Figure:
    """Draw a column for each sweep, in it a panel for each metric, all over alpha."""
    sweeps = list(data.groupby(["source", "table"], sort=False))
    rows = [
        sorted(sweep.groupby(["task", "metric"], sort=False), key=lambda g: g[0][1] == ACCURACY) for _, sweep in sweeps
    ]
    height = max(map(len, rows))
    canvas, axes = panels(len(sweeps) * height, 3.9, 2.5, columns=len(sweeps))
    grid = np.array(axes, dtype=object).reshape(height, len(sweeps))
    trends = []
    for column, panels_of_sweep in zip(grid.T, rows, strict=True):
        for ax, ((task, metric), group) in zip(column, panels_of_sweep, strict=False):
            group = group.sort_values("alpha")
            color = COLORS[1] if metric == ACCURACY else COLORS[0]
            ax.errorbar(group["alpha"], group["mean"], group["std"].fillna(0), color=color, marker="o")
            ax.set_xlim(-0.04, 1.04)
            ax.set_ylabel(_score(metric) if metric == ACCURACY else f"{_words(task)}\n{_score(metric)}")
            ax.set_xlabel(AXIS["alpha"])
            best = group.loc[group["mean"].idxmax(), "alpha"]
            trends.append(f"{_score(metric, unit='')} of {_words(task)} at α = {best:g} ({_header(group, data)})")
        column[0].set_title(_header(panels_of_sweep[0][1], data))
        for unused in column[len(panels_of_sweep) :]:
            unused.remove()
    alt = f"Lines over α from {data['alpha'].min():g} to {data['alpha'].max():g}. The highest values are {listed(trends)}."
    return Figure(name, title, f"{caption} {_facts(data)}", alt, data, canvas)


def _grids(sources: Sources, name: str, title: str, down: str, across: str) -> Figure:
    """Draw a panel for each sweep and metric: a grid of two settings, colored by performance."""
    data = points(sources, name, [down, across])
    groups = list(data.groupby(["source", "table", "task", "metric"], sort=False))
    shape = data[down].nunique(), data[across].nunique()
    columns = 1 if shape[1] > 4 else 2
    canvas, axes = panels(len(groups), 1.7 + 0.62 * shape[1], 1.2 + 0.5 * shape[0], columns)
    best = []
    for ax, ((_, _, task, metric), group) in zip(axes, groups, strict=True):
        mean, std = (group.pivot(index=down, columns=across, values=value) for value in ("mean", "std"))
        _grid(ax, mean.to_numpy(), std.to_numpy(), mean.columns, mean.index, _score(metric))
        ax.set_title(f"{_header(group, data)}, {_words(task)}")
        ax.set_xlabel(AXIS[across])
        ax.set_ylabel(AXIS[down])
        top = group.loc[group["mean"].idxmax()]
        best.append(f"{SYMBOL[down]} = {top[down]:g}, {SYMBOL[across]} = {top[across]:g} ({_header(group, data)})")
    caption = f"Performance for different values of {AXIS[down]} and {AXIS[across]}. {_facts(data, '±')}"
    alt = f"A grid of {shape[0]} by {shape[1]} cells, colored by performance. The best cell is {listed(best)}."
    return Figure(name, title, caption, alt, data, canvas)


def _grid(ax: Axes, mean: np.ndarray, std: np.ndarray, across: list, down: list, label: str) -> None:
    """Color cells [down, across] by their mean and write mean and deviation into them; what is not known stays gray."""
    ax.set_facecolor(GRAY)
    ax.grid(False)
    image = ax.imshow(mean, cmap="viridis", aspect="auto", origin="upper")
    middle = (np.nanmin(mean) + np.nanmax(mean)) / 2
    for i, j in zip(*np.nonzero(np.isfinite(mean)), strict=True):
        text = f"{mean[i, j]:.1f}".replace("-", "−") + (f"\n± {std[i, j]:.1f}" if np.isfinite(std[i, j]) else "")
        ax.text(j, i, text, ha="center", va="center", fontsize=7.5, color="black" if mean[i, j] > middle else "white")
    for axis, values in ((ax.xaxis, across), (ax.yaxis, down)):
        axis.set_ticks(range(len(values)), [value if isinstance(value, str) else f"{value:g}" for value in values])
    ax.tick_params(length=0)
    ax.spines[:].set_visible(False)
    ax.figure.colorbar(image, ax=ax, label=label, shrink=0.9).outline.set_visible(False)


def _header(group: pd.DataFrame, data: pd.DataFrame) -> str:
    """The title of a sweep among others in a figure: dataset, labels that n_Y saw, and the budget where it differs."""
    first = group.iloc[0]
    labels = first["table"].removeprefix("alpha_n_y_") if first["table"].startswith("alpha_n_y_") else None
    parts = [first["dataset"], *([f"labels of {_words(labels)}"] if labels else [])]
    return ", ".join([*parts, *([f"budget {first['budget']!r}"] if data["budget"].nunique() > 1 else [])])


def _facts(data: pd.DataFrame, drawn: str = "error bars") -> str:
    """State data, budget, seeds and changed settings, for captions."""
    cohorts = (data_text(d, c) for d, c in zip(data["dataset"], data["cohort"], strict=True))
    splits, budgets = listed(data["split"].map(SPLIT_TITLES)), listed(data["budget"].map(repr))
    text = f"Data: {listed(cohorts)}, {splits} split, MLP head. Budget {budgets}; {seeds_text(data['seeds'], drawn)}."
    changed = [settings for settings in data["changed"] if settings]
    return f"{text} Settings other than the paper's or the budget's: {listed(changed)}." if changed else text


def _score(metric: str, unit: str = " (x 100)") -> str:
    return f"contrastive accuracy{unit and ' (%)'}" if metric == ACCURACY else METRIC_TITLES[metric] + unit


def _words(task: str) -> str:
    return task.replace("_", " ")
