"""What a ward would ask of a classifier: events and alarms, subgroups, and whether acting on its risks is worth it."""

from collections.abc import Sequence
from typing import Any

import numpy as np

from ncl_tf.data.groups import Characteristic
from ncl_tf.evaluation.decision_curve import decision_curve
from ncl_tf.evaluation.event_metrics import event_counts, event_metrics
from ncl_tf.evaluation.events import AlarmPolicy
from ncl_tf.evaluation.metrics import resampled_stays
from ncl_tf.evaluation.subgroups import LabelledHours, subgroup_metrics
from ncl_tf.evaluation.utility import stay_of_hours


def ward_metrics(
    scores: np.ndarray,
    risks: np.ndarray,
    labels: np.ndarray,
    lengths: np.ndarray,
    policy: AlarmPolicy,
    threshold: float,
    characteristics: Sequence[Characteristic],
) -> dict[str, Any]:
    """Compute `events`, `subgroups` and `decision_curve` of an evaluation's JSON, all by the same resampled cohorts.

    Args:
        scores, risks: [H] of the positive class, of all hours: as the classifier gives them, and calibrated.
        labels: [H] 0 or 1, NaN or -1 where unlabelled; of these hours scores raise alarms only where they lie before an onset.
        lengths: [S] hours of each stay.
        policy, threshold: by which alarms are raised.
        characteristics: that deal the stays out to groups.
    """
    drawn = resampled_stays(len(lengths))
    counts, chosen = event_counts(scores, labels, lengths, policy, threshold)
    rows = np.isin(labels, (0, 1))
    labelled = np.bincount(stay_of_hours(lengths, len(labels))[rows], minlength=len(lengths))
    hours = LabelledHours(scores[rows], risks[rows], labels[rows], labelled)
    return {
        "events": event_metrics(counts, chosen, drawn),
        "subgroups": subgroup_metrics(hours, counts, chosen, characteristics, drawn),
        "decision_curve": decision_curve(hours.risks, hours.labels, labelled, drawn),
    }
