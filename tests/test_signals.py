"""Programs that are asked to stop: by SIGTERM, SIGHUP and Ctrl-C, once, twice, and under nohup."""

import os
import pathlib
import signal
import subprocess
import sys
import time

import pytest

from processes import ROOT, finish, start, wait_for
from tiny import TINY, bindings
from trainings import assert_same_bits, checkpoints, record, reports, state

STEPS = 40  # the only report is the last one, so that a training is always stopped within one
SIZES = {"batch_size": 64, "steps": STEPS, "report_every": STEPS}
CONTRASTIVE = SIZES | {"queue_size": 512, "augmentation.layers": ("channel_dropout",)}
SETTINGS = {"ncl_w": CONTRASTIVE, "seq2seq_ae": SIZES | {"encoder.dilations": (1, 24)}}
SETTINGS["end_to_end"] = {"protocol.batch_size": 64, "max_epochs": 2}  # epochs of 36 steps


def train(python: str, cohort: pathlib.Path, run_dir: pathlib.Path, method: str = "ncl_w", **macros) -> list[str]:
    params = bindings(TINY | SETTINGS[method] | {"cohort": str(cohort)} | macros)
    files = [f"--gin_file=gin/paper/physionet2019/{method}.gin"]
    return [
        python,
        str(ROOT / "bin/train"),
        *files,
        *(f"--gin_param={text}" for text in params),
        f"--run_dir={run_dir}",
    ]


def started_training(arguments: list[str], tmp_path: pathlib.Path, **settings) -> subprocess.Popen:
    """Start a training and wait until it has taken some steps."""
    errors = tmp_path / "errors"
    with errors.open("w") as file:
        process = subprocess.Popen(
            arguments, cwd=ROOT, stdout=subprocess.PIPE, stderr=file, text=True, start_new_session=True,
            env=os.environ | {"TQDM_MININTERVAL": "0"}, **settings,
        )  # fmt: skip
    while "steps" not in (text := errors.read_text()) or " 0/" in text.replace("\r", "\n").splitlines()[-1]:
        assert process.poll() is None, text
        time.sleep(0.002)
    return process


@pytest.fixture(scope="module")
def whole(ward_cohort, python, tmp_path_factory):
    """Trainings without interruption, by method."""
    folder = tmp_path_factory.mktemp("whole")
    processes = {}

    def whole(method: str) -> pathlib.Path:
        if method not in processes:
            processes[method] = finish(start(train(python, ward_cohort, folder / method, method)))
        assert processes[method][0] == 0, processes[method][2]
        return folder / method

    return whole


@pytest.mark.parametrize(
    ("method", "number"),
    [
        ("ncl_w", signal.SIGTERM),
        ("end_to_end", signal.SIGINT),
        pytest.param("seq2seq_ae", signal.SIGHUP, marks=pytest.mark.slow),
    ],
)
def test_a_training_that_is_stopped_between_reports_ends_in_the_same_bits(
    method, number, whole, ward_cohort, python, tmp_path
):
    """The step is finished and kept, and its report in the end covers the steps before and after the stop."""
    run_dir = tmp_path / "run"
    command = train(python, ward_cohort, run_dir, method)
    process = started_training(command, tmp_path)
    process.send_signal(number)
    process.communicate(timeout=300)
    assert process.returncode == 128 + number, (tmp_path / "errors").read_text()
    (step,) = checkpoints(run_dir)
    assert step > 0
    assert record(run_dir)["step"] == step
    assert not (run_dir / "metrics.jsonl").exists()
    last = (tmp_path / "errors").read_text().splitlines()[-1]
    assert last == f"stopped by {number.name}; {run_dir}: start the same command again to resume from step {step}"
    assert any(name.startswith("unfinished/loss") for name in state(run_dir))
    code, out, err = finish(start(command))
    assert code == 0, err
    assert f"resuming from step {step}" in out
    assert_same_bits(whole(method), run_dir)
    assert not any(name.startswith("unfinished") for name in state(run_dir))


def test_a_second_signal_ends_a_program_at_once(ward_cohort, tmp_path):
    """While the main thread computes, it takes no notice of either."""
    code = "import signal, time; from ncl_tf import stopping; stopping.listen()\n"
    code += "with stopping.deferred():\n    print('here', flush=True)\n    while True: time.sleep(0.01)"
    process = start([sys.executable, "-c", code])
    assert process.stdout.readline() == "here\n"
    process.send_signal(signal.SIGTERM)
    process.send_signal(signal.SIGTERM)  # the same request by another way
    time.sleep(1.5)
    assert process.poll() is None
    process.send_signal(signal.SIGINT)
    assert finish(process)[::2] == (130, "stopped at once by a second signal\n")


def test_nohup_stays_in_force(python, tmp_path):
    output = tmp_path / "ward"
    command = [sys.executable, "bin/prepare", "simulate", "--stays=3000", f"--output={output}"]
    process = start(command, preexec_fn=lambda: signal.signal(signal.SIGHUP, signal.SIG_IGN))
    wait_for(lambda: list(tmp_path.glob(".ward.*.partial/new/*")), process)
    process.send_signal(signal.SIGHUP)
    code, _, err = finish(process)
    assert code == 0, err
    assert len(list(output.glob("*.psv"))) == 3000


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGHUP, signal.SIGINT])
def test_a_preparation_that_is_stopped_leaves_nothing(number, python, tmp_path):
    output = tmp_path / "out" / "ward"
    process = start([python, "bin/prepare", "simulate", "--stays=20000", f"--output={output}"])
    wait_for(lambda: list(output.parent.glob(".ward.*.partial/new/*")), process)
    process.send_signal(number)
    code, out, err = finish(process)
    assert (code, out) == (128 + number, "")
    assert err.splitlines()[-1] == f"stopped by {number.name}"
    assert list(output.parent.iterdir()) == []


def test_reproduce_passes_it_on_to_its_jobs(ward_cohort, python, tmp_path):
    """The training writes a checkpoint between two reports, and the next command resumes from it."""
    output = tmp_path / "out"
    settings = TINY | {"cl: steps": 300, "cl: augmentation.layers": ("channel_dropout",), "report_every": 300}
    command = [
        python,
        "bin/reproduce",
        "--table=physionet2019",
        "--budget=smoke",
        "--seeds=1",
        "--methods=cl",
        "--heads=mlp",
    ]
    command += [
        f"--cohort={ward_cohort}",
        f"--output={output}",
        *(f"--gin_param={text}" for text in bindings(settings)),
    ]
    process = start(command)
    log = output / "logs" / "cl-seed1111.log"
    wait_for(lambda: log.exists() and "/300" in log.read_text(), process)
    time.sleep(1)
    process.send_signal(signal.SIGTERM)
    code, _, err = finish(process)
    assert code == 143, err
    assert err.splitlines()[-1].startswith("stopped by SIGTERM; its jobs stop")
    run_dir = output / "runs" / "cl-seed1111"
    (step,) = checkpoints(run_dir)
    assert 0 < step < 300
    assert f"resume from step {step}" in log.read_text().splitlines()[-1]
    assert not (run_dir / "metrics.jsonl").exists() or not reports(run_dir)
