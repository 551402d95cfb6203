"""Files: written atomically, so that a reader never sees half of one; JSON, checksums and short names of paths."""

import contextlib
import hashlib
import json
import os
import pathlib
import shutil
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from ncl_tf.errors import InputError, reading


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
def atomic_path(path: pathlib.Path) -> Iterator[pathlib.Path]:
    """Yield a temporary path beside `path`; on success it is flushed to disk and renamed, on failure removed."""
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        handle, name = tempfile.mkstemp(prefix=f".{path.name}.", suffix=".partial", dir=path.parent)
    except OSError as error:
        raise InputError(f"{path.parent}: cannot write into this folder ({error.strerror})") from error
    os.close(handle)
    partial = pathlib.Path(name)
    try:
        yield partial
        with partial.open("rb+") as file:
            os.fsync(file.fileno())
        umask = os.umask(0)  # temporary files are created private, which results should not be
        os.umask(umask)
        partial.chmod(0o666 & ~umask)
        partial.replace(path)
        sync_folder(path.parent)
    except OSError as error:  # e.g. the disk is full
        reason = os.strerror(error.errno) if error.errno else error
        raise InputError(f"{path}: cannot be written ({reason})") from error
    finally:
        partial.unlink(missing_ok=True)


@contextlib.contextmanager
def atomic_folder(folder: pathlib.Path) -> Iterator[pathlib.Path]:
    """Yield an empty folder beside `folder`; on success it takes the place of `folder`, on failure it is removed."""
    folder = folder.absolute()
    try:
        folder.parent.mkdir(parents=True, exist_ok=True)
        scratch = pathlib.Path(tempfile.mkdtemp(prefix=f".{folder.name}.", suffix=".partial", dir=folder.parent))
    except OSError as error:
        raise InputError(f"{folder.parent}: cannot write into this folder ({error.strerror})") from error
    try:
        new, old = scratch / "new", scratch / "old"
        new.mkdir()
        yield new
        os.sync()  # all files of the folder, of which there may be tens of thousands
        try:
            if folder.exists():
                folder.rename(old)
            new.rename(folder)
        except BaseException:  # Ctrl-C, too
            if old.exists() and not folder.exists():
                old.rename(folder)
            raise
        sync_folder(folder.parent)
    except OSError as error:  # e.g. the disk is full, or the folder is where another disk begins
        reason = os.strerror(error.errno) if error.errno else error
        raise InputError(f"{folder}: cannot be written ({reason})") from error
    finally:
        shutil.rmtree(scratch)


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
    handle = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)
