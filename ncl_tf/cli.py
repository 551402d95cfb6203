"""Start-up, `--help`, errors and exit codes of all programs.

A program's docstring says in paragraphs what it does, then gives "Examples:", then notes. `--help` shows its flags before the
notes, in the groups that `group` opens. A flag's help may begin with a name for the value: "FILE: The cohort file."
"""

import difflib
import functools
import itertools
import os
import pathlib
import re
import shutil
import sys
import textwrap
from collections.abc import Callable, Sequence
from typing import NoReturn

from absl import app, flags, logging

from ncl_tf import memory, stopping
from ncl_tf.errors import InputError

HELP_FLAGS = {"--help", "-help", "-h", "--helpfull"}
MOST_COLUMNS, COLUMN_OF_HELP = 100, 26

installed_as = "bin/"  # what stands before a program's name; once installed, `bin/train` is `ncl_tf train`
_groups: dict[str, int] = {}  # by heading, the number of flags defined before
_alternatives: list[tuple[str, ...]] = []  # the flags of one of these are required


def group(heading: str) -> None:
    """Show the flags that are defined from here on under this heading."""
    _groups[heading] = len(flags.FLAGS)


def need_one_of(*alternatives: tuple[str, ...]) -> None:
    """Require all flags of at least one of the alternatives."""
    _alternatives.extend(alternatives)


def run(main: Callable[..., None], operand: str | None = None, several: bool = False) -> None:
    """Run `main` under absl, with the value of the operand, or of several, if it has one.

    Bad input exits with 1, a signal that asks to stop with 128 + its number: Ctrl-C with 130, SIGTERM with 143.
    """
    group("Memory")
    flags.DEFINE_float(
        "max_gigabytes",
        None,
        "NUMBER: Refuse a file that claims to hold more, before it is read. Default: the memory that the machine has.",
        lower_bound=0,
    )
    app.run(lambda rest: _guarded(main, *rest[1:]), flags_parser=functools.partial(_parse_flags, operand, several))


def subcommand(names: Sequence[str]) -> str:
    """Remove the first argument from the command line and return it; it must be one of `names`."""
    name = sys.argv[1] if len(sys.argv) > 1 else ""
    if name in HELP_FLAGS:
        _show_help(name == "--helpfull")
    if name not in names:
        got = name and f", got {name!r}{_nearest(name, names)}"
        _fail(f"{_program()} needs {'one of ' * (len(names) > 1)}{', '.join(names)}{got}", True)
    return sys.argv.pop(1)


def show(text: str) -> None:
    """Print a text; a reader such as `head` may close the pipe before its end."""
    try:
        print(text, flush=True)
    except BrokenPipeError:
        _drop_output()


def named(text: str) -> str:
    """Name the programs in a text as the user starts them."""
    return re.sub(r"(?<![\w/.])bin/(?=[a-z])", installed_as, text)


def _guarded(main: Callable[..., None], *operands: str) -> int:
    logging.set_verbosity(logging.WARNING)
    if flags.FLAGS.max_gigabytes is not None:
        memory.most = flags.FLAGS.max_gigabytes * memory.GIGABYTE
    try:
        stopping.listen()
        main(*operands)
    except InputError as error:
        print(f"error: {_printable(named(str(error)))}", file=sys.stderr)
        return 1
    except MemoryError as error:
        print(f"error: the memory of this machine is full ({error})", file=sys.stderr)
        return 1
    except stopping.Stopped as stop:
        print(named(f"stopped by {stop}{stop.advice}"), file=sys.stderr)
        return 128 + stop.number
    except BrokenPipeError:
        _drop_output()
    finally:
        stopping.leave()
    return 0


def _printable(text: str) -> str:
    """Escape what would control the terminal, or could not be printed; it may come from a damaged file."""
    return "".join(letter if letter.isprintable() or letter == "\n" else repr(letter)[1:-1] for letter in text)


def _drop_output() -> None:
    """Discard further output after the reader has closed the pipe."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def _parse_flags(operand: str | None, several: bool, arguments: list[str]) -> list[str]:
    if asked := HELP_FLAGS & set(arguments[1:]):
        _show_help("--helpfull" in asked)
    try:
        rest = flags.FLAGS(arguments)
    except flags.UnrecognizedFlagError as error:
        _fail(f"unknown flag --{error.flagname}{_nearest(error.flagname, _own_flags(), '--')}")
    except flags.Error as error:
        missing = [_usage(name)[0] for name in _own_flags() if _is_required(name) and flags.FLAGS[name].value is None]
        if str(error).endswith("must have a value other than None."):
            _fail(f"{_program()} needs {', '.join(missing)}", True)
        _fail(_reworded(str(error)))
    if operand and len(rest) == 1:
        _fail(f"{_program()} needs {operand}", True)
    if _alternatives and not any(all(flags.FLAGS[name].value for name in names) for names in _alternatives):
        written = (" and ".join(_usage(name)[0] for name in names) for names in _alternatives)
        _fail(f"{_program()} needs {', or '.join(written)}", True)
    if len(rest) > 1 + bool(operand) and not several:
        _fail(f"unexpected argument {rest[-1]!r}; flags are written --name=value")
    return rest


def _fail(message: str, with_examples: bool = False) -> NoReturn:
    """Exit with an error, two commands to try if wanted, and where to read more."""
    commands = re.findall(r"^  bin/(?:.*\\\n)*.*", _paragraphs()[1], re.MULTILINE)
    examples = ["Try:", *commands[:2]] if with_examples else []
    sys.exit(named("\n".join([f"error: {message}", *examples, f"Run {_program()} --help for more."])))


def _nearest(name: str, names: Sequence[str], prefix: str = "") -> str:
    return "".join(f"; did you mean {prefix}{near}?" for near in difflib.get_close_matches(name, names, 1))


def _reworded(message: str) -> str:
    """Reword absl's error about a value: what it must be, and what it is."""
    match = re.match(r"flag --(\w+)=(.*?): ", message)
    if not match:
        return message
    parser = flags.FLAGS[match[1]].parser
    choices = ["true", "false"] if flags.FLAGS[match[1]].boolean else getattr(parser, "enum_values", [])
    allowed = f"one of {', '.join(choices)}" if choices else parser.syntactic_help
    return f"--{match[1]} must be {allowed}, got {match[2]!r}"


def _program() -> str:
    path = pathlib.Path(sys.argv[0])
    if path.name.partition(".")[0] == "ncl_tf":
        return "ncl_tf"
    return f"{installed_as}prepare {path.stem}" if path.suffix else f"{installed_as}{path.name}"


def _own_flags() -> list[str]:
    """List the program's flags, without absl's."""
    return [name for name in flags.FLAGS if not flags.FLAGS.find_module_defining_flag(name).startswith("absl.")]


def _is_required(name: str) -> bool:
    return any("other than None" in validator.message for validator in flags.FLAGS[name].validators)


def _usage(name: str) -> tuple[str, str]:
    """Return a flag as it is written, and its help."""
    flag = flags.FLAGS[name]
    value, text = re.match(r"(?:(\S+):\s)?(.*)", flag.help.split(";\n")[0], re.DOTALL).groups()
    notes = ["required"] * _is_required(name) + ["repeatable"] * isinstance(flag, flags.MultiFlag)
    if any(name in names for names in _alternatives):
        others = (" and ".join(f"--{other}" for other in names) for names in _alternatives if name not in names)
        notes = [f"required without {' or '.join(others)}", *notes]
    if flag.default not in (None, []) and flag.default is not False and "efault" not in text:
        notes.append(f"default: {str(flag.default).removesuffix('.0')}")
    written = f"--{name}" if flag.boolean else f"--{name}={(value or 'VALUE').strip('<>')}"
    return written, text + (notes and f" ({', '.join(notes)})" or "")


def _paragraphs() -> tuple[str, str, str]:
    """Return the parts of the main module's docstring: description, examples, notes."""
    before, _, after = (sys.modules["__main__"].__doc__ or "").partition("\n\nExamples:\n")
    examples, _, notes = after.partition("\n\n")
    return before.strip(), f"Examples:\n{examples.rstrip()}", notes.strip("\n")


def _show_help(full: bool) -> NoReturn:
    width = min(shutil.get_terminal_size((MOST_COLUMNS, 24)).columns, MOST_COLUMNS)

    def filled(text: str, indent: str = "", first: str = "") -> str:
        settings = {"break_on_hyphens": False, "break_long_words": False}
        return textwrap.fill(text, width, initial_indent=first, subsequent_indent=indent, **settings)

    def prose(text: str) -> list[str]:
        """Fill paragraphs, but for blocks with indented lines."""
        return [part if "\n  " in f"\n{part}" else filled(part) for part in text.split("\n\n") if part]

    def described(name: str) -> str:
        written, text = _usage(name)
        indent = " " * COLUMN_OF_HELP
        first = f"  {written}".ljust(COLUMN_OF_HELP)
        return filled(text, indent, first) if first.endswith(" ") else f"{first}\n{filled(text, indent, indent)}"

    description, examples, notes = _paragraphs()
    names, own = list(flags.FLAGS), _own_flags()
    groups = [
        "\n".join([heading, *(described(name) for name in names[start:end] if name in own)])
        for (heading, start), (_, end) in itertools.pairwise([*_groups.items(), ("", len(names))])
    ]
    app.define_help_flags()
    others = re.findall(r"^absl\.\w+:(?:\n .*)*", flags.FLAGS.get_help(), re.MULTILINE) if full else []
    show(named("\n\n".join([*prose(description), examples, *groups, *prose(notes), *others])))
    sys.exit(0)
