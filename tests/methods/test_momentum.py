"""Momentum contrast against a simulation by hand: keys, queue, followers and objective, step by step."""

import pathlib
import subprocess
import sys
from collections import deque
from typing import NamedTuple

import keras
import numpy as np
import pytest
import tensorflow as tf

from ncl_tf.data.augmentations import Augmentation, Draws
from ncl_tf.errors import InputError
from ncl_tf.methods.authors import OtherViewKeys, momentum_contrast_class
from ncl_tf.methods.momentum import MomentumContrast
from ncl_tf.networks.encoder import Encoder, Projector
from ncl_tf.objective.losses import Objective
from ncl_tf.objective.neighborhoods import SameLabel, SameStayWithin

HOURS, COLUMNS, STATIC, SIZE = 12, 6, 2, 8
SAMPLES, QUEUE = 4, 16  # two steps fill the queue with both views, four with one
RHO, TAU, ALPHA, SEED = 0.8, 0.2, 0.3, 5
TASK = 1  # of two label columns
TERMS = ("loss", "alignment", "discrimination", "accuracy")


def make_model(
    build: bool = True,
    initial: int = 3,
    neighborhood=SameStayWithin(3),  # noqa: B008 - frozen
    authors_keys: bool = False,
    independent_start: bool = False,
    **settings,
) -> MomentumContrast:
    keras.utils.set_random_seed(initial)
    tcn = {"size": SIZE, "filters": SIZE, "dilations": (6,), "history": HOURS}
    kind = momentum_contrast_class(authors_keys, independent_start, "static_dropout" in settings)
    model = kind(
        Encoder(STATIC, **tcn, name="encoder"),
        Projector(SIZE, name="projector"),
        Encoder(STATIC, **tcn, name="momentum_encoder"),
        Projector(SIZE, name="momentum_projector"),
        Augmentation(STATIC),
        Objective(neighborhood, ALPHA, TAU),
        **({"queue_size": QUEUE, "seed": SEED, "momentum": RHO} | settings),
    )
    if build:
        model.build((None, HOURS, COLUMNS))
    return model


def make_batches(steps: int, seed: int = 0, samples: int = SAMPLES) -> list[dict[str, np.ndarray]]:
    """Few stays, hours and labels, so that neighbors are common; one label in three is missing."""
    random = np.random.default_rng(seed)
    return [
        {
            "window": random.normal(size=(samples, HOURS, COLUMNS)).astype(np.float32),
            "stay": random.integers(0, 3, samples).astype(np.int32),
            "hour": random.integers(0, 6, samples).astype(np.int32),
            "label": random.integers(-1, 2, (samples, 2)).astype(np.int32),
        }
        for _ in range(steps)
    ]


def as_dataset(batches: list[dict[str, np.ndarray]]) -> tf.data.Dataset:
    whole = {name: np.stack([batch[name] for batch in batches]) for name in batches[0]}
    return tf.data.Dataset.from_tensor_slices(whole)


def compiled(model: MomentumContrast, **kwargs) -> MomentumContrast:
    """With plain gradient descent: its steps show the gradient's scale, which Adam would hide."""
    model.compile(optimizer=keras.optimizers.SGD(0.1), **({"run_eagerly": True} | kwargs))
    return model


def weights_of(model: keras.Model) -> dict[str, np.ndarray]:
    return {variable.path: np.array(variable) for variable in model.variables}


# By hand


class Sample(NamedTuple):
    """One view of one sample, with its momentum projection."""

    key: np.ndarray
    stay: int
    hour: int
    label: int


def everyone(anchors, keys) -> tf.Tensor:
    return tf.ones([tf.size(anchors.stay), tf.size(keys.stay)], tf.bool)


RULES = {
    "n_w": (SameStayWithin(3), lambda i, k: i.stay == k.stay and abs(i.hour - k.hour) < 3),
    "n_y": (SameLabel(), lambda i, k: i.label == k.label and i.label != -1),
    "everyone": (everyone, lambda i, k: True),
}


def loss_by_hand(projection: np.ndarray, anchor: Sample, other: Sample, keys: list[Sample], rule) -> tuple[float, ...]:
    """(L_NA, L_ND, hit) of one anchor, whose keys hold its other view and not its own projection."""
    scores = [float(projection.astype(np.float64) @ key.key.astype(np.float64)) / TAU for key in keys]
    positive = next(s for s, key in zip(scores, keys, strict=True) if key is other)
    members = [key is other or (key.stay != -1 and rule(anchor, key)) for key in keys]
    neighbors = [score for score, member in zip(scores, members, strict=True) if member]
    alignment = np.log(np.sum(np.exp(scores))) - np.mean(neighbors)
    discrimination = np.log(np.sum(np.exp(neighbors))) - positive
    return alignment, discrimination, float(max(scores) == positive)


def step_by_hand(model: MomentumContrast, batch: dict[str, np.ndarray], step: int, queue: deque, rule) -> np.ndarray:
    """Terms of one step by hand; moves `queue`, newest first, as the paper or the authors' code does."""
    draws = [Draws(SEED, step, view) for view in range(2)]
    views = [model.augmentation(batch["window"], draws=draws[view]) for view in range(2)]
    projections = [np.array(model.projector(model.encoder(view))) for view in views]
    keys = [np.array(model.momentum_projector(model.momentum_encoder(view))) for view in views]
    labels = np.full(SAMPLES, -1) if model.task is None else batch["label"][:, TASK]
    authors_keys = isinstance(model, OtherViewKeys)
    samples = [
        [Sample(keys[v][i], batch["stay"][i], batch["hour"][i], labels[i]) for i in range(SAMPLES)] for v in range(2)
    ]
    older = list(queue)
    queue.extendleft(reversed(samples[0] if authors_keys else samples[0] + samples[1]))  # the oldest drop out
    terms = []
    for view in range(2):
        for i in range(SAMPLES):
            own, other = samples[view][i], samples[1 - view][i]
            candidates = samples[1 - view] + older if authors_keys else [k for k in queue if k is not own]
            terms.append(loss_by_hand(projections[view][i], own, other, candidates, rule))
    alignment, discrimination, accuracy = np.mean(terms, axis=0)
    return np.array([ALPHA * alignment + (1 - ALPHA) * discrimination, alignment, discrimination, accuracy])


def start_of(model: MomentumContrast) -> deque:
    attributes = zip(np.array(model.queue_keys), *(np.array(value) for value in model.queue.attributes), strict=True)
    return deque((Sample(*entry) for entry in attributes), maxlen=model.queue_size)


def assert_queue_is(model: MomentumContrast, queue: deque) -> None:
    np.testing.assert_allclose(model.queue.keys, np.stack([sample.key for sample in queue]), rtol=0, atol=1e-6)
    for name, value in model.queue.attributes._asdict().items():
        assert np.array(value).tolist() == [getattr(sample, name) for sample in queue]


@pytest.mark.parametrize(
    ("rule", "authors_keys", "steps"),
    [("n_w", False, 5), ("n_w", True, 9), ("n_y", False, 2), ("n_y", True, 2), ("everyone", False, 2)],
)
def test_steps_equal_a_simulation_by_hand(rule, authors_keys, steps):
    neighborhood, by_hand = RULES[rule]
    task = TASK if rule == "n_y" else None
    model = compiled(make_model(neighborhood=neighborhood, authors_keys=authors_keys, task=task))
    queue = start_of(model)
    for step, batch in enumerate(make_batches(steps)):
        before = weights_of(model)
        expected = step_by_hand(model, batch, step, queue, by_hand)
        model.reset_metrics()
        logs = model.train_step(as_tensors(batch))
        np.testing.assert_allclose([logs[name] for name in TERMS], expected, rtol=1e-5, atol=1e-5)
        assert_queue_is(model, queue)
        after = weights_of(model)
        for path, value in after.items():
            if "/momentum_" in path:
                trained = after[path.replace("/momentum_encoder", "/encoder").replace("/momentum_proj", "/proj")]
                np.testing.assert_allclose(value, RHO * before[path] + (1 - RHO) * trained, rtol=0, atol=3e-7)
    replaced = steps * SAMPLES * (1 if authors_keys else 2)
    assert sum(sample.stay == -1 for sample in queue) == max(QUEUE - replaced, 0)


def test_entries_of_the_start_are_unit_vectors_that_nobody_owns():
    model = make_model()
    np.testing.assert_allclose(np.linalg.norm(model.queue_keys, axis=1), 1, atol=1e-6)
    assert len(np.unique(np.round(model.queue_keys, 3), axis=0)) == QUEUE
    for value in model.queue.attributes:
        assert set(np.array(value)) == {-1}


def test_momentum_networks_start_as_copies_or_on_their_own():
    def pairs(model: MomentumContrast) -> list[tuple[np.ndarray, np.ndarray]]:
        values = weights_of(model)
        return [
            (value, values[path.replace("/encoder", "/momentum_encoder").replace("/proj", "/momentum_proj", 1)])
            for path, value in values.items()
            if "/encoder/" in path or "/projector/" in path
        ]

    for trained, following in pairs(make_model()):
        np.testing.assert_array_equal(trained, following)
    kernels = [pair for pair in pairs(make_model(independent_start=True)) if pair[0].ndim > 1]
    assert len(kernels) == 6  # three convolutions, the merging layer, two of the projector
    for trained, following in kernels:
        assert not np.isclose(trained, following).any()


@pytest.mark.parametrize("authors_keys", [False, True], ids=["paper", "authors"])
def test_gradient_of_the_trained_networks_is_the_objectives_and_momentum_networks_get_none(authors_keys):
    model = make_model(authors_keys=authors_keys, neighborhood=everyone)
    model.compile(optimizer=keras.optimizers.SGD(1.0), run_eagerly=True)
    following = [v for v in model.variables if "/momentum_" in v.path]
    assert len(following) == len(model.trainable_variables) > 0
    assert not {v.path for v in following} & {v.path for v in model.trainable_variables}
    batch = as_tensors(make_batches(1)[0])
    with tf.GradientTape(persistent=True) as tape:
        for variable in following:
            tape.watch(variable.value)
        views, anchors = model.two_views(batch, step=0)
        keys = model.momentum_projector(model.momentum_encoder(views))
        projections = model.projector(model.encoder(views))
        terms, _ = model.contrast(views, anchors, keys, training=True)
        # All real keys are neighbors. L_NA and L_ND once more, from scores with the own projection (paper) or its
        # view's half (authors) taken out.
        scores = projections @ tf.transpose(tf.stop_gradient(tf.concat([keys, model.queue_keys], axis=0))) / TAU
        real, width = 2 * SAMPLES, 2 * SAMPLES + QUEUE
        side = np.arange(real) // SAMPLES
        out = side[:, None] == side[None] if authors_keys else np.eye(real, dtype=bool)
        kept = np.ones((real, width), np.float32)
        kept[:, :real] -= out
        if not authors_keys:
            kept[:, QUEUE:] = 0  # both views replaced the oldest 2N
        neighbors = kept[:, :real]
        exp = tf.exp(scores)
        alignment = tf.math.log(tf.reduce_sum(exp * kept, 1)) - tf.reduce_sum(scores[:, :real] * neighbors, 1) / (
            neighbors.sum(1)
        )
        positive = tf.gather(scores, (np.arange(real) + SAMPLES) % real, batch_dims=1)
        discrimination = tf.math.log(tf.reduce_sum(exp[:, :real] * neighbors, 1)) - positive
        loss = tf.reduce_mean(ALPHA * alignment + (1 - ALPHA) * discrimination)
    assert tape.gradient(terms.loss, [v.value for v in following]) == [None] * len(following)
    gradients = tape.gradient(loss, [v.value for v in model.trainable_variables])
    before = weights_of(model)
    model.train_step(batch)
    for variable, gradient in zip(model.trainable_variables, gradients, strict=True):
        np.testing.assert_allclose(variable, before[variable.path] - gradient, rtol=0, atol=2e-6)


def test_frozen_projector_keeps_its_weights_while_the_encoder_learns():
    model = compiled(make_model(freeze_projector=True))
    before = weights_of(model)
    model.fit(as_dataset(make_batches(3)), verbose=0, shuffle=False)
    for path, value in weights_of(model).items():
        if "/projector/" in path or "/momentum_projector/" in path:
            np.testing.assert_array_equal(value, before[path])
        elif path.endswith("kernel"):
            assert not np.array_equal(value, before[path]), path


def test_evaluation_changes_nothing_and_uses_views_without_dropout_in_the_encoder():
    model = compiled(make_model(static_dropout=0.5))
    model.fit(as_dataset(make_batches(2)), verbose=0, shuffle=False)
    before = weights_of(model) | {v.path: np.array(v) for v in model.optimizer.variables}
    batch = make_batches(1, seed=9)
    found = model.evaluate(as_dataset(batch), verbose=0, return_dict=True)
    expected = step_by_hand(model, batch[0], -1, start_of(model), RULES["n_w"][1])
    np.testing.assert_allclose([found[name] for name in TERMS], expected, rtol=1e-5)
    after = weights_of(model) | {v.path: np.array(v) for v in model.optimizer.variables}
    assert before.keys() == after.keys()
    for path, value in before.items():
        np.testing.assert_array_equal(after[path], value)


def test_dropout_inside_the_encoders_is_of_static_values_and_differs_between_the_encoders():
    model, seen = compiled(make_model(static_dropout=0.5)), []
    for encoder in (model.encoder, model.momentum_encoder):
        encoder.call = lambda windows, call=encoder.call: (seen.append(windows.numpy()), call(windows))[1]
    batch = as_tensors(make_batches(1)[0])
    views, _ = model.two_views(batch, step=0)
    model.train_step(batch)
    assert len(seen) == 2
    for windows in seen:
        np.testing.assert_array_equal(windows[:, :, STATIC:], views[:, :, STATIC:])
        static, before = windows[:, -1, :STATIC], views.numpy()[:, -1, :STATIC]
        np.testing.assert_allclose(static, np.where(static == 0, 0, 2 * before), rtol=1e-6)
        assert 0 < (static[before != 0] == 0).mean() < 1
    assert not np.array_equal(*seen)


def as_tensors(batch: dict[str, np.ndarray]) -> dict[str, tf.Tensor]:
    return {name: tf.constant(value) for name, value in batch.items()}


@pytest.fixture(scope="module")
def model_under_xla():
    """A model that its first step builds, and its losses in twenty steps."""
    model = compiled(make_model(build=False), run_eagerly=False, jit_compile=True)
    return model, fit_by_steps(model)


def fit_by_steps(model: MomentumContrast) -> list[float]:
    """The loss of each of twenty steps; every step an epoch, since Keras reports means over an epoch."""
    dataset = as_dataset(make_batches(20)).repeat()
    return model.fit(dataset, epochs=20, steps_per_epoch=1, verbose=0, shuffle=False).history["loss"]


@pytest.mark.slow
def test_losses_are_the_same_with_and_without_xla(model_under_xla):
    without = fit_by_steps(compiled(make_model(), run_eagerly=False, jit_compile=False))
    np.testing.assert_allclose(model_under_xla[1], without, rtol=1e-3)
    assert np.ptp(without) > 0.1  # they do move


def test_weights_saved_by_keras_hold_the_queue(model_under_xla, tmp_path):
    model = model_under_xla[0]
    model.save_weights(tmp_path / "model.weights.h5")
    other = make_model(initial=4, seed=6)
    other.load_weights(tmp_path / "model.weights.h5")
    assert -1 not in np.array(other.queue.attributes.stay)
    for path, value in weights_of(model).items():
        np.testing.assert_array_equal(weights_of(other)[path], value)


def test_predict_gives_the_encoders_representations_of_windows_and_of_batches():
    model = compiled(make_model())
    batches = make_batches(2)
    windows = np.concatenate([batch["window"] for batch in batches])
    expected = model.encoder(windows)
    np.testing.assert_allclose(model.predict(windows, verbose=0), expected, atol=1e-6)
    np.testing.assert_allclose(model.predict(as_dataset(batches), verbose=0), expected, atol=1e-6)


@pytest.mark.parametrize(
    "setting", [{"momentum": 1}, {"momentum": -0.1}, {"momentum": float("nan")}, {"queue_size": 0}], ids=str
)
def test_bad_settings_are_refused(setting):
    (name, value), *_ = setting.items()
    with pytest.raises(InputError, match=rf"{name} .*{value}"):
        make_model(build=False, **setting)


@pytest.mark.slow
def test_two_devices_train_as_one_with_the_joint_batch():
    """In a process of its own: TensorFlow takes logical devices only before it starts."""
    script = pathlib.Path(__file__).with_name("two_devices.py")
    command = [sys.executable, str(script)]
    result = subprocess.run(command, cwd=script.parents[2], capture_output=True, text=True, timeout=300, check=False)
    assert result.stdout.endswith("two devices equal one\n"), result.stderr[-3000:]
