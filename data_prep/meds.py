r"""Prepares a cohort file from a dataset in the Medical Event Data Standard (MEDS), versions 0.3 and 0.4.

DATASET holds data/**/*.parquet with the events of subjects, metadata/dataset.json and metadata/subject_splits.parquet. A schema
says which codes open and close stays, and which make channels and tasks. Shards are read one after another.

Examples:
  # labels from label files
  bin/prepare meds --source=mimic_meds --schema=meds.toml \
    --labels=mimic_meds/task_labels --output=icu.h5
  # every task comes from events
  bin/prepare meds --source=mimic_meds --schema=meds.toml --output=icu.h5
  # predictions in the form of MEDS, for meds-evaluation
  bin/evaluate --run_dir=RUN --write_meds=predictions.parquet

Schema:

  name = "my_icu"
  opens = ["ICU_ADMISSION//*"]    # codes of events; * stands for any text
  closes = ["ICU_DISCHARGE//*", "MEDS_DEATH"]
  outside_stays = "drop"          # default: "refuse" measurements outside

  [[channels]]
  name = "age"
  static = true                   # the last value when the stay opens
  years_since = "MEDS_BIRTH"      # or hours_since

  [[channels]]
  name = "sex"
  kind = "categorical"
  static = true
  levels = ["female", "male"]
  codes = [{ code = "GENDER//F", level = "female" }, { code = "GENDER//M", level = "male" }]

  [[channels]]
  name = "HR"
  codes = ["LAB//220045//*", "VITALS//HR"]
  low = 10
  high = 300

  [[channels]]
  name = "temperature"            # factor x value + offset
  codes = ["TEMP//C", { code = "TEMP//F", factor = 0.5556, offset = -17.78 }]

  [[tasks]]
  name = "sepsis"                 # from label files

  [[tasks]]
  name = "decompensation"         # 1 in the 24 hours before the event
  until = ["MEDS_DEATH"]
  within = 24

Further keys are those of `bin/prepare table`: unit, spellings and, of tasks, kind and edges. With kind "bins", until counts the
hours until the event. hour = "NAME" at the top names a channel without codes that holds the hour of the stay.

Hour k of a stay has the last values up to k hours after it opened. Label files are .parquet files with subject_id,
prediction_time and boolean_value, integer_value or float_value, in DIR or, if several tasks need them, in DIR/TASK. A label
belongs to the last hour at or before its time, so nothing later is seen. Splits are the dataset's: train, tuning (val) and
held_out (test).
"""

import pathlib

from absl import flags

from data_prep import common
from ncl_tf import cli
from ncl_tf.data.sources.meds import read_meds
from ncl_tf.data.sources.meds_schema import read_meds_schema

cli.group("Input")
SOURCE = flags.DEFINE_string("source", None, "DIR: The MEDS dataset.", required=True)
SCHEMA = flags.DEFINE_string("schema", None, "FILE: The schema, .toml; see below.", required=True)
LABELS = flags.DEFINE_string("labels", None, "DIR: The label files of tasks that have no 'until' in the schema.")
common.define_output()


def main() -> None:
    output = common.checked_output()
    schema = read_meds_schema(pathlib.Path(SCHEMA.value))
    labels = pathlib.Path(LABELS.value) if LABELS.value else None
    stays, split, checksum, left_out = read_meds(pathlib.Path(SOURCE.value), schema, labels)
    for what, count in left_out.items():
        if count:
            print(f"left out: {what} ({count:,})")
    common.write_and_summarize(output, schema.dataset, stays, split, checksum)


if __name__ == "__main__":
    cli.run(main)
