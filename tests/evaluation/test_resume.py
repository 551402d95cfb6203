"""`bin/evaluate` that is killed while it trains: started again, it ends like one that was left alone."""

import json
import os
import pathlib
import shutil
import signal
import subprocess

import pytest
import tensorflow as tf

from processes import finish, start, wait_for

PARAMS = ["--gin_param=protocol.max_epochs = 12", "--gin_param=protocol.patience = 12"]
FLAGS = {"sepsis-mlp": ["--head=mlp"], "sepsis-linear-fine_tuned": ["--head=linear", "--fine_tune"]}


def evaluation(python: str, run_dir: pathlib.Path, name: str) -> subprocess.Popen:
    return start([python, "bin/evaluate", f"--run_dir={run_dir}", *FLAGS[name], *PARAMS])


@pytest.mark.parametrize("name", FLAGS)
def test_a_killed_evaluation_ends_like_one_that_was_left_alone(name, python, ncl_w, tmp_path):
    whole, killed = (shutil.copytree(ncl_w, tmp_path / folder) for folder in ("whole", "killed"))
    undisturbed, process = evaluation(python, whole, name), evaluation(python, killed, name)
    kept = killed / "evaluations" / name
    wait_for((kept / "progress.json").exists, process)
    os.kill(process.pid, signal.SIGKILL)
    assert finish(process)[0] == -signal.SIGKILL
    assert len(list((kept / "checkpoints").glob("step-*.npz"))) == 1
    code, out, err = finish(evaluation(python, killed, name))
    assert code == 0, err
    assert f"{kept}: resuming from epoch 2" in out
    assert finish(undisturbed)[0] == 0
    expected, found = (json.loads((folder / f"evaluations/{name}.json").read_text()) for folder in (whole, killed))
    assert len(expected["curve"]) == 12
    steps_of_an_epoch = -(-2277 // found["protocol"]["batch_size"])  # for 2,277 training hours
    assert [resumed["step"] for resumed in found["continued"]] == [steps_of_an_epoch]
    assert found == expected | {key: found[key] for key in ("wall_seconds", "started", "continued")}
    expected, found = (weights(folder / f"evaluations/{name}/classifier/1") for folder in (whole, killed))
    assert len(expected) > 2
    assert found == expected
    predictions = f"evaluations/{name}.parquet"
    assert (killed / predictions).read_bytes() == (whole / predictions).read_bytes()
    assert [path.name for path in kept.iterdir()] == ["classifier"]


def weights(model: pathlib.Path) -> dict[str, bytes]:
    """The variables of a SavedModel, by name."""
    reader = tf.train.load_checkpoint(str(model / "variables" / "variables"))
    names = [name for name in reader.get_variable_to_shape_map() if not name.startswith("_")]
    return {name: reader.get_tensor(name).tobytes() for name in names}
