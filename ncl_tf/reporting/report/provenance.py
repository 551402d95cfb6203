"""Where every number comes from: configuration, versions, checksums, commands and wall times, for each row of the tables."""

import pathlib
import re
import shlex
from collections.abc import Iterator, Sequence
from typing import Any

from ncl_tf.paper import settings
from ncl_tf.paper.progress import duration
from ncl_tf.reporting.report.sources import Source, Training
from ncl_tf.reporting.report.tables import escape, header, number, question, table

OWN = ("cohort", "seed")  # bindings that the seeds of a group don't share, or that name places of this machine


def anchor(source: Source, group: str) -> str:
    """Of a group of trainings, on the page."""
    return "made-" + re.sub(r"[^\w.-]", "_", f"{source.name}-{group}" if source.plan else source.name)


def section(sources: Sequence[Source]) -> str:
    """A folded block for each group of trainings that differ in the seed alone."""
    parts = []
    for source in filter(lambda source: source.plan, sources):
        groups: dict[str, list[Training]] = {}
        for training in source.trainings:
            groups.setdefault(training.group, []).append(training)
        parts.append(f"<h3>{escape(source.name)}</h3>{_reproduce(source.plan)}")
        parts += [_group(anchor(source, group), group, trainings) for group, trainings in groups.items()]
    single = [source for source in sources if not source.plan]
    parts += ["<h3>Single runs</h3>"] * bool(single)
    parts += [_group(anchor(source, source.name), source.name, source.trainings) for source in single]
    return "".join(parts)


def _reproduce(plan: dict[str, Any]) -> str:
    """The commands that made a folder of bin/reproduce; of files outside the project, the names alone."""
    commands = []
    for name, what in plan["tables"].items():
        flags = {"table": name, "cohort": "COHORT.h5", "budget": plan["budget"]}
        flags |= {kind: ",".join(map(str, what[kind])) for kind in ("seeds", "methods", "heads")}
        files = (path.name if path.is_absolute() else path for path in map(pathlib.Path, plan["gin_files"]))
        more = [f"--gin_file={file}" for file in files]
        more += [f"--gin_param={param}" for param in plan["gin_params"]]
        commands.append(shlex.join(["bin/reproduce", *(f"--{flag}={value}" for flag, value in flags.items()), *more]))
    return _code(commands)


def _group(identifier: str, group: str, trainings: Sequence[Training]) -> str:
    first = trainings[0]
    config = [f"{name} = {value}" for name, value in first.config.items() if name not in OWN]
    seeds = "" if len(trainings) == 1 else f", {len(trainings)} seeds"
    seconds = duration(sum(training.record["wall_seconds"] for training in trainings))
    return (
        f'<details id="{escape(identifier)}"><summary><span>{escape(group)}</span>'
        f"<small>{escape(first.record['dataset'])}, budget {escape(first.record['budget'])}{seeds}, trained in {seconds}</small>"
        f"</summary>{_trainings(group, trainings)}{_judged(group, trainings)}"
        f"<h4>Commands</h4>{_code(_commands(first))}<h4>Versions</h4>{_versions(trainings)}"
        f"<h4>Configuration</h4>{_code(config, 'config')}</details>"
    )


def _trainings(group: str, trainings: Sequence[Training]) -> str:
    rows = []
    for training in trainings:
        record, checksum = training.record, escape(str(training.record["cohort_checksum"]))
        stopped = "yes" if record.get("stopped_by_budget") else "no"
        versions = [part["code_version"] for part in (record, *record.get("continued", []))]
        cells = [
            f"{record['step']:,}",
            duration(record["wall_seconds"]),
            stopped,
            record["started"],
            ", then ".join(dict.fromkeys(versions)),
        ]
        cells.append(f"{record['machine']['cores']} cores, {record['machine']['processor']}")
        rows.append(
            _row(
                record["seed"],
                cells,
                f'<td><code title="{checksum}">{checksum}</code></td>',
            )
        )
    head = header(
        ["seed", "steps", "wall time", "stopped by budget", "started", "code", "machine", "SHA-256 of the cohort"]
    )
    return table("Trainings", head, ["".join(rows)], f"Trainings of {group}")


def _judged(group: str, trainings: Sequence[Training]) -> str:
    """Every metric of every evaluation: the tables above show some."""
    rows = []
    for training in trainings:
        for result in training.evaluations:
            cells = [question(result), str(result["best_epoch"]), duration(result["wall_seconds"])]
            protocol = "; ".join(f"{name} {value}" for name, value in settings.by_binding(result["protocol"]).items())
            words = ("; ".join(_metrics(result)), protocol)
            more = "".join(f'<td class="text">{escape(word)}</td>' for word in words)
            rows.append(_row(training.record["seed"], cells, more))
    if not rows:
        return "<p>Not judged yet.</p>"
    head = header(
        ["seed", "judged by", "best epoch", "wall time", "all metrics, x 100, with 95 % intervals", "protocol"]
    )
    return table("Evaluations", head, ["".join(rows)], f"Evaluations of {group}")


def _metrics(result: dict[str, Any]) -> Iterator[str]:
    for name, value in result["metrics"].items():
        low, high = result["intervals"].get(name, (None, None))
        between = "" if low is None else f" [{number(100 * low)}, {number(100 * high)}]"
        yield f"{name} {number(100 * value)}{between}"


def _commands(training: Training) -> list[str]:
    """How to make it again, from the configuration that lies in the run directory."""
    run = training.name
    commands = [
        f"bin/train --gin_file={shlex.quote(run)}/config.gin --gin_param=\"cohort = 'COHORT.h5'\" --run_dir=AGAIN"
    ]
    for result in training.evaluations:
        asked = result["question"]
        flags = {name: asked[name] for name in ("task", "head")}
        flags |= {"features": asked["features"]} if asked["features"] != "representation" else {}
        flags |= {name: asked[name] for name in ("labels", "label_seed")} if asked["labels"] != 1 else {}
        flags |= {"split": asked["split"]} if asked["split"] != "test" else {}
        words = [f"--{name}={value}" for name, value in flags.items()] + ["--fine_tune"] * asked["fine_tune"]
        words += [f"--gin_param={name} = {value}" for name, value in settings.judged_otherwise(result).items()]
        commands.append(shlex.join(["bin/evaluate", "--run_dir=AGAIN", *words]))
    return commands


def _versions(trainings: Sequence[Training]) -> str:
    versions = {
        ", ".join(f"{name} {version}" for name, version in training.record["versions"].items())
        for training in trainings
    }
    return "".join(f"<p>{escape(text)}</p>" for text in sorted(versions))


def _row(title: Any, cells: Sequence[str], more: str = "") -> str:
    texts = "".join(f"<td>{escape(cell)}</td>" for cell in cells)
    return f'<tr><th scope="row">{escape(str(title))}</th>{texts}{more}</tr>'


def _code(lines: Sequence[str], kind: str = "commands") -> str:
    return f'<pre class="{kind}"><code>{escape(chr(10).join(lines))}</code></pre>'
