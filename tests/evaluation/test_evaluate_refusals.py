"""Evaluating runs: what is refused, and that nothing of it leaves traces."""

import functools
import json
import pathlib
import re
import shutil
from collections.abc import Callable

import h5py
import pytest

from ncl_tf.data.cohort import Cohort
from ncl_tf.errors import InputError
from ncl_tf.evaluation import evaluate as evaluation
from ncl_tf.evaluation.evaluate import load_run
from ncl_tf.evaluation.settings import EvaluationSettings
from ncl_tf.serving.export import export_classifier

evaluate = functools.partial(evaluation.evaluate, export=export_classifier)


def contents(folder: pathlib.Path) -> dict[pathlib.Path, bytes]:
    return {path: path.read_bytes() for path in folder.rglob("*") if path.is_file()}


def test_folders_without_an_encoder_are_refused(ncl_w: pathlib.Path, tmp_path: pathlib.Path) -> None:
    with pytest.raises(InputError, match="run directory .*run.json"):
        evaluate(tmp_path, EvaluationSettings())
    run_dir = shutil.copytree(ncl_w, tmp_path / "run")
    record = json.loads((run_dir / "run.json").read_text())
    (run_dir / "run.json").write_text(json.dumps(record | {"status": "started"}))
    with pytest.raises(InputError, match="finished.* step 2.*bin/train"):
        evaluate(run_dir, EvaluationSettings())
    (run_dir / "run.json").write_text(json.dumps(record))
    (run_dir / "checkpoints" / "step-00000002.npz").unlink()  # the one before must not be taken for it
    with pytest.raises(InputError, match="no readable checkpoint of step 2"):
        evaluate(run_dir, EvaluationSettings())


def test_other_cohorts_are_refused_and_a_moved_one_is_taken(
    ncl_w: pathlib.Path, ward_cohort: pathlib.Path, mimic_ward_cohort: pathlib.Path, tmp_path: pathlib.Path
) -> None:
    with pytest.raises(InputError, match=f"{mimic_ward_cohort}.*{Cohort(ward_cohort).checksum}"):
        evaluate(ncl_w, EvaluationSettings(), cohort=str(mimic_ward_cohort))
    elsewhere = shutil.copytree(ncl_w, tmp_path / "run")
    config = (elsewhere / "config.gin").read_text().replace(str(ward_cohort), "gone.h5")
    (elsewhere / "config.gin").write_text(config)
    with pytest.raises(InputError, match=r"gone\.h5: no such file.* --cohort"):
        evaluate(elsewhere, EvaluationSettings())
    copy = pathlib.Path(shutil.copy(ward_cohort, tmp_path / "copy.h5"))
    assert load_run(ncl_w, str(copy), ())[1].path == copy
    with h5py.File(copy, "r+") as file:
        file["labels/test"][0] = 1 - file["labels/test"][0]
    with pytest.raises(InputError, match=f"{copy}.*{Cohort(ward_cohort).checksum}.*{Cohort(copy).checksum}"):
        evaluate(ncl_w, EvaluationSettings(), cohort=str(copy))


@pytest.mark.parametrize(
    ("asked", "message"),
    [
        ({"task": "mortality"}, "one of sepsis, got 'mortality'"),
        ({"labels": 0.0}, "above 0, up to 1, got 0.0"),
        ({"labels": 1.5}, "above 0, up to 1, got 1.5"),
        ({"labels": 0.05}, "got 0.05 of the"),
        ({"head": "deep"}, "linear, mlp, got 'deep'"),
        ({"features": "all"}, "representation, last_hour, window, got 'all'"),
        (
            {"fine_tune": True, "features": "window"},
            "features must be representation, got 'window'",
        ),
        ({"labels": 0.5, "label_seed": -1}, "label_seed must be 0 or more, got -1"),
        ({"split": "holdout"}, "train, val, test, got 'holdout'"),
    ],
)
def test_bad_settings_are_refused_and_leave_no_traces(ncl_w: pathlib.Path, asked: dict, message: str) -> None:
    before = contents(ncl_w)
    with pytest.raises(InputError) as error:
        evaluate(ncl_w, EvaluationSettings(**asked))
    assert message in str(error.value)
    assert contents(ncl_w) == before


def test_an_evaluation_of_that_name_is_kept(ncl_w: pathlib.Path) -> None:
    settings = EvaluationSettings(head="linear", features="last_hour", split="train")
    path = ncl_w / "evaluations" / "sepsis-linear-last_hour-train.json"
    evaluate(ncl_w, settings)
    before = contents(ncl_w)
    with pytest.raises(InputError, match=f"{path.name}: exists.* --overwrite"):
        evaluate(ncl_w, settings)
    assert contents(ncl_w) == before
    evaluate(ncl_w, settings, overwrite=True)
    assert path.read_bytes() != before[path]  # its time of making


@pytest.mark.parametrize(
    ("binding", "message"),
    [
        ("patience = 0", "protocol.patience must be 1 or more, got 0"),
        ("max_epochs = -1", "protocol.max_epochs must be 1 or more, got -1"),
        ("batch_size = 0", "protocol.batch_size must be 1 or more, got 0"),
        ("linear_rate = 0.0", "protocol.linear_rate must be above 0, got 0.0"),
        ("fine_tune_rate = -1.0", "protocol.fine_tune_rate must be above 0, got -1.0"),
    ],
)
def test_a_protocol_without_a_meaning_is_refused(ncl_w: pathlib.Path, binding: str, message: str) -> None:
    with pytest.raises(InputError, match=re.escape(message)):
        evaluate(ncl_w, EvaluationSettings(), gin_params=(f"protocol.{binding}",))


def test_parameters_of_the_training_cannot_be_changed(ncl_w: pathlib.Path) -> None:
    with pytest.raises(InputError, match=r"protocol.* linear_rate, mlp_rate, .*alpha = 0.9"):
        evaluate(ncl_w, EvaluationSettings(), gin_params=("alpha = 0.9",))


def test_a_split_of_one_class_is_refused(
    ncl_w: pathlib.Path, adopted: Callable[..., pathlib.Path], ward_cohort: pathlib.Path, tmp_path: pathlib.Path
) -> None:
    path = pathlib.Path(shutil.copy(ward_cohort, tmp_path / "healthy.h5"))
    with h5py.File(path, "r+") as file:
        file["labels/test"][:] = 0
    run_dir = adopted(ncl_w, path, tmp_path / "run")
    with pytest.raises(InputError, match=r"split 'test' .*two classes.* \[0\]"):
        evaluate(run_dir, EvaluationSettings(head="linear", features="last_hour"), cohort=str(path))
    assert not (run_dir / "evaluations").exists()
