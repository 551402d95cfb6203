"""Reading of HDF5 files that may be damaged or foreign: completely, with the values that were written, or refused.

Beside FILE may lie FILE.sums, its SHA-256 as `sha256sum` writes it; the file must then have it, whatever its name is by now.
HDF5 itself has no checksums, and the library may crash or never end on damaged structure. So a file without sums is first read
by another process, which may: `ncl_tf.data.hdf5_probe`.
"""

import contextlib
import pathlib
import re
import signal
import subprocess
import sys
from collections.abc import Iterator
from typing import Any

import h5py
import numpy as np

from ncl_tf import files, memory
from ncl_tf.errors import InputError, reading, reason

PROBE = pathlib.Path(__file__).with_name("hdf5_probe.py")


def sums_path(path: pathlib.Path) -> pathlib.Path:
    """Name the file with the checksum of another one."""
    return path.with_name(f"{path.name}.sums")


def write_sums(path: pathlib.Path) -> None:
    """Write the checksum of a file beside it; `sha256sum --check` can read it, too."""
    files.write_text(sums_path(path), f"{files.sha256(path)}  {path.name}\n")


def verified(path: pathlib.Path) -> str | None:
    """Check a file before it is opened: by its checksum, which is returned, or else, if there is none, by a trial."""
    sums = sums_path(path)
    if not sums.exists():
        _probe(path)
        return None
    with reading(sums, "the checksum of a file, as `sha256sum` writes it"):
        expected = re.match(r"[0-9a-f]{64}(?=\s)", sums.read_text(encoding="utf-8"))
        if expected is None:
            raise ValueError("it does not begin with 64 hexadecimal digits")
    with reading(path, "a readable file"):
        found = files.sha256(path)
    if found != expected[0]:
        raise InputError(
            f"{path}: must have the SHA-256 {expected[0]} that {sums.name} beside it holds, got {found}; the file is damaged, or "
            f"another one was put in its place. Copy or prepare it again; if it is right, remove {sums.name}"
        )
    return found


def _probe(path: pathlib.Path) -> None:
    """Let another process read the whole structure of a file, within limits of time and memory."""
    try:
        command = [sys.executable, "-P", PROBE, path]
        done = subprocess.run(command, capture_output=True, text=True, errors="replace", check=False)
    except (OSError, ValueError) as error:
        raise InputError(f"{path}: cannot be checked in another process ({reason(error)})") from error
    if done.returncode == -signal.SIGXCPU:
        raise InputError(f"{path}: not an HDF5 file that can be read, or a damaged one (reading it does not end)")
    if done.returncode:
        lines = done.stderr.strip().splitlines() or [f"the HDF5 library stopped with signal {-done.returncode}"]
        raise InputError(f"{path}: not an HDF5 file, or a damaged one ({lines[-1]})")


@contextlib.contextmanager
def opened(path: pathlib.Path, what: str) -> Iterator[h5py.File]:
    """Open a verified file; what is wrong in it, which must be `what`, shows as InputError."""
    with reading(path, what), h5py.File(path, "r") as file:
        yield file


def array(file: h5py.File, name: str, dimensions: tuple[int, ...], kinds: str) -> np.ndarray:
    """Read a dataset, which must have so many dimensions and numbers or texts of these kinds, as of `np.dtype.kind`."""
    found = file.get(name)
    if not isinstance(found, h5py.Dataset):
        raise InputError(f"must have a dataset {name!r}, got none")
    if found.ndim not in dimensions or found.dtype.kind not in kinds:
        raise InputError(
            f"{name}: must have {dimensions[-1]} dimensions and a type of kind {' or '.join(kinds)}, got "
            f"{list(found.shape)}, {found.dtype}"
        )
    memory.check_claim(f"{file.filename}: {name}", found.size * found.dtype.itemsize)
    _check_stored(found, name)
    return found[:]


def _check_stored(dataset: h5py.Dataset, name: str) -> None:
    """Refuse a dataset of which a part is not in the file: the library would read it as zeros."""
    if dataset.chunks:
        expected = int(np.prod([-(-size // chunk) for size, chunk in zip(dataset.shape, dataset.chunks, strict=True)]))
        found, parts = dataset.id.get_num_chunks(), "chunks"
    else:
        expected, found, parts = dataset.size * dataset.dtype.itemsize, dataset.id.get_storage_size(), "bytes"
    if found != expected:
        raise InputError(f"{name}: must hold {expected} {parts}, got {found}")


def decoded(values: Any) -> list[str]:
    """Convert the values of an attribute or dataset of texts."""
    return [value.decode() if isinstance(value, bytes) else str(value) for value in values]
