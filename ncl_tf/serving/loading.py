"""Exported models in Python: `ncl_tf.load(folder)`."""

import functools
import os
import pathlib
import re
from collections.abc import Mapping
from typing import Any

import numpy as np
import tensorflow as tf

from ncl_tf.data.declaration import Dataset
from ncl_tf.data.exports import VERSION, check_saved, read_card, read_preprocessor
from ncl_tf.data.stays import Stays, rows_on_grid
from ncl_tf.errors import InputError, reading
from ncl_tf.serving.rows import RawRows, floats, state_columns


class Model:
    """An exported encoder or classifier.

    Attributes:
        card: the content of model.json.
        history: hours of a window.
        preprocessor: prepares raw channels; None if the training cohort had none.
    """

    def __init__(self, folder: str | os.PathLike) -> None:
        self.folder = pathlib.Path(folder)
        self.card = read_card(self.folder)
        self.history: int = self.card["inputs"]["windows"]["hours"]
        self.preprocessor = read_preprocessor(self.folder, self.card)
        check_saved(self.folder, self.card)
        with reading(
            self.folder / VERSION, "a complete SavedModel, as model.json beside it describes", tf.errors.OpError
        ):
            self._functions = tf.saved_model.load(self.folder / VERSION)

    def __repr__(self) -> str:
        task = f", {self.card['task']['name']}" if self.card["task"] else ""
        return f"<{self.card['kind']} of {self.card['data']['dataset']}{task}: {', '.join(self.card['signatures'])}>"

    def embed(self, windows: Any) -> np.ndarray:
        """Embed prepared windows: [B, history, C] -> representations [B, size]."""
        return self.call("embed", self._checked(windows))["representations"].numpy()

    def predict(self, windows: Any) -> np.ndarray:
        """Classify prepared windows: [B, history, C] -> class probabilities [B, K]."""
        return self.outputs_of_windows(windows)["probabilities"]

    def score(self, rows: Any, static: Any = None) -> np.ndarray:
        """Score one stay: class probabilities [T, K] for each of its rows.

        `risk` takes the same and returns risks.

        Args:
            rows: a DataFrame with a column for each channel, static ones included, in any order and among others, where a
                channel that is left out is not measured; or an array [T, D] of the channels `card["inputs"]["values"]`. NaN
                means not measured. Hours must rise from row to
                row; missing hours are treated as hours without measurements.
            static: with an array, the static values: [S] in the order of `card["inputs"]["static"]`, or by name; [T, S]
                if they become known later.
        """
        return self._outputs_of_stay(rows, static)["probabilities"]

    def risk(self, rows: Any, static: Any = None) -> np.ndarray:
        """Compute the calibrated risk of the positive class at each row of one stay, [T]; arguments as in `score`."""
        if not self.gives_risk:
            raise InputError(
                f"{self.folder}: gives no risk; classifiers of binary tasks do since format 1.1, so evaluate the run again, "
                "with --overwrite"
            )
        return self._outputs_of_stay(rows, static)["risk"]

    @property
    def gives_risk(self) -> bool:
        """Whether its functions return `risk` beside `probabilities`."""
        return "calibration" in (self.card["evaluation"] or {})

    def _outputs_of_stay(self, rows: Any, static: Any) -> dict[str, np.ndarray]:
        values = self.rows.from_frame(rows) if hasattr(rows, "columns") else self.rows.from_arrays(rows, static)
        hours, lengths = self.rows.hours(values), np.array([len(values)])
        stays = Stays.from_rows(np.array(["the stay"]), lengths, hours, values, np.empty((len(values), 0), np.float32))
        if self.rows.hour is not None:
            stays.fill_hours(self.rows.hour)
        given = rows_on_grid(lengths, hours)
        return {name: output[given] for name, output in self.outputs_of_stays(stays).items()}

    def score_stays(self, stays: Stays) -> np.ndarray:
        """Score many stays at once, which is fastest: class probabilities [hours, K] for every hour."""
        return self.outputs_of_stays(stays)["probabilities"]

    def outputs_of_stays(self, stays: Stays) -> dict[str, np.ndarray]:
        """Score many stays at once: `probabilities` [hours, K] and, if the export gives it, `risk` [hours]."""
        values, static = np.ascontiguousarray(stays.values), self.rows.static
        lengths = stays.lengths.astype(np.int32)
        return _arrays(self.call("score_stays", values[:, static:], values[:, :static], lengths))

    def outputs_of_windows(self, windows: Any) -> dict[str, np.ndarray]:
        """Classify prepared windows [B, history, C]: the same for each of them."""
        return _arrays(self.call("predict", self._checked(windows)))

    def stream(self, static: Any = None, state: Any = None) -> "Stream":
        """Follow one patient hour by hour; `static` as in `score`, `state` of an earlier stream to resume it."""
        return Stream(self, static, state)

    @property
    def dataset(self) -> Dataset:
        """The declaration of the raw channels."""
        if "score_stays" not in self.card["signatures"]:
            raise InputError(
                f"{self.folder}: takes no raw values; its functions are {', '.join(self.card['signatures'])}"
            )
        return self.preprocessor.dataset

    @functools.cached_property
    def rows(self) -> RawRows:
        """The converter from users' values to this model's raw rows."""
        return RawRows(self.dataset)

    def call(self, name: str, *arguments: np.ndarray) -> dict[str, tf.Tensor]:
        """Call a function of the SavedModel by its name, with arrays or tensors in the order of its signature."""
        if name not in self.card["signatures"]:
            raise InputError(
                f"{self.folder}: the function must be one of {', '.join(self.card['signatures'])}, got {name!r}"
            )
        try:
            return getattr(self._functions, name)(*(tf.convert_to_tensor(argument) for argument in arguments))
        except tf.errors.InvalidArgumentError as error:
            refused = re.search(r"assertion failed: \[(.*?)\]", str(error), re.DOTALL)
            if refused is None:
                raise
            raise InputError(refused[1]) from error  # the message of a check in the graph

    def _checked(self, windows: Any) -> Any:
        columns = self.card["inputs"]["windows"]["columns"]
        shape = np.shape(windows)
        if len(shape) != 3 or shape[1:] != (self.history, len(columns)):
            expected = f"[samples, {self.history}, {len(columns)}]: {', '.join(columns)}"
            raise InputError(f"the windows must have shape {expected}, got {list(shape)}")
        return windows if tf.is_tensor(windows) else floats(windows, "the windows")


def _arrays(outputs: dict[str, tf.Tensor]) -> dict[str, np.ndarray]:
    return {name: output.numpy() for name, output in outputs.items()}


class Stream:
    """Follows one patient hour by hour.

    Attributes:
        state: [1, history - 1, F] float32, all that is remembered: of each hour what `card["inputs"]["state"]` names;
            `model.stream(state=...)` resumes from it.
        risk: calibrated risk at the hour that was scored last; None before, or if the export gives no risk.
    """

    def __init__(self, model: Model, static: Any, state: Any) -> None:
        empty = np.full((1, model.history - 1, len(state_columns(model.dataset))), np.nan, np.float32)
        self.state = empty if state is None else floats(state, "the state")
        if self.state.shape != empty.shape:
            raise InputError(f"the state must have shape {list(empty.shape)}, got {list(self.state.shape)}")
        self.risk: float | None = None
        self._model, self._static = model, model.rows.static_rows(static, 1)

    def next(self, row: Any) -> np.ndarray:
        """Score the next hour: class probabilities [K]; its risk is then in `risk`.

        Args:
            row: the hour's values by name, of which any may be left out as not measured, or an array [D] as in
                `Model.score`. Static values among them apply from this hour on.
        """
        rows = self._model.rows
        if isinstance(row, Mapping):
            raw = rows.from_names(row)[None]
            raw[:, : rows.static] = np.where(np.isnan(raw[:, : rows.static]), self._static, raw[:, : rows.static])
        else:
            raw = rows.from_arrays(floats(row, "the values")[None], self._static)
        outputs = _arrays(self._model.call("score_next", raw[:, rows.static :], raw[:, : rows.static], self.state))
        self.state, self._static = outputs["state"], raw[:, : rows.static]
        self.risk = float(outputs["risk"][0]) if "risk" in outputs else None
        return outputs["probabilities"][0]
