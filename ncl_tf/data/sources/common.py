"""Helpers of all readers: a progress bar, line ends and numbers."""

import sys
from collections.abc import Callable, Iterable

import numpy as np
import pyarrow as pa
import pyarrow.compute
from tqdm import tqdm

from ncl_tf.data.declaration import Channel
from ncl_tf.errors import InputError


def progress(items: Iterable, what: str, **arguments) -> tqdm:
    """Show a progress bar of stays on standard error."""
    return tqdm(items, desc=what, unit=" stays", file=sys.stderr, **arguments)


def with_newlines(text: bytes) -> bytes:
    """End every line, the last one too, with a newline character, whatever system wrote the text."""
    if b"\r" in text:
        text = text.replace(b"\r\n", b"\n").replace(b"\r", b"\n")
    return text if text.endswith(b"\n") else text + b"\n"


def numbers(column: pa.ChunkedArray, channel: Channel, place: Callable[[int], str]) -> np.ndarray:
    """Convert a column of texts or numbers to float64 [rows], NaN where null; an error names the place of a bad cell."""
    if pa.types.is_floating(column.type):
        column = pa.compute.if_else(pa.compute.is_nan(column), None, column)
    if not pa.types.is_string(column.type):
        try:
            column = column.cast(pa.string())
        except pa.ArrowException as error:
            raise InputError(
                f"{place(0)}, column {channel.name}: must hold numbers or texts, got type {column.type}"
            ) from error
    texts = column.combine_chunks().dictionary_encode()
    codes = np.full(len(texts.dictionary) + 1, np.nan)  # the last one is for null
    for index, text in enumerate(texts.dictionary.to_pylist()):
        try:
            codes[index] = channel.code(text)
        except ValueError as error:
            row = texts.indices.to_pylist().index(index)
            raise InputError(f"{place(row)}, column {channel.name}: must be {channel.allowed}, got {text!r}") from error
    return codes[texts.indices.fill_null(-1).to_numpy()]
