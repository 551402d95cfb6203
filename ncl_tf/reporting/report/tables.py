"""The page's tables, in HTML."""

import html
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

from ncl_tf.data.cohort import Cohort
from ncl_tf.data.datasets import PAPER_COUNTS
from ncl_tf.data.describe import counts
from ncl_tf.data.splits import SPLITS
from ncl_tf.evaluation.settings import EvaluationSettings, share_of_labels
from ncl_tf.paper.compare import METRIC_TITLES, Cell, Comparison, head_in_words
from ncl_tf.paper.planned import planned_evaluation
from ncl_tf.paper.results import cut_short
from ncl_tf.paper.tables import SEEDS
from ncl_tf.reporting.sources import without_seed
from ncl_tf.runs import StoredRun

escape = html.escape
TEXT, TEXTS = ' class="text"', ("evaluated by", "budget", "answer")  # what marks columns of words, and their headings
NOTHING = '<td class="none">–</td>'


def table(caption: str, head: str, bodies: Iterable[str], name: str) -> str:
    """Build a table in a box of its own, which scrolls where the window is narrow; the keyboard reaches it, too."""
    groups = "".join(f"<tbody>{body}</tbody>" for body in bodies)
    return (
        f'<div class="scroll" tabindex="0" role="region" aria-label="{escape(name)}">'
        f"<table><caption><span>{caption}</span></caption><thead>{head}</thead>{groups}</table></div>"
    )


def header(names: Sequence[str]) -> str:
    """Build a row of column headings, some of which may be empty."""
    cells = (f'<th scope="col"{TEXT * (name in TEXTS)}>{escape(name)}</th>' if name else "<td></td>" for name in names)
    return f"<tr>{''.join(cells)}</tr>"


def number(value: float) -> str:
    """Write a number with one decimal and a typographer's minus."""
    return f"{value:.1f}".replace("-", "−")


def comparison(content: Comparison, anchors: Mapping[str, str]) -> str:
    """Build a table of the paper, our number above the paper's in each cell.

    `anchors` are the identifiers on the page of each group of runs; copied results have none.
    """
    columns = content.table.columns
    blocks: dict[str, list[str]] = {}
    for row in content.rows:
        group = "" if row.quoted else planned_evaluation(content.table, row, columns[0], SEEDS[0], 0).subject
        group = without_seed(group)
        cells = "".join(_cell(content.cells[row.name, column]) for column in columns)
        title = escape(row.title)
        title = f'<a href="#{escape(anchors[group])}">{title}</a>' if group in anchors else title
        cells = f"<td>{content.seeds(row)}</td>{cells}"
        blocks.setdefault(row.block, []).append(f'<tr><th scope="row">{title}</th>{cells}</tr>')
    head = header(["", "seeds", *(content.header(column) for column in columns)])
    caption = content.caption.replace("In brackets: the paper's figure", "Below: the paper's figure")
    caption = caption.replace("x 100", "x\N{NO-BREAK SPACE}100")
    return table(escape(caption), head, ("".join(rows) for rows in blocks.values()), content.table.title)


def _cell(cell: Cell) -> str:
    ours = cell.text("<strong>{}</strong>").replace("-", "–" if cell.mean is None else "−")
    if cell.figure is None or cell.quoted:
        return f"<td>{ours}</td>"
    paper = cell.figure.text("<strong>{}</strong>")
    difference = f", {cell.signed_difference}".replace("-", "−") if cell.signed_difference else ""
    return f'<td>{ours}<span class="below">{paper}{difference}</span></td>'


def single_runs(runs: Sequence[StoredRun], link: Callable[[str], str]) -> str:
    """Build the table of single runs' evaluations, with intervals; `link` finds a run's provenance on the page by its name."""
    evaluated = [(run, result) for run in runs for result in run.evaluations]
    metrics = [name for name in METRIC_TITLES if any(name in result["metrics"] for _, result in evaluated)]
    rows = []
    for run, result in evaluated:
        title = f'<th scope="row"><a href="#{escape(link(run.name))}">{escape(run.name)}</a></th>'
        words, seed = (settings_in_words(result), run.record["budget"]), escape(str(run.record["seed"]))
        cells = "".join(f"<td{TEXT}>{escape(word)}</td>" for word in words) + f"<td>{seed}</td>"
        rows.append(f"<tr>{title}{cells}{''.join(_interval(result, name) for name in metrics)}</tr>")
    stopped = any(cut_short(result) for _, result in evaluated)
    caption = "Single runs. x 100; below, the 95 % interval over resampled stays of the same split."
    caption += " †: stopped by budget, when time or epochs ran out." * stopped
    head = header(["run", "evaluated by", "budget", "seed", *(METRIC_TITLES[name] for name in metrics)])
    return table(caption, head, ["".join(rows)], "Single runs")


def _interval(result: dict[str, Any], metric: str) -> str:
    if metric not in result["metrics"]:
        return NOTHING
    text = number(100 * result["metrics"][metric]) + "†" * cut_short(result)
    if metric in result["intervals"]:
        low, high = (number(100 * value) for value in result["intervals"][metric])
        text += f'<span class="below">{low} to {high}</span>'
    return f"<td>{text}</td>"


def settings_in_words(result: dict[str, Any]) -> str:
    """Describe the settings of an evaluation."""
    asked, labels = result["settings"], share_of_labels(result)
    parts = [asked["task"].replace("_", " "), head_in_words(asked["head"])]
    parts += [f"on {asked['features'].replace('_', ' ')}"] * (asked["features"] != "representation")
    parts += ["fine-tuned"] * asked["fine_tune"]
    parts += [f"{labels:.0%} of labels"] * (labels != 1)
    return ", ".join([*parts, EvaluationSettings(**asked).stays])


def data(cohort: Cohort) -> str:
    """Build the table of a cohort's counts, beside the paper's where it is not a simulated one."""
    paper = {} if cohort.simulated else PAPER_COUNTS.get(cohort.name, {})
    rows = []
    for task, numbers in counts(cohort).items():
        for what, ours in numbers.items():
            published = paper.get(task, {}).get(what) if task else paper.get(what)
            cells = "".join(f"<td>{count:,}</td>" for count in ours)
            if paper:
                cells += "".join(f"<td>{count:,}</td>" for count in published) if published else NOTHING * 3
                same = "" if published is None else "same" if published == ours else "differs"
                cells += f"<td>{same}</td>"
            title = f"{task}: {what}".replace("_", " ") if task else what
            rows.append(f'<tr><th scope="row">{escape(title)}</th>{cells}</tr>')
    if not paper:
        why = "Simulated ward" if cohort.simulated else "The paper has no counts of such data"
        return table(
            f"{escape(cohort.name)}. {why}: only our counts.", header(["", *SPLITS]), ["".join(rows)], cohort.name
        )
    groups = '<tr><td></td><th scope="colgroup" colspan="3">ours</th><th scope="colgroup" colspan="3">paper</th><td></td></tr>'
    caption = f"{escape(cohort.name)}, beside the counts that the paper gives."
    return table(caption, groups + header(["", *SPLITS, *SPLITS, ""]), ["".join(rows)], cohort.name)
