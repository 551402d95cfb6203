"""What figures and reports are made from: run directories, output folders of bin/reproduce, and the cohorts that they name."""

import dataclasses
import functools
import pathlib
import re
from collections.abc import Callable, Hashable, Iterable, Sequence
from typing import TypeVar

from ncl_tf import files
from ncl_tf.data.cohort import Cohort
from ncl_tf.errors import InputError
from ncl_tf.paper import results, tables
from ncl_tf.paper.compare import Comparison
from ncl_tf.runs import OutputFolder, StoredRun
from ncl_tf.runs.store import MissingCohortError

Item, Key = TypeVar("Item"), TypeVar("Key", bound=Hashable)


class MissingInputError(InputError):
    """A figure cannot be drawn because the folders do not hold what it needs."""


@dataclasses.dataclass(eq=False)
class Source:
    """A folder that a figure or report is made from.

    Attributes:
        folder: as it was given.
        name: the end of its path that no other folder has.
        runs: all runs of an output folder of bin/reproduce, or the one run that the folder is.
        output: the folder as output of bin/reproduce; None for a run directory.
    """

    folder: pathlib.Path
    name: str
    runs: tuple[StoredRun, ...]
    output: OutputFolder | None = None

    @functools.cached_property
    def finished(self) -> tuple[StoredRun, ...]:
        """The runs whose training has ended."""
        return tuple(run for run in self.runs if run.finished)

    @property
    def unfinished(self) -> list[str]:
        """Names of the runs that are being trained or have failed."""
        return [run.name for run in self.runs if not run.finished]

    @functools.cached_property
    def comparisons(self) -> tuple[Comparison, ...]:
        """The tables of bin/reproduce that have a result."""
        made = map(tables.load_table, self.output.plan["tables"] if self.output else [])
        found = ((table, results.rows(self.output.results, table)) for table in made)
        return tuple(Comparison(table, rows) for table, rows in found if rows)


class Sources:
    """All that the given folders hold, each folder read once.

    Args:
        folders: run directories and output folders of bin/reproduce.
        cohort: the runs' cohort file, if it has moved; also where there are no runs.

    Attributes:
        folders: what each of the folders holds.
        given: the names of folders and cohort, for messages.
        runs: all runs, once each even where one is given alone and with the output folder that it is part of.
    """

    def __init__(self, folders: Sequence[pathlib.Path], cohort: pathlib.Path | None = None) -> None:
        once = {pathlib.Path(folder).resolve(): pathlib.Path(folder) for folder in folders}
        names = files.shortest_unique_suffixes(list(once))
        self.folders = [_source(folder, name) for folder, name in zip(once.values(), names, strict=True)]
        runs = [run for source in self.folders for run in source.runs]
        # one label for runs that lie in one folder and differ in the seed only; other runs have other ones
        places = [run.folder.resolve().with_name(without_seed(run.folder.resolve().name)) for run in runs]
        for run, label in zip(runs, files.shortest_unique_suffixes(places), strict=True):
            run.label = label
        self.runs = list({run.folder.resolve(): run for run in runs}.values())
        checksums = dict.fromkeys(run.record["cohort_checksum"] for run in self.runs)
        self.given = ", ".join(str(path) for path in (*folders, cohort) if path) or "nothing"
        self._given = Cohort(cohort) if cohort else None
        if self._given and checksums and self._given.checksum not in checksums:
            raise InputError(
                f"--cohort={cohort}: must be the cohort of a run, with SHA-256 {', '.join(checksums)}; "
                f"got {self._given.checksum}"
            )

    def require_finished(self) -> None:
        """Refuse runs that have not finished, and output folders of bin/reproduce without a finished run."""
        for source in self.folders:
            if source.output is None:
                source.runs[0].require_finished()
            elif not source.finished:
                raise InputError(
                    f"{source.folder}: its runs/ must hold a finished training; run the same bin/reproduce command again. If "
                    "results/ was copied from elsewhere, read the table itself"
                )

    @property
    def finished(self) -> list[StoredRun]:
        """The runs whose training has ended."""
        return [run for run in self.runs if run.finished]

    @functools.cached_property
    def cohorts(self) -> dict[str, Cohort | None]:
        """The cohorts of all runs by their checksums; None for one that is not where it was in training."""
        found: dict[str, Cohort | None] = dict.fromkeys(run.record["cohort_checksum"] for run in self.runs)
        if self._given:
            found[self._given.checksum] = self._given
        for run in self.runs:
            if found[checksum := run.record["cohort_checksum"]] is None:
                try:
                    found[checksum] = run.cohort(Cohort)
                except MissingCohortError:
                    continue
        return found

    def opened_cohorts(self) -> list[Cohort]:
        """The cohorts of all runs, and the given one; refuses if one of them is missing."""
        for run in self.runs:
            self.cohort(run)
        return list(self.cohorts.values())

    def cohort(self, run: StoredRun) -> Cohort:
        """The cohort that a run was trained on."""
        if (cohort := self.cohorts[run.record["cohort_checksum"]]) is None:
            raise MissingInputError(
                f"the cohort of the runs, which is not at {run.setting('cohort')}, or has changed there; name it by --cohort"
            )
        return cohort


def _source(folder: pathlib.Path, name: str) -> Source:
    if not folder.is_dir():
        raise InputError(f"{folder}: no such folder")
    output, run = OutputFolder(folder), StoredRun(folder, name)
    if output.exists:
        return Source(folder, name, tuple(output.runs), output)
    if not run.exists:
        raise InputError(
            f"{folder}: must be a run directory of bin/train, which has a run.json, or an output folder of bin/reproduce, "
            "which has a plan.json"
        )
    return Source(folder, name, (run,))


def grouped(items: Iterable[Item], key: Callable[[Item], Key]) -> dict[Key, list[Item]]:
    """Group items by a key of each, in the order in which the keys first occur."""
    groups: dict[Key, list[Item]] = {}
    for item in items:
        groups.setdefault(key(item), []).append(item)
    return groups


def without_seed(name: str) -> str:
    """The part of a run's name that runs with other seeds share."""
    return re.sub(r"-seed\d+$", "", name)
