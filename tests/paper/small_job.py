"""A job for tests of executors: notes its cores, waits, makes its output. Usage: small_job.py OUTPUT SECONDS [fail]"""

import os
import pathlib
import sys
import time

output, seconds = pathlib.Path(sys.argv[1]), float(sys.argv[2])
with output.with_suffix(".runs").open("a", encoding="utf-8") as file:
    file.write(f"{sorted(os.sched_getaffinity(0))}\n" if hasattr(os, "sched_getaffinity") else "ran\n")
time.sleep(seconds)
if "fail" in sys.argv:
    sys.exit("error: it was asked to fail")
output.touch()
