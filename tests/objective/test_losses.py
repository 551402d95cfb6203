"""The objective against loops and against the formulas of its special cases, in numpy float64."""

from typing import NamedTuple

import numpy as np
import pytest
import tensorflow as tf

from ncl_tf.objective.losses import Anchors, Objective, Terms
from ncl_tf.objective.neighborhoods import Attributes, DecayingWithin, SameLabel, SameStayWithin


class Case(NamedTuple):
    projections: np.ndarray
    attributes: Attributes
    keys: np.ndarray
    key_attributes: Attributes
    own: np.ndarray
    other: np.ndarray


def unit(vectors: np.ndarray) -> np.ndarray:
    return vectors / np.linalg.norm(vectors, axis=-1, keepdims=True)


def random_case(seed: int, samples: int = 5, older: int = 12, start_up: int = 4, size: int = 6) -> Case:
    """Both views of the samples, as anchors and as first keys; then older entries; then start-up entries."""
    random = np.random.default_rng(seed)

    def attributes(n: int) -> np.ndarray:
        return np.stack([random.integers(0, 3, n), random.integers(0, 9, n), random.integers(-1, 2, n)])

    anchors = np.tile(attributes(samples), 2)
    keys = np.concatenate([anchors, attributes(older), np.full((3, start_up), -1)], axis=1)
    index = np.arange(2 * samples)
    return Case(
        unit(random.normal(size=(2 * samples, size))),
        Attributes(*tf.constant(anchors, tf.int32)),
        unit(random.normal(size=(keys.shape[1], size))),
        Attributes(*tf.constant(keys, tf.int32)),
        index.astype(np.int32),
        ((index + samples) % (2 * samples)).astype(np.int32),
    )


def authors_case(seed: int, samples: int = 5, older: int = 12) -> Case:
    """Anchors of one view; the other view's projections first among the keys, and no own projection there."""
    case = random_case(seed, samples, older)
    kept = slice(samples, None)
    return Case(
        case.projections[:samples],
        Attributes(*(column[:samples] for column in case.attributes)),
        case.keys[kept],
        Attributes(*(column[kept] for column in case.key_attributes)),
        np.full(samples, -1, np.int32),
        np.arange(samples, dtype=np.int32),
    )


def anchors_of(case: Case) -> Anchors:
    return Anchors(case.attributes, tf.constant(case.own), tf.constant(case.other))


def terms_of(case: Case, projections: tf.Tensor, keys: tf.Tensor, *settings) -> Terms:
    contrast = Objective(*settings).against(keys, case.key_attributes, anchors_of(case))
    return contrast(projections, contrast.anchors)


def evaluate(case: Case, neighborhood, alpha: float = 0.3, temperature: float = 0.1, dtype=tf.float64) -> Terms:
    projections, keys = tf.constant(case.projections, dtype), tf.constant(case.keys, dtype)
    return terms_of(case, projections, keys, neighborhood, alpha, temperature)


def loop(case: Case, weights: np.ndarray, alpha: float, temperature: float) -> np.ndarray:
    """loss, L_NA, L_ND, accuracy, anchor by anchor, key by key, dimension by dimension."""
    anchors, size = case.projections.shape
    stays = case.key_attributes.stay.numpy()
    rows = []
    for i in range(anchors):
        everything = neighbors = weighted_score = weight = 0.0
        scores = {}
        for k in range(len(case.keys)):
            if k == case.own[i]:
                continue
            score = 0.0
            for d in range(size):
                score += case.projections[i, d] * case.keys[k, d] / temperature
            scores[k] = score
            m = weights[i, k] if stays[k] >= 0 else 0.0
            m = 1.0 if k == case.other[i] else m
            everything += np.exp(score)
            neighbors += m * np.exp(score)
            weighted_score += m * score
            weight += m
        alignment = np.log(everything) - weighted_score / weight
        discrimination = np.log(neighbors) - scores[case.other[i]]
        loss = alpha * alignment + (1 - alpha) * discrimination
        rows.append([loss, alignment, discrimination, max(scores, key=scores.get) == case.other[i]])
    return np.mean(rows, axis=0)


def random_weights(seed: int, case: Case) -> np.ndarray:
    """About a third each of 0, 1 and something between."""
    return np.clip(np.random.default_rng(seed).uniform(-1, 2, (len(case.own), len(case.keys))), 0, 1)


@pytest.mark.parametrize("make_case", [random_case, authors_case])
@pytest.mark.parametrize("alpha, temperature", [(0.3, 0.1), (0.0, 0.5), (1.0, 0.02)])
@pytest.mark.parametrize("seed", range(3))
def test_equals_loop(make_case, alpha, temperature, seed):
    case = make_case(seed)
    soft = random_weights(seed, case)
    for weights in (soft, (soft > 0.5) * 1.0, np.zeros_like(soft), np.ones_like(soft)):
        terms = evaluate(case, lambda *_, weights=weights: tf.constant(weights), alpha, temperature)
        np.testing.assert_allclose(terms, loop(case, weights, alpha, temperature), rtol=1e-6, atol=1e-6)


def test_numbers_by_hand():
    """One sample and one older key in the plane: scores s = p . q / tau are 2 (other view), 0 and 1, at tau = 0.5."""
    attributes = Attributes(*(tf.constant([value] * 2) for value in (7, 3, 0)))
    keys = tf.constant([[1.0, 0.0], [1.0, 0.0], [0.0, 1.0], [0.5, 3**0.5 / 2]], tf.float64)  # own, other, two older
    key_attributes = Attributes(*(tf.constant(column) for column in ([7, 7, 7, 8], [3, 3, 5, 3], [0, 0, 0, 0])))
    case = Case(np.array([[1.0, 0.0]] * 2), attributes, keys, key_attributes, np.int32([0, 1]), np.int32([1, 0]))
    terms = evaluate(case, SameStayWithin(3), alpha=0.25, temperature=0.5)  # of the older keys, the first is a neighbor
    e = np.exp
    alignment, discrimination = np.log(e(2) + e(0) + e(1)) - (2 + 0) / 2, np.log(e(2) + e(0)) - 2
    expected = [0.25 * alignment + 0.75 * discrimination, alignment, discrimination, 1]
    np.testing.assert_allclose(terms, expected, rtol=1e-12)


@pytest.mark.parametrize("seed", range(3))
def test_float32_and_xla(seed):
    case, neighborhood = random_case(seed), DecayingWithin(2)
    expected = evaluate(case, neighborhood)
    compiled = tf.function(lambda: evaluate(case, neighborhood, dtype=tf.float32), jit_compile=True)()
    for terms in (evaluate(case, neighborhood, dtype=tf.float32), compiled):
        assert all(term.dtype == tf.float32 for term in terms)
        np.testing.assert_allclose(terms, expected, rtol=1e-5)


def log_softmax_without_own(case: Case, temperature: float) -> np.ndarray:
    """log(exp(s_ik) / sum_{l != i} exp(s_il)), [A, K]."""
    scores = case.projections @ case.keys.T / temperature
    is_own = np.arange(len(case.keys)) == case.own[:, None]
    return scores - np.log(np.sum(np.where(is_own, 0, np.exp(scores)), axis=1, keepdims=True))


@pytest.mark.parametrize("seed", range(3))
def test_contrastive_loss_is_alpha_1_and_window_0(seed):
    case = random_case(seed)
    expected = -np.mean([log_softmax_without_own(case, 0.1)[i, other] for i, other in enumerate(case.other)])
    np.testing.assert_allclose(evaluate(case, SameStayWithin(0), alpha=1.0).loss, expected, rtol=1e-9)


@pytest.mark.parametrize("seed", range(3))
def test_supervised_contrastive_loss_is_alpha_1_and_same_label(seed):
    case = random_case(seed)
    log_probabilities = log_softmax_without_own(case, 0.1)
    labels, key_labels = case.attributes.label.numpy(), case.key_attributes.label.numpy()
    losses = []
    for i, label in enumerate(labels):
        same = [k for k, key_label in enumerate(key_labels) if key_label == label and k != case.own[i]]
        same = same if label >= 0 else [case.other[i]]
        losses.append(-np.mean(log_probabilities[i, same]))
    np.testing.assert_allclose(evaluate(case, SameLabel(), alpha=1.0).loss, np.mean(losses), rtol=1e-9)


def test_subject_aware_contrastive_loss_is_alpha_0_and_infinite_window():
    case = random_case(0)
    scores = case.projections @ case.keys.T / 0.1
    stays, key_stays = case.attributes.stay.numpy(), case.key_attributes.stay.numpy()
    losses = []
    for i, stay in enumerate(stays):
        same = [k for k, key_stay in enumerate(key_stays) if key_stay == stay and k != case.own[i]]
        losses.append(-np.log(np.exp(scores[i, case.other[i]]) / np.sum(np.exp(scores[i, same]))))
    np.testing.assert_allclose(evaluate(case, SameStayWithin(None), alpha=0.0).loss, np.mean(losses), rtol=1e-9)


def gradient(case: Case, neighborhood, alpha=0.3, temperature=0.1, dtype=tf.float64) -> tuple[tf.Tensor, tf.Tensor]:
    """Of the loss with respect to projections and keys."""
    with tf.GradientTape() as tape:
        projections, keys = tf.constant(case.projections, dtype), tf.constant(case.keys, dtype)
        tape.watch([projections, keys])
        terms = terms_of(case, projections, keys, neighborhood, alpha, temperature)
    return tape.gradient(terms.loss, [projections, keys])


@pytest.mark.parametrize("make_case", [random_case, authors_case])
@pytest.mark.parametrize("alpha", [0.0, 0.3, 1.0])
def test_gradient_equals_finite_differences(make_case, alpha):
    case = make_case(4, samples=3, older=6)
    weights = tf.constant(random_weights(4, case))
    actual, keys = gradient(case, lambda *_: weights, alpha)
    assert keys is None
    expected, step = np.zeros_like(case.projections), 1e-5
    for position in np.ndindex(expected.shape):
        shift = np.zeros_like(expected)
        shift[position] = step
        up, down = (
            evaluate(case._replace(projections=case.projections + s), lambda *_: weights, alpha).loss
            for s in (shift, -shift)
        )
        expected[position] = (up - down) / (2 * step)
    np.testing.assert_allclose(actual, expected, rtol=1e-6, atol=1e-8)


@pytest.mark.parametrize("seed", range(3))
def test_keys_outside_the_neighborhood_leave_the_discrimination_untouched(seed):
    case = random_case(seed)
    weights = random_weights(seed, case) * (np.arange(len(case.keys)) % 3 > 0)  # every third key: in no neighborhood
    outsiders = np.setdiff1d(np.arange(0, len(case.keys), 3), case.other)
    keys = case.keys.copy()
    keys[outsiders] *= 50
    changed = case._replace(keys=keys)

    def neighborhood(*_):
        return tf.constant(weights)

    assert evaluate(case, neighborhood).discrimination == evaluate(changed, neighborhood).discrimination
    np.testing.assert_array_equal(*(gradient(c, neighborhood, alpha=0.0)[0] for c in (case, changed)))


@pytest.mark.parametrize("temperature", [0.01, 0.001])
def test_small_temperatures_are_stable_in_float32(temperature):
    case = random_case(5)
    weights = random_weights(5, case)
    actual = evaluate(case, lambda *_: tf.constant(weights), 0.3, temperature, tf.float32)
    scores = np.longdouble(case.projections @ case.keys.T) / temperature  # beyond the range of float64's exp
    members = np.where(case.key_attributes.stay.numpy() < 0, 0, weights)
    members[np.arange(10), case.own], members[np.arange(10), case.other] = 0, 1
    everything = np.where(np.arange(len(case.keys)) == case.own[:, None], 0, np.exp(scores)).sum(1)
    alignment = np.log(everything) - (members * scores).sum(1) / members.sum(1)
    discrimination = np.log((members * np.exp(scores)).sum(1)) - scores[np.arange(10), case.other]
    np.testing.assert_allclose(actual.alignment, np.float64(alignment.mean()), rtol=1e-5)
    np.testing.assert_allclose(actual.discrimination, np.float64(discrimination.mean()), rtol=1e-5)
    gradients = [gradient(case, lambda *_: tf.constant(weights), a, temperature, tf.float32)[0] for a in (0.0, 1.0)]
    assert np.all(np.isfinite(gradients))


@pytest.mark.parametrize("sign, accuracy", [(1, 1.0), (-1, 0.0)])
def test_perfect_and_bad_batch(sign, accuracy):
    """Each sample on its own axis; its other view's key is the same vector, or in the bad batch the opposite one."""
    n, temperature = 4, 0.1
    case = random_case(0, samples=n, older=0, start_up=0)
    views = np.concatenate([np.eye(n), sign * np.eye(n)])
    terms = evaluate(case._replace(projections=views, keys=views), SameStayWithin(0), 1.0, temperature)
    assert terms.accuracy == accuracy
    expected = np.log(np.exp(sign / temperature) + 2 * n - 2) - sign / temperature
    np.testing.assert_allclose(terms.loss, expected, rtol=1e-6, atol=1e-9)
