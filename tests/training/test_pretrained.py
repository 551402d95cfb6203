"""Beginning a training with an exported encoder: its weights, in their places by the columns' names."""

import dataclasses
import json
import pathlib
import shutil

import numpy as np
import pytest

import ncl_tf
import tiny
from ncl_tf.data import PHYSIONET2019, Channel, Cohort, write_cohort
from ncl_tf.data.sources import physionet2019
from ncl_tf.data.splits import random_split
from ncl_tf.data.windows import Windows
from ncl_tf.networks.encoder import Encoder
from ncl_tf.training.pretrained import PretrainedEncoder
from refusals import refused
from trainings import contents, record, state

# One step at a learning rate of nothing: the weights are those that the training began with.
STANDSTILL = {"steps": 1, "batch_size": 64, "queue_size": 128, "report_every": 1, "augmentation.layers": ()}
STANDSTILL |= {"train.lowest_rate": 1e-30, "train.highest_rate": 1e-30}
MOVING = STANDSTILL | {"steps": 2, "report_every": 2, "train.highest_rate": 0.01}
ENCODER, MOMENTUM = "momentum_contrast/encoder/", "momentum_contrast/momentum_encoder/"


@pytest.fixture(scope="module")
def source(eager, ward_cohort, tmp_path_factory) -> pathlib.Path:
    """A run whose encoder others begin with."""
    folder = tmp_path_factory.mktemp("source") / "run"
    tiny.train(folder, "physionet2019/ncl_w", ward_cohort, seed=5, **MOVING)
    return folder


@pytest.fixture(scope="module")
def other_cohort(ward, tmp_path_factory) -> pathlib.Path:
    """The ward with ICP in the place of Platelets, without Unit1, and with the other channels in another order."""
    stays, checksum = physionet2019.read_stays([ward])
    names = [channel.name for channel in PHYSIONET2019.channels]
    static, dynamic = list(PHYSIONET2019.channels[:5]), list(PHYSIONET2019.channels[5:])
    kept = [channel for channel in static[::-1] if channel.name != "Unit1"] + [*dynamic[-2::-1], Channel("ICP")]
    places = [names.index(channel.name if channel.name != "ICP" else "Platelets") for channel in kept]
    stays = dataclasses.replace(stays, values=np.asfortranarray(stays.values[:, places]))
    path = tmp_path_factory.mktemp("other") / "other.h5"
    dataset = dataclasses.replace(PHYSIONET2019, channels=tuple(kept))
    write_cohort(path, dataset, stays, random_split(stays.ever_positive(), seed=0), checksum)
    return path


def weights(run: pathlib.Path, network: str = ENCODER) -> dict[str, np.ndarray]:
    return {name.removeprefix(network): value for name, value in state(run).items() if name.startswith(network)}


def test_an_exported_encoder_is_loaded_with_its_weights(source, ward_cohort):
    """It represents windows as the SavedModel does; that of a classifier's export, too."""
    windows = Windows(Cohort(ward_cohort)["test"], 48).gather(np.arange(20, dtype=np.int32))["window"]
    tiny.evaluate(source, head="linear", gin_params=("protocol.max_epochs = 1",))
    for export in (source / "encoder", source / "evaluations/sepsis-linear/classifier"):
        expected = ncl_tf.load(export).embed(windows)
        np.testing.assert_allclose(PretrainedEncoder(export).load()(windows), expected, rtol=0, atol=1e-6)
    assert np.ptp(expected, axis=0).max() > 0.01


@pytest.mark.parametrize("method", ["ncl_w", "end_to_end"])
def test_a_training_begins_with_all_weights_where_the_columns_are_the_same(
    method, source, ward_cohort, tmp_path, capsys
):
    settings, network = STANDSTILL, ENCODER
    if method == "end_to_end":
        settings, network = {"max_epochs": 1, "rate": 1e-30}, "classifier/encoder/"
    run, export = tmp_path / "run", str(source / "encoder")
    tiny.train(run, f"physionet2019/{method}", ward_cohort, seed=6, initial_encoder=export, **settings)
    assert f"initial encoder: {export}, 40 of 40 columns agree\n" in capsys.readouterr().out
    expected, found = weights(source), weights(run, network)
    assert found.keys() == expected.keys()
    for name, value in expected.items():
        np.testing.assert_allclose(found[name], value, rtol=0, atol=1e-7)
        if method == "ncl_w":
            np.testing.assert_array_equal(weights(run, MOMENTUM)[name], found[name])
    assert len(record(run)["initial_encoder_checksum"]) == 64


def test_weights_go_where_the_columns_of_that_name_are(source, ward_cohort, other_cohort, tmp_path, capsys):
    for name, macros in (("begun", {"initial_encoder": str(source / "encoder")}), ("fresh", {})):
        tiny.train(tmp_path / name, "physionet2019/ncl_w", other_cohort, seed=6, **STANDSTILL, **macros)
    assert "38 of 39 columns agree; new: ICP\n" in capsys.readouterr().out
    mine, yours = Cohort(other_cohort).columns, Cohort(ward_cohort).columns
    expected, found, fresh = weights(source), weights(tmp_path / "begun"), weights(tmp_path / "fresh")
    for name, value in found.items():
        if name.startswith("tcn/residual_block_0/") and name.endswith(("conv1D_0/kernel", "matching_conv1D/kernel")):
            for row, column in enumerate(mine[4:]):
                wanted = fresh[name][:, row] if column == "ICP" else expected[name][:, yours.index(column) - 5]
                np.testing.assert_allclose(value[:, row], wanted, rtol=0, atol=1e-7)
        elif name == "merge/kernel":
            np.testing.assert_allclose(value[:8], expected[name][:8], rtol=0, atol=1e-7)
            for row, column in enumerate(mine[:4]):
                wanted = expected[name][8 + yours.index(column)]
                np.testing.assert_allclose(value[8 + row], wanted, rtol=0, atol=1e-7)
        else:
            np.testing.assert_allclose(value, expected[name], rtol=0, atol=1e-7)


def test_what_cannot_be_begun_with_is_refused(source, ward_cohort, tmp_path):
    export, run = str(source / "encoder"), tmp_path / "run"
    for macros, named in (
        ({"encoder.filters": 4}, f"encoder.filters must be 8 to begin with {export}, got 4"),
        ({"encoder.dilations": (12, 12)}, "encoder.dilations must be (24,) to begin with & got (12, 12)"),
        ({"encoder.compress": True}, "encoder.compress must be False"),
        ({"initial_encoder": "physionet2019/none"}, "physionet2019/none: not an exported model"),
        ({"initial_encoder": str(source)}, f"{source}: not an exported model"),
        ({"initial_encoder": 3}, "train.initial_encoder must be str | None, got 3"),
    ):
        with refused(named):
            tiny.train(run, "physionet2019/ncl_w", ward_cohort, **STANDSTILL | {"initial_encoder": export} | macros)
    other = Encoder(0, filters=8, dilations=(24,))
    other.build((None, 48, 2))
    with refused("the cohort must have columns of", "HR, O2Sat", "got Heart Rate, Weight"):
        PretrainedEncoder(export).begin(other, ["Heart Rate", "Weight"])
    assert not run.exists()


def test_a_run_is_resumed_with_the_same_initial_encoder_alone(source, ward_cohort, tmp_path, capsys):
    """Its weights are those of its checkpoint then."""
    export = shutil.copytree(source / "encoder", tmp_path / "encoder")
    run = tmp_path / "run"
    tiny.train(run, "physionet2019/ncl_w", ward_cohort, seed=6, initial_encoder=str(export), **MOVING)
    expected, before = state(run), record(run)
    (run / "run.json").write_text(json.dumps(before | {"status": "started"}))
    tiny.train(run, "physionet2019/ncl_w", ward_cohort, seed=6, initial_encoder=str(export), **MOVING)
    assert {name: value.tobytes() for name, value in state(run).items()} == {
        name: value.tobytes() for name, value in expected.items()
    }
    assert max(np.abs(value - weights(source)[name]).max() for name, value in weights(run).items()) > 1e-3
    shutil.rmtree(export)
    tiny.train(tmp_path / "other", "physionet2019/ncl_w", ward_cohort, seed=7, **MOVING)
    shutil.copytree(tmp_path / "other/encoder", export)
    (run / "run.json").write_text(json.dumps(record(run) | {"status": "started"}))
    before = contents(run)
    with refused(run, "initial_encoder_checksum"):
        tiny.train(run, "physionet2019/ncl_w", ward_cohort, seed=6, initial_encoder=str(export), **MOVING)
    assert contents(run) == before
