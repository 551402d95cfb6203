r"""Prepares a cohort file from your own hourly table.

The table (.csv or .parquet) has a row per stay and hour, and columns for the stay, the whole hour, each channel and each task.
Empty cells, NaN and NA are missing values; absent hours have neither measurements nor labels. A schema declares the columns. The
table may be in several files, or in a folder of Parquet files.

Examples:
  # the schema below describes hourly.csv
  bin/prepare table --source=hourly.csv --schema=schema.toml --output=my_icu.h5
  # all Parquet files of a folder, and another random split
  bin/prepare table --source=hourly --schema=schema.toml --seed=2 \
    --output=my_icu_2.h5
  # then look at the result
  bin/cohort describe my_icu.h5

Table:

  stay,hour,HR,MAP,lactate,age,sex,sepsis
  17,0,88,71,,64,f,0
  17,1,91,69,1.9,64,f,0

Schema:

  name = "my_icu"
  stay = "stay"      # column that identifies the stay
  hour = "hour"      # column with the hour

  [[channels]]
  name = "age"
  static = true      # known at admission, one value per stay; default: false

  [[channels]]
  name = "sex"
  kind = "categorical"   # default: "continuous"
  static = true
  levels = ["f", "m"]    # texts or numbers

  [[channels]]
  name = "hour"      # if the model should see the hour

  [[channels]]
  name = "HR"
  low = 10           # optional plausible range; values outside become missing
  high = 300

  [[channels]]
  name = "MAP"
  low = 10
  high = 200

  [[channels]]
  name = "lactate"

  [[tasks]]
  name = "sepsis"    # labels 0 and 1, empty where unlabelled

Further keys, all optional:

  split = "split"               # of the schema: column with train, val or test
  subject = "patient"           # column with the patient; splits keep all stays of one together
  intime = "admitted"           # where hour is a time: column with the time at which hour 0 begins
  unit = "beats/min"            # of a channel: for readers, not converted
  spellings = { female = "f" }  # of a categorical channel: other texts
  kind = "bins"                 # of a task: a number, predicted as its bin
  edges = [24, 48, 72]          # of a task with bins: the inner edges

The hour is a number or a duration, or a time such as 2026-01-31 14:00 or a timestamp, which counts from the stay's first row or
from intime. Elsewhere in the table, too, durations are hours, and booleans are 0 and 1.

Without a split column, the split is random (64 / 16 / 20 %), stratified by whether a stay is ever positive in the first binary
task. It needs at least 25 stays, three of them positive. If patients return, name their column as subject: otherwise it splits by
stay. With --test_source, another table tests, and the first one trains and validates (80 / 20 %). A task named sepsis is also
evaluated by the utility of the PhysioNet challenge, whose labels turn positive six hours before the onset.
"""

import pathlib

from absl import flags

from data_prep import common
from ncl_tf import cli
from ncl_tf.data.sources import arrow
from ncl_tf.data.sources.table import read_schema, read_stays

cli.group("Input")
SOURCE = flags.DEFINE_multi_string(
    "source", None, "PATH: The hourly table, .csv or .parquet, or a folder of .parquet files.", required=True
)
SCHEMA = flags.DEFINE_string("schema", None, "FILE: The schema, .toml; see below.", required=True)
cli.group("Split")
TEST_SOURCE = flags.DEFINE_multi_string(
    "test_source", [], "PATH: Test on this table, of the same schema, and only on it."
)
SEED = flags.DEFINE_integer("seed", 0, "N: Seed of the random split.", lower_bound=0, upper_bound=2**32 - 1)
common.define_output()


def main() -> None:
    output = common.checked_output()
    dataset, schema = read_schema(pathlib.Path(SCHEMA.value))
    sources = [[pathlib.Path(source) for source in flag.value] for flag in (SOURCE, TEST_SOURCE)]
    paths = arrow.find_files([source for part in sources for source in part])
    training = len(arrow.find_files(sources[0]))
    stays, split = read_stays(paths[:training], dataset, schema, SEED.value, paths[training:])
    common.write_and_summarize(output, dataset, stays, split, arrow.checksum_of_files(paths))


if __name__ == "__main__":
    cli.run(main)
