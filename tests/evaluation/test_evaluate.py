"""Evaluating runs: what is written and that it is true, and that nothing leaks from the test split."""

import functools
import json
import pathlib
import shutil
from collections.abc import Callable

import h5py
import numpy as np
import pyarrow.parquet
import pytest
import tensorflow as tf
from sklearn.metrics import average_precision_score, cohen_kappa_score, roc_auc_score

from ncl_tf import runs
from ncl_tf.data.cohort import Cohort
from ncl_tf.data.windows import Windows
from ncl_tf.errors import InputError
from ncl_tf.evaluation import evaluate as evaluation
from ncl_tf.evaluation.evaluate import load_run
from ncl_tf.evaluation.settings import EvaluationSettings
from ncl_tf.serving.export import export_classifier

evaluate = functools.partial(evaluation.evaluate, export=export_classifier)


@pytest.fixture(scope="module")
def train_end_to_end(trained: Callable[..., pathlib.Path]) -> Callable[..., pathlib.Path]:
    """Trains End-to-End, in a graph: its epochs are long enough for one to pay."""

    def train(folder: pathlib.Path, data: pathlib.Path) -> pathlib.Path:
        tf.config.run_functions_eagerly(False)
        try:
            return trained(folder, "physionet2019/end_to_end", data, head="linear", rate=1e-2)
        finally:
            tf.config.run_functions_eagerly(True)

    return train


@pytest.fixture(scope="module")
def end_to_end(
    train_end_to_end: Callable[..., pathlib.Path], ward_cohort: pathlib.Path, tmp_path_factory: pytest.TempPathFactory
) -> pathlib.Path:
    return train_end_to_end(tmp_path_factory.mktemp("runs") / "end_to_end", ward_cohort)


@pytest.fixture(scope="module")
def linear(ncl_w: pathlib.Path) -> dict:
    """A linear head on the frozen encoder of NCL(n_w)."""
    return evaluate(ncl_w, EvaluationSettings(head="linear"))


def predictions(run_dir: pathlib.Path, name: str) -> dict[str, np.ndarray]:
    table = pyarrow.parquet.read_table(run_dir / "evaluations" / f"{name}.parquet")
    return {column: table[column].to_numpy() for column in table.column_names}


def representations(model: pathlib.Path, data: pathlib.Path) -> np.ndarray:
    windows = Windows(Cohort(data)["val"], 48).gather(tf.range(50))["window"]
    loaded = tf.saved_model.load(model / "1")
    return loaded.embed(windows)["representations"].numpy()


def contents(folder: pathlib.Path) -> dict[pathlib.Path, bytes]:
    return {path: path.read_bytes() for path in folder.rglob("*") if path.is_file()}


# What is written


def test_a_frozen_evaluation_is_complete_and_true(ncl_w: pathlib.Path, linear: dict, ward_cohort: pathlib.Path) -> None:
    assert linear["name"] == "sepsis-linear"
    written = json.loads((ncl_w / "evaluations" / "sepsis-linear.json").read_text())
    assert written == json.loads(json.dumps(linear))
    data, record = Cohort(ward_cohort), runs.StoredRun(ncl_w)
    assert written["run"] == {key: record.record[key] for key in written["run"]}
    assert written["run"]["cohort_checksum"] == data.checksum
    assert written["config"]["alpha"] == "0.4"
    assert written["protocol"]["rates"]["linear"] == 1e-2
    assert written["stopped_by_budget"] is False
    losses = [epoch["val_loss"] for epoch in written["curve"]]
    assert written["best_epoch"] == 1 + int(np.argmin(losses))
    found, labels = predictions(ncl_w, "sepsis-linear"), data["test"].labels[:, 0]
    np.testing.assert_array_equal(found["label"], labels)
    np.testing.assert_array_equal(found["stay"], np.repeat(data["test"].stay_names, data["test"].lengths))
    np.testing.assert_array_equal(found["hour"], data["test"].hour)
    assert written["metrics"]["auroc"] == pytest.approx(roc_auc_score(labels, found["probability_1"]))
    assert written["metrics"]["auprc"] == pytest.approx(average_precision_score(labels, found["probability_1"]))
    classifier = tf.saved_model.load(ncl_w / "evaluations" / "sepsis-linear" / "classifier" / "1")
    windows = Windows(data["test"], 48).gather(tf.range(60))["window"]
    probabilities = classifier.predict(windows)["probabilities"]
    np.testing.assert_allclose(probabilities[:, 1], found["probability_1"][:60], atol=1e-5)


def test_frozen_means_frozen_and_fine_tuning_trains_the_encoder_as_long_as_it_may(
    ncl_w: pathlib.Path, linear: dict, ward_cohort: pathlib.Path
) -> None:
    before = contents(ncl_w / "checkpoints") | contents(ncl_w / "encoder")
    cap = ("protocol.max_minutes = 1e-6",)
    tuned = evaluate(ncl_w, EvaluationSettings(head="linear", fine_tune=True), gin_params=cap)
    assert (tuned["stopped_by_budget"], tuned["best_epoch"], len(tuned["curve"])) == (True, 1, 1)
    assert np.isfinite(list(tuned["curve"][0].values())).all()
    raw = evaluate(ncl_w, EvaluationSettings(head="linear", features="last_hour", split="val"), gin_params=cap)
    assert (raw["stopped_by_budget"], len(raw["curve"])) == (False, 3)  # only fine-tuning has a cap
    assert contents(ncl_w / "checkpoints") | contents(ncl_w / "encoder") == before
    models = [ncl_w / "evaluations" / f"sepsis-linear{kind}" / "classifier" for kind in ("", "-fine_tuned")]
    own, frozen, fine_tuned = (representations(model, ward_cohort) for model in (ncl_w / "encoder", *models))
    np.testing.assert_allclose(frozen, own, atol=1e-6)
    assert np.abs(fine_tuned - own).max() > 1e-3


@pytest.mark.parametrize("features", ["last_hour", "window"])
def test_raw_features_have_no_classifier_on_an_encoder(ncl_w: pathlib.Path, features: str) -> None:
    result = evaluate(ncl_w, EvaluationSettings(head="linear", features=features))
    assert result["name"] == f"sepsis-linear-{features}"
    assert not (ncl_w / "evaluations" / result["name"]).exists()


def test_limited_labels_change_what_is_learnt(ncl_w: pathlib.Path) -> None:
    asked = [EvaluationSettings(head="linear", features="last_hour", labels=0.5, label_seed=seed) for seed in (1, 2)]
    results = [evaluate(ncl_w, settings) for settings in asked]
    names = [f"sepsis-linear-last_hour-labels_0.5_{seed}" for seed in (1, 2)]
    assert [result["name"] for result in results] == names
    assert results[0]["curve"] != results[1]["curve"]
    again = evaluate(ncl_w, asked[0], overwrite=True)
    assert again["curve"] == results[0]["curve"]


def test_an_autoencoder_that_forecasts_is_evaluated_like_others(
    trained: Callable[..., pathlib.Path], ward_cohort: pathlib.Path, tmp_path: pathlib.Path
) -> None:
    """It is trained on windows of 96 hours, and evaluated on those of 48."""
    run_dir = trained(tmp_path / "run", "physionet2019/seq2seq_ae_forecast", ward_cohort, steps=1)
    result = evaluate(run_dir, EvaluationSettings(head="linear"))
    assert 0 <= result["metrics"]["auroc"] <= 1
    classifier = run_dir / "evaluations" / "sepsis-linear" / "classifier"
    own = representations(run_dir / "encoder", ward_cohort)
    np.testing.assert_allclose(representations(classifier, ward_cohort), own, atol=1e-5)


def test_every_task_of_the_cohort_from_one_encoder(
    trained: Callable[..., pathlib.Path], mimic_ward_cohort: pathlib.Path, tmp_path: pathlib.Path
) -> None:
    """Trained with the labels of one task, evaluated on the other; hours without a label are predicted, too."""
    run_dir = trained(tmp_path / "run", "mimic3_benchmark/ncl_y_decompensation", mimic_ward_cohort, steps=1)
    result = evaluate(run_dir, EvaluationSettings("length_of_stay", "linear"))
    data = Cohort(mimic_ward_cohort)["test"]
    found = predictions(run_dir, "length_of_stay-linear")
    assert len(found["stay"]) == len(data.data)
    labelled = data.classes[:, 1] >= 0
    assert np.isnan(found["label"].astype(float)).sum() == np.sum(~labelled) > 0
    likeliest = np.stack([found[f"probability_{k}"] for k in range(10)]).argmax(0)
    kappa = cohen_kappa_score(data.classes[labelled, 1], likeliest[labelled], weights="linear", labels=range(10))
    assert result["metrics"]["kappa"] == pytest.approx(kappa)
    with pytest.raises(InputError, match="binary.*'length_of_stay' with 10 classes"):
        evaluate(run_dir, EvaluationSettings("length_of_stay", "mlp"), psv=tmp_path / "psv")
    assert not (tmp_path / "psv").exists()


# End-to-End


def test_end_to_end_is_scored_as_it_is(end_to_end: pathlib.Path, ward_cohort: pathlib.Path) -> None:
    before = contents(end_to_end)
    result = evaluate(end_to_end, EvaluationSettings())
    record, data = runs.StoredRun(end_to_end), Cohort(ward_cohort)
    assert result["name"] == "sepsis-linear"
    assert result["best_epoch"] == record.record["best_epoch"]
    assert [epoch["val_loss"] for epoch in result["curve"]] == [line["val_loss"] for line in record.reports()]
    assert {path: path.read_bytes() for path in before} == before
    _, _, model = load_run(end_to_end, None, ())
    expected = model(Windows(data["test"], 48).gather(tf.range(60))["window"])
    np.testing.assert_allclose(
        predictions(end_to_end, "sepsis-linear")["probability_1"][:60], expected[:, 1], atol=1e-5
    )
    classifier = end_to_end / "evaluations" / "sepsis-linear" / "classifier"
    own = representations(end_to_end / "encoder", ward_cohort)
    np.testing.assert_allclose(representations(classifier, ward_cohort), own, atol=1e-6)


@pytest.mark.parametrize(
    ("asked", "message"),
    [
        ({"head": "mlp"}, "--head .* linear, got mlp"),
        ({"task": "mortality"}, "--task .* sepsis, got mortality"),
        ({"fine_tune": True}, "--fine_tune .* False, got True"),
        ({"labels": 0.5}, "--labels .* 1.0, got 0.5"),
        ({"features": "last_hour"}, "--features .* representation, got last_hour"),
    ],
)
def test_nothing_else_can_be_asked_of_end_to_end(end_to_end: pathlib.Path, asked: dict, message: str) -> None:
    with pytest.raises(InputError, match=f"{end_to_end}: End-to-End .*{message}"):
        evaluate(end_to_end, EvaluationSettings(**asked))


def test_bindings_of_the_protocol_are_refused_for_end_to_end(end_to_end: pathlib.Path) -> None:
    with pytest.raises(InputError, match="End-to-End .*'protocol.patience = 3'"):
        evaluate(end_to_end, EvaluationSettings(), gin_params=("protocol.patience = 3",))


# The test split


def test_nothing_leaks_from_the_test_split(
    ncl_w: pathlib.Path,
    linear: dict,
    end_to_end: pathlib.Path,
    train_end_to_end: Callable[..., pathlib.Path],
    adopted: Callable[..., pathlib.Path],
    ward_cohort: pathlib.Path,
    tmp_path: pathlib.Path,
) -> None:
    """With other test inputs and labels, the same weights and epochs are found; only what is reported differs."""
    other = pathlib.Path(shutil.copy(ward_cohort, tmp_path / "other.h5"))
    random = np.random.default_rng(0)
    with h5py.File(other, "r+") as file:
        for name in ("data/test", "labels/test"):
            file[name][:] = random.permutation(file[name][:])
    twins = adopted(ncl_w, other, tmp_path / "ncl_w"), train_end_to_end(tmp_path / "end_to_end", other)
    for run_dir, twin in zip((ncl_w, end_to_end), twins, strict=True):
        first = linear if run_dir == ncl_w else evaluate(run_dir, EvaluationSettings(), overwrite=True)
        second = evaluate(twin, EvaluationSettings(head="linear"), cohort=str(other))
        assert (first["best_epoch"], first["curve"]) == (second["best_epoch"], second["curve"])
        assert first["metrics"]["auroc"] != second["metrics"]["auroc"]
        classifiers = [folder / "evaluations" / "sepsis-linear" / "classifier" for folder in (run_dir, twin)]
        weights = [[np.array(value) for value in tf.saved_model.load(path / "1").variables] for path in classifiers]
        assert len(weights[0]) == len(weights[1]) > 0
        for one, same in zip(*weights, strict=True):
            np.testing.assert_array_equal(one, same)


# The challenge's form


def test_psv_files_carry_every_hour_of_every_test_stay(
    end_to_end: pathlib.Path, ward_cohort: pathlib.Path, tmp_path: pathlib.Path
) -> None:
    evaluate(end_to_end, EvaluationSettings(), overwrite=True, psv=tmp_path / "deep" / "psv")
    data = Cohort(ward_cohort)["test"]
    files = {path.name: path.read_text().splitlines() for path in (tmp_path / "deep" / "psv").iterdir()}
    assert files.keys() == {f"{stay}.psv" for stay in data.stay_names}
    found = predictions(end_to_end, "sepsis-linear")
    for stay, hours in zip(data.stay_names, data.lengths, strict=True):
        header, *rows = files[f"{stay}.psv"]
        assert header == "PredictedProbability|PredictedLabel"
        assert len(rows) == hours
        probabilities, labels = np.array([row.split("|") for row in rows], float).T
        assert ((probabilities >= 0) & (probabilities <= 1)).all()
        np.testing.assert_allclose(probabilities, found["probability_1"][found["stay"] == stay], rtol=1e-5)
        np.testing.assert_array_equal(labels, probabilities > 0.5)
    assert [path.name for path in (tmp_path / "deep").iterdir()] == ["psv"]  # nothing partial stays


def test_psv_files_never_mix_with_others(end_to_end: pathlib.Path, tmp_path: pathlib.Path) -> None:
    (tmp_path / "psv").mkdir()
    (tmp_path / "psv" / "p000001.psv").write_text("mine")
    for folder in (tmp_path / "psv", tmp_path / "psv" / "p000001.psv"):
        with pytest.raises(InputError, match="new or empty folder for --write_psv"):
            evaluate(end_to_end, EvaluationSettings(), overwrite=True, psv=folder)
    assert (tmp_path / "psv" / "p000001.psv").read_text() == "mine"
