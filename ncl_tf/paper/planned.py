"""The trainings and evaluations behind a table's cells; some evaluations need no training."""

import dataclasses
import pathlib
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from ncl_tf import project
from ncl_tf.evaluation.settings import EvaluationSettings
from ncl_tf.paper import settings
from ncl_tf.paper.tables import Column, Table, TableRow, settings_name


@dataclasses.dataclass(frozen=True)
class PlannedTraining:
    """One training: a row's method and its gin file, settings (gin names and values), and a seed."""

    method: str
    gin_file: str
    settings: Mapping[str, Any]
    seed: int

    @property
    def name(self) -> str:
        """The name of its run directory."""
        parts = (pathlib.Path(self.gin_file).stem, settings_name(self.settings), f"seed{self.seed}")
        return "-".join(filter(None, parts))

    def files(self, budget: str, gin_files: Sequence[str] = ()) -> tuple[str, ...]:
        """List the method's gin file, others, and the budget's; that of the paper's budget is part of the first."""
        return (self.gin_file, *gin_files, *([f"gin/budgets/{budget}.gin"] if budget != "paper" else []))

    def configured(self, budget: str, gin_files: Sequence[str] = (), gin_params: Sequence[str] = ()) -> dict[str, str]:
        """Compute its configuration from files, the row's settings, and the bindings after them."""
        own = (f"{name} = {value!r}" for name, value in self.settings.items())
        return settings.configured(self.files(budget, gin_files), (*own, *gin_params))


@dataclasses.dataclass(frozen=True)
class PlannedEvaluation:
    """One evaluation of a training, or of the cohort alone where `training` is None."""

    training: PlannedTraining | None
    settings: EvaluationSettings
    seed: int

    @property
    def subject(self) -> str:
        """The name of the training, or what stands for it."""
        return self.training.name if self.training else f"no_encoder-seed{self.seed}"

    @property
    def path(self) -> pathlib.Path:
        """The path of its result, in a folder of results."""
        return pathlib.Path(self.subject) / f"{self.settings.name}.json"


def planned_evaluation(table: Table, row: TableRow, column: Column, seed: int, label_seed: int) -> PlannedEvaluation:
    """The evaluation that a cell needs for a seed and a choice of labelled stays."""
    asked = EvaluationSettings(column.task, row.head or column.head, row.features, split=table.split)
    if not row.method:
        return PlannedEvaluation(None, asked, seed)
    folder = f"gin/{table.recipes}/{table.dataset}"
    if not row.method.endswith("end_to_end"):
        training = PlannedTraining(row.method, f"{folder}/{row.method}.gin", row.settings, seed)
        limits = {"labels": column.labels, "label_seed": label_seed} if column.labels != 1 else {}
        return PlannedEvaluation(training, dataclasses.replace(asked, fine_tune=table.fine_tune, **limits), seed)
    # End-to-End trains its head, for one task and on the labels that it is given: each column is a training of its own.
    own = {"head": column.head} | dict(row.settings)
    if column.labels != 1:
        own |= {"end_to_end.labels": column.labels, "end_to_end.label_seed": label_seed}
    by_task = project.GIN / table.recipes / table.dataset / f"{row.method}_{column.task}.gin"
    file = by_task.name if by_task.exists() else f"{row.method}.gin"
    return PlannedEvaluation(PlannedTraining(row.method, f"{folder}/{file}", own, seed), asked, seed)


def planned_evaluations(
    table: Table, seeds: Sequence[int]
) -> Iterator[tuple[TableRow, Column, int, int, PlannedEvaluation]]:
    """Yield each row, column, seed, label seed and evaluation; columns that differ in the metric share an evaluation."""
    for seed in seeds:
        for row in (row for row in table.rows if not row.quoted):
            for column in table.columns:
                for label_seed in range(table.label_seeds):
                    yield row, column, seed, label_seed, planned_evaluation(table, row, column, seed, label_seed)
