"""What figures are drawn from: run directories, output folders of bin/reproduce, and the cohorts that they name."""

import ast
import dataclasses
import functools
import json
import pathlib
import re
from collections.abc import Iterable, Sequence, Sized
from typing import Any

from ncl_tf import files
from ncl_tf.data.cohort import Cohort, titled
from ncl_tf.errors import InputError
from ncl_tf.reporting.figures.figure import listed, seeds_text

SPLITS = {"train": "training", "val": "validation", "test": "test"}


class Lacking(InputError):
    """A figure cannot be drawn because the folders do not hold what it needs."""


@dataclasses.dataclass(frozen=True)
class Run:
    """A run directory, finished or not.

    Attributes:
        folder: the directory.
        label: its name without the seed, with as many folders above it as tell it from those of other names or folders.
        record: content of run.json.
    """

    folder: pathlib.Path
    label: str
    record: dict[str, Any] = dataclasses.field(hash=False)

    @functools.cached_property
    def settings(self) -> dict[str, str]:
        """Its configuration, name -> value as gin prints it."""
        from ncl_tf.runs import bindings  # imports TensorFlow, which `bin/figures --help` does not wait for

        return bindings((self.folder / "config.gin").read_text(encoding="utf-8"))

    def setting(self, name: str) -> Any:
        """The value of a macro; None if the method has none of that name."""
        return ast.literal_eval(self.settings[name]) if name in self.settings else None

    @property
    def reports(self) -> list[dict[str, float]]:
        """The lines of metrics.jsonl; of a run that is being trained, the whole ones."""
        path = self.folder / "metrics.jsonl"
        lines = path.read_text(encoding="utf-8").splitlines(keepends=True) if path.exists() else []
        return [json.loads(line) for line in lines if line.endswith("\n")]

    @property
    def has_encoder(self) -> bool:
        """Whether the training came to its end."""
        return (self.folder / "encoder" / "model.json").exists()

    @property
    def dataset(self) -> str:
        """The name of its dataset, for readers."""
        return titled(self.record["dataset"], self.record.get("simulated", False))

    @property
    def data(self) -> str:
        """Which data it was trained on, for captions."""
        return data_text(self.dataset, self.record["cohort_checksum"])


class Sources:
    """All that the given folders hold.

    Args:
        folders: run directories and output folders of bin/reproduce.
        cohort: a cohort file, for runs whose own has moved.

    Attributes:
        outputs: the output folders of bin/reproduce.
        runs: the run directories, also those in output folders.
    """

    def __init__(self, folders: Sequence[pathlib.Path], cohort: pathlib.Path | None = None) -> None:
        self.outputs, run_dirs = [], []
        for folder in {pathlib.Path(folder).resolve(): pathlib.Path(folder) for folder in folders}.values():
            if not folder.is_dir():
                raise InputError(f"{folder}: no such folder")
            if (folder / "run.json").exists():
                run_dirs.append(folder)
            elif (folder / "plan.json").exists():
                self.outputs.append(folder)
                run_dirs += sorted(path.parent for path in folder.glob("runs/*/run.json"))
            else:
                raise InputError(
                    f"{folder}: neither a run directory of bin/train, which has a run.json, nor an output folder of "
                    "bin/reproduce, which has a plan.json"
                )
        run_dirs = list(
            {folder.resolve(): folder for folder in run_dirs}.values()
        )  # a run and the output folder it is in
        self.runs = [
            Run(folder, label, files.read_json(folder / "run.json"))
            for folder, label in zip(run_dirs, _labels(run_dirs), strict=True)
        ]
        self._given = Cohort(cohort) if cohort else None
        checksums = {run.record["cohort_checksum"] for run in self.runs}
        if self._given and checksums and self._given.checksum not in checksums:
            raise InputError(
                f"{cohort}: another cohort than that of the runs; its SHA-256 is {self._given.checksum}, "
                f"the runs' {', '.join(sorted(checksums))}"
            )

    def cohort(self, run: Run) -> Cohort:
        """The cohort that a run was trained on."""
        checksum = run.record["cohort_checksum"]
        if self._given and self._given.checksum == checksum:
            return self._given
        return _opened(run.setting("cohort"), checksum)

    def cohorts(self) -> list[Cohort]:
        """All that runs or the caller name, each once."""
        found = {self._given.checksum: self._given} if self._given else {}
        for run in self.runs:
            if run.record["cohort_checksum"] not in found:
                found[run.record["cohort_checksum"]] = self.cohort(run)
        return list(found.values())


@functools.cache
def _opened(path: str | None, checksum: str) -> Cohort:
    """A run's cohort, checked to be the same file as in training; read once, as figures share it."""
    if path is None or not pathlib.Path(path).exists():
        raise Lacking(f"the cohort of the runs, which is not at {path}; name it by --cohort")
    cohort = Cohort(path)
    if cohort.checksum != checksum:
        raise Lacking(f"the cohort of the runs, and {path} is another; name it by --cohort")
    return cohort


def data_text(dataset: str, checksum: str) -> str:
    """A dataset's name and the first digits of the cohort's checksum, which tells cohorts of one dataset apart."""
    return f"{dataset} (cohort {checksum[:8]})"


def by_label(runs: Sequence[Run]) -> dict[str, list[Run]]:
    """Runs of one folder whose names differ in the seed only, together."""
    groups: dict[str, list[Run]] = {}
    for run in runs:
        groups.setdefault(run.label, []).append(run)
    return groups


def by_alpha(runs: Sequence[Run]) -> dict[str, list[Run]]:
    """The runs that differ in alpha and seed only, by rising alpha: the longest such sweep; empty if there is none."""
    sweeps: dict[tuple, list[Run]] = {}
    for run in runs:
        rest = {name: value for name, value in run.settings.items() if name not in ("alpha", "seed", "cohort")}
        key = (run.record["cohort_checksum"], *sorted(rest.items()))
        sweeps.setdefault(key, []).extend([run] if run.setting("alpha") is not None else [])
    groups: list[dict[str, list[Run]]] = [{}]
    for sweep in sweeps.values():
        group: dict[str, list[Run]] = {}
        for run in sorted(sweep, key=lambda run: (run.setting("alpha"), run.record["seed"])):
            group.setdefault(f"α = {run.setting('alpha'):g}", []).append(run)
        groups.append(group)
    longest = max(groups, key=len)
    return longest if len(longest) > 1 else {}


def evenly(groups: dict[str, Any], most: int) -> dict[str, Any]:
    """At most so many of the groups, evenly spread, with the first and the last."""
    names = list(groups)
    if len(names) > most:
        names = [names[round(i * (len(names) - 1) / (most - 1))] for i in range(most)]
    return {name: groups[name] for name in names}


def _labels(folders: Sequence[pathlib.Path]) -> list[str]:
    """The same for runs that lie in one folder and differ in the seed only; other runs have other ones."""
    resolved = [folder.resolve() for folder in folders]
    return files.shortest_unique_suffixes([folder.with_name(re.sub(r"-seed\d+$", "", folder.name)) for folder in resolved])


def facts(groups: Iterable[Sequence[Run]], drawn: str = "") -> str:
    """Data, budget and number of seeds of runs, for captions; each group differs in the seed only."""
    groups = list(groups)
    runs = [run for group in groups for run in group]
    budgets = listed(repr(run.record["budget"]) for run in runs)
    seeds = [len({run.record["seed"] for run in group}) for group in groups]
    return f"Data: {listed(run.data for run in runs)}. Budget {budgets}; {seeds_text(seeds, drawn)}."


def left_out(groups: Sized, shown: Sized) -> str:
    """A sentence for captions, where not all groups are shown."""
    return f" Of {len(groups)}, {len(shown)} are shown, evenly chosen by name." if len(shown) < len(groups) else ""
