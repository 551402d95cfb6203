"""Learning happens: the quickstart's training, or a small part of it, beats chance and raw features on simulated wards."""

import keras
import numpy as np
import pytest
from sklearn.metrics import roc_auc_score

from ncl_tf import runs
from ncl_tf.data import PHYSIONET2019, Cohort, write_cohort
from ncl_tf.data.simulator.ward import write_ward
from ncl_tf.data.sources import physionet2019
from ncl_tf.data.splits import random_split
from ncl_tf.data.windows import Windows
from ncl_tf.evaluation.heads import LabelledSamples, embedder, fit, predictor
from ncl_tf.evaluation.subject import load_run
from ncl_tf.networks.heads import Head, class_weights
from ncl_tf.serving.export import export_encoder
from ncl_tf.training import config, trainer
from ncl_tf.training.early_stopping import SeparateEpochs
from trainings import reports

SMALL = ["steps = 120", "batch_size = 128", "queue_size = 4096", "history = 24", "jit_compile = False"]
SMALL += ["encoder.dilations = (1, 2, 4, 8)", "encoder.filters = 32"]


@pytest.mark.parametrize(
    ("seed", "size", "params"),
    [(1, 1500, SMALL), *(pytest.param(seed, 3000, [], marks=pytest.mark.slow) for seed in (1, 2, 3))],
)
def test_quickstart_learns(seed, size, params, tmp_path):
    """Contrastive accuracy at least 100 times chance; sepsis by an MLP head at least 0.02 AUROC above raw last hours."""
    write_ward(size, seed=seed, output=tmp_path / "ward")
    stays, checksum = physionet2019.read_stays([tmp_path / "ward"])
    write_cohort(tmp_path / "ward.h5", PHYSIONET2019, stays, random_split(stays.ever_positive(), seed), checksum)
    config.configure(["gin/quickstart.gin"], [f"cohort = '{tmp_path}/ward.h5'", *params])
    trainer.train(runs.Run(tmp_path / "run"), export=export_encoder)

    assert reports(tmp_path / "run")[-1]["val_accuracy"] >= 100 / config.macro("queue_size")

    subject = load_run(tmp_path / "run")
    cohort, model = subject.cohort, subject.model
    embed = embedder(model.encoder)
    splits = ("train", "val", "test")
    representations = {split: embed(Windows(cohort[split], model.encoder.history)) for split in splits}
    raw = {split: cohort[split].data for split in splits}
    assert auroc(representations, cohort) >= auroc(raw, cohort) + 0.02


def auroc(features: dict[str, np.ndarray], cohort: Cohort) -> float:
    """Test AUROC of an MLP head that early stopping chose on validation data."""
    keras.utils.set_random_seed(0)
    head = Head("mlp", 2)
    head.build((None, features["train"].shape[1]))
    samples = {split: LabelledSamples.from_array(features[split], cohort[split].classes[:, 0]) for split in features}
    weights = class_weights(samples["train"].classes, 2, balanced=True)
    fit(head, samples["train"], samples["val"], weights, SeparateEpochs(5e-4, 256, patience=5, max_epochs=40), seed=0)
    return roc_auc_score(samples["test"].classes, predictor(head, samples["test"])()[:, 1])
