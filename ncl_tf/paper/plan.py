"""What has to be run for a table: its trainings and evaluations as independent jobs, in an output folder that they share."""

import dataclasses
import pathlib
import re
from collections.abc import Mapping, Sequence
from typing import Any

from ncl_tf import project
from ncl_tf.data.cohort import Cohort
from ncl_tf.errors import InputError
from ncl_tf.paper import settings
from ncl_tf.paper.jobs import Job
from ncl_tf.paper.planned import PlannedEvaluation, PlannedTraining, planned_evaluations
from ncl_tf.paper.tables import SEEDS, TITLES, Table, check_names, without_task
from ncl_tf.runs import OutputFolder
from ncl_tf.runs.output import read_result

OWN_FLAGS = {"cohort": "--cohort", "budget": "--budget", "seed": "--seeds"}  # what no parameter may set


class Plan:
    """A table to make from a cohort, in a folder.

    Args:
        table: the table, with the rows and columns that are wanted.
        budget: name of a file in gin/budgets.
        seeds: how many of the paper's, 3, or which of them, '2222,3333'; None: as many as it took.
        gin_files: read between a method's file and the budget's.
        gin_params: bindings; 'METHOD: binding' is for that method only.
        output: the output folder; None: runs/DATASET_BUDGET, or runs/DATASET_observed_BUDGET.
    """

    def __init__(
        self,
        table: Table,
        cohort: str,
        budget: str,
        seeds: int | str | None = None,
        gin_files: Sequence[str] = (),
        gin_params: Sequence[str] = (),
        output: str | None = None,
    ) -> None:
        check_names("budget", [budget], budgets(), "gin/budgets")
        self.cohort = Cohort(cohort)
        for task in table.tasks:
            if task not in (have := [declared.name for declared in self.cohort.tasks]):
                raise InputError(f"{cohort}: must have task {task!r} for table {table.name!r}, got {', '.join(have)}")
        have = self.cohort.preprocessor.dataset.observations if self.cohort.preprocessor else ()
        if have != table.observations:
            raise InputError(
                f"{cohort}: must be prepared with {_flag(table.observations)} for table {table.name!r}, got {_flag(have)}"
            )
        self.table, self.budget = table, budget
        self.seeds = SEEDS[: table.seeds] if seeds is None else chosen_seeds(str(seeds))
        self.gin_files, self.gin_params = [_lasting(file) for file in gin_files], sorted(gin_params)
        _check_params(gin_params)
        self.output = OutputFolder(pathlib.Path(output or f"runs/{table.cohort}_{budget}").resolve())

    @property
    def folder(self) -> pathlib.Path:
        """The output folder."""
        return self.output.folder

    def jobs(self) -> list[Job]:
        """List all jobs, seed after seed, each training before its evaluations."""
        jobs: dict[str, Job] = {}
        for *_, asked in planned_evaluations(self.table, self.seeds):
            evaluation = self._evaluation_job(asked)
            if asked.training:
                training = self._training_job(asked.training)
                training = jobs.setdefault(training.name, training)
                if evaluation.name not in jobs:
                    jobs[training.name] = dataclasses.replace(training, results=training.results + evaluation.results)
            jobs.setdefault(evaluation.name, evaluation)
        return list(jobs.values())

    def evaluations(self) -> dict[pathlib.Path, PlannedEvaluation]:
        """Every evaluation of the table by the JSON that bin/evaluate writes."""
        asked = (found for *_, found in planned_evaluations(self.table, self.seeds))
        return {self.output.evaluation_path(one.subject, one.settings.name, bool(one.training)): one for one in asked}

    def open(self, write: bool = True) -> None:
        """Refuse settings that bin/train would refuse, and a folder that is for another cohort, budget or parameters, or
        holds results of others; then write the plan into the folder, or add to it.
        """
        facts = self.check_folder()
        self._check_settings()
        if write:
            parts = {"methods": [row.name for row in self.table.rows], "heads": self.table.heads, "seeds": self.seeds}
            self.output.write_plan(facts, self.table.name, parts)

    def check_folder(self) -> dict[str, Any]:
        """Refuse a folder that is for another cohort, budget or parameters, and return what the plan depends on."""
        facts = {"cohort_checksum": self.cohort.checksum, "budget": self.budget}
        facts |= {"gin_files": self.gin_files, "gin_params": self.gin_params}
        self.output.check(facts)
        return facts

    def _check_settings(self) -> None:
        """Refuse bindings of what rows set, what bin/train would refuse, and results that stand for runs but are of other
        settings than these.
        """
        for source, asked in self.evaluations().items():
            training, result = asked.training, self.output.results / asked.path
            if training is None:
                self._check_result(result, source, None)
                continue
            for binding in self._chosen_params(training):
                if (name := _bound(binding)) in training.settings:
                    raise InputError(
                        f"--gin_param={binding!r}: must not bind {name}, which table {self.table.name!r} itself sets to "
                        f"{training.settings[name]!r} in {training.name}; leave it out, or choose rows by --methods"
                    )
            try:
                expected = training.configured(self.budget, self.gin_files, self._chosen_params(training))
            except InputError as error:
                raise InputError(
                    f"{training.gin_file} with these parameters: {error} (a parameter for one method: 'METHOD: binding')"
                ) from error
            self._check_result(result, source, training, expected)

    def _check_result(
        self,
        result: pathlib.Path,
        source: pathlib.Path,
        training: PlannedTraining | None,
        expected: Mapping[str, str] | None = None,
    ) -> None:
        """Refuse a result that stands for an evaluation, but is of another cohort, budget or other settings than expected."""
        if source.exists() or not result.exists():
            return
        known = read_result(result)
        run = known["run"]
        differing = settings.differing(known["config"], expected, training.method) if training else {}
        facts = [("cohort_checksum", self.cohort.checksum), *[("budget", self.budget)] * bool(training)]
        other = [f"  {name}: {run[name]}   (this plan has {ours})" for name, ours in facts if run[name] != ours] or [
            f"  {name} = {value}   (this plan has {expected.get(name, 'not set')})" for name, value in differing.items()
        ] + [
            f"  {name} = {value}   (its training had another value)"
            for name, value in settings.protocol_overrides(known).items()
        ]
        if other:
            raise InputError(
                f"{result}: was made with other settings than this plan's; use the same, or name another --output. "
                "Differences:\n" + "\n".join(other)
            )

    def _chosen_params(self, training: PlannedTraining) -> list[str]:
        """List the bindings that are for all methods, then those for this one, which win."""
        split = [_split_param(param) for param in self.gin_params]
        levels = (None, without_task(training.method)[0])
        return [binding for level in levels for method, binding in split if method == level]

    def _training_job(self, training: PlannedTraining) -> Job:
        run_dir = self.output.run(training.name).folder
        params = {"cohort": str(self.cohort.path.resolve()), "seed": training.seed, **training.settings}
        return Job(
            training.name,
            "bin/train",
            (
                *(f"--gin_file={file}" for file in training.files(self.budget, self.gin_files)),
                *(f"--gin_param={name} = {value!r}" for name, value in params.items()),
                *(f"--gin_param={binding}" for binding in self._chosen_params(training)),
                f"--run_dir={run_dir}",
            ),
            run_dir,
            self.output.log(training.name),
        )

    def _evaluation_job(self, asked: PlannedEvaluation) -> Job:
        training, chosen = asked.training, asked.settings
        name = f"{asked.subject}-{chosen.name}"
        output = self.output.evaluation_path(asked.subject, chosen.name, bool(training))
        run_dir = self.output.run(asked.subject).folder if training else output.parent
        where = [f"--run_dir={run_dir}"] if training else [f"--output={run_dir}", f"--seed={asked.seed}"]
        labels = [f"--labels={chosen.labels}", f"--label_seed={chosen.label_seed}"]
        return Job(
            name,
            "bin/evaluate",
            (
                *where,
                f"--cohort={self.cohort.path.resolve()}",
                f"--task={chosen.task}",
                f"--head={chosen.head}",
                f"--split={chosen.split}",
                *[f"--features={chosen.features}"] * (chosen.features != "representation"),
                *["--fine_tune"] * chosen.fine_tune,
                *(labels if chosen.labels != 1 else []),
            ),
            run_dir,
            self.output.log(name),
            needs=training.name if training else None,
            output=output,
            results=(self.output.results / asked.path,),
        )


def chosen_seeds(text: str) -> tuple[int, ...]:
    """Parse --seeds: '3' is the first three of the paper's; '2222,3333' is these of them."""
    names = [name.strip() for name in text.split(",")]
    if names[0] in (counts := [str(count) for count in range(1, len(SEEDS) + 1)]) and len(names) == 1:
        return SEEDS[: counts.index(names[0]) + 1]
    chosen = tuple(seed for seed in SEEDS if str(seed) in names)
    if len(chosen) != len(names):
        raise InputError(
            f"--seeds must be 1 to {len(SEEDS)} of the paper's, or these by name, each once: {','.join(map(str, SEEDS))}; "
            f"got {text}"
        )
    return chosen


def budgets() -> list[str]:
    """List the names of the budgets."""
    return sorted(path.stem for path in (project.GIN / "budgets").glob("*.gin"))


def _flag(observations: Sequence[str]) -> str:
    """Write observations as the flag of bin/prepare."""
    return f"--observations={','.join(observations)}" if observations else "no --observations"


def _lasting(file: str) -> str:
    """Make a gin file's path hold in any working folder; the project's files are found as they are."""
    ours = (project.HOME / file).exists() or not pathlib.Path(file).exists()
    return file if ours else str(pathlib.Path(file).resolve())


def _check_params(params: Sequence[str]) -> None:
    """Refuse bindings for unknown methods, of what a flag sets, and of one name twice."""
    bound = set()
    for param in params:
        method, binding = _split_param(param)
        if method:
            check_names("method", [method], list(TITLES), f"the paper's in --gin_param={param!r}")
        name = _bound(binding)
        if flag := OWN_FLAGS.get(name.removeprefix("train.")):
            raise InputError(
                f"--gin_param={param!r}: must not bind {name}, which differs between jobs or folders; use {flag}"
            )
        if (method, name) in bound:
            raise InputError(
                f"--gin_param={param!r}: must bind {name} once for all methods and once for each, got it twice"
            )
        bound.add((method, name))


def _bound(binding: str) -> str:
    """The name that a binding gives a value to."""
    return binding.partition("=")[0].strip()


def _split_param(param: str) -> tuple[str | None, str]:
    """Split 'METHOD: binding' or 'binding' into method or None, and binding."""
    method, binding = re.fullmatch(r"(?:(\w+):\s*)?(.*)", param, re.DOTALL).groups()
    return method, binding
