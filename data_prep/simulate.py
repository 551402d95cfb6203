"""Simulates a ward, an intensive care unit, in the file format of a real dataset, to try everything without patient data.

The same stays, seed and form yield the same bytes, and a smaller ward is the beginning of a larger one. Scores on a simulated
ward are for checking programs. They do not show which method is better for patients.

Examples:
  # 2,000 stays in the form of PhysioNet 2019, one of nine with sepsis: seconds
  bin/prepare simulate --stays=2000 --seed=1 --output=ward
  # then prepare them
  bin/prepare physionet2019 --source=ward --split=random --output=ward.h5
  # the MIMIC-III Benchmark, with decompensation and length of stay
  bin/prepare simulate --form=mimic3_benchmark --output=benchmark

By design, patients differ from each other more than illness changes any one of them. So the change from a patient's own past is
more informative than the last values. The sicker a patient is, the more often labs are drawn: when and how often something was
measured is informative, too.
"""

import pathlib
import shlex

from absl import flags

from ncl_tf import cli
from ncl_tf.data.simulator.ward import FORMS, write_ward
from ncl_tf.data.sources.common import progress

cli.group("What to simulate")
STAYS = flags.DEFINE_integer("stays", 2000, "N: Number of stays.")
SEED = flags.DEFINE_integer("seed", 0, "N: Seed of the ward.")
FORM = flags.DEFINE_enum("form", "physionet2019", list(FORMS), "File format.")
cli.group("Output")
OUTPUT = flags.DEFINE_string("output", None, "DIR: The folder to write.", required=True)
OVERWRITE = flags.DEFINE_bool("overwrite", False, "Replace an output that exists.")

NEXT = {
    "physionet2019": "bin/prepare physionet2019 --source={0} --split=random --output={0}.h5",
    "mimic3_benchmark": "bin/prepare mimic3_benchmark --source={0} --output={0}.h5",
}
POSITIVE = {"physionet2019": "septic", "mimic3_benchmark": "fatal"}


def main() -> None:
    output = OUTPUT.value.rstrip("/")
    # The delay lets bad flags fail before the bar shows.
    with progress(None, "simulating", total=STAYS.value, delay=0.1) as bar:
        ward = write_ward(STAYS.value, SEED.value, pathlib.Path(output), FORM.value, bar.update, OVERWRITE.value)
    print(
        f"{ward['stays']:,} stays, {ward['hours']:,} hours, {ward['positive_stays']:,} {POSITIVE[FORM.value]} stays, "
        f"{ward['positive_hours']:,} positive hours ({ward['positive_hours'] / ward['hours']:.1%})"
    )
    print(cli.named(f"\nwritten: {output}\nnext: {NEXT[FORM.value].format(shlex.quote(output))}"))


if __name__ == "__main__":
    cli.run(main)
