"""A user's own hourly table -> cohort file.

The table (.csv or .parquet) has one row per stay and hour: a column that identifies the stay, one with the whole hour, one per
channel and one per task. Empty cells, NaN and NA are missing; hours left out become hours without measurement or label. A small
schema file declares the columns:

  name = "my_icu"
  stay = "stay_id"            # column that identifies the stay
  hour = "hour"               # column with the hour; declare it as a channel, too, if the model shall see it
  split = "split"             # optional: column with train, val or test; without it a random split (64 / 16 / 20 %), stratified
                              # by whether a stay is ever positive in the first binary task

  [[channels]]
  name = "HR"
  low = 10                    # plausible range, optional; values outside become missing
  high = 300
  unit = "beats/min"          # optional

  [[channels]]
  name = "sex"
  kind = "categorical"        # the default is "continuous"
  static = true               # known at admission; the default is false
  levels = ["female", "male"] # texts or numbers
  spellings = { f = "female", m = "male" }

  [[tasks]]
  name = "sepsis"             # labels 0 and 1, empty where unlabelled. A task of this name is also evaluated by the utility
                              # of the PhysioNet challenge, whose labels turn positive six hours before the onset

  [[tasks]]
  name = "remaining_hours"
  kind = "bins"               # a number, predicted as the bin that it falls into
  edges = [24, 48, 72]

  bin/prepare table --source=hourly.csv --schema=schema.toml --output=my_icu.h5
"""

import pathlib

from absl import flags

from data_prep import common
from ncl_tf import cli, files
from ncl_tf.data.sources.table import read_schema, read_stays


def define_flags() -> None:
    """Define the program's flags; not at import, since other programs have flags of the same names."""
    flags.DEFINE_string("source", None, "The hourly table, .csv or .parquet.", required=True)
    flags.DEFINE_string("schema", None, "The schema file, .toml; see above.", required=True)
    flags.DEFINE_integer(
        "seed",
        0,
        "Seed of the random split, where the schema names no split column.",
        lower_bound=0,
        upper_bound=2**32 - 1,
    )
    common.define_flags()
    flags.adopt_module_key_flags(common)


def main() -> None:
    output = common.checked_output()
    path = pathlib.Path(flags.FLAGS.source)
    dataset, schema = read_schema(pathlib.Path(flags.FLAGS.schema))
    stays, split = read_stays(path, dataset, schema, flags.FLAGS.seed)
    common.write_and_summarize(output, dataset, stays, split, files.sha256(path))


if __name__ == "__main__":
    define_flags()
    cli.run(main)
