"""Programs that are killed at random moments and inside writes, started again, and compared with undisturbed ones.

    python tests/crashes.py --kills=200 --seed=1 --output=results/reliability_crash.json

Each program is killed again and again: by SIGKILL or SIGTERM after a random time, or by itself as it is about to call a
function of the system for the N-th time. After each kill, what has its final name must be whole; in the end, the program runs
undisturbed and must leave what an undisturbed one leaves, to the last bit, wall times aside, and nothing else.
"""

import dataclasses
import hashlib
import io
import json
import os
import pathlib
import random
import re
import shutil
import signal
import sys
import tempfile
import time
from collections.abc import Callable

import numpy as np

from exports import tables, write_export
from meds_files import write_small
from mimic3_tables import made_up_download
from ncl_tf import files
from ncl_tf.runs import environment
from processes import ROOT, finish, preloaded_python, start
from tiny import TINY, bindings

PLACES = ("replace", "rename", "fsync", "mkdir", "unlink", "rmdir")  # functions of `os`
TIMES = ("wall_seconds", "started", "continued", "code_version", "cohort", "made")  # keys of JSON that may differ
IGNORED = re.compile(r"/logs/|/1/(saved_model|fingerprint)\.pb|model_card\.md|model\.json|progress\.json")
SETTINGS = TINY | {"steps": 30, "report_every": 10, "batch_size": 64, "augmentation.layers": ("channel_dropout",)}


@dataclasses.dataclass(frozen=True)
class Scenario:
    """A program to kill.

    Attributes:
        name: of the program and what it does.
        weight: its share of the kills.
        command: its arguments, for a folder of its own that has what `prepare` put there.
        prepare: fills the folder.
    """

    name: str
    weight: int
    command: Callable[[pathlib.Path], list[str]]
    prepare: Callable[[pathlib.Path], object] = lambda folder: None


@dataclasses.dataclass
class Outcome:
    """What became of a scenario's kills."""

    program: str
    sigkill: int = 0
    sigterm: int = 0
    inside_writes: int = 0
    finished: int = 0
    problems: list[str] = dataclasses.field(default_factory=list)

    @property
    def kills(self) -> int:
        """How often it was killed."""
        return self.sigkill + self.sigterm + self.inside_writes


def contents(folder: pathlib.Path) -> dict[str, str]:
    """Digest all files of a folder by path: arrays of checkpoints, JSON without times, HTML without its date, other bytes."""
    found = {}
    for path in sorted(folder.rglob("*")):
        name = "/" + path.relative_to(folder).as_posix()
        if path.is_file() and not IGNORED.search(name):
            found[name] = hashlib.sha256(_comparable(path)).hexdigest()
        elif path.name.endswith(".partial"):
            found[name] = "a leftover"
    return found


def _comparable(path: pathlib.Path) -> bytes:
    content = path.read_bytes()
    if path.suffix == ".npz":
        with np.load(io.BytesIO(content)) as archive:
            return b"".join(name.encode() + archive[name].tobytes() for name in sorted(archive.files))
    if path.suffix == ".json":
        return json.dumps(_without_times(json.loads(content)), sort_keys=True).encode()
    if path.suffix == ".html":
        return re.sub(rb"\d+ \w+ 20\d\d, \d\d:\d\d UTC", b"", content)
    return content


def _without_times(value: object) -> object:
    if isinstance(value, dict):
        return {name: _without_times(part) for name, part in value.items() if name not in TIMES}
    return [_without_times(part) for part in value] if isinstance(value, list) else value


def run(python: str, scenario: Scenario, folder: pathlib.Path, **more: str) -> tuple[int, str]:
    """Run a scenario's program to its end; return its exit code and errors."""
    code, _, errors = finish(start([python, *scenario.command(folder)], ROOT, env=os.environ | more))
    return code, errors


def kill_once(python: str, scenario: Scenario, folder: pathlib.Path, seconds: float, rng: random.Random) -> str:
    """Run a scenario's program and kill it; return how it ended: 'sigkill', 'sigterm', 'inside_writes', 'finished' or why."""
    way = rng.choice(["sigkill", "sigterm", "inside_writes"])
    place = f"{rng.choice(PLACES)}:{rng.randint(1, 6)}" if way == "inside_writes" else ""
    process = start([python, *scenario.command(folder)], ROOT, env=os.environ | {"NCL_TEST_KILL_AT": place})
    number = signal.SIGTERM if way == "sigterm" else signal.SIGKILL
    if not place:
        deadline = time.monotonic() + rng.uniform(0, 1.1 * seconds)
        while process.poll() is None and time.monotonic() < deadline:
            time.sleep(0.001)
        process.send_signal(number)
    code, _, errors = finish(process)
    if code == 0 or "exists already" in errors:  # or it was killed after its last write
        return "finished"
    if code in (-number, 128 + number) or (place and code in (-signal.SIGKILL, 128 + signal.SIGKILL)):
        return way
    return f"{way} {place}: exit code {code}: {errors[-300:]}"


def campaign(python: str, scenario: Scenario, kills: int, folder: pathlib.Path, rng: random.Random) -> Outcome:
    """Kill a scenario's program so many times, and compare every end with the undisturbed one's."""
    outcome, whole = Outcome(scenario.name), folder / "whole" / "work"
    whole.mkdir(parents=True)
    scenario.prepare(whole)
    before, began = contents(whole), time.monotonic()
    code, errors = run(python, scenario, whole)
    seconds = time.monotonic() - began
    if code:
        outcome.problems.append(f"undisturbed: exit code {code}: {errors[-300:]}")
        return outcome
    expected = contents(whole)
    work = folder / "killed" / "work"
    while outcome.kills < kills and len(outcome.problems) < 5:
        shutil.rmtree(work, ignore_errors=True)
        work.mkdir(parents=True)
        scenario.prepare(work)
        for _ in range(rng.randint(1, 4)):
            ended = kill_once(python, scenario, work, seconds, rng)
            if not hasattr(outcome, ended):
                outcome.problems.append(ended)
                break
            setattr(outcome, ended, getattr(outcome, ended) + 1)
            outcome.problems += [f"after {ended}: {problem}" for problem in damages(work, before, expected)]
            if ended == "finished" or outcome.kills >= kills:
                break
        if ended != "finished":
            code, errors = run(python, scenario, work)
            if code and "exists already" not in errors:  # it was killed after its last write
                outcome.problems.append(f"started again: exit code {code}: {errors[-300:]}")
        files.write_text(work / "later", "")  # what writes there next removes leftovers
        (work / "later").unlink()
        found = contents(work)
        different = [name for name in expected.keys() | found.keys() if expected.get(name) != found.get(name)]
        outcome.problems += [f"differs in the end: {', '.join(sorted(different)[:5])}"] * bool(different)
    return outcome


def damages(work: pathlib.Path, before: dict[str, str], expected: dict[str, str]) -> list[str]:
    """Return what is wrong right after a kill: single files are the old or the new ones, or are not there."""
    singles = [name for name in expected if re.fullmatch(r"/[^/]+\.(h5|html|json)", name)]
    found = {
        name: hashlib.sha256(_comparable(work / name[1:])).hexdigest() for name in singles if (work / name[1:]).exists()
    }
    return [f"{name} is not whole" for name, value in found.items() if value not in (expected[name], before.get(name))]


def training(method: str, cohort: pathlib.Path, **macros: object) -> list[str]:
    """Return the arguments of a training, but for its run directory."""
    params = bindings(SETTINGS | {"cohort": str(cohort)} | macros)
    return [
        "bin/train",
        f"--gin_file=gin/paper/physionet2019/{method}.gin",
        *(f"--gin_param={text}" for text in params),
    ]


def preparations(python: str, shared: pathlib.Path) -> list[Scenario]:
    """Make what preparations read in a folder, and return them; each replaces what an earlier one left."""
    ward = shared / "ward"
    made(python, "bin/prepare", "simulate", "--stays=72", "--seed=1", f"--output={ward}")
    made(
        python, "bin/prepare", "simulate", "--stays=72", "--form=mimic3_benchmark", f"--output={shared / 'mimic_ward'}"
    )
    raw, meds = made_up_download(3, usual=1.0).write(shared / "raw"), write_small(shared / "meds")
    yaib = write_export(shared / "yaib", tables("aki"))
    rows = [f"{stay},{hour},{60 + stay + hour},{int(stay % 5 == 0)}" for stay in range(40) for hour in range(3)]
    (shared / "hourly.csv").write_text("\n".join(["stay,hour,HR,ill", *rows, ""]))
    schema = 'name = "small"\nstay = "stay"\nhour = "hour"\n[[channels]]\nname = "HR"\n[[tasks]]\nname = "ill"\n'
    (shared / "schema.toml").write_text(schema)
    sources = {
        "physionet2019": [f"--source={ward}", "--split=random", "--keep_raw"],
        "mimic3_benchmark": [f"--source={shared / 'mimic_ward'}"],
        "mimic3": [f"--raw={raw / 'raw'}", f"--benchmark={raw / 'benchmark'}"],
        "yaib": ["--task=aki", f"--source={yaib}"],
        "table": [f"--source={shared / 'hourly.csv'}", f"--schema={shared / 'schema.toml'}"],
        "meds": [f"--source={meds}", f"--labels={meds / 'task_labels'}", f"--schema={meds / 'schema.toml'}"],
    }

    def preparation(source: str, flags: list[str]) -> Scenario:
        arguments = ["bin/prepare", source, *flags, "--overwrite"]
        return Scenario(
            f"bin/prepare {source}",
            12,
            lambda folder: [*arguments, f"--output={folder / 'out.h5'}"],
            lambda folder: (folder / "out.h5").write_bytes(b"the old one"),
        )

    simulation = ["bin/prepare", "simulate", "--stays=150", "--overwrite"]
    return [
        Scenario(
            "bin/prepare simulate",
            12,
            lambda folder: [*simulation, f"--output={folder / 'out'}"],
            lambda folder: shutil.copytree(ward, folder / "out"),
        ),
        *(preparation(source, flags) for source, flags in sources.items()),
    ]


def made(python: str, *arguments: str) -> None:
    """Run a program that must succeed."""
    code, _, errors = finish(start([python, *arguments], ROOT))
    if code:
        raise RuntimeError(errors)


def scenarios(python: str, shared: pathlib.Path) -> list[Scenario]:
    """Make what the programs read in a folder, and return them all."""
    prepares = preparations(python, shared)
    ward, cohort, trained, evaluated = (shared / name for name in ("ward", "ward.h5", "trained", "evaluated"))
    made(python, "bin/prepare", "physionet2019", f"--source={ward}", "--split=random", f"--output={cohort}")
    contrastive = training("ncl_w", cohort, queue_size=512)
    auto_encoder = training("seq2seq_ae", cohort, **{"encoder.dilations": (1, 24)})
    end_to_end = [
        text
        for text in training("end_to_end", cohort, max_epochs=3)
        if not re.search("report_every|= steps|=steps|batch_size|layers", text)
    ]
    made(python, *contrastive, f"--run_dir={trained}")
    fine_tune = ["--head=linear", "--fine_tune", "--gin_param=protocol.max_epochs = 3"]
    head = ["--head=mlp", "--gin_param=protocol.max_epochs = 12"]
    shutil.copytree(trained, evaluated)
    made(python, "bin/evaluate", f"--run_dir={evaluated}", *head)

    def trains(name: str, arguments: list[str]) -> Scenario:
        return Scenario(f"bin/train {name}", 16, lambda folder: [*arguments, f"--run_dir={folder / 'run'}"])

    def evaluates(name: str, flags: list[str]) -> Scenario:
        arguments = ["bin/evaluate", *flags, "--overwrite"]
        return Scenario(
            f"bin/evaluate {name}",
            12,
            lambda folder: [*arguments, f"--run_dir={folder / 'run'}"],
            lambda folder: shutil.copytree(trained, folder / "run"),
        )

    table = ["bin/reproduce", "--table=physionet2019", "--budget=smoke", "--seeds=1", "--cpus_per_job=1"]
    table += ["--methods=cl", "--heads=mlp", f"--cohort={cohort}"]
    table += [f"--gin_param={text}" for text in bindings(TINY)]
    predict = ["bin/predict", f"--model={evaluated}/evaluations/sepsis-mlp/classifier", f"--input={ward}"]
    report = ["bin/report", f"--runs={evaluated}", "--overwrite"]
    return [
        *prepares,
        Scenario(
            "bin/export", 24, lambda folder: ["bin/export", f"--run_dir={evaluated}", f"--output={folder / 'out'}"]
        ),
        Scenario("bin/predict", 16, lambda folder: [*predict, f"--output={folder / 'out'}"]),
        Scenario("bin/report", 12, lambda folder: [*report, f"--output={folder / 'page.html'}"]),
        evaluates("head", head),
        evaluates("fine-tuning", fine_tune),
        trains("contrastive", contrastive),
        trains("auto-encoder", auto_encoder),
        trains("End-to-End", end_to_end),
        Scenario("bin/reproduce", 8, lambda folder: [*table, f"--output={folder / 'out'}"]),
    ]


def main(kills: int, seed: int, output: pathlib.Path, only: str = "") -> list[Outcome]:
    """Run the campaign and write its JSON, anew after each program; return the outcomes."""
    rng, outcomes = random.Random(seed), []
    with tempfile.TemporaryDirectory(prefix="ncl_") as name, preloaded_python() as python:
        folder = pathlib.Path(name)
        (folder / "shared").mkdir()
        make = preparations if "bin/prepare" in only else scenarios
        chosen = [scenario for scenario in make(python, folder / "shared") if re.search(only, scenario.name)]
        total = sum(scenario.weight for scenario in chosen)
        for number, scenario in enumerate(chosen):
            wanted = max(1, -(-kills * scenario.weight // total))
            outcomes.append(campaign(python, scenario, wanted, folder / str(number), rng))
            shutil.rmtree(folder / str(number), ignore_errors=True)
            print(outcomes[-1], flush=True)
            rows = [dataclasses.asdict(outcome) | {"kills": outcome.kills} for outcome in outcomes]
            facts = {"benchmark": "crash", "seed": seed, "kills": sum(row["kills"] for row in rows), "rows": rows}
            files.write_json(output, facts | environment())
    return outcomes


if __name__ == "__main__":
    import argparse

    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--kills", type=int, default=200)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--output", type=pathlib.Path, default=pathlib.Path("runs/reliability_crash.json"))
    parser.add_argument("--only", default="", help="regular expression for the names of the programs to kill")
    asked = parser.parse_args()
    sys.exit(any(outcome.problems for outcome in main(asked.kills, asked.seed, asked.output, asked.only)))
