"""Timing side by side, and the peak memory of a piece of work in a process of its own."""

import json
import pathlib
import statistics
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from typing import Any

Row = dict[str, Any]


def interleaved(works: dict[str, Callable[[], Any]], repeats: int, warmups: int = 1) -> dict[str, float]:
    """Median seconds of each piece of work; they take turns, so that a disturbance hits all of them."""
    seconds: dict[str, list[float]] = {name: [] for name in works}
    for turn in range(warmups + repeats):
        for name, work in works.items():
            began = time.perf_counter()
            work()
            if turn >= warmups:
                seconds[name].append(time.perf_counter() - began)
    return {name: statistics.median(values) for name, values in seconds.items()}


def peak_memory() -> float:
    """Peak resident memory of this process in GiB."""
    for line in pathlib.Path("/proc/self/status").read_text(encoding="utf-8").splitlines():
        if line.startswith("VmHWM:"):
            return int(line.split()[1]) / 2**20
    raise RuntimeError("this system does not tell a process's peak memory")


def in_own_process(module: str, function: str, *arguments: Any) -> float:
    """Peak memory in GiB of `module.function(*arguments)` in a new Python process; arguments are plain values."""
    code = (
        f"import importlib, json; from ncl_tf.benchmarks.measure import peak_memory; "
        f"importlib.import_module({module!r}).{function}(*json.loads({json.dumps(json.dumps(arguments))})); "
        "print(peak_memory())"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    if done.returncode:
        raise RuntimeError(f"{module}.{function}{arguments} failed:\n{done.stderr[-2000:]}")
    return float(done.stdout.split()[-1])


def table(rows: Sequence[Row]) -> str:
    """Rows as aligned text; numbers with three digits."""
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
