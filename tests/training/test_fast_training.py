"""Training with the fast forms is training with the readable ones, with and without XLA."""

import keras
import numpy as np
import pytest

from ncl_tf.data import Cohort
from ncl_tf.data.augmentations import Augmentation
from ncl_tf.data.windows import Windows
from ncl_tf.methods.momentum import MomentumContrast
from ncl_tf.networks.encoder import Projector
from ncl_tf.networks.fast import pieces
from ncl_tf.objective.fast import losses as fast_losses
from ncl_tf.objective.neighborhoods import SameLabel, SameStayWithin
from ncl_tf.training import factories

STEPS = 50


def losses(cohort: Cohort, neighborhood, fast: bool, jit_compile: bool) -> np.ndarray:
    keras.utils.set_random_seed(3)
    encoder, form = factories.fast_or_readable(fast)
    networks = []
    for prefix in ("", "momentum_"):
        networks.append(encoder(5, filters=16, dilations=(1, 24), name=f"{prefix}encoder"))
        networks.append(Projector(name=f"{prefix}projector"))
    objective = form(neighborhood, alpha=0.4, temperature=0.1)
    model = MomentumContrast(*networks, Augmentation(5), objective, momentum=0.9, queue_size=512, task=0, seed=3)
    model.build((None, 48, 40))
    model.compile(optimizer=keras.optimizers.Adam(1e-3), jit_compile=jit_compile)
    values = []  # mean loss so far, after each step
    callback = keras.callbacks.LambdaCallback(on_train_batch_end=lambda _, logs: values.append(float(logs["loss"])))
    batches = Windows(cohort["train"], 48).training(64, seed=3)
    model.fit(batches, steps_per_epoch=STEPS, callbacks=[callback], shuffle=False, verbose=0)
    return np.array(values)


@pytest.mark.parametrize(
    "neighborhood", [SameStayWithin(12), pytest.param(SameLabel(), marks=pytest.mark.slow)], ids=["n_w", "n_Y"]
)
def test_fifty_steps_follow_the_readable_forms(neighborhood, ward_cohort, monkeypatch):
    monkeypatch.setattr(fast_losses, "KEYS_PER_JOINED", 1)  # neighbours found by stay, however short the queue
    monkeypatch.setattr(pieces, "SIZE_PER_THREAD", 48)  # the batch, 128 views, in pieces
    cohort = Cohort(ward_cohort)
    readable = losses(cohort, neighborhood, fast=False, jit_compile=False)
    assert readable[-1] != readable[0]
    for fast, jit_compile in ((True, False), (True, True)):
        np.testing.assert_allclose(losses(cohort, neighborhood, fast, jit_compile), readable, rtol=1e-3)
