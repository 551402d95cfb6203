"""Gradient-boosted trees: those of scikit-learn on what the source's files hold, blind to the test split, the same every time."""

import json
import pathlib
import shutil

import h5py
import numpy as np
import pandas as pd
import pyarrow.parquet
import pytest
import threadpoolctl
from sklearn.ensemble import HistGradientBoostingClassifier
from sklearn.metrics import average_precision_score, cohen_kappa_score, roc_auc_score

from ncl_tf.data.cohort import Cohort
from ncl_tf.data.datasets import PHYSIONET2019
from ncl_tf.data.raw_features import RawFeatures
from ncl_tf.data.raw_file import RawFile, raw_path, write_raw_file
from ncl_tf.data.sources import physionet2019
from ncl_tf.data.splits import random_split
from ncl_tf.data.windows import Windows
from ncl_tf.evaluation.evaluate import evaluate
from ncl_tf.evaluation.heads import embedder
from ncl_tf.evaluation.settings import EvaluationSettings
from ncl_tf.evaluation.subject import cohort_alone, load_run
from ncl_tf.evaluation.trees import TreeInputs, fit_trees
from ncl_tf.training.protocol import TreeProtocol
from refusals import refused

FEW = ("trees.max_iterations = 25", "trees.leaves = 8")  # 25 are grown in two parts
PLAUSIBLE = {"HR": (10, 300), "O2Sat": (0, 100), "Temp": (30, 50), "SBP": (10, 300), "MAP": (10, 200), "DBP": (10, 200)}
PLAUSIBLE |= {"Resp": (0, 100), "EtCO2": (10, 100), "FiO2": (0, 100)}


def by_trees(cohort: pathlib.Path, output: pathlib.Path, features: str = "last_hour", **settings) -> dict:
    asked = EvaluationSettings(head="trees", features=features, **settings)
    return evaluate(cohort_alone(cohort, output, gin_params=FEW), asked)


@pytest.fixture(scope="module")
def last_hour(raw_ward_cohort, tmp_path_factory):
    """Trees on the last known values, evaluated on the test split, and the folder of the evaluation."""
    folder = tmp_path_factory.mktemp("trees")
    return by_trees(raw_ward_cohort, folder), folder


def split_of_files(ward: pathlib.Path, cohort: Cohort, split: str) -> tuple[np.ndarray, np.ndarray]:
    """Read last known plausible values and labels of a split from the source's files."""
    stays = []
    for name in cohort[split].stay_names:
        stay = pd.read_csv(ward / f"{name}.psv", sep="|").astype(np.float32).ffill()
        for column, (low, high) in PLAUSIBLE.items():
            stay[column] = stay[column].where(stay[column].between(low, high))
        stays.append(stay)
    table = pd.concat(stays)
    names = [channel.name for channel in cohort.preprocessor.dataset.channels]
    return table[names].to_numpy(), table["SepsisLabel"].to_numpy().astype(int)


def test_trees_on_last_known_values_are_those_of_scikit_learn(last_hour, raw_ward_cohort, ward):
    result, folder = last_hour
    cohort = Cohort(raw_ward_cohort)
    data = {split: split_of_files(ward, cohort, split) for split in ("train", "val", "test")}
    settings = {"learning_rate": 0.08, "max_leaf_nodes": 8, "early_stopping": False}
    share = data["train"][1].mean()
    weights = np.where(data["train"][1], 0.5 / share, 0.5 / (1 - share)).astype(np.float32)

    def fitted(iterations: int) -> HistGradientBoostingClassifier:
        return HistGradientBoostingClassifier(max_iter=iterations, **settings).fit(
            *data["train"], sample_weight=weights
        )

    stages = fitted(25).staged_predict_proba(data["val"][0])
    scores = [average_precision_score(data["val"][1], stage[:, 1]) for stage in stages]
    np.testing.assert_allclose([epoch["val_auprc"] for epoch in result["curve"]], scores, rtol=1e-6)
    assert result["best_epoch"] == 1 + int(np.argmax(scores)) < 25
    expected = fitted(result["best_epoch"]).predict_proba(data["test"][0])[:, 1]
    table = pyarrow.parquet.read_table(folder / "sepsis-trees-last_hour.parquet").to_pandas()
    np.testing.assert_allclose(table["probability_1"], expected, rtol=1e-5)
    np.testing.assert_array_equal(table["label"], data["test"][1])
    assert result["metrics"]["auroc"] == pytest.approx(roc_auc_score(data["test"][1], expected))
    assert result["metrics"]["auprc"] == pytest.approx(average_precision_score(data["test"][1], expected))


def test_what_is_written_names_all_that_led_to_it(last_hour, raw_ward_cohort):
    result, folder = last_hour
    name = "sepsis-trees-last_hour"
    assert sorted(path.name for path in folder.iterdir()) == [f"{name}.json", f"{name}.parquet"]  # and no classifier
    written = json.loads((folder / f"{name}.json").read_text())
    assert written == json.loads(json.dumps(result))
    assert written["protocol"] == {"max_iterations": 25, "rate": 0.08, "leaves": 8, "balanced": True}
    run = {"seed": 1111, "budget": None, "dataset": "physionet2019", "step": 0, "wall_seconds": 0.0}
    assert written["run"] == run | {"cohort_checksum": Cohort(raw_ward_cohort).checksum}
    assert (written["config"]["seed"], written["config"]["budget"]) == ("1111", "None")
    assert {"code_version", "versions", "machine", "started"} <= written.keys()
    assert written["wall_seconds"] > 0
    assert {
        "intervals",
        "reliability",
        "calibration",
        "alarm",
        "events",
        "subgroups",
        "decision_curve",
    } <= written.keys()


def test_nothing_of_the_test_split_reaches_them(last_hour, raw_ward_cohort, tmp_path):
    """With other test rows and labels: the same trees, their number, calibrator and alarm; only what is reported differs."""
    other = pathlib.Path(shutil.copy(raw_ward_cohort, tmp_path / "other.h5"))
    shutil.copy(raw_path(raw_ward_cohort), raw_path(other))
    random = np.random.default_rng(0)
    with h5py.File(other, "r+") as file:
        file["labels/test"][:] = random.permutation(file["labels/test"][:])
    with h5py.File(raw_path(other), "r+") as file:
        file["raw/test"][:] = random.permutation(file["raw/test"][:]) * np.float32(1.1)
        file.attrs["cohort_checksum"] = Cohort(other).checksum
    first, second = last_hour[0], by_trees(other, tmp_path / "test")
    assert (first["best_epoch"], first["curve"]) == (second["best_epoch"], second["curve"])
    assert first["alarm"] == second["alarm"]
    for name in ("calibrator", "fold_log_loss"):
        assert first["calibration"][name] == second["calibration"][name]
    assert first["metrics"]["auroc"] != second["metrics"]["auroc"]
    for path in (raw_ward_cohort, other):
        by_trees(path, tmp_path / path.stem, split="val")
    scored = [(tmp_path / path.stem / "sepsis-trees-last_hour-val.parquet") for path in (raw_ward_cohort, other)]
    assert scored[0].read_bytes() == scored[1].read_bytes()


def samples(hours: int, classes: int, seed: int) -> tuple[np.ndarray, np.ndarray]:
    random = np.random.default_rng(seed)
    features = random.normal(size=(hours, 6)).astype(np.float32)
    noisy = features[:, 0] + random.normal(size=hours)
    features[random.random(features.shape) < 0.3] = np.nan
    return features, np.digitize(noisy, np.linspace(-1, 1, classes - 1)).astype(np.int32)


def test_the_number_of_threads_does_not_matter():
    training, validation, found = samples(4000, 2, 0), samples(1000, 2, 1), []
    weights, protocol = np.float32([0.6, 4.0]), TreeProtocol(5, 0.1, 31, True)
    for threads in (1, 2):
        with threadpoolctl.threadpool_limits(threads):
            trees, fitted = fit_trees(training, validation, weights, protocol, seed=3)
            found.append((fitted.best_epoch, fitted.curve, trees(validation[0]).tobytes()))
    assert found[0] == found[1]


def test_bins_are_chosen_by_kappa_and_a_class_that_was_never_seen_has_no_probability():
    training, validation = samples(3000, 4, 0), samples(1000, 4, 1)
    there = training[1] != 2
    training = training[0][there], training[1][there]
    trees, fitted = fit_trees(training, validation, np.ones(4, np.float32), TreeProtocol(6, 0.1, 8, False), seed=3)
    probabilities = trees(validation[0])
    assert probabilities.shape == (1000, 4)
    np.testing.assert_allclose(probabilities.sum(1), 1, rtol=1e-5)
    assert not probabilities[:, 2].any()
    kappa = cohen_kappa_score(validation[1], probabilities.argmax(1), weights="linear")
    scores = [epoch["val_kappa"] for epoch in fitted.curve]
    assert fitted.best_epoch == 1 + int(np.argmax(scores))
    assert max(scores) == pytest.approx(kappa)


def test_progress_is_reported_while_trees_grow():
    seen = []
    fit_trees(
        samples(500, 2, 0),
        samples(500, 2, 1),
        np.ones(2, np.float32),
        TreeProtocol(45, 0.1, 4, True),
        0,
        lambda step, report: seen.append((step, report["epoch"])),
    )
    assert seen == [(20, 20), (40, 40), (45, 45)]


@pytest.mark.parametrize(
    ("features", "head", "named"),
    [
        ("representation", "trees", "without a run, got 'representation' & --run_dir"),
        ("representation+engineered", "trees", "got 'representation+engineered' & --run_dir"),
        ("representation", "mlp", "without a run, got 'representation' & --run_dir"),
    ],
)
def test_what_needs_an_encoder_is_refused_without_a_run(features, head, named, raw_ward_cohort, tmp_path):
    with refused(named):
        evaluate(cohort_alone(raw_ward_cohort, tmp_path / "out"), EvaluationSettings(head=head, features=features))
    assert not (tmp_path / "out").exists()


def test_a_linear_head_without_a_run_sees_the_last_known_values_alone(raw_ward_cohort, tmp_path):
    subject = cohort_alone(raw_ward_cohort, tmp_path, 7, ("protocol.max_epochs = 2", "protocol.linear_rate = 1e-2"))
    assert subject.cohort["train"].data.shape[1] == 40 < len(Cohort(raw_ward_cohort).columns)
    result = evaluate(subject, EvaluationSettings(head="linear", features="last_hour"))
    assert (tmp_path / "sepsis-linear-last_hour.json").exists()
    assert (result["run"]["seed"], result["protocol"]["balanced"], len(result["curve"])) == (7, True, 2)


def test_trees_on_representations_see_those_of_the_encoder_and_the_raw_rows(ncl_w, ward, ward_cohort, tmp_path):
    cohort = pathlib.Path(shutil.copy(ward_cohort, tmp_path / "copy.h5"))
    stays = physionet2019.read_stays([ward])[0]
    write_raw_file(cohort, PHYSIONET2019, stays, random_split(stays.ever_positive(), seed=0))
    subject = load_run(ncl_w, str(cohort), FEW)
    represent = embedder(subject.model.encoder)(Windows(Cohort(cohort)["test"], 48))
    raw = RawFeatures.of_cohort("engineered", Cohort(cohort))(RawFile(Cohort(cohort))["test"])
    for features, expected in (
        ("representation", represent),
        ("representation+engineered", np.hstack([represent, raw])),
    ):
        found = TreeInputs(subject.cohort, features, subject.model.encoder)("test")
        np.testing.assert_allclose(found, expected, atol=1e-6)
        result = evaluate(subject, EvaluationSettings(head="trees", features=features))
        assert result["name"] == "sepsis-trees" + f"-{features}" * (features != "representation")
        assert (ncl_w / "evaluations" / f"{result['name']}.parquet").exists()
        assert not (ncl_w / "evaluations" / result["name"]).exists()  # trees are not exported
        assert result["config"]["alpha"] == "0.4"
