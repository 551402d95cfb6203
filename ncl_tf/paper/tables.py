"""The paper's tables as data: tables/NAME.toml, one for each table and for each search of the appendix; and tables beyond it.

title, label   what it shows, and the paper's label; no label where the paper has no such table
dataset        of `ncl_tf.data.datasets`
recipes        the folder of gin/ with the methods' files: 'paper', unless the table goes beyond it
observations   the observation columns that the cohort must have; none in the paper
split          'test', or 'val' where the paper chooses by it
seeds          how many of SEEDS the paper averages over
label_seeds    how many choices of labelled stays, for a table with `labels`
fine_tune      whether the encoder is trained together with the head
labels, metrics, heads   the columns: their product, in this order; without heads, each row has its own
blocks         groups of rows that compete for bold. `rows` names them, or the keys of `figures`, or they are the product of
               `axes`, settings of `method` beside the fixed `settings`. `figures` are the paper's cells: mean ± std,
               x 100, bold between asterisks. `own` are rows with heads of their own: `title`, `head`, `features`, and the
               `method` of the encoder, if any; or, for a row that only quotes the paper, `figures`

Tables in tables/any_task/ are for a task of any cohort: `metrics` has one for each kind of task, and `of_task` names the table.

The statistics of the datasets are `ncl_tf.data.datasets.PAPER_COUNTS`.
"""

import dataclasses
import itertools
import pathlib
import re
import tomllib
from collections.abc import Mapping
from typing import Any

from ncl_tf.data.declaration import Task
from ncl_tf.errors import InputError

HERE = pathlib.Path(__file__).resolve().parent
SEEDS = (*range(1111, 10000, 1111), 1234, 2345, 3456, 4567, 5678, 6789, 9876, 8765, 7654, 6543, 5432)
TITLES = {
    "seq2seq_ae": "Seq2Seq-AE",
    "seq2seq_ae_forecast": "Seq2Seq-AE-forecast",
    "cl": "CL",
    "sacl": "SACL",
    "clocs": "CLOCS",
    "ncl_w": "NCL(n_w)",
    "end_to_end": "End-to-End",
    "scl": "SCL",
    "ncl_y": "NCL(n_Y)",
    "ncl_wy": "NCL(n_w and n_Y)",
    "ncl_soft_w": "NCL(soft n_w)",
    "ncl_soft_wy": "NCL(soft n_w and n_Y)",
    "observed_cl": "CL, observed",
    "observed_ncl_w": "NCL(n_w), observed",
    "observed_ncl_soft_w": "NCL(soft n_w), observed",
    "observed_end_to_end": "End-to-End, observed",
    "observed_ncl_y": "NCL(n_Y), observed",
}
OWN_HEAD = "own"  # the head of a column whose rows have heads of their own
TASK_MARKS = {"_decompensation": " (D)", "_length_of_stay": " (L)"}


@dataclasses.dataclass(frozen=True)
class Column:
    """A column of a table: a metric of a task, by a head, with the labels of a fraction of the training stays."""

    task: str
    metric: str
    head: str
    labels: float = 1.0


@dataclasses.dataclass(frozen=True)
class PaperFigure:
    """A number that the paper prints in a table, x 100; std is None where it gives none."""

    mean: float
    std: float | None
    bold: bool

    @classmethod
    def parse(cls, text: str) -> "PaperFigure":
        """Read '9.3 ± 0.5', '**9.3** ± 0.5' or '9.3'."""
        bold, plain, std = re.fullmatch(r"(?:\*\*([\d.]+)\*\*|([\d.]+))(?: ± ([\d.]+))?", text).groups()
        return cls(float(bold or plain), float(std) if std else None, bold is not None)

    def text(self, bold: str = "{}", plus_minus: str = " ± ") -> str:
        """Write it as the paper does; `bold` is the template for a bold mean."""
        mean = (bold if self.bold else "{}").format(self.mean)
        return mean if self.std is None else f"{mean}{plus_minus}{self.std}"


@dataclasses.dataclass(frozen=True)
class TableRow:
    """A row of a table: a method of gin/paper/, with settings where it is part of a search.

    Attributes:
        name: unique in the table.
        block: the group of rows that it competes with.
        method: name of the method's gin file; the paper's 'end_to_end' has one for each task of a dataset that has several.
            Empty: there is no encoder.
        settings: gin names and values.
        figures: the paper's, one per column, None where it has none.
        words: its title, where it is not that of the method or settings.
        head, features: of its evaluations, if not the column's; see `ncl_tf.evaluation.settings.EvaluationSettings`.
    """

    name: str
    block: str
    method: str
    settings: Mapping[str, Any]
    figures: tuple[PaperFigure | None, ...]
    words: str = ""
    head: str = ""
    features: str = "representation"

    @property
    def quoted(self) -> bool:
        """Whether it has figures of the paper alone, and nothing to evaluate."""
        return not (self.method or self.head)

    @property
    def title(self) -> str:
        """The row's name as the paper writes it."""
        if self.words:
            return self.words
        if self.settings:
            return self.name
        method, mark = without_task(self.name)
        return TITLES[method] + mark


@dataclasses.dataclass(frozen=True)
class Table:
    """A table of the paper: rows x columns, each cell an average over seeds. The module's docstring explains the attributes."""

    name: str
    title: str
    label: str | None
    recipes: str
    dataset: str
    observations: tuple[str, ...]
    split: str
    seeds: int
    label_seeds: int
    fine_tune: bool
    columns: tuple[Column, ...]
    rows: tuple[TableRow, ...]

    @property
    def cohort(self) -> str:
        """What the folders of its runs and results are named after: the dataset, and whether it has observation columns."""
        return self.dataset + "_observed" * bool(self.observations)

    @property
    def tasks(self) -> tuple[str, ...]:
        """Names of the tasks."""
        return tuple(dict.fromkeys(column.task for column in self.columns))

    @property
    def heads(self) -> tuple[str, ...]:
        """Names of the heads."""
        return tuple(dict.fromkeys(column.head for column in self.columns))

    def narrowed(self, methods: list[str] | None = None, heads: list[str] | None = None) -> "Table":
        """Keep some of the rows and heads only; None: all."""
        known = [row.name for row in self.rows]
        methods, heads = known if methods is None else methods, self.heads if heads is None else heads
        for kind, chosen, have in (("method", methods, known), ("head", heads, self.heads)):
            check_names(kind, chosen or [""], have, f"those of table {self.name!r}")
        kept = [index for index, column in enumerate(self.columns) if column.head in heads]
        return dataclasses.replace(
            self,
            columns=tuple(self.columns[index] for index in kept),
            rows=tuple(
                dataclasses.replace(row, figures=tuple(row.figures[index] for index in kept))
                for row in self.rows
                if row.name in methods
            ),
        )


def without_task(name: str) -> tuple[str, str]:
    """Split a row's name into its method and the paper's mark of the task whose labels it learns from."""
    for suffix, mark in TASK_MARKS.items():
        if name.endswith(suffix):
            return name.removesuffix(suffix), mark
    return name, ""


def check_names(kind: str, names: list[str], known: list[str] | tuple[str, ...], what: str) -> None:
    """Refuse names that are not among the known ones."""
    for name in names:
        if name not in known:
            raise InputError(f"{kind} must be one of {what}: {', '.join(known)}; got {name!r}")


def names() -> list[str]:
    """List the names of all tables that can be made."""
    return sorted(path.stem for path in (HERE / "tables").glob("*.toml"))


def any_task() -> list[str]:
    """List the names of the tables that can be made for a task of any cohort."""
    return sorted(path.stem for path in (HERE / "tables" / "any_task").glob("*.toml"))


def of_task(name: str, task: Task) -> str:
    """Name the table of `any_task` for one task: window_alpha-auprc-aki."""
    return f"{name}-{_read(f'any_task/{name}')['metrics'][task.kind]}-{task.name}"


def _read(name: str) -> dict[str, Any]:
    return tomllib.loads((HERE / "tables" / f"{name}.toml").read_text(encoding="utf-8"))


def load_table(name: str) -> Table:
    """Read the table of that name, one of `names` or made by `of_task`."""
    base, *of = name.split("-", 2)
    if len(of) == 2 and base in any_task():
        data = _read(f"any_task/{base}") | {"metrics": {of[1]: [of[0]]}}
    else:
        check_names("table", [name], names(), "the paper's")
        data = _read(name)
    columns = tuple(
        Column(task, metric, head, labels)
        for labels in data.get("labels", [1.0])
        for task, metrics in data["metrics"].items()
        for metric in metrics
        for head in data.get("heads", [OWN_HEAD])
    )
    return Table(
        name,
        data["title"],
        data.get("label"),
        data.get("recipes", "paper"),
        data["dataset"],
        tuple(data.get("observations", ())),
        data.get("split", "test"),
        data["seeds"],
        data.get("label_seeds", 1),
        data.get("fine_tune", False),
        columns,
        tuple(row for block, content in data["blocks"].items() for row in _rows(block, content, len(columns))),
    )


def _rows(block: str, content: dict[str, Any], columns: int) -> list[TableRow]:
    if "own" in content:
        return [_own_row(name, block, own, columns) for name, own in content["own"].items()]
    figures = content.get("figures", {})
    if "axes" not in content:
        rows = [(name, name, {}) for name in content.get("rows", figures)]
    else:
        axes, fixed = content["axes"], content.get("settings", {})
        points = [dict(zip(axes, values, strict=True)) for values in itertools.product(*axes.values())]
        # in one order, whatever varies: blocks that have a point in common share its training, whose name is the same for all
        rows = [(settings_name(point), content["method"], dict(sorted((fixed | point).items()))) for point in points]
    parsed = {name: tuple(PaperFigure.parse(text) for text in texts) for name, texts in figures.items()}
    return [
        TableRow(name, block, method, settings, parsed.get(name, (None,) * columns)) for name, method, settings in rows
    ]


def _own_row(name: str, block: str, own: dict[str, Any], columns: int) -> TableRow:
    figures = tuple(map(PaperFigure.parse, own["figures"])) if "figures" in own else (None,) * columns
    head, features = own.get("head", ""), own.get("features", "representation")
    return TableRow(name, block, own.get("method", ""), {}, figures, own["title"], head, features)


def settings_name(settings: Mapping[str, Any]) -> str:
    """Name settings, such as a point of a search: temperature_0.1-momentum_0.99."""
    return "-".join(f"{setting.split('.')[-1]}_{value_name(value)}" for setting, value in settings.items())


def value_name(value: Any) -> str:
    """Write a setting's value for names of rows and files."""
    return "+".join(value) if isinstance(value, list) else str(value)
