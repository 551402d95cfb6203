"""Reads the structure of an HDF5 file in a process of its own, which may crash or be stopped in place of the caller's.

    python hdf5_probe.py FILE

It reads every attribute and all datasets that are not plain arrays of numbers, and ends with code 0 if that is possible.
"""

import pathlib
import resource
import sys

import h5py

SECONDS, BYTES_PER_SECOND = 10, 10 * 2**20  # of processor time, which a slow disk does not take
MOST_MEMORY = 4 * 2**30


def limit(path: str, seconds: int = SECONDS) -> None:
    """Limit the time, and the memory beside what the file itself needs."""
    size = pathlib.Path(path).stat().st_size
    seconds += size // BYTES_PER_SECOND
    resource.setrlimit(resource.RLIMIT_CPU, (seconds, seconds + 1))
    resource.setrlimit(resource.RLIMIT_AS, (MOST_MEMORY + 8 * size, resource.RLIM_INFINITY))
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))


def read(name: str, found: h5py.HLObject) -> None:
    """Read attributes and, of a dataset, what the library has to unpack or follow."""
    for attribute in found.attrs:
        found.attrs[attribute]
    if isinstance(found, h5py.Dataset) and (found.chunks or found.dtype.kind == "O") and found.ndim:
        rows = max(1, 2**24 // max(1, found[:0].nbytes, found.dtype.itemsize * found.size // max(1, found.shape[0])))
        for start in range(0, found.shape[0], rows):
            found[start : start + rows]


def probe(path: str) -> None:
    """Read a file."""
    limit(path)
    with h5py.File(path, "r") as file:
        read("/", file)
        file.visititems(read)


if __name__ == "__main__":
    try:
        probe(sys.argv[1])
    except (
        OSError,
        ValueError,
        LookupError,
        TypeError,
        RuntimeError,
        AttributeError,
        OverflowError,
        MemoryError,
    ) as error:
        sys.exit(" ".join(str(error).split()) or type(error).__name__)
