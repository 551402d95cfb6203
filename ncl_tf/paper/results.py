"""Results: one JSON for each training and evaluation, small enough to be committed, and a table's results as rows.

from ncl_tf.paper import results, tables

rows = results.rows(pathlib.Path("runs/physionet2019_laptop/results"), tables.load_table("window_alpha_physionet2019"))
"""

import pathlib
from typing import Any

from ncl_tf.errors import InputError
from ncl_tf.paper import settings
from ncl_tf.paper.plan import Plan
from ncl_tf.paper.planned import PlannedEvaluation, planned_evaluations
from ncl_tf.paper.tables import SEEDS, Table
from ncl_tf.runs import StoredRun
from ncl_tf.runs.output import read_result, write_result
from ncl_tf.runs.store import read_evaluation

LEFT_OUT = ("name", "curve")  # the latter is long, and the run directory has it


def collect(plan: Plan) -> None:
    """Write the result of every finished evaluation of a plan into its folder's results/, also over a copied one."""
    for source, asked in plan.evaluations().items():
        if source.exists():
            run = plan.output.run(asked.subject) if asked.training else None
            write_result(plan.output.results / asked.path, result(asked, source, run, plan.cohort.simulated))


def result(asked: PlannedEvaluation, source: pathlib.Path, run: StoredRun | None, simulated: bool) -> dict[str, Any]:
    """Collect what is known about an evaluation and its run, without paths of this machine, from the JSON of bin/evaluate."""
    evaluation = read_evaluation(source)
    return {
        "training": asked.subject,
        "evaluation": asked.settings.name,
        "simulated": simulated,
        **{name: value for name, value in evaluation.items() if name not in LEFT_OUT},
        "config": {name: value for name, value in evaluation["config"].items() if name != "cohort"},
        "run": {name: value for name, value in (run.record if run else evaluation["run"]).items() if name != "status"},
    }


def cut_short(known: dict[str, Any]) -> bool:
    """Whether time or epochs ran out before early stopping could end the training of a result's encoder or head."""
    protocol = known["protocol"]
    if "max_iterations" in protocol:
        return known["best_epoch"] == protocol["max_iterations"]
    return known["stopped_by_budget"] or known["best_epoch"] + protocol["patience"] > protocol["max_epochs"]


def rows(folder: pathlib.Path, table: Table) -> list[dict[str, Any]]:
    """Read the results of a table or sweep that a folder of results holds, for tables and figures.

    Args:
        folder: the results/ of an output folder, or a folder below the project's results/.
        table: which results are wanted.

    Returns:
        a row for each evaluation and seed: row, block, method, the sweep's settings by name, seed, task, head, labels,
        label_seed, metrics and intervals (as fractions, not x 100), training (the training's last report, with the
        contrastive accuracy), stopped_by_budget, budget (None without a training), changed (settings other than the row's
        and the budget's), dataset, simulated, cohort_checksum.
    """
    found: dict[tuple, dict[str, Any]] = {}
    for row, column, seed, label_seed, asked in planned_evaluations(table, SEEDS):
        key = (row.name, column.task, column.head, column.labels, seed, label_seed)
        if key in found or not (folder / asked.path).exists():
            continue
        known = read_result(folder / asked.path)
        changed = settings.protocol_overrides(known)
        if asked.training:
            expected = asked.training.configured(known["run"]["budget"])
            changed = settings.differing(known["config"], expected, row.method) | changed
        found[key] = {
            "row": row.name,
            "block": row.block,
            "method": row.method,
            **{name.split(".")[-1]: value for name, value in row.settings.items()},
            "seed": seed,
            "task": column.task,
            "head": column.head,
            "labels": column.labels,
            "label_seed": label_seed,
            "metrics": known["metrics"],
            "intervals": known["intervals"],
            "training": known["run"].get("result", {}),
            "stopped_by_budget": cut_short(known),
            "budget": known["run"]["budget"],
            "changed": changed,
            "dataset": known["run"]["dataset"],
            "simulated": known.get("simulated", False),
            "cohort_checksum": known["run"]["cohort_checksum"],
        }
    for what in ("budget", "cohort_checksum"):
        if len(different := sorted({row[what] for row in found.values()} - {None})) > 1:
            raise InputError(f"{folder}: holds results of more than one {what}: {', '.join(different)}")
    return list(found.values())
