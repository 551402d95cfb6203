"""What the preparation programs share: flags, progress and the summary at the end."""

import pathlib
import sys
from collections.abc import Callable, Iterable

import numpy as np
import pyarrow as pa
import pyarrow.compute
from absl import flags
from tqdm import tqdm

from ncl_tf import files
from ncl_tf.data.cohort import write_cohort
from ncl_tf.data.declaration import Channel, Dataset
from ncl_tf.data.describe import describe
from ncl_tf.data.splits import Split
from ncl_tf.data.stays import Stays
from ncl_tf.errors import InputError


def define_flags() -> None:
    """The flags that all preparation programs have; not at import, since readers of raw files are used by others, too."""
    flags.DEFINE_string("output", None, "Where to write.", required=True)
    flags.DEFINE_bool("overwrite", False, "Replace an output that exists already.")


def checked_output() -> pathlib.Path:
    """--output, refused at once if it exists without --overwrite or cannot be written."""
    path = pathlib.Path(flags.FLAGS.output)
    files.check_output(path, flags.FLAGS.overwrite)
    return path


def progress(items: Iterable, what: str, unit: str = "stays", **arguments) -> tqdm:
    """A progress bar on standard error."""
    return tqdm(items, desc=what, unit=f" {unit}", file=sys.stderr, **arguments)


def write_and_summarise(path: pathlib.Path, dataset: Dataset, stays: Stays, split: Split, checksum: str) -> None:
    """Writes the cohort file and prints what is in it."""
    print(f"preparing {len(stays.names):,} stays, {len(stays.values):,} hours", file=sys.stderr)
    write_cohort(path, dataset, stays, split, checksum)
    left_out = np.setdiff1d(np.arange(len(stays.names)), np.concatenate(list(split.values())))
    if len(left_out):
        print(f"left out by the split: {', '.join(stays.names[left_out])}\n")
    print(describe(path, channels=False))
    print(f"\nwritten: {path}\nnext: bin/cohort describe {path}")


def with_newlines(text: bytes) -> bytes:
    """The text with every line, the last one too, ended by a newline character, whatever system wrote it."""
    if b"\r" in text:
        text = text.replace(b"\r\n", b"\n").replace(b"\r", b"\n")
    return text if text.endswith(b"\n") else text + b"\n"


def numbers(column: pa.ChunkedArray, channel: Channel, place: Callable[[int], str]) -> np.ndarray:
    """A column of texts or numbers -> float64 [rows], NaN where null; a cell that means nothing is told with its place."""
    if pa.types.is_floating(column.type):
        column = pa.compute.if_else(pa.compute.is_nan(column), None, column)
    if not pa.types.is_string(column.type):
        try:
            column = column.cast(pa.string())
        except pa.ArrowException as error:
            raise InputError(
                f"{place(0)}, column {channel.name}: of type {column.type}; expected are numbers or texts"
            ) from error
    texts = column.combine_chunks().dictionary_encode()
    codes = np.full(len(texts.dictionary) + 1, np.nan)  # the last one is for null
    for index, text in enumerate(texts.dictionary.to_pylist()):
        try:
            codes[index] = channel.code(text)
        except ValueError as error:
            row = texts.indices.to_pylist().index(index)
            raise InputError(f"{place(row)}, column {channel.name}: {text!r} is not {channel.allowed}") from error
    return codes[texts.indices.fill_null(-1).to_numpy()]
