"""The command `ncl_tf` of an installed wheel: a folder without the checkout, started from any folder."""

import os
import pathlib
import shutil
import subprocess
import sys
import zipfile

import pytest

from processes import ROOT

PROGRAMS = {path.name for path in (ROOT / "bin").iterdir() if path.is_file() and not path.suffix}


@pytest.fixture(scope="module")
def installed(tmp_path_factory) -> pathlib.Path:
    """A folder with the content of the wheel, as pip would unpack it."""
    folder = tmp_path_factory.mktemp("wheel")
    for name in ("ncl_tf", "data_prep", "bin", "gin"):  # a build leaves files where it runs
        shutil.copytree(ROOT / name, folder / "source" / name, ignore=shutil.ignore_patterns("__pycache__"))
    for name in ("setup.py", "pyproject.toml", "README.md"):
        shutil.copy(ROOT / name, folder / "source")
    options = ["--quiet", "--no-deps", "--no-build-isolation", "--wheel-dir", folder]
    subprocess.run([sys.executable, "-m", "pip", "wheel", *options, folder / "source"], check=True, timeout=300)
    (wheel,) = folder.glob("*.whl")
    zipfile.ZipFile(wheel).extractall(folder / "site")
    return folder / "site"


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
