"""Encoder, objective, training step and embedding: readable against fast at the paper's sizes, on random windows."""

from collections.abc import Callable

import keras
import numpy as np
import tensorflow as tf

from ncl_tf import augmentations, encoders, factories
from ncl_tf.benchmarks.measure import Row, in_own_process, interleaved
from ncl_tf.data.windows import HISTORY
from ncl_tf.fast.pieces import means_in_pieces
from ncl_tf.methods.momentum import MomentumContrast
from ncl_tf.methods.supervised import Terms
from ncl_tf.neighborhoods import Attributes, Neighborhood, SameLabel, SameStayWithin

COLUMNS, STATIC = 40, 5  # PhysioNet 2019
BATCH, QUEUE = 2048, 65536  # the paper's
STAYS, HOURS = 25813, 38  # training stays and mean hours of a stay in PhysioNet 2019
FORMS = {"readable": False, "fast": True}
NEIGHBORHOODS: dict[str, Neighborhood] = {
    "n_w, w = 12": SameStayWithin(12),
    "n_w, w = infinite": SameStayWithin(None),
    "n_Y": SameLabel(),
}


def encoder() -> list[Row]:
    """Forward, and forward with gradients, for both views of a batch."""
    windows = random_windows(2 * BATCH)
    rows = []
    for what, maker in (("forward", _forward), ("forward + backward", _backward)):
        works = {form: maker(built_encoder(fast), windows) for form, fast in FORMS.items()}
        rows.append(_row({"encoder": what, "windows": 2 * BATCH}, interleaved(works, repeats=5)))
    return rows


def objective() -> list[Row]:
    """Value and gradient for each neighbourhood, then time and memory of the fast form as the queue grows."""
    rows = []
    for name, neighborhood in NEIGHBORHOODS.items():
        works = {form: _objective(neighborhood, QUEUE, fast) for form, fast in FORMS.items()}
        row = _row({"objective": name, "queue": QUEUE}, interleaved(works, repeats=3))
        for form in FORMS:
            row[f"{form} GiB"] = in_own_process(__name__, "run_objective", name, QUEUE, form)
        rows.append(row)
    for queue in (QUEUE // 4, QUEUE // 2, 2 * QUEUE):
        name = "n_w, w = 12"
        seconds = interleaved({"fast": _objective(NEIGHBORHOODS[name], queue, True)}, repeats=3)
        memory = in_own_process(__name__, "run_objective", name, queue, "fast")
        rows.append({"objective": name, "queue": queue, "fast s": seconds["fast"], "fast GiB": memory})
    return rows


def step() -> list[Row]:
    """Whole training steps, then the fast one over batch and queue sizes."""
    rows = []
    for name in ("n_w, w = 12", "n_Y"):
        works = {form: _step(name, BATCH, QUEUE, fast) for form, fast in FORMS.items()}
        row = _row({"step": name, "batch": BATCH, "queue": QUEUE}, interleaved(works, repeats=3))
        for form in FORMS:
            row[f"{form} GiB"] = in_own_process(__name__, "run_step", name, BATCH, QUEUE, form)
        rows.append(row)
    for batch, queue in ((BATCH, QUEUE // 4), (BATCH, QUEUE // 2), (BATCH // 4, QUEUE), (BATCH // 8, QUEUE // 4)):
        seconds = interleaved({"fast": _step("n_w, w = 12", batch, queue, True)}, repeats=3)
        rows.append({"step": "n_w, w = 12", "batch": batch, "queue": queue, "fast s": seconds["fast"]})
    return rows


def embed() -> list[Row]:
    """Representations of every hour of whole stays, without gradients, in windows per second."""
    count = 2 * BATCH
    rows = tf.random.stateless_normal([count, COLUMNS], [1, 2])
    hour = tf.range(count) % HOURS
    works = {form: _embed(built_encoder(fast), rows, hour) for form, fast in FORMS.items()}
    seconds = interleaved(works, repeats=5)
    row = {"embed": f"{count} hours of stays of {HOURS} hours, windows of {HISTORY} x {COLUMNS}"}
    row |= {f"{form} windows/s": count / seconds[form] for form in FORMS}
    return [row | {"ratio": seconds["readable"] / seconds["fast"]}]


def run_objective(name: str, queue: int, form: str) -> None:
    """For the measurement of memory."""
    _objective(NEIGHBORHOODS[name], queue, FORMS[form])()


def run_step(name: str, batch: int, queue: int, form: str) -> None:
    """For the measurement of memory."""
    work = _step(name, batch, queue, FORMS[form])
    work(), work()


def random_windows(count: int) -> tf.Tensor:
    """[count, 48, 40] standard normal numbers."""
    return tf.random.stateless_normal([count, HISTORY, COLUMNS], [1, 2])


def random_attributes(count: int, seed: int) -> Attributes:
    """Random hours of as many stays as PhysioNet 2019 has, 2 % of them positive."""
    generator = np.random.default_rng(seed)
    columns = (
        generator.integers(STAYS, size=count),
        generator.integers(HOURS, size=count),
        generator.random(count) < 0.02,
    )
    return Attributes(*(tf.constant(column, tf.int32) for column in columns))


def built_encoder(fast: bool) -> encoders.Encoder:
    """The paper's encoder."""
    made = encoders.Encoder(STATIC, fast=fast)
    made.build((None, HISTORY, COLUMNS))
    return made


def _forward(made: encoders.Encoder, windows: tf.Tensor) -> Callable[[], None]:
    call = tf.function(made, jit_compile=True)
    return lambda: call(windows).numpy()


def _embed(made: encoders.Encoder, rows: tf.Tensor, hour: tf.Tensor) -> Callable[[], None]:
    call = tf.function(made.stays, jit_compile=True)
    return lambda: call(rows, hour).numpy()


def _backward(made: encoders.Encoder, windows: tf.Tensor) -> Callable[[], None]:
    def mean(windows: tf.Tensor) -> Terms:
        return Terms(tf.reduce_mean(made(windows, training=True)[:, 0] ** 2))

    @tf.function(jit_compile=True)
    def loss_and_gradients() -> tuple[tf.Tensor, list[tf.Tensor]]:
        variables = made.trainable_variables
        with tf.GradientTape() as tape:
            loss = (means_in_pieces(mean, windows, variables, Terms) if made.fast else mean(windows)).loss
        return loss, tape.gradient(loss, variables)

    return lambda: loss_and_gradients()[0].numpy()


def _objective(neighborhood: Neighborhood, queue: int, fast: bool) -> Callable[[], None]:
    anchors = 2 * BATCH
    projections, keys = (
        tf.math.l2_normalize(tf.random.stateless_normal([count, 64], [3, count]), axis=1) for count in (anchors, queue)
    )
    key_attributes = random_attributes(queue, seed=4)
    attributes = Attributes(*(value[:anchors] for value in key_attributes))
    own = tf.range(anchors)
    other = tf.roll(own, BATCH, axis=0)
    form = factories.fast_or_readable(fast)

    @tf.function(jit_compile=True)
    def gradient(projections: tf.Tensor, keys: tf.Tensor) -> tf.Tensor:
        with tf.GradientTape() as tape:
            tape.watch(projections)
            terms = form(projections, attributes, keys, key_attributes, own, other, neighborhood, 0.4, 0.1)
        return tape.gradient(terms.loss, projections)

    return lambda: gradient(projections, keys).numpy()


def _step(name: str, batch: int, queue: int, fast: bool) -> Callable[[], None]:
    networks = [
        (encoders.Encoder(STATIC, fast=fast, name=f"{prefix}encoder"), encoders.Projector(name=f"{prefix}projector"))
        for prefix in ("", "momentum_")
    ]
    model = MomentumContrast(
        *networks[0],
        *networks[1],
        augmentations.Augmentation(STATIC),
        factories.fast_or_readable(fast),
        NEIGHBORHOODS[name],
        alpha=0.4,
        temperature=0.1,
        momentum=0.99,
        queue_size=queue,
        task=0,
    )
    model.build((None, HISTORY, COLUMNS))
    model.compile(optimizer=keras.optimizers.Adam(1e-3, name="adam"), jit_compile=True)
    attributes = random_attributes(queue, seed=5)
    model.store(model.queue._replace(attributes=attributes))  # a queue full of real keys
    batches = {
        "window": random_windows(batch),
        "stay": attributes.stay[:batch],
        "hour": attributes.hour[:batch],
        "label": attributes.label[:batch, None],
    }
    train_step = tf.function(model.train_step, jit_compile=True)
    return lambda: float(train_step(batches)["loss"])


def _row(row: Row, seconds: dict[str, float]) -> Row:
    row |= {f"{form} s": value for form, value in seconds.items()}
    return row | {"ratio": seconds["readable"] / seconds["fast"]}
