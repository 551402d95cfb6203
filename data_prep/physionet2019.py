r"""Prepares a cohort file from the PhysioNet / Computing in Cardiology Challenge 2019.

Reads one `pNNNNNN.psv` per stay from folders or from the official zips, without unpacking them. Implausible values become
missing, and channels are scaled with statistics of the training split.

Examples:
  # the paper's cohort
  bin/prepare physionet2019 --source=training_setA.zip \
    --source=training_setB.zip --output=physionet2019.h5
  # train and validate on one hospital, test on the other
  bin/prepare physionet2019 --source=training_setA.zip \
    --source=training_setB.zip --split=hospital --output=a_to_b.h5
  # a simulated ward
  bin/prepare physionet2019 --source=ward --split=random --output=ward.h5

The published split (Horn et al., 2019) needs all 40,336 stays and leaves out three of them: p013777, p108796 and p115810. The
random split has 64 / 16 / 20 % of the stays, stratified by sepsis; a part of the data suffices. The split by hospital trains and
validates on 80 / 20 % of the stays of one hospital, stratified by sepsis, and tests on all stays of the other.
"""

import pathlib

import numpy as np
from absl import flags

from data_prep import common
from ncl_tf import cli
from ncl_tf.data.datasets import PHYSIONET2019
from ncl_tf.data.sources.physionet2019 import find_stays, read_stays
from ncl_tf.data.splits import check_hospitals, check_published, hospital_split, published_split, random_split
from ncl_tf.errors import InputError

cli.group("Input")
SOURCE = flags.DEFINE_multi_string("source", None, "PATH: A folder of .psv files or an official zip.", required=True)
cli.group("Split")
SPLIT = flags.DEFINE_enum(
    "split", "published", ["published", "random", "hospital"], "The split into train, val and test."
)
TEST_HOSPITAL = flags.DEFINE_enum(
    "test_hospital", None, ["A", "B"], "With --split=hospital: the hospital to test on. Default: B."
)
SEED = flags.DEFINE_integer("seed", 0, "N: Seed of what is random in the split.", lower_bound=0, upper_bound=2**32 - 1)
common.define_output()


def main() -> None:
    output = common.checked_output()
    if TEST_HOSPITAL.value and SPLIT.value != "hospital":
        raise InputError(f"--test_hospital requires --split=hospital, got --split={SPLIT.value}")
    paths = [pathlib.Path(source) for source in SOURCE.value]
    check = {"published": check_published, "hospital": check_hospitals}.get(SPLIT.value)
    if check:
        check(np.array([stay for stay, _, _ in find_stays(paths)]))  # before anything is read
    stays, checksum = read_stays(paths)
    septic = stays.ever_positive()
    if SPLIT.value == "published":
        split = published_split(stays.names, septic)
    elif SPLIT.value == "hospital":
        split = hospital_split(stays.names, septic, TEST_HOSPITAL.value or "B", SEED.value)
    else:
        split = random_split(septic, SEED.value)
    common.write_and_summarize(output, PHYSIONET2019, stays, split, checksum)


if __name__ == "__main__":
    cli.run(main)
