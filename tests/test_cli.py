"""What all programs share."""

import os
import subprocess
import sys

import pytest

from processes import ROOT

PROGRAMS = sorted(path.name for path in (ROOT / "bin").iterdir() if path.is_file() and not path.suffix)


@pytest.mark.parametrize("program", PROGRAMS)
def test_help_ends_quietly_where_its_reader_has_left(program: str) -> None:
    reading, writing = os.pipe()
    os.close(reading)
    with os.fdopen(writing) as nobody:
        done = subprocess.run(
            [sys.executable, ROOT / "bin" / program, "--help"],
            stdout=nobody,
            stderr=subprocess.PIPE,
            text=True,
            timeout=60,
            check=False,
        )
    assert (done.returncode, done.stderr) == (0, "")
