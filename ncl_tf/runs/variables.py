"""Variables by path: what checkpoints hold. Imports no TensorFlow."""

from __future__ import annotations

import hashlib
import io
import math
import pathlib
from typing import TYPE_CHECKING, Protocol

import numpy as np

from ncl_tf.errors import InputError

if TYPE_CHECKING:
    import keras


class HasVariables(Protocol):
    """A part of a training's state that checkpoints hold: a model, its optimizer, its best weights."""

    variables: list[keras.Variable]


def named_variables(*parts: HasVariables) -> dict[str, keras.Variable]:
    """Return all variables of the parts by path; no two may share one."""
    variables = [variable for part in parts for variable in part.variables]
    named = {variable.path: variable for variable in variables}
    if len(named) < len({id(variable) for variable in variables}):
        raise RuntimeError("two variables share a path; layers must have different names")
    return named


def checksum(*parts: HasVariables) -> str:
    """Return a text that is the same for the same paths and values, to the last bit, and for no others."""
    digest = hashlib.sha256()
    for path, variable in sorted(named_variables(*parts).items()):
        digest.update(path.encode() + np.ascontiguousarray(variable.numpy()).tobytes())
    return digest.hexdigest()[:16]


def read_arrays(content: bytes) -> dict[str, np.ndarray]:
    """Read the arrays of an npz; one that claims to be larger than its part of the file is an error, not a full memory."""
    with np.load(io.BytesIO(content), allow_pickle=False) as archive:
        for member in archive.zip.infolist():
            with archive.zip.open(member) as file:
                header = {(1, 0): np.lib.format.read_array_header_1_0, (2, 0): np.lib.format.read_array_header_2_0}
                shape, _, kind = header[np.lib.format.read_magic(file)](file)
            if math.prod(shape) * kind.itemsize > min(member.file_size, len(content)):
                raise ValueError(f"{member.filename} claims {shape} of {kind}, more than the file holds")
        return {name: archive[name] for name in archive.files}


def assign(values: dict[str, np.ndarray], path: pathlib.Path, *parts: HasVariables) -> None:
    """Set all variables of the parts to the values of the checkpoint at `path`, by paths and shapes that must be the same.

    Values of other parts, such as the optimizer where only the model is restored, are left out: the first component of a
    variable's path names its part.
    """
    variables = named_variables(*parts)
    owners = {name.split("/")[0] for name in variables}
    values = {name: value for name, value in values.items() if name.split("/")[0] in owners}
    shapes = {name: tuple(variable.shape) for name, variable in variables.items()}
    other = shapes.keys() - values.keys() | {name for name in values if shapes.get(name) != values[name].shape}
    other |= {name for name in values.keys() - other if values[name].dtype != variables[name].numpy().dtype}
    if other:
        raise InputError(f"{path}: made by another model; first difference: {sorted(other)[0]}")
    for name in [name for name in sorted(values) if not np.isfinite(values[name]).all()]:
        raise InputError(f"{path}: {name} must be finite, as all that a checkpoint holds; remove the file")
    for name, variable in variables.items():
        variable.assign(values[name])
