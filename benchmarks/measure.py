"""Timing side by side, in one process or in several, and a process's peak memory."""

import contextlib
import importlib
import json
import os
import pathlib
import re
import resource
import statistics
import subprocess
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

Row = dict[str, Any]

ROOT = pathlib.Path(__file__).resolve().parents[1]


def worker_environment() -> dict[str, str]:
    """Return an environment in which a Python process of any working folder can import `benchmarks` and `ncl_tf`."""
    paths = [str(ROOT), *filter(None, [os.environ.get("PYTHONPATH")])]
    return os.environ | {"PYTHONPATH": os.pathsep.join(paths)}


def interleaved(
    works: dict[str, Callable[[], Any]], repeats: int, clock: Callable[[], float] = time.perf_counter
) -> dict[str, float]:
    """Return the median seconds of each piece of work; they take turns, so that a disturbance hits all, and warm up first.

    clock: `time.process_time` for CPU time, of all threads together.
    """
    seconds: dict[str, list[float]] = {name: [] for name in works}
    for turn in range(1 + repeats):
        for name, work in works.items():
            began = clock()
            work()
            if turn:
                seconds[name].append(clock() - began)
    return {name: statistics.median(values) for name, values in seconds.items()}


def peak_memory() -> float:
    """Return the peak resident memory of this process in GiB."""
    status = pathlib.Path("/proc/self/status")
    if not status.exists():  # macOS, which reports bytes
        return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**30
    return int(re.search(r"^VmHWM:\s+(\d+) kB$", status.read_text(encoding="utf-8"), re.MULTILINE)[1]) / 2**20


def cpu_of_children() -> float:
    """Return the seconds of CPU time of all processes that this one has started and waited for, a clock for `interleaved`."""
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


class Measured(NamedTuple):
    """Median seconds of a piece of work, and the peak memory in GiB of the process that did it."""

    seconds: float
    memory: float


def in_own_processes(maker: str, works: Mapping[str, Sequence[Any]], repeats: int) -> dict[str, Measured]:
    """Measure pieces of work that take turns, each in a process of its own, so that none affects the others.

    A turn is two executions, of which the second is timed: a process that has waited starts cold.

    Args:
        maker: 'package.module.function', which makes the work, a callable without arguments.
        works: by name, the arguments of the maker, plain values.
        repeats: turns of each.
    """
    with contextlib.ExitStack() as stack:
        workers = {name: stack.enter_context(_Worker(maker, arguments)) for name, arguments in works.items()}
        seconds: dict[str, list[float]] = {name: [] for name in works}
        for _ in range(repeats):
            for name, worker in workers.items():
                seconds[name].append(worker.ask("seconds"))
        return {
            name: Measured(statistics.median(seconds[name]), worker.ask("memory")) for name, worker in workers.items()
        }


class _Worker:
    """A process that makes a piece of work, does it once, and waits to be asked."""

    def __init__(self, maker: str, arguments: Sequence[Any]) -> None:
        self._process = subprocess.Popen(
            [sys.executable, "-m", __name__, maker, json.dumps(arguments)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            env=worker_environment(),
        )
        self._what = f"{maker}{tuple(arguments)}"
        self._answer()  # before the next one starts

    def __enter__(self) -> "_Worker":
        return self

    def __exit__(self, *_: object) -> None:
        self._process.kill()
        self._process.communicate()

    def ask(self, what: str) -> float:
        """Return the 'seconds' of one more turn, or the peak 'memory' so far."""
        with contextlib.suppress(BrokenPipeError):  # the missing answer reports it
            print(what, file=self._process.stdin, flush=True)
        return self._answer()

    def _answer(self) -> float:
        if line := self._process.stdout.readline():
            return float(line)
        raise RuntimeError(f"{self._what} ended with exit code {self._process.wait()}; its output above may show why")


def _serve(maker: str, arguments: str) -> None:
    """Run a worker: print a number when it is ready, and one for each line that it reads."""
    import ncl_tf.quiet  # noqa: F401

    module, function = maker.rsplit(".", 1)
    work = getattr(importlib.import_module(module), function)(*json.loads(arguments))
    work()
    print(0.0, flush=True)
    for line in sys.stdin:
        print(interleaved({"": work}, repeats=1)[""] if line.strip() == "seconds" else peak_memory(), flush=True)


def table(rows: Sequence[Row]) -> str:
    """Format rows as aligned text, with three digits of each number."""
    columns = list(dict.fromkeys(name for row in rows for name in row))
    cells = [columns] + [[_text(row.get(name, "")) for name in columns] for row in rows]
    widths = [max(len(line[i]) for line in cells) for i in range(len(columns))]
    return "\n".join(
        "  ".join(cell.ljust(width) for cell, width in zip(line, widths, strict=True)).rstrip() for line in cells
    )


def _text(value: Any) -> str:
    if isinstance(value, float):
        return f"{value:,.0f}" if abs(value) >= 1000 else f"{value:.3g}"
    return f"{value:,}" if isinstance(value, int) else str(value)


if __name__ == "__main__":
    _serve(*sys.argv[1:])
