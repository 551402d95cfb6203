"""Draw the documentation's pictures into docs/images/, from results/ and ncl_tf/paper/tables/: `make docs`."""

import math
import pathlib
import re
from collections.abc import Iterator

from docs import diagrams
from docs.drawing import INK, MUTED, RULE, WIDTH, circle, line, picture, text
from ncl_tf import files
from ncl_tf.paper import results, tables
from ncl_tf.paper.compare import METRIC_TITLES, Cell, Comparison
from ncl_tf.paper.tables import TableRow

IMAGES = pathlib.Path(__file__).resolve().parent / "images"
RESULTS = IMAGES.parents[1] / "results" / "physionet2019_laptop"
METRICS = ("auroc", "auprc", "utility")
HEADLINE = ("cl", "ncl_w", "ncl_y", "end_to_end")
OURS = "#009E73"
LIMITED = ("cl", "ncl_w", "end_to_end")


def pictures() -> dict[str, str]:
    """All drawn pictures: SVG by file name."""
    shown, limited = (_compared(name) for name in ("physionet2019", "limited_labels_physionet2019"))
    return {
        "objective.svg": diagrams.objective(),
        "architecture.svg": diagrams.architecture(),
        "headline.svg": headline(shown),
        "physionet2019.svg": physionet2019(shown),
        "limited_labels.svg": limited_labels(limited),
    }


def _compared(name: str) -> Comparison:
    table = tables.load_table(name)
    return Comparison(table, results.rows(RESULTS, table))


def headline(shown: Comparison) -> str:
    """The idea of the objective, and our results beside the paper's."""
    rows = sorted((row for row in shown.rows if row.name in HEADLINE), key=lambda row: HEADLINE.index(row.name))
    captions = (
        (196, "L_{NA} pulls neighbors together,", "away from all other hours."),
        (402, "L_{ND} separates the other view", "from its neighbors."),
    )
    parts = [line([(300, 24), (300, 424)])]
    for y, *lines in captions:
        parts.append(diagrams.space(150, y - 96, discriminate=y > 300))
        parts += [text(150, y + 21 * place, words, anchor="middle") for place, words in enumerate(lines)]
    parts += [
        text(320, 38, "Sepsis on PhysioNet 2019", bold=True),
        text(320, 60, "MLP head, test split, x 100", 16, MUTED),
        _dots(shown, rows, "mlp", left=320, labels=100, top=92, step=58),
        *_legend(shown, rows, 320, 386),
    ]
    described = "; ".join(
        f"{row.title} "
        + ", ".join(f"{METRIC_TITLES[metric]} {ours} (paper {theirs})" for metric, ours, theirs in _numbers(shown, row))
        for row in rows
    )
    description = (
        "Left: around an anchor hour, the loss L_NA pulls the hours of its neighborhood towards it and pushes all others "
        "away; the loss L_ND separates the anchor's own other view from its neighbors. Right: mean and standard deviation with "
        f"the MLP head, laptop budget, {shown.seeds(*rows)} seeds: {described}."
    )
    return picture(448, "The idea, and results beside the paper's", description, *parts)


def physionet2019(shown: Comparison) -> str:
    """All methods, with both heads, beside the paper's."""
    parts = []
    for head, name, top in (("mlp", "MLP head", 28), ("linear", "Linear head", 432)):
        parts += [text(28, top + 14, name, bold=True), _dots(shown, shown.rows, head, 28, 180, top + 14, 36)]
    parts += _legend(shown, shown.rows, 28, 852)
    description = (
        "For each method, AUROC, AUPRC and utility of this project, at the laptop budget, and of the paper, as dots with one "
        "standard deviation. The tables on the page list the numbers."
    )
    return picture(900, "Results on PhysioNet 2019 beside the paper's", description, *parts)


def limited_labels(shown: Comparison) -> str:
    """Metrics over the fraction of labelled stays."""
    looks = dict(zip(LIMITED, (("#D55E00", "none"), ("#0072B2", "7 4"), (OURS, "2 3")), strict=True))
    rows = [row for row in shown.rows if row.name in LIMITED]
    parts = [_curves(shown, rows, metric, 64 + 226 * place, looks) for place, metric in enumerate(METRICS)]
    for x, row in zip((56, 166, 326), rows, strict=True):
        color, dashes = looks[row.name]
        parts += [line([(x, 330), (x + 30, 330)], color, 2, dashes), text(x + 38, 336, _title(row))]
    choices = f"Mean ± std over {shown.table.label_seeds} choices of labelled stays, with {shown.seeds(*rows)} seed."
    parts += [
        text(WIDTH / 2, 304, "training stays with labels", 16, MUTED, "middle"),
        text(28, 368, choices, 16, MUTED),
        text(28, 392, "Laptop budget, MLP head, test split, x 100.", 16, MUTED),
    ]
    description = (
        f"AUROC, AUPRC and utility of {', '.join(row.title for row in rows)} over the fraction of training stays with "
        "labels. The table on the page lists the numbers."
    )
    return picture(412, "Results with few labels on PhysioNet 2019", description, *parts)


def _curves(
    shown: Comparison, rows: list[TableRow], metric: str, left: float, looks: dict[str, tuple[str, str]]
) -> str:
    """One metric over the fraction of labels: a line for each method, with one standard deviation."""
    columns = [column for column in shown.table.columns if column.metric == metric]
    low, high, ticks = _axis([shown.cells[row.name, column] for row in rows for column in columns], most=5)

    def y(value: float) -> float:
        return 256 - 200 * (value - low) / (high - low)

    parts = [text(left + 76, 36, METRIC_TITLES[metric], anchor="middle", bold=True)]
    for tick in ticks:
        parts += [
            line([(left - 8, y(tick)), (left + 164, y(tick))]),
            text(left - 14, y(tick) + 6, f"{tick:g}", 16, MUTED, "end"),
        ]
    parts += [
        text(left + 10 + 66 * place, 282, f"{100 * column.labels:g}%", 16, MUTED, "middle")
        for place, column in enumerate(columns)
    ]
    for shift, row in enumerate(rows):
        color, dashes = looks[row.name]
        cells = [shown.cells[row.name, column] for column in columns]
        places = [left + 2 + 66 * place + 8 * shift for place in range(len(cells))]
        parts.append(line([(x, y(cell.mean)) for x, cell in zip(places, cells, strict=True)], color, 2, dashes))
        for x, cell in zip(places, cells, strict=True):
            parts += [
                line([(x, y(cell.mean - cell.std)), (x, y(cell.mean + cell.std))], color, 2),
                circle(x, y(cell.mean), 5, color),
            ]
    return "\n".join(parts)


def _numbers(shown: Comparison, row: TableRow, head: str = "mlp") -> Iterator[tuple[str, str, str]]:
    """Yield each metric with our cell and the paper's, as text."""
    for metric in METRICS:
        cell = _cell(shown, row, metric, head)
        yield metric, cell.text("{}"), cell.figure.text()


def _title(row: TableRow) -> str:
    """The row's title with subscripts: NCL(n_{w})."""
    return re.sub(r"_(\w)", r"_{\1}", row.title)


def _cell(shown: Comparison, row: TableRow, metric: str, head: str) -> Cell:
    (column,) = [column for column in shown.table.columns if (column.metric, column.head) == (metric, head)]
    return shown.cells[row.name, column]


def _axis(cells: list[Cell], most: int) -> tuple[float, float, list[float]]:
    """Choose the ends of an axis that holds all intervals, ours and the paper's, and its round numbers."""
    known = [(cell.mean, cell.std or 0) for cell in cells] + [
        (cell.figure.mean, cell.figure.std) for cell in cells if cell.figure
    ]
    low, high = min(mean - std for mean, std in known), max(mean + std for mean, std in known)
    low, high = low - 0.08 * (high - low), high + 0.08 * (high - low)
    for step in (0.5, 1, 2, 4, 5, 10, 20):
        ticks = [step * number for number in range(math.ceil(low / step), math.floor(high / step) + 1)]
        if len(ticks) <= most:
            break
    return low, high, ticks


def _dots(
    shown: Comparison, rows: list[TableRow], head: str, left: float, labels: float, top: float, step: float
) -> str:
    """A row for each method, a column for each metric, and in each cell our mean ± std above the paper's."""
    width = (WIDTH - 28 - left - labels) / len(METRICS)
    bottom = top + 14 + step * len(rows)
    parts = [text(left, top + 20 + step * (place + 0.5), _title(row)) for place, row in enumerate(rows)]
    for place, metric in enumerate(METRICS):
        cells = [_cell(shown, row, metric, head) for row in rows]
        low, high, ticks = _axis(cells, most=round(width / 28))
        start = left + labels + width * place + 10

        def x(value: float, low: float = low, high: float = high, start: float = start) -> float:
            return start + (width - 10) * (value - low) / (high - low)

        parts.append(text(start + (width - 10) / 2, top, METRIC_TITLES[metric], anchor="middle", bold=True))
        for tick in ticks:
            parts += [
                line([(x(tick), top + 14), (x(tick), bottom)]),
                text(x(tick), bottom + 20, f"{tick:g}", 16, MUTED, "middle"),
            ]
        for row, cell in enumerate(cells):
            y, std = top + 14 + step * (row + 0.5), cell.std or 0
            parts += [
                line([(x(cell.mean - std), y - 6), (x(cell.mean + std), y - 6)], OURS, 3),
                circle(x(cell.mean), y - 6, 5.5, OURS),
                line(
                    [(x(cell.figure.mean - cell.figure.std), y + 8), (x(cell.figure.mean + cell.figure.std), y + 8)],
                    MUTED,
                    2,
                ),
                circle(x(cell.figure.mean), y + 8, 5, "#ffffff", INK),
            ]
    parts += [
        line([(left, top + 14 + step * row), (WIDTH - 28, top + 14 + step * row)], RULE) for row in range(len(rows) + 1)
    ]
    return "\n".join(parts)


def _legend(shown: Comparison, rows: list[TableRow], x: float, y: float) -> list[str]:
    """Explain the two kinds of dots."""
    return [
        circle(x + 7, y - 6, 5.5, OURS),
        text(x + 22, y, f"this project: laptop budget, {shown.seeds(*rows)} seeds"),
        circle(x + 7, y + 20, 5, "#ffffff", INK),
        text(x + 22, y + 26, f"the paper: full budget, {shown.table.seeds} seeds"),
    ]


def draw() -> None:
    """Write all pictures that differ from what is there."""
    for name, content in pictures().items():
        path = IMAGES / name
        if not path.exists() or path.read_text(encoding="utf-8") != content:
            files.write_text(path, content)
            print(f"drew {path}")


if __name__ == "__main__":
    draw()
