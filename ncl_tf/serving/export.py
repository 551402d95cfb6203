"""SavedModels of trained encoders and classifiers."""

import contextlib
import io
import pathlib
import shutil
import tempfile
from collections.abc import Callable

import keras
import tensorflow as tf

from ncl_tf import files
from ncl_tf.encoders import Encoder
from ncl_tf.methods.supervised import Classifier


def export_encoder(folder: pathlib.Path, encoder: Encoder, history: int, columns: int) -> None:
    """Writes a SavedModel with the signature `embed`: windows [B, history, columns] -> representations [B, size]."""
    _write(folder, encoder, {"embed": lambda windows: {"representations": encoder(windows)}}, history, columns)


def export_classifier(folder: pathlib.Path, classifier: Classifier, history: int, columns: int) -> None:
    """Writes a SavedModel with `embed` as above and `predict`: windows -> class probabilities [B, classes]."""
    endpoints = {
        "embed": lambda windows: {"representations": classifier.encoder(windows)},
        "predict": lambda windows: {"probabilities": classifier(windows)},
    }
    _write(folder, classifier, endpoints, history, columns)


def _write(
    folder: pathlib.Path, model: keras.Model, endpoints: dict[str, Callable], history: int, columns: int
) -> None:
    """Writes a SavedModel whose signatures take prepared windows; the folder appears when it is complete."""
    archive = keras.export.ExportArchive()
    archive.track(model)
    for name, function in endpoints.items():
        archive.add_endpoint(name, function, [tf.TensorSpec([None, history, columns], tf.float32, name="windows")])
    folder.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(prefix=f".{folder.name}.", suffix=".partial", dir=folder.parent) as partial:
        with contextlib.redirect_stdout(io.StringIO()):  # Keras prints the signature; the README has it
            archive.write_out(pathlib.Path(partial) / "model")
        shutil.rmtree(folder, ignore_errors=True)
        (pathlib.Path(partial) / "model").rename(folder)
    files.sync_folder(folder.parent)
