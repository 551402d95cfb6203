"""Stopping on request. SIGTERM, SIGHUP and Ctrl-C stop a program: by an exception at once, or, within `deferred`, when the
program asks; so a training can finish its step and write a checkpoint. A second signal ends the process without delay.
"""

import contextlib
import math
import os
import signal
import threading
import time
from collections.abc import Iterator
from typing import NoReturn

SIGNALS = (signal.SIGTERM, signal.SIGHUP, signal.SIGINT)
SECONDS_OF_ONE_REQUEST = 1.0  # clusters and shells may send the same request to a process twice, also by its parent


class Stopped(KeyboardInterrupt):
    """The program was asked to stop.

    Attributes:
        number: of the signal.
        advice: how to resume, for the user.
    """

    advice = ""

    def __init__(self, number: int = signal.SIGINT) -> None:
        super().__init__(signal.Signals(number).name)
        self.number = number


_number = 0  # of the first signal; 0: there was none
_deferred = 0  # how many contexts wait for a good moment


def listen() -> None:
    """Take the signals, but not those that the process was started to ignore, as by nohup. Called in the main thread."""
    reader, writer = os.pipe()
    os.set_blocking(writer, False)
    signal.set_wakeup_fd(writer, warn_on_full_buffer=False)
    threading.Thread(target=_end_by_second, args=[reader], daemon=True).start()
    for number in SIGNALS:
        if signal.getsignal(number) is not signal.SIG_IGN:
            signal.signal(number, _take)


def leave() -> None:
    """Let the signals end the process from now on, as there is nothing left to finish."""
    for number in SIGNALS:
        if signal.getsignal(number) is _take:
            signal.signal(number, signal.SIG_DFL)


def requested() -> bool:
    """Return whether the program was asked to stop."""
    return bool(_number)


def stop() -> NoReturn:
    """Raise `Stopped` by the signal that came; another worker's program may have got it in place of this one."""
    raise Stopped(_number or signal.SIGTERM)


@contextlib.contextmanager
def deferred() -> Iterator[None]:
    """Let the code within find a good moment to stop, by `requested` and `stop`; at its end, they stop it."""
    global _deferred
    _deferred += 1
    try:
        yield
    finally:
        _deferred -= 1
    if _number and not _deferred:
        stop()


def _take(number: int, _) -> None:
    global _number
    if _number:
        return
    _number = number
    if not _deferred:
        stop()


def _end_by_second(reader: int) -> None:
    """End the process by the second signal, even while the main thread computes and no handler of Python can run."""
    first = math.inf
    while numbers := os.read(reader, 1):
        if numbers[0] not in SIGNALS:
            continue
        if time.monotonic() - first >= SECONDS_OF_ONE_REQUEST:
            os.write(2, b"stopped at once by a second signal\n")
            os._exit(128 + numbers[0])
        first = min(first, time.monotonic())
