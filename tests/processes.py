"""Programs that tests start, watch, kill and wait for, as users do."""

import contextlib
import os
import pathlib
import re
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator

ROOT = pathlib.Path(__file__).resolve().parent.parent


def flags_of(command: str) -> set[str]:
    """Find the flags of a program in its source: flags_of("bin/train"), flags_of("bin/prepare table")."""
    program, *source = command.split()
    paths = [program, *(f"data_prep/{name}.py" for name in source if program == "bin/prepare")]
    text = "".join((ROOT / path).read_text(encoding="utf-8") for path in paths)
    shared = re.findall(r"^from data_prep import (.*)", text, re.MULTILINE)
    text += "".join(
        (ROOT / f"data_prep/{name}.py").read_text(encoding="utf-8") for name in ", ".join(shared).split(", ") if name
    )
    return set(re.findall(r'DEFINE_\w+\(\s*"(\w+)"', text))


def start(arguments: list[str], folder: pathlib.Path = ROOT, **settings) -> subprocess.Popen:
    """Start a command in a process group of its own, with its output in pipes."""
    pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, "text": True}
    return subprocess.Popen(arguments, cwd=folder, start_new_session=True, **pipes, **settings)


def finish(process: subprocess.Popen) -> tuple[int, str, str]:
    """Wait for a process and return its exit code, output and errors."""
    out, err = process.communicate(timeout=900)
    return process.returncode, out, err


def wait_for(condition: Callable[[], object], process: subprocess.Popen) -> None:
    """Wait until the condition holds, which must be while the process runs."""
    while not condition():
        assert process.poll() is None, process.stderr.read()
        time.sleep(0.002)


@contextlib.contextmanager
def preloaded_python() -> Iterator[str]:
    """Yield a Python for start([python, "bin/train", ...]): programs of bin/ find TensorFlow imported (see preloaded.py)."""
    with tempfile.TemporaryDirectory(prefix="ncl_") as folder:  # pytest's folders are too long for the name of a socket
        listener, python = pathlib.Path(folder, "listener"), pathlib.Path(folder, "python")
        script = ROOT / "tests" / "preloaded.py"
        python.write_text(f'#!/bin/sh\nexec "{sys.executable}" -SE "{script}" run {listener} "$0" "$@"\n')
        python.chmod(0o755)
        environment = os.environ | {"PYTHONPATH": str(ROOT)}
        server = start([sys.executable, script, "serve", listener], env=environment, stdin=subprocess.PIPE)
        wait_for(listener.exists, server)
        yield str(python)
        server.communicate()
