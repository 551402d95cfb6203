"""Runs to be evaluated: trained for a moment, without graphs."""

import json
import pathlib
import shutil
from collections.abc import Callable, Iterator

import gin
import pytest
import tensorflow as tf

from ncl_tf import runs
from ncl_tf.data.cohort import Cohort
from ncl_tf.serving.export import export_encoder
from ncl_tf.training import config, trainer

TINY = {
    "fast": False,
    "jit_compile": False,
    "encoder.dilations": (24,),
    "encoder.filters": 8,
    "augmentation.layers": ("channel_dropout",),  # one draw by step suffices here
    "batch_size": 256,
    "queue_size": 512,
    "steps": 2,
    "report_every": 1,
    "max_epochs": 3,
    "protocol.batch_size": 256,
    "protocol.linear_rate": 1e-2,
    "protocol.mlp_rate": 1e-2,
    "protocol.fine_tune_rate": 1e-3,
}


@pytest.fixture(scope="module")
def eager() -> Iterator[None]:
    """Without graphs: tracing one costs more than a few steps."""
    tf.config.run_functions_eagerly(True)
    yield
    tf.config.run_functions_eagerly(False)
    gin.clear_config()


@pytest.fixture(scope="module")
def trained(eager: None) -> Callable[..., pathlib.Path]:
    """Trains a method of the paper with tiny settings."""

    def trained(folder: pathlib.Path, method: str, data: pathlib.Path, **macros) -> pathlib.Path:
        params = TINY | {"cohort": str(data)} | macros
        file = folder.with_suffix(".gin")  # which may hold what a method ignores
        file.write_text("".join(f"{name} = {value!r}\n" for name, value in params.items()))
        config.configure([f"paper/{method}.gin", str(file)], [])
        trainer.train(runs.Run(folder), export=export_encoder)
        return folder

    return trained


@pytest.fixture(scope="module")
def adopted() -> Callable[..., pathlib.Path]:
    """Copies a run into a folder, where it takes another cohort for its own."""

    def adopted(run_dir: pathlib.Path, data: pathlib.Path, folder: pathlib.Path) -> pathlib.Path:
        shutil.copytree(run_dir, folder, ignore=shutil.ignore_patterns("evaluations"))
        record = json.loads((folder / "run.json").read_text())
        (folder / "run.json").write_text(json.dumps(record | {"cohort_checksum": Cohort(data).checksum}))
        return folder

    return adopted


@pytest.fixture(scope="module")
def ncl_w(
    trained: Callable[..., pathlib.Path], ward_cohort: pathlib.Path, tmp_path_factory: pytest.TempPathFactory
) -> pathlib.Path:
    """A run of NCL(n_w)."""
    return trained(tmp_path_factory.mktemp("runs") / "ncl_w", "physionet2019/ncl_w", ward_cohort)
