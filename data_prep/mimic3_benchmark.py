"""MIMIC-III Benchmark (Harutyunyan et al., 2019) -> cohort file.

Reads the multitask output of mimic3-benchmarks: `train/` and `test/` with `*_timeseries.csv`, and `train_listfile.csv`,
`val_listfile.csv`, `test_listfile.csv` beside them; a folder or a tar file of it, which is not unpacked to disk.

  bin/prepare mimic3_benchmark --source=data/multitask --output=mimic3.h5

In mimic3-benchmarks, `python -m mimic3benchmark.scripts.create_multitask data/root/ data/multitask/` makes the series and
`python -m mimic3models.split_train_val data/multitask/` the three listfiles. Without access to MIMIC-III, try
`bin/prepare simulate --form=mimic3_benchmark`.

Where the authors' code differs from the paper, a flag chooses its behavior: --label_row=next,
--before_first_event=carry_back, --categorical=guess.
"""

import pathlib

from absl import flags

from data_prep import common
from ncl_tf import cli
from ncl_tf.data.datasets import MIMIC3_BENCHMARK
from ncl_tf.data.sources.mimic3_benchmark import guess_categorical, read_stays


def define_flags() -> None:
    """Define the program's flags; not at import, since other programs have flags of the same names."""
    flags.DEFINE_string("source", None, "The multitask folder, or a tar file of it.", required=True)
    flags.DEFINE_enum("label_row", "same", ["same", "next"], "Row that carries the label of hour j: j, or j + 1.")
    before, kinds = ["missing", "carry_back"], ["declare", "guess"]
    flags.DEFINE_enum(
        "before_first_event", "missing", before, "Hours before the first event: missing, or the values of that event."
    )
    flags.DEFINE_enum(
        "categorical",
        "declare",
        kinds,
        "Categorical channels: as declared, or all with at most 25 distinct whole numbers.",
    )
    common.define_flags()
    flags.adopt_module_key_flags(common)


def main() -> None:
    output = common.checked_output()
    carry_back, shift = flags.FLAGS.before_first_event == "carry_back", int(flags.FLAGS.label_row == "next")
    stays, split, checksum = read_stays(pathlib.Path(flags.FLAGS.source), carry_back, shift)
    dataset = MIMIC3_BENCHMARK
    if flags.FLAGS.categorical == "guess":
        dataset = guess_categorical(MIMIC3_BENCHMARK, stays, split["train"])
    common.write_and_summarize(output, dataset, stays, split, checksum)


if __name__ == "__main__":
    define_flags()
    cli.run(main)
