"""Runs jobs in their order; on this machine, or elsewhere (see ray_executor.py)."""

import concurrent.futures
import os
import queue
import threading
import time
from collections.abc import Callable, Sequence

from ncl_tf.errors import InputError
from ncl_tf.paper.jobs import Job, execute
from ncl_tf.paper.ray_executor import Ray

SECONDS_TO_SEE = 60


def local_slots(cpus_per_job: int | None) -> int:
    """Return how many jobs this machine runs at the same time."""
    cores = len(_cores())
    if cpus_per_job is not None and not 1 <= cpus_per_job <= cores:
        raise InputError(f"--cpus_per_job must be 1 to {cores}, the cores of this machine, got {cpus_per_job}")
    return cores // (cpus_per_job or cores)


def _cores() -> list[int]:
    """Return the cores that this process may use."""
    return sorted(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else list(range(os.cpu_count()))


class Local:
    """This machine, which runs as many jobs at once as there are cores for; by default each gets all of them.

    Several jobs at once have cores of their own, where the system can do that: two trainings that share two cores take up to
    twice as long.

    Attributes:
        slots: how many jobs it should be given at the same time; None, of `Ray`: all that are ready.
        parallel: how many run at the same time, as far as is known.
    """

    def __init__(self, cpus_per_job: int | None = None) -> None:
        self.slots = self.parallel = local_slots(cpus_per_job)
        self._threads = cpus_per_job
        self._stop = threading.Event()
        self._shares: queue.SimpleQueue[list[int]] = queue.SimpleQueue()
        cores = _cores()
        for slot in range(self.slots):
            self._shares.put(cores[slot :: self.slots])
        self._pool = concurrent.futures.ThreadPoolExecutor(self.slots, initializer=self._take_cores)

    def _take_cores(self) -> None:
        """Tie a thread of the pool, and with it the processes that it starts, to its share of the cores."""
        if hasattr(os, "sched_setaffinity"):
            os.sched_setaffinity(0, self._shares.get())

    def submit(self, job: Job) -> concurrent.futures.Future:
        """Start a job; the future holds its exit code."""
        return self._pool.submit(execute, job, self._threads, self._stop.is_set)

    def close(self) -> None:
        """Stop what is still running."""
        self._stop.set()
        self._pool.shutdown(cancel_futures=True)


def run_all(
    jobs: Sequence[Job], executor: "Local | Ray", report: Callable[[dict[str, str], list[Job]], None]
) -> dict[str, str]:
    """Run jobs in their order, each as soon as the one before it that it needs is done.

    Returns the outcome of each job by name: '' where it is done, else what went wrong. Whenever something changed and every few
    seconds, `report` is called with the outcomes and the running jobs.
    """
    outcomes: dict[str, str] = {job.name: "" for job in jobs if job.done()}
    waiting = [job for job in jobs if job.name not in outcomes]
    running: dict[concurrent.futures.Future, Job] = {}
    while waiting or running:
        for job in [job for job in waiting if job.needs is None or job.needs in outcomes]:
            if job.needs and outcomes[job.needs]:
                outcomes[job.name] = f"not run: it needs {job.needs}"
            elif executor.slots is None or len(running) < executor.slots:
                running[executor.submit(job)] = job
            else:
                break
            waiting.remove(job)
        report(outcomes, list(running.values()))
        finished, _ = concurrent.futures.wait(running, 2, concurrent.futures.FIRST_COMPLETED)
        for future in finished:
            job = running.pop(future)
            outcomes[job.name] = _outcome(job, future)
    report(outcomes, [])
    return outcomes


def _seen(job: Job) -> bool:
    """Return whether what a job made is there; a shared folder may show the files of another machine up to a minute late."""
    deadline = time.monotonic() + SECONDS_TO_SEE
    while not (done := job.done()) and time.monotonic() < deadline:
        time.sleep(1)
    return done


def _outcome(job: Job, future: concurrent.futures.Future) -> str:
    """Return what went wrong with a job that has ended, '' where nothing did."""
    if error := future.exception():
        return f"{type(error).__name__}: {str(error).splitlines()[0]}; log: {job.log}"
    code = future.result()
    if code == 0 and _seen(job):
        return ""
    why = f"killed by signal {code - 128}" if code > 128 else f"exit code {code}"
    lines = job.log.read_text(encoding="utf-8", errors="replace").split("\n")
    last = next((line.strip() for line in reversed(lines) if line.strip()), "")
    return f"{why}; log: {job.log}; its last line: {last}"
