"""A job for tests of executors: notes that it ran, waits, then makes its output. Usage: small_job.py OUTPUT SECONDS [fail]"""

import pathlib
import sys
import time

output, seconds = pathlib.Path(sys.argv[1]), float(sys.argv[2])
with output.with_suffix(".runs").open("a", encoding="utf-8") as file:
    file.write("ran\n")
time.sleep(seconds)
if "fail" in sys.argv:
    sys.exit("error: it was asked to fail")
output.touch()
