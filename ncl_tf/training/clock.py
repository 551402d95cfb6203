"""Wall time of a training, and the limit on it."""

import math
import time
from collections.abc import Callable

from ncl_tf.errors import InputError


class Clock:
    """Wall time of a training from its beginning, however often it was interrupted, and a cap on it.

    Args:
        spent: seconds spent before an interruption.
        max_minutes: the cap; None: no cap.
        any_worker: returns whether a condition holds on any of the workers that train together.
    """

    def __init__(self, spent: float, max_minutes: float | None, any_worker: Callable[[bool], bool] = bool) -> None:
        if max_minutes is not None and not max_minutes > 0:
            raise InputError(f"max_minutes must be above 0, or None for no cap, got {max_minutes}")
        self._began = time.monotonic() - spent
        self._cap = math.inf if max_minutes is None else 60 * max_minutes
        self._any_worker = any_worker

    @property
    def seconds(self) -> float:
        """Seconds spent so far."""
        return time.monotonic() - self._began

    @property
    def left(self) -> float:
        """Seconds until the time is up; infinite without cap."""
        return self._cap - self.seconds

    @property
    def over(self) -> bool:
        """Whether the time is up; workers that train together must ask together."""
        return self._cap < math.inf and self._any_worker(self.left <= 0)
