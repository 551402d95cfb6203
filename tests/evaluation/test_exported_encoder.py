"""Evaluating an exported encoder on a cohort of one's own: channels by their names, and what its classifier then scores."""

import dataclasses
import json
import pathlib

import numpy as np
import pandas as pd
import pytest

import ncl_tf
from ncl_tf.data import PHYSIONET2019, Channel, Cohort, write_cohort
from ncl_tf.data.raw_file import write_raw_file
from ncl_tf.data.simulator.ward import write_ward
from ncl_tf.data.sources import physionet2019
from ncl_tf.data.splits import random_split
from ncl_tf.data.windows import every_window
from ncl_tf.evaluation import evaluate as evaluation
from ncl_tf.evaluation.settings import EvaluationSettings
from ncl_tf.evaluation.subject import exported
from ncl_tf.serving.export import export_classifier
from refusals import refused
from trainings import contents

LACKING, NEW = ("Platelets", "MAP", "Unit1"), Channel("ICP", unit="mmHg")
FEW = ("protocol.max_epochs = 2", "protocol.linear_rate = 0.01", "protocol.batch_size = 256")


def write(path: pathlib.Path, ward: pathlib.Path, shift: float = 0.0) -> pathlib.Path:
    """Write a ward's cohort without some channels, with a new one, the others in another order; with its raw rows."""
    stays, checksum = physionet2019.read_stays([ward])
    names = [channel.name for channel in PHYSIONET2019.channels]
    static, dynamic = list(PHYSIONET2019.channels[:5]), list(PHYSIONET2019.channels[5:])
    kept = [channel for channel in [*static[::-1], *dynamic[::-1]] if channel.name not in LACKING]
    values = stays.values[:, [names.index(channel.name) for channel in kept]]
    values = np.concatenate([values, values[:, -1:] + shift], axis=1)
    stays = dataclasses.replace(stays, values=np.asfortranarray(values))
    dataset = dataclasses.replace(PHYSIONET2019, name="my_icu", channels=(*kept, NEW))
    split = random_split(stays.ever_positive(), seed=3)
    write_cohort(path, dataset, stays, split, checksum)
    write_raw_file(path, dataset, stays, split)
    return path


@pytest.fixture(scope="module")
def elsewhere(tmp_path_factory) -> pathlib.Path:
    """The files of a ward with other patients than the encoder has seen."""
    folder = tmp_path_factory.mktemp("elsewhere") / "ward"
    write_ward(60, seed=7, output=folder)
    return folder


@pytest.fixture(scope="module")
def my_icu(elsewhere) -> pathlib.Path:
    """Their cohort file."""
    return write(elsewhere.with_name("my_icu.h5"), elsewhere)


def evaluate(encoder: pathlib.Path, cohort: pathlib.Path, output: pathlib.Path, gin_params=FEW, **settings) -> dict:
    subject = exported(str(encoder), cohort, output, gin_params=gin_params)
    return evaluation.evaluate(subject, EvaluationSettings(**settings), export=export_classifier)


def test_the_classifier_scores_raw_stays_as_evaluated(ncl_w, my_icu, elsewhere, tmp_path):
    """Its raw channels are those of the encoder; of the stays' files it needs nothing more."""
    encoder, before = ncl_w / "encoder", contents(ncl_w)
    result = evaluate(encoder, my_icu, tmp_path / "out", head="linear")
    assert contents(ncl_w) == before
    assert (result["name"], result["run"]["dataset"]) == ("sepsis-linear", "my_icu")
    assert result["run"]["cohort_checksum"] == Cohort(my_icu).checksum
    known = result["encoder"]
    assert sorted(known["missing"]) == sorted(LACKING) and known["unused"] == ["ICP"]
    card = json.loads((encoder / "model.json").read_text())
    assert known["trained_on"]["cohort_checksum"] == card["data"]["cohort_checksum"]
    model = ncl_tf.load(tmp_path / "out/sepsis-linear/classifier")
    assert model.card["inputs"]["values"] == [c.name for c in PHYSIONET2019.channels[5:]]
    assert model.preprocessor.mean.tolist() == card["preprocessor"]["mean"]
    found = pd.read_parquet(tmp_path / "out/sepsis-linear.parquet")
    assert set(found["stay"]) == set(Cohort(my_icu)["test"].stay_names)
    assert np.ptp(found["probability_1"]) > 1e-3
    for stay, rows in found.groupby("stay"):
        raw = pd.read_csv(elsewhere / f"{stay}.psv", sep="|").drop(columns=list(LACKING))  # which are then not measured
        np.testing.assert_allclose(rows["probability_1"], model.score(raw)[:, 1], rtol=0, atol=1e-5)
        np.testing.assert_allclose(rows["risk"], model.risk(raw), rtol=0, atol=1e-5)


def test_windows_are_those_that_the_encoder_was_trained_on(ncl_w, my_icu, elsewhere, tmp_path):
    """Values are scaled by the encoder's statistics, by hand; what the cohort lacks is zero."""
    subject = exported(str(ncl_w / "encoder"), my_icu, tmp_path)
    data, card = subject.cohort["val"], json.loads((ncl_w / "encoder/model.json").read_text())
    names = [channel.name for channel in PHYSIONET2019.channels]
    files = [pd.read_csv(elsewhere / f"{stay}.psv", sep="|").ffill() for stay in data.stay_names]
    for name in ("HR", "Age", "Lactate", *LACKING[:2]):
        mean, scale = (card["preprocessor"][what][names.index(name)] for what in ("mean", "scale"))
        expected = np.concatenate([(stay[name] - mean) / scale for stay in files])
        expected = np.zeros(len(expected)) if name in LACKING else np.nan_to_num(expected)
        np.testing.assert_allclose(data.data[:, names.index(name)], expected, rtol=1e-5, atol=1e-5)
    windows = every_window(data.data[:100], data.hour[:100], subject.history)
    expected = ncl_tf.load(ncl_w / "encoder").embed(windows)
    np.testing.assert_allclose(subject.encoder(windows), expected, rtol=0, atol=1e-6)


def test_other_heads_on_an_exported_encoder(ncl_w, my_icu, tmp_path):
    """Fine-tuning changes the weights of the exported classifier; trees take features of raw rows beside representations."""
    tuned = evaluate(
        ncl_w / "encoder", my_icu, tmp_path / "out", (*FEW, "protocol.fine_tune_rate = 0.01"), fine_tune=True
    )
    windows = np.random.default_rng(0).normal(size=(4, 48, 40)).astype(np.float32)
    before = ncl_tf.load(ncl_w / "encoder").embed(windows)
    after = ncl_tf.load(tmp_path / "out/sepsis-mlp-fine_tuned/classifier").embed(windows)
    assert np.abs(after - before).max() > 1e-2 and tuned["settings"]["fine_tune"]
    few = ("trees.max_iterations = 3",)
    result = evaluate(
        ncl_w / "encoder", my_icu, tmp_path / "out", few, head="trees", features="representation+engineered"
    )
    assert result["name"] == "sepsis-trees-representation+engineered"


def test_the_cohort_that_it_was_trained_on_is_taken_and_other_splits_of_it_are_refused(
    ncl_w, raw_ward_cohort, my_icu, ward, ward_cohort, tmp_path
):
    other = write(tmp_path / "again.h5", ward)
    for path, named in (
        (other, "again.h5: must hold other stays than & or be the same cohort & other splits of the same source"),
        (ward_cohort, "ward.raw.h5: no such file & --keep_raw"),
    ):
        with refused(named):
            exported(str(ncl_w / "encoder"), path, tmp_path)
    with refused("physionet2019/none: not an exported model"):
        exported("physionet2019/none", my_icu, tmp_path)


def test_bin_evaluate_takes_an_encoder(ncl_w, my_icu, run, tmp_path):
    flags = [f"--encoder={ncl_w / 'encoder'}", f"--cohort={my_icu}", f"--output={tmp_path / 'out'}", "--head=linear"]
    done = run("bin/evaluate", *flags, *(f"--gin_param={param}" for param in FEW))
    assert done.returncode == 0, done.stderr
    assert "channels of the encoder, missing: Unit1, MAP, Platelets\n" in done.stdout
    assert "channels of the cohort, unused: ICP\n" in done.stdout
    assert f"{tmp_path / 'out/sepsis-linear'}/classifier" in done.stdout
    for flag in (f"--run_dir={ncl_w}", f"--external={my_icu}"):
        done = run("bin/evaluate", *flags, flag)
        assert (done.returncode, done.stdout) == (1, "")
        assert "must not be given with --" in done.stderr
