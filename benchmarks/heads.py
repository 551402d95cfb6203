"""An epoch of head training: on embeddings that were computed once, against through the frozen encoder."""

import pathlib
import tempfile
import time
from collections.abc import Callable

import keras
import numpy as np
import tensorflow as tf

from benchmarks.measure import Row, interleaved
from ncl_tf.data.cohort import Cohort, write_cohort
from ncl_tf.data.datasets import PHYSIONET2019
from ncl_tf.data.simulator.ward import write_ward
from ncl_tf.data.sources import physionet2019
from ncl_tf.data.splits import random_split
from ncl_tf.data.windows import Windows
from ncl_tf.evaluation.heads import LabelledSamples, embedder, epoch_function, predictor
from ncl_tf.networks import HEADS
from ncl_tf.networks.fast.encoder import FastEncoder
from ncl_tf.networks.heads import Head, class_weights

BATCH = 2048  # the protocol's
SHARE = 0.05  # of an epoch that is measured through the encoder
SIMULATED_STAYS = 2000


def evaluate(path: str | None) -> list[Row]:
    """Each head on a cohort's first task; without a cohort, on a simulated ward.

    "readable" is through the frozen encoder, in its fast form and compiled: a share of an epoch, scaled to a whole one.
    """
    with tempfile.TemporaryDirectory() as folder:
        cohort = Cohort(path) if path else simulated(pathlib.Path(folder))
        encoder = FastEncoder(cohort.static_columns)
        encoder.build((None, encoder.history, len(cohort.columns)))
        windows = {split: Windows(cohort[split], encoder.history) for split in ("train", "val")}
        began = time.perf_counter()
        embed = embedder(encoder)
        embeddings = {split: embed(windows[split]) for split in windows}
        embedding = time.perf_counter() - began
        cached = {
            split: LabelledSamples.from_array(embeddings[split], cohort[split].classes[:, 0]) for split in windows
        }
        represent = tf.function(encoder, jit_compile=True)
        through = {split: _through(represent, windows[split], cached[split]) for split in windows}
        rows = []
        for kind in HEADS:
            works = {"readable": _epoch(kind, cohort, through), "fast": _epoch(kind, cohort, cached)}
            seconds = interleaved(works, repeats=3)
            seconds["readable"] *= len(cached["train"].rows) / len(through["train"].rows)
            row = {"evaluate": f"{kind} head, {cohort.name}", "hours": len(cached["train"].rows)}
            row |= {f"{form} s": value for form, value in seconds.items()}
            row |= {"ratio": seconds["readable"] / seconds["fast"], "measured share of readable": SHARE}
            rows.append(row | {"embedding once s": embedding})
        return rows


def simulated(folder: pathlib.Path) -> Cohort:
    """A simulated ward's cohort."""
    write_ward(SIMULATED_STAYS, seed=1, output=folder / "ward")
    stays, checksum = physionet2019.read_stays([folder / "ward"])
    write_cohort(folder / "ward.h5", PHYSIONET2019, stays, random_split(stays.ever_positive(), seed=0), checksum)
    return Cohort(folder / "ward.h5")


def _through(represent: Callable, windows: Windows, everything: LabelledSamples) -> LabelledSamples:
    """A share of the samples, from all over the split, whose inputs are computed whenever they are asked for."""
    count = len(everything.rows)
    some = np.linspace(0, count - 1, max(round(SHARE * count), 1)).astype(int)
    return LabelledSamples(
        lambda rows: represent(windows.gather(rows)["window"]), everything.rows[some], everything.classes[some]
    )


def _epoch(kind: str, cohort: Cohort, samples: dict[str, LabelledSamples]) -> Callable[[], None]:
    """One pass over the training samples and one over the validation samples, with a head of its own."""
    classes = cohort.tasks[0].classes
    head = Head(kind, classes)
    head.build((None, 64))
    optimizer = keras.optimizers.Adam(1e-4)
    optimizer.build(head.trainable_variables)
    weights = class_weights(samples["train"].classes, classes, balanced=False)
    train, validate = epoch_function(head, optimizer, samples["train"], weights, BATCH), predictor(head, samples["val"])
    return lambda: (train(1, 0), validate())
