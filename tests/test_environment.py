"""Which Python runs the programs: the project's own, unless another environment is active that has what is needed."""

import pathlib
import shutil
import subprocess
import sys
import venv

import pytest

from processes import ROOT


@pytest.fixture(scope="module")
def bare(tmp_path_factory):
    """The Python of an environment in which nothing is installed."""
    folder = tmp_path_factory.mktemp("environments") / "bare"
    venv.create(folder, symlinks=True)
    return folder / "bin" / "python"


def answer(python: pathlib.Path, program: pathlib.Path) -> subprocess.CompletedProcess:
    return subprocess.run([python, program, "--help"], capture_output=True, text=True, timeout=60, check=False)


@pytest.mark.skipif(pathlib.Path(sys.prefix) != ROOT / ".venv", reason="the tests are not run in .venv")
def test_an_environment_without_the_requirements_is_passed_over(bare):
    done = answer(bare, ROOT / "bin" / "cohort")
    assert done.returncode == 0, done.stderr
    assert "bin/cohort describe" in done.stdout


def test_without_any_requirements_a_program_shows_how_to_install_them(bare, tmp_path):
    shutil.copytree(ROOT / "bin", tmp_path / "bin")
    done = answer(bare, tmp_path / "bin" / "cohort")
    assert done.returncode == 1
    assert done.stderr.startswith("error: ")
    assert "make quickstart" in done.stderr
