"""A job: a program of bin/ in a process of its own, with a log file and an end that can be seen.

A job dies with whoever started it (see leash.py) and locks its log file as long as it lives: its process inherits the lock
with its output. So a job never runs twice at the same time; whoever comes next waits, and finds it done or resumes it.
"""

import contextlib
import dataclasses
import fcntl
import os
import pathlib
import re
import shlex
import signal
import subprocess
import sys
import time
from collections.abc import Callable

from ncl_tf import project
from ncl_tf.runs import StoredRun

LEASH = pathlib.Path(__file__).resolve().with_name("leash.py")


@dataclasses.dataclass(frozen=True)
class Job:
    """A command to run, and how to see that it is done.

    Attributes:
        name: unique among the jobs of a plan.
        program: path below the project's home, such as bin/train.
        arguments: the program's flags.
        run_dir: the run directory that the job makes or evaluates.
        log: file that receives the program's output.
        needs: name of the job that must be done before.
        output: file that exists once the job is done; None: a training, whose record has its end.
        results: what the job is for; where all of them exist already, there is nothing to do.
    """

    name: str
    program: str
    arguments: tuple[str, ...]
    run_dir: pathlib.Path
    log: pathlib.Path
    needs: str | None = None
    output: pathlib.Path | None = None
    results: tuple[pathlib.Path, ...] = ()

    @property
    def command(self) -> str:
        """The command as one would type it into a shell."""
        return " ".join([self.program, *map(_quoted, self.arguments)])

    def done(self) -> bool:
        """Return whether there is nothing left to do."""
        made = self.output.exists() if self.output else self.record().get("status") == "finished"
        return made or (bool(self.results) and all(path.exists() for path in self.results))

    def record(self) -> dict:
        """Return the run's record; empty where there is none yet, or a damaged one, which the job will report."""
        return StoredRun(self.run_dir).record_or_nothing()


def execute(job: Job, threads: int | None = None, stopping: Callable[[], bool] = lambda: False) -> int:
    """Run a job unless it is done; return the program's exit code, 0 where the job was done already.

    Args:
        threads: number of threads of TensorFlow and numpy; None: as many as there are cores.
        stopping: polled several times a second; once it returns True the program gets SIGTERM, and its end is awaited.
    """
    job.log.parent.mkdir(parents=True, exist_ok=True)
    limits = {} if threads is None else dict.fromkeys(("TF_NUM_INTRAOP_THREADS", "OMP_NUM_THREADS"), str(threads))
    with job.log.open("a", encoding="utf-8") as log:
        while not _locked(log):
            if stopping():
                return 1
            time.sleep(0.2)
        if job.done():
            return 0
        log.write(f"$ {job.command}\n")
        log.flush()
        process = subprocess.Popen(
            [sys.executable, str(LEASH), sys.executable, str(project.HOME / job.program), *job.arguments],
            stdin=subprocess.PIPE,
            stdout=log,
            stderr=subprocess.STDOUT,
            env={**os.environ, "TQDM_MININTERVAL": "30", **limits},
            start_new_session=True,  # Ctrl-C is ours to handle
        )
        try:
            while process.poll() is None and not stopping():
                time.sleep(0.05)
            if process.poll() is None:
                with contextlib.suppress(BrokenPipeError):  # it has just ended
                    process.stdin.write(bytes([signal.SIGTERM]))
                    process.stdin.flush()
            return process.wait()
        finally:
            process.stdin.close()


def _quoted(argument: str) -> str:
    """Quote an argument for a shell, in double quotes where that will do, as gin's texts have single ones."""
    return shlex.quote(argument) if re.search(r'["$`\\!]', argument) or " " not in argument else f'"{argument}"'


def _locked(file) -> bool:
    try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True
