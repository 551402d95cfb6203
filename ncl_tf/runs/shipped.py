"""The models that ship with the project, in the folder models/: an export for each, and index.json. Imports no TensorFlow.

index.json has the format's version and, by the model's name, what it is, its figures and the SHA-256 of its files:

NAME/1, NAME/model.json, NAME/model_card.md   an export as `ncl_tf.serving.export` writes it, with a card for model hubs
"""

import os
import pathlib
from typing import Any

from ncl_tf import files, project
from ncl_tf.errors import InputError, reading

INDEX = "index.json"
FORMAT_VERSION = "1.0"
# What the index holds of a model, by name, and of which type.
ENTRY = {"kind": str, "task": str, "figures": dict, "validation": dict, "channels": list, "data": dict, "run": dict}
ENTRY |= {"files": dict}


def read_index(folder: pathlib.Path | None = None) -> dict[str, dict[str, Any]]:
    """Read what the index of a folder, by default the project's, holds of each model; empty where there is no index."""
    path = (folder or project.MODELS) / INDEX
    if not path.exists():
        return {}
    content = files.read_json(path)
    files.check_types(path, content, {"format_version": str, "models": dict})
    if content["format_version"] != FORMAT_VERSION:
        raise InputError(f"{path}: format_version must be {FORMAT_VERSION}, got {content['format_version']}")
    for name, entry in content["models"].items():
        files.check_types(f"{path}: {name}", entry, ENTRY)
    return content["models"]


def described() -> dict[str, dict[str, Any]]:
    """Describe the models that ship with ncl_tf, by the names that `ncl_tf.load` takes.

    Each has its `kind`, `task` and raw `channels`; `figures`, the metrics of evaluations on the test split by their names;
    `validation`, those that it was chosen by; and the `data` and `run` that it is from.
    """
    return {name: {key: entry[key] for key in ENTRY if key != "files"} for name, entry in read_index().items()}


def model_folder(name: str | os.PathLike) -> pathlib.Path:
    """Find an exported model: a folder of the user's, or a model that ships, whose files must be whole."""
    path = pathlib.Path(name)
    if path.exists():
        return path
    known = read_index()
    if str(name) not in known:
        raise InputError(
            f"{name}: not an exported model: no such folder. It must be one with a model.json, which bin/export writes "
            "(RUN/encoder and RUN/evaluations/NAME/classifier are some, too), or one of those that ship: "
            + (", ".join(known) or "this copy of ncl_tf has none")
        )
    folder = project.MODELS / str(name)
    for file, expected in known[str(name)]["files"].items():
        with reading(folder / file, f"a file of the model {name}, which ships with ncl_tf"):
            found = files.sha256(folder / file)
        if found != expected:
            raise InputError(
                f"{folder / file}: must have the SHA-256 {expected} that {project.MODELS / INDEX} holds, got {found}; the file "
                "is damaged: install ncl_tf again, or check it out again"
            )
    return folder
