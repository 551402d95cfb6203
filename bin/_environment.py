"""Imported first by every program: uses the project's .venv where no other environment is active, and finds the project."""

import os
import pathlib
import sys

ROOT = pathlib.Path(__file__).resolve().parent.parent
PYTHON = ROOT / ".venv" / "bin" / "python"

in_environment = sys.prefix != sys.base_prefix or "CONDA_PREFIX" in os.environ or "VIRTUAL_ENV" in os.environ
python = str(PYTHON) if not in_environment and PYTHON.exists() else sys.executable
if python != sys.executable or "GLIBC_TUNABLES" not in os.environ:
    # Huge pages for large tensors, where the system has them: training steps take some 8 % less time.
    os.environ.setdefault("GLIBC_TUNABLES", "glibc.malloc.hugetlb=1")
    os.execv(python, [python, *sys.orig_argv[1:]])

sys.path[0] = str(ROOT)

try:
    import absl  # noqa: F401
except ImportError:
    sys.exit(
        "error: the requirements are not installed; run `make quickstart` once, or `pip install -e .` in your environment"
    )


def import_tensorflow_quietly() -> None:
    """Imports TensorFlow without its notes; not at start-up, since `--help` has to be fast."""
    import ncl_tf.quiet  # noqa: F401
