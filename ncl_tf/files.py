"""Files: written atomically, so that a reader never sees half of one; JSON, checksums and short names of paths."""

import contextlib
import ctypes
import errno
import fcntl
import hashlib
import json
import os
import pathlib
import re
import shutil
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from ncl_tf.errors import InputError, reading

PARTIAL = ".partial"  # ends the names of folders with unfinished files
LOCK, NEW, OLD = "lock", "new", "old"  # in them
AT_FDCWD, RENAME_EXCHANGE = -100, 2  # of Linux


def check_output(path: pathlib.Path, overwrite: bool) -> None:
    """Refuse, before any work is done, an output that exists (unless `overwrite`) or cannot be written."""
    if path.is_dir():
        raise InputError(f"{path}: --output must name a file, got a folder")
    if path.exists() and not overwrite:
        raise InputError(f"{path}: exists already; pass --overwrite to replace it, or name another --output")
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryFile(dir=path.parent):
            pass
    except OSError as error:
        raise InputError(f"{path.parent}: cannot write into this folder ({error.strerror})") from error


@contextlib.contextmanager
def atomic_path(path: pathlib.Path, size: int = 0) -> Iterator[pathlib.Path]:
    """Yield a temporary path near `path`; on success it is flushed to disk and renamed, on failure removed.

    Where `size` is given, a disk without space for so many bytes is an error before anything is written: HDF5 may crash the
    process where it meets one as it closes a file.
    """
    with _scratch(path) as scratch:
        partial = scratch / NEW
        with partial.open("wb") as file:
            if size and hasattr(os, "posix_fallocate"):
                os.posix_fallocate(file.fileno(), 0, size)
        yield partial
        with partial.open("rb+") as file:
            os.fsync(file.fileno())
        partial.replace(path)
        sync_folder(path.parent)


@contextlib.contextmanager
def atomic_folder(folder: pathlib.Path) -> Iterator[pathlib.Path]:
    """Yield an empty folder near `folder`; on success it takes the place of `folder`, on failure it is removed."""
    folder = folder.absolute()
    with _scratch(folder) as scratch:
        new = scratch / NEW
        new.mkdir()
        with opened_folder(new) as handle:
            yield new
            os.sync()  # all files of the folder, of which there may be tens of thousands
            if not is_at(handle, new):  # what was written since stands in a new one, without the rest
                raise InputError(f"{folder}: cannot be written (its unfinished files were deleted in the meantime)")
        _take_place(new, folder)
        sync_folder(folder.parent)


def append_line(path: pathlib.Path, line: str) -> None:
    """Add a line to a text file; a reader must expect half a line at the end, which an interruption leaves."""
    try:
        with path.open("a", encoding="utf-8") as file:
            file.write(f"{line}\n")
    except OSError as error:
        raise InputError(f"{path}: cannot be written ({error.strerror})") from error


@contextlib.contextmanager
def _scratch(path: pathlib.Path) -> Iterator[pathlib.Path]:
    """Yield a new folder on the disk of `path` for what will take its place; in the end, the folder is removed.

    The process that made it holds a lock on a file in it as long as it lives. What processes that were killed have left
    beside `path` is removed first.
    """
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        _remove_leftovers(path.parent)
        scratch, lock = _locked_folder(path)
    except OSError as error:
        raise InputError(f"{path.parent}: cannot write into this folder ({error.strerror})") from error
    try:
        yield scratch
    except OSError as error:  # e.g. the disk is full, or the folder is where another disk begins
        raise InputError(f"{path}: cannot be written ({_reason(error)})") from error
    except RuntimeError as error:  # HDF5's, when a file is closed on a full disk
        if "errno = " not in str(error):
            raise
        raise InputError(f"{path}: cannot be written ({_reason(error)})") from error
    finally:
        _remove(scratch)
        os.close(lock)


def _locked_folder(path: pathlib.Path) -> tuple[pathlib.Path, int]:
    """Make a folder beside `path` with a locked file; return it and the file's handle, which holds the lock."""
    while True:
        scratch = pathlib.Path(tempfile.mkdtemp(prefix=f".{path.name}.", suffix=PARTIAL, dir=path.parent))
        with contextlib.suppress(FileNotFoundError):  # another process took the folder for a leftover: try again
            lock = os.open(scratch / LOCK, os.O_RDWR | os.O_CREAT)
            with contextlib.suppress(OSError):  # some file systems have no locks; leftovers then stay
                fcntl.flock(lock, fcntl.LOCK_EX)
            if os.fstat(lock).st_nlink:
                return scratch, lock
            os.close(lock)


def _remove_leftovers(folder: pathlib.Path) -> None:
    """Remove what processes that were killed left in a folder; what they had moved aside takes its place again."""
    for scratch in folder.glob(f".*{PARTIAL}"):
        try:
            lock = os.open(scratch / LOCK, os.O_RDWR)
        except FileNotFoundError:  # killed before it wrote anything
            with contextlib.suppress(OSError):
                scratch.rmdir()
            continue
        except OSError:  # not ours
            continue
        with contextlib.suppress(OSError):  # locked: its process is alive, perhaps on another machine
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            target = folder / scratch.name[1:].removesuffix(PARTIAL).rpartition(".")[0]
            if (scratch / OLD).exists() and not target.exists():
                (scratch / OLD).rename(target)
            _remove(scratch)
        os.close(lock)


def _remove(scratch: pathlib.Path) -> None:
    """Remove a folder, and the lock last: if the process is killed midway, the rest can still be recognized."""
    for path in [*(path for path in scratch.glob("*") if path.name != LOCK), scratch / LOCK]:
        if path.is_dir() and not path.is_symlink():
            shutil.rmtree(path, ignore_errors=True)
        else:
            path.unlink(missing_ok=True)
    with contextlib.suppress(OSError):
        scratch.rmdir()


def _take_place(new: pathlib.Path, folder: pathlib.Path) -> None:
    """Put `new` in the place of `folder`; where the system can exchange them, there is no moment without one of them."""
    if not folder.exists():
        new.rename(folder)
    elif not _exchanged(new, folder):
        old = new.with_name(OLD)
        try:
            folder.rename(old)
            new.rename(folder)
        except BaseException:  # Ctrl-C, too
            if old.exists() and not folder.exists():
                old.rename(folder)
            raise


def _exchanged(one: pathlib.Path, other: pathlib.Path) -> bool:
    """Exchange two folders in one operation of the system; return False where it, or the disk, has none."""
    try:
        renameat2 = ctypes.CDLL(None, use_errno=True).renameat2
    except AttributeError:
        return False
    if renameat2(AT_FDCWD, os.fsencode(one), AT_FDCWD, os.fsencode(other), RENAME_EXCHANGE) == 0:
        return True
    if (number := ctypes.get_errno()) in (errno.ENOSYS, errno.EINVAL, errno.ENOTSUP):
        return False
    raise OSError(number, os.strerror(number))


def _reason(error: Exception) -> str:
    """Return the system's reason of an error, in short."""
    number = getattr(error, "errno", None) or int((re.findall(r"errno = (\d+)", str(error)) or [0])[0])
    return os.strerror(number) if number else str(error)


def write_text(path: pathlib.Path, text: str) -> None:
    """Write a text file atomically."""
    with atomic_path(path) as partial:
        partial.write_text(text, encoding="utf-8")


def read_json(path: pathlib.Path) -> dict[str, Any]:
    """Read a JSON file that holds an object."""
    with reading(path, "a JSON file"):
        value = json.loads(path.read_text(encoding="utf-8"))
    if not isinstance(value, dict):
        raise InputError(f"{path}: must hold a JSON object, got {type(value).__name__}")
    return value


def check_types(place: object, value: Any, types: Mapping[str, type | tuple[type, ...]]) -> None:
    """Refuse JSON that is no object, lacks one of the names, or has a value of another type there; `place` is for messages."""
    if not isinstance(value, dict):
        raise InputError(f"{place}: must be a JSON object, got {type(value).__name__}")
    for name, kind in types.items():
        if name not in value:
            raise InputError(f"{place}: must have {', '.join(types)}, got no {name!r}")
        if not isinstance(value[name], kind) or (isinstance(value[name], bool) and kind is not bool):
            words = " or ".join(one.__name__ for one in (kind if isinstance(kind, tuple) else (kind,)))
            raise InputError(f"{place}: {name} must be of type {words}, got {value[name]!r:.60}")


def json_text(value: Any) -> str:
    """Format JSON for readers."""
    return json.dumps(value, indent=2) + "\n"


def write_json(path: pathlib.Path, value: Any) -> None:
    """Write JSON atomically."""
    write_text(path, json_text(value))


def sha256(path: pathlib.Path) -> str:
    """Compute the SHA-256 of a file's bytes, in hex."""
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def shortest_unique_suffixes(paths: Sequence[pathlib.Path]) -> list[str]:
    """Shorten each path to the shortest suffix that no other path has; a path that occurs twice has one name."""
    ends = [path.absolute().parts for path in paths]

    def unique(end: tuple[str, ...], length: int) -> bool:
        return length == len(end) or not any(other != end and other[-length:] == end[-length:] for other in ends)

    return ["/".join(end[-next(n for n in range(1, len(end) + 1) if unique(end, n)) :]) for end in ends]


def sync_folder(folder: pathlib.Path) -> None:
    """Make a rename in `folder` survive a power cut."""
    with opened_folder(folder) as handle:
        os.fsync(handle)


@contextlib.contextmanager
def opened_folder(folder: pathlib.Path) -> Iterator[int]:
    """Yield a handle of a folder."""
    handle = os.open(folder, os.O_RDONLY)
    try:
        yield handle
    finally:
        os.close(handle)


def is_at(handle: int, folder: pathlib.Path) -> bool:
    """Return whether the folder that was opened is still there; another one of its name does not count."""
    try:
        return os.path.samestat(os.fstat(handle), folder.stat())
    except FileNotFoundError:
        return False
