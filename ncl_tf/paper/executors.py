"""Runs jobs, each a program of bin/ in a process of its own: on this machine, or on a Ray cluster.

A job dies with whoever started it (see leash.py) and locks its log file as long as it lives: its process inherits the lock
with its output. So it never runs twice at the same time; whoever comes next waits, and finds it done or continues it.
"""

import concurrent.futures
import dataclasses
import fcntl
import json
import math
import os
import pathlib
import queue
import re
import shlex
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Sequence
from typing import Protocol

from ncl_tf.errors import InputError

ROOT = pathlib.Path(__file__).resolve().parent.parent.parent
LEASH = pathlib.Path(__file__).resolve().with_name("leash.py")
SECONDS_TO_CONNECT = 5
SECONDS_TO_SEE = 60
HTTP2_SETTINGS = b"\x04"  # type of the frame with which gRPC, and so Ray, begins a conversation
HTTP2_GREETING = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n" + b"\0\0\0" + HTTP2_SETTINGS + b"\0\0\0\0\0"
RAY_RETRIES = 3  # of a job whose worker died


@dataclasses.dataclass(frozen=True)
class Job:
    """A command.

    Attributes:
        name: unique.
        program: below the project's folder.
        arguments: its flags.
        run_dir: the run that it makes or judges.
        log: file for what it prints.
        needs: name of the job that must be done before.
        output: what exists when it is done; None: a training, which tells in its run.json.
        results: what it is for; where all of them are known already, there is nothing to do.
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
        """As one would type it."""
        return " ".join([self.program, *map(_quoted, self.arguments)])

    def done(self) -> bool:
        """Whether there is nothing left to do."""
        made = self.output.exists() if self.output else self.record().get("status") == "finished"
        return made or (bool(self.results) and all(path.exists() for path in self.results))

    def record(self) -> dict:
        """The run's run.json; empty if there is none yet, or a damaged one, of which the job will tell."""
        path = self.run_dir / "run.json"
        try:
            record = json.loads(path.read_text(encoding="utf-8"))
        except (OSError, ValueError):
            return {}
        return record if isinstance(record, dict) else {}


def execute(job: Job, threads: int | None = None, stopping: Callable[[], bool] = lambda: False) -> int:
    """Runs a job unless it is done; returns the exit code.

    Args:
        job: the job.
        threads: for TensorFlow and numpy; None: as many as there are cores.
        stopping: asked now and then; when it says so, the program is stopped.
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
            [sys.executable, str(LEASH), sys.executable, str(ROOT / job.program), *job.arguments],
            stdin=subprocess.PIPE,
            stdout=log,
            stderr=subprocess.STDOUT,
            env={**os.environ, "TQDM_MININTERVAL": "30", **limits},
            start_new_session=True,  # Ctrl-C is ours to handle
        )
        try:
            while process.poll() is None and not stopping():
                time.sleep(0.05)
        finally:
            process.stdin.close()
        return process.wait()


def _quoted(argument: str) -> str:
    """An argument for a shell; in double quotes where that will do, as gin's texts have single ones."""
    return shlex.quote(argument) if re.search(r'["$`\\!]', argument) or " " not in argument else f'"{argument}"'


def _locked(file) -> bool:
    try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True


class Executor(Protocol):
    """Where jobs run.

    Attributes:
        slots: how many it should be given at the same time; None: all that are ready.
        parallel: how many run at the same time, as far as is known.
    """

    slots: int | None
    parallel: int

    def submit(self, job: Job) -> concurrent.futures.Future: ...

    def close(self) -> None: ...


def local_slots(cpus_per_job: int | None) -> int:
    """How many jobs this machine runs at the same time."""
    cores = len(_cores())
    if cpus_per_job is not None and not 1 <= cpus_per_job <= cores:
        raise InputError(f"--cpus_per_job is {cpus_per_job}; allowed: 1 to {cores}, the cores of this machine")
    return cores // (cpus_per_job or cores)


def _cores() -> list[int]:
    """The cores that this process may use."""
    return sorted(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else list(range(os.cpu_count()))


class Local:
    """This machine: as many jobs at once as there are cores for; by default each gets all of them.

    Several jobs at once have cores of their own, where the system can do that: two trainings that share two cores take up to
    twice as long.
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
        """Ties a thread of the pool, and with it the processes that it starts, to its share of the cores."""
        if hasattr(os, "sched_setaffinity"):
            os.sched_setaffinity(0, self._shares.get())

    def submit(self, job: Job) -> concurrent.futures.Future:
        """Starts a job; the future holds its exit code."""
        return self._pool.submit(execute, job, self._threads, self._stop.is_set)

    def close(self) -> None:
        """Stops what is still running."""
        self._stop.set()
        self._pool.shutdown(cancel_futures=True)


class Ray:
    """A Ray cluster whose machines see the project and the output folder under the same paths as this one."""

    slots = None

    def __init__(self, address: str, cpus_per_job: int | None = None, gpus_per_job: float = 0) -> None:
        try:
            import ray
        except ImportError as error:
            raise InputError(
                "--executor=ray needs Ray, which `make` installs; in another environment: pip install -e '.[cluster]'"
            ) from error
        if gpus_per_job < 0 or (cpus_per_job is not None and cpus_per_job < 1):
            raise InputError(
                f"--cpus_per_job is {cpus_per_job} and --gpus_per_job {gpus_per_job}; allowed: 1 or more, and 0 or more"
            )
        if address == "auto":
            from ray._private.services import get_ray_address_from_environment

            try:
                address = get_ray_address_from_environment("auto", None)
            except ConnectionError as error:
                raise InputError("--ray_address=auto: no Ray runs here; `ray start --head` starts one") from error
        check_reachable(address)
        self._ray, self._threads = ray, cpus_per_job or 2
        try:
            ray.init(address=address, log_to_driver=False, logging_level="ERROR")
        except (ConnectionError, RuntimeError, ValueError) as error:
            raise InputError(
                f"--ray_address={address}: {str(error).splitlines()[0]}; `ray status` on its machine tells the address"
            ) from error
        self.parallel = self._fitting(gpus_per_job)
        ray.cloudpickle.register_pickle_by_value(sys.modules[__name__])  # workers need not find this module
        self._execute = ray.remote(num_cpus=self._threads, num_gpus=gpus_per_job, max_retries=RAY_RETRIES)(execute)

    def _fitting(self, gpus: float) -> int:
        """How many jobs fit into the cluster; refuses requests that no machine could ever meet: Ray would wait in silence."""
        machines = [node["Resources"] for node in self._ray.nodes() if node["Alive"]]
        counts = [
            min(have.get("CPU", 0) // self._threads, have.get("GPU", 0) // gpus if gpus else math.inf)
            for have in machines
        ]
        if not any(counts):
            have = ", ".join(f"{have.get('CPU', 0):g} CPUs and {have.get('GPU', 0):g} GPUs" for have in machines)
            raise InputError(
                f"--cpus_per_job is {self._threads} and --gpus_per_job {gpus:g}; no machine has as many: {have}"
            )
        return int(sum(counts))

    def submit(self, job: Job) -> concurrent.futures.Future:
        """Queues a job; the future holds its exit code. After a worker's death Ray starts it again, and it goes on."""
        return self._execute.remote(job, self._threads).future()

    def close(self) -> None:
        """Leaves the cluster; what is still running is stopped."""
        self._ray.shutdown()


def check_reachable(address: str) -> None:
    """Refuses, within seconds, an address where no Ray listens; Ray itself would try for minutes."""
    host, _, port = address.removeprefix("ray://").rpartition(":")
    if not host or not port.isdigit():
        raise InputError(f"--ray_address is {address!r}; allowed: HOST:PORT, ray://HOST:PORT or auto")
    try:
        with socket.create_connection((host, int(port)), SECONDS_TO_CONNECT) as connection:
            connection.sendall(HTTP2_GREETING)
            answer = connection.recv(9)
    except (OSError, OverflowError) as error:
        raise InputError(f"--ray_address={address}: nobody answers there ({error}); is the cluster up?") from error
    if answer[3:4] != HTTP2_SETTINGS and not os.environ.get("RAY_USE_TLS"):
        raise InputError(f"--ray_address={address}: what answers there is not Ray; `ray status` tells the address")


def run_all(
    jobs: Sequence[Job], executor: Executor, report: Callable[[dict[str, str], list[Job]], None]
) -> dict[str, str]:
    """Runs jobs in their order, as soon as what they need is done.

    Args:
        jobs: those that need one another in the right order.
        executor: where.
        report: called whenever something changed and every few seconds, with the outcomes and the jobs under way.

    Returns:
        outcome of each job by name: '' where it is done, else what went wrong.
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
    """Whether what a job made is there; a shared folder may show the files of another machine up to a minute late."""
    deadline = time.monotonic() + SECONDS_TO_SEE
    while not (done := job.done()) and time.monotonic() < deadline:
        time.sleep(1)
    return done


def _outcome(job: Job, future: concurrent.futures.Future) -> str:
    if error := future.exception():
        return f"{type(error).__name__}: {str(error).splitlines()[0]}; log: {job.log}"
    code = future.result()
    if code == 0 and _seen(job):
        return ""
    why = f"killed by signal {code - 128}" if code > 128 else f"exit code {code}"
    lines = job.log.read_text(encoding="utf-8", errors="replace").split("\n")
    last = next((line.strip() for line in reversed(lines) if line.strip()), "")
    return f"{why}; log: {job.log}; its last line: {last}"
