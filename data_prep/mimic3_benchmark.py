r"""Prepares a cohort file from the MIMIC-III Benchmark (Harutyunyan et al., 2019).

Reads the multitask output of mimic3-benchmarks: `train/` and `test/` with `*_timeseries.csv`, and `train_listfile.csv`,
`val_listfile.csv` and `test_listfile.csv` beside them. A tar file of the folder is read without unpacking it.

Examples:
  # the paper's cohort
  bin/prepare mimic3_benchmark --source=data/multitask --output=mimic3.h5
  # prepared as by the authors' code, where it differs from the paper
  bin/prepare mimic3_benchmark --source=data/multitask --output=authors.h5 \
    --label_row=next --before_first_event=carry_back --categorical=guess
  # without access to MIMIC-III: simulate a ward to prepare
  bin/prepare simulate --form=mimic3_benchmark --output=benchmark

To make the input, run these in mimic3-benchmarks:
  python -m mimic3benchmark.scripts.create_multitask data/root/ data/multitask/
  python -m mimic3models.split_train_val data/multitask/
"""

import pathlib

from absl import flags

from data_prep import common
from ncl_tf import cli
from ncl_tf.data.datasets import MIMIC3_BENCHMARK
from ncl_tf.data.sources.mimic3_benchmark import guess_categorical, read_stays

cli.group("Input")
SOURCE = flags.DEFINE_string("source", None, "PATH: The multitask folder, or a tar file of it.", required=True)
common.define_output()
cli.group("Differences between paper and code")
LABEL_ROW = flags.DEFINE_enum("label_row", "same", ["same", "next"], "Row with the label of hour j: j, or j + 1.")
BEFORE = flags.DEFINE_enum(
    "before_first_event", "missing", ["missing", "carry_back"], "Hours before the first event: missing, or its values."
)
CATEGORICAL = flags.DEFINE_enum(
    "categorical", "declare", ["declare", "guess"], "Those declared, or channels of at most 25 distinct whole numbers."
)


def main() -> None:
    output = common.checked_output()
    carry_back, shift = BEFORE.value == "carry_back", int(LABEL_ROW.value == "next")
    stays, split, checksum = read_stays(pathlib.Path(SOURCE.value), carry_back, shift)
    dataset = MIMIC3_BENCHMARK
    if CATEGORICAL.value == "guess":
        dataset = guess_categorical(MIMIC3_BENCHMARK, stays, split["train"])
    common.write_and_summarize(output, dataset, stays, split, checksum)


if __name__ == "__main__":
    cli.run(main)
