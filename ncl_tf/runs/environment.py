"""What ran: versions of packages and code, and the machine."""

import datetime
import importlib.metadata
import os
import pathlib
import platform
import subprocess
from typing import Any

from ncl_tf import project
from ncl_tf.version import VERSION


def environment() -> dict[str, Any]:
    """Versions and a description of the machine, without names."""
    packages = ("tensorflow", "keras", "keras-tcn", "gin-config", "numpy", "h5py", "scikit-learn")
    return {
        "started": datetime.datetime.now(datetime.UTC).isoformat(timespec="seconds"),
        "code_version": code_version(),
        "versions": {"python": platform.python_version()}
        | {name: importlib.metadata.version(name) for name in packages},
        "machine": {"system": platform.system(), "processor": processor(), "cores": os.cpu_count()},
    }


def code_version() -> str:
    """Version of ncl_tf, with the commit where it runs from a git checkout."""
    if not (project.HOME / ".git").exists():  # installed, perhaps below another project's checkout
        return VERSION
    command = ["git", "-C", str(project.HOME), "describe", "--always", "--dirty", "--abbrev=12"]
    try:
        described = subprocess.run(command, capture_output=True, text=True, check=True).stdout.strip()
    except (OSError, subprocess.CalledProcessError):
        return VERSION
    return f"{VERSION}+{described}"


def processor() -> str:
    """The processor's model, as far as the system reports it."""
    info = pathlib.Path("/proc/cpuinfo")
    if info.exists():
        for line in info.read_text(encoding="utf-8").splitlines():
            if line.startswith("model name"):
                return line.split(":", 1)[1].strip()
    return platform.machine()
