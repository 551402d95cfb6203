"""Imported first by every program: uses the project's .venv where no other environment is active, and finds the project."""

import os
import pathlib
import sys
import tempfile

ROOT = pathlib.Path(__file__).resolve().parent.parent
PYTHON = ROOT / ".venv" / "bin" / "python"

in_environment = sys.prefix != sys.base_prefix or "CONDA_PREFIX" in os.environ or "VIRTUAL_ENV" in os.environ
python = str(PYTHON) if not in_environment and PYTHON.exists() else sys.executable
if python != sys.executable or "GLIBC_TUNABLES" not in os.environ:
    # Huge pages for large tensors, where the system has them: training steps take some 8 % less time.
    os.environ.setdefault("GLIBC_TUNABLES", "glibc.malloc.hugetlb=1")
    os.execv(python, [python, *sys.orig_argv[1:]])

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "2")  # TensorFlow's start-up notes are not for our users
sys.path[0] = str(ROOT)

try:
    import absl  # noqa: F401
except ImportError:
    sys.exit(
        "error: the requirements are not installed; run `make quickstart` once, or `pip install -e .` in your environment"
    )


def import_tensorflow_quietly() -> None:
    """Imports TensorFlow without the notes that its C++ part prints however it is asked not to; errors are shown."""
    kept = os.dup(2)
    with tempfile.TemporaryFile() as notes:
        os.dup2(notes.fileno(), 2)
        try:
            import tensorflow  # noqa: F401
        except BaseException:
            notes.seek(0)
            os.write(kept, notes.read())
            raise
        finally:
            os.dup2(kept, 2)
            os.close(kept)
