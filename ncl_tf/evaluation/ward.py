"""What a ward would ask of a classifier: events and alarms, subgroups, and whether acting on its risks is worth it."""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from ncl_tf.data.groups import Characteristic
from ncl_tf.evaluation.decision_curve import decision_curve, useful_span
from ncl_tf.evaluation.event_metrics import event_counts, event_metrics
from ncl_tf.evaluation.metrics import resampled_stays
from ncl_tf.evaluation.risk import HourScores, Risks
from ncl_tf.evaluation.subgroups import ScoredHours, subgroup_metrics, worst_group


def ward_metrics(hours: HourScores, fitted: Risks, characteristics: Sequence[Characteristic]) -> dict[str, Any]:
    """Compute `events`, `subgroups` and `decision_curve` of an evaluation's JSON, all by the same resampled cohorts.

    Args:
        hours: all hours of a split; unlabelled ones raise no alarm.
        fitted: calibrator and alarm threshold.
        characteristics: that deal the stays out to groups.
    """
    drawn = resampled_stays(len(hours.lengths))
    alarm, labelled = fitted.alarm, hours.labelled
    risks = fitted.calibrator(labelled.probabilities)
    counts, chosen = event_counts(hours.probabilities, hours.labels, hours.lengths, alarm.policy, alarm.threshold)
    of_groups = ScoredHours(labelled.probabilities, risks, labelled.labels, labelled.lengths)
    return {
        "events": event_metrics(counts, chosen, drawn),
        "subgroups": subgroup_metrics(of_groups, counts, chosen, characteristics, drawn),
        "decision_curve": decision_curve(risks, labelled.labels, labelled.lengths, drawn),
    }


def ward_summary(result: Mapping[str, Any]) -> Iterator[str]:
    """Yield the lines that sum up the content of an evaluation's JSON for people; none where it has no events."""
    if "events" not in result:
        return
    events, groups = result["events"], result["subgroups"]
    metrics, late = events["metrics"], events["events_without_warning_time"]
    left = f" ({late} more leave no time to warn)" * bool(late)
    if metrics["event_recall"] is None:
        yield f"events: none that leave time to warn{left}; {metrics['alarms_per_day'] or 0:.2f} alarms per patient-day"
    else:
        low, high = events["intervals"]["event_recall"]
        text = f"events: {100 * metrics['event_recall']:.0f} % [{100 * low:.0f}, {100 * high:.0f}] of {events['events']} found"
        text += f"{left} at {metrics['alarms_per_day']:.2f} alarms per patient-day"
        if events["alarms"]:
            text += f", of which {100 * metrics['alarm_precision']:.1f} % are correct"
        yield text + (f"; median {metrics['lead_time']:g} hours before the onset" if events["detected"] else "")
        rates = (f"{100 * at['event_recall']:.0f} % at {at['alarms_per_day']:g}" for at in events["at_rates"])
        yield f"  by alarms per patient-day: {', '.join(rates)}"
    if group := worst_group(groups, "auroc"):
        low, high = group["intervals"]["auroc"]
        yield (
            f"subgroups: lowest AUROC {100 * group['metrics']['auroc']:.1f} [{100 * low:.1f}, {100 * high:.1f}] for "
            f"{group['characteristic']} {group['group']}; all stays {100 * groups['all']['metrics']['auroc']:.1f}"
        )
    if span := useful_span(result["decision_curve"]):
        limits = f"at limits of {100 * span[0]:.2g} to {100 * span[1]:.2g} %"
        yield f"{limits}, acting on risks above the limit is better than acting on all hours or none"
