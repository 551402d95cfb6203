"""The protocol: who gets labels, what is frozen, and that the test split is looked at once, at the end."""

import keras
import numpy as np
import pytest

from ncl_tf.data import Cohort
from ncl_tf.errors import InputError
from ncl_tf.evaluation.evaluator import Evaluator
from ncl_tf.networks.encoder import Encoder
from ncl_tf.training.protocol import Protocol, labelled_rows, limited_stays

PROTOCOL = Protocol(
    {"linear": 1e-2, "mlp": 1e-2}, fine_tune_rate=1e-3, balanced=True, batch_size=256, patience=2, max_epochs=3
)


@pytest.fixture(scope="module")
def cohort(ward_cohort):
    return Cohort(ward_cohort)


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


@pytest.mark.parametrize("fraction", [0, -0.1, 1.5, 0.01])
def test_bad_fractions(cohort, fraction):
    with pytest.raises(InputError, match=f"{fraction}"):
        limited_stays(cohort["train"], 0, fraction, seed=1)


def test_a_bad_seed_of_labels(cohort):
    with pytest.raises(InputError, match="the label seed is -1; allowed: 0 and above"):
        limited_stays(cohort["train"], 0, 0.5, seed=-1)


def test_of_bins_a_fraction_of_all_stays_is_taken(mimic_ward_cohort):
    split = Cohort(mimic_ward_cohort)["train"]
    assert len(limited_stays(split, 1, 0.25, seed=1, binary=False)) == round(0.25 * len(split.patient_windows))


def test_labelled_rows_of_some_stays(mimic_ward_cohort):
    split = Cohort(mimic_ward_cohort)["train"]
    rows = labelled_rows(split, 0, np.array([1, 3]))
    expected = [
        row
        for stay in (1, 3)
        for row in range(split.patient_windows[stay, 0], split.patient_windows[stay, 1] + 1)
        if not np.isnan(split.labels[row, 0])
    ]
    assert rows.tolist() == expected


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


@pytest.mark.slow
def test_training_and_choice_never_touch_the_test_split(cohort, eager):
    guarded = WithoutTest(cohort)
    judge = Evaluator(guarded, "sepsis", PROTOCOL, seed=1)
    ways = [
        lambda: judge.frozen(new_encoder(), "mlp"),
        lambda: judge.raw("last_hour", "linear", 48),
        lambda: judge.raw("window", "linear", 48),
        lambda: judge.fine_tuned(new_encoder(), "mlp"),
    ]
    for way in ways:
        judged = way()
        assert "test" not in guarded.asked
        with pytest.raises(AssertionError, match="touched"):
            judge.score(judged, "test")
        guarded.asked.remove("test")


def test_scores_are_those_of_the_predictions(cohort):
    from sklearn.metrics import average_precision_score, roc_auc_score

    judge = Evaluator(cohort, "sepsis", PROTOCOL, seed=1)
    scores, predictions = judge.score(judge.raw("last_hour", "linear", 48), "val")
    labels = cohort["val"].labels[:, 0]
    assert scores["metrics"]["auroc"] == pytest.approx(roc_auc_score(labels, predictions[:, 1]))
    assert scores["metrics"]["auprc"] == pytest.approx(average_precision_score(labels, predictions[:, 1]))
    low, high = scores["intervals"]["auroc"]
    assert low <= scores["metrics"]["auroc"] <= high
    assert "utility" in scores["metrics"]


def test_bins_are_judged_by_kappa(mimic_ward_cohort):
    cohort = Cohort(mimic_ward_cohort)
    protocol = Protocol({"linear": 1e-2}, batch_size=256, patience=2, max_epochs=3)
    judge = Evaluator(cohort, "length_of_stay", protocol, seed=1)
    scores, predictions = judge.score(judge.raw("last_hour", "linear", 48), "val")
    assert set(scores["metrics"]) == {"kappa", "accuracy"}
    assert predictions.shape == (len(cohort["val"].data), 10)


def test_a_task_that_the_cohort_lacks(cohort):
    with pytest.raises(InputError, match="'mortality'.*sepsis"):
        Evaluator(cohort, "mortality", PROTOCOL, seed=1)
