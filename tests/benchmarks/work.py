"""Work for tests of measurements: it takes time and memory, or fails."""

import os
import time
from collections.abc import Callable


def make(seconds: float, mebibytes: int, note: str) -> Callable[[], None]:
    """Work that takes as long and as much, and writes a line into the file `note`."""

    def work() -> None:
        with open(note, "a", encoding="utf-8") as file:  # noqa: PTH123
            file.write(f"{os.getpid()}\n")
        memory = bytearray(mebibytes * 2**20)
        memory[:: 2**12] = b"x" * len(memory[:: 2**12])
        time.sleep(seconds)

    return work


def broken() -> Callable[[], None]:
    """Work that kills its process."""
    return lambda: os._exit(3)
