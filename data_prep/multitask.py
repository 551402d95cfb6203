"""What both programs for the MIMIC-III Benchmark share: the flags where paper and code differ, and the cohort they lead to."""

import pathlib
from collections.abc import Callable

from absl import flags

from data_prep import common
from ncl_tf import cli
from ncl_tf.data.datasets import MIMIC3_BENCHMARK
from ncl_tf.data.sources.mimic3_benchmark import guess_categorical
from ncl_tf.data.splits import Split
from ncl_tf.data.stays import Stays


def define_differences() -> None:
    """Define the flags of what the authors' code prepares differently."""
    cli.group("Differences between paper and code")
    flags.DEFINE_enum("label_row", "same", ["same", "next"], "Row with the label of hour j: j, or j + 1.")
    flags.DEFINE_enum(
        "before_first_event",
        "missing",
        ["missing", "carry_back"],
        "Hours before the first event: missing, or its values.",
    )
    flags.DEFINE_enum(
        "categorical",
        "declare",
        ["declare", "guess"],
        "Those declared, or channels of at most 25 distinct whole numbers.",
    )


def write_cohort(output: pathlib.Path, read: Callable[[bool, int], tuple[Stays, Split, str]]) -> None:
    """Write the cohort as these flags say, and print its counts.

    Args:
      read: returns stays, split and checksum, given `carry_back` and `shift` (see `ncl_tf.data.sources.mimic3_benchmark`).
    """
    stays, split, checksum = read(flags.FLAGS.before_first_event == "carry_back", int(flags.FLAGS.label_row == "next"))
    dataset = MIMIC3_BENCHMARK
    if flags.FLAGS.categorical == "guess":
        dataset = guess_categorical(MIMIC3_BENCHMARK, stays, split["train"])
    common.write_and_summarize(output, dataset, stays, split, checksum)
