"""The tables of README.md and docs/, made from results/ by `make tables`; a test fails when they differ.

A page marks a table's place by `<!-- NAME: made by ... -->` and `<!-- end -->`. The names are

DATASET_BUDGET, TABLE_BUDGET   a table, from results/DATASET_BUDGET or DATASET_observed_BUDGET, a copy of bin/reproduce's results/
headline                       four rows of the paper's table on PhysioNet 2019
variants                       single runs with other settings, from results/physionet2019_laptop_*
choices                        what settings were chosen by, from results/physionet2019_laptop_choices
hospitals                      trained on one hospital, tested on the other, from results/physionet2019_hospitals
observations                   what observation columns were chosen by, from results/physionet2019_observed_choices
shipped                        the models that ship, from models/index.json beside results/
benchmarks, rates, sizes       what bin/benchmark measured, from results/benchmark_*.json
crashes                        what became of killed programs, from results/reliability_crash.json
"""

import functools
import pathlib
import re
from collections.abc import Callable
from typing import Any

from docs.measurements import benchmarks, crashes, markdown, rates, sizes
from ncl_tf import files
from ncl_tf.paper import compare, plan
from ncl_tf.paper import results as paper_results
from ncl_tf.paper import tables as paper_tables
from ncl_tf.runs.configuration import bindings
from ncl_tf.runs.shipped import read_index

ROOT = pathlib.Path(__file__).resolve().parents[1]
MAIN = "physionet2019_laptop"
HEADLINE = ("cl", "ncl_w", "end_to_end", "ncl_y")
AUTHORS = "gin/authors_code.gin"
METRICS = ("auprc", "auroc", "utility")
PAPER_COLUMNS = "Beside ours: the paper's figure."


def pages() -> list[pathlib.Path]:
    """List the documents that may hold tables."""
    return [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))]


def fill(text: str, results: pathlib.Path) -> str:
    """Make every table of a document anew between `<!-- NAME: ... -->` and `<!-- end -->`."""
    makers: dict[str, Callable[[pathlib.Path], str]] = {
        f"{table}_{budget}": functools.partial(reproduced, table, budget)
        for table in paper_tables.names()
        for budget in plan.budgets()
    }
    for maker in (headline, variants, choices, observations, hospitals, shipped, benchmarks, rates, sizes, crashes):
        makers[maker.__name__] = maker

    def replace(match: re.Match[str]) -> str:
        return f"{match[1]}\n{makers[match[2]](results)}\n<!-- end -->"

    return re.sub(r"(<!-- (\w+): [^>]*-->)\n.*?<!-- end -->", replace, text, flags=re.DOTALL)


def reproduced(name: str, budget: str, results: pathlib.Path) -> str:
    """A table of the paper with the results of `bin/reproduce`, from results/DATASET_BUDGET; empty where there are none."""
    table = paper_tables.load_table(name)
    rows = paper_results.rows(results / f"{table.cohort}_{budget}", table)
    if not rows:
        return ""
    comparison = compare.Comparison(table, rows)
    return f"{_beside_the_paper(comparison, '**{}**')}\n\n({comparison.described(PAPER_COLUMNS)})"


def headline(results: pathlib.Path) -> str:
    """The results on PhysioNet 2019 that a reader wants first: four methods with the MLP head, beside the paper's."""
    table = paper_tables.load_table("physionet2019").narrowed(list(HEADLINE), ["mlp"])
    comparison = compare.Comparison(table, paper_results.rows(results / MAIN, table))
    note = "PhysioNet 2019, test split, MLP head, x 100, mean ± std over seeds. Ours: laptop budget"
    dagger = "; †: time or epochs ran out" * any(cell.stopped_by_budget for cell in comparison.cells.values())
    return f"{_beside_the_paper(comparison, '{}')}\n\n({note}{dagger}.)"


def _beside_the_paper(comparison: compare.Comparison, bold: str) -> str:
    """Write a comparison with a line for each row and head, and the paper's figures, where it has some, beside ours."""
    table = comparison.table
    lines = list(dict.fromkeys((column.labels, column.task, column.head) for column in table.columns))
    varied = [index for index in range(3) if len({line[index] for line in lines}) > 1]
    metrics = list(dict.fromkeys(column.metric for column in table.columns))
    paper = any(cell.figure and not cell.quoted for cell in comparison.cells.values())
    header = ["", *(("labels", "task", "head")[index] for index in varied), "seeds"]
    header += [title for metric in metrics for title in (compare.METRIC_TITLES[metric], *["paper"] * paper)]
    body = []
    for labels, task, head in lines:
        kind = (f"{labels:.0%}", task.replace("_", " "), compare.HEAD_TITLES[head])
        for row in comparison.rows:
            cells = [
                comparison.cells.get((row.name, paper_tables.Column(task, metric, head, labels))) for metric in metrics
            ]
            seeds = {cell.seeds for cell in cells if cell and cell.values}
            if not seeds and not row.quoted:
                continue
            texts = [
                text
                for cell in cells
                for text in (cell.text(bold) if cell else "", *[_figure(cell and cell.figure)] * paper)
            ]
            body.append([row.title, *(kind[index] for index in varied), str(max(seeds, default="")), *texts])
    return markdown(header, body)


def variants(results: pathlib.Path) -> str:
    """Single runs with other settings than the laptop budget's, beside the same seed at that budget and the paper."""
    table = paper_tables.load_table("physionet2019")
    found: dict[tuple, dict[str, dict]] = {}  # row and seed -> setting -> head -> metrics
    for folder in (results / MAIN, *sorted(results.glob(f"{MAIN}_*"))):
        for result in paper_results.rows(folder, table):
            setting = "the laptop budget" if folder.name == MAIN else _setting(result)
            of_row = found.setdefault((result["row"], result["seed"]), {})
            of_row.setdefault(setting, {})[result["head"]] = result["metrics"]
    body = []
    for (name, _), of_row in found.items():
        if len(of_row) > 1:
            (row,) = (row for row in table.rows if row.name == name)
            body.append([row.title, "the paper", *map(_figure, row.figures)])
            for setting, metrics in of_row.items():
                cells = (f"{100 * metrics[column.head][column.metric]:.1f}" for column in table.columns)
                body.append([row.title, setting, *cells])
    titles = (f"{compare.METRIC_TITLES[column.metric]} {compare.HEAD_TITLES[column.head]}" for column in table.columns)
    note = "Test split, x 100; ours with one seed, the same for all. All other settings are those of the laptop budget."
    return f"{markdown(['', 'setting', *titles], body)}\n\n({note})"


def _setting(result: dict[str, Any]) -> str:
    """Name the settings that a result has in place of its row's and its budget's: 'steps = 36000'."""
    if result["changed"] == {name: value for name, value in _bindings(AUTHORS).items() if "." in name}:
        return f"`{AUTHORS}`"
    return ", ".join(f"{name} = {value}" for name, value in result["changed"].items())


def _bindings(file: str) -> dict[str, str]:
    """Read the bindings of a gin file alone, without those that it includes."""
    text = re.sub(r" *#.*", "", (ROOT / file).read_text(encoding="utf-8"))
    return {name: value for name, value in bindings(text).items() if name in text}


def choices(results: pathlib.Path) -> str:
    """The validation figures that batch size, number of steps and End-to-End's learning rate were chosen by."""
    body = []
    for path in sorted((results / f"{MAIN}_choices").glob("*.json")):
        known = files.read_json(path)
        config, epochs = known["config"], known.get("reports")
        if epochs:
            best = min(epochs, key=lambda report: report["val_loss"])
            loss = f"{best['val_loss']:.3f}, epoch {best['epoch']} of {epochs[-1]['epoch']}"
            body.append(["End-to-End", f"rate = {config['rate']}", "", "", "", loss])
        else:
            metrics = (f"{100 * known['metrics'][metric]:.1f}" for metric in METRICS)
            body.append(["CL, MLP head", f"{int(config['steps']):,} steps of {config['batch_size']}", *metrics, ""])
    header = ["", "setting", *(compare.METRIC_TITLES[metric] for metric in METRICS), "lowest loss"]
    return f"{markdown(header, body)}\n\n(Validation split, one seed; metrics x 100. The loss is class-weighted.)"


def hospitals(results: pathlib.Path) -> str:
    """How methods do on a hospital that they have not seen; files are METHOD-A_to_B.json or -B_to_A.json, if any."""
    body = []
    for path in sorted((results / "physionet2019_hospitals").glob("*.json")):
        method, way = path.stem.rsplit("-", 1)
        known, (trained, tested) = files.read_json(path), way.split("_to_")
        cut = "†" * paper_results.cut_short(known)
        spans = {name: [f"{100 * bound:.1f}" for bound in known["intervals"][name]] for name in METRICS}
        cells = (f"{100 * known['metrics'][name]:.1f}{cut} ({' to '.join(spans[name])})" for name in METRICS)
        body.append([paper_tables.TITLES[method], trained, tested, *cells])
    if not body:
        return ""
    header = ["", "trained on", "tested on", *(compare.METRIC_TITLES[metric] for metric in METRICS)]
    note = "MLP head, one seed, x 100, with 95 % intervals over stays; †: time or epochs ran out."
    return f"{markdown(header, body)}\n\n(PhysioNet 2019, hospitals A and B, {note})"


def observations(results: pathlib.Path) -> str:
    """The validation figures that observation columns, their settings, steps and heads were chosen by."""
    body, laptop = [], _bindings("gin/budgets/laptop.gin")
    for path in (results / "physionet2019_observed_choices").glob("*.json"):
        known = files.read_json(path)
        config, head, features = known["config"], known["settings"]["head"], known["settings"]["features"]
        method, steps, setting = "", "", []
        if features.startswith("representation"):
            method = paper_tables.TITLES[known["training"].split("-")[0]].removesuffix(", observed")
            dropout = float(config["measurement_dropout"])
            setting = [", ".join(known["run"]["observations"]), *[f"measurement dropout {dropout:g}"] * bool(dropout)]
            setting += ["inputs compressed"] * (config.get("encoder.compress") == "True")
            queue = config["queue_size"]
            setting += [f"queue of {int(queue):,}"] * (queue != laptop["queue_size"])
            steps = f"{int(config['steps']):,}"
        inputs = features.replace("representation+", "representation and ").replace("engineered", "engineered features")
        title = compare.HEAD_TITLES[head] + f" on {inputs}" * (features != "representation")
        metrics = (f"{100 * known['metrics'][metric]:.1f}" for metric in METRICS)
        body.append([method, "; ".join(setting), steps, title, *metrics])
    header = ["", "observations", "steps", "head", *(compare.METRIC_TITLES[metric] for metric in METRICS)]
    note = "(Batch and, unless named, queue of the laptop budget. Validation split, one seed, x 100.)"
    return f"{markdown(header, sorted(body))}\n\n{note}"


def shipped(results: pathlib.Path) -> str:
    """The models that ship, with their metrics on the test split, if there are any."""
    body = []
    for name, known in read_index(results.parent / "models").items():
        for evaluation, found in known["figures"].items():
            metrics = (f"{100 * found[metric]:.1f}" if metric in found else "" for metric in METRICS)
            body.append([f"`{name}`", known["kind"], f"`{evaluation}`", *metrics])
    if not body:
        return ""
    header = ["model", "", "evaluation", *(compare.METRIC_TITLES[metric] for metric in METRICS)]
    return (
        f"{markdown(header, body)}\n\n(Test split, x 100. Which run a model is of was chosen on the validation split.)"
    )


def _figure(figure: paper_tables.PaperFigure | None) -> str:
    return figure.text() if figure else ""


if __name__ == "__main__":
    for page in pages():
        files.write_text(page, fill(page.read_text(encoding="utf-8"), ROOT / "results"))
