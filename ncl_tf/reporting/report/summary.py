"""The page's first lines: what data, how many runs, which method is best; in sentences and in a few figures."""

import dataclasses
import pathlib
from collections.abc import Sequence
from typing import Any

from ncl_tf.data.cohort import Cohort, titled
from ncl_tf.data.splits import SPLITS
from ncl_tf.evaluation.settings import share_of_labels
from ncl_tf.paper.compare import HEADS, METRICS, Comparison
from ncl_tf.paper.plan import evaluation
from ncl_tf.paper.progress import duration
from ncl_tf.paper.tables import SEEDS, Column
from ncl_tf.reporting.report.sources import Source, Training
from ncl_tf.reporting.report.sources import trainings as all_trainings
from ncl_tf.reporting.report.tables import escape, number


@dataclasses.dataclass(frozen=True)
class Result:
    """One method's figure on the test split.

    Attributes:
        value: x 100.
        spread: of it, in words; empty where unknown.
        who: method and head.
        paper: the paper's figure for the same, or "".
    """

    value: float
    spread: str
    who: str
    paper: str = ""


def section(sources: Sequence[Source], cohorts: dict[str, Cohort | None]) -> str:
    """The whole of it."""
    trainings = all_trainings(sources)
    judged = sum(len(training.evaluations) for training in trainings)
    best = best_results(sources)
    names = cohort_names(trainings, cohorts)
    sentences = [_data(names, cohorts), _runs(sources, trainings, judged)]
    known = [cohort for cohort in cohorts.values() if cohort]
    for (checksum, task, metric), (result, compared) in best.items():
        simulated = cohorts[checksum] and cohorts[checksum].simulated  # then the paper's figure is no measure
        sentences.append(_best(names[checksum], task, metric, result, compared, not simulated))
    if not judged:
        sentences.append("Nothing has been judged yet: <code>bin/evaluate --run_dir=RUN</code> does it.")
    seconds = sum(training.record["wall_seconds"] for training in trainings)
    seconds += sum(result["wall_seconds"] for training in trainings for result in training.evaluations)
    figures = [("stays", f"{sum(_stays(cohort) for cohort in known):,}")] if known else []
    figures += [("trainings", str(len(trainings))), ("evaluations", str(judged)), ("computed in", duration(seconds))]
    for (checksum, task, metric), (result, _) in best.items():
        where = f", {names[checksum]}" * (len(cohorts) > 1)
        figures.append((f"best {METRICS[metric]}, {task.replace('_', ' ')}{where}", number(result.value)))
    tiles = "".join(f"<div><dt>{escape(name)}</dt><dd>{escape(value)}</dd></div>" for name, value in figures)
    return f'<dl class="tiles">{tiles}</dl>' + "".join(f"<p>{sentence}</p>" for sentence in sentences)


def best_results(sources: Sequence[Source]) -> dict[tuple[str, str, str], tuple[Result, int]]:
    """(cohort's checksum, task, metric) -> the best result on the test split, with all labels, and how many were compared.

    The metric of a task is the first that it has of AUPRC and kappa. What is compared are rows of tables (means over seeds),
    once where tables share them, and single runs.
    """
    found: dict[tuple[str, str, str], dict[pathlib.Path, Result]] = {}
    for source in sources:
        for comparison in source.comparisons:
            for column in comparison.table.columns:
                if comparison.table.split == "test" and column.labels == 1 and column.metric in ("auprc", "kappa"):
                    key = (source.trainings[0].record["cohort_checksum"], column.task, column.metric)
                    for path, result in _of_table(comparison, column).items():
                        found.setdefault(key, {})[source.folder / path] = result
        if source.plan is None:
            for training in source.trainings:
                for judged in training.evaluations:
                    asked = judged["question"]
                    metric = "auprc" if "auprc" in judged["metrics"] else "kappa"
                    if asked["split"] == "test" and share_of_labels(judged) == 1:
                        key = (training.record["cohort_checksum"], asked["task"], metric)
                        path = training.folder / judged["name"]
                        found.setdefault(key, {})[path] = _of_run(training, judged, metric)
    return {key: (max(these.values(), key=lambda result: result.value), len(these)) for key, these in found.items()}


def _of_table(comparison: Comparison, column: Column) -> dict[pathlib.Path, Result]:
    """The results of a column, by what tells those of the same evaluations."""
    results = {}
    for row in comparison.rows:
        cell = comparison.cells[row.name, column]
        if cell.mean is not None:
            asked = evaluation(comparison.table, row, column, SEEDS[0], 0)
            tuned = ", fine-tuned" * asked.question.fine_tune
            seeds = len(cell.values)
            spread = (
                f"±\N{NO-BREAK SPACE}{cell.std:.1f} over {seeds} seeds" if cell.std is not None else f"{seeds} seed"
            )
            paper = f"{cell.figure.mean}" if cell.figure else ""
            who = f"{row.title} with {HEADS[column.head]} head{tuned}"
            results[asked.path] = Result(cell.mean, spread, who, paper)
    return results


def _of_run(training: Training, judged: dict[str, Any], metric: str) -> Result:
    low, high = (number(100 * value) for value in judged["intervals"][metric])
    asked = judged["question"]
    features = f" on {asked['features'].replace('_', ' ')}" * (asked["features"] != "representation")
    who = f"{training.name} with {HEADS[asked['head']]} head{features}{', fine-tuned' * asked['fine_tune']}"
    return Result(100 * judged["metrics"][metric], f"95 % interval {low} to {high}", who)


def cohort_names(trainings: Sequence[Training], cohorts: dict[str, Cohort | None]) -> dict[str, str]:
    """Cohorts' checksums -> their names, for readers."""
    datasets = {training.record["cohort_checksum"]: training.record["dataset"] for training in trainings}
    return {
        checksum: titled(datasets[checksum], cohort is not None and cohort.simulated)
        for checksum, cohort in cohorts.items()
    }


def _data(names: dict[str, str], cohorts: dict[str, Cohort | None]) -> str:
    parts = []
    for checksum, cohort in cohorts.items():
        if cohort is None:
            parts.append(f"{escape(names[checksum])} (its file is not at hand, so it is not counted here)")
        else:
            kind = "a <strong>simulated ward</strong> in the form of " if cohort.simulated else ""
            hours = sum(len(cohort[split].data) for split in SPLITS)
            parts.append(f"{kind}{escape(cohort.name)}: {_stays(cohort):,} stays, {hours:,} hours")
    return f"Data: {'; and '.join(parts)}."


def _runs(sources: Sequence[Source], trainings: Sequence[Training], judged: int) -> str:
    groups = len({training.group for training in trainings})
    budgets = ", ".join(sorted({f"“{training.record['budget']}”" for training in trainings}))
    text = f"{_count(groups, 'method or setting', 'methods or settings')} in {_count(len(trainings), 'training')} with budget "
    text += f"{escape(budgets)}, and {_count(judged, 'evaluation')}."
    if unfinished := [name for source in sources for name in source.unfinished]:
        text += f" Left out, since they have not finished: {escape(', '.join(unfinished))}."
    return text


def _best(dataset: str, task: str, metric: str, result: Result, compared: int, beside: bool) -> str:
    paper = f"; the paper has {result.paper}" if result.paper and beside else ""
    among = (
        f"the best of {compared}, as seen on the test split itself, which flatters it"
        if compared > 1
        else "the only one judged"
    )
    return (
        f"{escape(task.replace('_', ' ').capitalize())} on {escape(dataset)}, test split, by {METRICS[metric]}: "
        f"<strong>{escape(result.who)}</strong> has {number(result.value)} ({escape(result.spread + paper)}), {among}."
    )


def _stays(cohort: Cohort) -> int:
    return sum(len(cohort[split].patient_windows) for split in SPLITS)


def _count(number_: int, singular: str, plural: str = "") -> str:
    return f"{number_} {singular if number_ == 1 else plural or singular + 's'}"
