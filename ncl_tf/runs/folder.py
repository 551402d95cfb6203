"""Folders that a training writes into so that it can be resumed: a record, reports and checkpoints. Imports no TensorFlow."""

from __future__ import annotations

import contextlib
import fcntl
import json
import math
import os
import pathlib
import weakref
from collections.abc import Iterator
from typing import Any

import numpy as np

from ncl_tf import files
from ncl_tf.errors import InputError, reading
from ncl_tf.runs.environment import environment
from ncl_tf.runs.variables import HasVariables, assign, named_variables, read_arrays
from ncl_tf.stopping import Stopped

KEPT_CHECKPOINTS = 2


class TrainingFolder:
    """A folder of one training: a record, a line in metrics.jsonl for each report, and checkpoints/step-N.npz.

    Attributes:
        record: what the record's file holds.
        writes: whether this process writes into the folder; of several workers that train together, one does.
        record_name: the record's file.
        checkpoint_seconds: wall time from one checkpoint to the next, at least.
        in_use: what to do where another process writes into the folder, for errors.
    """

    record_name = "run.json"
    checkpoint_seconds = 0.0
    in_use = "another process is training there; wait for it, or name another --run_dir"

    def __init__(self, folder: str | pathlib.Path) -> None:
        self.folder = pathlib.Path(folder)
        self.record: dict[str, Any] = {"step": 0, "wall_seconds": 0.0}
        self.writes = True
        self._handle, self._lock = -1, None

    def lock(self) -> None:
        """Create the folder and lock it, until `close`; refuse one that another process has locked."""
        try:
            self.folder.mkdir(parents=True, exist_ok=True)
            handle = os.open(self.folder, os.O_RDONLY)
        except OSError as error:
            raise InputError(f"{self.folder}: cannot write into this folder ({error.strerror})") from error
        self._handle, self._lock = handle, weakref.finalize(self, os.close, handle)
        try:
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError as error:
            self._lock()
            raise InputError(f"{self.folder}: {self.in_use}") from error
        except OSError:  # some file systems lock no folders
            pass

    def close(self) -> None:
        """Let other processes write into the folder."""
        if self._lock:
            self._lock()

    def check_present(self) -> None:
        """Refuse to write into a folder that was deleted or moved since it was locked: a new one would lack the rest."""
        if self._lock and self._lock.alive and not files.is_at(self._handle, self.folder):
            raise InputError(f"{self.folder}: was deleted or moved while this program wrote into it; start it again")

    def save(self, **values: Any) -> None:
        """Write the record, with new values."""
        self.record.update(values)
        if self.writes:
            self.check_present()
            files.write_json(self.folder / self.record_name, self.record)

    def log(self, metrics: dict[str, float]) -> None:
        """Add a line to metrics.jsonl."""
        if self.writes:
            self.check_present()
            files.append_line(self.folder / "metrics.jsonl", json.dumps(metrics))

    def resume_from(self, step: int) -> None:
        """Record from which step, and by which versions, the training is resumed; drop lines logged after that step."""
        if step:
            self.save(continued=[*self.record.get("continued", []), {"step": step, **environment()}])
        path = self.folder / "metrics.jsonl"
        if self.writes and path.exists():
            kept = [report for report in read_reports(path) if report["step"] <= step]
            files.write_text(path, "".join(json.dumps(report) + "\n" for report in kept))

    def reports(self) -> list[dict[str, float]]:
        """Return the lines of metrics.jsonl."""
        return read_reports(self.folder / "metrics.jsonl")

    @property
    def checkpoints(self) -> list[pathlib.Path]:
        """Checkpoint files, oldest first."""
        found = (self.folder / "checkpoints").glob("step-*.npz")
        return sorted(path for path in found if path.stem.removeprefix("step-").isdecimal())

    @property
    def kept_step(self) -> int:
        """The step that the training resumes from when it is started again."""
        kept = self.checkpoints
        return int(kept[-1].stem.split("-")[1]) if kept else 0

    @contextlib.contextmanager
    def resumable(self) -> Iterator[None]:
        """Add to a request to stop, if there is one within, from where the same command resumes."""
        try:
            yield
        except Stopped as stop:
            stop.advice = f"; {self.folder}: start the same command again to resume from step {self.kept_step}"
            raise

    def last_good(self) -> str:
        """Return a sentence that names the newest checkpoint, for messages."""
        kept = self.checkpoints
        return f"The last good checkpoint is {kept[-1]}" if kept else "There is no checkpoint yet"

    def checkpoint(self, step: int, *parts: HasVariables) -> None:
        """Save every variable of the parts, all of which must be finite, and keep the last few checkpoints."""
        values = {path: variable.numpy() for path, variable in named_variables(*parts).items()}
        broken = [path for path, value in values.items() if not np.isfinite(value).all()]
        if broken:
            raise InputError(f"step {step}: {broken[0]} is not finite, so training stops. {self.last_good()}")
        if not self.writes:
            return
        self.check_present()
        with (
            files.atomic_path(self.folder / "checkpoints" / f"step-{step:08d}.npz") as partial,
            partial.open("wb") as file,
        ):
            np.savez(file, **values)
        for old in self.checkpoints[:-KEPT_CHECKPOINTS]:
            old.unlink()

    def restore(self, *parts: HasVariables, unfinished: HasVariables | None = None) -> int:
        """Set the parts' variables to the newest readable checkpoint; return its step, 0 if there is none.

        What a checkpoint holds of a report that was under way goes into the variables of `unfinished`, if they are given.
        """
        kept, others = self.checkpoints, []
        for path in reversed(kept):
            values = self._read(path)
            if values is None:
                continue
            started = unfinished and named_variables(unfinished).keys() & values.keys()
            try:
                assign(values, path, *parts, *([unfinished] if started else []))
            except InputError as error:  # damaged so that it still can be read, or they all are another model's
                others.append((path, error))
                continue
            for other in others:
                self._set_aside(*other)
            return int(path.stem.split("-")[1])
        if others:
            raise others[0][1]
        return 0

    def _read(self, path: pathlib.Path) -> dict[str, np.ndarray] | None:
        """Read a checkpoint's arrays by name; None where it is damaged, and set aside then."""
        try:
            content = path.read_bytes()
        except OSError as error:  # of the disk or its permissions, which may pass
            raise InputError(f"{path}: cannot be read ({error.strerror})") from error
        try:
            return read_arrays(content)
        except MemoryError:
            raise
        except Exception as error:  # damage shows as anything from BadZipFile to zlib.error
            self._set_aside(path, error)
            return None

    def _set_aside(self, path: pathlib.Path, error: Exception) -> None:
        """Rename a damaged checkpoint, and print what is wrong with it and what takes its place."""
        earlier = "the one before" if path != self.checkpoints[0] else "the beginning, as there is no other"
        if self.writes:
            path.rename(path.with_suffix(".damaged"))
        print(f"checkpoint {path.name} is damaged ({error}); falling back to {earlier}")


def read_reports(path: pathlib.Path) -> list[dict[str, float]]:
    """Read the whole lines of metrics.jsonl; an interrupted write leaves half a line at the end."""
    with reading(path, "a readable file"):
        lines = path.read_bytes().split(b"\n")[:-1] if path.exists() else []
    reports = []
    for number, line in enumerate(lines, start=1):
        with reading(
            f"{path}, line {number}", "a report; each line must be a JSON object of numbers: remove those that are not"
        ):
            reports.append(json.loads(line))
            if type(reports[-1]["step"]) is not int or not all(
                isinstance(v, int | float) for v in reports[-1].values()
            ):
                raise TypeError("a step and other numbers are missing")
    return reports


class Unsaved(TrainingFolder):
    """Stands for the folder of a training that leaves no files and cannot be resumed."""

    checkpoint_seconds = math.inf

    def __init__(self) -> None:
        super().__init__(os.devnull)
        self.writes = False
