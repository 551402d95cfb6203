"""What TensorFlow writes: its errors of a disk, in one line."""

import contextlib
import pathlib
import re
from collections.abc import Iterator

import tensorflow as tf

from ncl_tf.errors import InputError


@contextlib.contextmanager
def writing(path: pathlib.Path) -> Iterator[None]:
    """Turn TensorFlow's error about a file that it cannot write into an InputError with the system's reason."""
    try:
        yield
    except tf.errors.OpError as error:
        reason = re.search(r"; ([^;\n]+?)(?: \[|\n|$)", error.message)
        raise InputError(f"{path}: cannot be written ({reason[1] if reason else error.message})") from error
