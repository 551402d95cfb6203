"""The error that bad input of users raises; its message names the value, its place and what is allowed."""

import contextlib
import lzma
import pathlib
import struct
import zlib
from collections.abc import Iterator


class InputError(ValueError):
    """Input that cannot be used. Programs print its message and exit with code 1."""


# What Python and libraries raise where bytes are damaged ...
DAMAGE = (OSError, EOFError, ValueError, RuntimeError, OverflowError, struct.error, zlib.error, lzma.LZMAError)
# ... and where content has another form than the code that takes it apart expects.
FOREIGN = (LookupError, TypeError, AttributeError, ArithmeticError, AssertionError)


@contextlib.contextmanager
def reading(path: pathlib.Path | str, what: str, *more: type[Exception]) -> Iterator[None]:
    """Turn what a library raises while it reads a damaged or foreign file into an InputError: file, what it must be, reason.

    `more` are the library's own errors. Only code that reads and takes apart what is in the file belongs inside.
    """
    try:
        with placed(path):
            yield
    except InputError:
        raise
    except (*DAMAGE, *FOREIGN, *more) as error:
        raise InputError(f"{path}: must be {what}, got a damaged or another one ({reason(error)})") from error


@contextlib.contextmanager
def placed(path: pathlib.Path | str) -> Iterator[None]:
    """Put a path before the message of an InputError that does not name it."""
    try:
        yield
    except InputError as error:
        if str(path) in str(error):
            raise
        raise InputError(f"{path}: {error}") from error


def reason(error: Exception) -> str:
    """Put an error of a library into one line, for messages."""
    if isinstance(error, OSError) and error.strerror:
        return error.strerror
    text = " ".join(str(error).split()) or type(error).__name__
    text = f"no {text}" if isinstance(error, KeyError) else text
    return text if len(text) <= 300 else f"{text[:300]} ..."
