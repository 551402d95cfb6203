"""Reading gin configurations, with errors that help."""

import contextlib
import difflib
import importlib
import inspect
import pathlib
import re
import sys
import tokenize
from collections.abc import Callable, Iterator, Sequence

import gin

from ncl_tf.errors import InputError
from ncl_tf.methods.base import Method
from ncl_tf.runs import bindings
from ncl_tf.training import factories  # noqa: F401 - configurations bind them

EXAMPLE = "--gin_file=gin/quickstart.gin"
GIN_FOLDER = pathlib.Path(__file__).resolve().parents[2] / "gin"
for _folder in (GIN_FOLDER, GIN_FOLDER.parent):
    gin.add_config_file_search_path(str(_folder))
# gin would look into Python packages, too, and fail where a folder of the user's is named like one of ours, say datasets/.
del gin.config._FILE_READERS[1:]


def method() -> Callable[..., Method]:
    """The factory of the configured method."""
    return gin.query_parameter("train.method").scoped_configurable_fn


def load(gin_files: Sequence[str], gin_params: Sequence[str]) -> None:
    """Reads gin files, then single bindings; paths are looked up as given, then below the project's gin/ folder."""
    gin.clear_config()
    used = set()
    for file in gin_files:
        _parse(lambda file=file: gin.parse_config_file(file), file)
        used |= _macros()[1]
    _bind(gin_params)
    _check_macros(used)
    bound = bindings(gin.config_str())
    for name in ("cohort", "seed", "budget"):
        if (value := bound.get(f"train.{name}", f"%{name}")) != f"%{name}":
            raise InputError(f"train.{name} = {value}: other parts need it, too; set {name} = {value} instead")
    if not re.fullmatch(r"@[\w./]+", value := bound.get("train.method", "@a")):
        raise InputError(
            f"train.method = {value}; allowed: the name of a method behind an @, such as @momentum_contrast"
        )


def load_again(file: pathlib.Path, gin_params: Sequence[str]) -> None:
    """Reads the configuration of a run, which was checked when it began, then single bindings."""
    gin.clear_config()
    _parse(lambda: gin.parse_config_file(str(file)), str(file))
    _bind(gin_params)


def _bind(gin_params: Sequence[str]) -> None:
    for param in gin_params:
        _parse(lambda param=param: gin.parse_config(param), f"--gin_param={param!r}")


def import_modules(names: Sequence[str]) -> None:
    """Imports a user's modules, which may lie in the working folder, so that configurations can name what is in them."""
    sys.path.append(".")
    for name in names:
        try:
            importlib.import_module(name)
        except ImportError as error:
            raise InputError(f"--import={name}: {error}") from error


@contextlib.contextmanager
def plain_errors() -> Iterator[None]:
    """Around calls of configurables: errors without gin's trail of function addresses, and missing bindings told."""
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
    """Value of a macro."""
    try:
        return gin.query_parameter(f"{name}/macro.value")
    except ValueError as error:
        raise InputError(f"macro {name!r} is not set; name the file of a method, such as {EXAMPLE}") from error


def _parse(parse, where: str) -> None:
    try:
        parse()
    except OSError as error:
        missing = re.search(r"Unable to open file: (.*)\. Searched", str(error))
        what, file = "no such gin file", where
        if missing is not None and missing[1] != where:
            what, file = f"includes {missing[1]!r}: no such file", missing[1]
        raise InputError(f"{where}: {what}, neither here nor in {GIN_FOLDER.name}/{_near_file(file)}") from error
    except SyntaxError as error:
        reason = re.sub(r"malformed node or string.*", "neither a value nor a reference; texts need quotes", str(error))
        raise InputError(f"{where}: not valid gin: {reason}") from error
    except tokenize.TokenError as error:
        raise InputError(f"{where}: not valid gin: {error.args[0]} (line {error.args[1][0]})") from error
    except (ValueError, TypeError, AttributeError, ImportError) as error:
        raise InputError(f"{where}: {str(error).splitlines()[0]}{_suggestion(str(error))}") from error


def _near_file(file: str) -> str:
    """The project's gin file whose path is nearest to that of one that is not there."""
    known = [str(path.relative_to(GIN_FOLDER.parent).with_suffix("")) for path in GIN_FOLDER.rglob("*.gin")]
    near = difflib.get_close_matches(str(pathlib.Path(file).with_suffix("")), known, n=1)
    return f". Did you mean {near[0] + '.gin'!r}?" if near else ""


def _suggestion(message: str) -> str:
    """The known name nearest to the unknown one that gin's message quotes."""
    known = [name.split(".")[-1] for name in gin.config._REGISTRY._selector_map]
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
    """The macros that are set, and those that something refers to."""
    text = "\n".join(line for line in gin.config_str(max_line_length=10**6).splitlines() if not line.startswith("#"))
    return set(re.findall(r"^(\w+) = ", text, re.MULTILINE)), set(re.findall(r"%(\w+)", text))


def _check_macros(used: set[str]) -> None:
    """Refuses macros that nothing refers to (gin takes any name) and references to macros that nothing sets.

    `used` are those that some file refers to, even where a later binding stands in its place.
    """
    defined, referenced = _macros()
    for name in sorted(defined - referenced - used):
        near = difflib.get_close_matches(name, sorted(referenced), n=1)
        used = ", ".join(sorted(referenced)) or f"none: name the file of a method first, such as {EXAMPLE}"
        hint = f"did you mean {near[0]!r}?" if near else f"it uses {used}"
        raise InputError(f"this configuration uses no macro {name!r}; {hint}")
    for name in sorted(referenced - defined):
        example = "'path/to/file.h5'" if name == "cohort" else "..."
        raise InputError(f'macro {name!r} is not set; add --gin_param="{name} = {example}"')
