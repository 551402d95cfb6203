"""What bin/benchmark and the tests of reliability measured, as tables for docs/tables.py."""

import pathlib
import re
from collections.abc import Iterable, Iterator
from typing import Any

from ncl_tf import files

FORMS = ("readable", "readable with XLA", "fast")
TIMED = {
    "step": "training step",
    "objective": "objective with gradient",
    "encoder": "encoder",
    "embed": "embedding",
    "evaluate": "epoch of head training",
    "data": "windows from the pipeline (readable: a numpy loop)",
}


def benchmarks(results: pathlib.Path) -> str:
    """What the readable forms cost, and the fast ones."""
    body, note = [], ""
    for name, row in _measured(results):
        if "readable s" in row:
            body.append([f"{TIMED[name]}, {row[name]}", *(_seconds_and_memory(row, form) for form in FORMS)])
        elif "readable windows/s" in row:
            rates = (f"{row[rate]:,.0f} per second" if (rate := f"{form} windows/s") in row else "" for form in FORMS)
            body.append([TIMED[name], *rates])
        else:
            continue
        body[-1] += [f"{row[ratio]:.1f}" if ratio in row else "" for ratio in ("ratio", "ratio with XLA")]
        if "embedding once s" in row:
            note = (
                f"Epochs of heads: readable is {row['measured share of readable']:.0%} of an epoch through the frozen fast "
                f"encoder, scaled; fast is on embeddings, which are computed once, in {row['embedding once s']:.0f} s. "
            )
    note += "Seconds are medians; memory is the process's peak. Each line was measured in one run."
    header = ["", *FORMS, "readable / fast", "readable with XLA / fast"]
    return f"{markdown(header, body)}\n\n({note} {_machines(results)})"


def rates(results: pathlib.Path) -> str:
    """How fast data is prepared, exported models score and programs start."""
    body, starts = [], []
    for name, row in _measured(results):
        if name == "mimic3":
            what = f"prepare MIMIC-III, {row['mimic3']}, {row['rows']:,} rows of events"
            body.append([what, f"{row['seconds']:,.0f} s, {row['CPU s']:,.0f} s of CPU time, {row['GiB']:.1f} GiB"])
        elif name == "start":
            starts.append(row["CPU seconds"])
        elif "events/s" in row:
            what = f"{row['data']}, {row['events']:,} events"
            body.append(
                [what, f"{row['seconds']:.1f} s, {row['GiB']:.1f} GiB, {row['events/s']:,.0f} events per second"]
            )
        elif "GiB" in row:
            body.append([f"{row['data']}, {row['stays']:,} stays", f"{row['seconds']:.1f} s, {row['GiB']:.1f} GiB"])
        elif name == "observations":
            what = f"{row[name]}, {row['columns with']} columns, of which {row['columns without']} without observations"
            times = f"{row['with CPU s']:.3g} s of CPU time, without observations {row['without CPU s']:.3g} s"
            body.append([what, f"{times}: {row['ratio'] - 1:+.0%}"])
        elif "CPU seconds" in row:
            what = f"{row[name]}, {row['hours']:,} hours of {row['stays']:,} stays"
            body.append([what, f"{row['CPU seconds']:.1f} s of CPU time"])
        elif "hours/s" in row:
            body.append([row[name], f"{row['hours/s']:,.0f} hours per second"])
        elif "p99 ms" in row:
            body.append([row[name], f"median {row['p50 ms']:.1f} ms, 99th percentile {row['p99 ms']:.1f} ms"])
    if starts:
        what = f"help, refusals and --only_print of all programs, the slowest of {len(starts)}"
        body.append([what, f"{max(starts):.1f} s of CPU time"])
    return f"{markdown(['', 'measured'], body)}\n\n({_machines(results)})"


def sizes(results: pathlib.Path) -> str:
    """What a training step of the fast form costs by batch size and queue size."""
    steps = [row for name, row in _measured(results) if name == "step" and row["step"] == "n_w, w = 12"]
    steps.sort(key=lambda row: (row["batch"], row["queue"]))
    body = [[f"{row['batch']:,}", f"{row['queue']:,}", _seconds_and_memory(row, "fast")] for row in steps]
    return f"{markdown(['batch size', 'queue size', 'training step'], body)}\n\n({_machines(results)})"


def crashes(results: pathlib.Path) -> str:
    """How often programs were killed, and whether they ended as undisturbed ones."""
    known = files.read_json(results / "reliability_crash.json")
    ways = ("sigkill", "sigterm", "inside_writes")
    body = []
    for row in known["rows"]:
        body.append([f"`{row['program']}`", *(str(row[way]) for way in ways), "no" if row["problems"] else "yes"])
    body.append(["all", *(str(sum(row[way] for row in known["rows"])) for way in ways), ""])
    header = ["program", "SIGKILL", "SIGTERM", "killed inside a write", "same in the end"]
    return f"{markdown(header, body)}\n\n({known['kills']} kills, seed {known['seed']}.)"


def _measured(results: pathlib.Path) -> Iterator[tuple[str, dict[str, Any]]]:
    """Yield the rows of all measurements with the name of their benchmark."""
    before = ("step", "objective", "encoder", "embed", "evaluate", "data", "observations")
    for name in (*before, "mimic3", "ward", "serve", "start"):
        path = results / f"benchmark_{name}.json"
        if path.exists():
            yield from ((name, row) for row in files.read_json(path)["rows"])


def _machines(results: pathlib.Path) -> str:
    machines = (files.read_json(path)["machine"] for path in results.glob("benchmark_*.json"))
    return "; ".join(sorted({f"{machine['cores']} cores, {machine['processor']}." for machine in machines}))


def _seconds_and_memory(row: dict[str, Any], form: str) -> str:
    if f"{form} s" not in row:
        return ""
    memory = f", {row[f'{form} GiB']:.1f} GiB" if f"{form} GiB" in row else ""
    return f"{row[f'{form} s']:.3g} s{memory}"


def markdown(header: Iterable[str], body: Iterable[Iterable[str]]) -> str:
    """Write a table as GitHub's Markdown."""
    header = list(header)
    lines = [header, ["---"] * len(header), *map(list, body)]
    return "\n".join(re.sub(r"(?<=\|)  (?=\|)", " ", f"| {' | '.join(line)} |") for line in lines)
