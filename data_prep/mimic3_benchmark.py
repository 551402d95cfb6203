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

To make the input, run these in mimic3-benchmarks; or `bin/prepare mimic3`, which needs neither:
  python -m mimic3benchmark.scripts.create_multitask data/root/ data/multitask/
  python -m mimic3models.split_train_val data/multitask/
"""

import functools
import pathlib

from absl import flags

from data_prep import common, multitask
from ncl_tf import cli
from ncl_tf.data.sources.mimic3_benchmark import read_stays

cli.group("Input")
SOURCE = flags.DEFINE_string("source", None, "PATH: The multitask folder, or a tar file of it.", required=True)
common.define_output()
multitask.define_differences()


def main() -> None:
    multitask.write_cohort(common.checked_output(), functools.partial(read_stays, pathlib.Path(SOURCE.value)))


if __name__ == "__main__":
    cli.run(main)
