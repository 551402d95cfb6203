"""The protocol: who gets labels, what classifiers are trained with, and that the test split is seen once, at the end."""

import dataclasses

import keras
import numpy as np
import pytest
import tensorflow as tf

from ncl_tf.data import Cohort
from ncl_tf.evaluation.evaluator import Evaluator
from ncl_tf.networks.encoder import Encoder
from ncl_tf.training.protocol import Protocol, labelled_rows, limited_stays
from refusals import refused

PROTOCOL = Protocol(
    {"linear": 1e-2, "mlp": 1e-2}, fine_tune_rate=1e-3, balanced=True, batch_size=256, patience=2, max_epochs=3
)


def new_encoder():
    keras.utils.set_random_seed(1)
    encoder = Encoder(5, filters=8, dilations=(24,))
    encoder.build((None, 48, 40))
    return encoder


@pytest.mark.parametrize("fraction", [0.2, 0.5, 1.0])
def test_limited_labels_are_a_fraction_of_each_stratum(cohort, fraction):
    split = cohort["train"]
    positive = np.array([split.labels[first : last + 1, 0].max() == 1 for first, last, _ in split.patient_windows])
    chosen = limited_stays(split, 0, fraction, seed=4)
    assert len(set(chosen)) == len(chosen)
    assert abs(positive[chosen].sum() - fraction * positive.sum()) <= 0.5
    assert abs((~positive[chosen]).sum() - fraction * (~positive).sum()) <= 0.5


def test_limited_labels_depend_on_the_seed_alone(cohort):
    choices = [tuple(limited_stays(cohort["train"], 0, 0.5, seed)) for seed in (1, 1, 2, 3)]
    assert choices[0] == choices[1]
    assert len(set(choices)) == 3
    with refused("label seed & 0 or more & -1"):
        limited_stays(cohort["train"], 0, 0.5, -1)


def test_initial_weights_of_a_head_depend_on_the_seed(cohort):
    still = dataclasses.replace(PROTOCOL, rates={"linear": 1e-12}, max_epochs=1)  # the weights stay where they began
    heads = (Evaluator(cohort, "sepsis", still, seed).raw("last_hour", "linear", 48).classifier for seed in (1, 1, 2))
    one, again, other = (head.get_weights()[0] for head in heads)
    np.testing.assert_array_equal(one, again)
    assert np.abs(one - other).max() > 1e-2


def test_of_bins_a_fraction_of_all_stays_is_taken(mimic_ward_cohort):
    split = Cohort(mimic_ward_cohort)["train"]
    assert len(limited_stays(split, 1, 0.25, seed=1, binary=False)) == round(0.25 * len(split.patient_windows))


def test_labelled_rows_of_some_stays(mimic_ward_cohort):
    split = Cohort(mimic_ward_cohort)["train"]
    rows = np.concatenate([np.arange(first, last + 1) for first, last, _ in split.patient_windows[[1, 3]]])
    np.testing.assert_array_equal(labelled_rows(split, 0, np.array([1, 3])), rows[~np.isnan(split.labels[rows, 0])])


class WithoutTest:
    """A cohort that refuses to give its test split."""

    def __init__(self, cohort: Cohort) -> None:
        self.cohort, self.asked = cohort, []

    def __getattr__(self, name: str):
        return getattr(self.cohort, name)

    def __getitem__(self, split: str):
        self.asked.append(split)
        if split == "test":
            raise AssertionError("the test split was touched")
        return self.cohort[split]


def ways(evaluator, head="mlp"):
    return {
        "frozen": lambda: evaluator.frozen(new_encoder(), head),
        "last_hour": lambda: evaluator.raw("last_hour", head, 48),
        "window": lambda: evaluator.raw("window", head, 48),
        "fine_tuned": lambda: evaluator.fine_tuned(new_encoder(), head),
    }


WAYS = ("frozen", "last_hour", "window", "fine_tuned")


@pytest.mark.parametrize("way", WAYS)
def test_training_and_choice_never_touch_the_test_split(cohort, eager, way):
    guarded = WithoutTest(cohort)
    evaluator = Evaluator(guarded, "sepsis", dataclasses.replace(PROTOCOL, batch_size=4096, max_epochs=1), seed=1)
    trained = ways(evaluator)[way]()
    assert set(guarded.asked) == {"train", "val"}
    with pytest.raises(AssertionError, match="touched"):
        evaluator.score(trained, "test")


class Captured(Exception):
    """Ends a training before it begins; holds what it was given."""


@pytest.mark.parametrize(("head", "labels"), [("linear", 1.0), ("mlp", 0.5)])
@pytest.mark.parametrize("way", WAYS)
def test_classifiers_are_trained_with_what_the_protocol_says(cohort, eager, monkeypatch, way, head, labels):
    def captured(classifier, training, validation, weights, plan, seed, max_minutes, **_):
        raise Captured(classifier, training, validation, weights, plan, seed, max_minutes)

    monkeypatch.setattr("ncl_tf.evaluation.evaluator.fit", captured)
    rates = {"linear": 0.1, "mlp": 0.2}
    protocol = dataclasses.replace(PROTOCOL, rates=rates, fine_tune_rate=0.3, batch_size=100, max_minutes=7)
    evaluator = Evaluator(cohort, "sepsis", protocol, seed=6, labels=labels, label_seed=4)
    with pytest.raises(Captured) as caught:
        ways(evaluator, head)[way]()
    classifier, training, validation, weights, plan, seed, max_minutes = caught.value.args
    tuned = way == "fine_tuned"
    assert (plan.rate, plan.batch_size) == (0.3 if tuned else rates[head], round(100 * labels))
    assert (plan.patience, plan.max_epochs) == (2, 3)
    assert (seed, max_minutes) == (6, 7 if tuned else None)
    assert len(classifier.trainable_variables) == {"linear": 2, "mlp": 6}[head] + tuned * len(new_encoder().weights)
    split = cohort["train"]
    stays = range(len(split.lengths)) if labels == 1 else limited_stays(split, 0, labels, seed=4)
    rows = np.concatenate([np.arange(first, last + 1) for first, last, _ in split.patient_windows[stays]])
    np.testing.assert_array_equal(training.rows, rows)
    np.testing.assert_array_equal(training.classes, split.labels[rows, 0])
    np.testing.assert_array_equal(validation.rows, np.arange(len(cohort["val"].data)))
    np.testing.assert_array_equal(validation.classes, cohort["val"].labels[:, 0])
    p = split.labels[rows, 0].mean()  # of the labels that are used
    np.testing.assert_allclose(weights, [0.5 / (1 - p), 0.5 / p], rtol=1e-5)
    if labels < 1:
        assert abs(weights[1] - 0.5 / split.labels[:, 0].mean()) > 0.1
    first = training.inputs(tf.constant([60, 0]))  # of the right split: the last hour, or what the windows end with
    if way in ("window", "fine_tuned"):
        np.testing.assert_array_equal(first[:, -1], split.data[[60, 0]])
    elif way == "last_hour":
        np.testing.assert_array_equal(first, split.data[[60, 0]])
