"""Folders, zip and tar files as one thing: named files, read without unpacking anything to disk."""

import pathlib
import tarfile
import zipfile
import zlib
from collections.abc import Callable, Iterator

from ncl_tf.errors import InputError

Files = Iterator[tuple[str, Callable[[], bytes]]]  # (name inside the source, function that reads it)


def open_source(path: pathlib.Path, suffix: str) -> Files:
    """All files of a folder, zip or tar whose name ends in `suffix`, each with a function that reads its bytes."""
    if not path.exists():
        raise InputError(f"{path}: no such file or folder")
    if path.is_dir():
        return _folder(path, suffix)
    if zipfile.is_zipfile(path):
        return _zip(path, suffix)
    try:
        return _tar(path, suffix)
    except (tarfile.TarError, EOFError, zlib.error, OSError) as error:
        raise InputError(
            f"{path}: neither a folder nor a whole zip or tar file ({error}); "
            "a truncated download looks like this, fetch it again"
        ) from error


def _folder(path: pathlib.Path, suffix: str) -> Files:
    for file in sorted(path.rglob(f"*{suffix}")):
        yield str(file.relative_to(path)), file.read_bytes


def _zip(path: pathlib.Path, suffix: str) -> Files:
    archive = zipfile.ZipFile(path)

    def reader(member: zipfile.ZipInfo) -> Callable[[], bytes]:
        def read() -> bytes:
            try:
                return archive.read(member)
            except (zipfile.BadZipFile, zlib.error, EOFError, RuntimeError) as error:
                raise InputError(f"{path}: cannot read {member.filename} ({error}); the archive is damaged") from error

        return read

    for member in archive.infolist():
        _check_member(path, member.filename)
        if not member.is_dir() and member.filename.endswith(suffix):
            yield member.filename, reader(member)


def _tar(path: pathlib.Path, suffix: str) -> Files:
    """A compressed tar can only be read front to back, so its files are held in memory."""
    contents: dict[str, bytes] = {}
    with tarfile.open(path) as archive:
        for member in archive:
            _check_member(path, member.name)
            if member.isfile() and member.name.endswith(suffix):
                contents[member.name] = archive.extractfile(member).read()
    return ((name, lambda data=data: data) for name, data in contents.items())


def _check_member(path: pathlib.Path, name: str) -> None:
    parts = pathlib.PurePosixPath(name.replace("\\", "/"))
    if parts.is_absolute() or ".." in parts.parts:
        raise InputError(f"{path}: member {name!r} points outside of its folder; such an archive is not to be trusted")
