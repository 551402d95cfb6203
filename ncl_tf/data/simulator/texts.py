"""What the two forms of the simulated ward share: numbers as texts, and a stay ready to be written."""

from typing import NamedTuple

import numpy as np


class StayFile(NamedTuple):
    """One stay's file, and its line in a list file where the form has one."""

    path: str  # within the ward's folder
    text: str
    hours: int
    positive_hours: int
    listfile: str = ""
    line: str = ""


def texts(values: np.ndarray, decimals: int, template: str = "{:g}", missing: str = "NaN") -> list[str]:
    """Numbers as texts, rounded. Each distinct number is formatted only once, which is what makes it fast."""
    distinct, places = np.unique(np.round(values, decimals) + 0.0, return_inverse=True)  # + 0.0: no "-0"
    written = [missing if np.isnan(number) else template.format(number) for number in distinct.tolist()]
    return np.array(written, object)[places].tolist()


def tables(header: list[str], columns: list[list[str]], rows: np.ndarray, separator: str) -> list[str]:
    """The text of each table. All tables' rows are stacked in `columns`; `rows` are the numbers of rows [tables]."""
    lines = list(map(separator.join, zip(*columns, strict=True)))
    ends = np.cumsum(rows)
    first = separator.join(header)
    return ["\n".join([first, *lines[end - count : end], ""]) for end, count in zip(ends, rows, strict=True)]
