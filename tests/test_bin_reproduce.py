"""`bin/reproduce` as users run it: from nothing to the table, again, killed midway, on a Ray cluster that loses a worker."""

import contextlib
import json
import os
import pathlib
import re
import shutil
import signal
import sys
from collections.abc import Iterator

import pytest

import trainings
from processes import ROOT, finish, start, wait_for

SMALL = {
    "fast": False,
    "jit_compile": False,
    "encoder.dilations": (1, 24),  # sees all 48 hours, as decoders must
    "encoder.filters": 8,
    "cl: augmentation.layers": ("channel_dropout",),  # one draw by step suffices here
    "cl: steps": 20,  # enough to be killed midway
}

ONE_HEAD = "--heads=mlp"  # both heads: marked slow
ONE_ROW = ("--methods=cl", ONE_HEAD)
THREE_ROWS = ("--methods=seq2seq_ae,cl,end_to_end", ONE_HEAD)  # one of each kind of method; all nine: marked slow


def command(python: str, cohort: pathlib.Path, output: pathlib.Path, *flags: str) -> list[str]:
    params = [f"--gin_param={name} = {value!r}" for name, value in SMALL.items()]
    params += ["--table=physionet2019", "--budget=smoke", "--seeds=1", "--cpus_per_job=1"]
    return [python, str(ROOT / "bin" / "reproduce"), *params, f"--cohort={cohort}", f"--output={output}", *flags]


def checkpoints(output: pathlib.Path) -> list[pathlib.Path]:
    return list(output.glob("runs/cl-seed1111/checkpoints/step-*.npz"))


def tables(output: pathlib.Path) -> list[str]:
    return [(output / f"physionet2019.{form}").read_text(encoding="utf-8") for form in ("md", "tex", "csv", "json")]


def contents(folder: pathlib.Path) -> dict[pathlib.Path, tuple[bytes, int]]:
    return {path: (path.read_bytes(), path.stat().st_mtime_ns) for path in folder.rglob("*") if path.is_file()}


def cells(output: pathlib.Path) -> dict[tuple[str, str, str], list[float]]:
    """The value of every seed in the table, by row, metric and head."""
    table = json.loads((output / "physionet2019.json").read_text(encoding="utf-8"))
    return {(cell["row"], cell["metric"], cell["head"]): cell["values"] for cell in table["cells"]}


@pytest.fixture(scope="module")
def outputs(ward_cohort: pathlib.Path, python: str, tmp_path_factory) -> tuple[pathlib.Path, pathlib.Path]:
    """Three rows, killed midway and resumed by the same command; one row without interruption, as users start it."""
    folder = tmp_path_factory.mktemp("reproduce")
    whole, row = folder / "whole", folder / "row"
    victim = start(command(python, ward_cohort, whole, *THREE_ROWS))
    undisturbed = start(command(sys.executable, ward_cohort, row, *ONE_ROW))
    wait_for(lambda: checkpoints(whole), victim)
    os.killpg(victim.pid, signal.SIGKILL)
    assert finish(victim)[0] == -signal.SIGKILL
    again = start(command(python, ward_cohort, whole, *THREE_ROWS))
    for process in (undisturbed, again):
        code, _, err = finish(process)
        assert code == 0, err
    return whole, row


@pytest.fixture(scope="module")
def grown(outputs: tuple, ward_cohort: pathlib.Path, python: str) -> tuple[pathlib.Path, int, str]:
    """The single row with two more methods, one of which cannot be trained: folder, exit code, messages."""
    output = shutil.copytree(outputs[1], outputs[1].with_name("grown"))
    blocked = output / "runs" / "sacl-seed1111"
    blocked.mkdir()
    (blocked / "letter.txt").touch()
    code, _, err = finish(start(command(python, ward_cohort, output, "--methods=sacl,end_to_end,cl", ONE_HEAD)))
    return output, code, err


def check_table(output: pathlib.Path, titles: dict[str, str]) -> None:
    """The table's rows are these methods, by these titles, with the metrics of their evaluations by the MLP head."""
    evaluated = {}
    for row in titles:
        own = "-head_mlp" if row == "end_to_end" else ""
        path = output / "runs" / f"{row}{own}-seed1111" / "evaluations" / "sepsis-mlp.json"
        evaluated[row] = json.loads(path.read_text(encoding="utf-8"))["metrics"]
    names = [(row, metric) for row in titles for metric in ("auprc", "auroc", "utility")]
    expected = {(row, metric, "mlp"): [100 * evaluated[row][metric]] for row, metric in names}
    assert {cell: values for cell, values in cells(output).items() if cell[2] == "mlp"} == expected
    markdown = (output / "physionet2019.md").read_text(encoding="utf-8")
    lines = markdown.split("\n")[2 : 2 + len(titles)]
    assert [line.split(" | ")[0].removeprefix("| ") for line in lines] == list(titles.values())
    auprc, auroc = (100 * evaluated["cl"][name] for name in ("auprc", "auroc"))
    shown = f"{auprc:.1f}† (9.5 ± 0.4, {auprc - 9.5:+.1f})", f"{auroc:.1f}† (80.2 ± 0.4, {auroc - 80.2:+.1f})"
    assert set(shown) <= set(lines[list(titles).index("cl")].replace("**", "").split(" | "))
    assert "budget 'smoke', 1 seed " in markdown


def test_from_nothing_to_the_finished_table(outputs):
    check_table(outputs[0], {"seq2seq_ae": "Seq2Seq-AE", "cl": "CL", "end_to_end": "End-to-End"})


def test_results_record_where_they_come_from(outputs):
    output = outputs[0]
    evaluated = json.loads((output / "runs/cl-seed1111/evaluations/sepsis-mlp.json").read_text(encoding="utf-8"))
    result = json.loads((output / "results/cl-seed1111/sepsis-mlp.json").read_text(encoding="utf-8"))
    assert result["metrics"] == evaluated["metrics"]
    run = result["run"]
    assert (run["seed"], run["budget"], run["cohort_checksum"]) == (1111, "smoke", evaluated["run"]["cohort_checksum"])
    assert run["wall_seconds"] > 0
    assert {"tensorflow", "keras", "numpy"} <= result["versions"].keys()
    assert result["machine"].keys() == {"system", "processor", "cores"}
    assert result["config"]["steps"] == "20"
    assert str(output.parent) not in json.dumps(result)  # no path of this machine


def test_run_again_it_does_nothing(outputs, ward_cohort, run):
    output = outputs[0]

    def ran() -> list[dict]:
        return [contents(output / name) for name in ("runs", "logs", "results")]

    before, made = ran(), tables(output)
    done = run(*command("", ward_cohort, output, *THREE_ROWS)[1:])
    assert done.returncode == 0, done.stderr
    assert re.fullmatch(r"6 jobs, 6 done; time left: about 0 s.*\n", done.stderr)  # none ended, as none was started
    assert (ran(), tables(output)) == (before, made)
    shown = run(*command("", ward_cohort, output, *THREE_ROWS, "--only_print", "--verbose")[1:])
    assert shown.stdout.count("done  bin/") == 6
    assert "6 jobs, 6 done; time left: about 0 s" in shown.stdout
    shown = run(*command("", ward_cohort, output, *THREE_ROWS, "--seeds=2", "--only_print")[1:])
    lines = [re.split(r"  +", line) for line in shown.stdout.splitlines()]
    assert lines[0] == ["row", "trained", "evaluated", "time left"]
    assert [line[:3] for line in lines[1:4]] == [
        [row, "1 of 2", "1 of 2"] for row in ("seq2seq_ae", "cl", "end_to_end-head_mlp")
    ]
    assert lines[4][0].startswith("12 jobs, 6 done; time left: about ")


def test_killed_midway_it_makes_the_same_row(outputs):
    whole, row = outputs
    killed = (whole / "logs" / "cl-seed1111.log").read_text()
    assert "from step" in killed
    assert killed.count("$ bin/train") == 2
    assert len(cells(row)) == 3
    assert cells(row).items() <= cells(whole).items()


@pytest.mark.slow
def test_a_failing_job_is_reported_and_the_others_finish(grown, outputs):
    output, code, err = grown
    assert code == 1
    report = err[err.index("error: 2 of 6 jobs failed") :]
    parts = [f"sacl-seed1111: exit code 1; log: {output}/logs/sacl-seed1111.log; its last line: error: "]
    parts += [f"{output}/runs/sacl-seed1111: must be new or empty"]
    parts += ["sacl-seed1111-sepsis-mlp: not run: it needs sacl-seed1111"]
    assert [part for part in parts if part not in report] == []
    markdown = (output / "physionet2019.md").read_text(encoding="utf-8")
    assert [line.split(" | ")[0] for line in markdown.split("\n")[2:4]] == ["| CL", "| End-to-End"]
    kept = trainings.contents(outputs[1] / "runs")
    assert kept.items() <= trainings.contents(output / "runs").items()  # CL was not trained again


@pytest.fixture(scope="module")
def cluster() -> Iterator[str]:
    """Address of a Ray cluster of two workers with a core each."""
    os.environ["RAY_USAGE_STATS_ENABLED"] = "0"
    from ray.cluster_utils import Cluster

    cluster = Cluster(initialize_head=True, head_node_args={"num_cpus": 1, "include_dashboard": False})
    cluster.add_node(num_cpus=1)
    yield cluster.address
    cluster.shutdown()


def starter_of(program: str, run_dir: pathlib.Path) -> int:
    """The process that holds the leash of a running job: on Ray, a worker."""
    for folder in pathlib.Path("/proc").glob("[0-9]*"):
        with contextlib.suppress(OSError, IndexError):
            arguments = (folder / "cmdline").read_text(encoding="utf-8").split("\0")
            if arguments[1].endswith("leash.py") and {f"--run_dir={run_dir}", str(ROOT / program)} <= set(arguments):
                return int((folder / "stat").read_text(encoding="utf-8").rsplit(")", 1)[1].split()[1])
    raise AssertionError(f"{program} does not run")


@pytest.mark.slow
def test_ray_loses_a_worker_and_the_table_comes_out_equal(cluster, outputs, ward_cohort, tmp_path):
    """The whole table, all rows and both heads, equal to the one of this machine alone, which was killed once and grew."""
    output, alone = tmp_path / "ray", shutil.copytree(outputs[0], tmp_path / "alone")
    code, _, err = finish(start(command(sys.executable, ward_cohort, alone)))
    assert code == 0, err
    rows = ("seq2seq_ae", "seq2seq_ae_forecast", "cl", "sacl", "clocs", "ncl_w", "end_to_end", "scl", "ncl_y")
    titles = ("Seq2Seq-AE", "Seq2Seq-AE-forecast", "CL", "SACL", "CLOCS", "NCL(n_w)", "End-to-End", "SCL", "NCL(n_Y)")
    check_table(alone, dict(zip(rows, titles, strict=True)))
    process = start(command(sys.executable, ward_cohort, output, "--executor=ray", f"--ray_address={cluster}"))
    wait_for(lambda: checkpoints(output), process)
    os.kill(starter_of("bin/train", output / "runs" / "cl-seed1111"), signal.SIGKILL)
    code, _, err = finish(process)
    assert code == 0, err
    log = (output / "logs" / "cl-seed1111.log").read_text(encoding="utf-8")
    assert log.count("$ bin/train") == 2 and "from step" in log
    assert len(cells(output)) == 54
    assert tables(output) == tables(alone)


@pytest.mark.slow
def test_ray_refuses_what_no_machine_can_give(cluster, ward_cohort, tmp_path, run):
    flags = ["--executor=ray", f"--ray_address={cluster}", "--cpus_per_job=64"]
    done = run(*command("", ward_cohort, tmp_path / "ray", *ONE_ROW, *flags)[1:])
    assert done.returncode == 1
    parts = ("--cpus_per_job", "64", "--gpus_per_job", "1 CPUs and 0 GPUs, 1 CPUs")
    assert [part for part in parts if part not in done.stderr] == []


def test_graphics_cards_are_rays(ward_cohort, tmp_path, run):
    done = run(*command("", ward_cohort, tmp_path / "out", "--gpus_per_job=1")[1:])
    assert (done.returncode, done.stderr[:7]) == (1, "error: ")
    assert [part for part in ("--gpus_per_job", "1.0", "--executor=ray") if part not in done.stderr] == []
