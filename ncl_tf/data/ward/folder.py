"""The folder of a simulated ward: complete or not there at all, and never put in place of anything but another ward."""

import contextlib
import pathlib
import re
import shutil
import tempfile
from collections.abc import Iterator

from ncl_tf import files
from ncl_tf.errors import InputError

MARKER = "simulated_ward.json"  # tells a simulated ward from any other folder
# Every file and folder that a ward can hold.
PARTS = re.compile(
    rf"{re.escape(MARKER)}|p\d{{6}}\.psv|(train|val|test)_listfile\.csv|(train|test)(/\d+_episode\d+_timeseries\.csv)?"
)


def check_folder(folder: pathlib.Path, overwrite: bool) -> None:
    """Refuses a folder in which anything lies, unless that is a simulated ward and nothing else, and `overwrite` is set."""
    if not folder.exists():
        return
    if not folder.is_dir():
        raise InputError(f"{folder}: is a file; a ward is a folder")
    found = [path.relative_to(folder).as_posix() for path in folder.rglob("*")]
    if not found:
        return
    if not overwrite:
        raise InputError(f"{folder}: is not empty; pass --overwrite to replace a ward, or name another --output")
    if MARKER not in found:
        raise InputError(f"{folder}: has no {MARKER}, so it is no simulated ward; --overwrite replaces nothing else")
    for path in found:
        if not PARTS.fullmatch(path):
            raise InputError(f"{folder / path}: is no part of a simulated ward; --overwrite would delete it")


@contextlib.contextmanager
def atomic_folder(folder: pathlib.Path) -> Iterator[pathlib.Path]:
    """Yields an empty folder beside `folder`; on success it takes the place of `folder`, on failure it is removed."""
    folder = folder.absolute()
    try:
        folder.parent.mkdir(parents=True, exist_ok=True)
        scratch = pathlib.Path(tempfile.mkdtemp(prefix=f".{folder.name}.", suffix=".partial", dir=folder.parent))
    except OSError as error:
        raise InputError(f"{folder.parent}: cannot write into this folder ({error.strerror})") from error
    try:
        new = scratch / "new"
        new.mkdir()
        yield new
        if folder.exists():
            folder.rename(scratch / "old")
        new.rename(folder)
        files.sync_folder(folder.parent)
    finally:
        shutil.rmtree(scratch)
