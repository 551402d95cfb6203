"""The run directory: configuration, checkpoints, logs and the record of one training.

config.gin               what was asked for; a run is only ever continued with the same
operative_config.gin     what was used, written at the end
run.json                 seed, versions, cohort checksum, wall time, status, whether a time cap ended it, best epoch; where it
                         was interrupted, the step, versions and machine of every continuation
metrics.jsonl            one line per report: step, objective, accuracy, learning rate, validation values
logs/                    the same for TensorBoard
checkpoints/step-N.npz   every variable, the last two; with early stopping also the best weights, in which a finished run ends
encoder/                 SavedModel, written at the end
"""

from __future__ import annotations

import fcntl
import io
import json
import os
import pathlib
import weakref
import zlib
from typing import TYPE_CHECKING, Any

import numpy as np

from ncl_tf import files
from ncl_tf.errors import InputError
from ncl_tf.runs.checkpoints import HasVariables, assign, named_variables
from ncl_tf.runs.configuration import bindings, differences
from ncl_tf.runs.environment import environment
from ncl_tf.runs.store import StoredRun

if TYPE_CHECKING:
    import keras

KEPT_CHECKPOINTS = 2


class Run:
    """One run directory.

    Attributes:
        record: what run.json holds.
        writes: whether this process writes into the folder; of several workers that train together, one does.
    """

    def __init__(self, folder: str | pathlib.Path) -> None:
        self.folder = pathlib.Path(folder)
        self.record: dict[str, Any] = {}
        self.writes = True
        self._config, self._facts, self._taken = "", {}, None

    def open(self, config: str, facts: dict[str, Any]) -> None:
        """Reads the record of a run with the same configuration and facts, or begins one, of which nothing is written yet.

        Args:
            config: the whole configuration, as gin prints it.
            facts: what else must not change, such as the cohort's checksum and columns.
        """
        self._config, self._facts = config, facts
        if (self.folder / "run.json").exists():
            self.read()
            self._check_same(facts)
            return
        if self.folder.exists() and not self._is_free():
            raise InputError(f"{self.folder}: holds other files than a run's; name an empty or new --run_dir")
        self.record = {"status": "started", "wall_seconds": 0.0, "step": 0, **facts, **environment()}

    def read(self) -> None:
        """Reads run.json."""
        self.record = files.read_json(self.folder / "run.json")

    def start(self) -> None:
        """Takes the folder, until `close`, and writes configuration and record of a new run, once it is known to be valid:
        a refused one leaves no traces.
        """
        if not self.writes:
            return
        self._take()
        if not (path := self.folder / "run.json").exists():
            files.write_text(self.folder / "config.gin", self._config)
            self.save()
        elif files.read_json(path) != self.record:  # since `open`, when the folder was nobody's
            self.close()
            raise InputError(f"{self.folder}: another process has trained there meanwhile; start the command again")

    def _take(self) -> None:
        """Refuses a folder that another process writes into."""
        try:
            self.folder.mkdir(parents=True, exist_ok=True)
            handle = os.open(self.folder, os.O_RDONLY)
        except OSError as error:
            raise InputError(f"{self.folder}: cannot write into this folder ({error.strerror})") from error
        self._taken = weakref.finalize(self, os.close, handle)
        try:
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError as error:
            self.close()
            raise InputError(
                f"{self.folder}: another process trains there; wait for it, or name another --run_dir"
            ) from error
        except OSError:  # some file systems lock no folders
            pass

    def close(self) -> None:
        """Lets other processes write into the folder."""
        if self._taken:
            self._taken()

    def _is_free(self) -> bool:
        """Whether the folder holds at most what a run leaves that was killed in `start`."""
        return self.folder.is_dir() and all(
            path.name == "config.gin" or path.suffix == ".partial" for path in self.folder.iterdir()
        )

    def _check_same(self, facts: dict[str, Any]) -> None:
        different = [
            f"  {name} = {now}   (the run has {before})"
            for name, (before, now) in differences(
                StoredRun(self.folder).config, bindings(self._config), ignored={"cohort"}
            ).items()  # the cohort's file may have moved; its checksum is among the facts
        ]
        different += [
            f"  {name}: {value}   (the run has {self.record[name]})"
            for name, value in facts.items()
            if self.record.get(name, value) != value  # what an older version did not record is no difference
        ]
        if different:
            raise InputError(
                f"{self.folder}: holds a run with another configuration; name another --run_dir, or use the same. "
                "Different are\n" + "\n".join(different)
            )

    @property
    def fingerprint(self) -> int:
        """The same for the same configuration and facts, wherever the cohort lies."""
        wanted = bindings(self._config) | {"cohort": ""}
        return zlib.crc32(json.dumps([wanted, self._facts], sort_keys=True).encode())

    @property
    def finished(self) -> bool:
        """Whether the training has ended."""
        return self.record.get("status") == "finished"

    def save(self, **values: Any) -> None:
        """Writes run.json, with new values."""
        self.record.update(values)
        if self.writes:
            files.write_json(self.folder / "run.json", self.record)

    def log(self, metrics: dict[str, float]) -> None:
        """Adds a line to metrics.jsonl."""
        if not self.writes:
            return
        with (self.folder / "metrics.jsonl").open("a", encoding="utf-8") as file:
            file.write(json.dumps(metrics) + "\n")

    def resume_from(self, step: int) -> None:
        """Tells in the record that, and by which versions, the run is continued from a step; drops lines logged after it."""
        if step:
            self.save(continued=[*self.record.get("continued", []), {"step": step, **environment()}])
        path = self.folder / "metrics.jsonl"
        if self.writes and path.exists():
            lines = path.read_text(encoding="utf-8").splitlines(keepends=True)
            whole = [line for line in lines if line.endswith("\n") and json.loads(line)["step"] <= step]
            files.write_text(path, "".join(whole))

    def reports(self) -> list[dict[str, float]]:
        """The lines of metrics.jsonl."""
        path = self.folder / "metrics.jsonl"
        return [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()] if path.exists() else []

    @property
    def checkpoints(self) -> list[pathlib.Path]:
        """Checkpoint files, oldest first."""
        return sorted((self.folder / "checkpoints").glob("step-*.npz"))

    @property
    def kept_step(self) -> int:
        """The step that the run goes on from when it is started again."""
        kept = self.checkpoints
        return int(kept[-1].stem.split("-")[1]) if kept else 0

    def checkpoint(self, model: keras.Model, step: int, more: HasVariables | None = None) -> None:
        """Saves every variable of the model, its optimizer and `more`, and keeps the last few checkpoints."""
        values = {path: variable.numpy() for path, variable in named_variables(model, more).items()}
        broken = [path for path, value in values.items() if not np.isfinite(value).all()]
        if broken:
            raise InputError(f"step {step}: {broken[0]} is not finite, so training stops. {self.last_good()}")
        if not self.writes:
            return
        with (
            files.atomic_path(self.folder / "checkpoints" / f"step-{step:08d}.npz") as partial,
            partial.open("wb") as file,
        ):
            np.savez(file, **values)
        for old in self.checkpoints[:-KEPT_CHECKPOINTS]:
            old.unlink()

    def restore(self, model: keras.Model, more: HasVariables | None = None) -> int:
        """Puts the newest readable checkpoint into the model and `more`; returns its step, 0 if there is none."""
        kept = self.checkpoints
        for path in reversed(kept):
            try:
                content = path.read_bytes()
            except OSError as error:  # of the disk or its permissions, which may pass
                raise InputError(f"{path}: cannot be read ({error.strerror})") from error
            try:
                with np.load(io.BytesIO(content), allow_pickle=False) as archive:
                    values = {name: archive[name] for name in archive.files}
            except MemoryError:
                raise
            except Exception as error:  # damage shows as anything from BadZipFile to zlib.error
                if self.writes:
                    path.rename(path.with_suffix(".damaged"))
                earlier = "the one before" if path != kept[0] else "the beginning: there is no other"
                print(f"checkpoint {path.name} is damaged ({error}); falling back to {earlier}")
                continue
            assign(model, values, path, more)
            return int(path.stem.split("-")[1])
        return 0

    def last_good(self) -> str:
        """Where to go on from, for messages."""
        kept = self.checkpoints
        return f"The last good checkpoint is {kept[-1]}" if kept else "There is no checkpoint yet"
