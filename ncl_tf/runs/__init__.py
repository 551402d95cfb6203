"""The run store: directories of trainings, what they hold and what ran them. Imports no TensorFlow."""

from ncl_tf.runs.configuration import bindings, find_gin_file
from ncl_tf.runs.environment import code_version, environment
from ncl_tf.runs.evaluation import EvaluationFolder
from ncl_tf.runs.folder import TrainingFolder, Unsaved
from ncl_tf.runs.output import OutputFolder
from ncl_tf.runs.run import Run
from ncl_tf.runs.store import StoredRun
from ncl_tf.runs.variables import checksum, named_variables

__all__ = [
    "EvaluationFolder",
    "OutputFolder",
    "Run",
    "StoredRun",
    "TrainingFolder",
    "Unsaved",
    "bindings",
    "checksum",
    "code_version",
    "environment",
    "find_gin_file",
    "named_variables",
]
