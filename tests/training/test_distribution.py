"""One training on several workers or devices equals that of one process; a lost worker stops the others, and all resume."""

import json
import os
import pathlib
import re
import signal
import socket
import subprocess
import sys

import numpy as np
import pytest

from processes import ROOT, finish, start, wait_for
from tiny import TINY, bindings, train
from trainings import assert_same_bits, checkpoints, record, reports, state

STEPS, REPORT_EVERY = 30, 10
SIZES = {"batch_size": 64, "queue_size": 512, "steps": STEPS, "report_every": REPORT_EVERY}
SETTINGS = SIZES | {"augmentation.layers": ("noise",)}


def free_ports(count: int) -> list[int]:
    servers = [socket.create_server(("127.0.0.1", 0)) for _ in range(count)]
    ports = [server.getsockname()[1] for server in servers]
    for server in servers:
        server.close()
    return ports


def start_worker(
    python: str, index: int, ports: list[int], cohort: pathlib.Path, run_dir: pathlib.Path, wait: int = 200
) -> subprocess.Popen:
    """One of two workers, as a user starts it."""
    task = {"type": "worker", "index": index}
    cluster = {"worker": [f"127.0.0.1:{port}" for port in ports]}
    flags = [f"--gin_param={text}" for text in bindings(TINY | SETTINGS | {"cohort": str(cohort)})]
    flags += ["--strategy=multiworker", "--gin_file=paper/physionet2019/ncl_w.gin", f"--run_dir={run_dir}"]
    environment = os.environ | {"TF_CONFIG": json.dumps({"cluster": cluster, "task": task})}
    return start([python, str(ROOT / "bin" / "train"), f"--wait={wait}", *flags], env=environment)


def assert_close(found: pathlib.Path, expected: pathlib.Path) -> None:
    """Weights, queue and optimizer, and what was reported."""
    one, other = state(expected), state(found)
    assert other.keys() == one.keys()
    assert {"momentum_contrast/queue_keys", "momentum_contrast/queue_stay", "adam/iteration"} <= one.keys()
    for name, value in one.items():
        np.testing.assert_allclose(other[name], value, rtol=0, atol=1e-5, err_msg=name)
    assert [line["step"] for line in reports(found)] == list(range(REPORT_EVERY, STEPS + 1, REPORT_EVERY))
    for line, other_line in zip(reports(expected), reports(found), strict=True):
        assert other_line == pytest.approx(line, rel=1e-4)


@pytest.fixture(scope="module")
def alone(ward_cohort, tmp_path_factory):
    """The run of one process on the joint batch."""
    run_dir = tmp_path_factory.mktemp("alone") / "run"
    train(run_dir, "physionet2019/ncl_w", ward_cohort, **SETTINGS)
    return run_dir


def train_on_two(python: str, cohort: pathlib.Path, run_dir: pathlib.Path, kill: int | None = None) -> list[tuple]:
    """Exit code, output and errors of both; `kill`: of the other one, after this one was killed at the first checkpoint."""
    ports = free_ports(2)
    workers = [start_worker(python, index, ports, cohort, run_dir) for index in range(2)]
    if kill is None:
        return [finish(worker) for worker in workers]
    wait_for(lambda: checkpoints(run_dir), workers[0])
    workers[kill].send_signal(signal.SIGKILL)
    finish(workers[kill])
    return [finish(workers[1 - kill])]


def weights_at_the_end(results: list[tuple]) -> set[str]:
    """Return the checksums that the workers print."""
    for code, _, err in results:
        assert code == 0, err
    line = rf"^worker (\d): ended at step {STEPS} with weights (\w{{16}})$"
    printed = [re.search(line, out, re.MULTILINE) for _, out, _ in results]
    assert [match[1] for match in printed] == ["0", "1"]
    return {match[2] for match in printed}


def test_a_lost_worker_stops_the_other_and_both_resume_to_where_one_process_ends(python, ward_cohort, alone, tmp_path):
    run_dir = tmp_path / "run"
    ((code, _, err),) = train_on_two(python, ward_cohort, run_dir, kill=1)
    assert code == 1, err
    lost = r"^error: worker 0: another worker was lost at step \d\d \(.*(reset|closed|down|failed).*\)\. "
    advice = r"Start all .* with the same commands: they resume from step [12]0$"
    assert re.search(lost + advice, err, re.MULTILINE), err
    assert record(run_dir)["status"] == "started"
    results = train_on_two(python, ward_cohort, run_dir)
    assert len(weights_at_the_end(results)) == 1
    assert re.search(r"from step [12]0\n", results[0][1])
    assert "2 replicas, 32 samples of each batch on each" in results[0][1]
    assert_close(run_dir, alone)
    assert record(run_dir)["status"] == "finished"
    assert (run_dir / "encoder/1/saved_model.pb").exists()
    assert not list(run_dir.rglob("*.partial"))


def test_a_worker_that_waits_in_vain_ends_with_an_error(python, ward_cohort, tmp_path):
    ports = free_ports(2)
    code, _, err = finish(start_worker(python, 1, ports, ward_cohort, tmp_path / "run", wait=2))
    assert code == 1
    addresses = ", ".join(f"127.0.0.1:{port}" for port in ports)
    assert re.search(rf"error: worker 1: .* 2 seconds \({re.escape(addresses)}\).* --wait", err)
    assert not (tmp_path / "run").exists()


@pytest.mark.slow
def test_without_its_chief_a_worker_stops_and_interrupted_workers_end_with_the_same_bits(python, ward_cohort, tmp_path):
    ((code, _, err),) = train_on_two(python, ward_cohort, tmp_path / "killed", kill=0)
    assert code == 1
    assert "error: worker 1: another worker was lost at step " in err
    killed, undisturbed = (train_on_two(python, ward_cohort, tmp_path / name) for name in ("killed", "undisturbed"))
    assert weights_at_the_end(killed) == weights_at_the_end(undisturbed)
    assert_same_bits(tmp_path / "undisturbed", tmp_path / "killed")


@pytest.mark.slow
def test_every_method_on_two_devices_is_that_on_one(ward_cohort, tmp_path):
    """In a process of its own: TensorFlow takes logical devices only before it starts."""
    command = [sys.executable, str(ROOT / "tests" / "mirrored.py"), str(ward_cohort), str(tmp_path)]
    result = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=900, check=False)
    assert result.stdout.endswith("two devices equal one\n"), result.stderr[-3000:]
