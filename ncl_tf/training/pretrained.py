"""Encoders that were trained before: a model that ships, or an export, as it is or as the beginning of another training."""

import os
import pathlib
from collections.abc import Sequence
from typing import Any

import keras
import numpy as np
import tensorflow as tf

from ncl_tf import files
from ncl_tf.data.cohort_checks import recognize
from ncl_tf.data.exports import VERSION, check_saved, read_card, read_preprocessor
from ncl_tf.errors import InputError, reading
from ncl_tf.networks.encoder import Encoder
from ncl_tf.networks.fast.encoder import FastEncoder
from ncl_tf.runs.configuration import setting, upgraded
from ncl_tf.runs.shipped import model_folder

SETTINGS = ("size", "filters", "kernel_size", "dilations", "stacks", "normalize", "compress")  # of `Encoder`, if bound
# Weights [..., inputs, outputs] with an input for each dynamic column, and for each of the filters and each static column.
OF_DYNAMIC = ("tcn/residual_block_0/conv1D_0/kernel", "tcn/residual_block_0/matching_conv1D/kernel")
OF_STATIC = "merge/kernel"


class PretrainedEncoder:
    """The encoder of an export: its description, and its weights.

    Args:
        name: of a model that ships, or the folder of an exported encoder or classifier.

    Attributes:
        name: the same.
        card: the content of its model.json.
        preprocessor: that prepares its windows; None if its cohort is one of the authors' code.
        columns: names of the columns that it takes; the first `static_columns` are static.
        checksum: SHA-256 of model.json, which holds those of the weights.
    """

    def __init__(self, name: str | os.PathLike) -> None:
        self.name, self.folder = str(name), model_folder(name)
        self.card = read_card(self.folder)
        check_saved(self.folder, self.card)
        self.checksum = files.sha256(self.folder / "model.json")
        self.preprocessor = read_preprocessor(self.folder, self.card)
        self.columns: list[str] = self.card["inputs"]["windows"]["columns"]
        declared = self.preprocessor and self.preprocessor.dataset
        self.static_columns = declared.static_columns if declared else recognize(self.columns)[1]

    def load(self) -> Encoder:
        """Make the encoder, in its fast form, with its weights."""
        history = self.card["inputs"]["windows"]["hours"]
        with reading(self.folder, "an export with the settings and weights of an encoder", tf.errors.OpError):
            config = upgraded(self.card["config"])
            bound = {name: setting(config, f"encoder.{name}") for name in SETTINGS if f"encoder.{name}" in config}
            normalize = {"normalize": False} if config.get("train.method") == "@autoencoder" else {}
            encoder = FastEncoder(self.static_columns, history, **(bound | normalize))
            encoder.build((None, history, len(self.columns)))
            stored = tf.train.load_checkpoint(self.folder / VERSION / "variables" / "variables")
            for number, variable in enumerate(encoder.variables):  # they are an export's first ones
                variable.assign(stored.get_tensor(f"variables/{number}/.ATTRIBUTES/VARIABLE_VALUE"))
        return encoder

    def begin(self, encoder: Encoder, columns: Sequence[str]) -> str:
        """Set the weights of an encoder that takes these columns to those of this one; weights of other columns stay.

        Returns in words which columns agree.
        """
        mine = self.load()
        found = _shape(encoder)
        for what, expected in _shape(mine).items():
            if found[what] != expected:
                raise InputError(f"encoder.{what} must be {expected} to begin with {self.name}, got {found[what]}")
        static = _pairs(columns[: encoder.static_columns], self.columns[: self.static_columns])
        dynamic = _pairs(columns[encoder.static_columns :], self.columns[self.static_columns :])
        if not dynamic:
            raise InputError(
                f"the cohort must have columns of {self.name}, {', '.join(self.columns)}; got {', '.join(columns)}"
            )
        filters = [(row, row) for row in range(mine.tcn.nb_filters)]
        of_merge = filters + [(len(filters) + to, len(filters) + of) for to, of in static]
        rows = dict.fromkeys(OF_DYNAMIC, dynamic) | {OF_STATIC: of_merge}
        weights = _weights(mine)
        for name, variable in _weights(encoder).items():
            _assign(variable, weights[name].numpy(), rows.get(name))
        new = [name for name in columns if name not in self.columns]
        agree = f"{len(static) + len(dynamic)} of {len(columns)} columns agree"
        return f"initial encoder: {self.name}, {agree}" + f"; new: {', '.join(new)}" * bool(new)

    def facts(self) -> dict[str, Any]:
        """Return what an evaluation records of the encoder; its name, if it ships."""
        shipped = {"name": self.name} if self.folder != pathlib.Path(self.name) else {}
        kept = ("dataset", "simulated", "cohort_checksum", "source_checksum")
        trained_on = {name: self.card["data"][name] for name in kept if name in self.card["data"]}
        return shipped | {"model_checksum": self.checksum, "trained_on": trained_on}


def _weights(encoder: Encoder) -> dict[str, keras.Variable]:
    """Return the variables of an encoder by their paths within it."""
    return {variable.path.rpartition("encoder/")[2]: variable for variable in encoder.variables}


def _shape(encoder: Encoder) -> dict[str, Any]:
    """Return the settings that two encoders must share for one to begin with the other's weights."""
    tcn = encoder.tcn
    settings = {"filters": tcn.nb_filters, "kernel_size": tcn.kernel_size, "dilations": tuple(tcn.dilations)}
    settings |= {"stacks": tcn.nb_stacks, "size": encoder.merge.units, "compress": encoder.compress}
    return settings | {"layers": sorted(_weights(encoder))}


def _pairs(columns: Sequence[str], others: list[str]) -> list[tuple[int, int]]:
    """Pair the positions of the names that are in both lists."""
    return [(to, others.index(name)) for to, name in enumerate(columns) if name in others]


def _assign(variable: keras.Variable, value: np.ndarray, rows: list[tuple[int, int]] | None) -> None:
    """Set a variable, or only rows [..., row, outputs]: pairs of one of its own and one of the value."""
    if rows is not None:
        (to, of), changed = np.transpose(rows), variable.numpy()
        changed[..., to, :] = value[..., of, :]
        value = changed
    variable.assign(value)
