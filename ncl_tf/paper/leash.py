"""Runs a command for as long as someone holds the other end of standard input, so that it dies with whoever started it.

Usage: python leash.py COMMAND...   A pipe closes however its holder ends, even by `kill -9`; nothing else is that portable.
A byte that comes through the pipe is the number of a signal, which the command gets.
"""

import os
import signal
import subprocess
import sys
import threading


def _watch(process: subprocess.Popen) -> None:
    while number := os.read(0, 1):
        process.send_signal(number[0])
    process.kill()


if __name__ == "__main__":
    for number in (signal.SIGTERM, signal.SIGHUP, signal.SIGINT):  # the command takes them; what is ignored remains so
        if signal.getsignal(number) is not signal.SIG_IGN:
            signal.signal(number, lambda *_: None)
    process = subprocess.Popen(sys.argv[1:], stdin=subprocess.DEVNULL)
    threading.Thread(target=_watch, args=[process], daemon=True).start()
    code = process.wait()
    os._exit(code if code >= 0 else 128 - code)
