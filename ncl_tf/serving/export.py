"""SavedModels of trained encoders."""

import contextlib
import io
import pathlib
import shutil
import tempfile

import keras
import tensorflow as tf

from ncl_tf import files
from ncl_tf.encoders import Encoder


def export_encoder(folder: pathlib.Path, encoder: Encoder, history: int, columns: int) -> None:
    """Writes a SavedModel with the signature `embed`: windows [B, history, columns] -> representations [B, size]."""

    def embed(windows: tf.Tensor) -> dict[str, tf.Tensor]:
        return {"representations": encoder(windows)}

    archive = keras.export.ExportArchive()
    archive.track(encoder)
    archive.add_endpoint("embed", embed, [tf.TensorSpec([None, history, columns], tf.float32, name="windows")])
    with tempfile.TemporaryDirectory(prefix=f".{folder.name}.", suffix=".partial", dir=folder.parent) as partial:
        with contextlib.redirect_stdout(io.StringIO()):  # Keras prints the signature; the README has it
            archive.write_out(pathlib.Path(partial) / "model")
        shutil.rmtree(folder, ignore_errors=True)
        (pathlib.Path(partial) / "model").rename(folder)
    files.sync_folder(folder.parent)
