"""Where gin meets the code: what can be configured, and reading configurations with errors that help.

Losses, layers and neighbourhoods know nothing of gin; the factories here do. A neighbourhood of your own becomes
configurable with `gin.external_configurable(MyNeighborhood)` in a module that `bin/train --import=my_module` imports.
"""

import contextlib
import difflib
import functools
import importlib
import inspect
import pathlib
import re
import sys
import tokenize
from collections.abc import Callable, Iterator, Sequence

import gin
import keras

from ncl_tf import augmentations, decoders, encoders, fast, losses, neighborhoods
from ncl_tf.data.cohort import Cohort
from ncl_tf.errors import InputError
from ncl_tf.evaluation.heads import make_head
from ncl_tf.evaluation.protocol import Protocol, labelled_training, limited_batch
from ncl_tf.methods.autoencoder import Autoencoder
from ncl_tf.methods.momentum import MomentumContrast
from ncl_tf.methods.supervised import Classifier
from ncl_tf.neighborhoods import Neighborhood
from ncl_tf.plans import EarlyStopping

EXAMPLE = "--gin_file=gin/quickstart.gin"
GIN_FOLDER = pathlib.Path(__file__).resolve().parent.parent / "gin"
for _folder in (GIN_FOLDER, GIN_FOLDER.parent):
    gin.add_config_file_search_path(str(_folder))
# gin would look into Python packages, too, and fail where a folder of the user's is named like one of ours, say datasets/.
del gin.config._FILE_READERS[1:]


def typed(function: Callable) -> Callable:
    """Checks arguments that are annotated with a plain type: gin passes on whatever a file says."""
    signature = inspect.signature(function)

    @functools.wraps(function)
    def checked(*args, **kwargs):
        for name, value in signature.bind(*args, **kwargs).arguments.items():
            allowed = signature.parameters[name].annotation
            if allowed not in (bool, int, float, str, float | None, str | None):
                continue
            accepted = allowed | int if allowed in (float, float | None) else allowed
            if not isinstance(value, accepted) or (isinstance(value, bool) and allowed is not bool):
                wanted = getattr(allowed, "__name__", allowed)
                raise InputError(f"{function.__name__}.{name} is {value!r}; allowed: {wanted}")
        return function(*args, **kwargs)

    checked.__signature__ = signature  # where gin looks for defaults
    return checked


for _neighborhood in (neighborhoods.SameStayWithin, neighborhoods.SameLabel, neighborhoods.DecayingWithin):
    gin.external_configurable(typed(_neighborhood), module="neighborhoods")


@gin.configurable("Intersection", module="neighborhoods")
def intersection(neighborhoods_: Sequence[Neighborhood]) -> neighborhoods.Intersection:
    """Member of all of them."""
    return neighborhoods.Intersection(*neighborhoods_)


@gin.configurable("Union", module="neighborhoods")
def union(neighborhoods_: Sequence[Neighborhood]) -> neighborhoods.Union:
    """Member of any of them."""
    return neighborhoods.Union(*neighborhoods_)


@gin.configurable
@typed
def encoder(
    static_columns: int,
    name: str,
    fast: bool,
    size: int = 64,
    filters: int = 64,
    kernel_size: int = 2,
    dilations: Sequence[int] = (1, 2, 4, 8, 16),
    stacks: int = 1,
    static_dropout: float = 0.0,
    normalize: bool = True,
) -> encoders.Encoder:
    """The paper's encoder; see `ncl_tf.encoders.Encoder`."""
    return encoders.Encoder(
        static_columns,
        size,
        filters,
        kernel_size,
        dilations,
        stacks,
        normalize,
        static_dropout=static_dropout,
        fast=fast,
        name=name,
    )


@gin.configurable
@typed
def augmentation(
    static_columns: int,
    layers: Sequence[str] = ("cutout", "crop", "noise", "channel_dropout"),
    augment_static: str = "dropout",
) -> augmentations.Augmentation:
    """The paper's augmentations, or those of them that are named, in that order."""
    known = {
        "cutout": augmentations.HistoryCutout,
        "crop": augmentations.HistoryCrop,
        "noise": augmentations.GaussianNoise,
        "channel_dropout": augmentations.ChannelDropout,
    }
    for layer in layers:
        if layer not in known:
            raise InputError(f"augmentation.layers names {layer!r}; allowed: {', '.join(known)}")
    return augmentations.Augmentation(static_columns, [known[layer]() for layer in layers], augment_static)


@gin.configurable
@typed
def momentum_contrast(
    cohort: Cohort,
    seed: int,
    fast: bool,
    neighborhood: Neighborhood = gin.REQUIRED,
    alpha: float = gin.REQUIRED,
    temperature: float = gin.REQUIRED,
    momentum: float = gin.REQUIRED,
    queue_size: int = gin.REQUIRED,
    task: str | None = None,
    freeze_projector: bool = False,
    authors_keys: bool = False,
    independent_start: bool = False,
) -> MomentumContrast:
    """Any of the paper's contrastive methods; see `ncl_tf.methods.momentum.MomentumContrast`."""
    keras.utils.set_random_seed(seed)
    static = cohort.static_columns
    return MomentumContrast(
        encoder(static, "encoder", fast),
        encoders.Projector(name="projector"),
        encoder(static, "momentum_encoder", fast),
        encoders.Projector(name="momentum_projector"),
        augmentation(static),
        fast_or_readable(fast),
        neighborhood,
        alpha,
        temperature,
        momentum,
        queue_size,
        None if task is None else cohort.task(task)[0],
        seed,
        freeze_projector,
        authors_keys,
        independent_start,
    )


@gin.configurable
@typed
def autoencoder(
    cohort: Cohort,
    seed: int,
    fast: bool,
    forecast: bool = False,
    linear_output: bool = True,
    all_samples: bool = False,
) -> Autoencoder:
    """Seq2Seq-AE and Seq2Seq-AE-forecast; see `ncl_tf.methods.autoencoder.Autoencoder`."""
    keras.utils.set_random_seed(seed)
    represent = encoder(cohort.static_columns, "encoder", fast, static_dropout=0.0, normalize=False)
    decoder = decoders.mirror(represent, len(cohort.columns), linear_output)
    return Autoencoder(represent, decoder, forecast, all_samples, seed)


@gin.configurable
@typed
def end_to_end(
    cohort: Cohort,
    seed: int,
    fast: bool,
    task: str = gin.REQUIRED,
    head: str = gin.REQUIRED,
    rate: float = gin.REQUIRED,
    labels: float = 1.0,
    label_seed: int = 0,
) -> Classifier:
    """End-to-End, trained as heads are, at a learning rate of its own; see `ncl_tf.methods.supervised.Classifier`.

    With `labels` below 1, as for heads: on that fraction of the training stays, chosen by `label_seed`.
    """
    keras.utils.set_random_seed(seed)
    constants = protocol()
    position, declared = cohort.task(task)
    rows, weights = labelled_training(cohort, task, constants, labels, label_seed)
    return Classifier(
        encoder(cohort.static_columns, "encoder", fast, static_dropout=0.0),
        make_head(head, declared.classes),
        position,
        weights,
        seed,
        EarlyStopping(rate, limited_batch(constants, labels), constants.patience, constants.max_epochs),
        (cohort["train"], rows),
    )


@gin.configurable
@typed
def protocol(
    linear_rate: float = gin.REQUIRED,
    mlp_rate: float = gin.REQUIRED,
    fine_tune_rate: float = 1e-5,
    balanced: bool = False,
    batch_size: int = 2048,
    patience: int = 20,
    max_epochs: int = 1000,
    max_minutes: float | None = None,
) -> Protocol:
    """How representations are judged; see `ncl_tf.evaluation.protocol.Protocol`."""
    rates = {"linear": linear_rate, "mlp": mlp_rate}
    return Protocol(rates, fine_tune_rate, balanced, batch_size, patience, max_epochs, max_minutes)


def method() -> Callable[..., keras.Model]:
    """The factory of the configured method."""
    return gin.query_parameter("train.method").scoped_configurable_fn


def fast_or_readable(use_fast: bool):
    """The objective in its exact fast form or in its readable one."""
    return fast.neighborhood_contrastive_loss if use_fast else losses.neighborhood_contrastive_loss


def load(gin_files: Sequence[str], gin_params: Sequence[str]) -> None:
    """Reads gin files, then single bindings; paths are looked up as given, then below the project's gin/ folder."""
    gin.clear_config()
    used = set()
    for file in gin_files:
        _parse(lambda file=file: gin.parse_config_file(file), file)
        used |= _macros()[1]
    _bind(gin_params)
    _check_macros(used)


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
        what = (
            "no such gin file" if missing is None or missing[1] == where else f"includes {missing[1]!r}: no such file"
        )
        raise InputError(f"{where}: {what}, neither here nor in {GIN_FOLDER.name}/") from error
    except SyntaxError as error:
        reason = re.sub(r"malformed node or string.*", "neither a value nor a reference; texts need quotes", str(error))
        raise InputError(f"{where}: not valid gin: {reason}") from error
    except tokenize.TokenError as error:
        raise InputError(f"{where}: not valid gin: {error.args[0]} (line {error.args[1][0]})") from error
    except (ValueError, TypeError, AttributeError, ImportError) as error:
        raise InputError(f"{where}: {str(error).splitlines()[0]}{_suggestion(str(error))}") from error


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
    return ""


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


def bindings(config: str) -> dict[str, str]:
    """`gin.config_str()` as name -> value, for telling two configurations apart."""
    joined = re.sub(r"\\\n\s*", "", config)
    return dict(re.findall(r"^([\w./@]+) = (.*(?:\n[ \t]+.*)*)", joined, re.MULTILINE))
