"""Our results beside the paper's: means over seeds, bold by the paper's rule, differences; as Markdown, LaTeX, CSV and JSON."""

import collections
import csv
import dataclasses
import io
import json
import pathlib
import statistics
from typing import Any

from ncl_tf import files
from ncl_tf.paper.tables import OWN_HEAD, Column, PaperFigure, Table, TableRow

METRIC_TITLES = {"auprc": "AUPRC", "auroc": "AUROC", "utility": "Utility", "kappa": "Kappa"}
HEAD_TITLES = {"linear": "linear", "mlp": "MLP", "trees": "trees", OWN_HEAD: ""}


@dataclasses.dataclass(frozen=True)
class Cell:
    """One cell of a table, x 100.

    Attributes:
        values: one per seed (and choice of labels).
        seeds: how many are behind the values.
        figure: the paper's number.
        stopped_by_budget: whether any of its trainings ended when its time or its epochs were up.
        bold: within one standard deviation of the best of its block.
        quoted: whether it shows the paper's number alone.
    """

    values: tuple[float, ...]
    seeds: int
    figure: PaperFigure | None
    stopped_by_budget: bool
    bold: bool = False
    quoted: bool = False

    @property
    def mean(self) -> float | None:
        """The mean over seeds."""
        return statistics.fmean(self.values) if self.values else None

    @property
    def std(self) -> float | None:
        """The standard deviation over seeds (n - 1); None for fewer than two."""
        return statistics.stdev(self.values) if len(self.values) > 1 else None

    def text(self, bold: str, plus_minus: str = " ± ", dagger: str = "†") -> str:
        """Write our part of the cell: 8.0 ± 0.2†; `bold` is the template for a bold mean."""
        if self.quoted:
            return self.figure.text(plus_minus=plus_minus)
        if self.mean is None:
            return "-"
        mean = (bold if self.bold else "{}").format(f"{self.mean:.1f}")
        return mean + (f"{plus_minus}{self.std:.1f}" if self.std is not None else "") + dagger * self.stopped_by_budget

    @property
    def difference(self) -> float | None:
        """Our mean minus the paper's."""
        return None if self.mean is None or self.figure is None else self.mean - self.figure.mean

    @property
    def signed_difference(self) -> str:
        """The difference as text with its sign; empty where there is none."""
        return "" if self.difference is None else f"{round(self.difference, 1) + 0.0:+.1f}"  # + 0.0: never -0.0


class Comparison:
    """A table of the paper with our results.

    Args:
        table: the table; rows and heads without any result are left out, but for rows that quote the paper.
        rows: our results, of `ncl_tf.paper.results.rows`.
    """

    def __init__(self, table: Table, rows: list[dict[str, Any]]) -> None:
        present, heads = ({row[what] for row in rows} for what in ("row", "head"))
        self.table = table.narrowed(
            [row.name for row in table.rows if row.quoted or row.name in present],
            [head for head in table.heads if head in heads],
        )
        self.rows, self.results = self.table.rows, rows
        self.cells = {(row.name, column): self._cell(row, column) for row in self.rows for column in self.table.columns}
        self._embolden()

    def _cell(self, row: TableRow, column: Column) -> Cell:
        wanted = {"row": row.name, "task": column.task, "head": column.head, "labels": column.labels}
        found = [result for result in self.results if all(result[name] == value for name, value in wanted.items())]
        return Cell(
            tuple(100 * result["metrics"][column.metric] for result in found),
            len({result["seed"] for result in found}),
            row.figures[self.table.columns.index(column)],
            any(result["stopped_by_budget"] for result in found),
            quoted=row.quoted,
        )

    def _embolden(self) -> None:
        """Set bold, in each block and metric over both heads, what is within one standard deviation of the best."""
        blocks, groups = {row.name: row.block for row in self.rows}, collections.defaultdict(dict)
        for (row, column), cell in self.cells.items():
            if cell.values:
                groups[blocks[row], column.task, column.metric, column.labels][row, column] = (cell.mean, cell.std)
        for group in groups.values():
            for key in bold(group):
                self.cells[key] = dataclasses.replace(self.cells[key], bold=True)

    def seeds(self, *rows: TableRow) -> str:
        """Count the seeds of the cells of some rows: '3', or '1 to 3'."""
        cells = (self.cells[row.name, column] for row in rows for column in self.table.columns)
        counts = {cell.seeds for cell in cells if cell.values}
        return _span(counts) if counts else ""

    @property
    def budget(self) -> str | None:
        """The budget of the trainings; None where no result has one."""
        return next((result["budget"] for result in self.results if result["budget"]), None)

    @property
    def simulated(self) -> bool:
        """Whether the patients are known not to exist."""
        return any(result["simulated"] for result in self.results)

    @property
    def caption(self) -> str:
        """The caption: what one must know to read the table."""
        return self.described("In brackets: the paper's figure, and ours minus the paper's.")

    def described(self, where_the_paper_is: str) -> str:
        """Describe the table; `where_the_paper_is` says how the paper's figures are shown, if it has some."""
        seeds = _plural(self.seeds(*self.rows), "seed")
        label = f" ({self.table.label})" if self.table.label else ""
        drawn = collections.Counter(
            tuple(result[name] for name in ("row", "seed", "task", "head", "labels")) for result in self.results
        )
        chosen = _plural(_span(set(drawn.values())), "choice")
        labels = f", each with {chosen} of labelled stays" if self.table.label_seeds > 1 else ""
        split = {"test": "the test split", "val": "validation data"}[self.table.split]
        runs = self.table.seeds * self.table.label_seeds
        theirs = f"the paper: its own budget, {runs} runs" if self.table.label else "not in the paper"
        blocks = list(dict.fromkeys(row.block for row in self.rows))
        among = ", of either head" * (len(self.table.heads) > 1)
        among += f", of its block: {', '.join(blocks)}" * (len(blocks) > 1)
        budget = f"budget {self.budget!r}, " * bool(self.budget)
        text = (
            f"{self.table.title}{label}, on {split}: {budget}{seeds}{labels} ({theirs}). "
            f"x 100, mean ± std over runs. Bold: within one std of the best{among}."
        )
        if any(cell.figure and not cell.quoted for cell in self.cells.values()):
            text += f" {where_the_paper_is}"
        if any(cell.stopped_by_budget for cell in self.cells.values()):
            text += " †: stopped by budget, when time or epochs ran out, in some of its runs."
        if self.simulated:
            text += " The data are a simulated ward, whose results cannot be compared with the paper's."
        elif (dataset := self.results[0]["dataset"]) != self.table.dataset != "table":
            text += f" The data are those of {dataset}, not the paper's."
        if self.changed:
            rows = "; ".join(f"{row} {settings}" for row, settings in self.changed.items())
            text += f" Settings other than the paper's or the budget's: {rows}."
        return text

    @property
    def changed(self) -> dict[str, str]:
        """The settings of a row's results that are neither the row's nor the budget's, by the row's title."""
        found = {
            row.title: {
                f"{name} = {value}": None
                for result in self.results
                if result["row"] == row.name
                for name, value in result["changed"].items()
            }
            for row in self.rows
        }
        return {row: ", ".join(settings) for row, settings in found.items() if settings}

    def write(self, folder: pathlib.Path) -> list[pathlib.Path]:
        """Write TABLE.md, .tex, .csv and .json; returns the paths."""
        forms = {"md": self.markdown(), "tex": self.latex(), "csv": self.csv(), "json": self.json()}
        for suffix, text in forms.items():
            files.write_text(folder / f"{self.table.name}.{suffix}", text)
        return [folder / f"{self.table.name}.{suffix}" for suffix in forms]

    def markdown(self) -> str:
        """The table as GitHub's Markdown, the caption below it."""
        lines = ["| | seeds | " + " | ".join(self.header(column) for column in self.table.columns) + " |"]
        lines += ["|---" * (len(self.table.columns) + 2) + "|"]
        for row in self.rows:
            cells = [self._text(self.cells[row.name, column], "**{}**", " ± ", "†") for column in self.table.columns]
            lines.append(f"| {row.title} | {self.seeds(row)} | " + " | ".join(cells) + " |")
        return "\n".join([*lines, "", f"({self.caption})", ""])

    def latex(self) -> str:
        """The table as a LaTeX environment, for booktabs."""
        lines = [r"\begin{table*}", r"\caption{" + _latex(self.caption) + "}", r"\begin{center}", r"\begin{small}"]
        lines += [r"\begin{tabular}{lr" + "l" * len(self.table.columns) + "}", r"\toprule"]
        lines += [" & ".join(["", "seeds", *(_latex(self.header(column)) for column in self.table.columns)]) + r" \\"]
        block = None
        for row in self.rows:
            lines += [r"\midrule"] if row.block != block else []
            block = row.block
            cells = [
                self._text(self.cells[row.name, column], r"\textbf{{{}}}", r" $\pm$ ", r"$^\dagger$")
                for column in self.table.columns
            ]
            lines.append(" & ".join([_latex(row.title), self.seeds(row), *cells]) + r" \\")
        lines += [r"\bottomrule", r"\end{tabular}", r"\end{small}", r"\end{center}"]
        return "\n".join([*lines, rf"\label{{tab:ours_{self.table.name}}}", r"\end{table*}", ""])

    def csv(self) -> str:
        """The table as CSV, a line per cell."""
        text, records = io.StringIO(), self._records()
        names = [name for name in records[0] if name != "values"]
        writer = csv.DictWriter(text, names, extrasaction="ignore", lineterminator="\n")
        writer.writeheader()
        writer.writerows(records)
        return text.getvalue()

    def json(self) -> str:
        """The table as JSON: everything, with the value of every seed."""
        facts = {
            "table": self.table.name,
            "label": self.table.label,
            "caption": self.caption,
            "budget": self.budget,
            "changed": self.changed,
            "dataset": self.results[0]["dataset"],
            "simulated": self.simulated,
            "cohort_checksum": self.results[0]["cohort_checksum"],
        }
        return json.dumps({**facts, "cells": self._records()}, indent=2) + "\n"

    def _records(self) -> list[dict[str, Any]]:
        return [
            {
                "row": row.name,
                "block": row.block,
                **dataclasses.asdict(column),
                "mean": cell.mean,
                "std": cell.std,
                "runs": len(cell.values),
                "seeds": cell.seeds,
                "bold": cell.bold,
                "stopped_by_budget": cell.stopped_by_budget,
                "paper_mean": cell.figure and cell.figure.mean,
                "paper_std": cell.figure and cell.figure.std,
                "difference": cell.difference,
                "values": list(cell.values),
            }
            for row in self.rows
            for column in self.table.columns
            for cell in [self.cells[row.name, column]]
        ]

    def header(self, column: Column) -> str:
        """The heading of a column."""
        parts = [f"{column.labels:.0%} of labels"] if column.labels != 1 else []
        parts += [column.task.replace("_", " ")] if len(self.table.tasks) > 1 else []
        return " ".join([*parts, METRIC_TITLES[column.metric], HEAD_TITLES[column.head]]).strip()

    def _text(self, cell: Cell, bold: str, plus_minus: str, dagger: str) -> str:
        """Write a cell: 8.0 ± 0.2 (9.5 ± 0.4, -1.5)."""
        ours = cell.text(bold, plus_minus, dagger)
        if cell.figure is None or cell.quoted:
            return ours
        paper = [cell.figure.text(plus_minus=plus_minus), *filter(None, [cell.signed_difference])]
        return f"{ours} ({', '.join(paper)})"


def head_in_words(head: str) -> str:
    """Name a head in running text: 'MLP head', 'trees'."""
    return HEAD_TITLES[head] if head == "trees" else f"{HEAD_TITLES[head]} head"


def bold(group: dict[Any, tuple[float, float | None]]) -> list[Any]:
    """Find the keys whose mean is within one standard deviation, the best one's, of the best mean."""
    best, std = max(group.values(), key=lambda cell: cell[0])
    return [key for key, (mean, _) in group.items() if mean >= best - (std or 0)]


def _span(counts: set[int]) -> str:
    return " to ".join(dict.fromkeys([str(min(counts)), str(max(counts))]))


def _plural(span: str, what: str) -> str:
    return f"{span} {what}" + "s" * (span != "1")


def _latex(text: str) -> str:
    for symbol in "%_":
        text = text.replace(symbol, "\\" + symbol)
    return text.replace("±", r"$\pm$").replace("†", r"$^\dagger$")
