"""The page's first section: the data, the number of runs and the best method, in sentences and in a few numbers."""

import dataclasses
import pathlib
from typing import Any

from ncl_tf.data.cohort import Cohort, titled
from ncl_tf.data.splits import SPLITS
from ncl_tf.evaluation.settings import EvaluationSettings, share_of_labels
from ncl_tf.paper.compare import METRIC_TITLES, Comparison, head_in_words
from ncl_tf.paper.planned import planned_evaluation
from ncl_tf.paper.progress import duration
from ncl_tf.paper.tables import SEEDS, Column
from ncl_tf.reporting.report.tables import escape, number
from ncl_tf.reporting.sources import Sources, without_seed
from ncl_tf.runs import StoredRun


@dataclasses.dataclass(frozen=True)
class BestResult:
    """One method's number on the test split.

    Attributes:
        value: x 100.
        spread: its spread in words; empty where unknown.
        who: method and head.
        paper: the paper's number for the same; empty where it has none.
    """

    value: float
    spread: str
    who: str
    paper: str = ""


def summary_section(sources: Sources) -> str:
    """Build the whole section."""
    runs, cohorts = sources.finished, sources.cohorts
    evaluated = sum(len(run.evaluations) for run in runs)
    best = best_results(sources)
    names = cohort_names(sources)
    sentences = [_data(names, cohorts), _runs(sources, evaluated)]
    known = [cohort for cohort in cohorts.values() if cohort]
    for (checksum, task, metric), (result, compared) in best.items():
        simulated = cohorts[checksum] and cohorts[checksum].simulated  # then the paper's number is no measure
        sentences.append(_best(names[checksum], task, metric, result, compared, not simulated))
    if not evaluated:
        sentences.append("Nothing has been evaluated yet; run <code>bin/evaluate --run_dir=RUN</code>.")
    seconds = sum(run.record["wall_seconds"] for run in runs)
    seconds += sum(result["wall_seconds"] for run in runs for result in run.evaluations)
    figures = [("stays", f"{sum(_stays(cohort) for cohort in known):,}")] if known else []
    figures += [("trainings", str(len(runs))), ("evaluations", str(evaluated)), ("computed in", duration(seconds))]
    for (checksum, task, metric), (result, _) in best.items():
        where = f", {names[checksum]}" * (len(cohorts) > 1)
        figures.append((f"best {METRIC_TITLES[metric]}, {task.replace('_', ' ')}{where}", number(result.value)))
    tiles = "".join(f"<div><dt>{escape(name)}</dt><dd>{escape(value)}</dd></div>" for name, value in figures)
    return f'<dl class="tiles">{tiles}</dl>' + "".join(f"<p>{sentence}</p>" for sentence in sentences)


def best_results(sources: Sources) -> dict[tuple[str, str, str], tuple[BestResult, int]]:
    """Find the best result on the test split, with all labels, by cohort's checksum, task and metric; and how many compete.

    The metric of a task is the first that it has of AUPRC and kappa. What is compared are rows of tables (means over seeds),
    once where tables share them, and single runs.
    """
    found: dict[tuple[str, str, str], dict[pathlib.Path, BestResult]] = {}
    for source in sources.folders:
        for comparison in source.comparisons:
            for column in comparison.table.columns:
                if comparison.table.split == "test" and column.labels == 1 and column.metric in ("auprc", "kappa"):
                    key = (source.finished[0].record["cohort_checksum"], column.task, column.metric)
                    for path, result in _of_table(comparison, column).items():
                        found.setdefault(key, {})[source.folder / path] = result
        if source.output is None:
            (run,) = source.runs
            for evaluation in run.evaluations:
                asked = evaluation["settings"]
                metric = "auprc" if "auprc" in evaluation["metrics"] else "kappa"
                if EvaluationSettings(**asked).on_own_test and share_of_labels(evaluation) == 1:
                    key = (run.record["cohort_checksum"], asked["task"], metric)
                    found.setdefault(key, {})[run.folder / evaluation["name"]] = _of_run(run, evaluation, metric)
    return {key: (max(these.values(), key=lambda result: result.value), len(these)) for key, these in found.items()}


def _of_table(comparison: Comparison, column: Column) -> dict[pathlib.Path, BestResult]:
    """List the results of a column by the path of their evaluation, which tables may share."""
    results = {}
    for row in comparison.rows:
        cell = comparison.cells[row.name, column]
        if cell.mean is not None:
            asked = planned_evaluation(comparison.table, row, column, SEEDS[0], 0)
            tuned = ", fine-tuned" * asked.settings.fine_tune
            over = "1 seed" if cell.std is None else f"±\N{NO-BREAK SPACE}{cell.std:.1f} over {len(cell.values)} seeds"
            paper = f"{cell.figure.mean}" if cell.figure else ""
            who = row.title + f" with {head_in_words(column.head)}{tuned}" * (not row.head)
            results[asked.path] = BestResult(cell.mean, over, who, paper)
    return results


def _of_run(run: StoredRun, evaluation: dict[str, Any], metric: str) -> BestResult:
    low, high = (number(100 * value) for value in evaluation["intervals"][metric])
    asked = evaluation["settings"]
    features = f" on {asked['features'].replace('_', ' ')}" * (asked["features"] != "representation")
    who = f"{run.name} with {head_in_words(asked['head'])}{features}{', fine-tuned' * asked['fine_tune']}"
    return BestResult(100 * evaluation["metrics"][metric], f"95 % interval {low} to {high}", who)


def cohort_names(sources: Sources) -> dict[str, str]:
    """Name the cohorts for readers, by their checksums."""
    datasets = {run.record["cohort_checksum"]: run.record["dataset"] for run in sources.runs}
    return {
        checksum: titled(datasets[checksum], cohort is not None and cohort.simulated)
        for checksum, cohort in sources.cohorts.items()
    }


def _data(names: dict[str, str], cohorts: dict[str, Cohort | None]) -> str:
    parts = []
    for checksum, cohort in cohorts.items():
        if cohort is None:
            parts.append(f"{escape(names[checksum])} (not counted, as its file was not found)")
        else:
            kind = "a <strong>simulated ward</strong> in the form of " if cohort.simulated else ""
            hours = sum(len(cohort[split].data) for split in SPLITS)
            parts.append(f"{kind}{escape(cohort.name)}: {_stays(cohort):,} stays, {hours:,} hours")
    return f"Data: {'; and '.join(parts)}."


def _runs(sources: Sources, evaluated: int) -> str:
    runs = sources.finished
    groups = len({without_seed(run.name) for run in runs})
    budgets = ", ".join(sorted({f"“{run.record['budget']}”" for run in runs}))
    methods = "method or setting" if groups == 1 else "methods or settings"
    text = f"{groups} {methods} in {len(runs)} training{'s' * (len(runs) != 1)} with budget {escape(budgets)}, "
    text += f"and {evaluated} evaluation{'s' * (evaluated != 1)}."
    if unfinished := [name for source in sources.folders for name in source.unfinished]:
        text += f" Left out because they have not finished: {escape(', '.join(unfinished))}."
    return text


def _best(dataset: str, task: str, metric: str, result: BestResult, compared: int, beside: bool) -> str:
    paper = f"; the paper has {result.paper}" if result.paper and beside else ""
    chosen = f"the best of {compared}, chosen on the test split itself, which flatters it"
    among = chosen if compared > 1 else "the only one evaluated"
    return (
        f"{escape(task.replace('_', ' ').capitalize())} on {escape(dataset)}, test split, by {METRIC_TITLES[metric]}: "
        f"<strong>{escape(result.who)}</strong> has {number(result.value)} ({escape(result.spread + paper)}), {among}."
    )


def _stays(cohort: Cohort) -> int:
    return sum(len(cohort[split].patient_windows) for split in SPLITS)
