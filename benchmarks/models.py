"""Encoder, objective, training step and embedding: readable against fast at the paper's sizes, on random windows.

The readable forms are measured as they stand, the way the authors' code runs, and compiled by XLA, as the fast ones are.
"""

from collections.abc import Callable, Sequence
from typing import Any

import keras
import numpy as np
import tensorflow as tf

from benchmarks.measure import Row, in_own_processes
from ncl_tf.data import augmentations
from ncl_tf.methods.momentum import MomentumContrast
from ncl_tf.methods.supervised import CrossEntropy
from ncl_tf.networks.encoder import Encoder, Projector
from ncl_tf.objective.losses import Anchors
from ncl_tf.objective.neighborhoods import Attributes, Neighborhood, SameLabel, SameStayWithin
from ncl_tf.training import factories

HISTORY = 48  # hours, the paper's
COLUMNS, STATIC = 40, 5  # PhysioNet 2019
BATCH, QUEUE = 2048, 65536  # the paper's
STAYS, HOURS = 25813, 38  # training stays and mean hours of a stay in PhysioNet 2019
FORMS = {"readable": (False, False), "readable with XLA": (False, True), "fast": (True, True)}  # fast forms?, XLA?
GROWING = "n_w, w = 12"  # the neighborhood with which time and memory are measured as sizes grow
NEIGHBORHOODS: dict[str, Neighborhood] = {
    "n_w, w = 12": SameStayWithin(12),
    "n_w, w = infinite": SameStayWithin(None),
    "n_Y": SameLabel(),
}


def encoder() -> list[Row]:
    """Measure the encoder forward, and forward with gradients, for both views of a batch."""
    rows = []
    for what, work in (("forward", "forward"), ("forward + backward", "backward")):
        rows.append({"encoder": what, "windows": 2 * BATCH} | _compared(work, repeats=5))
    return rows


def objective() -> list[Row]:
    """Measure value and gradient for each neighborhood, then time and memory of the fast form as the queue grows."""
    rows = []
    for name in NEIGHBORHOODS:
        rows.append({"objective": name, "queue": QUEUE} | _compared("value_and_gradient", name, QUEUE))
    for queue in (QUEUE // 4, QUEUE // 2, 2 * QUEUE):
        rows.append({"objective": GROWING, "queue": queue} | _measured("value_and_gradient", GROWING, queue))
    return rows


def step() -> list[Row]:
    """Measure whole training steps, then the fast one over batch and queue sizes."""
    rows = []
    for name in ("n_w, w = 12", "n_Y"):
        rows.append({"step": name, "batch": BATCH, "queue": QUEUE} | _compared("training_step", name, BATCH, QUEUE))
    for batch, queue in ((BATCH, QUEUE // 4), (BATCH, QUEUE // 2), (BATCH // 4, QUEUE), (BATCH // 8, QUEUE // 4)):
        rows.append(
            {"step": GROWING, "batch": batch, "queue": queue} | _measured("training_step", GROWING, batch, queue)
        )
    return rows


def embed() -> list[Row]:
    """Measure representations of every hour of whole stays, without gradients, in windows per second."""
    count = 2 * BATCH
    row = _compared("embedding", count, repeats=5)
    rates = {f"{form} windows/s": count / row[f"{form} s"] for form in FORMS}
    return [
        {"embed": f"{count} hours of stays of {HOURS} hours, windows of {HISTORY} x {COLUMNS}"} | rates | _ratios(row)
    ]


def _compared(work: str, *arguments: Any, repeats: int = 3) -> Row:
    """Return seconds and memory of all forms, and the gain of the fast one."""
    row = _measured(work, *arguments, forms=tuple(FORMS), repeats=repeats)
    return row | _ratios(row)


def _measured(work: str, *arguments: Any, forms: Sequence[str] = ("fast",), repeats: int = 3) -> Row:
    measured = in_own_processes(f"{__name__}.{work}", {form: [*arguments, form] for form in forms}, repeats)
    seconds = {f"{form} s": value.seconds for form, value in measured.items()}
    return seconds | {f"{form} GiB": value.memory for form, value in measured.items()}


def _ratios(row: Row) -> Row:
    readable, with_xla, fast = (row[f"{form} s"] for form in FORMS)
    return {"ratio": readable / fast, "ratio with XLA": with_xla / fast}


def random_windows(count: int) -> tf.Tensor:
    """Draw [count, 48, 40] standard normal numbers."""
    return tf.random.stateless_normal([count, HISTORY, COLUMNS], [1, 2])


def random_attributes(count: int, seed: int) -> Attributes:
    """Draw random hours of as many stays as PhysioNet 2019 has, 2 % of them positive."""
    generator = np.random.default_rng(seed)
    columns = (
        generator.integers(STAYS, size=count),
        generator.integers(HOURS, size=count),
        generator.random(count) < 0.02,
    )
    return Attributes(*(tf.constant(column, tf.int32) for column in columns))


def built_encoder(fast: bool) -> Encoder:
    """Make the paper's encoder."""
    made = factories.fast_or_readable(fast)[0](STATIC)
    made.build((None, HISTORY, COLUMNS))
    return made


def forward(form: str) -> Callable[[], None]:
    """Make the work of both views of a batch through the encoder."""
    fast, xla = FORMS[form]
    windows, call = random_windows(2 * BATCH), tf.function(built_encoder(fast), jit_compile=xla)
    return lambda: call(windows).numpy()


def backward(form: str) -> Callable[[], None]:
    """Make the same work with a loss and its gradients."""
    fast, xla = FORMS[form]
    windows, made = random_windows(2 * BATCH), built_encoder(fast)

    def mean(windows: tf.Tensor) -> CrossEntropy:
        return CrossEntropy(tf.reduce_mean(made(windows)[:, 0] ** 2))

    @tf.function(jit_compile=xla)
    def loss_and_gradients(windows: tf.Tensor) -> tuple[tf.Tensor, list[tf.Tensor]]:
        variables = made.trainable_variables
        with tf.GradientTape() as tape:
            loss = made.means(mean, windows, variables, CrossEntropy).loss
        return loss, tape.gradient(loss, variables)

    return lambda: loss_and_gradients(windows)[0].numpy()


def embedding(count: int, form: str) -> Callable[[], None]:
    """Make the work of every hour of whole stays through the encoder."""
    fast, xla = FORMS[form]
    rows, hour = tf.random.stateless_normal([count, COLUMNS], [1, 2]), tf.range(count) % HOURS
    call = tf.function(built_encoder(fast).stays, jit_compile=xla)
    return lambda: call(rows, hour).numpy()


def value_and_gradient(name: str, queue: int, form: str) -> Callable[[], None]:
    """Make the work of the objective of both views of a batch and its gradient with respect to their projections."""
    fast, xla = FORMS[form]
    anchors = 2 * BATCH
    projections, keys = (
        tf.math.l2_normalize(tf.random.stateless_normal([count, 64], [3, count]), axis=1) for count in (anchors, queue)
    )
    key_attributes = random_attributes(queue, seed=4)
    attributes = Attributes(*(value[:anchors] for value in key_attributes))
    own = tf.range(anchors)
    other = tf.roll(own, BATCH, axis=0)
    _, objective = factories.fast_or_readable(fast)

    @tf.function(jit_compile=xla)
    def gradient(projections: tf.Tensor, keys: tf.Tensor) -> tf.Tensor:
        with tf.GradientTape() as tape:
            tape.watch(projections)
            anchors = Anchors(attributes, own, other)
            contrast = objective(NEIGHBORHOODS[name], 0.4, 0.1).against(keys, key_attributes, anchors)
            terms = contrast(projections, contrast.anchors)
        return tape.gradient(terms.loss, projections)

    return lambda: gradient(projections, keys).numpy()


def training_step(name: str, batch: int, queue: int, form: str) -> Callable[[], None]:
    """Make the work of a whole training step, always on the same batch."""
    fast, xla = FORMS[form]
    encoder, objective = factories.fast_or_readable(fast)
    networks = [
        (encoder(STATIC, name=f"{prefix}encoder"), Projector(name=f"{prefix}projector")) for prefix in ("", "momentum_")
    ]
    model = MomentumContrast(
        *networks[0],
        *networks[1],
        augmentations.Augmentation(STATIC),
        objective(NEIGHBORHOODS[name], alpha=0.4, temperature=0.1),
        momentum=0.99,
        queue_size=queue,
        task=0,
    )
    return step_on(model, random_windows(batch), xla)


def step_on(model: MomentumContrast, windows: tf.Tensor, xla: bool) -> Callable[[], None]:
    """Make the work of a whole training step of a model that is not built yet, always on the same windows [N, T, C]."""
    batch = windows.shape[0]
    model.build((None, *windows.shape[1:]))
    model.compile(optimizer=keras.optimizers.Adam(1e-3, name="adam"), jit_compile=xla)
    attributes = random_attributes(model.queue_size, seed=5)
    model.store(model.queue._replace(attributes=attributes))  # a queue full of real keys
    batches = {
        "window": windows,
        "stay": attributes.stay[:batch],
        "hour": attributes.hour[:batch],
        "label": attributes.label[:batch, None],
    }
    train_step = tf.function(model.train_step, jit_compile=xla)
    return lambda: float(train_step(batches)["loss"])
