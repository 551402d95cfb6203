"""Exports: with TensorFlow and nothing of this project, raw stays give what bin/evaluate predicted for them."""

import json
import pathlib
import re
import shutil

import numpy as np
import pytest
import tensorflow as tf

import ncl_tf
from benchmarks.serve import export_untrained
from ncl_tf.data import Channel, Cohort, Dataset, Stays, Task, write_cohort
from ncl_tf.data.sources import mimic3_benchmark, physionet2019
from ncl_tf.data.splits import random_split
from ncl_tf.data.windows import Windows
from ncl_tf.methods.supervised import Classifier
from ncl_tf.networks.encoder import Encoder
from ncl_tf.networks.heads import Head
from ncl_tf.serving.export import copy_of_run, export_classifier
from refusals import refused

SCORE = """
import sys
import numpy as np
import tensorflow as tf

folder, raw, output = sys.argv[1:]
model = tf.saved_model.load(folder + "/1")
print(sorted(model.signatures))
raw, results = np.load(raw), {}
for stay in raw.files:
    static, values = raw[stay][:1, :5], raw[stay][:, 5:]
    results[stay] = model.signatures["score_stay"](values=tf.constant(values), static=tf.constant(static))["probabilities"]
    state, hours = np.full([1, 23, 40], np.nan, np.float32), []
    for row in values:
        next = model.score_next(row[None], static, state)
        hours.append(next["probabilities"][0])
        state = next["state"]
    results["stream_" + stay] = np.stack(hours)
np.savez(output, **results)
"""


@pytest.fixture(scope="module")
def raw_stays(ward, exported) -> dict[str, np.ndarray]:
    """The raw rows of the test split's stays, as their files have them."""
    stays, _ = physionet2019.read_stays([ward])
    parts = np.split(stays.values, stays.first_rows[1:])
    return {stay: parts[list(stays.names).index(stay)] for stay in exported.predictions}


def test_without_this_project_raw_stays_score_as_evaluated(exported, raw_stays, alone, tmp_path):
    """Whole, and hour by hour; among the stays are longer ones than the history of 24 hours."""
    lengths = [len(rows) for rows in raw_stays.values()]
    assert max(lengths) > 24
    np.savez(tmp_path / "raw.npz", **raw_stays)
    printed = alone(SCORE, exported.folder, tmp_path / "raw.npz", tmp_path / "out.npz")
    assert printed.strip() == str(["embed", "predict", "score_next", "score_stay", "score_stays", "serving_default"])
    results = np.load(tmp_path / "out.npz")
    everything = np.concatenate(list(exported.predictions.values()))
    assert np.ptp(everything[:, 1]) > 0.01  # predictions that differ from hour to hour
    for stay, expected in exported.predictions.items():
        np.testing.assert_allclose(results[stay], expected, rtol=0, atol=1e-5)
        np.testing.assert_allclose(results[f"stream_{stay}"], expected, rtol=0, atol=1e-5)


def test_embed_and_predict_take_the_cohorts_windows(exported, model, ward_cohort):
    windows, data = [], Cohort(ward_cohort)["test"]
    for first, last, _ in data.patient_windows:
        hours = np.concatenate([np.zeros((23, 40), np.float32), data.data[first : last + 1]])
        windows += [hours[end - 24 : end] for end in range(24, len(hours) + 1)]
    windows = np.stack(windows)
    expected = np.concatenate(list(exported.predictions.values()))
    np.testing.assert_allclose(model.predict(windows), expected, rtol=0, atol=1e-5)
    encoder = ncl_tf.load(exported.run / "encoder")
    assert encoder.card["signatures"] == ["embed"]
    assert encoder.card["kind"] == "encoder"
    representations = encoder.embed(windows)
    assert representations.shape == (len(windows), 64)
    np.testing.assert_allclose(np.linalg.norm(representations, axis=1), 1, rtol=1e-5)
    np.testing.assert_array_equal(model.embed(windows), representations)  # the head was trained on the frozen encoder


def test_signatures_are_what_json_can_carry(exported, raw_stays):
    """TensorFlow Serving makes tensors from nested lists by the names, types and ranks of a signature; NaN it takes as such."""
    signatures = tf.saved_model.load(exported.folder / "1").signatures
    shapes = {
        name: {
            key: (spec.dtype.name, spec.shape.as_list())
            for key, spec in {**function.structured_input_signature[1], **function.structured_outputs}.items()
        }
        for name, function in signatures.items()
    }
    windows, rows = ("float32", [None, 24, 40]), {"values": ("float32", [None, 35]), "static": ("float32", [None, 5])}
    probabilities, state = ("float32", [None, 2]), ("float32", [None, 23, 40])
    expected = {
        "embed": {"windows": windows, "representations": ("float32", [None, 64])},
        "predict": {"windows": windows, "probabilities": probabilities},
        "score_stay": {**rows, "probabilities": probabilities},
        "score_stays": {**rows, "lengths": ("int32", [None]), "probabilities": probabilities},
        "score_next": {**rows, "state": state, "probabilities": probabilities},
    }
    assert shapes == {**expected, "serving_default": expected["score_stay"]}
    stay, rows = next(iter(raw_stays.items()))
    request = json.loads(json.dumps({"values": rows[:, 5:].tolist(), "static": rows[:1, :5].tolist()}))
    answer = signatures["score_stay"](**{name: tf.constant(value, tf.float32) for name, value in request.items()})
    np.testing.assert_allclose(answer["probabilities"], exported.predictions[stay], rtol=0, atol=1e-5)


def test_a_copy_outlives_its_run_bit_for_bit(exported, model, raw_stays, tmp_path):
    run = shutil.copytree(exported.run, tmp_path / "run")
    copy_of_run(run, None, tmp_path / "one")
    copy_of_run(run, None, tmp_path / "two")
    shutil.rmtree(run)
    one, two = (
        {path.relative_to(tmp_path / name).as_posix(): path.read_bytes() for path in (tmp_path / name).rglob("*.*")}
        for name in ("one", "two")
    )
    assert {"1/saved_model.pb", "1/variables/variables.index", "model.json", "model_card.md"} <= one.keys()
    assert one == two
    rows = next(iter(raw_stays.values()))
    copied = ncl_tf.load(tmp_path / "one")
    np.testing.assert_array_equal(copied.score(rows[:, 5:], rows[0, :5]), model.score(rows[:, 5:], rows[0, :5]))


def test_which_export_of_a_run(exported, tmp_path):
    run = shutil.copytree(exported.run, tmp_path / "run")
    shutil.copytree(run / "evaluations/sepsis-mlp", run / "evaluations/sepsis-linear")
    with refused(run, "--evaluation=sepsis-linear|sepsis-mlp"):
        copy_of_run(run, None, tmp_path / "out")
    with refused(run, "'sepsis'", "sepsis-linear, sepsis-mlp"):
        copy_of_run(run, "sepsis", tmp_path / "out")
    assert copy_of_run(run, "sepsis-mlp", tmp_path / "out").parts[-2:] == ("sepsis-mlp", "classifier")
    with refused(tmp_path / "out", "--output"):
        copy_of_run(run, "sepsis-mlp", tmp_path / "out")
    shutil.rmtree(run / "evaluations")
    assert copy_of_run(run, None, tmp_path / "copy").name == "encoder"
    shutil.rmtree(run / "encoder")
    with refused(run, "no exported encoder", "bin/train"):
        copy_of_run(run, None, tmp_path / "nothing")
    with refused(tmp_path, "run.json"):
        copy_of_run(tmp_path, None, tmp_path / "nothing")
    with refused(tmp_path / "nowhere"):
        copy_of_run(tmp_path / "nowhere", None, tmp_path / "nothing")


def test_the_card_states_what_a_user_must_know(exported, ward_cohort):
    card = json.loads((exported.folder / "model.json").read_text())
    cohort = Cohort(ward_cohort)
    channels = {channel["name"]: channel for channel in card["preprocessor"]["dataset"]["channels"]}
    assert card["format_version"] == "1.0"
    assert card["inputs"]["windows"]["hours"] == 24
    assert card["inputs"]["static"] == ["Gender", "Unit1", "Unit2", "Age", "HospAdmTime"]
    assert card["inputs"]["static"] + card["inputs"]["values"] == list(channels)
    assert (channels["HR"]["unit"], channels["HR"]["low"], channels["HR"]["high"]) == ("beats/min", 10, 300)
    assert channels["Gender"]["levels"] == [0, 1]
    assert card["task"]["classes"] == ["no sepsis", "sepsis"]
    assert card["data"]["cohort_checksum"] == cohort.checksum
    evaluation = json.loads((exported.run / "evaluations/sepsis-mlp.json").read_text())
    assert card["evaluation"]["metrics"] == evaluation["metrics"]
    assert card["evaluation"]["intervals"] == evaluation["intervals"]
    assert card["evaluation"]["settings"]["task"] == "sepsis"
    assert card["config"]["alpha"] == "0.4"
    assert "cohort" not in card["config"]  # a path on the maker's machine
    assert card["versions"]["tensorflow"] == tf.__version__
    assert "Not a medical device" in card["intended_use"]
    text = (exported.folder / "model_card.md").read_text()
    assert card["data"]["simulated"] and "simulated ward in the form of physionet2019" in text
    assert not any(name.startswith("protocol.") for name in card["config"])
    for part in ("`state` [B, 23, 40]", "above 0.5", "max_epochs 1,", "both classes weighted alike"):
        assert part in text
    for part in ("Not a medical device", "| HR | beats/min | 10 to 300 |  |", "| Gender |  | 0, 1 | static |", "auroc"):
        assert part in text
    assert str(pathlib.Path.home()) not in text + json.dumps(card)


def test_the_cards_example_runs_as_it_stands(exported, monkeypatch, capfd):
    monkeypatch.chdir(exported.folder)
    exec(re.search(r"```python\n(.*?)```", pathlib.Path("model_card.md").read_text(), re.DOTALL)[1], {})
    assert len(capfd.readouterr().out.splitlines()) == 6  # an hour each


def test_a_cohort_without_preprocessor_gives_windows_only(exported, ward_cohort, tmp_path, capfd):
    """And an older export is replaced whole, without a word."""
    (tmp_path / "model").mkdir()
    (tmp_path / "model/old.txt").write_text("old")
    cohort = Cohort(ward_cohort)
    cohort.preprocessor = None
    classifier = Classifier(Encoder(5, filters=4, dilations=(24,)), Head("linear", 2), 0, np.ones(2))
    classifier.build((None, 48, 40))
    evaluation = json.loads((exported.run / "evaluations/sepsis-mlp.json").read_text())
    run = json.loads((exported.run / "run.json").read_text())
    export_classifier(tmp_path / "model", classifier, cohort, run, evaluation)
    assert capfd.readouterr().out == ""
    assert [path.name for path in tmp_path.iterdir()] == ["model"]
    assert {path.name for path in (tmp_path / "model").iterdir()} == {"1", "model.json", "model_card.md"}
    model = ncl_tf.load(tmp_path / "model")
    windows = np.random.default_rng(0).normal(size=(3, 48, 40)).astype(np.float32)
    np.testing.assert_allclose(model.predict(windows), classifier(windows), rtol=0, atol=1e-6)
    with refused(tmp_path / "model", "raw values", "embed, predict"):
        model.score(np.zeros((1, 35)))


def own_cohort(folder: pathlib.Path) -> tuple[Stays, Cohort]:
    """Two channels, none of them static or the hour."""
    random = np.random.default_rng(3)
    lengths = random.integers(1, 60, 30)
    values = random.normal(size=(lengths.sum(), 2)).astype(np.float32)
    values[random.random(values.shape) < 0.5] = np.nan
    septic = np.repeat(np.arange(30) % 3 == 0, lengths)
    labels = septic[:, None].astype(np.float32)
    stays = Stays(np.arange(30).astype(str), lengths, values, labels)
    dataset = Dataset("own", (Channel("HR"), Channel("MAP", low=-1)), (Task("sepsis"),))
    write_cohort(folder / "own.h5", dataset, stays, random_split(stays.ever_positive(), 0), "")
    return stays, Cohort(folder / "own.h5")


@pytest.mark.parametrize("whose", ["mimic3_benchmark", "own"])
def test_other_cohorts(whose, request, tmp_path):
    """Raw stays score as their prepared windows: with levels and a height that becomes known, or without static values."""
    if whose == "own":
        stays, cohort = own_cohort(tmp_path)
    else:
        stays, _, _ = mimic3_benchmark.read_stays(request.getfixturevalue("mimic_ward"), carry_back=False, shift=0)
        cohort = Cohort(request.getfixturevalue("mimic_ward_cohort"))
    export_untrained(tmp_path / "model", cohort, filters=8, dilations=(1, 24))  # still sees all 48 hours
    model, data = ncl_tf.load(tmp_path / "model"), cohort["test"]
    expected = np.concatenate([model.predict(batch["window"]) for batch in Windows(data, 48).sequential(512)])
    scores = np.split(model.score_stays(stays), stays.first_rows[1:])
    found = [scores[list(stays.names).index(name)] for name in data.stay_names]
    np.testing.assert_allclose(np.concatenate(found), expected, rtol=0, atol=1e-6)
    rows = np.split(stays.values, stays.first_rows[1:])[0]
    static, values = np.split(rows, [model.rows.static], axis=1)
    stream = model.stream()
    hours = [stream.next(dict(zip(model.rows.names, row.tolist(), strict=True))) for row in rows]
    np.testing.assert_allclose(hours, scores[0], rtol=0, atol=1e-6)
    np.testing.assert_allclose(model.score(values, static), scores[0], rtol=0, atol=1e-6)


def test_the_graph_refuses_what_has_no_answer(exported):
    functions = tf.saved_model.load(exported.folder / "1")
    for values, static, message in (
        (np.zeros((0, 35)), np.zeros((1, 5)), "a stay has no rows"),
        (np.zeros((1, 35)), np.zeros((2, 5)), "static has more rows than values"),
    ):
        with pytest.raises(tf.errors.InvalidArgumentError, match=message):
            functions.score_stay(values.astype(np.float32), static.astype(np.float32))
    with pytest.raises(tf.errors.InvalidArgumentError, match="lengths do not sum"):
        functions.score_stays(tf.zeros([3, 35]), tf.zeros([3, 5]), tf.constant([2]))
