"""The folder of a simulated ward, which may replace another ward and nothing else."""

import pathlib
import re

from ncl_tf.errors import InputError

MARKER = "simulated_ward.json"  # marks a folder as a simulated ward
# Every file and folder that a ward can hold.
PARTS = re.compile(
    rf"{re.escape(MARKER)}|p\d{{6}}\.psv|(train|val|test)_listfile\.csv|(train|test)(/\d+_episode\d+_timeseries\.csv)?"
)


def check_folder(folder: pathlib.Path, overwrite: bool) -> None:
    """Refuse a folder that is not empty, unless it is a simulated ward and nothing else, and `overwrite` is set."""
    if not folder.exists():
        return
    if not folder.is_dir():
        raise InputError(f"{folder}: must be a folder, got a file")
    found = [path.relative_to(folder).as_posix() for path in folder.rglob("*")]
    if not found:
        return
    if not overwrite:
        raise InputError(f"{folder}: is not empty; pass --overwrite to replace a ward, or name another --output")
    if MARKER not in found:
        raise InputError(f"{folder}: has no {MARKER}, so it is not a simulated ward; --overwrite replaces nothing else")
    for path in found:
        if not PARTS.fullmatch(path):
            raise InputError(f"{folder / path}: is not part of a simulated ward; --overwrite would delete it")
