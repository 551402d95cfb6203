"""Executors, with real processes: order, failures, never twice, and an end together with whoever started them."""

import ast
import concurrent.futures
import http.server
import os
import pathlib
import signal
import socket
import subprocess
import sys
import threading
import time

import grpc
import pytest
from ray import cloudpickle

from ncl_tf.paper import executors, ray_executor
from ncl_tf.paper.jobs import Job, execute
from ncl_tf.paper.ray_executor import Ray
from processes import ROOT, wait_for
from refusals import refused


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


def test_a_failing_job_stops_only_what_needs_it(tmp_path, local):
    jobs = [job(tmp_path, "finished"), job(tmp_path, "bad", "fail"), job(tmp_path, "after_bad", needs="bad")]
    jobs += [job(tmp_path, "good"), job(tmp_path, "after_good", needs="good")]
    jobs[0].output.touch()
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


def test_a_job_ends_with_its_starter_and_is_then_run_again(tmp_path):
    long = job(tmp_path, "long", seconds=600)
    code = (
        "import pathlib; from ncl_tf.paper.jobs import Job, execute; "
        f"execute(Job({long.name!r}, {long.program!r}, {long.arguments!r}, pathlib.Path({str(tmp_path)!r}), "
        f"pathlib.Path({str(long.log)!r}), None, pathlib.Path({str(long.output)!r})))"
    )
    starter = subprocess.Popen([sys.executable, "-c", code], cwd=ROOT, stderr=subprocess.PIPE)
    wait_for(lambda: times_run(long), starter)
    os.kill(starter.pid, signal.SIGKILL)
    starter.wait()
    short = job(tmp_path, "long")  # the same log and output; its lock is free once the first one is dead
    assert execute(short) == 0
    assert times_run(short) == 2
    assert short.done()
    assert execute(short) == 0
    assert times_run(short) == 2


def test_a_job_never_runs_beside_itself(tmp_path, local):
    again = job(tmp_path, "again", seconds=0.5)
    futures = [local.submit(again), local.submit(again)]
    assert [future.result() for future in futures] == [0, 0]
    assert times_run(again) == 1


@pytest.mark.skipif(
    executors.local_slots(1) < 2 or not hasattr(os, "sched_setaffinity"), reason="needs two cores to share"
)
def test_jobs_at_the_same_time_have_cores_of_their_own(tmp_path, local):
    jobs = [job(tmp_path, name, seconds=0.5) for name in ("one", "two")]
    assert set(executors.run_all(jobs, local, lambda *_: None).values()) == {""}
    cores = [set(ast.literal_eval(job.output.with_suffix(".runs").read_text())) for job in jobs]
    assert cores[0] and cores[1] and not cores[0] & cores[1]
    assert cores[0] | cores[1] <= os.sched_getaffinity(0)


def test_closing_stops_what_runs(tmp_path):
    executor = executors.Local()
    long = job(tmp_path, "long", seconds=600)
    future = executor.submit(long)
    while times_run(long) == 0:
        time.sleep(0.02)
    executor.close()
    assert future.result() == 128 + signal.SIGTERM
    assert not long.done()


def test_what_a_shared_folder_shows_late_is_waited_for(tmp_path, local):
    script, late = tmp_path / "elsewhere.py", tmp_path / "late.out"
    script.write_text("print('written, on another machine')\n")
    threading.Timer(3, late.touch).start()
    ended = Job("late", str(script), (), tmp_path, tmp_path / "late.log", None, late)
    assert executors.run_all([ended], local, lambda *_: None) == {"late": ""}


def test_the_signal_that_killed_a_job_is_reported(tmp_path, local):
    script = tmp_path / "killed.py"
    script.write_text("import os, signal\nos.kill(os.getpid(), signal.SIGKILL)\n")
    killed = Job("killed", str(script), (), tmp_path, tmp_path / "killed.log", None, tmp_path / "killed.out")
    assert executors.run_all([killed], local, lambda *_: None)["killed"].startswith("killed by signal 9; log: ")


def test_bad_requests(monkeypatch, tmp_path):
    monkeypatch.setattr(ray_executor, "SECONDS_TO_CONNECT", 0.5)
    with refused("--cpus_per_job", f"1 to {executors.local_slots(1)}", "got 0"):
        executors.Local(0)
    for arguments, named in [
        (("nowhere",), "--ray_address & HOST:PORT & 'nowhere'"),
        (("auto", 1, -1), "--gpus_per_job & got -1"),
        (("auto", 0), "--cpus_per_job & got 0"),
    ]:
        with refused(named):
            Ray(*arguments)
    with socket.socket() as unused:
        unused.bind(("127.0.0.1", 0))  # bound, but not listening
        address = f"127.0.0.1:{unused.getsockname()[1]}"
        monkeypatch.setenv("RAY_TMPDIR", str(tmp_path))  # what auto means then: the cluster that was started last
        (tmp_path / "ray").mkdir()
        (tmp_path / "ray" / "ray_current_cluster").write_text(f"{address}\n")
        for asked in (address, "auto"):
            with refused(f"--ray_address={address}: no connection"):
                Ray(asked)
        monkeypatch.setenv("RAY_ADDRESS", "127.0.0.1:1")  # wins
        with refused("--ray_address=127.0.0.1:1: no connection"):
            Ray("auto")
    with (
        socket.create_server(("127.0.0.1", 0)) as silent,  # takes connections and never answers
        http.server.HTTPServer(("127.0.0.1", 0), http.server.BaseHTTPRequestHandler) as web,
    ):
        threading.Thread(target=web.serve_forever, daemon=True).start()
        for port in (silent.getsockname()[1], web.server_port):
            with refused(f"--ray_address=127.0.0.1:{port}: must be the head of a Ray cluster"):
                Ray(f"127.0.0.1:{port}")
        web.shutdown()


def test_a_worker_of_ray_need_not_find_the_project(tmp_path):
    small = job(tmp_path, "small")
    cloudpickle.register_pickle_by_value(ray_executor)  # as Ray is told to
    sent = cloudpickle.dumps((ray_executor.execute_elsewhere, (str(ROOT), vars(small), 1)))
    cloudpickle.unregister_pickle_by_value(ray_executor)
    code = "import importlib.util, pickle, sys; assert importlib.util.find_spec('ncl_tf') is None; "
    code += "function, arguments = pickle.load(sys.stdin.buffer); sys.exit(function(*arguments))"
    packages = str(pathlib.Path(grpc.__file__).parents[1])  # without those that are installed from elsewhere
    environment = os.environ | {"PYTHONPATH": packages}
    ended = subprocess.run([sys.executable, "-S", "-c", code], input=sent, cwd=tmp_path, env=environment, check=False)
    assert (ended.returncode, times_run(small)) == (0, 1)


def test_a_server_of_rays_protocol_is_reachable():
    server = grpc.server(concurrent.futures.ThreadPoolExecutor(1))
    port = server.add_insecure_port("127.0.0.1:0")
    server.start()
    ray_executor.check_reachable(f"127.0.0.1:{port}")
    ray_executor.check_reachable(f"ray://127.0.0.1:{port}")
    server.stop(None)
