"""The exported encoder: anyone with TensorFlow can load it, and it says what the encoder said."""

import pathlib
import subprocess
import sys

import numpy as np
import pytest

from ncl_tf.encoders import Encoder
from ncl_tf.serving.export import export_encoder

HOURS, COLUMNS, STATIC = 48, 7, 2

LOADER = """
import sys
import numpy as np
import tensorflow as tf

encoder = tf.saved_model.load(sys.argv[1])
for samples in (1, 5, 33):
    windows = np.load(sys.argv[2])[:samples]
    np.save(f"{sys.argv[3]}/{samples}.npy", encoder.embed(windows)["representations"])
signature = encoder.signatures["embed"]
print(signature.structured_input_signature[1]["windows"].shape, list(signature.structured_outputs))
print(sorted({"ncl_tf", "tcn", "gin"} & set(sys.modules)))
"""


def make_encoder(seed: int) -> Encoder:
    """With random weights everywhere, and dropout, which must not show."""
    encoder = Encoder(STATIC, size=16, filters=8, dilations=(1, 2), static_dropout=0.5, fast=False)
    encoder.build((None, HOURS, COLUMNS))
    random = np.random.default_rng(seed)
    encoder.set_weights([w + random.normal(0, 0.1, w.shape) for w in encoder.get_weights()])
    return encoder


@pytest.fixture(scope="module")
def windows() -> np.ndarray:
    return np.random.default_rng(0).normal(size=(33, HOURS, COLUMNS)).astype(np.float32)


def test_without_ncl_tf_it_gives_the_same_representations(tmp_path: pathlib.Path, windows: np.ndarray) -> None:
    encoder = make_encoder(1)
    export_encoder(tmp_path / "encoder", encoder, HOURS, COLUMNS)
    np.save(tmp_path / "windows.npy", windows)
    command = [sys.executable, "-c", LOADER, tmp_path / "encoder", tmp_path / "windows.npy", tmp_path]
    result = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, timeout=120, check=False)
    assert result.returncode == 0, result.stderr
    assert result.stdout.splitlines() == ["(None, 48, 7) ['representations']", "[]"]
    expected = encoder(windows).numpy()
    for samples in (1, 5, 33):
        np.testing.assert_allclose(np.load(tmp_path / f"{samples}.npy"), expected[:samples], rtol=0, atol=1e-6)


def test_an_export_replaces_an_older_one_whole_and_prints_nothing(tmp_path: pathlib.Path, capfd) -> None:
    (tmp_path / "encoder").mkdir()
    (tmp_path / "encoder" / "old.txt").write_text("old")
    export_encoder(tmp_path / "encoder", make_encoder(2), HOURS, COLUMNS)
    assert [path.name for path in tmp_path.iterdir()] == ["encoder"]  # nothing partial stays
    assert {"saved_model.pb", "variables"} <= {path.name for path in (tmp_path / "encoder").iterdir()}
    assert not (tmp_path / "encoder" / "old.txt").exists()
    assert capfd.readouterr().out == ""
