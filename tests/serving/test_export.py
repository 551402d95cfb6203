"""Exports: with TensorFlow and nothing of this project, raw stays give what bin/evaluate predicted for them."""

import json
import pathlib
import re
import shutil

import numpy as np
import pytest
import tensorflow as tf
from tensorflow.core.protobuf import saved_model_pb2

import ncl_tf
from benchmarks.serve import export_untrained
from ncl_tf.data import Channel, Cohort, Dataset, Stays, Task, write_cohort
from ncl_tf.data.declaration import OBSERVATIONS
from ncl_tf.data.sources import mimic3_benchmark, physionet2019
from ncl_tf.data.splits import random_split
from ncl_tf.data.windows import Windows
from ncl_tf.methods.supervised import Classifier
from ncl_tf.networks.encoder import Encoder
from ncl_tf.networks.heads import Head
from ncl_tf.serving.export import export_classifier
from ncl_tf.serving.exports import copy_of_run
from psv import STATIC
from refusals import refused
from trainings import contents


@pytest.fixture(scope="module")
def raw_stay(ward, exported) -> tuple[str, np.ndarray]:
    """A stay of the test split and its raw rows, as its file has them."""
    (stays, _), name = physionet2019.read_stays([ward]), next(iter(exported.predictions))
    return name, stays.values[stays.rows(np.flatnonzero(stays.names == name))]


@pytest.mark.parametrize("which", ["exported", "exported_observed"])
def test_without_this_project_raw_stays_score_as_evaluated(which, request, stay_files, score_alone):
    """Whole, and hour by hour; among the stays are longer ones than the history of 24 hours."""
    exported = request.getfixturevalue(which)
    assert max(map(len, exported.predictions.values())) > 24
    printed, results = score_alone(exported.folder, stay_files, streamed_every=1)
    assert printed.strip() == str(["embed", "predict", "score_next", "score_stay", "score_stays", "serving_default"])
    everything = np.concatenate(list(exported.predictions.values()))
    assert np.ptp(everything[:, 1]) > 0.01  # predictions that differ from hour to hour
    for stay, expected in exported.predictions.items():
        np.testing.assert_allclose(results[stay], expected, rtol=0, atol=1e-5)
        np.testing.assert_allclose(results[f"stream_{stay}"], expected, rtol=0, atol=1e-5)
        np.testing.assert_allclose(results[f"risk_{stay}"], exported.risks[stay], rtol=0, atol=1e-5)
        np.testing.assert_allclose(results[f"risk_stream_{stay}"], results[f"risk_{stay}"], rtol=0, atol=1e-5)


def test_embed_and_predict_take_the_cohorts_windows(exported, model, ward_cohort):
    windows, data = [], Cohort(ward_cohort)["test"]
    for first, last, _ in data.patient_windows:
        hours = np.concatenate([np.zeros((23, 40), np.float32), data.data[first : last + 1]])
        windows.append(np.lib.stride_tricks.sliding_window_view(hours, 24, axis=0).transpose(0, 2, 1))
    windows = np.concatenate(windows)
    expected = np.concatenate(list(exported.predictions.values()))
    np.testing.assert_allclose(model.predict(windows), expected, rtol=0, atol=1e-5)
    encoder = ncl_tf.load(exported.run / "encoder")
    assert (encoder.card["kind"], encoder.card["signatures"]) == ("encoder", ["embed"])
    representations = encoder.embed(windows)
    assert representations.shape == (len(windows), 64)
    np.testing.assert_allclose(np.linalg.norm(representations, axis=1), 1, rtol=1e-5)
    np.testing.assert_array_equal(model.embed(windows), representations)  # the head was trained on the frozen encoder


def test_signatures_are_what_json_can_carry(exported, raw_stay):
    """TensorFlow Serving makes tensors from nested lists by the names, types and ranks of a signature; NaN it takes as such."""
    signatures, shapes = tf.saved_model.load(exported.folder / "1").signatures, {}
    for name, function in signatures.items():
        specs = function.structured_input_signature[1] | function.structured_outputs
        shapes[name] = {key: (spec.dtype.name, spec.shape.as_list()) for key, spec in specs.items()}
    windows, rows = ("float32", [None, 24, 40]), {"values": ("float32", [None, 35]), "static": ("float32", [None, 5])}
    outputs = {"probabilities": ("float32", [None, 2]), "risk": ("float32", [None])}
    expected = {
        "embed": {"windows": windows, "representations": ("float32", [None, 64])},
        "predict": {"windows": windows, **outputs},
        "score_stay": {**rows, **outputs},
        "score_stays": {**rows, "lengths": ("int32", [None]), **outputs},
        "score_next": {**rows, "state": ("float32", [None, 23, 40]), **outputs},
    }
    assert shapes == {**expected, "serving_default": expected["score_stay"]}
    stay, rows = raw_stay
    request = json.loads(json.dumps({"values": rows[:, 5:].tolist(), "static": rows[:1, :5].tolist()}))
    answer = signatures["score_stay"](**{name: tf.constant(value, tf.float32) for name, value in request.items()})
    np.testing.assert_allclose(answer["probabilities"], exported.predictions[stay], rtol=0, atol=1e-5)


def test_a_copy_outlives_its_run_bit_for_bit(exported, model, raw_stay, tmp_path):
    run = shutil.copytree(exported.run, tmp_path / "run")
    copy_of_run(run, None, tmp_path / "one")
    copy_of_run(run, None, tmp_path / "two")
    shutil.rmtree(run)
    one, two = contents(tmp_path / "one"), contents(tmp_path / "two")
    assert {"1/saved_model.pb", "1/variables/variables.index", "model.json", "model_card.md"} <= one.keys()
    assert one == two
    _, rows = raw_stay
    copied = ncl_tf.load(tmp_path / "one")
    np.testing.assert_array_equal(copied.score(rows[:, 5:], rows[0, :5]), model.score(rows[:, 5:], rows[0, :5]))


def test_nothing_is_saved_twice(ward_cohort, tmp_path):
    """Neither a variable nor the graph of a function that another one calls."""
    export_untrained(tmp_path, Cohort(ward_cohort), filters=8, dilations=(1, 24))
    reader = tf.train.load_checkpoint(tmp_path / "1/variables/variables")
    shapes = reader.get_variable_to_shape_map()
    saved = sum(np.prod(shape, dtype=int) for name, shape in shapes.items() if not name.startswith("_"))
    filters, columns, static, size, head = 8, 35, 5, 64, 64
    blocks = [2 * inputs * filters + 2 * filters * filters + 2 * 3 * filters for inputs in (columns, filters)]
    encoder = sum(blocks) + (columns + 1) * filters + (filters + static + 1) * size + 2 * size
    assert saved == encoder + (size + 1) * head + 2 * head + (head + 1) * 2 + 2 * 40  # mean and scale of 40 columns
    content = saved_model_pb2.SavedModel.FromString((tmp_path / "1/saved_model.pb").read_bytes())
    calls = {}
    for function in content.meta_graphs[0].graph_def.library.function:
        if own := re.match(r"__inference_(embed|predict|score_\w+)_\d+$", function.signature.name):
            called = " ".join(node.attr["f"].func.name for node in function.node_def)
            assert own[1] not in calls
            calls[own[1]] = re.findall(r"__inference_(embed|predict|score_\w+)_\d+", called)
    alone = {"embed": [], "score_stays": []}
    assert calls == alone | {"predict": ["embed"], "score_next": ["predict"], "score_stay": ["score_stays"]}


def test_which_export_of_a_run(exported, tmp_path):
    run = shutil.copytree(exported.run, tmp_path / "run")
    shutil.copytree(run / "evaluations/sepsis-mlp", run / "evaluations/sepsis-linear")
    for asked, named in ((None, "--evaluation=sepsis-linear|sepsis-mlp"), ("sepsis", "sepsis-linear, sepsis-mlp")):
        with refused(run, named, f"'{asked}'" if asked else ""):
            copy_of_run(run, asked, tmp_path / "out")
    assert copy_of_run(run, "sepsis-mlp", tmp_path / "out").parts[-2:] == ("sepsis-mlp", "classifier")
    with refused(tmp_path / "out", "--output"):
        copy_of_run(run, "sepsis-mlp", tmp_path / "out")
    shutil.rmtree(run / "evaluations")
    assert copy_of_run(run, None, tmp_path / "copy").name == "encoder"
    shutil.rmtree(run / "encoder")
    for folder, named in [(run, "no exported encoder & bin/train"), (tmp_path, "run.json"), (tmp_path / "nowhere", "")]:
        with refused(folder, named):
            copy_of_run(folder, None, tmp_path / "nothing")


def test_the_card_states_what_a_user_must_know(exported, ward_cohort):
    card = json.loads((exported.folder / "model.json").read_text())
    cohort = Cohort(ward_cohort)
    channels = {channel["name"]: channel for channel in card["preprocessor"]["dataset"]["channels"]}
    assert card["format_version"] == "1.1"
    assert card["inputs"]["windows"]["hours"] == 24
    assert card["inputs"]["static"] == list(STATIC)
    assert card["inputs"]["static"] + card["inputs"]["values"] == list(channels)
    assert (channels["HR"]["unit"], channels["HR"]["low"], channels["HR"]["high"]) == ("beats/min", 10, 300)
    assert channels["Gender"]["levels"] == [0, 1]
    assert card["task"]["classes"] == ["no sepsis", "sepsis"]
    assert card["data"]["cohort_checksum"] == cohort.checksum
    evaluation = json.loads((exported.run / "evaluations/sepsis-mlp.json").read_text())
    assert {
        name: card["evaluation"][name] for name in ("metrics", "calibration", "alarm")
    }.items() <= evaluation.items()
    assert card["evaluation"]["settings"]["task"] == "sepsis"
    assert card["config"]["alpha"] == "0.4"
    assert not any(name == "cohort" or name.startswith("protocol.") for name in card["config"])  # no path of the maker
    assert card["versions"]["tensorflow"] == tf.__version__
    assert "Not a medical device" in card["intended_use"]
    assert card["data"]["simulated"]
    text = (exported.folder / "model_card.md").read_text()
    parts = ["simulated ward in the form of physionet2019", "`state` [B, 23, 40]", "above 0.5", "max_epochs 1,"]
    parts += ["both classes weighted alike", "Not a medical device", "auroc"]
    reached, errors = card["evaluation"]["alarm"], card["evaluation"]["calibration"]
    parts += [
        "`risk` is calibrated",
        "they are no risks",
        f"above {reached['threshold']:.6g}, a risk of {reached['risk']:.4f}",
    ]
    parts += [f"recall {reached['validation']['recall']:.4f}", f"utility {reached['validation']['utility']:.4f}"]
    parts += ["for the most utility", f"hours | {errors['before']['ece']:.4f} | {errors['after']['ece']:.4f} |"]
    parts += ["| HR | beats/min | 10 to 300 |  |", "| Gender |  | 0, 1 | static |"]
    assert [part for part in parts if part not in text] == []
    assert str(pathlib.Path.home()) not in text + json.dumps(card)


def test_the_card_of_a_model_with_observations(exported_observed):
    card, text = (exported_observed.folder / name for name in ("model.json", "model_card.md"))
    state = json.loads(card.read_text())["inputs"]["state"]
    assert state[:7] == [*STATIC, "ICULOS", "HR"]
    assert state[40:] == [f"{name}:{what}" for what in ("since", "count") for name in state[6:40]]
    parts = ["`state` [B, 23, 108]", "`windows` [B, 24, 108]", "how often channels were measured (recency, count)"]
    assert [part for part in [*parts, "carried forward counts as a new"] if part not in text.read_text()] == []


def test_the_cards_example_runs_as_it_stands(exported, monkeypatch, capfd):
    monkeypatch.chdir(exported.folder)
    exec(re.search(r"```python\n(.*?)```", pathlib.Path("model_card.md").read_text(), re.DOTALL)[1], {})
    assert len(capfd.readouterr().out.splitlines()) == 6  # an hour each


def test_a_cohort_without_preprocessor_gives_windows_only(exported, ward_cohort, tmp_path, capfd):
    """And an older export is replaced whole, without a word."""
    folder = tmp_path / "model"
    folder.mkdir()
    (folder / "old.txt").write_text("old")
    cohort = Cohort(ward_cohort)
    cohort.preprocessor = None
    classifier = Classifier(Encoder(5, filters=4, dilations=(24,)), Head("linear", 2), 0, np.ones(2))
    classifier.build((None, 48, 40))
    evaluation = json.loads((exported.run / "evaluations/sepsis-mlp.json").read_text())
    run = json.loads((exported.run / "run.json").read_text())
    export_classifier(folder, classifier, cohort, run, evaluation)
    assert capfd.readouterr().out == ""
    assert list(tmp_path.iterdir()) == [folder]
    assert {path.name for path in folder.iterdir()} == {"1", "model.json", "model_card.md"}
    model = ncl_tf.load(folder)
    windows = np.random.default_rng(0).normal(size=(3, 48, 40)).astype(np.float32)
    np.testing.assert_allclose(model.predict(windows), classifier(windows), rtol=0, atol=1e-6)
    with refused(folder, "raw values", "embed, predict"):
        model.score(np.zeros((1, 35)))


def own_cohort(folder: pathlib.Path, observations: tuple[str, ...]) -> tuple[Stays, Cohort]:
    """Two channels, none of them static or the hour."""
    random = np.random.default_rng(3)
    lengths = random.integers(1, 60, 30)
    values = random.normal(size=(lengths.sum(), 2)).astype(np.float32)
    values[random.random(values.shape) < 0.5] = np.nan
    labels = np.repeat(np.float32(np.arange(30) % 3 == 0), lengths)[:, None]
    stays = Stays(np.arange(30).astype(str), lengths, values, labels)
    dataset = Dataset("own", (Channel("HR"), Channel("MAP", low=-1)), (Task("sepsis"),), observations=observations)
    write_cohort(folder / "own.h5", dataset, stays, random_split(stays.ever_positive(), 0), "")
    return stays, Cohort(folder / "own.h5")


@pytest.mark.parametrize("whose", ["mimic3_benchmark", "own", "own with observations"])
def test_other_cohorts(whose, request, tmp_path):
    """Raw stays score as their prepared windows: with levels and a height that becomes known, or without static values."""
    if whose != "mimic3_benchmark":
        stays, cohort = own_cohort(tmp_path, OBSERVATIONS if whose == "own with observations" else ())
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
