"""Evaluating runs: what is written and that it is true, and that nothing leaks from the test split."""

import collections
import datetime
import json
import pathlib
import shutil

import h5py
import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet
import pytest
import tensorflow as tf
from sklearn.metrics import average_precision_score, cohen_kappa_score, roc_auc_score

from meds_files import time_of_hour, write_labels, write_ward_as_meds
from ncl_tf.data.cohort import Cohort, write_cohort
from ncl_tf.data.sources.meds import read_meds
from ncl_tf.data.sources.meds_schema import read_meds_schema
from ncl_tf.data.windows import Windows
from ncl_tf.evaluation.subject import load_run
from refusals import refused
from tiny import evaluate
from trainings import contents, record, reports

LINEAR = pathlib.Path("evaluations", "sepsis-linear", "classifier")


@pytest.fixture(scope="module")
def train_end_to_end(trained):
    """Train End-to-End, in a graph: its epochs are long enough for one to pay."""

    def train(cohort: pathlib.Path) -> pathlib.Path:
        tf.config.run_functions_eagerly(False)
        run_dir = trained("physionet2019/end_to_end", cohort, head="linear", rate=1e-2)
        tf.config.run_functions_eagerly(True)
        return run_dir

    return train


@pytest.fixture(scope="module")
def end_to_end(train_end_to_end, ward_cohort):
    return train_end_to_end(ward_cohort)


@pytest.fixture(scope="module")
def linear(ncl_w):
    """A linear head on the frozen encoder of NCL(n_w)."""
    return evaluate(ncl_w, head="linear")


def predictions(run_dir: pathlib.Path, name: str) -> dict[str, np.ndarray]:
    table = pyarrow.parquet.read_table(run_dir / "evaluations" / f"{name}.parquet")
    return {column: table[column].to_numpy() for column in table.column_names}


def representations(model: pathlib.Path, cohort: pathlib.Path) -> np.ndarray:
    windows = Windows(Cohort(cohort)["val"], 48).gather(tf.range(50))["window"]
    loaded = tf.saved_model.load(model / "1")
    return loaded.embed(windows)["representations"].numpy()


def test_a_frozen_evaluation_is_complete_and_true(ncl_w, linear, ward_cohort):
    assert linear["name"] == "sepsis-linear"
    written = json.loads((ncl_w / "evaluations" / "sepsis-linear.json").read_text())
    assert written == json.loads(json.dumps(linear))
    data = Cohort(ward_cohort)
    assert written["run"].items() <= record(ncl_w).items()
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
    metrics, (low, high) = written["metrics"], written["intervals"]["auroc"]
    assert low <= metrics["auroc"] <= high
    assert metrics["auroc"] == pytest.approx(roc_auc_score(labels, found["probability_1"]))
    assert metrics["auprc"] == pytest.approx(average_precision_score(labels, found["probability_1"]))
    calibrator, x = written["calibration"]["calibrator"], np.log(found["probability_1"] / found["probability_0"])
    if calibrator["kind"] == "logistic":
        risks = 1 / (1 + np.exp(-calibrator["slope"] * x - calibrator["intercept"]))
    else:
        risks = np.interp(x, calibrator["log_odds"], calibrator["risks"])
    np.testing.assert_allclose(found["risk"], risks, rtol=1e-3)
    assert written["calibration"]["after"]["brier"] == pytest.approx(np.mean((risks - labels) ** 2), rel=1e-3)
    assert written["calibration"]["before"]["brier"] == pytest.approx(metrics["brier"])
    windows = Windows(data["test"], 48).gather(tf.range(60))["window"]
    classifier = tf.saved_model.load(ncl_w / LINEAR / "1")
    probabilities = classifier.predict(windows)["probabilities"]
    np.testing.assert_allclose(probabilities[:, 1], found["probability_1"][:60], atol=1e-5)


def test_events_and_groups_are_those_of_the_written_predictions(ncl_w, linear, ward):
    found, alarms, detected, positive, groups = predictions(ncl_w, "sepsis-linear"), 0, 0, 0, []
    threshold = linear["alarm"]["threshold"]
    for name in dict.fromkeys(found["stay"]):
        scores, labels = (found[column][found["stay"] == name] for column in ("probability_1", "label"))
        first = int(np.argmax(labels == 1)) if 1 in labels else 10**6
        raised = []
        for hour, score in enumerate(scores[: first + 6]):  # labels turn positive 6 hours before the onset
            if score > threshold and not (raised and hour - raised[-1] <= 8):
                raised.append(hour)
        alarms += len(raised)
        positive += 1 in labels
        detected += any(0 < first + 6 - hour <= 12 for hour in raised)
        groups.append(("male", "female")[int(pd.read_csv(ward / f"{name}.psv", sep="|")["Gender"][0] == 0)])
    counted = {name: linear["events"][name] for name in ("events", "detected", "alarms")}
    assert counted == {"events": positive, "detected": detected, "alarms": alarms}
    assert linear["subgroups"]["all"]["positive_stays"] == positive > 0
    by_gender = {one["group"]: one for one in linear["subgroups"]["groups"] if one["characteristic"] == "Gender"}
    assert {name: one["stays"] for name, one in by_gender.items()} == collections.Counter(groups)
    called = found["risk"] > linear["decision_curve"]["risk_threshold"][0]
    benefit = np.mean(called & (found["label"] == 1)) - np.mean(called & (found["label"] == 0)) * 0.001 / 0.999
    assert linear["decision_curve"]["net_benefit"][0] == pytest.approx(benefit, abs=1e-6)


def test_frozen_means_frozen_and_fine_tuning_trains_the_encoder_as_long_as_it_may(ncl_w, linear, ward_cohort):
    before = contents(ncl_w / "checkpoints") | contents(ncl_w / "encoder")
    cap = ("protocol.max_minutes = 1e-6",)
    tuned = evaluate(ncl_w, head="linear", fine_tune=True, gin_params=cap)
    assert (tuned["stopped_by_budget"], tuned["best_epoch"], len(tuned["curve"])) == (True, 1, 1)
    assert np.isfinite(list(tuned["curve"][0].values())).all()
    raw = evaluate(ncl_w, head="linear", features="last_hour", split="val", gin_params=cap)
    assert (raw["stopped_by_budget"], len(raw["curve"])) == (False, 3)  # only fine-tuning has a cap
    assert contents(ncl_w / "checkpoints") | contents(ncl_w / "encoder") == before
    models = ("encoder", LINEAR, "evaluations/sepsis-linear-fine_tuned/classifier")
    own, frozen, fine_tuned = (representations(ncl_w / model, ward_cohort) for model in models)
    np.testing.assert_allclose(frozen, own, atol=1e-6)
    assert np.abs(fine_tuned - own).max() > 1e-3


@pytest.mark.parametrize("features", ["last_hour", "window"])
def test_raw_features_have_no_classifier_on_an_encoder(ncl_w, features):
    result = evaluate(ncl_w, head="linear", features=features)
    assert result["name"] == f"sepsis-linear-{features}"
    assert not (ncl_w / "evaluations" / result["name"]).exists()


def test_limited_labels_change_what_is_learnt(ncl_w):
    half = {"head": "linear", "features": "last_hour", "labels": 0.5}
    first, second = (evaluate(ncl_w, **half, label_seed=seed) for seed in (1, 2))
    assert [first["name"], second["name"]] == [f"sepsis-linear-last_hour-labels_0.5_{seed}" for seed in (1, 2)]
    assert evaluate(ncl_w, **half, label_seed=1, overwrite=True)["curve"] == first["curve"] != second["curve"]


def test_an_autoencoder_that_forecasts_is_evaluated_like_others(trained, ward_cohort):
    """It is trained on windows of 96 hours, and evaluated on those of 48."""
    run_dir = trained("physionet2019/seq2seq_ae_forecast", ward_cohort, steps=1)
    result = evaluate(run_dir, head="linear")
    assert 0 <= result["metrics"]["auroc"] <= 1
    own = representations(run_dir / "encoder", ward_cohort)
    np.testing.assert_allclose(representations(run_dir / LINEAR, ward_cohort), own, atol=1e-5)


def test_every_task_of_the_cohort_from_one_encoder(trained, mimic_ward_cohort, tmp_path):
    """Trained with the labels of one task, evaluated on the other; hours without a label are predicted, too."""
    run_dir = trained("mimic3_benchmark/ncl_y_decompensation", mimic_ward_cohort, steps=1)
    result = evaluate(run_dir, task="length_of_stay", head="linear")
    data = Cohort(mimic_ward_cohort)["test"]
    found = predictions(run_dir, "length_of_stay-linear")
    assert len(found["stay"]) == len(data.data)
    labelled = data.classes[:, 1] >= 0
    assert np.isnan(found["label"].astype(float)).sum() == np.sum(~labelled) > 0
    likeliest = np.stack([found[f"probability_{k}"] for k in range(10)]).argmax(0)
    kappa = cohen_kappa_score(data.classes[labelled, 1], likeliest[labelled], weights="linear", labels=range(10))
    assert result["metrics"].keys() == {"kappa", "accuracy"}
    assert not {"calibration", "alarm", "events", "subgroups", "decision_curve"} & result.keys()
    assert "risk" not in found
    assert result["metrics"]["kappa"] == pytest.approx(kappa)
    with refused("binary & 'length_of_stay' with 10 classes"):
        evaluate(run_dir, task="length_of_stay", head="mlp", psv=tmp_path / "psv")
    assert not (tmp_path / "psv").exists()


def test_end_to_end_is_scored_as_it_is(end_to_end, ward_cohort):
    before = contents(end_to_end)
    result = evaluate(end_to_end, silence=0, alarms_per_day=2.0)  # but alarms are raised as asked
    alarm = {"aim": "alarms_per_day", "alarms_per_day": 2.0, "silence": 0, "horizon": 12, "lead": 6}
    assert alarm.items() <= result["alarm"].items()
    assert 1 < result["alarm"]["validation"]["alarms_per_day"] <= 2
    assert (result["name"], result["best_epoch"]) == ("sepsis-linear", record(end_to_end)["best_epoch"])
    assert [epoch["val_loss"] for epoch in result["curve"]] == [line["val_loss"] for line in reports(end_to_end)]
    assert contents(end_to_end).items() >= before.items()
    subject = load_run(end_to_end)
    expected = subject.model(Windows(subject.cohort["test"], 48).gather(tf.range(60))["window"])[:, 1]
    np.testing.assert_allclose(predictions(end_to_end, "sepsis-linear")["probability_1"][:60], expected, atol=1e-5)
    own = representations(end_to_end / "encoder", ward_cohort)
    np.testing.assert_allclose(representations(end_to_end / LINEAR, ward_cohort), own, atol=1e-6)


@pytest.mark.parametrize(
    ("asked", "named"),
    [
        ({"head": "mlp"}, "--head & linear, got mlp"),
        ({"task": "mortality"}, "--task & sepsis, got mortality"),
        ({"fine_tune": True}, "--fine_tune & False, got True"),
        ({"labels": 0.5}, "--labels & 1.0, got 0.5"),
        ({"features": "last_hour"}, "--features & representation, got last_hour"),
        ({"gin_params": ("protocol.patience = 3",)}, "'protocol.patience = 3'"),
    ],
)
def test_nothing_else_can_be_asked_of_end_to_end(end_to_end, asked, named):
    with refused(f"{end_to_end}: End-to-End ", named):
        evaluate(end_to_end, **asked)


def test_nothing_leaks_from_the_test_split(ncl_w, linear, end_to_end, train_end_to_end, adopted, ward_cohort, tmp_path):
    """With other test inputs and labels, the same weights, epochs, calibrator and alarms; only what is reported differs."""
    other = pathlib.Path(shutil.copy(ward_cohort, tmp_path / "other.h5"))
    random = np.random.default_rng(0)
    with h5py.File(other, "r+") as file:
        for name in ("data/test", "labels/test"):
            file[name][:] = random.permutation(file[name][:])
        file["data/test"][::3, Cohort(ward_cohort).static_columns :] *= 100
    twins = adopted(ncl_w, other, tmp_path / "ncl_w"), train_end_to_end(other)
    for run_dir, twin in zip((ncl_w, end_to_end), twins, strict=True):
        first = linear if run_dir == ncl_w else evaluate(run_dir, overwrite=True)
        second = evaluate(twin, head="linear", cohort=str(other))
        assert (first["best_epoch"], first["curve"]) == (second["best_epoch"], second["curve"])
        assert first["metrics"]["auroc"] != second["metrics"]["auroc"]
        assert first["alarm"] == second["alarm"]
        for name, value in first["calibration"].items():
            assert (value == second["calibration"][name]) == (name in ("calibrator", "fold_log_loss"))
        models = [tf.saved_model.load(folder / LINEAR / "1") for folder in (run_dir, twin)]
        weights = [[np.array(value) for value in model.variables] for model in models]
        assert len(weights[0]) == len(weights[1]) > 0
        for one, same in zip(*weights, strict=True):
            np.testing.assert_array_equal(one, same)


def test_psv_files_carry_every_hour_of_every_test_stay(end_to_end, ward_cohort, tmp_path):
    psv, data = tmp_path / "deep" / "psv", Cohort(ward_cohort)["test"]
    evaluate(end_to_end, overwrite=True, psv=psv)
    files = {path.name: path.read_text().splitlines() for path in psv.iterdir()}
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


def test_psv_files_never_mix_with_others(end_to_end, tmp_path):
    (tmp_path / "psv").mkdir()
    (tmp_path / "psv" / "p000001.psv").write_text("mine")
    for folder in (tmp_path / "psv", tmp_path / "psv" / "p000001.psv"):
        with refused("new or empty folder for --write_psv"):
            evaluate(end_to_end, overwrite=True, psv=folder)
    assert (tmp_path / "psv" / "p000001.psv").read_text() == "mine"


MEDS = [("subject_id", pa.int64()), ("prediction_time", pa.timestamp("us")), ("boolean_value", pa.bool_())]
MEDS += [("predicted_boolean_probability", pa.float32())]  # as meds-evaluation declares it


def test_meds_predictions_are_those_of_the_label_files(end_to_end, adopted, ward, ward_cohort, tmp_path):
    """Of every labelled hour, at the label's own time, which may lie between two hours; a fifth has no label."""
    write_ward_as_meds(ward, ward_cohort, tmp_path)
    path, late = tmp_path / "labels/sepsis.parquet", datetime.timedelta(minutes=20)
    labels = pa.parquet.read_table(path, columns=["subject_id", "prediction_time", "boolean_value"]).to_pylist()
    ends = {row["subject_id"]: row["prediction_time"] for row in labels}  # 20 minutes later, the stay is over
    labels = [
        row | {"prediction_time": row["prediction_time"] + late * (i % 2)} for i, row in enumerate(labels) if i % 5
    ]
    labels = [row for row in labels if row["prediction_time"] <= ends[row["subject_id"]]]
    write_labels([tuple(row.values()) for row in labels], path)
    schema = read_meds_schema(tmp_path / "schema.toml")
    stays, split, checksum, _ = read_meds(tmp_path, schema, tmp_path / "labels")
    write_cohort(tmp_path / "meds.h5", schema.dataset, stays, split, checksum)

    run_dir, written = adopted(end_to_end, tmp_path / "meds.h5", tmp_path / "run"), tmp_path / "deep" / "meds.parquet"
    evaluate(run_dir, str(tmp_path / "meds.h5"), meds=written)
    table = pa.parquet.read_table(written)
    assert [(field.name, field.type) for field in table.schema] == MEDS
    test = set(Cohort(tmp_path / "meds.h5")["test"].stay_names)
    rows = table.to_pylist()
    without = [{key: row[key] for key in labels[0]} for row in rows]
    assert without == [row for row in labels if str(row["subject_id"]) in test]
    found = predictions(run_dir, "sepsis-linear")
    for stay in test:
        begin = time_of_hour(int((ward / f"p{int(stay):06}.psv").read_text().split("\n")[1].split("|")[-2]))
        probability = found["probability_1"][found["stay"] == stay]
        for row in (row for row in rows if str(row["subject_id"]) == stay):
            hour = (row["prediction_time"] - begin) // datetime.timedelta(hours=1)
            assert row["predicted_boolean_probability"] == probability[hour]

    with refused("meds.parquet: exists already"):
        evaluate(run_dir, str(tmp_path / "meds.h5"), overwrite=True, meds=written)
    with refused("--write_meds & subjects and times & bin/prepare meds"):
        evaluate(end_to_end, overwrite=True, meds=tmp_path / "none.parquet")
