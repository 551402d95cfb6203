"""`bin/train` as users run it: processes that are killed, resume or refuse."""

import os
import pathlib
import shutil
import signal
import sys
import time

import pytest

from processes import ROOT, finish, start, wait_for
from tiny import TINY, bindings
from trainings import assert_same_bits, checkpoints, contents, record, reports, state

STEPS, REPORT_EVERY = 30, 10
SIZES = {"batch_size": 64, "queue_size": 512, "steps": STEPS, "report_every": REPORT_EVERY}
SETTINGS = TINY | SIZES | {"augmentation.layers": ("channel_dropout",)}  # one draw by step suffices here


def command(python: str, cohort: pathlib.Path, run_dir: pathlib.Path | None, *flags: str, **macros) -> list[str]:
    params = [f"--gin_param={text}" for text in bindings(SETTINGS | {"cohort": str(cohort)} | macros)]
    program = [python, str(ROOT / "bin" / "train"), "--gin_file=gin/paper/physionet2019/ncl_w.gin"]
    return [*program, *params, *([f"--run_dir={run_dir}"] if run_dir else []), *flags]


def train_and_kill(arguments: list[str], run_dir: pathlib.Path, folder: pathlib.Path, **settings) -> int:
    """Kill a training between two checkpoints and return the step of the last one."""
    process = start(arguments, folder, **settings)
    wait_for(lambda: checkpoints(run_dir), process)
    time.sleep(0.1)  # into the steps of the next report
    os.kill(process.pid, signal.SIGKILL)
    assert finish(process)[0] == -signal.SIGKILL
    step = max(checkpoints(run_dir))
    assert 0 < step < STEPS
    return step


@pytest.fixture(scope="module")
def whole(ward_cohort, python, tmp_path_factory):
    """A run without interruption, where runs are by default."""
    folder = tmp_path_factory.mktemp("whole")
    run_dir = folder / "runs" / "physionet2019-ncl_w-seed1111"
    code, out, err = finish(start(command(python, ward_cohort, None), folder))
    assert code == 0, err
    assert f"Encoder: {(run_dir / 'encoder').relative_to(folder)}" in out
    return run_dir


def test_a_killed_run_ends_like_one_that_was_left_alone(whole, ward_cohort, python, tmp_path):
    """The killed process is one of its own from the start; the run is resumed with a cohort file that has moved."""
    killed = tmp_path / "killed"
    before = train_and_kill(command(sys.executable, ward_cohort, killed), killed, tmp_path)
    moved = shutil.copy(ward_cohort, tmp_path / "moved.h5")
    code, out, err = finish(start(command(python, moved, killed), tmp_path))
    assert code == 0, err
    assert f"from step {before}" in out
    assert_same_bits(whole, killed)
    assert {"momentum_contrast/queue_keys", "momentum_contrast/queue_stay", "adam/iteration"} <= state(killed).keys()
    assert max(checkpoints(killed)) == STEPS
    assert [line["step"] for line in reports(killed)] == list(range(REPORT_EVERY, STEPS + 1, REPORT_EVERY))
    assert record(killed)["status"] == "finished"
    assert [resumed["step"] for resumed in record(killed)["continued"]] == [before]
    assert (killed / "encoder/1/saved_model.pb").exists()


@pytest.mark.slow
def test_the_fast_forms_on_two_threads_resume_to_the_same_bits(ward_cohort, tmp_path):
    """As users train: fast, compiled by XLA, on more than one core, the batch in pieces."""
    ours = {"fast": True, "jit_compile": True, "batch_size": 192, "queue_size": 1536}
    threads = {"env": os.environ | {"TF_NUM_INTRAOP_THREADS": "2", "OMP_NUM_THREADS": "2"}}
    whole, killed = tmp_path / "whole", tmp_path / "killed"
    once, again = (command(sys.executable, ward_cohort, run_dir, **ours) for run_dir in (whole, killed))
    assert finish(start(once, tmp_path, **threads))[0] == 0
    train_and_kill(again, killed, tmp_path, **threads)
    code, _, err = finish(start(again, tmp_path, **threads))
    assert code == 0, err
    assert_same_bits(whole, killed)


def test_another_configuration_is_refused_and_the_run_left_alone(whole, ward_cohort, python, tmp_path):
    """The other configuration has a neighborhood of the user's own, from a module in the working folder."""
    (tmp_path / "mine.py").write_text(
        "import gin\n\n@gin.configurable\ndef same_parity(anchors, keys):\n"
        "    return anchors.hour[:, None] % 2 == keys.hour[None, :] % 2\n"
    )
    before = contents(whole)
    own = ["--import=mine", "--gin_param=momentum_contrast.neighborhood = @same_parity"]
    code, out, err = finish(start(command(python, ward_cohort, whole, *own, temperature=0.2), tmp_path))
    assert (code, out) == (1, "")
    first, *different = err.splitlines()
    assert first.startswith(f"error: {whole}: ")
    assert "--run_dir" in first
    neighborhood = ("momentum_contrast.neighborhood", "@same_parity", "@SameStayWithin()")
    for line, parts in zip(different, (neighborhood, ("temperature", "0.2", "0.1")), strict=True):
        assert [part for part in parts if part not in line] == []
    assert contents(whole) == before
