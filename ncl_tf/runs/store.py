"""Run directories and their evaluations as programs left them, for whoever reads them. Imports no TensorFlow.

`ncl_tf.runs.run` lists the files of a run directory. Beside them lie, for each evaluation by bin/evaluate:

evaluations/NAME.json         settings, metrics, intervals, learning curve, protocol, configuration, versions
evaluations/NAME.parquet      the predictions of every hour
evaluations/NAME/classifier   the exported classifier, unless its inputs are raw
evaluations/NAME/             while it is made, also progress.json, metrics.jsonl and checkpoints/, from which it resumes
"""

import dataclasses
import functools
import pathlib
from collections.abc import Callable
from typing import Any

from ncl_tf import files
from ncl_tf.errors import InputError, reading
from ncl_tf.runs.configuration import bindings, read_configuration, read_gin, setting, upgraded_evaluation
from ncl_tf.runs.folder import read_reports


class MissingCohortError(InputError):
    """The cohort that a run was trained on is not where it was then."""


# What the JSON files of all versions hold, by name, and of which type.
NUMBER = (int, float)
RECORD = {"status": str, "seed": int, "step": int, "wall_seconds": NUMBER, "cohort_checksum": str, "dataset": str}
RECORD |= {"budget": str, "started": str, "versions": dict, "machine": dict}
EVALUATION = {"settings": dict, "metrics": dict, "intervals": dict, "config": dict, "protocol": dict}


class Record(dict):
    """The content of a run.json; what is missing, since the file is damaged, is an error when it is asked for."""

    def __init__(self, path: pathlib.Path, content: dict[str, Any]) -> None:
        super().__init__(content)
        self._path = path

    def __missing__(self, name: str) -> None:
        raise InputError(
            f"{self._path}: must have {name!r}, got {', '.join(self) or 'nothing'}; is it of a run of bin/train?"
        )


def read_record(folder: pathlib.Path) -> dict[str, Any]:
    """Read run.json of a run directory."""
    path = folder / "run.json"
    found = files.read_json(path)
    files.check_types(path, found, {name: kind for name, kind in RECORD.items() if name in found})
    return Record(path, found)


def read_evaluation(path: pathlib.Path) -> dict[str, Any]:
    """Read the JSON of an evaluation, by today's names."""
    content = files.read_json(path)
    with reading(path, "the JSON of an evaluation"):
        found = upgraded_evaluation(content)
    files.check_types(path, found, {name: kind for name, kind in EVALUATION.items() if name in found})
    return found


@dataclasses.dataclass(eq=False)
class StoredRun:
    """A run directory, finished or not; its files are read when first asked for.

    Attributes:
        folder: the directory.
        name: how readers call it.
        label: the same for runs that differ in the seed only.
    """

    folder: pathlib.Path
    name: str = ""
    label: str = ""

    @property
    def exists(self) -> bool:
        """Whether the folder is a run directory."""
        return (self.folder / "run.json").exists()

    @functools.cached_property
    def record(self) -> dict[str, Any]:
        """The content of run.json."""
        return read_record(self.folder)

    def record_or_nothing(self) -> dict[str, Any]:
        """The content of run.json; empty where there is none yet, or a damaged one."""
        try:
            return self.record
        except InputError:
            return {}

    @property
    def finished(self) -> bool:
        """Whether the training has ended."""
        return self.record.get("status") == "finished"

    def require_finished(self) -> None:
        """Refuse what is no run directory, or one whose training has not ended."""
        if not self.folder.is_dir():
            raise InputError(f"{self.folder}: no such folder")
        if not self.exists:
            raise InputError(f"{self.folder}: must be a run directory of bin/train, but it has no run.json")
        if not self.finished:
            raise InputError(
                f"{self.folder}: the training must have finished, but it is at step {self.record.get('step')}; start the "
                "same bin/train command again to resume it"
            )

    @functools.cached_property
    def config(self) -> dict[str, str]:
        """The bindings of config.gin, name -> value as gin prints it; empty where there is none."""
        path = self.folder / "config.gin"
        return bindings(read_gin(path)) if path.exists() else {}

    @property
    def configuration(self) -> str:
        """The text of config.gin, as today's gin configurables accept it."""
        return read_configuration(self.folder / "config.gin")

    def setting(self, name: str) -> Any:
        """The value of a macro or binding; None if the configuration has none of that name."""
        what = "the gin file that the run was trained with"
        with reading(self.folder / "config.gin", what, SyntaxError, MemoryError):
            return setting(self.config, name)

    @property
    def total_steps(self) -> int | None:
        """How many steps the training has; None where early stopping decides."""
        return None if self.config.get("train.method") == "@end_to_end" else self.setting("train.steps")

    @property
    def reports(self) -> list[dict[str, float]]:
        """The lines of metrics.jsonl; of a run that is being trained, the whole ones."""
        return read_reports(self.folder / "metrics.jsonl")

    @property
    def encoder(self) -> pathlib.Path | None:
        """The exported encoder; None before the end of the training."""
        folder = self.folder / "encoder"
        return folder if (folder / "model.json").exists() else None

    @functools.cached_property
    def evaluations(self) -> tuple[dict[str, Any], ...]:
        """What bin/evaluate found, in the order of the evaluations' names."""
        return tuple(read_evaluation(path) for path in sorted((self.folder / "evaluations").glob("*.json")))

    def evaluation_path(self, name: str) -> pathlib.Path:
        """The JSON of an evaluation."""
        return self.folder / "evaluations" / f"{name}.json"

    def predictions_path(self, name: str) -> pathlib.Path:
        """The predictions of an evaluation."""
        return self.folder / "evaluations" / f"{name}.parquet"

    def classifier_path(self, name: str) -> pathlib.Path:
        """The exported classifier of an evaluation."""
        return self.folder / "evaluations" / name / "classifier"

    @property
    def classifiers(self) -> dict[str, pathlib.Path]:
        """The exported classifiers by the names of their evaluations."""
        return {path.parent.name: path for path in sorted(self.folder.glob("evaluations/*/classifier"))}

    def cohort(self, open_cohort: Callable[[pathlib.Path], Any], given: str | None = None) -> Any:
        """Open the cohort that the run was trained on, at `given` or where it was in training; check that it is the same file.

        `open_cohort` is `ncl_tf.data.Cohort`, which the store does not import.
        """
        path = pathlib.Path(given or self.setting("cohort") or "")
        if not given and not path.is_file():
            raise MissingCohortError(
                f"{path}: no such file, and the run was trained on it. If it has moved, or the path is relative to another "
                "folder, name it by --cohort"
            )
        cohort = open_cohort(path)
        if cohort.checksum != self.record["cohort_checksum"]:
            differing = cohort.differing_columns(self.record.get("observations", ()))
            raise (InputError if given else MissingCohortError)(
                f"{path}: must be the cohort that the run was trained on, with SHA-256 {self.record['cohort_checksum']}, "
                f"got {cohort.checksum}; name that cohort by --cohort"
                + (f". Columns that differ: {differing}" * bool(differing))
            )
        return cohort
