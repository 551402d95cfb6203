"""`bin/train` as users run it: processes that are killed, go on or refuse."""

import json
import os
import pathlib
import shutil
import signal
import sys
import time

import numpy as np
import pytest

from processes import ROOT, finish, start, wait_for

STEPS, REPORT_EVERY = 30, 10
TINY = {
    "fast": False,
    "jit_compile": False,
    "encoder.dilations": (1,),
    "encoder.filters": 8,
    "augmentation.layers": ("channel_dropout",),  # one draw by step suffices here
    "batch_size": 64,
    "queue_size": 512,
    "steps": STEPS,
    "report_every": REPORT_EVERY,
}


def command(cohort: pathlib.Path, run_dir: pathlib.Path | None, *flags: str, **macros) -> list[str]:
    params = TINY | {"cohort": str(cohort)} | macros
    return [
        sys.executable,
        str(ROOT / "bin" / "train"),
        "--gin_file=gin/paper/physionet2019/ncl_w.gin",
        *(f"--gin_param={name} = {value!r}" for name, value in params.items()),
        *([f"--run_dir={run_dir}"] if run_dir else []),
        *flags,
    ]


def checkpoints(run_dir: pathlib.Path) -> list[int]:
    return sorted(int(path.stem.split("-")[1]) for path in run_dir.glob("checkpoints/step-*.npz"))


def state(run_dir: pathlib.Path, step: int = STEPS) -> dict[str, np.ndarray]:
    with np.load(run_dir / "checkpoints" / f"step-{step:08d}.npz") as archive:
        return dict(archive)


def contents(run_dir: pathlib.Path) -> dict[pathlib.Path, bytes]:
    return {path: path.read_bytes() for path in run_dir.rglob("*") if path.is_file()}


@pytest.fixture(scope="module")
def cohort(ward_cohort: pathlib.Path) -> pathlib.Path:
    return ward_cohort


@pytest.fixture(scope="module")
def runs(cohort: pathlib.Path, tmp_path_factory: pytest.TempPathFactory) -> tuple[pathlib.Path, pathlib.Path]:
    """A run without interruption, where runs go by default, and one that is killed between two checkpoints."""
    folder = tmp_path_factory.mktemp("processes")
    whole, killed = folder / "runs" / "physionet2019-ncl_w-seed1111", folder / "killed"
    undisturbed = start(command(cohort, None), folder)
    process = start(command(cohort, killed), folder)
    wait_for(lambda: checkpoints(killed), process)
    time.sleep(0.1)  # into the steps of the next report
    os.kill(process.pid, signal.SIGKILL)
    assert finish(process)[0] == -signal.SIGKILL
    assert 0 < checkpoints(killed)[-1] < STEPS
    code, out, err = finish(undisturbed)
    assert code == 0, err
    assert f"Encoder: {(whole / 'encoder').relative_to(folder)}" in out
    return whole, killed


def test_a_killed_run_ends_like_one_that_was_left_alone(
    runs: tuple[pathlib.Path, pathlib.Path], cohort: pathlib.Path, tmp_path: pathlib.Path
) -> None:
    whole, killed = runs
    before = checkpoints(killed)[-1]
    moved = shutil.copy(cohort, tmp_path / "moved.h5")
    code, out, err = finish(start(command(moved, killed), tmp_path))
    assert code == 0, err
    assert f"going on from step {before}" in out
    expected, found = state(whole), state(killed)
    assert found.keys() == expected.keys()
    assert {"momentum_contrast/queue_keys", "momentum_contrast/queue_stay", "adam/iteration"} <= found.keys()
    for name, value in expected.items():
        assert value.tobytes() == found[name].tobytes(), name
    assert (whole / "metrics.jsonl").read_bytes() == (killed / "metrics.jsonl").read_bytes()
    steps = [json.loads(line)["step"] for line in (killed / "metrics.jsonl").read_text().splitlines()]
    assert steps == list(range(REPORT_EVERY, STEPS + 1, REPORT_EVERY))
    told = json.loads((killed / "run.json").read_text())
    assert (told["status"], [continuation["step"] for continuation in told["continued"]]) == ("finished", [before])
    assert (killed / "encoder/1/saved_model.pb").exists()


@pytest.mark.slow
def test_the_fast_forms_on_two_threads_go_on_to_the_same_bits(cohort: pathlib.Path, tmp_path: pathlib.Path) -> None:
    """As users train: fast, compiled by XLA, on more than one core, the batch in pieces."""
    ours = {"fast": True, "jit_compile": True, "batch_size": 192, "queue_size": 1536}
    threads = {"env": os.environ | {"TF_NUM_INTRAOP_THREADS": "2", "OMP_NUM_THREADS": "2"}}
    whole, killed = tmp_path / "whole", tmp_path / "killed"
    assert finish(start(command(cohort, whole, **ours), tmp_path, **threads))[0] == 0
    process = start(command(cohort, killed, **ours), tmp_path, **threads)
    wait_for(lambda: checkpoints(killed), process)
    os.kill(process.pid, signal.SIGKILL)
    assert finish(process)[0] == -signal.SIGKILL
    assert 0 < checkpoints(killed)[-1] < STEPS
    code, _, err = finish(start(command(cohort, killed, **ours), tmp_path, **threads))
    assert code == 0, err
    for name, value in state(whole).items():
        assert value.tobytes() == state(killed)[name].tobytes(), name


def test_another_configuration_is_refused_and_the_run_left_alone(
    runs: tuple[pathlib.Path, pathlib.Path], cohort: pathlib.Path, tmp_path: pathlib.Path
) -> None:
    """The other configuration has a neighbourhood of the user's own, from a module in the working folder."""
    (tmp_path / "mine.py").write_text(
        "import gin\n\n@gin.configurable\ndef same_parity(anchors, keys):\n"
        "    return anchors.hour[:, None] % 2 == keys.hour[None, :] % 2\n"
    )
    run_dir, before = runs[0], contents(runs[0])
    own = ["--import=mine", "--gin_param=momentum_contrast.neighborhood = @same_parity"]
    assert finish(start(command(cohort, run_dir, *own, temperature=0.2), tmp_path)) == (
        1,
        "",
        f"error: {run_dir}: holds a run with another configuration; name another --run_dir, or use the same. "
        "Different are\n"
        "  momentum_contrast.neighborhood = @same_parity   (the run has @SameStayWithin())\n"
        "  temperature = 0.2   (the run has 0.1)\n",
    )
    assert contents(run_dir) == before
