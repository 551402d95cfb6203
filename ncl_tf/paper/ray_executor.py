"""Jobs on a Ray cluster."""

import concurrent.futures
import math
import os
import pathlib
import socket
import sys
from typing import Any

from ncl_tf import project
from ncl_tf.errors import InputError
from ncl_tf.paper import jobs

SECONDS_TO_CONNECT = 5
RETRIES = 3  # of a job whose worker died


class Ray:
    """A Ray cluster whose machines see the project and the output folder under the same paths as this one.

    Args:
        address: HOST:PORT, ray://HOST:PORT or auto.
        cpus_per_job: cores of each job; None: 2.

    Attributes:
        slots: None: Ray itself queues what does not fit.
        parallel: how many jobs fit into the cluster at the same time.
    """

    slots = None

    def __init__(self, address: str, cpus_per_job: int | None = None, gpus_per_job: float = 0) -> None:
        try:
            import ray
        except ImportError as error:
            raise InputError(
                "--executor=ray needs Ray, which `make` installs; in another environment: pip install -e '.[cluster]'"
            ) from error
        if cpus_per_job is not None and cpus_per_job < 1:
            raise InputError(f"--cpus_per_job must be 1 or more, got {cpus_per_job}")
        if gpus_per_job < 0:
            raise InputError(f"--gpus_per_job must be 0 or more, got {gpus_per_job}")
        address = running_address() if address == "auto" else address
        if address != "auto":
            check_reachable(address)
        self._ray, self._threads = ray, cpus_per_job or 2
        try:
            ray.init(address=address, log_to_driver=False, logging_level="ERROR")
        except (ConnectionError, RuntimeError, ValueError) as error:
            hint = "`ray start --head` starts a cluster" if address == "auto" else "`ray status` shows its address"
            raise InputError(f"--ray_address={address}: {str(error).splitlines()[0]}; {hint}") from error
        self.parallel = self._fitting(gpus_per_job)
        ray.cloudpickle.register_pickle_by_value(sys.modules[__name__])  # workers need not find this module
        options = {"num_cpus": self._threads, "num_gpus": gpus_per_job, "max_retries": RETRIES}
        self._execute = ray.remote(**options)(execute_elsewhere)

    def _fitting(self, gpus: float) -> int:
        """Return how many jobs fit into the cluster; refuse requests that no machine can meet: Ray would wait in silence."""
        machines = [node["Resources"] for node in self._ray.nodes() if node["Alive"]]
        counts = [
            min(have.get("CPU", 0) // self._threads, have.get("GPU", 0) // gpus if gpus else math.inf)
            for have in machines
        ]
        if not any(counts):
            have = ", ".join(f"{have.get('CPU', 0):g} CPUs and {have.get('GPU', 0):g} GPUs" for have in machines)
            raise InputError(
                "--cpus_per_job and --gpus_per_job must fit into a machine of the cluster, "
                f"got {self._threads} and {gpus:g}; its machines have {have}"
            )
        return int(sum(counts))

    def submit(self, job: jobs.Job) -> concurrent.futures.Future:
        """Queue a job; the future holds its exit code. After a worker's death Ray starts it again, and it resumes."""
        return self._execute.remote(str(project.PACKAGE.parent), vars(job), self._threads).future()

    def close(self) -> None:
        """Leave the cluster; what is still running is stopped."""
        self._ray.shutdown()


def execute_elsewhere(project: str, job: dict[str, Any], threads: int) -> int:
    """Run a job, given by its attributes, in a process that need not find the project's folder.

    The function stands for itself, since it is sent there as code. It returns what `ncl_tf.paper.jobs.execute` does.
    """
    import sys

    if project not in sys.path:
        sys.path.insert(0, project)
    from ncl_tf.paper.jobs import Job, execute

    return execute(Job(**job), threads)


def running_address() -> str:
    """Return the address that Ray documents to connect to for "auto"; "auto" where neither place names one."""
    latest = pathlib.Path(os.environ.get("RAY_TMPDIR", "/tmp"), "ray", "ray_current_cluster")
    return os.environ.get("RAY_ADDRESS") or (latest.read_text().strip() if latest.exists() else "") or "auto"


def check_reachable(address: str) -> None:
    """Refuse, within seconds, an address where no Ray listens; Ray itself would try for minutes."""
    import grpc  # Ray's protocol

    place = address.removeprefix("ray://")
    host, _, port = place.rpartition(":")
    if not host or not port.isdigit():
        raise InputError(f"--ray_address must be HOST:PORT, ray://HOST:PORT or auto, got {address!r}")
    try:
        socket.create_connection((host, int(port)), SECONDS_TO_CONNECT).close()
    except (OSError, OverflowError) as error:
        raise InputError(f"--ray_address={address}: no connection ({error}); is the cluster up?") from error
    if os.environ.get("RAY_USE_TLS"):
        return
    with grpc.insecure_channel(place) as channel:
        try:
            grpc.channel_ready_future(channel).result(SECONDS_TO_CONNECT)
        except grpc.FutureTimeoutError as error:
            raise InputError(
                f"--ray_address={address}: must be the head of a Ray cluster, got another server; `ray status` shows its address"
            ) from error
