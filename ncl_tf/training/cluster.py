"""The workers that train together, as the environment variable TF_CONFIG names them."""

import dataclasses
import json
import re
import socket
from typing import Any

from ncl_tf.errors import InputError

EXAMPLE = '{"cluster": {"worker": ["host0:2222", "host1:2222"]}, "task": {"type": "worker", "index": 0}}'


@dataclasses.dataclass(frozen=True)
class Cluster:
    """The workers of one training, the same on each of them, and which one this process is.

    Attributes:
        workers: the address, host:port, of each worker.
        index: which of them this process is; worker 0 is the chief, which writes the run directory.
    """

    workers: tuple[str, ...]
    index: int

    def check_port(self) -> None:
        """Refuse a port that is in use: TensorFlow's server would share it silently, and get half of the calls."""
        port = int(self.workers[self.index].rpartition(":")[2])
        with socket.socket() as probe:
            probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            try:
                probe.bind(("", port))
            except OSError as error:
                raise InputError(
                    f"TF_CONFIG: worker {self.index} ({self.workers[self.index]}) must listen on a free port, another one for "
                    f"each worker of a machine, got {port}: {error.strerror}"
                ) from error


def read_cluster(text: str | None) -> Cluster:
    """Read the value of TF_CONFIG, in the form that TensorFlow and most schedulers use; None: it is not set."""
    if not text:
        raise InputError(f"TF_CONFIG must be set on each worker for --strategy=multiworker, such as {EXAMPLE}")
    try:
        config = json.loads(text)
    except json.JSONDecodeError as error:
        raise InputError(f"TF_CONFIG must be JSON, such as {EXAMPLE}, got {text!r}: {error}") from error
    jobs, task = _object(config, "cluster"), _object(config, "task")
    if other := sorted(jobs.keys() - {"worker"}):
        raise InputError(f"TF_CONFIG: cluster must have 'worker' alone, whose first one is the chief, got {other[0]!r}")
    workers = _workers(jobs.get("worker"))
    if task.get("type") != "worker":
        raise InputError(f"TF_CONFIG: task.type must be 'worker', got {task.get('type')!r}")
    index = str(task.get("index"))  # schedulers that fill in a template often leave a text
    if not index.isdecimal() or int(index) >= len(workers):
        raise InputError(f"TF_CONFIG: task.index must be 0 to {len(workers) - 1}, got {task.get('index')!r}")
    return Cluster(workers, int(index))


def _object(config: Any, name: str) -> dict[str, Any]:
    part = config.get(name) if isinstance(config, dict) else None
    if not isinstance(part, dict):
        raise InputError(f"TF_CONFIG must have an object {name!r}, such as {EXAMPLE}, got {config!r}")
    return part


def _workers(addresses: Any) -> tuple[str, ...]:
    if not isinstance(addresses, list) or not addresses:
        raise InputError(f"TF_CONFIG: cluster.worker must be a list of addresses, host:port, got {addresses!r}")
    for number, address in enumerate(addresses):
        parts = re.fullmatch(r"[^\s/]+:(\d{1,5})", address) if isinstance(address, str) else None
        if parts is None or not 0 < int(parts[1]) < 2**16:
            raise InputError(f"TF_CONFIG: worker {number} must be host:port, such as 'host0:2222', got {address!r}")
        if address in addresses[:number]:
            first = addresses.index(address)
            raise InputError(
                f"TF_CONFIG: each worker must be named once, got {address!r} as workers {first} and {number}"
            )
    return tuple(addresses)
