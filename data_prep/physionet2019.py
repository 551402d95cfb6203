r"""Prepares a cohort file from the PhysioNet / Computing in Cardiology Challenge 2019.

Reads one `pNNNNNN.psv` per stay from folders or from the official zips, without unpacking them. Implausible values become
missing, and channels are scaled with statistics of the training split.

Examples:
  # the paper's cohort
  bin/prepare physionet2019 --source=training_setA.zip \
    --source=training_setB.zip --output=physionet2019.h5
  # a part of the data, with a random split
  bin/prepare physionet2019 --source=training_setA.zip --split=random \
    --output=set_a.h5
  # a simulated ward
  bin/prepare physionet2019 --source=ward --split=random --output=ward.h5

The published split (Horn et al., 2019) needs all 40,336 stays and leaves out three of them: p013777, p108796 and p115810. The
random split has 64 / 16 / 20 % of the stays, stratified by sepsis.
"""

import pathlib

import numpy as np
from absl import flags

from data_prep import common
from ncl_tf import cli
from ncl_tf.data.datasets import PHYSIONET2019
from ncl_tf.data.sources.physionet2019 import find_stays, read_stays
from ncl_tf.data.splits import check_published, published_split, random_split

cli.group("Input")
SOURCE = flags.DEFINE_multi_string("source", None, "PATH: A folder of .psv files or an official zip.", required=True)
cli.group("Split")
SPLIT = flags.DEFINE_enum("split", "published", ["published", "random"], "The split into train, val and test.")
SEED = flags.DEFINE_integer("seed", 0, "N: Seed of the random split.", lower_bound=0, upper_bound=2**32 - 1)
common.define_output()


def main() -> None:
    output = common.checked_output()
    paths = [pathlib.Path(source) for source in SOURCE.value]
    if SPLIT.value == "published":
        check_published(np.array([stay for stay, _, _ in find_stays(paths)]))  # before anything is read
    stays, checksum = read_stays(paths)
    septic = stays.ever_positive()
    if SPLIT.value == "published":
        split = published_split(stays.names, septic)
    else:
        split = random_split(septic, SEED.value)
    common.write_and_summarize(output, PHYSIONET2019, stays, split, checksum)


if __name__ == "__main__":
    cli.run(main)
