"""Copies of the exports in run directories. Imports no TensorFlow."""

import pathlib
import shutil

from ncl_tf import files
from ncl_tf.errors import InputError
from ncl_tf.runs import StoredRun


def copy_of_run(run_dir: pathlib.Path, evaluation: str | None, output: pathlib.Path) -> pathlib.Path:
    """Copy an export out of a run directory: the classifier of an evaluation, or the encoder if there is none.

    `evaluation` may be None if the run has at most one with a classifier. Returns the folder that was copied.
    """
    run = StoredRun(run_dir)
    run.require_finished()
    classifiers = run.classifiers
    if evaluation is None and len(classifiers) > 1:
        raise InputError(f"{run_dir}: has several evaluations; choose one by --evaluation={'|'.join(classifiers)}")
    if evaluation is not None and evaluation not in classifiers:
        raise InputError(
            f"{run_dir}: --evaluation must be one of {', '.join(classifiers) or 'none (bin/evaluate makes them)'}, "
            f"got {evaluation!r}"
        )
    source = classifiers[evaluation] if evaluation else next(iter(classifiers.values()), run.encoder)
    if source is None:
        raise InputError(f"{run_dir}: has no exported encoder; start the same bin/train command again to write it")
    if output.exists():
        raise InputError(f"{output}: exists already; name another --output")
    with files.atomic_folder(output) as new:
        shutil.copytree(source, new, dirs_exist_ok=True)
    return source
