"""Figures of representations of validation stays: t-SNE, and distances within and between stays."""

import textwrap
from collections.abc import Sequence

import matplotlib
import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.lines import Line2D
from sklearn.manifold import TSNE
from sklearn.neighbors import NearestNeighbors
from threadpoolctl import threadpool_limits

import ncl_tf
from ncl_tf.data.cohort import SplitData
from ncl_tf.data.declaration import Task
from ncl_tf.reporting.figures.figure import COLORS, GRAY, Canvas, Figure, line_with_band, listed, new_canvas, over_seeds
from ncl_tf.reporting.figures.groups import by_alpha, evenly, facts, left_out
from ncl_tf.reporting.sources import MissingInputError, Sources, grouped
from ncl_tf.runs import StoredRun

TSNE_RUNS = 5
TSNE_STAYS = len(COLORS)
TSNE_HOURS = 72  # the last ones of each stay, at the most
SHORTEST = 12  # hours of a stay that is shown
DISTANCE_STAYS = 200
LAGS = 48  # hours
BATCH = 1024


def compared(sources: Sources, most: int) -> tuple[dict[str, list[StoredRun]], str, SplitData, Task]:
    """Choose the runs that differ in alpha only where there are such; else all those of the data that most runs are of.

    Returns:
        runs that differ in the seed only, by label, or by alpha of a sweep; a sentence about the choice, for captions;
        the validation split that they share, and its first task.
    """
    runs = [run for run in sources.runs if run.encoder]
    if not runs:
        raise MissingInputError("a finished run directory, with its encoder")
    groups, how = by_alpha(runs), "differ only in α"
    if not groups:
        of_one_cohort = max(grouped(runs, lambda run: run.record["cohort_checksum"]).values(), key=len)
        groups, how = grouped(of_one_cohort, lambda run: run.label), ""
    first = next(iter(groups.values()))[0]
    shown = evenly(groups, most)
    chosen = f" The runs {how} ({first.label}, for one)." if how else ""
    cohort = sources.cohort(first)
    return shown, chosen + left_out(groups, shown), cohort["val"], cohort.tasks[0]


def tsne(sources: Sources) -> Figure:
    """Draw a t-SNE of the hours of a few validation stays for each run, colored by stay and by label."""
    groups, how, split, task = compared(sources, TSNE_RUNS)
    rows, stays = few_stays(split)
    chosen = {label: min(runs, key=lambda run: run.record["seed"]) for label, runs in groups.items()}
    parts = []
    for label, run in chosen.items():
        representations = embedded(run, split, rows)
        with threadpool_limits(1):  # so few points are slower with threads, which wait for each other
            method = TSNE(perplexity=min(30, (len(rows) - 1) / 3), init="pca", random_state=0)
            places = method.fit_transform(representations)
        columns = {"run": label, "seed": run.record["seed"], "stay": stays, "class": split.classes[rows, 0]}
        # Sorted by place, the points do not reveal the order of a stay's hours.
        parts.append(pd.DataFrame(columns | {"x": places[:, 0], "y": places[:, 1]}).sort_values(["stay", "x"]))
    data, name = pd.concat(parts, ignore_index=True), task.name.replace("_", " ")
    return Figure(
        "tsne",
        "t-SNE of representations",
        f"t-SNE of the representations of {len(rows)} hours of {max(stays)} validation stays: each point is an hour, above "
        f"colored by stay, below by the label of {name}.{how} {facts([[run] for run in chosen.values()])}",
        f"Clouds of points for {listed(chosen)}, each twice: colored by stay, and by {name}. {_neighbors(data)}",
        data,
        _clouds(data, name, task.classes),
    )


def _clouds(data: pd.DataFrame, task: str, classes: int) -> Canvas:
    """Draw a column for each run: above its points colored by stay, below by class."""
    labels = list(dict.fromkeys(data["run"]))
    canvas = new_canvas(2.3 * max(len(labels), 2) + 1.3, 5.2)
    grid = canvas.subplots(2, len(labels), squeeze=False)
    for (upper, lower), label in zip(grid.T, labels, strict=True):
        part = data[data["run"] == label].sort_values("class")  # rare classes are drawn last, on top
        colors = [COLORS[stay - 1] for stay in part["stay"]], [_class_color(one, classes) for one in part["class"]]
        for ax, color in zip((upper, lower), colors, strict=True):
            ax.scatter(part["x"], part["y"], c=color, s=7, linewidths=0)
            ax.set(xticks=[], yticks=[])
            ax.spines[:].set_visible(True)
        upper.set_title(textwrap.fill(label, 26))
    grid[0, 0].set_ylabel("colored by stay")
    grid[1, 0].set_ylabel(f"colored by {task}")
    canvas.supxlabel("t-SNE coordinates (no unit)", fontsize=9)
    handles = _class_handles(classes, task, bool((data["class"] < 0).any()))
    grid[1, -1].legend(handles=handles, loc="upper left", bbox_to_anchor=(1, 1))
    return canvas


def distances(sources: Sources) -> Figure:
    """Draw cosine distances of representations within and between stays, and within stays over the hours between samples."""
    groups, how, split, _ = compared(sources, len(COLORS))
    chosen = np.random.default_rng(0).permutation(len(split.lengths))[:DISTANCE_STAYS]
    rows, stays = _last_hours(split, chosen)
    values = []
    for label, runs in groups.items():
        for run in runs:
            measured = stay_distances(embedded(run, split, rows), stays)
            values += [{"run": label, "seed": run.record["seed"], **one} for one in measured]
    data = over_seeds(pd.DataFrame(values), ["run", "pairs", "hours_apart"])
    canvas = new_canvas(9.2, 2.2 + 0.32 * len(groups))
    left, right = canvas.subplots(1, 2, width_ratios=(1, 1.1))
    _dumbbells(left, data, list(groups))
    for color, label in zip(COLORS, groups, strict=False):
        of_run = data[data["run"] == label]
        line = of_run[of_run["pairs"] == "within a stay, by hours apart"]
        line_with_band(right, line["hours_apart"], line, color=color)
        between = of_run[of_run["pairs"] == "between stays"]["mean"].item()
        right.axhline(between, color=color, linestyle=":", linewidth=1)
    right.set(xlabel="hours between two samples of a stay", ylabel="mean cosine distance", ylim=(0, None))
    right.set_title("solid: within stays; dotted: between stays", loc="left")
    number = len(np.unique(stays))
    return Figure(
        "distances",
        "Distances within and between stays",
        f"Mean cosine distance of representations of two hours of one stay, and of two stays: {len(rows):,} hours of {number} "
        f"validation stays.{how} {facts(groups.values(), 'error bars and bands')}",
        f"Pairs of points for each run and curves over the hours between two samples. {listed(_ratios(data))}.",
        data,
        canvas,
    )


def few_stays(split: SplitData) -> tuple[np.ndarray, np.ndarray]:
    """Choose rows [H] and stay numbers 1 .. n [H]: the last hours of a few stays, up to half of them with a positive hour."""
    positive = np.maximum.reduceat(split.classes[:, 0] > 0, split.patient_windows[:, 0])
    long = split.lengths >= min(SHORTEST, split.lengths.max())
    random = np.random.default_rng(0)
    with_any, without = (random.permutation(np.flatnonzero(long & (positive == one))) for one in (True, False))
    first = with_any[: max(TSNE_STAYS // 2, TSNE_STAYS - len(without))]
    chosen = random.permutation([*first, *without[: TSNE_STAYS - len(first)]]).astype(int)
    return _last_hours(split, chosen, TSNE_HOURS)


def _last_hours(split: SplitData, chosen: np.ndarray, most: int | None = None) -> tuple[np.ndarray, np.ndarray]:
    """List the rows [H] of the last hours of stays, at most so many of each, and the stays' numbers 1 .. n [H]."""
    hours = np.minimum(split.lengths[chosen], most or split.lengths.max())
    ends = split.patient_windows[chosen, 1] + 1
    rows = np.concatenate([np.arange(end - count, end) for end, count in zip(ends, hours, strict=True)])
    return rows, np.repeat(np.arange(1, len(chosen) + 1), hours)


def embedded(run: StoredRun, split: SplitData, rows: np.ndarray) -> np.ndarray:
    """Compute the representations [H, size] of the hours at the given rows [H]."""
    from ncl_tf.data.windows import Windows  # imports TensorFlow

    encoder = ncl_tf.load(run.encoder)
    batches = Windows(split, encoder.history).sequential(BATCH, rows)
    return np.concatenate([encoder.embed(batch["window"]) for batch in batches])


def stay_distances(representations: np.ndarray, stays: np.ndarray) -> list[dict]:
    """Compute mean cosine distances, 1 - cos, over all pairs of hours of the same stay, of different stays, and by hours apart.

    The representations [H, size] are stay after stay, hour after hour; `stays` [H] are the numbers of their stays, 1 .. n.
    """
    unit = representations.astype(np.float64)
    unit /= np.linalg.norm(unit, axis=1, keepdims=True)
    # The cosines of all pairs sum to the square of the sum of all vectors; of a stay with itself likewise.
    counts = np.bincount(stays)
    sums = np.zeros((len(counts), unit.shape[1]))
    np.add.at(sums, stays, unit)
    same, everything = np.sum(sums**2), np.sum(sums.sum(0) ** 2)
    pairs_same = np.sum(counts**2)
    within = 1 - (same - len(unit)) / (pairs_same - len(unit))
    between = 1 - (everything - same) / (len(unit) ** 2 - pairs_same)
    found = [
        {"pairs": pairs, "hours_apart": np.nan, "value": value}
        for pairs, value in (("within a stay", within), ("between stays", between))
    ]
    for lag in range(1, LAGS + 1):
        cosines = np.sum(unit[lag:] * unit[:-lag], axis=1)[stays[lag:] == stays[:-lag]]
        if len(cosines):
            found.append({"pairs": "within a stay, by hours apart", "hours_apart": lag, "value": 1 - cosines.mean()})
    return found


def _class_color(one: int, classes: int) -> str | tuple:
    if one < 0:
        return GRAY
    if classes == 2:
        return (COLORS[5], COLORS[1])[one]
    return matplotlib.colormaps["viridis"](one / (classes - 1))


def _class_handles(classes: int, task: str, unlabelled: bool) -> list[Line2D]:
    names = [f"no {task}", task] if classes == 2 else [f"bin {one + 1}" for one in range(classes)]
    shown = {name: _class_color(one, classes) for one, name in enumerate(names)}
    shown |= {"unlabelled": GRAY} if unlabelled else {}
    return [Line2D([], [], marker="o", linestyle="", color=color, label=name) for name, color in shown.items()]


def _dumbbells(ax: Axes, data: pd.DataFrame, labels: Sequence[str]) -> None:
    """Draw for each run its mean distance within stays and between them, joined by a line."""
    for height, (color, label) in enumerate(zip(COLORS, labels, strict=False)):
        of_run = data[data["run"] == label].set_index("pairs")
        ends = [of_run.loc[pairs] for pairs in ("within a stay", "between stays")]
        ax.plot([end["mean"] for end in ends], [height, height], color=color, linewidth=2.5, alpha=0.4)
        for end, marker in zip(ends, "os", strict=True):
            ax.errorbar(end["mean"], height, xerr=np.nan_to_num(end["std"]), color=color, marker=marker, markersize=6)
    ax.set_yticks(range(len(labels)), labels)
    ax.set(xlim=(0, None), ylim=(len(labels) - 0.4, -0.6), xlabel="mean cosine distance (0: same direction)")
    ax.set_title("●  within a stay    ■  between stays", loc="left")
    ax.grid(False, axis="y")


def _ratios(data: pd.DataFrame) -> list[str]:
    found = []
    for label, of_run in data.groupby("run", sort=False):
        mean = of_run.set_index("pairs")["mean"]
        found.append(f"{label}: {mean['within a stay']:.2f} within a stay, {mean['between stays']:.2f} between stays")
    return found


def _neighbors(data: pd.DataFrame) -> str:
    """State how often the nearest point belongs to the same stay: what the eye sees as islands, in a number."""
    found = []
    for label, part in data.groupby("run", sort=False):
        places, stays = part[["x", "y"]].to_numpy(), part["stay"].to_numpy()
        nearest = NearestNeighbors(n_neighbors=2).fit(places).kneighbors(places, return_distance=False)[:, 1]
        found.append(f"{(stays[nearest] == stays).mean():.0%} with {label}")
    return f"A point's nearest neighbor is of the same stay: {listed(found)}."
