"""Cohorts: declared, prepared and stored. `ncl_tf.data.windows` feeds them to models (and alone needs TensorFlow)."""

from ncl_tf.data.cohort import Cohort, SplitData, write_cohort
from ncl_tf.data.datasets import MIMIC3_BENCHMARK, PHYSIONET2019
from ncl_tf.data.declaration import Channel, Dataset, Task
from ncl_tf.data.preprocessing import Preprocessor
from ncl_tf.data.stays import Stays

__all__ = [
    "MIMIC3_BENCHMARK",
    "PHYSIONET2019",
    "Channel",
    "Cohort",
    "Dataset",
    "Preprocessor",
    "SplitData",
    "Stays",
    "Task",
    "write_cohort",
]
