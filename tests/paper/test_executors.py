"""Executors, with real processes: order, failures, never twice, and an end together with whoever started them."""

import ast
import http.server
import os
import pathlib
import signal
import socket
import subprocess
import sys
import threading
import time

import pytest

from ncl_tf.errors import InputError
from ncl_tf.paper import executors
from ncl_tf.paper.executors import Job

ROOT = pathlib.Path(__file__).resolve().parents[2]


def job(folder: pathlib.Path, name: str, *more: str, needs: str | None = None, seconds: float = 0) -> Job:
    output = folder / f"{name}.out"
    arguments = (str(output), str(seconds), *more)
    return Job(name, "tests/paper/small_job.py", arguments, folder, folder / f"{name}.log", needs, output)


def times_run(job: Job) -> int:
    path = job.output.with_suffix(".runs")
    return len(path.read_text(encoding="utf-8").splitlines()) if path.exists() else 0


@pytest.fixture
def local():
    executor = executors.Local(cpus_per_job=1)
    yield executor
    executor.close()


def test_a_failing_job_stops_only_what_needs_it(tmp_path: pathlib.Path, local: executors.Local) -> None:
    finished = job(tmp_path, "finished")
    finished.output.touch()
    jobs = [
        finished,
        job(tmp_path, "bad", "fail"),
        job(tmp_path, "after_bad", needs="bad"),
        job(tmp_path, "good"),
        job(tmp_path, "after_good", needs="good"),
    ]
    reports = []
    outcomes = executors.run_all(jobs, local, lambda outcomes, running: reports.append((dict(outcomes), len(running))))
    assert {name: why for name, why in outcomes.items() if not why} == {"finished": "", "good": "", "after_good": ""}
    assert outcomes["bad"] == f"exit code 1; log: {tmp_path / 'bad.log'}; its last line: error: it was asked to fail"
    assert outcomes["after_bad"] == "not run: it needs bad"
    assert [times_run(job) for job in jobs] == [0, 1, 0, 1, 1]
    assert (tmp_path / "good.log").read_text().startswith(f"$ tests/paper/small_job.py {tmp_path / 'good.out'} 0\n")
    assert reports[0][0] == {"finished": ""}
    assert reports[-1] == (outcomes, 0)
    assert max(running for _, running in reports) <= local.slots


def test_a_job_ends_with_its_starter_and_is_then_run_again(tmp_path: pathlib.Path) -> None:
    long = job(tmp_path, "long", seconds=600)
    code = (
        "import pathlib; from ncl_tf.paper.executors import Job, execute; "
        f"execute(Job({long.name!r}, {long.program!r}, {long.arguments!r}, pathlib.Path({str(tmp_path)!r}), "
        f"pathlib.Path({str(long.log)!r}), None, pathlib.Path({str(long.output)!r})))"
    )
    starter = subprocess.Popen([sys.executable, "-c", code], cwd=ROOT)
    while times_run(long) == 0:
        assert starter.poll() is None
        time.sleep(0.02)
    os.kill(starter.pid, signal.SIGKILL)
    starter.wait()
    short = job(tmp_path, "long")  # the same log and output; its lock is free once the first one is dead
    assert executors.execute(short) == 0
    assert times_run(short) == 2
    assert short.done()
    assert executors.execute(short) == 0
    assert times_run(short) == 2


def test_a_job_never_runs_beside_itself(tmp_path: pathlib.Path, local: executors.Local) -> None:
    again = job(tmp_path, "again", seconds=0.5)
    futures = [local.submit(again), local.submit(again)]
    assert [future.result() for future in futures] == [0, 0]
    assert times_run(again) == 1


@pytest.mark.skipif(
    executors.local_slots(1) < 2 or not hasattr(os, "sched_setaffinity"), reason="needs two cores to share"
)
def test_jobs_at_the_same_time_have_cores_of_their_own(tmp_path: pathlib.Path, local: executors.Local) -> None:
    jobs = [job(tmp_path, name, seconds=0.5) for name in ("one", "two")]
    assert set(executors.run_all(jobs, local, lambda *_: None).values()) == {""}
    cores = [set(ast.literal_eval(job.output.with_suffix(".runs").read_text())) for job in jobs]
    assert cores[0] and cores[1] and not cores[0] & cores[1]
    assert cores[0] | cores[1] <= os.sched_getaffinity(0)


def test_closing_stops_what_runs(tmp_path: pathlib.Path) -> None:
    executor = executors.Local()
    long = job(tmp_path, "long", seconds=600)
    future = executor.submit(long)
    while times_run(long) == 0:
        time.sleep(0.02)
    executor.close()
    assert future.result() == 128 + signal.SIGKILL
    assert not long.done()


def test_what_a_shared_folder_shows_late_is_waited_for(tmp_path: pathlib.Path, local: executors.Local) -> None:
    script, late = tmp_path / "elsewhere.py", tmp_path / "late.out"
    script.write_text("print('written, on another machine')\n")
    threading.Timer(3, late.touch).start()
    ended = Job("late", str(script), (), tmp_path, tmp_path / "late.log", None, late)
    assert executors.run_all([ended], local, lambda *_: None) == {"late": ""}


def test_a_killed_job_is_told_so(tmp_path: pathlib.Path, local: executors.Local) -> None:
    suicidal = job(tmp_path, "suicidal")
    script = tmp_path / "suicidal.py"
    script.write_text("import os, signal\nos.kill(os.getpid(), signal.SIGKILL)\n")
    suicidal = Job("suicidal", str(script), (), tmp_path, suicidal.log, None, suicidal.output)
    outcomes = executors.run_all([suicidal], local, lambda *_: None)
    assert outcomes["suicidal"].startswith("killed by signal 9; log: ")


def test_bad_requests(monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(InputError, match=r"--cpus_per_job is 0; allowed: 1 to \d+"):
        executors.Local(cpus_per_job=0)
    with pytest.raises(InputError, match=r"--ray_address is 'nowhere'; allowed: HOST:PORT"):
        executors.Ray("nowhere")
    with socket.socket() as unused:
        unused.bind(("127.0.0.1", 0))  # bound, but nobody listens
        address = f"127.0.0.1:{unused.getsockname()[1]}"
        with pytest.raises(InputError, match=f"--ray_address={address}: nobody answers there"):
            executors.Ray(address)
        monkeypatch.setenv("RAY_ADDRESS", address)  # what auto means then
        with pytest.raises(InputError, match=f"--ray_address={address}: nobody answers there"):
            executors.Ray("auto")
    with socket.create_server(("127.0.0.1", 0)) as silent:  # takes connections and never answers
        address = f"127.0.0.1:{silent.getsockname()[1]}"
        with pytest.raises(InputError, match=f"--ray_address={address}: nobody answers there \\(timed out\\)"):
            executors.Ray(address)
    with http.server.HTTPServer(("127.0.0.1", 0), http.server.BaseHTTPRequestHandler) as web:
        threading.Thread(target=web.handle_request, daemon=True).start()
        with pytest.raises(InputError, match="what answers there is not Ray"):
            executors.Ray(f"127.0.0.1:{web.server_port}")
    with pytest.raises(InputError, match="--gpus_per_job -1"):
        executors.Ray("auto", 1, -1)
