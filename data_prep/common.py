"""Flags and the final summary of all preparation programs."""

import pathlib
import sys

import numpy as np
from absl import flags

from ncl_tf import cli, files
from ncl_tf.data.cohort import write_cohort
from ncl_tf.data.declaration import Dataset
from ncl_tf.data.describe import describe
from ncl_tf.data.splits import Split
from ncl_tf.data.stays import Stays


def define_output(what: str = "FILE: The cohort file to write.") -> None:
    """Define the flags of the output of all preparation programs; not at import, so that they follow a program's own."""
    cli.group("Output")
    flags.DEFINE_string("output", None, what, required=True)
    flags.DEFINE_bool("overwrite", False, "Replace an output that exists.")


def checked_output() -> pathlib.Path:
    """Read --output, and refuse one that exists without --overwrite or cannot be written."""
    path = pathlib.Path(flags.FLAGS.output)
    files.check_output(path, flags.FLAGS.overwrite)
    return path


def write_and_summarize(path: pathlib.Path, dataset: Dataset, stays: Stays, split: Split, checksum: str) -> None:
    """Write the cohort file and print its counts."""
    print(f"preparing {len(stays.names):,} stays, {len(stays.values):,} hours", file=sys.stderr)
    write_cohort(path, dataset, stays, split, checksum)
    left_out = np.setdiff1d(np.arange(len(stays.names)), np.concatenate(list(split.values())))
    if len(left_out):
        print(f"left out by the split: {', '.join(stays.names[left_out])}\n")
    print(describe(path, channels=False))
    print(f"\nwritten: {path}\nnext: bin/cohort describe {path}")
