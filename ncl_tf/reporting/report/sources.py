"""What the report is made from: run directories and the output folders of bin/reproduce."""

import dataclasses
import pathlib
from collections.abc import Sequence
from typing import Any

from ncl_tf import files
from ncl_tf.data.cohort import Cohort
from ncl_tf.errors import InputError
from ncl_tf.paper import results, tables
from ncl_tf.paper.compare import Comparison
from ncl_tf.runs import bindings


@dataclasses.dataclass(frozen=True)
class Training:
    """A finished run.

    Attributes:
        folder: the run directory.
        name: for people.
        record: run.json.
        config: name -> value.
        evaluations: what bin/evaluate wrote, in the order of their names.
    """

    folder: pathlib.Path
    name: str
    record: dict[str, Any]
    config: dict[str, str]
    evaluations: tuple[dict[str, Any], ...]

    @property
    def group(self) -> str:
        """The name that the seeds of one training share."""
        return self.name.rsplit("-seed", 1)[0]


@dataclasses.dataclass(frozen=True)
class Source:
    """A folder that the report is made from.

    Attributes:
        folder: as it was given.
        name: the end of its path that tells it from the others.
        trainings: the finished ones; of a run directory, its own.
        plan: plan.json; None for a run directory.
        unfinished: names of trainings that go on, or have failed.
        comparisons: the tables of bin/reproduce that have a result.
    """

    folder: pathlib.Path
    name: str
    trainings: tuple[Training, ...]
    plan: dict[str, Any] | None = None
    unfinished: tuple[str, ...] = ()
    comparisons: tuple[Comparison, ...] = ()


def trainings(sources: Sequence[Source]) -> list[Training]:
    """All of them, once: a run may be given alone and in its folder, too."""
    found = (training for source in sources for training in source.trainings)
    return list({training.folder.resolve(): training for training in found}.values())


def read(folders: Sequence[pathlib.Path]) -> list[Source]:
    """Reads the folders, each once; refuses what is neither kind or has nothing finished in it."""
    once = {folder.resolve(): folder for folder in folders}
    return [_read(folder, name) for folder, name in zip(once.values(), files.shortest_unique_suffixes(list(once)), strict=True)]


def _read(folder: pathlib.Path, name: str) -> Source:
    if not folder.is_dir():
        raise InputError(f"--runs={folder}: no such folder")
    if (folder / "plan.json").exists():
        return _reproduced(folder, name)
    if not (folder / "run.json").exists():
        raise InputError(
            f"--runs={folder}: neither a run directory (it has no run.json) nor an output folder of bin/reproduce "
            "(it has no plan.json)"
        )
    record = files.read_json(folder / "run.json")
    if record.get("status") != "finished":
        raise InputError(
            f"--runs={folder}: the training has not finished (step {record.get('step')}); start the same bin/train command "
            "again, or leave this folder out"
        )
    return Source(folder, name, (_training(folder, name, record),))


def _reproduced(folder: pathlib.Path, name: str) -> Source:
    plan = files.read_json(folder / "plan.json")
    trainings, unfinished = [], []
    for path in sorted((folder / "runs").glob("*/run.json")):
        record = files.read_json(path)
        if record.get("status") == "finished":
            trainings.append(_training(path.parent, path.parent.name, record))
        else:
            unfinished.append(path.parent.name)
    if not trainings:
        raise InputError(
            f"--runs={folder}: its runs/ holds no finished training; start the same bin/reproduce command again, and where "
            "results/ was copied from elsewhere, look at the table itself"
        )
    comparisons = []
    for table in map(tables.load, plan["tables"]):
        if rows := results.rows(folder / "results", table):
            comparisons.append(Comparison(table, rows))
    return Source(folder, name, tuple(trainings), plan, tuple(unfinished), tuple(comparisons))


def _training(folder: pathlib.Path, name: str, record: dict[str, Any]) -> Training:
    config = bindings((folder / "config.gin").read_text(encoding="utf-8"))
    judged = tuple(files.read_json(path) for path in sorted((folder / "evaluations").glob("*.json")))
    return Training(folder, name, record, config, judged)


def cohorts(sources: Sequence[Source], moved: pathlib.Path | None) -> dict[str, Cohort | None]:
    """The cohort files of all trainings by their checksums, in order; None for one that is not where it was in training.

    Args:
        sources: what was read.
        moved: a cohort file that is no longer where it was; it must belong to a training.
    """
    found: dict[str, Cohort | None] = dict.fromkeys(run.record["cohort_checksum"] for run in trainings(sources))
    if moved:
        cohort = Cohort(moved)
        if cohort.checksum not in found:
            raise InputError(
                f"--cohort={cohort.path}: no run was trained on it; its SHA-256 is {cohort.checksum}, "
                f"the runs' {', '.join(found)}"
            )
        found[cohort.checksum] = cohort
    for training in trainings(sources):
        path = pathlib.Path(training.config.get("cohort", "").strip("'\""))
        checksum = training.record["cohort_checksum"]
        if found[checksum] is None and path.is_file() and (cohort := Cohort(path)).checksum == checksum:
            found[checksum] = cohort
    return found
