"""Metrics of groups against scikit-learn and plain loops over the group's stays."""

import dataclasses
import json

import numpy as np
import pytest
from sklearn import metrics

from ncl_tf.data.groups import Characteristic
from ncl_tf.evaluation.calibration import Calibrator
from ncl_tf.evaluation.events import AlarmPolicy
from ncl_tf.evaluation.risk import AlarmChoice, HourScores, Risks
from ncl_tf.evaluation.subgroups import METRICS
from ncl_tf.evaluation.ward import ward_metrics

POLICY = AlarmPolicy(horizon=8, silence=4, lead=2)
THRESHOLD, STAYS = 0.7, 110


FITTED = Risks(Calibrator("logistic", 1.5, -1.0), {}, AlarmChoice(THRESHOLD, "utility", None, POLICY, {}))


@pytest.fixture(scope="module")
def stays():
    """Scores, labels (of which some are missing) and risks of stays; those of group 2 are ranked badly."""
    random = np.random.default_rng(0)
    made = []
    for number in range(STAYS):
        hours = int(random.integers(6, 30))
        labels = np.zeros(hours)
        if number % 2 == 0 and number % 5 != 4:
            labels[int(random.integers(3, hours)) :] = 1
        labels[random.random(hours) < 0.05] = np.nan
        gain = 0.05 if number % 5 == 2 else 0.4
        scores = (0.6 * random.random(hours) + gain * (labels == 1)).round(2)
        scores = scores.clip(0.01, 0.99)
        made.append((scores, labels, 1 / (1 + np.exp(1 - 1.5 * np.log(scores / (1 - scores))))))
    return made


GROUPS = [
    Characteristic("number", tuple("abcde"), np.arange(STAYS) % 5),
    Characteristic("half", ("first", "second"), (np.arange(STAYS) >= STAYS // 2).astype(int)),
]


@pytest.fixture(scope="module")
def made(stays):
    parts = [np.concatenate(part) for part in zip(*stays, strict=True)]
    lengths = np.array([len(scores) for scores, *_ in stays])
    return ward_metrics(HourScores(parts[0], parts[1], lengths), FITTED, GROUPS)


def detected(scores, labels):
    """Whether an alarm lies within the horizon before the onset of the stay's event; None without an event to warn of."""
    positive = np.flatnonzero(labels == 1)
    if not len(positive):
        return None
    onset, raised = positive[0] + POLICY.lead, []
    watched = [hour for hour in range(min(onset, len(scores))) if not np.isnan(labels[hour])]
    for hour in watched:
        if scores[hour] > THRESHOLD and not any(hour - before <= POLICY.silence for before in raised):
            raised.append(hour)
    if not any(onset - hour <= POLICY.horizon for hour in watched):
        return None
    return any(onset - hour <= POLICY.horizon for hour in raised)


def literal(group, prevalence, found=detected):
    scores, labels, risks = (np.concatenate(part) for part in zip(*group, strict=True))
    rows = ~np.isnan(labels)
    scores, labels, risks = scores[rows], labels[rows], risks[rows]
    share = labels.mean()
    weights = np.where(labels == 1, prevalence / share, (1 - prevalence) / (1 - share))
    warned = [one for one in (found(scores, labels) for scores, labels, _ in group) if one is not None]
    return {
        "auroc": metrics.roc_auc_score(labels, scores),
        "auprc": metrics.average_precision_score(labels, scores),
        "auprc_at_prevalence": metrics.average_precision_score(labels, scores, sample_weight=weights),
        "event_recall": np.mean(warned),
        "observed_to_expected": labels.sum() / risks.sum(),
    }


def prevalence_of(stays):
    labels = np.concatenate([labels for _, labels, _ in stays])
    return np.nanmean(labels)


def test_metrics_equal_those_of_each_group_alone(stays, made):
    prevalence = prevalence_of(stays)
    assert made["subgroups"]["all"]["metrics"] == pytest.approx(literal(stays, prevalence))
    for one in GROUPS:
        for number, name in enumerate(one.groups):
            (found,) = [
                entry
                for entry in made["subgroups"]["groups"]
                if (entry["characteristic"], entry["group"]) == (one.name, name)
            ]
            group = [stays[i] for i in np.flatnonzero(one.member == number)]
            labels = np.concatenate([labels for _, labels, _ in group])
            assert (found["stays"], found["hours"]) == (len(group), (~np.isnan(labels)).sum())
            assert found["positive_hours"] == (labels == 1).sum()
            assert found["positive_stays"] == sum((labels == 1).any() for _, labels, _ in group)
            if (labels == 1).any():
                assert found["metrics"] == pytest.approx(literal(group, prevalence)), name


def test_a_group_of_one_class_has_counts_but_no_metrics(made):
    (found,) = [entry for entry in made["subgroups"]["groups"] if entry["group"] == "e"]
    assert (found["stays"], found["positive_hours"], found["events"]) == (22, 0, 0)
    assert found["metrics"] == found["intervals"] == dict.fromkeys(METRICS)


def test_the_worst_group_is_named(made):
    groups = {(entry["characteristic"], entry["group"]): entry["metrics"] for entry in made["subgroups"]["groups"]}
    known = {key: values for key, values in groups.items() if values["auroc"] is not None}
    worst = made["subgroups"]["worst"]
    assert worst["auroc"] == {"characteristic": "number", "group": "c"}
    for metric in ("auroc", "auprc", "auprc_at_prevalence", "event_recall"):
        assert tuple(worst[metric].values()) == min(known, key=lambda key: known[key][metric])
    farthest = max(known, key=lambda key: abs(np.log(known[key]["observed_to_expected"])))
    assert tuple(worst["observed_to_expected"].values()) == farthest


@pytest.mark.parametrize(("first", "positive", "worst"), [(21, 9, "large"), (23, 10, "small")])
def test_a_group_of_fewer_than_ten_positive_stays_is_not_called_the_worst(stays, first, positive, worst):
    member = (np.arange(STAYS) >= first).astype(int)
    parts = [np.concatenate(part) for part in zip(*stays, strict=True)]
    lengths = np.array([len(scores) for scores, *_ in stays])
    small = Characteristic("size", ("small", "large"), member)
    scores = np.where(member[np.repeat(np.arange(STAYS), lengths)] == 0, 1 - parts[0], parts[0])
    made = ward_metrics(HourScores(scores, parts[1], lengths), FITTED, [small])["subgroups"]
    few, many = made["groups"]
    assert few["positive_stays"] == positive and few["metrics"]["auroc"] < many["metrics"]["auroc"]
    assert made["worst"]["auroc"] == {"characteristic": "size", "group": worst}


def test_risks_too_high_by_more_are_worse_than_risks_too_low():
    """0.4 and 1.7 positive hours for each expected one: too high by a factor of 2.5, too low by one of 1.7."""
    labels, member = np.tile([1, 0, 0, 0], 20), np.repeat([0, 1], 10)
    scores = np.repeat([10 / 0.4 / 40, 10 / 1.7 / 40], 40)
    alike = dataclasses.replace(FITTED, calibrator=Calibrator("logistic", 1.0, 0.0))
    groups = [Characteristic("risks", ("high", "low"), member)]
    made = ward_metrics(HourScores(scores, labels.astype(float), np.full(20, 4)), alike, groups)["subgroups"]
    assert [one["metrics"]["observed_to_expected"] for one in made["groups"]] == pytest.approx([0.4, 1.7])
    assert made["worst"]["observed_to_expected"] == {"characteristic": "risks", "group": "high"}


def test_intervals_are_percentiles_over_the_groups_stays_among_those_drawn(stays, made):
    random, prevalence = np.random.default_rng(0), prevalence_of(stays)
    drawn = [random.integers(STAYS, size=STAYS) for _ in range(200)]
    once = {id(scores): detected(scores, labels) for scores, labels, _ in stays}
    values = [
        literal([stays[i] for i in one if i % 5 == 2], prevalence, lambda scores, _: once[id(scores)]) for one in drawn
    ]
    (found,) = [entry for entry in made["subgroups"]["groups"] if entry["group"] == "c"]
    for name in METRICS:
        percentiles = np.percentile([value[name] for value in values], [2.5, 97.5])
        assert found["intervals"][name] == pytest.approx(percentiles.tolist()), name


def test_unlabelled_hours_count_neither_for_subgroups_nor_for_the_decision_curve(stays, made):
    labels = np.concatenate([labels for _, labels, _ in stays])
    assert made["subgroups"]["all"]["hours"] == (~np.isnan(labels)).sum() < len(labels)
    share = np.nanmean(labels)
    first = made["decision_curve"]
    assert first["treat_all"][0] == pytest.approx(share - (1 - share) * 0.001 / 0.999)
    json.dumps(made, allow_nan=False)
