"""What programs cost that do nothing yet: showing help, refusing what is missing, and printing what is left to do."""

import os
import pathlib
import subprocess
import sys
import tempfile
from collections.abc import Callable, Sequence

from benchmarks.heads import simulated
from benchmarks.measure import ROOT, Row, cpu_of_children, interleaved

REPEATS = 3
REFUSED = (
    "train --gin_file=nowhere.gin",
    "evaluate --run_dir=nowhere",
    "export --run_dir=nowhere --output=nowhere",
    "predict --model=nowhere --input=nowhere --output=nowhere",
    "report --runs=nowhere --output=nowhere.html",
    "figures --figure=tsne --runs=nowhere --output=nowhere",
    "cohort describe nowhere.h5",
    "prepare physionet2019 --source=nowhere --output=nowhere.h5",
    "reproduce --table=physionet2019 --cohort=nowhere.h5",
    "train --gin_fil=x",
)


def start(cohort: str | None) -> list[Row]:
    """Measure the CPU time of starting each program, and that of `bin/reproduce --only_print` on a cohort."""
    programs = sorted(path.name for path in (ROOT / "bin").iterdir() if path.is_file() and not path.suffix)
    with tempfile.TemporaryDirectory() as folder:
        path = cohort or simulated(pathlib.Path(folder)).path
        flags = ["--table=physionet2019", f"--cohort={path}", f"--output={folder}/out", "--only_print"]
        works = {f"bin/{program} --help": _run(0, program, "--help") for program in programs}
        works |= {f"bin/{command}": _run(1, *command.split()) for command in REFUSED}
        works |= {"bin/reproduce --table=physionet2019 --only_print": _run(0, "reproduce", *flags)}
        seconds = interleaved(works, REPEATS, clock=cpu_of_children)
    return [{"start": name, "CPU seconds": seconds[name]} for name in works]


def _run(code: int, program: str, *arguments: str) -> Callable[[], None]:
    """Make a function that runs a program, which has to end with this exit code."""

    environment = {name: value for name, value in os.environ.items() if name != "GLIBC_TUNABLES"}  # as users start it

    def run() -> None:
        command: Sequence[str] = [sys.executable, str(ROOT / "bin" / program), *arguments]
        done = subprocess.run(command, capture_output=True, text=True, env=environment, check=False)
        if done.returncode != code:
            raise RuntimeError(f"{' '.join(command)}: must end with {code}, got {done.returncode}: {done.stderr}")

    return run
