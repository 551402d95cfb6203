"""Which workers train together, as the environment variable TF_CONFIG says."""

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
        workers: address, host:port, of each.
        index: of this one; worker 0 is the chief, which writes the run directory.
    """

    workers: tuple[str, ...]
    index: int

    def check_port(self) -> None:
        """Refuses a port that is taken: TensorFlow's server would share it in silence, and get half of the calls."""
        port = int(self.workers[self.index].rpartition(":")[2])
        with socket.socket() as probe:
            probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            try:
                probe.bind(("", port))
            except OSError as error:
                raise InputError(
                    f"TF_CONFIG: worker {self.index} ({self.workers[self.index]}) cannot listen on port {port}: "
                    f"{error.strerror}. Allowed: a free port, another one for each worker of a machine"
                ) from error


def read_cluster(text: str | None) -> Cluster:
    """Reads the value of TF_CONFIG, in the form that TensorFlow and most schedulers know; None: it is not set."""
    if not text:
        raise InputError(f"TF_CONFIG is not set; --strategy=multiworker wants it on each worker, such as {EXAMPLE}")
    try:
        config = json.loads(text)
    except json.JSONDecodeError as error:
        raise InputError(f"TF_CONFIG is {text!r}, which is not JSON: {error}. Allowed: such as {EXAMPLE}") from error
    jobs, task = _object(config, "cluster"), _object(config, "task")
    if other := sorted(jobs.keys() - {"worker"}):
        raise InputError(
            f"TF_CONFIG: cluster names {other[0]!r}; allowed: 'worker' alone, whose first one is the chief"
        )
    workers = _workers(jobs.get("worker"))
    if task.get("type") != "worker":
        raise InputError(f"TF_CONFIG: task.type is {task.get('type')!r}; allowed: 'worker'")
    index = str(task.get("index"))  # schedulers that fill in a template often leave a text
    if not index.isdecimal() or int(index) >= len(workers):
        raise InputError(f"TF_CONFIG: task.index is {task.get('index')!r}; allowed: 0 to {len(workers) - 1}")
    return Cluster(workers, int(index))


def _object(config: Any, name: str) -> dict[str, Any]:
    part = config.get(name) if isinstance(config, dict) else None
    if not isinstance(part, dict):
        raise InputError(f"TF_CONFIG is {config!r}: it has no object {name!r}. Allowed: such as {EXAMPLE}")
    return part


def _workers(addresses: Any) -> tuple[str, ...]:
    if not isinstance(addresses, list) or not addresses:
        raise InputError(f"TF_CONFIG: cluster.worker is {addresses!r}; allowed: a list of addresses, host:port")
    for number, address in enumerate(addresses):
        parts = re.fullmatch(r"[^\s/]+:(\d{1,5})", address) if isinstance(address, str) else None
        if parts is None or not 0 < int(parts[1]) < 2**16:
            raise InputError(f"TF_CONFIG: worker {number} is {address!r}; allowed: host:port, such as 'host0:2222'")
        if address in addresses[:number]:
            first = addresses.index(address)
            raise InputError(f"TF_CONFIG: workers {first} and {number} are both {address!r}; allowed: each once")
    return tuple(addresses)
