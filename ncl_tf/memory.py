"""What files claim to hold, against the memory of the machine: refused before it is read, not when the memory is full."""

import contextlib
import os
import pathlib
import re
import resource

from ncl_tf.errors import InputError

GIGABYTE = 2**30
CGROUP = pathlib.Path("/sys/fs/cgroup")

# Bytes that one file may claim; None: what the machine has. Programs set it by --max_gigabytes.
most: float | None = None


def available() -> float:
    """Compute the bytes that this process can still use: of the machine, its container, and the limit of `ulimit -v`."""
    return min(_of_machine(), _of_container(), _of_process())


def check_claim(place: object, claimed: float) -> None:
    """Refuse a file, or a part of one, that claims to hold more bytes than there is memory for."""
    allowed = available() if most is None else most
    if claimed > allowed:
        raise InputError(
            f"{place}: must fit into {_written(allowed)} of memory, but claims to hold {_written(claimed)}; if that is right, "
            "use a machine with more memory, or allow it by --max_gigabytes"
        )


def _written(size: float) -> str:
    return f"{size / GIGABYTE:,.1f} GB"


def _of_machine() -> float:
    with contextlib.suppress(OSError):
        if match := re.search(r"^MemAvailable:\s+(\d+) kB", pathlib.Path("/proc/meminfo").read_text(), re.MULTILINE):
            return int(match[1]) * 1024
    return os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")


def _of_container() -> float:
    try:
        limit, used = (int((CGROUP / name).read_text()) for name in ("memory.max", "memory.current"))
        cache = re.search(r"^inactive_file (\d+)", (CGROUP / "memory.stat").read_text(), re.MULTILINE)
    except (OSError, ValueError):  # no container, or one without a limit
        return float("inf")
    return limit - used + (int(cache[1]) if cache else 0)


def _of_process() -> float:
    limit = resource.getrlimit(resource.RLIMIT_AS)[0]
    if limit == resource.RLIM_INFINITY:
        return float("inf")
    try:
        used = int(pathlib.Path("/proc/self/statm").read_text().split()[0]) * os.sysconf("SC_PAGE_SIZE")
    except (OSError, ValueError):
        used = 0
    return limit - used
