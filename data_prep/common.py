"""Flags of observations and output, and the final summary, of all programs that prepare cohorts."""

import dataclasses
import pathlib
import sys

import numpy as np
from absl import flags

from ncl_tf import cli, files
from ncl_tf.data.cohort import write_cohort
from ncl_tf.data.declaration import OBSERVATIONS, Dataset, check_observations
from ncl_tf.data.describe import describe
from ncl_tf.data.raw_file import raw_path, write_raw_file
from ncl_tf.data.splits import Split
from ncl_tf.data.stays import Stays


def define_output() -> None:
    """Define the flags that all these programs have; not at import, so that they follow a program's own."""
    cli.group("Observation columns")
    flags.DEFINE_list(
        "observations",
        [],
        "NAME,...: Also say when and how often each channel was measured, in columns such as HR:recency. recency: 1 / (1 + hours "
        "since the last measurement), 0 if never; count: log(1 + measurements so far), standardized; measured: 1 in the hour of "
        "a measurement; change: since the measurement before, scaled. Default: none, as in the paper.",
    )
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
    """Read --output, and refuse one that exists without --overwrite or cannot be written; so with that of --keep_raw.

    Unknown --observations are refused, too, before there is work to be lost.
    """
    check_observations(flags.FLAGS.observations, "--observations")
    path = pathlib.Path(flags.FLAGS.output)
    for written in [path, *([raw_path(path)] if flags.FLAGS.keep_raw else [])]:
        files.check_output(written, flags.FLAGS.overwrite)
    return path


def write_and_summarize(path: pathlib.Path, dataset: Dataset, stays: Stays, split: Split, checksum: str) -> None:
    """Write the cohort file with the observations asked for, and its raw rows if they are wanted, and print its counts."""
    chosen = tuple(name for name in OBSERVATIONS if name in flags.FLAGS.observations)
    dataset = dataclasses.replace(dataset, observations=chosen)
    print(f"preparing {len(stays.names):,} stays, {len(stays.values):,} hours", file=sys.stderr)
    write_cohort(path, dataset, stays, split, checksum)
    written = [path, *([write_raw_file(path, dataset, stays, split)] if flags.FLAGS.keep_raw else [])]
    left_out = np.setdiff1d(np.arange(len(stays.names)), np.concatenate(list(split.values())))
    if len(left_out):
        print(f"left out by the split: {', '.join(stays.names[left_out])}\n")
    print(describe(path, channels=False))
    print(cli.named(f"\nwritten: {', '.join(map(str, written))}\nnext: bin/cohort describe {path}"))
