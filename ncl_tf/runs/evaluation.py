"""The folder of an evaluation that is under way. Imports no TensorFlow."""

import contextlib
import json
import shutil
from typing import Any

from ncl_tf import files
from ncl_tf.errors import InputError
from ncl_tf.runs.folder import TrainingFolder


class EvaluationFolder(TrainingFolder):
    """What an evaluation keeps, in evaluations/NAME, while it trains a classifier: a killed one resumes from it.

    It is removed once the evaluation's JSON is written; of evaluations/NAME, the exported classifier stays.
    """

    record_name = "progress.json"
    checkpoint_seconds = 10.0  # epochs of heads take fractions of a second, and a checkpoint waits for the disk
    in_use = "another process is running this evaluation; wait for it"

    def start(self, facts: dict[str, Any]) -> None:
        """Lock the folder, and read what an interrupted evaluation left; what other facts led to is removed.

        Facts are everything that the training depends on: settings, protocol and the run's record.
        """
        self.lock()
        facts = json.loads(json.dumps(facts))
        try:
            before = files.read_json(self.folder / self.record_name)
        except InputError:  # there is none, or it is damaged
            before = {}
        if not isinstance(before.get("facts"), dict) or not isinstance(before.get("wall_seconds"), int | float):
            before = {}
        if before.get("facts") == facts:
            self.record = before
            return
        different = [name for name, value in facts.items() if before and before["facts"].get(name) != value]
        if different:
            print(f"{self.folder}: left by an evaluation with another {', '.join(different)}; starting over")
        self._clear()
        self.record["facts"] = facts

    def remove(self) -> None:
        """Remove what was kept, and the folder if nothing else is in it."""
        self._clear()
        with contextlib.suppress(OSError):
            self.folder.rmdir()

    def _clear(self) -> None:
        shutil.rmtree(self.folder / "checkpoints", ignore_errors=True)
        for name in (self.record_name, "metrics.jsonl"):
            (self.folder / name).unlink(missing_ok=True)
