"""Every kind of method trained on two devices and on one: mirrored.py COHORT FOLDER; run by test_distribution.py."""

import json
import pathlib
import sys

import numpy as np
import pytest
import tensorflow as tf

tf.config.set_logical_device_configuration(
    tf.config.list_physical_devices("CPU")[0], [tf.config.LogicalDeviceConfiguration()] * 2
)
sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent))

from ncl_tf import runs  # noqa: E402 - it starts TensorFlow
from ncl_tf.serving.export import export_encoder  # noqa: E402
from ncl_tf.training import config, distribution, trainer  # noqa: E402 - it starts TensorFlow
from refusals import refused  # noqa: E402

cohort, folder = sys.argv[1], pathlib.Path(sys.argv[2])
SMALL = {"cohort": cohort, "fast": False, "encoder.dilations": (24,), "encoder.filters": 8}
FIXED = SMALL | {"batch_size": 64, "steps": 4, "report_every": 2}
METHODS = {
    "ncl_y": FIXED | {"queue_size": 512},
    "seq2seq_ae_forecast": FIXED,
    # The validation split is shorter than a stretch for each device: the second one's lies beyond its end.
    "end_to_end": SMALL | {"protocol.batch_size": 202, "max_epochs": 2},
}


def train(method: str, name: str, gather=distribution.Alone, **macros) -> pathlib.Path:
    bound = METHODS[method] | macros
    config.configure([f"paper/physionet2019/{method}.gin"], [f"{name} = {value!r}" for name, value in bound.items()])
    trainer.train(runs.Run(folder / name), gather, export=export_encoder)
    return folder / name


both = distribution.gather("mirrored")  # once: a second strategy of the process would reuse the first one's collectives
for method in METHODS:
    alone = train(method, f"{method}_alone", jit_compile=False)
    together = train(method, f"{method}_together", lambda: both, jit_compile=False)
    newest = [sorted(path.glob("checkpoints/*.npz"))[-1] for path in (alone, together)]
    assert newest[0].name == newest[1].name
    one, two = (dict(np.load(path)) for path in newest)
    for name, value in one.items():
        np.testing.assert_allclose(two[name], value, rtol=0, atol=1e-5, err_msg=name)
    reports = [(path / "metrics.jsonl").read_text().splitlines() for path in (alone, together)]
    for lines in zip(*reports, strict=True):
        expected, found = map(json.loads, lines)
        assert found == pytest.approx(expected, rel=1e-4)
    encoders = [tf.saved_model.load(str(path / "encoder" / "1")) for path in (alone, together)]
    windows = np.random.default_rng(0).normal(size=(3, 48, 40)).astype(np.float32)
    np.testing.assert_allclose(*(encoder.embed(windows)["representations"] for encoder in encoders), atol=1e-5)

with refused("batch_size", "multiple of 2", "got 65", "nearest: 64"):
    train("ncl_y", "refused", lambda: both, batch_size=65, queue_size=520)
assert not (folder / "refused").exists()
print("two devices equal one")
