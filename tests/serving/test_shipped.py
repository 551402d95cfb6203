"""Models that ship: made from a finished run, found by their names, verified, and described for model hubs."""

import hashlib
import json
import pathlib
import shutil

import numpy as np
import pandas as pd
import pytest
import sklearn.metrics
import yaml

import ncl_tf
from docs import models as making
from ncl_tf import project
from ncl_tf.data import Cohort
from ncl_tf.data.sources import physionet2019
from processes import ROOT
from refusals import refused
from trainings import contents


@pytest.fixture
def ships(shipped_models, monkeypatch) -> pathlib.Path:
    """The folder of models, as the project's own."""
    monkeypatch.setattr(project, "MODELS", shipped_models)
    return shipped_models


def evaluation(exported, name: str = "sepsis-mlp") -> dict:
    return json.loads((exported.run / "evaluations" / f"{name}.json").read_text())


def test_models_have_names_tasks_and_figures(ships, exported):
    found = ncl_tf.models()
    assert {name: (one["kind"], one["task"]) for name, one in found.items()} == {
        "ward/ncl_w": ("encoder", "sepsis"),
        "ward/sepsis": ("classifier", "sepsis"),
    }
    for one in found.values():
        assert one["figures"] == {"sepsis-mlp": evaluation(exported)["metrics"]}
        assert one["channels"][:2] == ["Gender", "Unit1"] and len(one["channels"]) == 40
        assert one["validation"].keys() == {"sepsis-mlp-val"}
        assert one["validation"]["sepsis-mlp-val"]["prevalence"] != one["figures"]["sepsis-mlp"]["prevalence"]


def test_a_model_is_loaded_by_its_name(ships, exported, model, ward, tmp_path, monkeypatch):
    """It scores as the export that it is a copy of; a folder of the user's with that name wins."""
    stay = pd.read_csv(min(ward.glob("*.psv")), sep="|")
    loaded = ncl_tf.load("ward/sepsis")
    np.testing.assert_array_equal(loaded.risk(stay), model.risk(stay))
    assert ncl_tf.load("ward/ncl_w").card["signatures"] == ["embed"]
    assert contents(ships / "ward/sepsis/1") == contents(exported.folder / "1")
    shutil.copytree(exported.run / "encoder", tmp_path / "ward/sepsis")
    monkeypatch.chdir(tmp_path)
    assert ncl_tf.load("ward/sepsis").card["kind"] == "encoder"


def test_every_file_has_its_checksum(ships):
    index = json.loads((ships / "index.json").read_text())["models"]
    for name, entry in index.items():
        found = {path: hashlib.sha256(content).hexdigest() for path, content in contents(ships / name).items()}
        assert entry["files"] == found
        assert {"model.json", "model_card.md", "1/saved_model.pb"} <= found.keys()


def test_what_is_unknown_or_damaged_is_refused(ships, tmp_path, monkeypatch):
    for name in ("ward/sepsi", "../models/ward/nothing"):
        with refused(name, "no such folder & bin/export & ward/ncl_w, ward/sepsis"):
            ncl_tf.load(name)
    damaged = shutil.copytree(ships, tmp_path / "models")
    monkeypatch.setattr(project, "MODELS", damaged)
    for file in ("model.json", "model_card.md", "1/variables/variables.data-00000-of-00001"):
        path = damaged / "ward/sepsis" / file
        whole = path.read_bytes()
        path.write_bytes(whole[:200] + bytes([whole[200] ^ 1]) + whole[201:])
        with refused(path, "SHA-256", damaged / "index.json", "damaged"):
            ncl_tf.load("ward/sepsis")
        path.unlink()
        with refused(path, "No such file"):
            ncl_tf.load("ward/sepsis")
        path.write_bytes(whole)
    index = damaged / "index.json"
    whole = json.loads(index.read_text())
    for change, named in (
        ({"format_version": "2.0"}, "format_version must be 1.0, got 2.0"),
        ({"models": []}, "models must be of type dict"),
        ({"models": {"ward/sepsis": {"kind": "encoder"}}}, "ward/sepsis: must have kind, task, figures"),
    ):
        index.write_text(json.dumps(whole | change))
        with refused(index, named):
            ncl_tf.models()
    index.unlink()
    assert ncl_tf.models() == {}
    with refused("ward/sepsis", "this copy of ncl_tf has none"):
        ncl_tf.load("ward/sepsis")


def test_the_card_has_what_model_hubs_read(ships, exported):
    text = (ships / "ward/sepsis/model_card.md").read_text()
    _, header, body = text.split("---\n", 2)
    header = yaml.safe_load(header)
    assert (header["license"], header["library_name"]) == ("mit", "ncl_tf")
    assert {"tensorflow", "classifier", "sepsis"} <= set(header["tags"])
    (entry,) = header["model-index"]
    (result,) = entry["results"]
    metrics = evaluation(exported)["metrics"]
    assert entry["name"] == "ward/sepsis"
    assert result["dataset"] == {"name": "simulated physionet2019", "type": "simulated", "split": "test"}
    assert {one["name"]: one["value"] for one in result["metrics"]} == {
        "AUROC": metrics["auroc"],
        "AUPRC": metrics["auprc"],
        "utility": metrics["utility"],
    }
    assert body.startswith("\n# Classifier for a simulated ward in the form of physionet2019: sepsis\n\n**Research on")
    for part in (
        "Not a medical device",
        "## Limits",
        "## Intended use",
        "chosen by these metrics of the validation split",
    ):
        assert part in body
    assert f"| `sepsis-mlp` | {100 * metrics['auroc']:.2f} |" in body
    assert "begins with its weights" in (ships / "ward/ncl_w/model_card.md").read_text()


def test_models_are_made_of_what_may_be_given_away(shipped_models, exported, tmp_path):
    """The attribution of the real data is on the card; runs without the figures to choose by, or of other data, are refused."""
    run = shutil.copytree(shipped_models.parent / "run", tmp_path / "run")
    described = [run / "encoder/model.json", run / "evaluations/sepsis-mlp/classifier/model.json"]
    card = json.loads(described[0].read_text())
    for data, where in (("physionet2019", None), ("mimic3_benchmark", "got mimic3_benchmark, whose license")):
        for path in described:
            known = json.loads(path.read_text())
            path.write_text(json.dumps(known | {"data": card["data"] | {"dataset": data, "simulated": False}}))
        if where:
            with refused(run, where):
                making.ship("one", run, None, tmp_path / "models")
        else:
            making.ship("one", run, None, tmp_path / "models")
    text = (tmp_path / "models/one/model_card.md").read_text()
    for part in (
        "license: cc-by-4.0",
        "10.13026/v64v-d857",
        "Reyna",
        "Critical\nCare Medicine 48(2), 2020",
        "the hospitals",
    ):
        assert part in text
    with refused("the evaluation must be one of sepsis-mlp, sepsis-mlp-val, got 'sepsis'"):
        making.ship("one", run, "sepsis", tmp_path / "models")
    with refused(run, "the test and the validation split, got none"):
        making.ship("one", run, "sepsis-mlp-val", tmp_path / "models")
    with refused(exported.run, "validation split, got sepsis-mlp; & --split=val"):
        making.ship("one", exported.run, None, tmp_path / "models")
    for asked in ([], ["one"], ["=run"], ["../one=run"]):
        with refused(*asked, "NAME=RUN_DIR:EVALUATION"):
            making.main(asked)


def test_making_a_model_again_keeps_the_others(shipped_models, tmp_path):
    models = shutil.copytree(shipped_models, tmp_path / "models")
    making.ship("ward/ncl_w", shipped_models.parent / "run", None, models)
    assert contents(models) == contents(shipped_models)
    shutil.rmtree(models / "ward/sepsis")
    making.ship("other", shipped_models.parent / "run", None, models)
    assert json.loads((models / "index.json").read_text())["models"].keys() == {"other", "ward/ncl_w"}


def check_predictions(run, model: pathlib.Path, figures: dict, stays: pathlib.Path, output: pathlib.Path) -> None:
    """Score raw files with bin/predict, and compare scikit-learn's metrics of what it writes with a model's figures."""
    done = run("bin/predict", f"--model={model}", f"--input={stays}", f"--output={output}", "--format=parquet")
    assert done.returncode == 0, done.stderr
    found = pd.read_parquet(output / "predictions.parquet")
    labels = {path.stem: pd.read_csv(path, sep="|", usecols=["SepsisLabel"])["SepsisLabel"] for path in stays.iterdir()}
    expected = np.concatenate([labels[stay] for stay in found["stay"].unique()])
    assert sklearn.metrics.roc_auc_score(expected, found["probability_1"]) == pytest.approx(figures["auroc"], abs=1e-6)
    assert sklearn.metrics.average_precision_score(expected, found["probability_1"]) == pytest.approx(
        figures["auprc"], abs=1e-6
    )


def test_raw_stays_give_the_recorded_figures(shipped_models, stay_files, run, tmp_path):
    entry = json.loads((shipped_models / "index.json").read_text())["models"]["ward/sepsis"]
    check_predictions(run, shipped_models / "ward/sepsis", entry["figures"]["sepsis-mlp"], stay_files, tmp_path / "out")


SHIPPED = ncl_tf.models()


@pytest.mark.skipif(not SHIPPED, reason="no models ship yet: there is no models/index.json")
def test_figures_of_the_models_that_ship_are_those_of_results():
    """Of the same evaluation, seed and cohort, to the last digit."""
    known = set()
    for path in (ROOT / "results").glob("*/*/*.json"):
        result = json.loads(path.read_text())
        run, name = result["run"], result.get("name", result.get("evaluation"))
        known.add((run["cohort_checksum"], run["seed"], name, str(result.get("metrics"))))
    for one in SHIPPED.values():
        for name, metrics in one["figures"].items():
            assert (one["data"]["cohort_checksum"], one["run"]["seed"], name, str(metrics)) in known


@pytest.mark.skipif(not SHIPPED, reason="no models ship yet: there is no models/index.json")
def test_the_models_that_ship_are_small_and_load():
    assert sum(len(content) for content in contents(ROOT / "models").values()) < 15e6
    for name, one in SHIPPED.items():
        assert ncl_tf.load(name).card["kind"] == one["kind"]


@pytest.mark.slow
@pytest.mark.skipif(not SHIPPED, reason="no models ship yet: there is no models/index.json")
def test_raw_test_stays_of_the_real_data_give_the_recorded_figures(
    physionet2019_zips, physionet2019_cohort, run, tmp_path
):
    chosen, folder = set(Cohort(physionet2019_cohort)["test"].stay_names), tmp_path / "stays"
    folder.mkdir()
    for stay, _, read in physionet2019.find_stays(physionet2019_zips):
        if stay in chosen:
            (folder / f"{stay}.psv").write_bytes(read())
    assert len(list(folder.iterdir())) == 8066
    for name, one in SHIPPED.items():
        if one["kind"] == "classifier":
            (figures,) = one["figures"].values()
            check_predictions(run, ROOT / "models" / name, figures, folder, tmp_path / name.replace("/", "_"))
