r"""Prepares a cohort file of the MIMIC-III Benchmark from the official download of MIMIC-III.

It needs no step before: it applies the rules of mimic3-benchmarks (Harutyunyan et al., 2019) to the tables themselves, and prints
how many stays and events each rule leaves. The cohort is the one that `bin/prepare mimic3_benchmark` makes of that project's
output.

Examples:
  # the paper's cohort
  bin/prepare mimic3 --raw=mimiciii --benchmark=mimic3-benchmarks \
    --output=mimic3.h5
  # also the folder that the scripts of mimic3-benchmarks write
  bin/prepare mimic3 --raw=mimiciii --benchmark=mimic3-benchmarks \
    --output=mimic3.h5 --multitask=data/multitask
  # prepared as by the authors' code, where it differs from the paper
  bin/prepare mimic3 --raw=mimiciii --benchmark=mimic3-benchmarks \
    --output=authors.h5 --label_row=next --before_first_event=carry_back \
    --categorical=guess

Of the download it reads ADMISSIONS, PATIENTS, ICUSTAYS, CHARTEVENTS, LABEVENTS and OUTPUTEVENTS, each .csv or .csv.gz. You need
not unpack them. The open demo of MIMIC-III works, too.

Of mimic3-benchmarks it reads itemid_to_variable_map.csv, testset.csv and valset.csv. Clone
https://github.com/YerevaNN/mimic3-benchmarks, or put the three files into one folder.

In --multitask, the column of phenotypes is empty: they come from diagnoses, which no task here needs.
"""

import functools
import pathlib

from absl import flags

from data_prep import common, multitask
from ncl_tf import cli, files
from ncl_tf.data.sources.common import progress
from ncl_tf.data.sources.mimic3_benchmark import Multitask, stays_of_multitask
from ncl_tf.data.sources.mimic3_raw import multitask_files
from ncl_tf.errors import InputError

cli.group("Input")
RAW = flags.DEFINE_string("raw", None, "DIR: The folder with the tables of MIMIC-III.", required=True)
BENCHMARK = flags.DEFINE_string(
    "benchmark", None, "DIR: A checkout of mimic3-benchmarks, or a folder with its three tables.", required=True
)
common.define_output()
MULTITASK = flags.DEFINE_string("multitask", None, "DIR: Also write the multitask folder, which must not exist yet.")
multitask.define_differences()


def main() -> None:
    output, folder = common.checked_output(), MULTITASK.value and pathlib.Path(MULTITASK.value)
    if folder:
        _check_new(folder)
    made, funnel = multitask_files(pathlib.Path(RAW.value), pathlib.Path(BENCHMARK.value))
    print(f"{funnel}\n", flush=True)
    if folder:
        with files.atomic_folder(folder) as new:
            for name, read in progress(made.items(), "writing", unit=" files", total=len(made)):
                (new / name).parent.mkdir(exist_ok=True)
                (new / name).write_bytes(read())
        print(f"written: {folder}\n")
    multitask.write_cohort(output, functools.partial(stays_of_multitask, Multitask.of(RAW.value, made)))


def _check_new(folder: pathlib.Path) -> None:
    """Refuse, before any work is done, a multitask folder that exists or cannot be written."""
    if folder.is_file() or folder.is_dir() and any(folder.iterdir()):
        raise InputError(f"{folder}: exists already; name another --multitask")
    files.check_output(folder.with_name(f"{folder.name}.new"), overwrite=True)


if __name__ == "__main__":
    cli.run(main)
