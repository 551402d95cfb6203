"""Disks that are full, folders that cannot be written, folders that disappear, and clocks that jump."""

import os
import pathlib
import shutil
import subprocess
import time

import keras
import numpy as np
import pytest
import tensorflow as tf

from ncl_tf import files
from ncl_tf.errors import InputError
from ncl_tf.evaluation import heads
from ncl_tf.networks.heads import Head
from ncl_tf.runs import Run
from ncl_tf.training.clock import Clock
from ncl_tf.training.writing import writing
from processes import ROOT
from refusals import refused
from tiny import train
from trainings import contents, record, reports, state

SIZES = {"batch_size": 32, "queue_size": 256, "steps": 3, "report_every": 1}
FULL = "cannot be written (No space left on device)"


@pytest.fixture
def small_disk(tmp_path):
    """A file system of 128 KiB, where this process may mount one."""
    folder = tmp_path / "disk"
    folder.mkdir()
    made = subprocess.run(
        ["mount", "-t", "tmpfs", "-o", "size=128k", "tmpfs", folder], capture_output=True, check=False
    )
    if made.returncode:
        pytest.skip(f"no file system can be mounted here: {made.stderr.decode().strip()}")
    yield folder
    subprocess.run(["umount", "--lazy", folder], check=True)


def fill(disk: pathlib.Path, left: int) -> None:
    """Leave about so many bytes of a small disk."""
    (disk / "fill").unlink(missing_ok=True)
    (disk / "fill").write_bytes(bytes(max(shutil.disk_usage(disk).free - left, 0)))


@pytest.mark.usefixtures("eager")
def test_a_training_on_a_full_disk_ends_in_one_line_and_resumes_once_there_is_space(small_disk, ward_cohort, tmp_path):
    """Whatever it is that finds no space: the record, a report, TensorBoard's log, a checkpoint or the export."""
    train(tmp_path / "whole", "physionet2019/ncl_w", ward_cohort, **SIZES)
    subprocess.run(["mount", "-o", "remount,size=4m", small_disk], check=True)
    run_dir, met = small_disk / "run", set()
    for left in (0, 16384, 300_000):
        fill(small_disk, left)
        try:
            train(run_dir, "physionet2019/ncl_w", ward_cohort, **SIZES)
        except InputError as error:
            assert "No space left on device" in str(error)
            assert "\n" not in str(error)
            met.add(pathlib.Path(str(error).split(": ")[0]).name)
        keras.backend.clear_session()
    assert len(met) > 1, met
    (small_disk / "fill").unlink()
    subprocess.run(["mount", "-o", "remount,size=64m", small_disk], check=True)
    train(run_dir, "physionet2019/ncl_w", ward_cohort, **SIZES)
    assert record(run_dir)["status"] == "finished"
    expected, found = state(tmp_path / "whole"), state(run_dir)
    assert [name for name, value in expected.items() if value.tobytes() != found[name].tobytes()] == []
    assert reports(run_dir) == reports(tmp_path / "whole")
    assert not list(run_dir.rglob("*.partial"))


def test_an_export_on_a_full_disk_is_one_line(small_disk):
    saved = tf.Module()
    saved.variable = tf.Variable(np.random.default_rng(0).normal(size=100_000))
    model = small_disk / "model"
    with refused(f"{model}: {FULL}"), files.atomic_folder(model) as new, writing(model):
        tf.saved_model.save(saved, new / "1")
    assert list(small_disk.iterdir()) == []


@pytest.fixture(scope="module")
def made(ward, python, tmp_path_factory) -> pathlib.Path:
    folder = tmp_path_factory.mktemp("made")
    rows = [f"{stay},{hour},{60 + hour},{stay % 2}" for stay in range(900) for hour in (0, 1)]
    (folder / "in.csv").write_text("\n".join(["stay,hour,HR,ill", *rows, ""]))
    schema = 'name = "small"\nstay = "stay"\nhour = "hour"\n[[channels]]\nname = "HR"\n[[tasks]]\nname = "ill"\n'
    (folder / "schema.toml").write_text(schema)
    return folder


PROGRAMS = {
    "prepare a table": [
        "bin/prepare",
        "table",
        "--source={made}/in.csv",
        "--schema={made}/schema.toml",
        "--output={out}/o.h5",
    ],
    "prepare a cohort": ["bin/prepare", "physionet2019", "--source={ward}", "--split=random", "--output={out}/o.h5"],
    "simulate": ["bin/prepare", "simulate", "--form=mimic3_benchmark", "--stays=300", "--output={out}/ward"],
}


@pytest.mark.parametrize("name", PROGRAMS)
def test_programs_on_a_full_disk_leave_what_was_there(name, ward, made, python, tmp_path):
    out = tmp_path / "out"
    out.mkdir()
    (out / "other").write_text("there before")
    command = [python, *(text.format(ward=ward, made=made, out=out) for text in PROGRAMS[name])]
    settings = {"cwd": ROOT, "capture_output": True, "text": True, "check": False}
    result = subprocess.run(command, env=os.environ | {"NCL_TEST_LARGEST_FILE": "16384"}, **settings)
    assert result.returncode == 1
    last = result.stderr.splitlines()[-1]
    assert last.startswith("error: ") and last.endswith("cannot be written (File too large)")
    assert "Traceback" not in result.stderr
    assert contents(out) == {"other": b"there before"}


@pytest.mark.parametrize("name", PROGRAMS)
def test_programs_in_a_folder_that_cannot_be_written(name, ward, made, python, tmp_path):
    """Root may write everywhere, so here a file stands where a folder should."""
    (tmp_path / "out").write_text("no folder")
    command = [python, *(text.format(ward=ward, made=made, out=tmp_path / "out") for text in PROGRAMS[name])]
    result = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    assert result.returncode == 1
    assert "cannot write into this folder" in result.stderr.splitlines()[-1]
    assert (tmp_path / "out").read_text() == "no folder"


@pytest.mark.usefixtures("eager")
def test_tensorboards_folder_may_disappear_midway(ward_cohort, tmp_path, monkeypatch):
    run_dir = tmp_path / "run"
    log = Run.log

    def watched(run, metrics):
        log(run, metrics)
        if metrics["step"] == 1:
            shutil.rmtree(run_dir / "logs")

    monkeypatch.setattr(Run, "log", watched)
    train(run_dir, "physionet2019/ncl_w", ward_cohort, **SIZES)
    assert record(run_dir)["status"] == "finished"
    assert [line["step"] for line in reports(run_dir)] == [1, 2, 3]


@pytest.mark.usefixtures("eager")
def test_a_run_directory_that_is_deleted_midway_is_an_error(ward_cohort, tmp_path, monkeypatch):
    run_dir, log = tmp_path / "run", Run.log

    def watched(run, metrics):
        log(run, metrics)
        if metrics["step"] == 2:
            shutil.rmtree(run_dir)

    monkeypatch.setattr(Run, "log", watched)
    with refused(f"{run_dir}: was deleted"):
        train(run_dir, "physionet2019/ncl_w", ward_cohort, **SIZES)
    assert not (run_dir / "run.json").exists()


@pytest.mark.parametrize("jump", [-1e6, 1e6])
def test_the_systems_clock_may_jump(jump, monkeypatch):
    """Time limits are kept by a clock that does not jump; a part of an epoch that was cut short is completed."""
    clock, times, now = Clock(0, max_minutes=10), iter([time.time() + jump]), time.time
    monkeypatch.setattr(time, "time", lambda: next(times, None) or now())  # that limits the first part of the epoch
    assert 590 < clock.left < 601
    assert not clock.over
    features = np.random.default_rng(0).normal(size=(700, 3)).astype(np.float32)
    samples = heads.LabelledSamples.from_array(features, (features[:, 0] > 0).astype(np.int32))
    head = Head("linear", 2)
    head.build((None, 3))
    optimizer = keras.optimizers.Adam(0.1)
    optimizer.build(head.trainable_variables)
    run_epoch = heads.epoch_function(head, optimizer, samples, np.ones(2, np.float32), batch_size=10)
    run_epoch(1, 0, lambda: clock.left)
    assert int(optimizer.iterations.numpy()) == 70
