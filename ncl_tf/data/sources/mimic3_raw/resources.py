"""The three public tables of mimic3-benchmarks: which items are which variable, and who is in which split."""

import csv
import pathlib
from collections.abc import Iterator
from typing import NamedTuple

from ncl_tf.errors import InputError

# Where a checkout of mimic3-benchmarks has them; they may also be in one folder.
FOLDERS = ("", "mimic3benchmark/resources", "mimic3models")
ITEM_MAP, TEST_SET, VAL_SET = "itemid_to_variable_map.csv", "testset.csv", "valset.csv"
ITEM_COLUMNS = ("LEVEL2", "ITEMID", "MIMIC LABEL", "STATUS", "COUNT")


MOST_DIGITS = 18  # of a subject


class Item(NamedTuple):
    """What an item of the event tables measures: a variable of the benchmark, and the item's own label."""

    variable: str
    label: str


class SubjectSplit(NamedTuple):
    """The subjects of the test and validation splits, and all that the two tables name; others are in training."""

    test: set[int]
    val: set[int]
    named: set[int]

    def of(self, subject: int) -> str:
        """Return the split of a subject."""
        return "test" if subject in self.test else "val" if subject in self.val else "train"


def read_item_map(folder: pathlib.Path) -> dict[int, Item]:
    """Read the items that are ready for use, by their id."""
    path, items = find_resource(folder, ITEM_MAP), {}
    for place, row in _dict_rows(path):
        try:
            wanted = row["LEVEL2"] and row["STATUS"] == "ready" and int(row["COUNT"] or 0) > 0
            item = int(row["ITEMID"]) if wanted else 0
        except ValueError as error:
            raise InputError(f"{place}: COUNT and ITEMID must be whole numbers ({error})") from error
        if not wanted:
            continue
        if item in items:
            raise InputError(f"{place}: item {item} must be one variable, got a second line for it")
        items[item] = Item(row["LEVEL2"], row["MIMIC LABEL"])
    if not items:
        raise InputError(f'{path}: no row with LEVEL2 set, STATUS "ready" and COUNT above 0')
    return items


def read_subject_split(folder: pathlib.Path) -> SubjectSplit:
    """Read the subjects of the splits; each line is a subject and 1 (in this split) or 0."""
    chosen, named = [], set()
    for name in (TEST_SET, VAL_SET):
        path, members = find_resource(folder, name), set()
        for number, line in enumerate(path.read_text(encoding="utf-8", errors="replace").splitlines(), start=1):
            subject, _, member = line.strip().partition(",")
            if not subject.isdecimal() or len(subject) > MOST_DIGITS or member not in ("0", "1"):
                raise InputError(f"{path}, line {number}: must be a subject and 0 or 1, such as 100,1; got {line!r}")
            named.add(int(subject))
            if member == "1":
                members.add(int(subject))
        chosen.append(members)
    return SubjectSplit(*chosen, named)


def find_resource(folder: pathlib.Path, name: str) -> pathlib.Path:
    """Find one of the tables of mimic3-benchmarks."""
    for place in FOLDERS:
        if (folder / place / name).is_file():
            return folder / place / name
    raise InputError(
        f"{folder}: no {name}; --benchmark must be a checkout of https://github.com/YerevaNN/mimic3-benchmarks, "
        f"or a folder with its {ITEM_MAP}, {TEST_SET} and {VAL_SET}"
    )


def _dict_rows(path: pathlib.Path) -> Iterator[tuple[str, dict[str, str]]]:
    with path.open(encoding="utf-8", errors="replace", newline="") as file:
        reader = csv.DictReader(file, restval="")
        missing = [column for column in ITEM_COLUMNS if column not in (reader.fieldnames or ())]
        if missing:
            raise InputError(f"{path}, line 1: must have the columns {', '.join(ITEM_COLUMNS)}, got no {missing[0]}")
        for row in reader:
            yield f"{path}, line {reader.line_num}", row
