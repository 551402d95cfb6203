"""Runs a command for as long as someone holds the other end of standard input, so that it dies with whoever started it.

Usage: python leash.py COMMAND...   A pipe closes however its holder ends, even by `kill -9`; nothing else is that portable.
"""

import os
import subprocess
import sys
import threading


def _watch(process: subprocess.Popen) -> None:
    while os.read(0, 1):
        pass
    process.kill()


if __name__ == "__main__":
    process = subprocess.Popen(sys.argv[1:], stdin=subprocess.DEVNULL)
    threading.Thread(target=_watch, args=[process], daemon=True).start()
    code = process.wait()
    os._exit(code if code >= 0 else 128 - code)
