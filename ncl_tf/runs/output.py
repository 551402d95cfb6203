"""The output folder of bin/reproduce. Imports no TensorFlow.

plan.json                    cohort, budget and parameters, for which the folder is; the tables made in it, which may grow
runs/TRAINING/               run directories of bin/train; tables share them
evaluations/no_encoder-SEED/ evaluations that need no training
logs/JOB.log                 what each job printed
results/TRAINING/NAME.json   what is known about each evaluation, even when its run is no longer there
TABLE.md .tex .csv .json     the tables
"""

import dataclasses
import functools
import pathlib
from collections.abc import Mapping, Sequence
from typing import Any

from ncl_tf import files
from ncl_tf.errors import InputError
from ncl_tf.runs.store import NUMBER, StoredRun, read_evaluation

# What plan.json holds beside the tables.
FACTS = ("cohort_checksum", "budget", "gin_files", "gin_params")
NEEDED = {"metrics", "intervals", "config", "protocol", "best_epoch", "stopped_by_budget", "wall_seconds", "run"}
NEEDED_OF_RUN = {"budget": (str, type(None)), "dataset": str, "cohort_checksum": str, "wall_seconds": NUMBER}


@dataclasses.dataclass(eq=False)
class OutputFolder:
    """An output folder of bin/reproduce."""

    folder: pathlib.Path

    @property
    def exists(self) -> bool:
        """Whether the folder is one of bin/reproduce."""
        return (self.folder / "plan.json").exists()

    @functools.cached_property
    def plan(self) -> dict[str, Any]:
        """The content of plan.json."""
        path = self.folder / "plan.json"
        plan = files.read_json(path)
        if missing := sorted({*FACTS, "tables"} - plan.keys()):
            raise InputError(f"{path}: must be a plan of bin/reproduce, but it lacks {', '.join(missing)}")
        files.check_types(path, plan, {"tables": dict})
        for name, table in plan["tables"].items():
            files.check_types(f"{path}: tables: {name}", table, {})
            files.check_types(f"{path}: tables: {name}", table, dict.fromkeys(table, list))
        return plan

    @property
    def results(self) -> pathlib.Path:
        """The folder of results, a JSON for each evaluation."""
        return self.folder / "results"

    @property
    def runs(self) -> list[StoredRun]:
        """The run directories, in the order of their names."""
        return [self.run(path.parent.name) for path in sorted(self.folder.glob("runs/*/run.json"))]

    def run(self, training: str) -> StoredRun:
        """The run directory of a training, whether or not it exists yet."""
        return StoredRun(self.folder / "runs" / training, training)

    def evaluation_path(self, subject: str, name: str, of_run: bool) -> pathlib.Path:
        """The JSON of an evaluation: of a training, or of the cohort alone."""
        if of_run:
            return self.run(subject).evaluation_path(name)
        return self.folder / "evaluations" / subject / f"{name}.json"

    def log(self, job: str) -> pathlib.Path:
        """The file for what a job prints."""
        return self.folder / "logs" / f"{job}.log"

    def check(self, facts: Mapping[str, Any]) -> None:
        """Refuse a folder that is for another cohort, budget or parameters, or that holds other files."""
        if not self.exists:
            own = self.folder.is_dir() and all(
                path.name == "results" or path.suffix == ".partial" for path in self.folder.iterdir()
            )
            if self.folder.exists() and not own:
                raise InputError(f"{self.folder}: must be new or empty, or have a plan.json; name another --output")
            return
        other = [
            f"  {name}: {value}   (the folder has {self.plan[name]})"
            for name, value in facts.items()
            if self.plan[name] != value
        ]
        if other:
            raise InputError(
                f"{self.folder}: is for another plan; name another --output. Differences:\n" + "\n".join(other)
            )

    def write_plan(self, facts: Mapping[str, Any], table: str, parts: Mapping[str, Sequence]) -> None:
        """Write plan.json, or add to it the parts of a table that the folder is to have: methods, heads and seeds."""
        tables = dict(self.plan["tables"]) if self.exists else {}
        before = tables.get(table, {})
        tables[table] = {kind: list(dict.fromkeys([*before.get(kind, []), *values])) for kind, values in parts.items()}
        files.write_json(self.folder / "plan.json", {**facts, "tables": tables})
        self.__dict__.pop("plan", None)


def read_result(path: pathlib.Path) -> dict[str, Any]:
    """Read what a folder of results holds about an evaluation: its JSON, with the record of its run."""
    known = read_evaluation(path)
    if missing := NEEDED - known.keys():
        raise InputError(f"{path}: must be a result of bin/reproduce, but it lacks {', '.join(sorted(missing))}")
    files.check_types(path, known, {"stopped_by_budget": bool, "wall_seconds": NUMBER})
    files.check_types(f"{path}: run", known["run"], NEEDED_OF_RUN)
    return known


def write_result(path: pathlib.Path, result: Mapping[str, Any]) -> None:
    """Write the JSON of a result, unless the file has the same content."""
    text = files.json_text(result)
    if not path.exists() or path.read_text(encoding="utf-8") != text:
        files.write_text(path, text)
