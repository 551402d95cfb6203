"""Configurations as text: parsed, brought up to date and compared without gin or TensorFlow.

Files that earlier versions wrote stay readable: whatever reads one of them calls `bindings`,
`read_configuration` or `upgraded_evaluation`, which translate the names of before.
"""

import ast
import difflib
import pathlib
import re
from collections.abc import Container, Mapping
from typing import Any

from ncl_tf import project
from ncl_tf.errors import InputError, reading

# Bindings, macros and configurables that were renamed: old name -> new name.
RENAMED: dict[str, str] = {"encoder.static_dropout": "momentum_contrast.static_dropout"}
# Bindings that earlier versions did not have, with the value that they amounted to. Where such a binding refers to a macro
# and a configuration sets the binding itself, its value becomes the macro's.
ADDED = {
    "history": "48",
    "encoder.history": "%history",
    "filters": "64",
    "encoder.filters": "%filters",
    "kernel_size": "2",
    "encoder.kernel_size": "%kernel_size",
    "dilations": "(1, 2, 4, 8, 16)",
    "encoder.dilations": "%dilations",
    "freeze_projector": "False",
    "momentum_contrast.freeze_projector": "%freeze_projector",
    "max_training_minutes": "None",
    "train.max_minutes": "%max_training_minutes",
    "initial_encoder": "None",
    "train.initial_encoder": "%initial_encoder",
}
# Keys of the JSON files of evaluations that were renamed: old key -> new key.
RENAMED_KEYS = {"question": "settings"}


def bindings(config: str) -> dict[str, str]:
    """Parse the text of `gin.config_str()`, by this or an earlier version.

    Returns every binding and macro, name -> value as gin prints it, by today's names.
    """
    joined = re.sub(r"\\\n\s*", "", config)
    return upgraded(dict(re.findall(r"^([\w./@]+) = (.*(?:\n[ \t]+.*)*)", joined, re.MULTILINE)))


def upgraded(config: Mapping[str, str]) -> dict[str, str]:
    """Translate the bindings of an earlier version to today's names, and add those that it did not have."""
    found = {
        RENAMED.get(name, name): re.sub(r"(?<=[%@])[\w./]+", lambda match: RENAMED.get(match[0], match[0]), value)
        for name, value in config.items()
    }
    for name, value in ADDED.items():
        if value.startswith("%") and found.get(name, value) != value:
            found[value[1:]] = found.pop(name)
        found.setdefault(name, value)
    return found


def setting(config: Mapping[str, str], name: str) -> Any:
    """Return the value of a macro or binding, as of `bindings`; None if the configuration has none of that name."""
    value, seen = config.get(name), set()
    while value and value.startswith("%"):
        if value in seen:
            raise ValueError(f"{value} refers to itself")
        seen.add(value)
        value = config.get(value[1:])
    return ast.literal_eval(value) if value else None


def read_gin(path: pathlib.Path) -> str:
    """Read the text of a run's configuration as it is."""
    with reading(path, "the gin file that the run was trained with"):
        return path.read_text(encoding="utf-8")


def read_configuration(path: pathlib.Path) -> str:
    """Read a run's configuration as text that today's gin configurables accept."""
    text = read_gin(path)
    imports = re.findall(r"^(?:import|from) .*", text, re.MULTILINE)
    return "\n".join([*imports, *(f"{name} = {value}" for name, value in bindings(text).items()), ""])


def differences(
    config: Mapping[str, str], expected: Mapping[str, str], ignored: Container[str] = ()
) -> dict[str, tuple[str, str]]:
    """Compare two configurations, as of `bindings`, except for the names that are ignored.

    Returns each name with another value: name -> its value in `config` and in `expected`, "not set" where there is none.
    """
    return {
        name: (config.get(name, "not set"), expected.get(name, "not set"))
        for name in sorted(config.keys() | expected.keys())
        if name not in ignored and config.get(name) != expected.get(name)
    }


def upgraded_evaluation(content: Mapping[str, Any]) -> dict[str, Any]:
    """Translate the JSON of an evaluation, of a result or of an export's card from an earlier version's names."""
    found = {RENAMED_KEYS.get(name, name): value for name, value in content.items()}
    return found | ({"config": upgraded(found["config"])} if "config" in found else {})


def find_gin_file(file: str, includes: str = "") -> pathlib.Path:
    """Find a gin file: as it is given, or below the project's gin/ folder; `includes` is the file that includes it, if any."""
    for place in ("", project.GIN, project.HOME):
        if (path := pathlib.Path(place, file)).is_file():
            return path
    what = f"{includes}: includes {file!r}: no such file" if includes else f"{file}: no such gin file"
    known = [str(path.relative_to(project.GIN.parent).with_suffix("")) for path in project.GIN.rglob("*.gin")]
    near = difflib.get_close_matches(str(pathlib.Path(file).with_suffix("")), known, n=1)
    hint = f". Did you mean {near[0] + '.gin'!r}?" if near else ""
    raise InputError(f"{what}, neither here nor in {project.GIN.name}/{hint}")
