"""One interface to folders, zip and tar files and single files: named files, read without unpacking to disk."""

import itertools
import pathlib
import tarfile
import zipfile
from collections.abc import Callable, Iterable, Iterator

from ncl_tf import memory
from ncl_tf.data.simulator.folder import MARKER
from ncl_tf.errors import DAMAGE, InputError, reason

ARCHIVES = (".zip", ".tar", ".gz", ".tgz", ".bz2", ".xz")
ARCHIVE_DAMAGE = (*DAMAGE, zipfile.BadZipFile, tarfile.TarError)
PART = 1 << 20  # bytes read at once, where only their presence matters
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
    except ARCHIVE_DAMAGE as error:
        if isinstance(error, InputError):
            raise
        if not path.name.endswith(ARCHIVES):
            kind = f"a {path.suffix} file" if path.suffix else "a file of another kind"
            raise InputError(
                f"{path}: must be a folder, zip or tar of {suffix} files, or one such file, got {kind}"
            ) from error
        raise InputError(
            f"{path}: must be a folder or a complete zip or tar file ({reason(error)}); if it is a truncated download, fetch "
            "it again"
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
            except ARCHIVE_DAMAGE as error:  # also where it is encrypted or oddly compressed
                raise InputError(
                    f"{path}: {member.filename} cannot be read ({reason(error)}); is the archive damaged?"
                ) from error

        return read

    members = archive.infolist()
    for member in members:
        _check_member(path, member.filename)
    members = [member for member in members if not member.is_dir() and member.filename.endswith(suffix)]
    _check_names(path, [member.filename for member in members])
    memory.check_claim(path, sum(member.file_size for member in members))
    return ((member.filename, reader(member)) for member in members)


def _tar(path: pathlib.Path, suffix: str) -> Files:
    """A compressed tar can only be read front to back, so its files are held in memory."""
    contents: list[tuple[str, bytes]] = []
    claimed = 0
    with tarfile.open(path) as archive:
        for member in archive:
            _check_member(path, member.name)
            if member.isdir() or not member.name.endswith(suffix):
                continue
            if not member.isfile():
                raise InputError(
                    f"{path}: member {member.name!r} must be a file, got a link or a device; pack the file itself"
                )
            claimed += member.size
            memory.check_claim(path, claimed)
            contents.append((member.name, archive.extractfile(member).read()))
        _check_end(path, archive)
    _check_names(path, [name for name, _ in contents])
    return ((name, lambda data=data: data) for name, data in contents)


def _check_end(path: pathlib.Path, archive: tarfile.TarFile) -> None:
    """Refuse a tar that does not end as tars do, in zeros: one cut or damaged between two files looks complete otherwise.

    Reading to the end of the file also verifies the checksum of a compressed one.
    """
    archive.fileobj.seek(archive.offset)
    parts = iter(lambda: archive.fileobj.read(PART), b"")
    first = next(parts, b"")
    if len(first) < tarfile.BLOCKSIZE or any(part.strip(b"\0") for part in itertools.chain([first], parts)):
        raise InputError(
            f"{path}: must be a complete tar file, which ends in zeros, but from byte {archive.offset} on it does not; if it is "
            "a truncated download, fetch it again"
        )


def _check_names(path: pathlib.Path, names: Iterable[str]) -> None:
    """Refuse an archive with two files of one name, of which one would be lost."""
    seen: set[str] = set()
    for name in names:
        if (plain := str(pathlib.PurePosixPath(name))) in seen:
            raise InputError(f"{path}: each file must occur once, got {plain!r} twice")
        seen.add(plain)


def _check_member(path: pathlib.Path, name: str) -> None:
    parts = pathlib.PurePosixPath(name.replace("\\", "/"))
    if parts.is_absolute() or ".." in parts.parts:
        raise InputError(f"{path}: member {name!r} points outside of its folder; do not trust such an archive")
