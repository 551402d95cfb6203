"""What has to be run for a table: its trainings and evaluations as independent jobs, and the folder that they share.

plan.json                    cohort, budget and parameters, for which the folder is; the tables made in it, which may grow
runs/TRAINING/               run directories of bin/train; tables share them
logs/JOB.log                 what each job printed
results/TRAINING/NAME.json   what is known about each evaluation, even when its run is no longer there
TABLE.md .tex .csv .json     the tables
"""

import dataclasses
import pathlib
import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from ncl_tf import files
from ncl_tf.data.cohort import Cohort
from ncl_tf.errors import InputError
from ncl_tf.evaluation.settings import EvaluationSettings
from ncl_tf.paper import settings
from ncl_tf.paper.executors import Job
from ncl_tf.paper.tables import SEEDS, TITLES, Column, Row, Table, check_names, value_name, without_task

GIN = pathlib.Path(__file__).resolve().parent.parent.parent / "gin"
OWN_FLAGS = {"cohort": "--cohort", "budget": "--budget", "seed": "--seeds"}  # what no parameter may set


@dataclasses.dataclass(frozen=True)
class Training:
    """One training.

    Attributes:
        method: a row's.
        gin_file: of gin/paper/.
        settings: gin names and values.
        seed: the seed.
    """

    method: str
    gin_file: str
    settings: Mapping[str, Any]
    seed: int

    @property
    def name(self) -> str:
        """Of its run directory."""
        own = [f"{name.split('.')[-1]}_{value_name(value)}" for name, value in self.settings.items()]
        return "-".join([pathlib.Path(self.gin_file).stem, *own, f"seed{self.seed}"])

    def files(self, budget: str, gin_files: Sequence[str] = ()) -> tuple[str, ...]:
        """The method's, others, and the budget's, of which the paper's is part of the first."""
        return (self.gin_file, *gin_files, *([f"gin/budgets/{budget}.gin"] if budget != "paper" else []))

    def configured(self, budget: str, gin_files: Sequence[str] = (), gin_params: Sequence[str] = ()) -> dict[str, str]:
        """Its settings by files and the row, with bindings after them."""
        own = (f"{name} = {value!r}" for name, value in self.settings.items())
        return settings.configured(self.files(budget, gin_files), (*own, *gin_params))


@dataclasses.dataclass(frozen=True)
class Evaluation:
    """One question about a training."""

    training: Training
    question: EvaluationSettings

    @property
    def path(self) -> pathlib.Path:
        """Of its result, in a folder of results."""
        return pathlib.Path(self.training.name) / f"{self.question.name}.json"


def evaluation(table: Table, row: Row, column: Column, seed: int, label_seed: int) -> Evaluation:
    """The evaluation that a cell needs for a seed."""
    question = EvaluationSettings(column.task, column.head, split=table.split)
    folder = f"gin/paper/{table.dataset}"
    if row.method != "end_to_end":
        training = Training(row.method, f"{folder}/{row.method}.gin", row.settings, seed)
        limits = {"labels": column.labels, "label_seed": label_seed} if column.labels != 1 else {}
        return Evaluation(training, dataclasses.replace(question, fine_tune=table.fine_tune, **limits))
    # End-to-End trains its head, for one task and on the labels that it is given: each column is a training of its own.
    own = {"head": column.head} | dict(row.settings)
    if column.labels != 1:
        own |= {"end_to_end.labels": column.labels, "end_to_end.label_seed": label_seed}
    by_task = GIN / "paper" / table.dataset / f"end_to_end_{column.task}.gin"
    file = by_task.name if by_task.exists() else "end_to_end.gin"
    return Evaluation(Training("end_to_end", f"{folder}/{file}", own, seed), question)


def evaluations(table: Table, seeds: Sequence[int]) -> Iterator[tuple[Row, Column, int, int, Evaluation]]:
    """All (row, column, seed, label seed, evaluation) of a table; columns that differ in the metric share an evaluation."""
    for seed in seeds:
        for row in table.rows:
            for column in table.columns:
                for label_seed in range(table.label_seeds):
                    yield row, column, seed, label_seed, evaluation(table, row, column, seed, label_seed)


class Plan:
    """A table to make from a cohort, in a folder.

    Args:
        table: with the rows and columns that are wanted.
        cohort: path of the cohort file.
        budget: name of a file in gin/budgets.
        seeds: how many of the paper's, 3, or which of them, '2222,3333'; None: as many as it took.
        gin_files: between a method's file and the budget's.
        gin_params: bindings; 'METHOD: binding' is for that method only.
        output: the folder; None: runs/DATASET_BUDGET.
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
        check_names("budget", [budget], budgets(), "choose one of")
        self.cohort = Cohort(cohort)
        for task in table.tasks:
            if task not in (have := [declared.name for declared in self.cohort.tasks]):
                raise InputError(f"table {table.name!r} needs task {task!r}; {cohort} has {', '.join(have)}")
        self.table, self.budget = table, budget
        self.seeds = SEEDS[: table.seeds] if seeds is None else chosen_seeds(str(seeds))
        self.gin_files, self.gin_params = [_lasting(file) for file in gin_files], sorted(gin_params)
        _check_params(gin_params)
        self.folder = pathlib.Path(output or f"runs/{table.dataset}_{budget}").resolve()

    def jobs(self) -> list[Job]:
        """All jobs, seed after seed, each training before its evaluations."""
        jobs: dict[str, Job] = {}
        for *_, asked in evaluations(self.table, self.seeds):
            training, judging = self._training_job(asked.training), self._evaluation_job(asked)
            training = jobs.setdefault(training.name, training)
            if judging.name not in jobs:
                jobs[judging.name] = judging
                jobs[training.name] = dataclasses.replace(training, results=training.results + judging.results)
        return list(jobs.values())

    def evaluations(self) -> dict[pathlib.Path, Evaluation]:
        """Every evaluation of the table by the JSON that bin/evaluate writes."""
        asked = (found for *_, found in evaluations(self.table, self.seeds))
        return {self._run_dir(found.training) / "evaluations" / f"{found.question.name}.json": found for found in asked}

    def open(self, write: bool = True) -> None:
        """Refuses settings that bin/train would refuse, and a folder that is for another cohort, budget or parameters, or
        holds results of others; writes plan.json, or adds to it.
        """
        facts = {
            "cohort_checksum": self.cohort.checksum,
            "budget": self.budget,
            "gin_files": self.gin_files,
            "gin_params": self.gin_params,
        }
        path, tables = self.folder / "plan.json", {}
        if path.exists():
            plan = files.read_json(path)
            if missing := sorted({*facts, "tables"} - plan.keys()):
                raise InputError(f"{path}: no plan of bin/reproduce; it lacks {', '.join(missing)}")
            other = [
                f"  {name}: {value}   (the folder has {plan[name]})"
                for name, value in facts.items()
                if plan[name] != value
            ]
            if other:
                raise InputError(
                    f"{self.folder}: is for another plan; name another --output. Different are\n" + "\n".join(other)
                )
            tables = plan["tables"]
        elif self.folder.exists() and not (self.folder.is_dir() and _names(self.folder) <= {"results"}):
            raise InputError(f"{self.folder}: holds other files and no plan.json; name an empty or new --output")
        self._check_settings()
        before = tables.get(self.table.name, {})
        now = {
            "methods": [row.name for row in self.table.rows],
            "heads": list(self.table.heads),
            "seeds": list(self.seeds),
        }
        tables[self.table.name] = {
            key: list(dict.fromkeys([*before.get(key, []), *values])) for key, values in now.items()
        }
        if write:
            files.write_json(path, {**facts, "tables": tables})

    def _check_settings(self) -> None:
        """Refuses bindings of what rows set, what bin/train would refuse, and results that stand for runs but are of other
        settings than these.
        """
        for source, asked in self.evaluations().items():
            training, result = asked.training, self.folder / "results" / asked.path
            for binding in self._chosen_params(training):
                if (name := _bound(binding)) in training.settings:
                    raise InputError(
                        f"--gin_param={binding!r}: table {self.table.name!r} itself sets {name}, to "
                        f"{training.settings[name]!r} in {training.name}; leave it out, or choose rows by --methods"
                    )
            try:
                expected = training.configured(self.budget, self.gin_files, self._chosen_params(training))
            except InputError as error:
                raise InputError(
                    f"{training.gin_file} with these parameters: {error} (a parameter for one method: 'METHOD: binding')"
                ) from error
            if source.exists() or not result.exists():
                continue
            known = read_result(result)
            other = [
                f"  {name}: {known['run'][name]}   (this plan has {ours})"
                for name, ours in (("cohort_checksum", self.cohort.checksum), ("budget", self.budget))
                if known["run"][name] != ours
            ] or [
                f"  {name} = {value}   (this plan has {expected.get(name, 'not set')})"
                for name, value in settings.differing(known["config"], expected, training.method).items()
            ] + [
                f"  {name} = {value}   (its training had another value)"
                for name, value in settings.judged_otherwise(known).items()
            ]
            if other:
                raise InputError(
                    f"{result}: was made with other settings than this plan's; use the same, or name another --output. "
                    "Different are\n" + "\n".join(other)
                )

    def _run_dir(self, training: Training) -> pathlib.Path:
        return self.folder / "runs" / training.name

    def _chosen_params(self, training: Training) -> list[str]:
        """The bindings that are for all methods, then those for this one, which win."""
        split = [_split_param(param) for param in self.gin_params]
        levels = (None, without_task(training.method)[0])
        return [binding for level in levels for method, binding in split if method == level]

    def _log(self, name: str) -> pathlib.Path:
        return self.folder / "logs" / f"{name}.log"

    def _training_job(self, training: Training) -> Job:
        params = {"cohort": str(self.cohort.path.resolve()), "seed": training.seed, **training.settings}
        return Job(
            training.name,
            "bin/train",
            (
                *(f"--gin_file={file}" for file in training.files(self.budget, self.gin_files)),
                *(f"--gin_param={name} = {value!r}" for name, value in params.items()),
                *(f"--gin_param={binding}" for binding in self._chosen_params(training)),
                f"--run_dir={self._run_dir(training)}",
            ),
            self._run_dir(training),
            self._log(training.name),
        )

    def _evaluation_job(self, asked: Evaluation) -> Job:
        run_dir, question = self._run_dir(asked.training), asked.question
        name = f"{asked.training.name}-{question.name}"
        labels = [f"--labels={question.labels}", f"--label_seed={question.label_seed}"]
        return Job(
            name,
            "bin/evaluate",
            (
                f"--run_dir={run_dir}",
                f"--cohort={self.cohort.path.resolve()}",
                f"--task={question.task}",
                f"--head={question.head}",
                f"--split={question.split}",
                *["--fine_tune"] * question.fine_tune,
                *(labels if question.labels != 1 else []),
            ),
            run_dir,
            self._log(name),
            needs=asked.training.name,
            output=run_dir / "evaluations" / f"{question.name}.json",
            results=(self.folder / "results" / asked.path,),
        )


def read_result(path: pathlib.Path) -> dict[str, Any]:
    """What a folder of results tells about an evaluation."""
    known = files.read_json(path)
    needed = {"metrics", "intervals", "config", "protocol", "best_epoch", "stopped_by_budget", "wall_seconds", "run"}
    of_run = {"budget", "dataset", "cohort_checksum", "wall_seconds"}
    missing = needed - known.keys() or {f"run.{name}" for name in of_run - known["run"].keys()}
    if missing:
        raise InputError(f"{path}: no result of bin/reproduce; it lacks {', '.join(sorted(missing))}")
    return known


def chosen_seeds(text: str) -> tuple[int, ...]:
    """The seeds that --seeds means: '3', the first three of the paper's; '2222,3333', these of them."""
    names = [name.strip() for name in text.split(",")]
    if names[0] in (counts := [str(count) for count in range(1, len(SEEDS) + 1)]) and len(names) == 1:
        return SEEDS[: counts.index(names[0]) + 1]
    chosen = tuple(seed for seed in SEEDS if str(seed) in names)
    if len(chosen) != len(names):
        raise InputError(
            f"--seeds is {text}; allowed: 1 to {len(SEEDS)} of the paper's, or these by name, each once: "
            + ",".join(map(str, SEEDS))
        )
    return chosen


def budgets() -> list[str]:
    """Names of the budgets."""
    return sorted(path.stem for path in (GIN / "budgets").glob("*.gin"))


def _names(folder: pathlib.Path) -> set[str]:
    """What a folder holds, but for traces of an interrupted write."""
    return {path.name for path in folder.iterdir() if path.suffix != ".partial"}


def _lasting(file: str) -> str:
    """A gin file's path that holds in any working folder: the project's are found as they are."""
    return (
        file if (GIN.parent / file).exists() or not pathlib.Path(file).exists() else str(pathlib.Path(file).resolve())
    )


def _check_params(params: Sequence[str]) -> None:
    """Refuses bindings for unknown methods, of what a flag sets, and of one name twice."""
    bound = set()
    for param in params:
        method, binding = _split_param(param)
        if method:
            check_names("method", [method], list(TITLES), "a --gin_param may begin with")
        name = _bound(binding)
        if flag := OWN_FLAGS.get(name.removeprefix("train.")):
            raise InputError(f"--gin_param={param!r}: {name} differs between jobs or folders; use {flag}")
        if (method, name) in bound:
            raise InputError(
                f"--gin_param={param!r}: binds {name} a second time; allowed: once for all, once for a method"
            )
        bound.add((method, name))


def _bound(binding: str) -> str:
    """The name that a binding gives a value."""
    return binding.partition("=")[0].strip()


def _split_param(param: str) -> tuple[str | None, str]:
    """'METHOD: binding' or 'binding' -> method or None, binding."""
    method, binding = re.fullmatch(r"(?:(\w+):\s*)?(.*)", param, re.DOTALL).groups()
    return method, binding
