"""A simulated ward, written in the files of PhysioNet 2019 or of the MIMIC-III Benchmark.

It has the shape of the real data (lengths, prevalence, what is measured how often) and nothing of any real patient.
Stays are drawn in blocks of fixed size, each with its own stream of random numbers: stay k of a seed is the same
however many stays are asked for.
"""

import collections
import pathlib
from collections.abc import Callable
from typing import Any

import numpy as np

from ncl_tf import files
from ncl_tf.data import ward_mimic3, ward_physionet2019
from ncl_tf.errors import InputError

FORMS = {"physionet2019": ward_physionet2019.write_block, "mimic3_benchmark": ward_mimic3.write_block}
MARKER = "simulated_ward.json"  # says what a folder holds; only a folder with this file may be overwritten
VERSION = 1  # raised whenever the same seed gives other bytes
BLOCK = 252  # stays drawn together: whole rounds of nine, the unit in which both forms share out outcomes


def write_ward(
    stays: int,
    seed: int,
    output: pathlib.Path,
    form: str = "physionet2019",
    progress: Callable[[int], Any] = lambda finished: None,
) -> dict[str, Any]:
    """Simulates `stays` stays and writes them into the folder `output`, which is made if need be.

    Args:
      stays: number of stays, at least 1.
      seed: at least 0. The same (stays, seed, form) give the same bytes; fewer stays give a part of them.
      output: folder; files of other names in it are left alone.
      form: "physionet2019" (one pNNNNNN.psv per stay) or "mimic3_benchmark" (train/, test/ and the list files).
      progress: called with the number of stays just written, for a progress bar.

    Returns:
      What was written, as in the marker file: stays, seed, form, version, hours, positive stays, positive hours.
    """
    if stays < 1:
        raise InputError(f"stays is {stays}; a ward has at least 1 stay")
    if seed < 0:
        raise InputError(f"seed is {seed}; seeds are whole numbers from 0")
    if form not in FORMS:
        raise InputError(f"form is {form!r}; known forms: {', '.join(FORMS)}")
    output.mkdir(parents=True, exist_ok=True)
    counts = collections.Counter()
    for first in range(0, stays, BLOCK):
        wanted = min(BLOCK, stays - first)
        sequence = np.random.SeedSequence((seed, list(FORMS).index(form), first))
        counts.update(FORMS[form](np.random.Generator(np.random.Philox(sequence)), BLOCK, first, wanted, output))
        progress(wanted)
    summary = {"stays": stays, "seed": seed, "form": form, "version": VERSION, **counts}
    files.write_json(output / MARKER, summary)
    return summary
