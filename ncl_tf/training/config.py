"""Reading gin configurations, with errors that help."""

import contextlib
import difflib
import importlib
import inspect
import io
import re
import sys
import tokenize
from collections.abc import Callable, Iterator, Sequence

import gin

from ncl_tf.errors import InputError, reading
from ncl_tf.methods.base import Method
from ncl_tf.runs import bindings
from ncl_tf.runs.configuration import find_gin_file, read_configuration
from ncl_tf.training import factories  # noqa: F401 - configurations bind them
from ncl_tf.training.used_settings import CONFIGURABLES, UsedSettings

EXAMPLE = "--gin_file=gin/quickstart.gin"
PRINTED = "# Macros:"  # how a configuration begins that gin has printed, such as that in a run directory


def method() -> Callable[..., Method]:
    """Return the factory of the configured method."""
    return gin.query_parameter("train.method").scoped_configurable_fn


def configure(gin_files: Sequence[str], gin_params: Sequence[str]) -> None:
    """Read gin files, then single bindings, and refuse what cannot be meant.

    Args:
        gin_files: paths, which are looked up as given, then below the project's gin/ folder; later files win.
        gin_params: bindings such as "alpha = 0.5"; those that the configured method ignores are refused. Files may hold
            settings of other methods, as budgets do.
    """
    gin.clear_config()
    used = set()
    for file in gin_files:
        used |= _read(file)
    _bind(gin_params)
    _check_macros(used)
    bound = bindings(gin.config_str())
    for name in ("cohort", "seed", "budget"):
        if (value := bound.get(f"train.{name}", f"%{name}")) != f"%{name}":
            raise InputError(f"train.{name} = {value}: other parts use it, too; set {name} = {value} instead")
    if not re.fullmatch(r"@[\w./]+", value := bound.get("train.method", "@a")):
        raise InputError(f"train.method must be the name of a method, such as @momentum_contrast, got {value}")
    _check_used(gin_params, UsedSettings(bound))


def configure_again(configuration: str, gin_params: Sequence[str]) -> None:
    """Read the text of a run's configuration, which was checked when the run began, then single bindings."""
    gin.clear_config()
    _parse(configuration, "the run's configuration")
    _bind(gin_params)


def _read(file: str, includes: tuple[str, ...] = ()) -> set[str]:
    """Parse a gin file and, in the place of its include statements, the files that they name.

    gin's own include looks into Python packages, too, and fails where a folder of the user's is named like one of ours.

    Returns the macros that are used so far; of the configuration in a run directory, which was checked when the run began,
    also those that a binding of the run has taken the place of. `includes` are the files whose
    include statements led here.
    """
    path = find_gin_file(file, *includes[-1:])
    if file in includes:
        raise InputError(f"{includes[-1]}: must not include {file!r}, which includes it")
    with reading(file, "a gin file, which is text"):
        lines = path.read_text(encoding="utf-8").splitlines()
    if lines[:1] == [PRINTED]:
        _parse(read_configuration(path), file)
        return set.union(*_macros())
    first = 0
    for number, line in enumerate([*lines, "include ''"]):
        if included := re.match(r"""include\s+(['"])(.*)\1\s*(#.*)?$""", line):
            text = io.StringIO("\n" * first + "\n".join(lines[first:number]))  # lines keep their numbers
            text.name = str(path)
            _parse(text, file)
            first = number + 1
            if number < len(lines):
                _read(included[2], (*includes, file))
    return _macros()[1]


def _bind(gin_params: Sequence[str]) -> None:
    for param in gin_params:
        _parse(param, f"--gin_param={param!r}")


def import_modules(names: Sequence[str]) -> None:
    """Import a user's modules, which may lie in the working folder, so that configurations can name what is in them."""
    sys.path.append(".")
    for name in names:
        try:
            importlib.import_module(name)
        except ImportError as error:
            raise InputError(f"--import={name}: {error}") from error


@contextlib.contextmanager
def plain_errors() -> Iterator[None]:
    """Show errors of configurables without gin's trail of function addresses, and name bindings that are missing."""
    try:
        yield
    except InputError as error:
        raise InputError(str(error).split("\n  In call to configurable")[0]) from error
    except RuntimeError as error:
        missing = re.match(r"Required bindings for `(\w+)` not provided in config: \[(.*)\]", str(error))
        if missing is None:
            raise
        raise InputError(
            f"no {missing[2]} for {missing[1]!r}; name the file of a method first, such as {EXAMPLE}"
        ) from error


def macro(name: str):
    """Return the value of a macro."""
    try:
        return gin.query_parameter(f"{name}/macro.value")
    except ValueError as error:
        raise InputError(f"macro {name!r} is not set; name the file of a method, such as {EXAMPLE}") from error


def _parse(statements: str | io.StringIO, where: str) -> None:
    """Give statements to gin; errors name the file or flag that they are from."""
    try:
        gin.parse_config(statements)
    except SyntaxError as error:
        reason = re.sub(r"malformed node or string.*", "neither a value nor a reference; texts need quotes", str(error))
        raise InputError(f"{where}: not valid gin: {reason}") from error
    except tokenize.TokenError as error:
        raise InputError(f"{where}: not valid gin: {error.args[0]} (line {error.args[1][0]})") from error
    except (ValueError, TypeError, AttributeError, LookupError, ImportError, RecursionError, MemoryError) as error:
        what = next(iter(str(error).splitlines()), type(error).__name__)
        raise InputError(f"{where}: {what}{_suggestion(str(error))}") from error


def _suggestion(message: str) -> str:
    """Suggest the known name nearest to the unknown one that gin's message quotes."""
    known = sorted(CONFIGURABLES)
    for unknown in re.findall(r"'@?([\w./]+)(?:\(\))?'", message):
        near = difflib.get_close_matches(unknown.split(".")[0].split("/")[-1], known, n=1)
        if near and near[0] not in message:
            return f" Did you mean {near[0]!r}?"
    parameter = re.search(r"Configurable '(\w+)' doesn't have a parameter named '(\w+)'", message)
    if parameter and parameter[1] in known:
        names = list(inspect.signature(gin.get_configurable(parameter[1])).parameters)
        near = difflib.get_close_matches(parameter[2], names, n=1)
        return f" Did you mean {near[0]!r}?" if near else f" It has {', '.join(names)}."
    return " If it is yours, name its module by --import." if message.startswith("No configurable matching") else ""


def _macros() -> tuple[set[str], set[str]]:
    """Return the macros that are set, and those that something refers to."""
    text = "\n".join(line for line in gin.config_str(max_line_length=10**6).splitlines() if not line.startswith("#"))
    return set(re.findall(r"^(\w+) = ", text, re.MULTILINE)), set(re.findall(r"%(\w+)", text))


def _check_macros(used: set[str]) -> None:
    """Refuse macros that nothing refers to (gin takes any name) and references to macros that nothing sets.

    `used` are the macros that some file refers to, even where a later binding stands in its place.
    """
    defined, referenced = _macros()
    settings = UsedSettings(bindings(gin.config_str()))
    for name in sorted(defined - referenced - used):
        near = difflib.get_close_matches(name, sorted(referenced), n=1)
        uses = (
            f"{settings.method} uses {settings.describe()}"
            if settings.method
            else f"name the file of a method first, such as {EXAMPLE}"
        )
        raise InputError(
            f"this configuration uses no macro {name!r}; " + (f"did you mean {near[0]!r}?" if near else uses)
        )
    for name in sorted(referenced - defined):
        example = "'path/to/file.h5'" if name == "cohort" else "..."
        raise InputError(f'macro {name!r} is not set; add --gin_param="{name} = {example}"')


def _check_used(gin_params: Sequence[str], settings: UsedSettings) -> None:
    """Refuse bindings that the configured method ignores."""
    for param in gin_params if settings.known else ():
        for name in re.findall(r"^([\w./]+)\s*=", param, re.MULTILINE):
            if not settings.uses(name):
                raise InputError(
                    f"--gin_param={param!r}: {settings.method} ignores {name!r}; it uses {settings.describe()}"
                )
