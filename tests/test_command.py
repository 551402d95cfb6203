"""The command `ncl_tf` of an installed wheel: a folder without the checkout, started from any folder."""

import hashlib
import json
import os
import pathlib
import shutil
import subprocess
import sys
import zipfile

import pytest

from benchmarks.serve import export_untrained
from ncl_tf.data import Cohort
from processes import ROOT
from trainings import contents

PROGRAMS = {path.name for path in (ROOT / "bin").iterdir() if path.is_file() and not path.suffix}


@pytest.fixture(scope="module")
def installed(ward_cohort, tmp_path_factory) -> pathlib.Path:
    """A folder with the content of the wheel, as pip would unpack it; the model that ships with it is untrained."""
    folder = tmp_path_factory.mktemp("wheel")
    export_untrained(folder / "source/models/ward/sepsis", Cohort(ward_cohort), filters=8, dilations=(1, 24))
    write_index(folder / "source/models")
    for name in ("ncl_tf", "data_prep", "bin", "gin"):  # a build leaves files where it runs
        shutil.copytree(ROOT / name, folder / "source" / name, ignore=shutil.ignore_patterns("__pycache__"))
    for name in ("setup.py", "pyproject.toml", "README.md"):
        shutil.copy(ROOT / name, folder / "source")
    options = ["--quiet", "--no-deps", "--no-build-isolation", "--wheel-dir", folder]
    subprocess.run([sys.executable, "-m", "pip", "wheel", *options, folder / "source"], check=True, timeout=300)
    (wheel,) = folder.glob("*.whl")
    zipfile.ZipFile(wheel).extractall(folder / "site")
    return folder / "site"


def write_index(models: pathlib.Path) -> None:
    """Write the index of a folder with one model."""
    files = {path: hashlib.sha256(content).hexdigest() for path, content in contents(models / "ward/sepsis").items()}
    empty = {"figures": {}, "validation": {}, "channels": [], "data": {}, "run": {}}
    entry = {"kind": "classifier", "task": "sepsis", **empty, "files": files}
    (models / "index.json").write_text(json.dumps({"format_version": "1.0", "models": {"ward/sepsis": entry}}))


def ncl_tf(installed: pathlib.Path, folder: pathlib.Path, *arguments: str) -> subprocess.CompletedProcess:
    """Run the command as its script would."""
    command = [sys.executable, "-m", "ncl_tf.command", *arguments]
    environment = os.environ | {"PYTHONPATH": str(installed), "PYTHONSAFEPATH": "1"}
    return subprocess.run(
        command, cwd=folder, env=environment, capture_output=True, text=True, timeout=300, check=False
    )


def test_a_wheel_holds_every_program_and_every_gin_file(installed):
    held = {path.name for path in (installed / "ncl_tf/bin").iterdir() if not path.suffix}
    assert held == PROGRAMS - {"benchmark"}
    gin = ROOT / "gin"
    expected = {path.relative_to(gin): path.read_bytes() for path in gin.rglob("*.gin")}
    inside = installed / "ncl_tf/gin"
    assert {path.relative_to(inside): path.read_bytes() for path in inside.rglob("*") if path.is_file()} == expected


def test_it_simulates_and_prepares_in_any_folder(installed, tmp_path):
    simulated = ncl_tf(installed, tmp_path, "prepare", "simulate", "--stays=40", "--seed=1", "--output=ward")
    assert simulated.returncode == 0, simulated.stderr
    assert "next: ncl_tf prepare physionet2019 --source=ward" in simulated.stdout
    arguments = ["--source=ward", "--split=random", "--output=ward.h5"]
    prepared = ncl_tf(installed, tmp_path, "prepare", "physionet2019", *arguments)
    assert "next: ncl_tf cohort describe ward.h5" in prepared.stdout, prepared.stderr


def test_it_scores_with_the_model_that_it_holds(installed, ward, tmp_path):
    assert contents(installed / "ncl_tf/models") == contents(installed.parent / "source/models")
    arguments = [f"--input={min(ward.glob('*.psv'))}", "--output=out"]
    unknown = ncl_tf(installed, tmp_path, "predict", "--model=ward/none", *arguments)
    assert unknown.returncode == 1 and "those that ship: ward/sepsis" in unknown.stderr
    scored = ncl_tf(installed, tmp_path, "predict", "--model=ward/sepsis", *arguments)
    assert scored.returncode == 0, scored.stderr
    assert len(list((tmp_path / "out").glob("*.psv"))) == 1


def test_its_gin_files_are_found_and_those_of_the_user_win(installed, tmp_path):
    (tmp_path / "budgets").mkdir()
    (tmp_path / "budgets" / "smoke.gin").write_text("steps = broken")
    gin = ["--gin_file=gin/paper/physionet2019/cl.gin", "--gin_file=budgets/smoke.gin"]
    refused = ncl_tf(installed, tmp_path, "train", *gin)
    assert refused.returncode == 1 and "budgets/smoke.gin: not valid gin" in refused.stderr


@pytest.mark.slow
def test_it_trains_in_any_folder(installed, tmp_path):
    ncl_tf(installed, tmp_path, "prepare", "simulate", "--stays=40", "--seed=1", "--output=ward")
    arguments = ["--source=ward", "--split=random", "--output=ward.h5"]
    ncl_tf(installed, tmp_path, "prepare", "physionet2019", *arguments)
    gin = ["--gin_file=paper/physionet2019/cl.gin", "--gin_file=gin/budgets/smoke.gin"]
    trained = ncl_tf(installed, tmp_path, "train", *gin, "--gin_param=cohort = 'ward.h5'", "--run_dir=run")
    assert trained.returncode == 0, trained.stderr
    assert (tmp_path / "run/encoder/model.json").exists()


@pytest.mark.parametrize(
    ("arguments", "code", "shown"),
    [
        (["--help"], 0, ["ncl_tf prepare simulate", "  evaluate    Evaluates a finished run"]),
        (["predict", "--help"], 0, ["  ncl_tf predict --model=", "--input=PATH"]),
        ([], 1, ["error: ncl_tf needs one of cohort, compare, evaluate"]),
        (["trian"], 1, ["got 'trian'; did you mean train?", "Run ncl_tf --help for more."]),
        (["train"], 1, ["error: ncl_tf train needs --gin_file=FILE", "\n  ncl_tf train --gin_file="]),
        (["evaluate", "--run_dr=a"], 1, ["did you mean --run_dir?\nRun ncl_tf evaluate --help"]),
    ],
)
def test_help_and_errors_name_the_command(installed, tmp_path, arguments, code, shown):
    done = ncl_tf(installed, tmp_path, *arguments)
    assert done.returncode == code
    for text in shown:
        assert text in done.stdout + done.stderr
    assert " bin/" not in done.stdout + done.stderr
