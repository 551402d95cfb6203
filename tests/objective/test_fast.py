"""The fast objective against the readable one of `ncl_tf.objective.losses`."""

from typing import NamedTuple

import numpy as np
import pytest
import tensorflow as tf

from ncl_tf.objective.fast import losses as fast_losses
from ncl_tf.objective.fast.losses import FastObjective
from ncl_tf.objective.losses import Anchors, Objective, Terms
from ncl_tf.objective.neighborhoods import Attributes, DecayingWithin, Intersection, SameLabel, SameStayWithin, Union
from refusals import refused


def same_parity(anchors: Attributes, keys: Attributes) -> tf.Tensor:
    """A user's own neighborhood."""
    return anchors.hour[:, None] % 2 == keys.hour[None, :] % 2


NEIGHBORHOODS = {
    "w=0": SameStayWithin(0),
    "w=12": SameStayWithin(12),
    "w=1.5": SameStayWithin(1.5),
    "w<=3": SameStayWithin(3, inclusive=True),
    "w=inf": SameStayWithin(None),
    "label": SameLabel(),
    "intersection": Intersection(SameStayWithin(12), SameLabel()),
    "windows": Intersection(SameStayWithin(5), SameStayWithin(None)),
    "soft intersection": Intersection(SameStayWithin(12), DecayingWithin(3.0)),
    "union": Union(SameStayWithin(12), SameLabel()),
    "own": same_parity,
    "weighted": DecayingWithin(4.0),
}


class Problem(NamedTuple):
    """Projections of anchors, and the arguments of `against`."""

    projections: tf.Tensor
    keys: tf.Tensor
    key_attributes: Attributes
    anchors: Anchors


def make_problem(
    seed: int = 0, samples=12, keys=150, size=8, labels=2, own: bool = True, views_together: bool = False
) -> Problem:
    """Both views of `samples` samples, somewhere among the keys or together; the first keys are start-up entries.

    Start-up entries have hours and labels of real ones, which must not matter. A quarter of the hours is unlabelled.
    """
    random = np.random.default_rng(seed)
    views = 20 + (np.arange(keys - 20) if views_together else random.permutation(keys - 20))[: 2 * samples]
    stay, hour = random.integers(0, 9, keys), random.integers(0, 40, keys)
    label = np.where(random.random(keys) < 0.25, -1, random.integers(0, labels, keys))
    stay[:20] = -1
    for attribute in (stay, hour, label):
        attribute[views[samples:]] = attribute[views[:samples]]
    vectors = unit(random, keys, size)
    other = np.roll(views, samples)
    projections = vectors[other] + random.uniform(0.2, 3.0, (2 * samples, 1)) * unit(random, 2 * samples, size)
    return Problem(
        tf.constant(projections / np.linalg.norm(projections, axis=1, keepdims=True), tf.float32),
        tf.constant(vectors, tf.float32),
        Attributes(*map(integers, (stay, hour, label))),
        Anchors(
            Attributes(*(integers(attribute[views]) for attribute in (stay, hour, label))),
            integers(views if own else np.full_like(views, -1)),
            integers(other),
        ),
    )


def unit(random: np.random.Generator, number: int, size: int) -> np.ndarray:
    vectors = random.normal(size=(number, size))
    return vectors / np.linalg.norm(vectors, axis=1, keepdims=True)


def integers(values: np.ndarray) -> tf.Tensor:
    return tf.constant(values, tf.int32)


def terms_of(objective: Objective, problem: Problem) -> Terms:
    contrast = objective.against(*problem[1:])
    return contrast(problem.projections, contrast.anchors)


def terms_and_gradients(form: type[Objective], problem: Problem, neighborhood, temperature: float = 0.1, **settings):
    """The objective's terms, and the gradients of its three losses."""
    with tf.GradientTape(persistent=True) as tape:
        tape.watch(problem.projections)
        terms = terms_of(form(neighborhood, 0.4, temperature, **settings), problem)
    return terms, [tape.gradient(loss, problem.projections) for loss in terms[:3]]


def assert_close(fast, readable) -> None:
    (terms, gradients), (expected, expected_gradients) = fast, readable
    np.testing.assert_allclose(terms[:3], expected[:3], rtol=1e-5, atol=1e-5)
    assert terms.accuracy == expected.accuracy
    for ours, theirs in zip(gradients, expected_gradients, strict=True):
        # Where the other view is the only neighbor, the gradient of L_ND is zero, up to rounding.
        assert np.linalg.norm(ours - theirs) <= 1e-5 * np.linalg.norm(theirs) + 1e-6


def assert_same(problem: Problem, neighborhood, temperature: float = 0.1, chunk: int = 16) -> None:
    assert_close(
        terms_and_gradients(FastObjective, problem, neighborhood, temperature, chunk=chunk),
        terms_and_gradients(Objective, problem, neighborhood, temperature),
    )


@pytest.fixture(autouse=True)
def join(monkeypatch):
    """Has n_w joined, whether or not that is faster for so few keys."""
    monkeypatch.setattr(fast_losses, "KEYS_PER_JOINED", 0)


@pytest.mark.parametrize(("temperature", "own"), [(0.1, True), (0.05, False), (0.02, True)])
@pytest.mark.parametrize("name", NEIGHBORHOODS)
def test_equals_the_readable_form(name, temperature, own):
    assert_same(make_problem(own=own), NEIGHBORHOODS[name], temperature)


@pytest.mark.parametrize("name", ["w=12", "w=inf", "intersection"])
def test_stays_with_too_many_keys_to_join(name, monkeypatch):
    monkeypatch.setattr(fast_losses, "KEYS_PER_JOINED", 10**6)
    assert_same(make_problem(), NEIGHBORHOODS[name])


@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize("labels", [2, 10])
def test_labels(labels, seed):
    # Enough keys that most chunks of them have one label, once sorted.
    assert_same(make_problem(seed, keys=700, labels=labels), SameLabel(), chunk=20)


@pytest.mark.parametrize(
    ("chunk", "views_together"), [(7, False), (150, False), (1000, False), (16, True)]
)  # of 150 keys; at last, 6 in the last chunk, padded and without views
@pytest.mark.parametrize("name", ["w=12", "label", "union"])
def test_any_chunk(name, chunk, views_together):
    assert_same(make_problem(views_together=views_together), NEIGHBORHOODS[name], chunk=chunk)


@pytest.mark.parametrize("name", ["w=12", "label", "weighted"])
def test_no_underflow_when_the_positive_is_the_farthest_key(name):
    problem = make_problem()
    opposite = problem._replace(projections=-tf.gather(problem.keys, problem.anchors.other))
    assert_same(opposite, NEIGHBORHOODS[name], temperature=0.005)


@pytest.mark.parametrize("jit_compile", [False, True])
@pytest.mark.parametrize("name", ["w=12", "label", "union"])
def test_compiled(name, jit_compile):
    problem, neighborhood = make_problem(), NEIGHBORHOODS[name]

    @tf.function(jit_compile=jit_compile)
    def compiled(problem: Problem):
        return terms_and_gradients(FastObjective, problem, neighborhood, chunk=16)

    assert_close(compiled(problem), terms_and_gradients(Objective, problem, neighborhood))


@pytest.mark.parametrize("name", ["w=12", "label", "union"])
def test_unknown_numbers_of_anchors_and_keys(name):
    def unknown(tensor: tf.Tensor) -> tf.TensorSpec:
        return tf.TensorSpec([None, *tensor.shape[1:]], tensor.dtype)

    problem, neighborhood = make_problem(), NEIGHBORHOODS[name]
    function = tf.function(
        lambda problem: terms_and_gradients(FastObjective, problem, neighborhood, chunk=16),
        input_signature=[tf.nest.map_structure(unknown, problem)],
    )
    for keys in (150, 160):
        problem = make_problem(keys=keys)
        assert_close(function(problem), terms_and_gradients(Objective, problem, neighborhood))


@pytest.mark.parametrize("name", ["w=12", "label", "union"])
def test_anchors_of_no_stay(name):
    problem = make_problem()
    nowhere = problem.anchors.attributes._replace(stay=tf.fill([24], -1))
    assert_same(problem._replace(anchors=problem.anchors._replace(attributes=nowhere)), NEIGHBORHOODS[name])


@pytest.mark.parametrize("name", ["w=12", "union"])
@pytest.mark.parametrize("seed", range(3))
def test_a_tie_is_not_won(name, seed):
    # Coordinates of 0.5 and -0.5 leave 64 different keys, whose scores have no rounding errors.
    problem = make_problem(seed, samples=10, keys=60, size=6)
    keys = tf.sign(problem.keys) / 2
    problem = problem._replace(keys=keys, projections=tf.gather(keys, problem.anchors.other))
    terms = terms_of(FastObjective(NEIGHBORHOODS[name], 0.4, 0.125, chunk=2), problem)
    copies = (keys.numpy()[:, None] == keys.numpy()[problem.anchors.other.numpy()]).all(axis=2)  # [K, A]
    copies[problem.anchors.own.numpy(), np.arange(20)] = False
    np.testing.assert_allclose(terms.accuracy, np.mean(copies.sum(axis=0) == 1))
    assert 0 < terms.accuracy < 1
    assert_same(problem, NEIGHBORHOODS[name], temperature=0.125, chunk=2)


def largest_tensor(function) -> int:
    """The number of elements of the largest tensor in a traced function or in anything it calls."""
    definitions = function.graph.as_graph_def(add_shapes=True)
    nodes = [*definitions.node, *(node for called in definitions.library.function for node in called.node_def)]
    shapes = [shape for node in nodes for shape in node.attr["_output_shapes"].list.shape]
    assert len(shapes) > 100
    return max(abs(int(np.prod([dimension.size for dimension in shape.dim]))) for shape in shapes)


@pytest.mark.parametrize("name", ["w=12", "label", "union"])
def test_memory_grows_with_the_chunk_only(name):
    problem = make_problem(samples=40, keys=2000, size=4)

    def largest(form, **settings) -> int:
        function = tf.function(lambda: terms_and_gradients(form, problem, NEIGHBORHOODS[name], **settings))
        return largest_tensor(function.get_concrete_function())

    assert largest(Objective) >= 80 * 2000
    assert largest(FastObjective, chunk=200) <= 80 * 200


def test_keys_carry_no_gradient():
    problem = make_problem()
    with tf.GradientTape() as tape:
        tape.watch(problem.keys)
        terms = terms_of(FastObjective(SameLabel(), 0.4, 0.1), problem)
    assert tape.gradient(terms.loss, problem.keys) is None


class EveryOtherHour(SameStayWithin):
    """A user's subclass with a meaning of its own."""

    def __call__(self, anchors: Attributes, keys: Attributes) -> tf.Tensor:
        return super().__call__(anchors, keys) & same_parity(anchors, keys)


@pytest.mark.parametrize("neighborhood", [EveryOtherHour(12), Intersection(SameLabel(), EveryOtherHour(None))])
def test_subclasses_mean_what_they_say(neighborhood):
    assert_same(make_problem(), neighborhood)


BAD = [("alpha", -0.1), ("alpha", 1.1), ("temperature", 0.0), ("temperature", -1.0)]
BAD_OF_FORMS = [*((form, *bad) for form in (Objective, FastObjective) for bad in BAD), (FastObjective, "chunk", 0)]


@pytest.mark.parametrize(("form", "name", "value"), BAD_OF_FORMS)
def test_refuses_bad_settings(form, name, value):
    with refused(f"{name} ", value):
        form(SameLabel(), **({"alpha": 0.4, "temperature": 0.1} | {name: value}))


@pytest.mark.parametrize("name", ["w=12", "label", "intersection", "union", "own"])
def test_some_of_the_anchors_at_a_time(name):
    problem = make_problem(samples=300, keys=700)
    contrast = FastObjective(NEIGHBORHOODS[name], 0.4, 0.1, chunk=64).against(*problem[1:])
    for some in (slice(0, 256), slice(256, 512), slice(512, 600)):
        piece = tf.nest.map_structure(lambda values, some=some: values[some], (problem.projections, problem.anchors))
        of_piece = Problem(piece[0], problem.keys, problem.key_attributes, piece[1])
        expected = terms_of(Objective(NEIGHBORHOODS[name], 0.4, 0.1), of_piece)
        anchors = tf.nest.map_structure(lambda values, some=some: values[some], contrast.anchors)
        np.testing.assert_allclose(contrast(piece[0], anchors), expected, rtol=1e-5, atol=1e-5)
