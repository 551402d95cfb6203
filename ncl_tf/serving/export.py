"""Exports of trained encoders and classifiers: folders that TensorFlow, TensorFlow Serving and `ncl_tf.load` take as they are.

1/                SavedModel; TensorFlow Serving wants a number, the version, as its name
model.json        channels, task, data, metrics, configuration, versions
model_card.md     the same for people
"""

import pathlib
import shutil
from typing import Any

import keras

from ncl_tf import files
from ncl_tf.data.cohort import Cohort
from ncl_tf.errors import InputError
from ncl_tf.methods.supervised import Classifier
from ncl_tf.networks.encoder import Encoder
from ncl_tf.serving.card import describe, model_card
from ncl_tf.serving.loading import VERSION
from ncl_tf.serving.raw import RawPreprocessor
from ncl_tf.serving.scoring import ClassifierFunctions, EncoderFunctions


def export_encoder(
    folder: pathlib.Path, encoder: Encoder, cohort: Cohort, config: dict[str, str], run: dict[str, Any]
) -> None:
    """Writes an encoder, with the function `embed`; arguments as of `ncl_tf.serving.card.describe`."""
    functions = EncoderFunctions(encoder, len(cohort.columns))
    _write(folder, functions, [encoder], describe(cohort, encoder.history, list(functions.signatures), config, run, None))


def export_classifier(
    folder: pathlib.Path, classifier: Classifier, cohort: Cohort, run: dict[str, Any], evaluation: dict[str, Any]
) -> None:
    """Writes a classifier, with all functions of `ncl_tf.serving.scoring`.

    From a cohort file that the authors' code wrote, which holds no preprocessor, only `embed` and `predict` can be made.

    Args:
        folder: to write.
        classifier: trained.
        cohort: that it was trained on.
        run: its run's record.
        evaluation: that judged it, as in its JSON file.
    """
    raw = None if cohort.preprocessor is None else RawPreprocessor(cohort.preprocessor)
    functions = ClassifierFunctions(classifier, len(cohort.columns), raw)
    history, names = classifier.encoder.history, list(functions.signatures)
    card = describe(cohort, history, names, evaluation["config"], run, evaluation)
    _write(folder, functions, [classifier, *([raw] if raw else [])], card)


def _write(folder: pathlib.Path, functions: EncoderFunctions, tracked: list, card: dict[str, Any]) -> None:
    """Writes the folder, which appears when it is complete."""
    archive = keras.export.ExportArchive()
    for part in tracked:
        archive.track(part)
    for name, specs in functions.signatures.items():
        archive.add_endpoint(name, getattr(functions, name), specs)
    with files.atomic_folder(folder) as new:
        archive.write_out(new / VERSION, verbose=False)
        files.write_json(new / "model.json", card)
        files.write_text(new / "model_card.md", model_card(card))


def copy_of_run(run_dir: pathlib.Path, evaluation: str | None, output: pathlib.Path) -> pathlib.Path:
    """Copies an export out of a run directory: the classifier of an evaluation, or the encoder where there is none.

    Args:
        run_dir: of a finished run.
        evaluation: its name; None where the run has at most one with a classifier.
        output: the new folder.

    Returns:
        What was copied.
    """
    if not (run_dir / "run.json").exists():
        raise InputError(
            f"{run_dir}: {'not a run directory: no run.json in it' if run_dir.is_dir() else 'no such folder'}"
        )
    made = {path.parent.name: path for path in sorted(run_dir.glob("evaluations/*/classifier"))}
    if evaluation is None and len(made) > 1:
        raise InputError(f"{run_dir}: has several evaluations; choose one by --evaluation={'|'.join(made)}")
    if evaluation is not None and evaluation not in made:
        raise InputError(
            f"{run_dir}: no classifier of an evaluation {evaluation!r}; there is {', '.join(made) or 'none'} "
            "(bin/evaluate makes them)"
        )
    source = made[evaluation] if evaluation else next(iter(made.values()), run_dir / "encoder")
    if not (source / "model.json").exists():
        raise InputError(
            f"{run_dir}: has not finished: no {source.name}/model.json; start its bin/train again, it goes on"
        )
    if output.exists():
        raise InputError(f"{output}: exists already; name another --output")
    with files.atomic_folder(output) as new:
        shutil.copytree(source, new, dirs_exist_ok=True)
    return source
