"""A run that version 0.1.0 began and that was killed at step 4: this version resumes and evaluates it.

`old_run/expected.json` is what version 0.1.0 itself reached, trained without interruption and evaluated.
"""

import gzip
import json
import pathlib
import shutil

import pytest

from trainings import record, reports

OLD = pathlib.Path(__file__).parent / "old_run"
COMMAND = ["--gin_file=gin/paper/physionet2019/ncl_y.gin", "--gin_file=gin/budgets/smoke.gin"]
COMMAND += [f"--gin_param={text}" for text in ("steps = 40", "encoder.filters = 8", "encoder.size = 8", "seed = 7")]


def test_a_killed_run_of_the_first_version_resumes_and_is_evaluated(tmp_path, run):
    folder, cohort = tmp_path / "run", tmp_path / "ward.h5"
    shutil.copytree(OLD / "run", folder)
    cohort.write_bytes(gzip.decompress((OLD / "ward.h5.gz").read_bytes()))
    expected = json.loads((OLD / "expected.json").read_text())

    trained = run("bin/train", *COMMAND, f"--gin_param=cohort = '{cohort}'", f"--run_dir={folder}")
    assert trained.returncode == 0, trained.stderr
    assert [report["step"] for report in reports(folder)] == list(range(2, 41, 2))
    assert reports(folder)[-1] == pytest.approx(expected["last_report"], rel=1e-4, abs=1e-6)
    assert record(folder)["continued"][0]["step"] == 4

    evaluated = run("bin/evaluate", f"--run_dir={folder}", f"--cohort={cohort}")
    assert evaluated.returncode == 0, evaluated.stderr
    result = json.loads((folder / "evaluations" / "sepsis-mlp.json").read_text())
    assert result["metrics"] == pytest.approx(expected["metrics"], rel=1e-4)
    found, known = ([epoch["loss"] for epoch in one["curve"]] for one in (result, expected))
    assert found == pytest.approx(known, rel=1e-4)
