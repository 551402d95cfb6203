"""Makes models/, the models that ship, from finished runs: `make models RUNS="NAME=RUN_DIR NAME=RUN_DIR:EVALUATION"`.

NAME=RUN_DIR is the encoder of a run, NAME=RUN_DIR:EVALUATION the classifier of one of its evaluations. Models of other names stay
as they are. Which run a model is of must have been chosen by validation figures: the run needs the evaluation on the validation
split (`bin/evaluate --split=val`) beside that on the test split. `ncl_tf.runs.shipped` describes the folder.
"""

import pathlib
import re
import shutil
import sys
from collections.abc import Sequence
from typing import Any

import yaml

from ncl_tf import files, project
from ncl_tf.data.cohort import titled
from ncl_tf.data.exports import read_card
from ncl_tf.errors import InputError
from ncl_tf.networks import HEADS
from ncl_tf.runs import StoredRun, shipped
from ncl_tf.serving.card import model_card

USAGE = 'make models RUNS="NAME=RUN_DIR NAME=RUN_DIR:EVALUATION"'
TITLES = {"auroc": "AUROC", "auprc": "AUPRC", "utility": "utility"}
HUB_METRICS = {"auroc": "roc_auc", "auprc": "average_precision"}  # their names there
# Data whose models may be given away, and what its licence asks for.
LICENSES = {"physionet2019": "cc-by-4.0", "simulated": "mit"}
ATTRIBUTION = {
    "physionet2019": """The model learned from the training data of the PhysioNet/Computing in Cardiology Challenge 2019,
sets A and B ([doi:10.13026/v64v-d857](https://doi.org/10.13026/v64v-d857)), which is under the
[Creative Commons Attribution 4.0](https://creativecommons.org/licenses/by/4.0/) license. The hours were scaled and the
weights of this model fitted to them; no row of the data is part of it. The weights are under the same license: name this
project, and cite M. A. Reyna, C. S. Josef, R. Jeter, S. P. Shashikumar, M. B. Westover, S. Nemati, G. D. Clifford,
A. Sharma: Early Prediction of Sepsis From Clinical Data: The PhysioNet/Computing in Cardiology Challenge 2019, Critical
Care Medicine 48(2), 2020, [doi:10.1097/CCM.0000000000004145](https://doi.org/10.1097/CCM.0000000000004145).""",
    "simulated": "The model learned from a ward that ncl_tf simulated; no patient is part of it. The weights are under the MIT "
    "license.",
}
INTENDED = """Meant for research: to compare methods, as a beginning for training on other data (`initial_encoder`), and to try
what online monitoring would show. Not meant for decisions on patients, in any form, nor for screening, triage or
billing. What it predicts at another hospital, or for other patients than adults in intensive care, is unknown."""
CHOSEN = """Of the runs of this method, which differ in their seed, or of the methods that were compared, this one was
chosen by these metrics of the validation split. The test split had no part in it."""
USE = {
    "encoder": """```python
import ncl_tf

model = ncl_tf.load("{name}")
representations = model.embed(windows)  # prepared windows [B, {hours}, {columns}]
```

`bin/train --gin_param="initial_encoder = '{name}'"` begins with its weights, and
`bin/evaluate --encoder={name} --cohort=FILE --output=DIR` evaluates it on another cohort.""",
    "classifier": """```python
import ncl_tf

model = ncl_tf.load("{name}")
risk = model.risk(stay)  # a DataFrame with a row for each hour and a column for each channel
```

`bin/predict --model={name} --input=PATH --output=DIR` scores files.""",
}


def ship(name: str, run_dir: pathlib.Path, evaluation: str | None, models: pathlib.Path) -> None:
    """Copy an export of a finished run into the folder `models` as the model `name`, and write it into the index."""
    run = StoredRun(run_dir)
    run.require_finished()
    if evaluation and evaluation not in run.classifiers:
        raise InputError(f"{run_dir}: the evaluation must be one of {', '.join(run.classifiers)}, got {evaluation!r}")
    source = run.classifiers[evaluation] if evaluation else run.encoder
    card = read_card(source)
    license_of = "simulated" if card["data"]["simulated"] else card["data"]["dataset"]
    if license_of not in LICENSES:
        raise InputError(
            f"{run_dir}: a model that ships must be of {' or '.join(LICENSES)} data, got {license_of}, whose license may not "
            "allow it"
        )
    test, validation = ({e["name"]: e for e in _evaluations(run, evaluation, split)} for split in ("test", "val"))
    if not (test and validation):
        raise InputError(
            f"{run_dir}: must have evaluations on the test and the validation split, got "
            f"{', '.join([*test, *validation]) or 'none'}; run bin/evaluate --run_dir={run_dir}, also with --split=val"
        )
    entry = {
        "kind": card["kind"],
        "task": next(iter(test.values()))["settings"]["task"],
        "figures": {name: found["metrics"] for name, found in test.items()},
        "validation": {name: found["metrics"] for name, found in validation.items()},
        "channels": [channel["name"] for channel in card["preprocessor"]["dataset"]["channels"]],
        "data": card["data"],
        "run": card["run"],
    }
    with files.atomic_folder(models / name) as new:
        shutil.copytree(source, new, dirs_exist_ok=True)
        files.write_text(new / "model_card.md", hub_card(name, card, entry, license_of))
        written = sorted(path for path in new.rglob("*") if path.is_file())
        entry["files"] = {path.relative_to(new).as_posix(): files.sha256(path) for path in written}
    others = {other: known for other, known in shipped.read_index(models).items() if (models / other).is_dir()}
    index = {"format_version": shipped.FORMAT_VERSION, "models": dict(sorted((others | {name: entry}).items()))}
    files.write_json(models / shipped.INDEX, index)


def _evaluations(run: StoredRun, evaluation: str | None, split: str) -> list[dict[str, Any]]:
    """List evaluations on a split: the one that is named, or those of all heads on the frozen encoder and all labels."""
    suffix = "" if split == "test" else f"-{split}"
    found = []
    for known in run.evaluations:
        settings = known["settings"]
        plain = f"{settings['task']}-{settings['head']}"
        wanted = [evaluation] if evaluation else [plain] * (settings["head"] in HEADS)
        if settings["split"] == split and known["name"] in [f"{name}{suffix}" for name in wanted]:
            found.append(known)
    return found


def hub_card(name: str, card: dict[str, Any], entry: dict[str, Any], license_of: str) -> str:
    """Write model_card.md for model hubs: a header that they read, the export's own card, figures, use and attribution."""
    use = {
        "name": name,
        "hours": card["inputs"]["windows"]["hours"],
        "columns": len(card["inputs"]["windows"]["columns"]),
    }
    parts = [
        f"---\n{yaml.safe_dump(_header(name, card, entry, license_of), sort_keys=False, width=120)}---",
        model_card(card).rstrip(),
        f"## Use\n\n{USE[entry['kind']].format(**use)}",
        f"## Intended use\n\n{INTENDED}",
        f"## Figures on the test split\n\n{_table(entry['figures'])}",
        f"## How it was chosen\n\n{CHOSEN}\n\n{_table(entry['validation'])}",
        f"## Data and license\n\n{ATTRIBUTION[license_of]}",
    ]
    return "\n\n".join(parts) + "\n"


def _header(name: str, card: dict[str, Any], entry: dict[str, Any], license_of: str) -> dict[str, Any]:
    """Make what hubs read: license, library, tags, data, and metrics as a model index."""
    data = titled(card["data"]["dataset"], card["data"]["simulated"])
    dataset = {"name": data, "type": license_of, "split": "test"}
    results = [
        {
            "task": {"type": "tabular-classification", "name": f"{entry['task']}, evaluation {evaluation}"},
            "dataset": dataset,
            "metrics": [
                {"type": HUB_METRICS.get(metric, metric), "name": title, "value": metrics[metric]}
                for metric, title in TITLES.items()
                if metric in metrics
            ],
        }
        for evaluation, metrics in entry["figures"].items()
    ]
    return {
        "license": LICENSES[license_of],
        "library_name": "ncl_tf",
        "tags": [
            "tensorflow",
            "keras",
            "time-series",
            "intensive-care",
            "contrastive-learning",
            entry["kind"],
            entry["task"],
        ],
        "datasets": [license_of],
        "metrics": [HUB_METRICS.get(metric, metric) for metric in TITLES],
        "model-index": [{"name": name, "results": results}],
    }


def _table(evaluations: dict[str, dict[str, float]]) -> str:
    """Write metrics, x 100, as Markdown with a line for each evaluation."""
    lines = [f"| evaluation | {' | '.join(TITLES.values())} |", "|---|" + "---|" * len(TITLES)]
    for name, metrics in evaluations.items():
        cells = (f"{100 * metrics[metric]:.2f}" if metric in metrics else "" for metric in TITLES)
        lines.append(f"| `{name}` | {' | '.join(cells)} |")
    return "\n".join([*lines, "", "(x 100)"])


def main(arguments: Sequence[str]) -> None:
    """Ship each model that is asked for."""
    if not arguments:
        raise InputError(f"no models are named; {USAGE}")
    for argument in arguments:
        name, separator, run = argument.partition("=")
        run, _, evaluation = run.partition(":")
        if not (separator and run and re.fullmatch(r"\w+(/\w+)*", name)):
            raise InputError(
                f"a model must be given as NAME=RUN_DIR or NAME=RUN_DIR:EVALUATION, got {argument!r}; {USAGE}"
            )
        ship(name, pathlib.Path(run), evaluation or None, project.MODELS)
        print(f"written: {project.MODELS / name}, from {argument.partition('=')[2]}")


if __name__ == "__main__":
    try:
        main(sys.argv[1:])
    except InputError as error:
        sys.exit(f"error: {error}")
