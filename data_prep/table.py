r"""Prepares a cohort file from your own hourly table.

The table (.csv or .parquet) has a row per stay and hour, and columns for the stay, the whole hour, each channel and each task.
Empty cells, NaN and NA are missing values; absent hours have neither measurements nor labels. A schema declares the columns.

Examples:
  # the schema below describes hourly.csv
  bin/prepare table --source=hourly.csv --schema=schema.toml --output=my_icu.h5
  # another random split
  bin/prepare table --source=hourly.csv --schema=schema.toml --seed=2 \
    --output=my_icu_2.h5
  # then look at the result
  bin/cohort describe my_icu.h5

Schema:

  name = "my_icu"
  stay = "stay_id"   # column that identifies the stay
  hour = "hour"      # column with the hour; also declare it as a channel if the
                     # model should see it
  split = "split"    # optional column with train, val or test; see below

  [[channels]]
  name = "HR"
  low = 10           # optional plausible range; values outside become missing
  high = 300
  unit = "beats/min" # optional

  [[channels]]
  name = "sex"
  kind = "categorical"         # default: "continuous"
  static = true                # known at admission; default: false
  levels = ["female", "male"]  # texts or numbers
  spellings = { f = "female", m = "male" }

  [[tasks]]
  name = "sepsis"    # labels 0 and 1, empty where unlabelled

  [[tasks]]
  name = "remaining_hours"
  kind = "bins"      # a number, predicted as the bin that contains it
  edges = [24, 48, 72]

Without a split column, the split is random (64 / 16 / 20 %), stratified by whether a stay is ever positive in the first binary
task. A task named sepsis is also evaluated by the utility of the PhysioNet challenge, whose labels turn positive six hours
before the onset.
"""

import pathlib

from absl import flags

from data_prep import common
from ncl_tf import cli, files
from ncl_tf.data.sources.table import read_schema, read_stays

cli.group("Input")
SOURCE = flags.DEFINE_string("source", None, "FILE: The hourly table, .csv or .parquet.", required=True)
SCHEMA = flags.DEFINE_string("schema", None, "FILE: The schema, .toml; see below.", required=True)
SEED = flags.DEFINE_integer("seed", 0, "N: Seed of the random split.", lower_bound=0, upper_bound=2**32 - 1)
common.define_output()


def main() -> None:
    output = common.checked_output()
    path = pathlib.Path(SOURCE.value)
    dataset, schema = read_schema(pathlib.Path(SCHEMA.value))
    stays, split = read_stays(path, dataset, schema, SEED.value)
    common.write_and_summarize(output, dataset, stays, split, files.sha256(path))


if __name__ == "__main__":
    cli.run(main)
