"""What configurations can name: factories of networks and methods, neighborhoods, and the evaluation protocol.

Losses, layers and neighborhoods know nothing of gin; the factories here do. A neighborhood of your own becomes
configurable with `gin.external_configurable(MyNeighborhood)` in a module that `bin/train --import=my_module` imports.
"""

import functools
import inspect
from collections.abc import Callable, Sequence
from typing import get_origin

import gin
import keras
import numpy as np

from ncl_tf.data import augmentations
from ncl_tf.data.cohort import Cohort
from ncl_tf.data.measurement_dropout import MeasurementDropout
from ncl_tf.errors import InputError
from ncl_tf.methods.authors import AllSamplesAutoencoder, RectifiedDecoder, momentum_contrast_class
from ncl_tf.methods.autoencoder import Autoencoder
from ncl_tf.methods.momentum import MomentumContrast
from ncl_tf.methods.supervised import Classifier
from ncl_tf.networks.decoder import Decoder, mirror
from ncl_tf.networks.encoder import Encoder, Projector
from ncl_tf.networks.fast.encoder import FastEncoder
from ncl_tf.networks.heads import Head
from ncl_tf.objective import neighborhoods
from ncl_tf.objective.fast.losses import FastObjective
from ncl_tf.objective.losses import Objective
from ncl_tf.objective.neighborhoods import Neighborhood, compares_labels
from ncl_tf.training.early_stopping import EarlyStopping
from ncl_tf.training.protocol import Protocol, TreeProtocol, labelled_training, limited_batch


def typed(function: Callable) -> Callable:
    """Check arguments that are annotated with a plain type or a sequence, and that none is missing: gin passes on whatever a
    file contains.
    """
    signature = inspect.signature(function)

    @functools.wraps(function)
    def checked(*args, **kwargs):
        try:
            arguments = signature.bind(*args, **kwargs).arguments
        except TypeError as error:
            raise InputError(f"{function.__name__}: {error}; bind it in a gin file or by --gin_param") from error
        for name, value in arguments.items():
            allowed = signature.parameters[name].annotation
            if get_origin(allowed) is Sequence and not isinstance(value, list | tuple):
                raise InputError(f"{function.__name__}.{name} must be a list, got {value!r}")
            if allowed not in (bool, int, float, str, float | None, str | None):
                continue
            accepted = allowed | int if allowed in (float, float | None) else allowed
            if not isinstance(value, accepted) or (isinstance(value, bool) and allowed is not bool):
                wanted = getattr(allowed, "__name__", allowed)
                raise InputError(f"{function.__name__}.{name} must be {wanted}, got {value!r}")
        return function(*args, **kwargs)

    checked.__signature__ = signature  # where gin looks for defaults
    return checked


for _neighborhood in (neighborhoods.SameStayWithin, neighborhoods.SameLabel, neighborhoods.DecayingWithin):
    gin.external_configurable(typed(_neighborhood), module="neighborhoods")


@gin.configurable("Intersection", module="neighborhoods")
@typed
def intersection(neighborhoods_: Sequence[Neighborhood]) -> neighborhoods.Intersection:
    """Make the neighborhood of the members of all of these neighborhoods."""
    return neighborhoods.Intersection(*neighborhoods_)


@gin.configurable("Union", module="neighborhoods")
@typed
def union(neighborhoods_: Sequence[Neighborhood]) -> neighborhoods.Union:
    """Make the neighborhood of the members of any of these neighborhoods."""
    return neighborhoods.Union(*neighborhoods_)


@gin.configurable
@typed
def encoder(
    static_columns: int,
    name: str,
    fast: bool,
    history: int = 48,
    size: int = 64,
    filters: int = 64,
    kernel_size: int = 2,
    dilations: Sequence[int] = (1, 2, 4, 8, 16),
    stacks: int = 1,
    normalize: bool = True,
    compress: bool = False,
) -> Encoder:
    """Make the paper's encoder; see `ncl_tf.networks.encoder.Encoder`."""
    kind, _ = fast_or_readable(fast)
    return kind(static_columns, history, size, filters, kernel_size, dilations, stacks, normalize, compress, name)


@gin.configurable
@typed
def augmentation(
    cohort: Cohort,
    layers: Sequence[str] = ("cutout", "crop", "noise", "channel_dropout"),
    augment_static: str = "dropout",
    measurement_dropout: float = 0.0,
) -> augmentations.Augmentation:
    """Make the paper's augmentations, or those of them that are named, in that order; before them, if wanted, that of single
    measurements with this probability.
    """
    apart = cohort.static_columns if augment_static == "dropout" else 0
    values, channels = None, None
    if cohort.observations:
        dataset = cohort.preprocessor.dataset
        values = len(dataset.value_columns) - apart
        channels = np.unique(dataset.column_channels[apart:], return_inverse=True)[1].tolist()
    known = {
        "cutout": augmentations.HistoryCutout,
        "crop": augmentations.HistoryCrop,
        "noise": functools.partial(augmentations.GaussianNoise, values=values),
        "channel_dropout": functools.partial(augmentations.ChannelDropout, channels=channels),
    }
    for layer in layers:
        if layer not in known:
            raise InputError(f"augmentation.layers must be of {', '.join(known)}, got {layer!r}")
    if augment_static not in ("dropout", "channels"):
        raise InputError(f"augmentation.augment_static must be 'dropout' or 'channels', got {augment_static!r}")
    chosen = [known[layer]() for layer in layers]
    if measurement_dropout:
        chosen.insert(0, measurement_dropout_of(cohort, measurement_dropout, apart))
    return augmentations.Augmentation(apart, chosen)


def measurement_dropout_of(cohort: Cohort, probability: float, left_out: int) -> MeasurementDropout:
    """Make measurement dropout for a cohort's windows, without their `left_out` first columns."""
    if cohort.preprocessor is None:
        raise InputError(
            f"augmentation.measurement_dropout must be 0 for {cohort.path}, got {probability}: a cohort file of the authors' "
            "code has no observation columns"
        )
    return MeasurementDropout(probability, cohort.preprocessor, left_out)


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
    static_dropout: float = 0.0,
) -> MomentumContrast:
    """Make any of the paper's contrastive methods; see `ncl_tf.methods.momentum`, for the last three `ncl_tf.methods.authors`."""
    neighborhoods.check(neighborhood)
    if task is None and compares_labels(neighborhood):
        tasks = ", ".join(repr(declared.name) for declared in cohort.tasks)
        raise InputError(
            f"task must be one of the cohort, {tasks}, for {neighborhood}, which compares labels, got None"
        )
    keras.utils.set_random_seed(seed)
    static = cohort.static_columns
    _, objective = fast_or_readable(fast)
    method = momentum_contrast_class(authors_keys, independent_start, bool(static_dropout))
    return method(
        encoder(static, "encoder", fast),
        Projector(name="projector"),
        encoder(static, "momentum_encoder", fast),
        Projector(name="momentum_projector"),
        augmentation(cohort),
        objective(neighborhood, alpha, temperature),
        momentum,
        queue_size,
        None if task is None else cohort.task(task)[0],
        seed,
        freeze_projector,
        **({"static_dropout": static_dropout} if static_dropout else {}),
    )


@gin.configurable
@typed
def autoencoder(
    cohort: Cohort, seed: int, fast: bool, forecast: bool = False, linear_output: bool = True, all_samples: bool = False
) -> Autoencoder:
    """Make Seq2Seq-AE or Seq2Seq-AE-forecast; see `ncl_tf.methods.autoencoder.Autoencoder`."""
    keras.utils.set_random_seed(seed)
    represent = encoder(cohort.static_columns, "encoder", fast, normalize=False)
    decoder = mirror(represent, len(cohort.columns), Decoder if linear_output else RectifiedDecoder)
    method = AllSamplesAutoencoder if all_samples else Autoencoder
    return method(represent, decoder, forecast, seed)


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
    """Make End-to-End, trained as heads are, at a learning rate of its own; see `ncl_tf.methods.supervised.Classifier`."""
    keras.utils.set_random_seed(seed)
    constants = protocol()
    position, declared = cohort.task(task)
    rows, weights = labelled_training(cohort, task, constants, labels, label_seed)
    return Classifier(
        encoder(cohort.static_columns, "encoder", fast),
        Head(head, declared.classes),
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
    """Make the protocol by which representations are evaluated; see `ncl_tf.training.protocol.Protocol`."""
    rates = {"linear": linear_rate, "mlp": mlp_rate}
    return Protocol(rates, fine_tune_rate, balanced, batch_size, patience, max_epochs, max_minutes)


@gin.configurable
@typed
def trees(max_iterations: int = 160, rate: float = 0.08, leaves: int = 31, balanced: bool = True) -> TreeProtocol:
    """Make the constants of gradient-boosted trees; see `ncl_tf.training.protocol.TreeProtocol`."""
    return TreeProtocol(max_iterations, rate, leaves, balanced)


def fast_or_readable(fast: bool) -> tuple[type[Encoder], type[Objective]]:
    """Choose encoder and objective in their exact fast forms or in their readable ones."""
    return (FastEncoder, FastObjective) if fast else (Encoder, Objective)
