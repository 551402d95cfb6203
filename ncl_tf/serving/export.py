"""Exports of trained encoders and classifiers: folders that TensorFlow, TensorFlow Serving and `ncl_tf.load` can load.

1/                SavedModel; TensorFlow Serving requires a number, the version, as its name
model.json        channels, task, data, metrics, configuration, versions
model_card.md     the same for people
"""

import pathlib
from typing import Any

import keras
import tensorflow as tf

from ncl_tf import files
from ncl_tf.data.cohort import Cohort
from ncl_tf.data.exports import VERSION
from ncl_tf.evaluation.calibration import Calibrator
from ncl_tf.methods.supervised import Classifier
from ncl_tf.networks.encoder import Encoder
from ncl_tf.serving.card import make_card, model_card
from ncl_tf.serving.raw import RawPreprocessor
from ncl_tf.serving.scoring import ClassifierFunctions, EncoderFunctions
from ncl_tf.training.writing import writing


def export_encoder(
    folder: pathlib.Path, encoder: Encoder, cohort: Cohort, config: dict[str, str], run: dict[str, Any]
) -> None:
    """Write an encoder with the function `embed`; for the arguments see `ncl_tf.serving.card.make_card`."""
    functions = EncoderFunctions(encoder, len(cohort.columns))
    card = make_card(cohort, encoder.history, list(functions.signatures), config, run, None)
    _write(folder, functions, encoder.variables, card)


def export_classifier(
    folder: pathlib.Path, classifier: Classifier, cohort: Cohort, run: dict[str, Any], evaluation: dict[str, Any]
) -> None:
    """Write a classifier with all functions of `ncl_tf.serving.scoring`.

    A cohort file of the authors' code has no preprocessor; an export made from it has only `embed` and `predict`. `run` is the
    run's record, `evaluation` the content of the evaluation's JSON file; of a binary task, it has the calibrator of the risk.
    """
    raw = None if cohort.preprocessor is None else RawPreprocessor(cohort.preprocessor)
    calibrator = Calibrator.from_json(evaluation["calibration"]["calibrator"]) if "calibration" in evaluation else None
    functions = ClassifierFunctions(classifier, len(cohort.columns), raw, calibrator)
    history, names = classifier.encoder.history, list(functions.signatures)
    card = make_card(cohort, history, names, evaluation["config"], run, evaluation)
    _write(folder, functions, [*classifier.variables, *(raw.variables if raw else [])], card)


class _Saved(tf.Module):
    """What a SavedModel holds: its functions, by their names, and once each the `variables` that they use."""

    variables = None  # a list, as in the exports of earlier versions


def _write(folder: pathlib.Path, functions: EncoderFunctions, variables: list, card: dict[str, Any]) -> None:
    """Write the folder, which appears when it is complete."""
    saved = _Saved()
    saved.variables = [variable.value if isinstance(variable, keras.Variable) else variable for variable in variables]
    for name, specs in functions.signatures.items():  # a function that calls another one calls its graph, saved once
        setattr(functions, name, tf.function(getattr(functions, name), specs, autograph=False))
    signatures = {name: getattr(functions, name) for name in functions.signatures}
    for name, function in signatures.items():
        setattr(saved, name, function)
    signatures["serving_default"] = next(iter(signatures.values()))
    with files.atomic_folder(folder) as new:
        with writing(folder):
            tf.saved_model.save(saved, new / VERSION, signatures)
        written = sorted(path for path in (new / VERSION).rglob("*") if path.is_file())
        card["files"] = {path.relative_to(new / VERSION).as_posix(): files.sha256(path) for path in written}
        files.write_json(new / "model.json", card)
        files.write_text(new / "model_card.md", model_card(card))
