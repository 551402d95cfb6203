"""The run directory: configuration, checkpoints, logs and the record of one training.

config.gin               the settings; a run is only ever resumed with the same
operative_config.gin     the settings that were used, defaults included, written at the end
run.json                 seed, versions, cohort checksum, wall time, status, whether a time cap ended it, best epoch; where it
                         was interrupted, the step, versions and machine from which it was resumed each time
metrics.jsonl            one line per report: step, objective, accuracy, learning rate, validation values
logs/                    the same for TensorBoard
checkpoints/step-N.npz   every variable, the last two; with early stopping also the best weights, in which a finished run ends
encoder/                 SavedModel, written at the end
"""

import json
import zlib
from typing import Any

from ncl_tf import files
from ncl_tf.errors import InputError
from ncl_tf.runs.configuration import bindings, differences
from ncl_tf.runs.environment import environment
from ncl_tf.runs.folder import TrainingFolder
from ncl_tf.runs.store import StoredRun, read_record


class Run(TrainingFolder):
    """One run directory, as bin/train writes it."""

    def open(self, config: str, facts: dict[str, Any]) -> None:
        """Read the record of a run with the same configuration and facts, or begin one, of which nothing is written yet.

        Facts are what must not change beside the configuration, such as the cohort's checksum and columns.
        """
        self._config, self._facts = config, facts
        if (self.folder / "run.json").exists():
            self.record = read_record(self.folder)
            self._check_same(facts)
            return
        if self.folder.exists() and not self._is_free():
            raise InputError(f"{self.folder}: must be new or empty, or a run to resume; name another --run_dir")
        self.record = {"status": "started", "wall_seconds": 0.0, "step": 0, **facts, **environment()}

    def start(self) -> None:
        """Lock the folder, until `close`, and write the configuration and the record of a new run.

        It is called once the settings are known to be valid, so that a refused run leaves no traces.
        """
        if not self.writes:
            return
        self.lock()
        if not (path := self.folder / "run.json").exists():
            files.write_text(self.folder / "config.gin", self._config)
            self.save()
        elif files.read_json(path) != self.record:  # since `open`, when the folder was not locked
            self.close()
            raise InputError(
                f"{self.folder}: another process has trained there in the meantime; start the command again"
            )

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
                "Differences:\n" + "\n".join(different)
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
