"""Output flags and the final summary of all programs that prepare cohorts."""

import pathlib
import sys

import numpy as np
from absl import flags

from ncl_tf import cli, files
from ncl_tf.data.cohort import write_cohort
from ncl_tf.data.declaration import Dataset
from ncl_tf.data.describe import describe
from ncl_tf.data.raw_file import raw_path, write_raw_file
from ncl_tf.data.splits import Split
from ncl_tf.data.stays import Stays


def define_output() -> None:
    """Define the flags of the output of these programs; not at import, so that they follow a program's own."""
    cli.group("Output")
    flags.DEFINE_string("output", None, "FILE: The cohort file to write.", required=True)
    flags.DEFINE_bool(
        "keep_raw",
        False,
        "Also write what was measured, neither filled nor scaled, beside it: ward.raw.h5 for ward.h5. Trees need it; the cohort "
        "file stays the same.",
    )
    flags.DEFINE_bool("overwrite", False, "Replace an output that exists.")


def checked_output() -> pathlib.Path:
    """Read --output, and refuse one that exists without --overwrite or cannot be written; so with that of --keep_raw."""
    path = pathlib.Path(flags.FLAGS.output)
    for written in [path, *([raw_path(path)] if flags.FLAGS.keep_raw else [])]:
        files.check_output(written, flags.FLAGS.overwrite)
    return path


def write_and_summarize(path: pathlib.Path, dataset: Dataset, stays: Stays, split: Split, checksum: str) -> None:
    """Write the cohort file, and its raw rows if they are wanted, and print its counts."""
    print(f"preparing {len(stays.names):,} stays, {len(stays.values):,} hours", file=sys.stderr)
    write_cohort(path, dataset, stays, split, checksum)
    written = [path, *([write_raw_file(path, dataset, stays, split)] if flags.FLAGS.keep_raw else [])]
    left_out = np.setdiff1d(np.arange(len(stays.names)), np.concatenate(list(split.values())))
    if len(left_out):
        print(f"left out by the split: {', '.join(stays.names[left_out])}\n")
    print(describe(path, channels=False))
    print(cli.named(f"\nwritten: {', '.join(map(str, written))}\nnext: bin/cohort describe {path}"))
