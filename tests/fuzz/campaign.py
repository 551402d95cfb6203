"""Runs cases in processes that may crash or be stopped, and counts how they end.

python -m tests.fuzz.campaign --cases=50000 --seed=1 --processes=2 --output=results/reliability_fuzz.json
"""

import argparse
import collections
import contextlib
import dataclasses
import faulthandler
import io
import json
import os
import pathlib
import shutil
import signal
import sys
import tempfile
import time
import traceback
import warnings

import numpy as np

from fuzz.kinds import KINDS, Kind, same
from ncl_tf.errors import InputError
from ncl_tf.runs import environment

SECONDS = 20  # of processor time that a case may take
FAULTS = ("wrong", "traceback", "hang", "crash", "no place")


@dataclasses.dataclass(frozen=True)
class Ended:
    """How a case ended: 'right', 'refused' or one of FAULTS, and what shows why."""

    kind: str
    case: int
    outcome: str
    detail: str = ""


def run_case(kind: Kind, sound: pathlib.Path, folder: pathlib.Path, seed: int, case: int) -> tuple[str, str]:
    """Damage a copy of the sound files, read it, and compare what was read."""
    shutil.copytree(sound, folder)
    kind.damage(folder, np.random.default_rng([seed, case]))
    try:
        with contextlib.redirect_stderr(io.StringIO()), contextlib.redirect_stdout(io.StringIO()):
            ours = kind.ours(folder)
    except InputError as error:
        message = str(error)
        place = str(folder) in message or any(part.name in message for part in folder.rglob("*"))
        place = place or "macro" in message  # of several gin files together
        return ("refused", message) if place else ("no place", message)
    except BaseException:
        return "traceback", traceback.format_exc()
    try:
        theirs = kind.theirs(folder)
    except Exception:
        return "wrong", f"taken, but by hand: {traceback.format_exc()}"
    different = [
        key for key in {*ours, *theirs} if key not in ours or key not in theirs or not same(ours[key], theirs[key])
    ]
    if not different:
        return "right", ""
    key = different[0]
    while isinstance(ours.get(key), dict) and isinstance(theirs.get(key), dict):
        ours, theirs = ours[key], theirs[key]
        key = next(key for key in {*ours, *theirs} if not same(ours.get(key), theirs.get(key)))
    return "wrong", f"{key}: got {str(ours.get(key))[:300]}, expected {str(theirs.get(key))[:300]}"


def _child(kind: Kind, sound: pathlib.Path, scratch: pathlib.Path, seed: int, cases: range, out: int) -> None:
    """Run cases one after the other; a line before and a line after each shows the parent where it ended."""
    warnings.simplefilter("ignore")
    os.dup2(os.open(os.devnull, os.O_WRONLY), 2)  # libraries write there on their own
    faulthandler.disable()  # pytest's, which writes elsewhere
    signal.signal(signal.SIGPROF, signal.SIG_DFL)  # kills, even within a library
    with os.fdopen(out, "w") as pipe:
        for case in cases:
            print(json.dumps([case]), file=pipe, flush=True)
            signal.setitimer(signal.ITIMER_PROF, SECONDS)
            ended = run_case(kind, sound, scratch / str(case), seed, case)
            signal.setitimer(signal.ITIMER_PROF, 0)
            print(json.dumps([case, *ended]), file=pipe, flush=True)
            shutil.rmtree(scratch / str(case), ignore_errors=True)


def run_kind(kind: Kind, seed: int, cases: range) -> list[Ended]:
    """Run cases of a kind, each exactly once, in a child process that is started again where it died."""
    ended: list[Ended] = []
    with tempfile.TemporaryDirectory(prefix="fuzz") as folder:
        sound, scratch = pathlib.Path(folder, "sound"), pathlib.Path(folder, "cases")
        sound.mkdir()
        kind.make(sound)
        while cases:
            reading, writing = os.pipe()
            if (child := os.fork()) == 0:
                try:
                    os.close(reading)
                    _child(kind, sound, scratch, seed, cases, writing)
                finally:
                    os._exit(0)
            os.close(writing)
            started = cases[0]
            with os.fdopen(reading) as pipe:
                for line in pipe:
                    started, *result = json.loads(line)
                    if result:
                        ended.append(Ended(kind.name, started, *result))
            status = os.waitpid(child, 0)[1]
            if len(ended) and ended[-1].case == cases[-1]:
                break
            outcome = "hang" if os.WIFSIGNALED(status) and os.WTERMSIG(status) == signal.SIGPROF else "crash"
            ended.append(Ended(kind.name, started, outcome, f"status {status}"))
            cases = range(started + 1, cases[-1] + 1)
    return ended


def summary(ended: list[Ended], seed: int, seconds: float) -> dict:
    """Count outcomes by kind."""
    counts = {
        name: collections.Counter(one.outcome for one in ended if one.kind == name)
        for name in dict.fromkeys(one.kind for one in ended)
    }
    faults = [dataclasses.asdict(one) for one in ended if one.outcome in FAULTS]
    known = {
        key: value for key, value in environment().items() if key in ("code_version", "versions", "machine", "started")
    }
    return {
        "seed": seed,
        "cases": len(ended),
        "outcomes": dict(collections.Counter(one.outcome for one in ended)),
        "faults": len(faults),
        "by_kind": {name: dict(sorted(count.items())) for name, count in counts.items()},
        "cpu_seconds": round(sum(os.times()[:4])),
        "wall_seconds": round(seconds),
        **known,
        "first_faults": [fault | {"detail": fault["detail"][-1500:]} for fault in faults[:200]],
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--scale", type=float, default=1.0, help="of the number of cases of each kind")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--kinds", nargs="*", choices=[*KINDS], default=[*KINDS], help="default: all")
    parser.add_argument("--output", type=pathlib.Path, help="the JSON with the figures")
    asked = parser.parse_args()
    begin, ended = time.monotonic(), []
    for name in asked.kinds:
        kind = KINDS[name]
        ended += run_kind(kind, asked.seed, range(max(1, round(kind.cases * asked.scale))))
        counts = collections.Counter(one.outcome for one in ended if one.kind == name)
        print(f"{name}: {dict(counts)}, {time.monotonic() - begin:.0f} s", flush=True)
        for fault in [one for one in ended if one.kind == name and one.outcome in FAULTS][:20]:
            print(f"  case {fault.case}: {fault.outcome}: {fault.detail[-600:]}", flush=True)
    found = summary(ended, asked.seed, time.monotonic() - begin)
    if asked.output:
        asked.output.write_text(json.dumps(found, indent=2) + "\n", encoding="utf-8")
    sys.exit(bool(found["faults"]))


if __name__ == "__main__":
    main()
