"""A finished figure with its data, caption and alternative text, and the style that all figures share."""

import contextlib
import dataclasses
import io
import pathlib
from collections.abc import Iterable, Iterator
from typing import Any

import matplotlib
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure as Canvas

from ncl_tf import files

# Okabe and Ito's colors, which color-blind readers can distinguish; without yellow, which is too light for lines.
COLORS = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9", "#000000")
GRAY = "#BBBBBB"
PNG_DPI = 200
STYLE = {
    "font.family": "DejaVu Sans",  # part of matplotlib, so figures look the same everywhere
    "font.size": 9,
    "axes.titlesize": 9.5,
    "axes.labelsize": 9,
    "legend.fontsize": 8.5,
    "legend.frameon": False,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.grid": True,
    "axes.axisbelow": True,
    "grid.color": "#E6E6E6",
    "grid.linewidth": 0.6,
    "lines.linewidth": 1.6,
    "lines.markersize": 4.5,
    "errorbar.capsize": 2.5,
    "figure.facecolor": "white",
    "svg.fonttype": "path",  # no font has to be there where the picture is looked at
}


@dataclasses.dataclass(frozen=True)
class Figure:
    """A figure.

    Attributes:
        name: of its files.
        title: a few words.
        caption: what is drawn, from which data, budget and seeds.
        alt: what is seen, for readers who do not see it.
        data: the numbers behind it.
        canvas: the drawing.
    """

    name: str
    title: str
    caption: str
    alt: str
    data: pd.DataFrame
    canvas: Canvas = dataclasses.field(repr=False, compare=False)

    def laid_out(self) -> "Figure":
        """Fix everything in its final place: a layout that is made anew for each file would never be quite the same."""
        self.canvas.draw_without_rendering()
        self.canvas.set_layout_engine("none")
        return self

    def svg(self) -> str:
        """The figure as self-contained SVG on white, the same bytes for the same data, from <svg on, so that HTML can hold it."""
        text = io.StringIO()
        words = {"Title": self.title, "Description": self.alt, "Date": None, "Creator": None}
        with style(self.name):
            self.canvas.savefig(text, format="svg", metadata=words)
        return text.getvalue()[text.getvalue().index("<svg") :]

    def save(self, folder: pathlib.Path) -> list[pathlib.Path]:
        """Write NAME.png, .svg, .csv and .json (title, caption, alt), each atomically; returns the paths."""
        paths = [folder / f"{self.name}.{form}" for form in ("png", "svg", "csv", "json")]
        with files.atomic_path(paths[0]) as partial, style(self.name):
            self.canvas.savefig(partial, format="png", dpi=PNG_DPI, metadata={"Title": self.title, "Software": None})
        files.write_text(paths[1], self.svg())
        files.write_text(paths[2], self.data.to_csv(index=False, lineterminator="\n"))
        files.write_json(paths[3], {"title": self.title, "caption": self.caption, "alt": self.alt})
        return paths


@contextlib.contextmanager
def style(name: str) -> Iterator[None]:
    """Apply the style of all figures, within the context only; `name` makes the SVG's identifiers, always the same ones."""
    with matplotlib.rc_context(STYLE | {"svg.hashsalt": name}):
        yield


def new_canvas(width: float, height: float) -> Canvas:
    """Make a canvas of so many inches, laid out so that nothing overlaps."""
    canvas = Canvas(figsize=(width, height), layout="constrained")
    canvas.get_layout_engine().set(w_pad=0.07, h_pad=0.07)
    return canvas


def panels(count: int, width: float, height: float, columns: int = 3) -> tuple[Canvas, list[Axes]]:
    """Make a canvas with so many panels, each of the given size in inches, row by row."""
    columns = min(columns, count)
    rows = -(-count // columns)
    canvas = new_canvas(width * columns, height * rows)
    axes = list(canvas.subplots(rows, columns, squeeze=False).flat)
    for unused in axes[count:]:
        unused.remove()
    return canvas, axes[:count]


def legend_below(canvas: Canvas, axes: Iterable[Axes]) -> None:
    """Draw one legend for several panels below them, where it covers nothing; it enlarges the canvas by what it needs."""
    entries = {label: handle for ax in axes for handle, label in zip(*ax.get_legend_handles_labels(), strict=True)}
    width, height = canvas.get_size_inches()
    columns = max(1, min(len(entries), int(width / (0.6 + 0.075 * max(map(len, entries))))))
    canvas.set_size_inches(width, height + 0.2 * -(-len(entries) // columns))
    canvas.legend(entries.values(), entries.keys(), loc="outside lower center", ncols=columns)


def listed(texts: Iterable[str]) -> str:
    """List texts in words, each once: a, b and c."""
    *first, last = dict.fromkeys(texts)
    return f"{', '.join(first)} and {last}" if first else last


def seeds_text(counts: Iterable[int], drawn: str) -> str:
    """State how many seeds are behind the points of a figure, and what its error bars are."""
    counts = sorted(counts)
    if counts[-1] == 1:
        return f"1 seed, so no {drawn} over seeds" if drawn else "1 seed"
    span = f"{counts[0]} to " if counts[0] < counts[-1] else ""
    return f"{span}{counts[-1]} seeds, {drawn}: standard deviation over seeds"


def over_seeds(data: pd.DataFrame, keys: list[str]) -> pd.DataFrame:
    """Average `value` over seeds: mean, std (n - 1; NaN of one) and number, for each combination of the keys, in their order."""
    return data.groupby(keys, sort=False, as_index=False, dropna=False).agg(
        mean=("value", "mean"), std=("value", "std"), seeds=("seed", "nunique")
    )


def line_with_band(ax: Axes, x: pd.Series, line: pd.DataFrame, scale: float = 1, **looks: Any) -> None:
    """Draw a line of means, with a band of one standard deviation where there are several seeds."""
    mean, std = scale * line["mean"], scale * line["std"]
    marker = "o" if len(line) == 1 else None  # a line of one point would not be seen
    ax.plot(x, mean, marker=marker, **looks)
    if std.notna().any():
        ax.fill_between(x, mean - std, mean + std, color=looks["color"], alpha=0.12, linewidth=0)
