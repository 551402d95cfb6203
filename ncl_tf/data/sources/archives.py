"""One interface to folders, zip and tar files and single files: named files, read without unpacking to disk."""

import lzma
import pathlib
import tarfile
import zipfile
import zlib
from collections.abc import Callable, Iterator

from ncl_tf.data.simulator.folder import MARKER
from ncl_tf.errors import InputError

ARCHIVES = (".zip", ".tar", ".gz", ".tgz", ".bz2", ".xz")
# What damaged archives raise.
DAMAGE = (zipfile.BadZipFile, tarfile.TarError, EOFError, zlib.error, lzma.LZMAError, OSError)
Files = Iterator[tuple[str, Callable[[], bytes]]]  # (name inside the source, function that reads it)


def open_source(path: pathlib.Path, suffix: str) -> Files:
    """List all files of a folder, zip or tar whose name ends in `suffix`, each with a function that reads its bytes.

    The path may also be that of one such file.
    """
    if not path.exists():
        raise InputError(f"{path}: no such file or folder")
    if path.is_dir():
        return _folder(path, suffix)
    if path.name.endswith(suffix):
        return iter([(path.name, _reader(path))])
    try:
        return _zip(path, suffix) if zipfile.is_zipfile(path) else _tar(path, suffix)
    except DAMAGE as error:
        if not path.name.endswith(ARCHIVES):
            kind = f"a {path.suffix} file" if path.suffix else "a file of another kind"
            raise InputError(
                f"{path}: must be a folder, zip or tar of {suffix} files, or one such file, got {kind}"
            ) from error
        raise InputError(
            f"{path}: must be a folder or a complete zip or tar file ({error}); if it is a truncated download, fetch it again"
        ) from error


def is_ward(path: pathlib.Path, suffix: str) -> bool:
    """Whether it is a simulated ward, or an archive of one: its marker is in a folder above all of its files."""
    if path.name.endswith(suffix):
        return False
    wards = {pathlib.PurePosixPath(name).parent for name, _ in open_source(path, MARKER)}
    files = (pathlib.PurePosixPath(name) for name, _ in open_source(path, suffix))
    return bool(wards) and all(not wards.isdisjoint(file.parents) for file in files)


def _folder(path: pathlib.Path, suffix: str) -> Files:
    for file in sorted(path.rglob(f"*{suffix}")):
        if file.is_file():
            yield file.relative_to(path).as_posix(), _reader(file)


def _reader(file: pathlib.Path) -> Callable[[], bytes]:
    def read() -> bytes:
        try:
            return file.read_bytes()
        except OSError as error:
            raise InputError(f"{file}: cannot be read ({error.strerror})") from error

    return read


def _zip(path: pathlib.Path, suffix: str) -> Files:
    archive = zipfile.ZipFile(path)

    def reader(member: zipfile.ZipInfo) -> Callable[[], bytes]:
        def read() -> bytes:
            try:
                return archive.read(member)
            except (*DAMAGE, RuntimeError) as error:  # the last: encrypted or oddly compressed
                raise InputError(
                    f"{path}: {member.filename} cannot be read ({error}); is the archive damaged?"
                ) from error

        return read

    members = archive.infolist()
    for member in members:
        _check_member(path, member.filename)
    return ((m.filename, reader(m)) for m in members if not m.is_dir() and m.filename.endswith(suffix))


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
        raise InputError(f"{path}: member {name!r} points outside of its folder; do not trust such an archive")
