"""Imported first by every program: uses the project's .venv where no other environment is active, and finds the project."""

import os
import pathlib
import sys

ROOT = pathlib.Path(__file__).resolve().parent.parent
PYTHON = ROOT / ".venv" / "bin" / "python"

in_environment = sys.prefix != sys.base_prefix or "CONDA_PREFIX" in os.environ or "VIRTUAL_ENV" in os.environ
if not in_environment and PYTHON.exists():
    os.execv(PYTHON, [str(PYTHON), *sys.argv])

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "2")  # TensorFlow's start-up notes are not for our users
sys.path[0] = str(ROOT)

try:
    import absl  # noqa: F401
except ImportError:
    sys.exit(
        "error: the requirements are not installed; run `make quickstart` once, or `pip install -e .` in your environment"
    )
