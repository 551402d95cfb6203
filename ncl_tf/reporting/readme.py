"""The README's tables, made from results/ by `make tables`; a test fails when they disagree."""

import functools
import json
import pathlib
import re
from typing import Any

from ncl_tf import files
from ncl_tf.paper import compare, plan, tables
from ncl_tf.paper import results as paper_results

ROOT = pathlib.Path(__file__).resolve().parents[2]
FORMS = ("readable", "readable with XLA", "fast")


def build_readme(text: str, results: pathlib.Path) -> str:
    """Make every table of the README anew between `<!-- NAME: ... -->` and `<!-- end -->`."""
    makers = {"benchmarks": benchmarks} | {
        f"{table}_{budget}": functools.partial(reproduced, table, budget)
        for table in tables.names()
        for budget in plan.budgets()
    }

    def replace(match: re.Match[str]) -> str:
        return f"{match[1]}\n{makers[match[2]](results)}\n<!-- end -->"

    return re.sub(r"(<!-- (\w+): [^>]*-->)\n.*?<!-- end -->", replace, text, flags=re.DOTALL)


def reproduced(name: str, budget: str, results: pathlib.Path) -> str:
    """A table of the paper with the results of `bin/reproduce`, from results/DATASET_BUDGET; empty where there are none."""
    table = tables.load_table(name)
    rows = paper_results.rows(results / f"{table.dataset}_{budget}", table)
    return compare.Comparison(table, rows).markdown().strip() if rows else ""


def benchmarks(results: pathlib.Path) -> str:
    """The table of what `bin/benchmark` measured, a line for each measurement."""
    lines = ["| | readable | readable with XLA | fast | readable / fast |", "|---|---|---|---|---|"]
    machines = set()
    for name in ("step", "objective", "encoder", "embed", "evaluate", "data", "serve"):
        path = results / f"benchmark_{name}.json"
        if path.exists():
            record = json.loads(path.read_text(encoding="utf-8"))
            machines.add(f"{record['machine']['cores']} cores, {record['machine']['processor']}")
            lines += [line for row in record["rows"] if (line := _benchmark_line(name, row))]
    note = "Seconds are medians; memory is the process's peak. All of a line was measured in one run, not all lines in one."
    return "\n".join([*lines, "", f"({'; '.join(sorted(machines))}. {note})"])


def _benchmark_line(name: str, row: dict[str, Any]) -> str:
    """Write one measurement as a line of the table; scaling rows, which have no readable form, are left to the JSON."""
    if "readable s" in row:
        what = {
            "step": "training step",
            "objective": "objective with gradient",
            "encoder": "encoder",
            "evaluate": "epoch of head training",
        }[name]
        cells = [_seconds_and_memory(row, form) for form in FORMS]
        if "embedding once s" in row:
            share = f"{row['measured share of readable']:.0%} of an epoch through the frozen fast encoder, scaled"
            what += f" (readable: {share}; fast: on embeddings, made once in {row['embedding once s']:.0f} s)"
        return f"| {what}, {row[name]} | {' | '.join(cells)} | {row['ratio']:.1f} |"
    if "readable windows/s" in row:
        what = "embedding" if name == "embed" else "windows from the pipeline (readable: a numpy loop)"
        cells = [f"{row[rate]:,.0f} per second" if (rate := f"{form} windows/s") in row else "" for form in FORMS]
        return f"| {what} | {' | '.join(cells)} | {row['ratio']:.1f} |"
    if "hours/s" in row:
        return f"| {row['serve']} | | | {row['hours/s']:,.0f} hours per second | |"
    if "p99 ms" in row:
        return f"| {row['serve']} | | | {row['p50 ms']:.1f} ms, of 100 one above {row['p99 ms']:.1f} ms | |"
    if "GiB" in row:
        return f"| {row['data']}, {row['stays']:,} stays | | | {row['seconds']:.1f} s, {row['GiB']:.1f} GiB | |"
    return ""


def _seconds_and_memory(row: dict[str, Any], form: str) -> str:
    if f"{form} s" not in row:
        return ""
    memory = f", {row[f'{form} GiB']:.1f} GiB" if f"{form} GiB" in row else ""
    return f"{row[f'{form} s']:.3g} s{memory}"


if __name__ == "__main__":
    readme = ROOT / "README.md"
    files.write_text(readme, build_readme(readme.read_text(encoding="utf-8"), ROOT / "results"))
