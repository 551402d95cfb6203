"""A simulated ward, written in the files of PhysioNet 2019 or of the MIMIC-III Benchmark.

It has the shape of the real data (lengths, prevalence, what is measured how often) and nothing of any real patient.
Stays are drawn in blocks of fixed size, each with its own stream of random numbers: stay k of a seed is the same
however many stays are asked for.
"""

import pathlib
from collections.abc import Callable
from typing import Any

import numpy as np

from ncl_tf import files
from ncl_tf.data.simulator import mimic3_benchmark, physionet2019
from ncl_tf.data.simulator.folder import MARKER, check_folder
from ncl_tf.errors import InputError

FORMS = {"physionet2019": physionet2019, "mimic3_benchmark": mimic3_benchmark}
WARD_VERSION = 2  # raised whenever the same seed yields other bytes
BLOCK = 252  # stays drawn together: whole rounds of nine, in which both forms share out their outcomes
MOST = 999_999  # stays: file names have six digits


def write_ward(
    stays: int,
    seed: int,
    output: pathlib.Path,
    form: str = "physionet2019",
    progress: Callable[[int], Any] = lambda written: None,
    overwrite: bool = False,
) -> dict[str, Any]:
    """Simulate stays and write them into the folder `output`, which appears only when all is written.

    Args:
      stays, seed: the same stays, seed and form yield the same bytes; a smaller ward is the beginning of a larger one.
      form: "physionet2019" (one pNNNNNN.psv per stay) or "mimic3_benchmark" (train/, test/ and the list files).
      progress: called with the number of stays just written.
      overwrite: whether `output` may be a simulated ward, which is replaced; never anything else.

    Returns:
      What was written, as in the folder's simulated_ward.json: form, stays, seed, version, hours, positive_stays and
      positive_hours (septic, or dying within 24 hours).
    """
    if not 1 <= stays <= MOST:
        raise InputError(f"stays must be 1 to {MOST}, got {stays}")
    if seed < 0:
        raise InputError(f"seed must be 0 or more, got {seed}")
    if form not in FORMS:
        raise InputError(f"form must be one of {', '.join(FORMS)}, got {form!r}")
    check_folder(output, overwrite)
    with files.atomic_folder(output) as folder:
        counts = _write_stays(stays, seed, folder, form, progress)
        summary = {"form": form, "stays": stays, "seed": seed, "version": WARD_VERSION, **counts}
        files.write_json(folder / MARKER, summary)
    return summary


def _write_stays(
    stays: int, seed: int, folder: pathlib.Path, form: str, progress: Callable[[int], Any]
) -> dict[str, int]:
    """Write the stays' files and the list files, and count hours and positives."""
    counts = {"hours": 0, "positive_stays": 0, "positive_hours": 0}
    lists = {name: [header] for name, header in FORMS[form].LISTS.items()}
    for first in range(0, stays, BLOCK):
        entropy = np.random.SeedSequence((seed, list(FORMS).index(form), first))
        block = FORMS[form].draw_stays(np.random.Generator(np.random.Philox(entropy)), first, BLOCK)[: stays - first]
        for stay in block:
            path = folder / stay.path
            path.parent.mkdir(exist_ok=True)
            path.write_text(stay.text, encoding="ascii", newline="\n")
            if stay.listfile:
                lists[stay.listfile].append(stay.line)
            counts["hours"] += stay.hours
            counts["positive_stays"] += stay.positive_hours > 0
            counts["positive_hours"] += stay.positive_hours
        progress(len(block))
    for name, lines in lists.items():
        (folder / name).write_text("\n".join([*lines, ""]), encoding="ascii", newline="\n")
    return counts
