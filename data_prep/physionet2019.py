"""PhysioNet / Computing in Cardiology Challenge 2019 -> cohort file.

Reads one `pNNNNNN.psv` per stay from folders or from the official zips (which are not unpacked to disk), cleans, scales with
the training split's statistics and writes one HDF5 cohort.

The paper's cohort, from both training sets:
  bin/prepare physionet2019 --source=training_setA.zip --source=training_setB.zip --output=physionet2019.h5

Any part of them, or a simulated ward, with a stratified random split (64 / 16 / 20 %):
  bin/prepare physionet2019 --source=ward/ --split=random --seed=1 --output=ward.h5

The published split (Horn et al., 2019; the default) is defined on all 40,336 stays and refuses anything else; it leaves out the
three stays p013777, p108796 and p115810.
"""

import pathlib

import numpy as np
from absl import flags

from data_prep import common
from ncl_tf import cli
from ncl_tf.data.datasets import PHYSIONET2019
from ncl_tf.data.sources.physionet2019 import find_stays, read_stays
from ncl_tf.data.splits import check_published, published_split, random_split


def define_flags() -> None:
    """Define the program's flags; not at import, since other programs have flags of the same names."""
    flags.DEFINE_multi_string("source", None, "A folder of .psv files or an official zip; repeat it.", required=True)
    flags.DEFINE_enum("split", "published", ["published", "random"], "Which split to use, see above.")
    flags.DEFINE_integer("seed", 0, "Seed of --split=random.", lower_bound=0, upper_bound=2**32 - 1)
    common.define_flags()
    flags.adopt_module_key_flags(common)


def main() -> None:
    output = common.checked_output()
    paths = [pathlib.Path(source) for source in flags.FLAGS.source]
    if flags.FLAGS.split == "published":
        check_published(np.array([stay for stay, _, _ in find_stays(paths)]))  # before anything is read
    stays, checksum = read_stays(paths)
    septic = stays.ever_positive()
    if flags.FLAGS.split == "published":
        split = published_split(stays.names, septic)
    else:
        split = random_split(septic, flags.FLAGS.seed)
    common.write_and_summarize(output, PHYSIONET2019, stays, split, checksum)


if __name__ == "__main__":
    define_flags()
    cli.run(main)
