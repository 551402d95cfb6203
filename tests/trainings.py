"""What trainings leave in their run directories, read and damaged without the code under test."""

import json
import pathlib
import shutil

import numpy as np


def record(run_dir: pathlib.Path) -> dict:
    """Read run.json."""
    return json.loads((run_dir / "run.json").read_text())


def reports(run_dir: pathlib.Path) -> list[dict[str, float]]:
    """Read metrics.jsonl."""
    return [json.loads(line) for line in (run_dir / "metrics.jsonl").read_text().splitlines()]


def checkpoints(run_dir: pathlib.Path) -> dict[int, pathlib.Path]:
    """Find the checkpoints, the newest last, by step."""
    return {int(path.stem.split("-")[1]): path for path in sorted(run_dir.glob("checkpoints/step-*.npz"))}


def state(run_dir: pathlib.Path) -> dict[str, np.ndarray]:
    """Read the newest checkpoint: value by name."""
    with np.load(list(checkpoints(run_dir).values())[-1]) as archive:
        return dict(archive)


def contents(folder: pathlib.Path) -> dict[str, bytes]:
    """Read all files of a folder, by their paths within it."""
    return {str(path.relative_to(folder)): path.read_bytes() for path in folder.rglob("*") if path.is_file()}


def interrupted(finished: pathlib.Path, run_dir: pathlib.Path, **facts) -> pathlib.Path:
    """Copy a run as if it had been killed after its last checkpoint, before it exported the encoder."""
    shutil.copytree(finished, run_dir, ignore=shutil.ignore_patterns("encoder", "operative_config.gin"))
    ends = ("result", "best_epoch", "stopped_by_budget")
    kept = {name: value for name, value in record(finished).items() if name not in ends}
    (run_dir / "run.json").write_text(json.dumps(kept | {"status": "started"} | facts))
    return run_dir


def assert_same_bits(one: pathlib.Path, other: pathlib.Path) -> None:
    """Compare the newest checkpoints and all reports of two runs, bit for bit."""
    expected, found = state(one), state(other)
    assert found.keys() == expected.keys()
    assert [name for name, value in expected.items() if value.tobytes() != found[name].tobytes()] == []
    assert (one / "metrics.jsonl").read_bytes() == (other / "metrics.jsonl").read_bytes()
