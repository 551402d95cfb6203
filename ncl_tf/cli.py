"""Start-up, `--help`, errors and exit codes of all programs."""

import os
import sys
from collections.abc import Callable

from absl import app, flags, logging

from ncl_tf.errors import InputError


def run(main: Callable[[], None]) -> None:
    """Run `main` under absl. `--help` shows the program's docstring and flags; bad input exits with 1, Ctrl-C with 130."""
    app.run(lambda _: _guarded(main), flags_parser=_parse_flags)


def _guarded(main: Callable[[], None]) -> int:
    logging.set_verbosity(logging.WARNING)
    try:
        main()
    except InputError as error:
        print(f"error: {error}", file=sys.stderr)
        return 1
    except KeyboardInterrupt:
        print("interrupted", file=sys.stderr)
        return 130
    except BrokenPipeError:
        _drop_output()
    return 0


def show(text: str) -> None:
    """Print a text; a reader such as `head` may close the pipe before its end."""
    try:
        print(text, flush=True)
    except BrokenPipeError:
        _drop_output()


def _drop_output() -> None:
    """Discard further output after the reader has closed the pipe."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def _parse_flags(arguments: list[str]) -> list[str]:
    if {"--help", "-help", "-h"} & set(arguments[1:]):
        described = flags.FLAGS.main_module_help().split(":\n", 1)[1]  # without the line that names the file
        show(f"{(sys.modules['__main__'].__doc__ or '').strip()}\n\nFlags:\n{described}")
        sys.exit(0)
    try:
        rest = flags.FLAGS(arguments)
        if len(rest) > 1:
            raise flags.Error(f"unexpected argument {rest[1]!r}; flags are written --name=value")
    except flags.Error as error:
        message = str(error)
        if message.endswith("must have a value other than None."):
            message = f"{message.split('=')[0]} is required"
        print(f"error: {message}\nRun the same command with --help for more.", file=sys.stderr)
        sys.exit(1)
    return rest
