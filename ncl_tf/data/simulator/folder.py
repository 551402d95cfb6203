"""The folder of a simulated ward: complete or not there at all, and never put in place of anything but another ward."""

import pathlib
import re

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
