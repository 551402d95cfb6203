r"""Prepares a cohort file from cohorts of YAIB (van de Water et al., 2024), which ricu extracts from MIMIC-IV, eICU and others.

Reads the folders that YAIB writes, with dyn.parquet, sta.parquet and outc.parquet. Units and plausible ranges of its concepts are
known; others are read without a range, and the summary names them.

Examples:
  # the task is the name of the folder above: hourly labels of kidney injury
  bin/prepare yaib --source=aki/miiv --output=aki.h5
  # several databases as one cohort
  bin/prepare yaib --source=sepsis/miiv --source=sepsis/eicu \
    --output=sepsis.h5
  # train on one database, test on another
  bin/prepare yaib --source=aki/eicu --test_source=aki/miiv \
    --output=eicu_miiv.h5

Tasks: sepsis and aki have a label in each hour. mortality24 has one per stay, which belongs to the last hour; the other hours are
unlabelled. los is the remaining hours in eight bins of a day each, the last of 168 hours and more, where YAIB caps it.
kidney_function is refused, since heads predict classes.

The split is random, 64 / 16 / 20 % of the stays, stratified by whether a stay is ever positive; with --test_source, 80 / 20 %
train and validate. YAIB does not say which stays are of one patient: --subjects names a table with the columns stay_id and
subject_id, such as MIMIC's icustays, or eICU's patient with patientunitstayid and uniquepid.
"""

import pathlib

import numpy as np
from absl import flags

from data_prep import common
from ncl_tf import cli, files
from ncl_tf.data.sources import arrow, yaib
from ncl_tf.data.sources.common import progress
from ncl_tf.data.splits import random_split, split_around
from ncl_tf.data.stays import Stays
from ncl_tf.errors import InputError

cli.group("Input")
SOURCE = flags.DEFINE_multi_string("source", None, "DIR: A folder with dyn, sta and outc.parquet.", required=True)
TASK = flags.DEFINE_enum(
    "task", None, [*yaib.TASKS, "kidney_function"], "The task. Default: the name of the folder that the source is in."
)
SUBJECTS = flags.DEFINE_multi_string(
    "subjects", [], "FILE: Table of stays and patients, .csv or .parquet; one for each source, in their order."
)
cli.group("Split")
TEST_SOURCE = flags.DEFINE_multi_string("test_source", [], "DIR: Test on this database, and only on it.")
SEED = flags.DEFINE_integer("seed", 0, "N: Seed of the random split.", lower_bound=0, upper_bound=2**32 - 1)
common.define_output()


def main() -> None:
    output = common.checked_output()
    folders = [pathlib.Path(folder) for folder in SOURCE.value + TEST_SOURCE.value]
    if SUBJECTS.value and len(SUBJECTS.value) != len(folders):
        raise InputError(
            f"--subjects must name a table for each of the {len(folders)} sources, got {len(SUBJECTS.value)}"
        )
    if len(set(folders)) < len(folders):
        raise InputError(f"sources must differ, got {', '.join(map(str, folders))}")
    patients = list(map(pathlib.Path, SUBJECTS.value)) or [None] * len(folders)
    dataset = yaib.declare(folders[0], yaib.find_task(folders, TASK.value))
    parts = {}
    names = [name.replace("/", "_") for name in files.shortest_unique_suffixes(folders)]
    for name, folder, table in progress(list(zip(names, folders, patients, strict=True)), "reading", unit=" sources"):
        parts[name] = yaib.read_stays(folder, dataset, table)
    stays = Stays.joined(parts)
    positive = stays.ever_positive() if dataset.tasks[0].kind == "binary" else np.zeros(len(stays.names), bool)
    if TEST_SOURCE.value:
        counts = [len(part.names) for part in parts.values()]
        testing = np.repeat(np.arange(len(counts)) >= len(SOURCE.value), counts)
        split = split_around(positive, testing, SEED.value, stays.subjects)
    else:
        split = random_split(positive, SEED.value, stays.subjects)
    checksum = arrow.checksum_of_files([folder / name for folder in folders for name in yaib.FILES])
    common.write_and_summarize(output, dataset, stays, split, checksum)
    if unknown := yaib.without_range(dataset):
        print(f"concepts without a plausible range: {', '.join(unknown)}")


if __name__ == "__main__":
    cli.run(main)
