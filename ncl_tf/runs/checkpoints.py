"""Variables of a model by path: what checkpoints hold. Imports no TensorFlow."""

from __future__ import annotations

import hashlib
import pathlib
from typing import TYPE_CHECKING, Protocol

import numpy as np

from ncl_tf.errors import InputError

if TYPE_CHECKING:
    import keras


class HasVariables(Protocol):
    """What checkpoints can hold beside a model."""

    variables: list[keras.Variable]


def named_variables(model: keras.Model, more: HasVariables | None = None) -> dict[str, keras.Variable]:
    """All variables of a model, of its optimizer once it is compiled, and of `more`, by path."""
    optimizer = getattr(model, "optimizer", None)
    variables = [variable for part in (model, optimizer, more) if part is not None for variable in part.variables]
    named = {variable.path: variable for variable in variables}
    if len(named) < len({id(variable) for variable in variables}):
        raise RuntimeError("two variables share a path; name the layers apart")
    return named


def checksum(model: keras.Model) -> str:
    """Tells whether two models of a kind have the same weights, to the last bit."""
    digest = hashlib.sha256()
    for path, variable in sorted(named_variables(model).items()):
        digest.update(path.encode() + np.ascontiguousarray(variable.numpy()).tobytes())
    return digest.hexdigest()[:16]


def assign(
    model: keras.Model, values: dict[str, np.ndarray], path: pathlib.Path, more: HasVariables | None = None
) -> None:
    """Sets all variables of a model and `more` to a checkpoint's values; a model that is not compiled takes only its own."""
    variables = named_variables(model, more)
    if not getattr(model, "optimizer", None):
        values = {name: value for name, value in values.items() if name.startswith(f"{model.name}/")}
    shapes = {name: tuple(variable.shape) for name, variable in variables.items()}
    other = {name for name, value in values.items() if shapes.get(name) != value.shape} | (
        shapes.keys() - values.keys()
    )
    if other:
        raise InputError(f"{path}: made by another model; first difference: {sorted(other)[0]}")
    for name, variable in variables.items():
        variable.assign(values[name])
