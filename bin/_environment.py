"""Imported first by every program: uses the project's .venv, unless another environment is active that has what is needed,
and finds the project."""

import importlib.util
import os
import pathlib
import sys

ROOT = pathlib.Path(__file__).resolve().parent.parent
VENV = ROOT / ".venv"
PYTHON = VENV / "bin" / "python"

active = sys.prefix != sys.base_prefix or "CONDA_PREFIX" in os.environ or "VIRTUAL_ENV" in os.environ
installed = all(importlib.util.find_spec(name) for name in ("absl", "gin", "tcn"))
elsewhere = pathlib.Path(sys.prefix) != VENV and PYTHON.exists()
python = str(PYTHON) if elsewhere and not (active and installed) else sys.executable
if python != sys.executable or "GLIBC_TUNABLES" not in os.environ:
    # Huge pages for large tensors, where the system has them: training steps take some 8 % less time.
    os.environ.setdefault("GLIBC_TUNABLES", "glibc.malloc.hugetlb=1")
    os.execv(python, [python, *sys.orig_argv[1:]])

sys.path[0] = str(
    ROOT if (ROOT / "ncl_tf").is_dir() else ROOT.parent
)  # of a checkout, or where the package is installed

if not installed:
    sys.exit(
        "error: the requirements are not installed; run `make quickstart` once, or `pip install -e .` in your environment"
    )


def import_tensorflow_quietly() -> None:
    """Imports TensorFlow without its notes; not at start-up, since `--help` has to be fast."""
    import ncl_tf.quiet  # noqa: F401
