"""End-to-End through `train`: the best epoch is kept and exported, killed runs end the same, and wall time is capped."""

import json
import pathlib
import shutil
import signal

import h5py
import numpy as np
import pytest
import tensorflow as tf

import tiny
from ncl_tf import runs
from ncl_tf.data.cohort import Cohort
from ncl_tf.data.windows import Windows
from ncl_tf.training import config
from processes import ROOT, finish, start, wait_for
from refusals import refused
from trainings import assert_same_bits, checkpoints, interrupted, record, reports, state

SUPERVISED = {"protocol.batch_size": 256, "protocol.patience": 2, "rate": 1e-3, "max_minutes": 30}
FIXED = {"batch_size": 256, "report_every": 5, "steps": 30}
END_TO_END, AUTOENCODER = "physionet2019/end_to_end", "physionet2019/seq2seq_ae"


def train(run_dir: pathlib.Path, cohort: pathlib.Path, /, method: str = END_TO_END, **macros) -> None:
    tiny.train(run_dir, method, cohort, **(SUPERVISED if method == END_TO_END else FIXED) | macros)


def assert_equal_runs(one: pathlib.Path, other: pathlib.Path) -> None:
    assert_same_bits(one, other)
    kept = ("status", "step", "stopped_by_budget", "result", "best_epoch")
    assert [record(one).get(name) for name in kept] == [record(other).get(name) for name in kept]


@pytest.fixture(scope="module")
def finished(ward_cohort, tmp_path_factory):
    run_dir = tmp_path_factory.mktemp("runs") / "whole"
    train(run_dir, ward_cohort)
    return run_dir


def test_the_best_epoch_is_chosen_kept_and_exported(finished, ward_cohort):
    """The loss of the chosen weights on all validation hours, computed here by hand, is the lowest of the curve."""
    lines, found, data = reports(finished), record(finished), Cohort(ward_cohort)
    losses = [line["val_loss"] for line in lines]
    assert 1 < found["best_epoch"] == 1 + int(np.argmin(losses)) < len(losses)
    assert len(losses) == found["best_epoch"] + 2  # patience
    assert (found["status"], found["stopped_by_budget"]) == ("finished", False)
    assert found["result"] == lines[found["best_epoch"] - 1]
    assert [line["epoch"] for line in lines] == list(range(1, len(lines) + 1))
    assert {line["learning_rate"] for line in lines} == {float(np.float32(1e-3))}
    hours = len(data["train"].data)
    assert [line["step"] for line in lines] == [-(-epoch * hours // 256) for epoch in range(1, len(lines) + 1)]

    config.configure([str(finished / "config.gin")], [])
    model = config.method()(cohort=data, seed=1111, fast=False)
    model.build((None, 48, len(data.columns)))
    assert runs.Run(finished).restore(model) == found["step"] == lines[-1]["step"]
    labels = data["val"].labels[:, 0].astype(int)
    rows = tf.range(len(labels))
    windows = Windows(data["val"], 48).gather(rows)["window"]
    probabilities = model(windows).numpy()
    share = data["train"].labels[:, 0].mean()
    weights = np.array([0.5 / (1 - share), 0.5 / share])
    by_hand = -weights[labels] * np.log(probabilities[np.arange(len(labels)), labels])
    assert by_hand.mean() == pytest.approx(min(losses), rel=1e-4)
    exported = tf.saved_model.load(finished / "encoder" / "1")
    np.testing.assert_allclose(exported.embed(windows[:9])["representations"], model.encoder(windows[:9]), atol=1e-5)


def test_a_run_killed_after_the_choice_is_finished(finished, ward_cohort, tmp_path):
    run_dir = interrupted(finished, tmp_path / "run")
    train(run_dir, ward_cohort)
    assert_equal_runs(finished, run_dir)
    assert (run_dir / "encoder" / "1" / "saved_model.pb").exists()


def test_a_killed_run_ends_like_one_that_was_left_alone(finished, ward_cohort, python, tmp_path, capfd):
    """SIGKILL after a checkpoint; then the same command again."""
    run_dir = tmp_path / "run"
    macros = tiny.TINY | SUPERVISED | {"cohort": str(ward_cohort)}
    flags = [f"--gin_param={binding}" for binding in tiny.bindings(macros)]
    process = start([python, "bin/train", f"--gin_file=paper/{END_TO_END}.gin", *flags, f"--run_dir={run_dir}"])
    wait_for(lambda: checkpoints(run_dir), process)
    process.kill()
    assert finish(process)[0] == -signal.SIGKILL
    first = max(checkpoints(run_dir))
    assert 0 < first < record(finished)["step"]
    train(run_dir, ward_cohort)
    assert f"from step {first}" in capfd.readouterr().out
    assert_equal_runs(finished, run_dir)
    assert record(run_dir)["stopped_by_budget"] is False
    names = state(finished)
    assert {"best/epoch", "best/loss", "adam/iteration"} <= names.keys()
    weights = [name for name in names if name.startswith("classifier/") and "mean" not in name and "loss" not in name]
    assert {"best/" + name.replace("/", ".") for name in weights} <= names.keys()


def test_an_autoencoder_resumes_from_a_checkpoint(ward_cohort, tmp_path, capfd):
    train(tmp_path / "whole", ward_cohort, AUTOENCODER)
    run_dir = interrupted(tmp_path / "whole", tmp_path / "run")
    checkpoints(run_dir)[FIXED["steps"]].unlink()
    train(run_dir, ward_cohort, AUTOENCODER)
    assert "from step 25" in capfd.readouterr().out
    assert_equal_runs(tmp_path / "whole", run_dir)


@pytest.mark.parametrize(("method", "best_epoch"), [(END_TO_END, 1), (AUTOENCODER, None)])
def test_a_cap_cuts_training_validates_it_and_ends_the_run_well(method, best_epoch, ward_cohort, tmp_path, capfd):
    """In the first epoch of End-to-End, and between two reports of an auto-encoder."""
    run_dir = tmp_path / "run"
    with tiny.eagerly():
        train(run_dir, ward_cohort, method, max_minutes=1e-6)
    found, (line,) = record(run_dir), reports(run_dir)
    assert (found["status"], found["stopped_by_budget"], found["step"]) == ("finished", True, 1)
    assert found.get("best_epoch") == best_epoch
    assert line["step"] == 1
    assert np.isfinite(line["val_loss"])
    assert (run_dir / "encoder" / "1" / "saved_model.pb").exists()
    assert "1e-06 minutes" in capfd.readouterr().out


def test_time_counts_from_the_beginning_of_a_run(finished, ward_cohort, tmp_path):
    """A run under a cap that was interrupted before its last epoch, with all its time spent, makes no step more."""
    run_dir = interrupted(finished, tmp_path / "run", wall_seconds=1801.0)
    *before, last = (line["step"] for line in reports(run_dir))
    checkpoints(run_dir)[last].unlink()
    train(run_dir, ward_cohort)
    again = record(run_dir)
    assert (again["step"], again["stopped_by_budget"], again["status"]) == (before[-1], True, "finished")
    assert [line["step"] for line in reports(run_dir)] == before
    assert list(checkpoints(run_dir)) == before[-1:]


@pytest.mark.parametrize(
    ("macro", "value", "parts"),
    [
        ("head", "deep", ["'deep'", "linear", "mlp"]),
        ("task", None, ["end_to_end.task", "None", "str"]),
        ("task", "mortality", ["'mortality'", "sepsis"]),
        ("rate", 0, ["rate", "0", "above 0"]),
        ("rate", "1e-5", ["end_to_end.rate", "'1e-5'", "float"]),
        ("protocol.patience", 0, ["patience", "0", "1 or more"]),
        ("protocol.batch_size", 10**6, ["1000000", "protocol.batch_size", "1 to "]),
        ("max_minutes", 0, ["max_minutes", "0", "above 0", "None"]),
        ("max_minutes", "long", ["train.max_minutes", "'long'", "float | None"]),
    ],
)
def test_bad_settings_are_refused_and_leave_no_traces(macro, value, parts, ward_cohort, tmp_path):
    with refused(*parts):
        train(tmp_path / "run", ward_cohort, **{macro: value})
    assert not (tmp_path / "run").exists()


@pytest.mark.parametrize(("split", "parts"), [("train", ["[0]"]), ("val", ["'val'"])])
def test_labels_that_nothing_can_be_learned_from(split, parts, ward_cohort, tmp_path):
    path = pathlib.Path(shutil.copy(ward_cohort, tmp_path / "cohort.h5"))
    with h5py.File(path, "r+") as file:
        file[f"labels/{split}"][:] = 0 if split == "train" else np.nan
    with refused(*parts):
        train(tmp_path / "run", path)


def test_bin_evaluate_scores_the_run_or_shows_why_not(finished, ward_cohort, python, tmp_path):
    run_dir = shutil.copytree(finished, tmp_path / "run")
    command = [python, str(ROOT / "bin/evaluate"), f"--run_dir={run_dir}"]
    code, out, err = finish(start([*command, "--head=linear"], tmp_path))
    assert (code, out, err[:7]) == (1, "", "error: ")
    assert [part for part in (str(run_dir), "End-to-End", "linear", "mlp") if part not in err] == []
    code, out, err = finish(start([*command, "--write_psv=psv"], tmp_path))
    assert code == 0, err
    result = json.loads((run_dir / "evaluations" / "sepsis-mlp.json").read_text())
    assert f"sepsis-mlp on test split, best epoch {record(run_dir)['best_epoch']} of " in out
    low, high = result["intervals"]["auroc"]
    assert f"  auroc       {100 * result['metrics']['auroc']:8.2f}   [{100 * low:.2f}, {100 * high:.2f}]\n" in out
    assert "stopped by budget" not in out
    assert len(list((tmp_path / "psv").glob("*.psv"))) == len(Cohort(ward_cohort)["test"].stay_names)
