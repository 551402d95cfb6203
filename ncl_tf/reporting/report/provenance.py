"""Where every number comes from: configuration, versions, checksums, commands and wall times, for each row of the tables."""

import pathlib
import re
import shlex
from collections.abc import Iterator, Sequence
from typing import Any

from ncl_tf.evaluation.settings import EvaluationSettings
from ncl_tf.paper import settings
from ncl_tf.paper.progress import duration
from ncl_tf.reporting.report.tables import escape, header, number, settings_in_words, table
from ncl_tf.reporting.sources import Source, grouped, without_seed
from ncl_tf.runs import StoredRun

OWN = ("cohort", "seed")  # bindings that differ between the seeds of a group, or that name places of this machine


def anchor(source: Source, group: str) -> str:
    """The page's identifier of a group of runs that differ in the seed alone."""
    return "made-" + re.sub(r"[^\w.-]", "_", f"{source.name}-{group}" if source.output else source.name)


def provenance_section(sources: Sequence[Source]) -> str:
    """Build a folded block for each group of runs that differ in the seed alone."""
    parts = []
    for source in filter(lambda source: source.output, sources):
        groups = grouped(source.finished, lambda run: without_seed(run.name))
        parts.append(f"<h3>{escape(source.name)}</h3>{_reproduce(source.output.plan)}")
        parts += [_group(anchor(source, group), group, runs) for group, runs in groups.items()]
    single = [source for source in sources if not source.output]
    parts += ["<h3>Single runs</h3>"] * bool(single)
    parts += [_group(anchor(source, source.name), source.name, source.runs) for source in single]
    return "".join(parts)


def _reproduce(plan: dict[str, Any]) -> str:
    """Show the commands that made a folder of bin/reproduce; of files outside the project, the names alone."""
    commands = []
    for name, what in plan["tables"].items():
        flags = {"table": name, "cohort": "COHORT.h5", "budget": plan["budget"]}
        flags |= {kind: ",".join(map(str, what[kind])) for kind in ("seeds", "methods", "heads")}
        files = (path.name if path.is_absolute() else path for path in map(pathlib.Path, plan["gin_files"]))
        more = [f"--gin_file={file}" for file in files]
        more += [f"--gin_param={param}" for param in plan["gin_params"]]
        commands.append(shlex.join(["bin/reproduce", *(f"--{flag}={value}" for flag, value in flags.items()), *more]))
    return _code(commands)


def _group(identifier: str, group: str, runs: Sequence[StoredRun]) -> str:
    first = runs[0]
    config = [f"{name} = {value}" for name, value in first.config.items() if name not in OWN]
    seeds = "" if len(runs) == 1 else f", {len(runs)} seeds"
    seconds = duration(sum(run.record["wall_seconds"] for run in runs))
    used = {", ".join(f"{name} {version}" for name, version in run.record["versions"].items()) for run in runs}
    versions = "".join(f"<p>{escape(text)}</p>" for text in sorted(used))
    return (
        f'<details id="{escape(identifier)}"><summary><span>{escape(group)}</span>'
        f"<small>{escape(first.record['dataset'])}, budget {escape(first.record['budget'])}{seeds}, trained in {seconds}</small>"
        f"</summary>{_trainings(group, runs)}{_evaluations(group, runs)}"
        f"<h4>Commands</h4>{_code(_commands(first))}<h4>Versions</h4>{versions}"
        f"<h4>Configuration</h4>{_code(config, 'config')}</details>"
    )


def _trainings(group: str, runs: Sequence[StoredRun]) -> str:
    rows = []
    for run in runs:
        record, checksum = run.record, escape(str(run.record["cohort_checksum"]))
        stopped = "yes" if record.get("stopped_by_budget") else "no"
        versions = [part["code_version"] for part in (record, *record.get("continued", []))]
        cells = [f"{record['step']:,}", duration(record["wall_seconds"]), stopped, record["started"]]
        cells += [", then ".join(dict.fromkeys(versions))]
        cells += [f"{record['machine']['cores']} cores, {record['machine']['processor']}"]
        rows.append(_row(record["seed"], cells, f'<td><code title="{checksum}">{checksum}</code></td>'))
    names = ["seed", "steps", "wall time", "stopped by budget", "started", "code", "machine", "SHA-256 of the cohort"]
    return table("Trainings", header(names), ["".join(rows)], f"Trainings of {group}")


def _evaluations(group: str, runs: Sequence[StoredRun]) -> str:
    """Show every metric of every evaluation; the tables above show some."""
    rows = []
    for run in runs:
        for result in run.evaluations:
            cells = [settings_in_words(result), str(result["best_epoch"]), duration(result["wall_seconds"])]
            protocol = "; ".join(f"{name} {value}" for name, value in settings.by_binding(result["protocol"]).items())
            words = ("; ".join(_metrics(result)), protocol)
            more = "".join(f'<td class="text">{escape(word)}</td>' for word in words)
            rows.append(_row(run.record["seed"], cells, more))
    if not rows:
        return "<p>Not evaluated yet.</p>"
    names = ["seed", "evaluated by", "best epoch", "wall time", "all metrics, x 100, with 95 % intervals", "protocol"]
    return table("Evaluations", header(names), ["".join(rows)], f"Evaluations of {group}")


def _metrics(result: dict[str, Any]) -> Iterator[str]:
    for name, value in result["metrics"].items():
        low, high = result["intervals"].get(name, (None, None))
        between = "" if low is None else f" [{number(100 * low)}, {number(100 * high)}]"
        yield f"{name} {number(100 * value)}{between}"


def _commands(run: StoredRun) -> list[str]:
    """Show how to make a run again, from the configuration that lies in its directory."""
    name = shlex.quote(run.name)
    commands = [f"bin/train --gin_file={name}/config.gin --gin_param=\"cohort = 'COHORT.h5'\" --run_dir=AGAIN"]
    for result in run.evaluations:
        asked = result["settings"]
        flags = {name: asked[name] for name in ("task", "head")}
        flags |= {"features": asked["features"]} if asked["features"] != "representation" else {}
        flags |= {name: asked[name] for name in ("labels", "label_seed")} if asked["labels"] != 1 else {}
        external = asked.get("external")
        flags |= {"external": f"{external}.h5"} if external else {}
        flags |= {"split": asked["split"]} if asked["split"] != ("all" if external else "test") else {}
        usual = EvaluationSettings().of_alarms
        flags |= {name: asked[name] for name in usual if asked.get(name, usual[name]) != usual[name]}
        words = [f"--{name}={value}" for name, value in flags.items()] + ["--fine_tune"] * asked["fine_tune"]
        words += [f"--gin_param={name} = {value}" for name, value in settings.protocol_overrides(result).items()]
        commands.append(shlex.join(["bin/evaluate", "--run_dir=AGAIN", *words]))
    return commands


def _row(title: Any, cells: Sequence[str], more: str = "") -> str:
    texts = "".join(f"<td>{escape(cell)}</td>" for cell in cells)
    return f'<tr><th scope="row">{escape(str(title))}</th>{texts}{more}</tr>'


def _code(lines: Sequence[str], kind: str = "commands") -> str:
    return f'<pre class="{kind}"><code>{escape(chr(10).join(lines))}</code></pre>'
