"""Training in one process: the run directory, resuming, the order of samples, Adam, and everything that is refused."""

import pathlib
import re
import shutil
from types import SimpleNamespace
from typing import NamedTuple

import h5py
import numpy as np
import pytest
import tensorflow as tf

import tiny
from ncl_tf import runs
from ncl_tf.data.cohort import Cohort
from ncl_tf.errors import InputError
from ncl_tf.methods.base import Method, Step
from ncl_tf.serving.export import export_encoder
from ncl_tf.training import config, trainer
from ncl_tf.training.clock import Clock
from ncl_tf.training.distribution import Alone
from ncl_tf.training.loop import learn
from ncl_tf.training.schedules import FixedSteps
from refusals import refused
from trainings import assert_same_bits, checkpoints, contents, interrupted, record, reports, state

SIZES = {"batch_size": 256, "queue_size": 1024, "report_every": 2, "steps": 3}
NCL_W = "physionet2019/ncl_w"

pytestmark = pytest.mark.usefixtures("eager")


def train(run_dir: pathlib.Path, cohort: pathlib.Path, /, method: str = NCL_W, **macros) -> None:
    tiny.train(run_dir, method, cohort, **SIZES | macros)


def refusal(run_dir: pathlib.Path, cohort: pathlib.Path, /, method: str = NCL_W, **macros) -> str:
    with pytest.raises(InputError) as error:
        train(run_dir, cohort, method, **macros)
    return str(error.value)


@pytest.fixture(scope="session")
def cohort(ward_cohort):
    return ward_cohort


@pytest.fixture(scope="module")
def finished(eager, cohort, tmp_path_factory):
    """A run of three steps without interruption."""
    run_dir = tmp_path_factory.mktemp("runs") / "whole"
    train(run_dir, cohort)
    return run_dir


def test_a_run_leaves_what_it_promises(finished, cohort):
    files = "config.gin operative_config.gin run.json metrics.jsonl logs checkpoints encoder"
    assert {path.name for path in finished.iterdir()} == set(files.split())
    found, lines, values = record(finished), reports(finished), state(finished)
    expected = {"status": "finished", "step": 3, "seed": 1111, "budget": "paper"}
    assert found.items() >= (expected | {"cohort_checksum": Cohort(cohort).checksum}).items()
    assert found["wall_seconds"] > 0
    assert [line["step"] for line in lines] == [2, 3]
    terms = {"loss", "alignment", "discrimination", "accuracy"}
    assert lines[0].keys() == {"step", "learning_rate"} | terms | {f"val_{name}" for name in terms}
    assert {"step": 3} | found["result"] == lines[-1]
    for line in lines:
        assert line["loss"] == pytest.approx(0.4 * line["alignment"] + 0.6 * line["discrimination"], rel=1e-5)
    assert (finished / "operative_config.gin").read_text().count("encoder.stacks = 1") == 1  # with defaults
    assert values["momentum_contrast/queue_keys"].shape == (1024, 64)
    assert values["adam/iteration"] == 3
    assert sorted(path.name for path in checkpoints(finished).values()) == ["step-00000002.npz", "step-00000003.npz"]
    assert list((finished / "logs").glob("events*"))


def test_other_data_need_no_other_settings_and_validation_no_minimum(mimic_ward_cohort, tmp_path, capfd):
    hours = {split: len(Cohort(mimic_ward_cohort)[split].data) for split in ("train", "val")}
    run_dir, batch_size = tmp_path / "run", hours["val"] + 1
    macros = {"steps": 1, "batch_size": batch_size, "queue_size": 2 * batch_size}
    train(run_dir, mimic_ward_cohort, "mimic3_benchmark/ncl_wy_length_of_stay", **macros)
    assert record(run_dir)["columns"] == 42
    names = {"step", "learning_rate", "loss", "alignment", "discrimination", "accuracy"}
    assert [line.keys() for line in reports(run_dir)] == [names]
    out, err = capfd.readouterr()
    assert f"{hours['train']:,} training hours, 42 columns" in out
    neighborhood = "Intersection(SameStayWithin(window=16, inclusive=False), SameLabel())"
    assert f"{neighborhood}, alpha 1.0, temperature 0.1, momentum 0.999" in out
    assert f"queue of {2 * batch_size:,} keys: the loss rises in the first 1 steps" in out
    assert f"Encoder: {run_dir / 'encoder'}" in out
    assert re.search(r"100%.* 1/1 .*loss=\d", err)  # the progress bar


# Resuming


def test_a_run_killed_before_its_export_is_finished(finished, cohort, tmp_path):
    run_dir = interrupted(finished, tmp_path / "run")
    train(run_dir, cohort)
    assert_same_bits(finished, run_dir)
    found = record(run_dir)
    assert [resumed["step"] for resumed in found.pop("continued")] == [3]
    assert found == record(finished)
    assert (run_dir / "encoder/1/saved_model.pb").exists()


def test_after_a_damaged_checkpoint_a_run_ends_as_if_nothing_had_been(finished, cohort, tmp_path, capfd):
    run_dir = interrupted(finished, tmp_path / "run")
    newest = checkpoints(run_dir)[3]
    raw = bytearray(newest.read_bytes())
    raw[len(raw) // 2] ^= 1
    newest.write_bytes(raw)
    train(run_dir, cohort)
    out = capfd.readouterr().out
    shown = ("checkpoint step-00000003.npz is damaged (", "falling back to the one before", "resuming from step 2")
    assert [text for text in shown if text not in out] == []
    assert_same_bits(finished, run_dir)


def test_a_finished_run_is_left_as_it_is(finished, cohort, tmp_path, capfd):
    moved, before = shutil.copy(cohort, tmp_path / "moved.h5"), contents(finished)
    train(finished, moved)
    assert "finished (3 steps)" in capfd.readouterr().out
    assert contents(finished) == before


@pytest.mark.parametrize(
    ("macro", "value", "named"),
    [
        ("alpha", 1.5, ("alpha", "1.5", "0 to 1")),
        ("alpha", "a", ("momentum_contrast.alpha", "'a'", "float")),
        ("alpha", True, ("momentum_contrast.alpha", "True", "float")),
        ("window", -1, ("SameStayWithin", "window", "-1", "None")),
        ("window", "wide", ("SameStayWithin.window", "'wide'", "float | None")),
        ("temperature", None, ("momentum_contrast.temperature", "None", "float")),
        ("momentum", 1.0, ("momentum", "1.0", "0 to 1")),
        ("batch_size", 0, ("batch_size", "got 0", "1 to ")),
        ("batch_size", 10**6, ("batch_size", "1000000", "1 to ")),
        ("batch_size", 32.0, ("train.batch_size", "32.0", "int")),
        ("queue_size", 200, ("queue_size", "200", "multiple of the 512 keys")),
        ("queue_size", 65536, ("queue_size", "65536", "training hours")),
        ("steps", 0, ("steps", "got 0", "1 or more")),
        ("steps", 1e3, ("train.steps", "1000.0", "int")),
        ("report_every", 0, ("report_every", "got 0", "1 or more")),
        ("seed", -1, ("seed", "-1", "0 to 4294967295")),
        ("seed", "one", ("train.seed", "'one'", "int")),
        ("cohort", "nowhere.h5", ("nowhere.h5", "bin/prepare --help")),
        ("cohort", None, ("train.cohort", "None", "str")),
        ("task", "decompensation", ("ward.h5", "'decompensation'", "sepsis")),
        ("train.warmup", 2, ("warmup", "got 2", "0 to 1")),
        ("train.highest_rate", 0, ("lowest_rate 1e-05", "highest_rate 0", "0 < lowest_rate <= highest_rate")),
        ("train.lowest_rate", 0, ("lowest_rate 0 ", "highest_rate 0.001", "0 < lowest_rate <= highest_rate")),
        ("train.lowest_rate", 0.01, ("lowest_rate 0.01", "highest_rate 0.001", "0 < lowest_rate <= highest_rate")),
        ("augmentation.layers", ["cut"], ("augmentation.layers", "'cut'", "cutout, crop, ")),
        ("augmentation.layers", None, ("augmentation.layers", "None", "a list")),
        ("encoder.kernel_size", 0, ("Encoder", "kernel_size", "1 or more")),
        ("encoder.size", 0, ("Encoder", "size", "1 or more")),
        ("encoder.stacks", 0, ("Encoder", "stacks", "1 or more")),
        ("encoder.dilations", 5, ("encoder.dilations", "5", "a list")),
        ("encoder.dilations", (), ("Encoder", "dilations", "()", "1 or more")),
        ("momentum_contrast.neighborhood", "n_w", ("neighborhood", "n_w")),
    ],
)
def test_bad_settings_are_refused_and_leave_no_traces(macro, value, named, cohort, tmp_path):
    method = "physionet2019/ncl_y" if macro == "task" else "physionet2019/ncl_w"  # n_w would refuse any task
    with refused(*named) as error:
        train(tmp_path / "run", cohort, method, **{macro: value})
    assert "In call to configurable" not in str(error.value)
    assert not (tmp_path / "run").exists()


METHOD, NEIGHBORHOOD = "train.method = ", "momentum_contrast.neighborhood = "


@pytest.mark.parametrize(
    ("bindings", "named"),
    [
        ([NEIGHBORHOOD + "@SameStayWithin"], "an instance of a class"),
        ([NEIGHBORHOOD + "@DecayingWithin()"], "DecayingWithin: & argument & 'half_life'"),
        ([NEIGHBORHOOD + "@Union()"], "union: & argument & 'neighborhoods_'"),
        (
            [NEIGHBORHOOD + "@Intersection()", "Intersection.neighborhoods_ = 3"],
            "intersection.neighborhoods_ & a list & got 3",
        ),
        ([METHOD + "'momentum_contrast'"], "train.method & such as @momentum_contrast, & got 'momentum_contrast'"),
        ([METHOD + "@momentum_contrast()"], "train.method & such as @momentum_contrast, & got @momentum_contrast()"),
    ],
)
def test_references_that_are_none_are_refused(bindings, named, cohort, tmp_path):
    own = tiny.bindings(tiny.TINY | SIZES | {"cohort": str(cohort)})
    with refused(named) as error, config.plain_errors():
        config.configure(["paper/physionet2019/cl.gin"], [*own, *bindings])
        trainer.train(runs.Run(tmp_path / "run"), export=export_encoder)
    assert "In call to configurable" not in str(error.value)
    assert not (tmp_path / "run").exists()


# The order of samples, and Adam


class Loss(NamedTuple):
    loss: tf.Tensor


class LinearMethod(Method):
    """Its loss is the mean of w . x over the samples, x the last hour's columns: the gradient is the mean of x."""

    def __init__(self, seed: int) -> None:
        super().__init__(SimpleNamespace(history=48, fast=False), Loss, seed, "linear_method")
        self.seen: list[np.ndarray] = []

    def build(self, shape: tuple) -> None:
        self.w = self.add_weight(shape=(shape[-1],), initializer="zeros", name="w")
        self.built = True

    def compute_step(self, batch: dict[str, tf.Tensor], training: bool) -> Step:
        last = batch["window"][:, -1]
        if training:
            self.seen.append(np.stack([batch["stay"], batch["hour"]], axis=1))
        return Step(Loss(tf.reduce_mean(tf.linalg.matvec(last, self.w))))


def trained_linear(cohort: Cohort, plan: FixedSteps, seed: int) -> LinearMethod:
    model, run = LinearMethod(seed), runs.Unsaved()
    learner = trainer.WindowLearner(model, cohort, plan, Alone(), run, Clock(0.0, None))
    learner.compile(jit_compile=False)
    learn(run, learner, plan, learner.clock)
    return model


def test_a_step_follows_the_batch_before_it_whatever_is_reported(cohort):
    """Every hour comes once in an epoch, though reports come in between; another seed has another order."""
    data, steps = Cohort(cohort), 7
    hours = len(data["train"].data)
    plan = FixedSteps(steps, hours // steps, 0.1, 1e-5, 1e-3, report_every=2)
    seen = [trained_linear(data, plan, seed).seen for seed in (1, 2)]
    for batches in seen:
        assert [len(batch) for batch in batches] == [plan.batch_size] * steps
        assert len(np.unique(np.concatenate(batches), axis=0)) == steps * plan.batch_size
    assert (seen[0][0] != seen[1][0]).any()


def test_the_optimizer_is_adam_under_the_schedule(cohort):
    """Twelve steps by hand: Kingma and Ba's algorithm with beta_1 0.9, beta_2 0.999, epsilon 1e-7."""
    data = Cohort(cohort)
    plan = FixedSteps(12, 8, warmup=0.25, lowest_rate=1e-5, highest_rate=1e-2, report_every=5)
    model = trained_linear(data, plan, seed=3)
    rows = {(s, h): x for s, h, x in zip(data["train"].stay, data["train"].hour, data["train"].data, strict=True)}
    w = m = v = np.zeros(len(data.columns))
    for t, batch in enumerate(model.seen, start=1):
        gradient = np.mean([rows[tuple(sample)] for sample in batch], axis=0, dtype=np.float64)
        cosine = (1 + np.cos(np.pi * (t - 4) / 9)) / 2
        rate = 1e-5 + (1e-2 - 1e-5) * ((t - 1) / 3 if t <= 3 else cosine)
        m, v = 0.9 * m + 0.1 * gradient, 0.999 * v + 0.001 * gradient**2
        w = w - rate * (m / (1 - 0.9**t)) / (np.sqrt(v / (1 - 0.999**t)) + 1e-7)
    np.testing.assert_allclose(model.w.numpy(), w, rtol=1e-3, atol=1e-6)


def test_a_loss_that_is_not_finite_stops_at_its_step_and_keeps_the_last_good_checkpoint(cohort, tmp_path):
    """A stay's last hour is in one sample only: numbers that overflow there, only the step with that sample can see."""
    split = Cohort(cohort)["train"]
    *_, third = trainer.Windows(split, 48).training(SIZES["batch_size"], seed=1111).take(3)
    lengths = dict(zip(split.patient_windows[:, 2], split.lengths, strict=True))
    last = [(s, h) for s, h in zip(third["stay"].numpy(), third["hour"].numpy(), strict=True) if h == lengths[s] - 1]
    row = np.flatnonzero((split.stay == last[0][0]) & (split.hour == last[0][1]))
    broken = pathlib.Path(shutil.copy(cohort, tmp_path / "broken.h5"))
    with h5py.File(broken, "r+") as file:
        data = file["data/train"][:]
        data[row, 5:] = 3e38  # finite, as cohort files must be
        file["data/train"][:] = data
    message = refusal(tmp_path / "run", broken)
    good = checkpoints(tmp_path / "run")[2]
    assert message == f"step 3: the loss is nan, so training stops. The last good checkpoint is {good}"
    assert all(np.isfinite(value).all() for value in state(tmp_path / "run").values())
    assert [line["step"] for line in reports(tmp_path / "run")] == [2]


def test_a_learning_rate_that_explodes_stops_at_the_same_step_again(cohort, tmp_path):
    macros = {"train.highest_rate": 1e30, "train.warmup": 0, "report_every": 1}
    message = refusal(tmp_path / "run", cohort, **macros)
    good = tmp_path / "run" / "checkpoints" / "step-00000001.npz"
    assert message == f"step 2: the loss is nan, so training stops. The last good checkpoint is {good}"
    assert refusal(tmp_path / "run", cohort, **macros) == message
