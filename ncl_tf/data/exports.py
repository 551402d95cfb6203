"""Exports as folders: their model.json, the preprocessor in it, and what it says of the SavedModel. Imports no TensorFlow."""

import json
import pathlib
from typing import Any

from ncl_tf import files
from ncl_tf.data.preprocessing import Preprocessor
from ncl_tf.errors import InputError, reading
from ncl_tf.runs.configuration import upgraded_evaluation

MAJOR = 1  # of the format version, which `ncl_tf.serving.card` writes
# What model.json holds, by name, and of which type.
CARD = dict.fromkeys(("task", "preprocessor", "evaluation"), (dict, type(None))) | {"kind": str, "signatures": list}
CARD |= {"inputs": dict, "data": dict}
VERSION = "1"  # the folder that model.json describes; TensorFlow Serving requires a number as its name


def read_card(folder: pathlib.Path) -> dict[str, Any]:
    """Read model.json of an export, and refuse one that this ncl_tf cannot use."""
    try:
        card = json.loads((folder / "model.json").read_text(encoding="utf-8"))
        version = card["format_version"]
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise InputError(
            f"{folder}: not an exported model: it has no model.json with a format version. bin/export writes exports; "
            "RUN/encoder and RUN/evaluations/NAME/classifier are exports, too"
        ) from error
    if str(version).split(".")[0] != str(MAJOR):
        raise InputError(
            f"{folder}: format_version must be {MAJOR}.x, got {version}; use the ncl_tf that wrote the export"
        )
    path = folder / "model.json"
    with reading(path, "the description of an export"):
        files.check_types(path, card, CARD | ({"files": dict} if "files" in card else {}))
        files.check_types(f"{path}: inputs: windows", card["inputs"]["windows"], {"hours": int, "columns": list})
        if card["evaluation"]:
            card["evaluation"] = upgraded_evaluation(card["evaluation"])
    return card


def read_preprocessor(folder: pathlib.Path, card: dict[str, Any]) -> Preprocessor | None:
    """Read the preprocessor that an export's card holds, if it holds one."""
    with reading(folder / "model.json", "the description of an export"):
        return None if card["preprocessor"] is None else Preprocessor.from_json(card["preprocessor"])


def check_saved(folder: pathlib.Path, card: dict[str, Any]) -> None:
    """Refuse a SavedModel of which a file is damaged, missing or another one; exports of before have no checksums."""
    for name, expected in card.get("files", {}).items():
        path = folder / VERSION / name
        with reading(path, "a file of the SavedModel that model.json describes"):
            found = files.sha256(path)
        if found != expected:
            raise InputError(
                f"{path}: must have the SHA-256 {expected} that model.json holds, got {found}; the file is damaged, or another "
                "one was put in its place. Copy or export it again"
            )
