"""Helpers of all readers: a progress bar and line ends."""

import sys
from collections.abc import Iterable

from tqdm import tqdm


def progress(items: Iterable | None, what: str, unit: str = " stays", **arguments) -> tqdm:
    """Show a progress bar, of stays unless `unit` is another, on standard error."""
    return tqdm(items, desc=what, unit=unit, file=sys.stderr, **arguments)


def with_newlines(text: bytes) -> bytes:
    """End every line, the last one too, with a newline character, whatever system wrote the text."""
    if b"\r" in text:
        text = text.replace(b"\r\n", b"\n").replace(b"\r", b"\n")
    return text if text.endswith(b"\n") else text + b"\n"
