"""Evaluating a run on another hospital's stays: against its exported classifier on their raw files, and what is refused."""

import dataclasses
import pathlib

import numpy as np
import pandas as pd
import pytest
from sklearn.metrics import average_precision_score, roc_auc_score

import ncl_tf
from ncl_tf.data import PHYSIONET2019, Channel, Cohort, Task, write_cohort
from ncl_tf.data.prepared_again import EXTERNAL, WithExternal
from ncl_tf.data.raw_file import write_raw_file
from ncl_tf.data.simulator.ward import write_ward
from ncl_tf.data.sources import physionet2019
from ncl_tf.data.splits import random_split
from ncl_tf.evaluation import evaluate as evaluation
from ncl_tf.evaluation.settings import EvaluationSettings
from ncl_tf.evaluation.subject import cohort_alone
from ncl_tf.evaluation.trees import TreeInputs
from refusals import refused
from tiny import evaluate
from trainings import contents


@pytest.fixture(scope="module")
def elsewhere(tmp_path_factory) -> pathlib.Path:
    """The files of a ward with other patients."""
    folder = tmp_path_factory.mktemp("elsewhere") / "ward"
    write_ward(48, seed=7, output=folder)
    return folder


def write(path: pathlib.Path, folder: pathlib.Path, checksum: str | None = None, **changes) -> pathlib.Path:
    """Write a ward's cohort, with its raw rows; its first channel may be another, and its labels another task's."""
    stays, found = physionet2019.read_stays([folder])
    dataset = dataclasses.replace(PHYSIONET2019, **changes)
    split = random_split(stays.ever_positive(), seed=0)
    stays.labels = np.repeat(stays.labels, len(dataset.tasks), axis=1)
    stays.labels[:, :-1] = np.nan  # of all tasks, the last one is labelled
    write_cohort(path, dataset, stays, split, checksum or found)
    write_raw_file(path, dataset, stays, split)
    return path


@pytest.fixture(scope="module")
def other_cohort(elsewhere) -> pathlib.Path:
    """Their cohort file, whose sepsis is the second of two tasks."""
    return write(elsewhere.with_name("other.h5"), elsewhere, tasks=(Task("shock"), Task("sepsis")))


def test_another_hospitals_stays_are_scored_as_the_exported_classifier_scores_their_raw_files(
    ncl_w, other_cohort, elsewhere
):
    own = evaluate(ncl_w, head="linear")
    before = contents(ncl_w / "evaluations")
    result = evaluate(ncl_w, head="linear", external=other_cohort)
    assert result["name"] == "sepsis-linear-external_other"
    assert contents(ncl_w / "evaluations").items() >= before.items()
    assert not (ncl_w / "evaluations" / result["name"]).exists()  # the classifier is that of sepsis-linear
    for name in ("curve", "best_epoch", "alarm"):  # fitted to the run's own cohort alone
        assert result[name] == own[name]
    assert result["calibration"]["calibrator"] == own["calibration"]["calibrator"]
    assert result["metrics"] != own["metrics"] and result["run"] == own["run"]

    files = {path.stem: pd.read_csv(path, sep="|") for path in elsewhere.glob("*.psv")}
    found = pd.read_parquet(ncl_w / "evaluations" / f"{result['name']}.parquet")
    data = Cohort(other_cohort)
    assert set(found["stay"]) == files.keys() and len(found) == sum(len(stay) for stay in files.values())
    expected = {"stays": 48, "hours": len(found), "dataset": "simulated physionet2019"}
    expected |= {"cohort_checksum": data.checksum, "source_checksum": data.source_checksum}
    assert result["external"] == expected
    assert (result["settings"]["external"], result["settings"]["split"]) == ("other", "all")
    model = ncl_tf.load(ncl_w / "evaluations/sepsis-linear/classifier")
    for number, (stay, rows) in enumerate(found.groupby("stay")):
        np.testing.assert_array_equal(rows["label"], files[stay]["SepsisLabel"])
        if number % 6:  # each length of a stay takes a second
            continue
        np.testing.assert_allclose(rows["probability_1"], model.score(files[stay])[:, 1], atol=1e-5)
    scores = found["label"], found["probability_1"]
    assert result["metrics"]["auroc"] == pytest.approx(roc_auc_score(*scores))
    assert result["metrics"]["auprc"] == pytest.approx(average_precision_score(*scores))
    assert result["subgroups"]["all"]["stays"] == 48
    with refused("sepsis-linear-external_other.json: exists already"):
        evaluate(ncl_w, head="linear", external=other_cohort)


def test_one_split_of_another_hospital(ncl_w, other_cohort):
    result = evaluate(ncl_w, head="linear", features="last_hour", external=other_cohort, split="test")
    assert result["name"] == "sepsis-linear-last_hour-external_other-test"
    found = pd.read_parquet(ncl_w / "evaluations" / f"{result['name']}.parquet")
    names = Cohort(other_cohort)["test"].stay_names.tolist()
    assert list(dict.fromkeys(found["stay"])) == names and result["external"]["stays"] == len(names)


def test_trees_without_a_run_take_the_raw_rows_of_another_hospital(raw_ward_cohort, other_cohort, elsewhere, tmp_path):
    """Their last known values, by hand from the files; the trees' own cohort has observation columns, the other none."""
    subject = cohort_alone(raw_ward_cohort, tmp_path, gin_params=("trees.max_iterations = 5",))
    settings = EvaluationSettings(head="trees", features="last_hour", external="other", split="all")
    result = evaluation.evaluate(subject, settings, external=other_cohort)
    assert (result["name"], result["external"]["stays"]) == ("sepsis-trees-last_hour-external_other", 48)
    held = WithExternal(subject.cohort, other_cohort, "sepsis")
    found = TreeInputs(held, "last_hour", None)(EXTERNAL)
    files = [pd.read_csv(elsewhere / f"{stay}.psv", sep="|").ffill() for stay in held[EXTERNAL].stay_names]
    names = [channel.name for channel in PHYSIONET2019.channels]
    for name in ("Age", "ICULOS", "Lactate"):  # channels without a plausible range
        expected = np.concatenate([stay[name] for stay in files])
        np.testing.assert_array_equal(found[:, names.index(name)], np.float32(expected))
    assert held[EXTERNAL].data.shape == (len(found), len(held.columns)) == (len(found), 40)


def test_what_was_scored_in_words():
    assert EvaluationSettings("aki", "mlp", split="val").stays == "val split"
    assert EvaluationSettings("aki", "mlp", split="all", external="eicu").stays == "all stays of eicu"
    assert EvaluationSettings("aki", "mlp", split="test", external="eicu").stays == "test split of eicu"
    with refused("split must be one of train, val, test, got 'all'"):
        EvaluationSettings(split="all")


CHANNELS = PHYSIONET2019.channels
BINS = Task("sepsis", kind="bins", edges=(0.5,))


@pytest.mark.parametrize(
    ("changes", "named"),
    [
        ({"channels": (*CHANNELS[:-1], Channel("ICP"))}, "raw channels & missing here: Platelets; only here: ICP"),
        ({"channels": (*CHANNELS[:6], Channel("HR", unit="Hz"), *CHANNELS[7:])}, "'HR': must be in beats/min, got Hz"),
        ({"tasks": (BINS,)}, "task 'sepsis' must be binary, got bins with edges 0.5"),
        ({"tasks": (Task("shock"),)}, "other.h5: task must be one of shock, got 'sepsis'"),
    ],
)
def test_other_cohorts_that_mean_something_else(ncl_w, elsewhere, tmp_path, changes, named):
    path, before = write(tmp_path / "other.h5", elsewhere, **changes), contents(ncl_w)
    with refused(named):
        evaluate(ncl_w, head="mlp", external=path)
    assert contents(ncl_w) == before


def test_stays_that_the_model_has_seen_are_no_other_hospital(ncl_w, ward_cohort, ward, elsewhere, tmp_path):
    again = write(tmp_path / "again.h5", ward)  # other bytes, as it has another split, but the same patients
    bare = write(tmp_path / "bare.h5", elsewhere)
    bare.with_name("bare.raw.h5").unlink()
    for path, named in [
        (again, "again.h5: must hold other stays & the same source"),
        (bare, "bare.raw.h5: no such file & --keep_raw"),
        (tmp_path / "none.h5", "none.h5: no such file"),
    ]:
        with refused(named):
            evaluate(ncl_w, head="mlp", external=path)
