"""The page's section on what a ward would ask: answers in a table for each task, and the figures that show them."""

from collections.abc import Iterator, Sequence
from typing import Any

from ncl_tf.evaluation.decision_curve import useful_span
from ncl_tf.evaluation.subgroups import worst_group
from ncl_tf.reporting.figures.evaluations import (
    BinaryEvaluation,
    best_evaluations,
    binary_evaluations,
    stays_title,
)
from ncl_tf.reporting.figures.figure import Figure
from ncl_tf.reporting.report.tables import escape, header, number, table
from ncl_tf.reporting.sources import MissingInputError, Sources

FIGURES = ("event_recall", "decision_curve", "calibration", "subgroups")  # in their order on the page


def ward_section(sources: Sources, drawn: Sequence[Figure], show: Any) -> str:
    """Build the section; `show` makes the HTML of figures."""
    try:
        found, _ = binary_evaluations(sources, "events")
    except MissingInputError:
        return "<p>No evaluation here has events: <code>bin/evaluate</code> reports them for binary tasks.</p>"
    tables = "".join(_answers(one) for one in best_evaluations(found))
    return tables + show(sorted((one for one in drawn if one.name in FIGURES), key=lambda one: FIGURES.index(one.name)))


def _answers(one: BinaryEvaluation) -> str:
    """Build the table of questions and answers of one evaluation."""
    rows = [
        f'<tr><th scope="row">{escape(question)}</th><td class="text">{escape(answer)}</td></tr>'
        for question, answer in answers(one.result)
    ]
    data, _, task, split = one.panel
    name = f"{task.replace('_', ' ')}, {data}, {stays_title(split)}"
    caption = f"{name}: {one.label}, seed {one.run.record['seed']}. In brackets: 95 % intervals over stays."
    return table(escape(caption), header(["a ward asks", "answer"]), ["".join(rows)], name)


def answers(result: dict[str, Any]) -> Iterator[tuple[str, str]]:
    """Yield questions and answers from the content of an evaluation's JSON."""
    events, alarm = result["events"], result["alarm"]
    metrics, intervals, policy = events["metrics"], events["intervals"], events["policy"]
    aim = (
        "the most utility" if alarm["alarms_per_day"] is None else f"at most {alarm['alarms_per_day']:g} a patient-day"
    )
    yield (
        "When is there an alarm?",
        f"Where the probability is above {number(100 * alarm['threshold'])} %, chosen on validation data for {aim}. It silences "
        f"the next {policy['silence']} hours, and is correct if an event begins within {policy['horizon']} hours.",
    )
    late = events["events_without_warning_time"]
    left = f" {late} more left no time to warn." * bool(late)
    found = (
        f"{_percent(metrics, intervals, 'event_recall')} of {events['events']}."
        if events["events"]
        else "There are none."
    )
    yield "How many events does it find?", found + left
    if quartiles := events["lead_time_quartiles"]:
        low, median, high = quartiles
        yield (
            "How early?",
            f"Half of those found at least {median:g} hours before the onset; quartiles {low:g} and {high:g}.",
        )
    rate = f"{metrics['alarms_per_day'] or 0:.2f} per patient-day"
    if correct := events["correct_alarms"]:
        share = _percent(metrics, intervals, "alarm_precision")
        rate += f", of which {share} are correct: one in {events['alarms'] / correct:.0f}"
    yield "For how many alarms?", f"{rate}."
    if events["events"]:
        rates = (f"{100 * at['event_recall']:.0f} % at {at['alarms_per_day']:g}" for at in events["at_rates"])
        yield "And for other numbers of alarms a day?", f"{', '.join(rates)}."
    before, after = (result["calibration"][when]["ece"] for when in ("before", "after"))
    yield (
        "Does 3 % mean 3 %?",
        f"The risk is wrong by {100 * after:.2g} % on average, the probability by {100 * before:.2g} %.",
    )
    yield "For whom is it worse?", _worst(result["subgroups"])
    span = useful_span(result["decision_curve"])
    yield (
        "Is acting on it worth it?",
        f"Yes, where the limit is {100 * span[0]:.2g} % to {100 * span[1]:.2g} %: acting on risks above it is better than acting "
        "in every hour or never."
        if span
        else "No: at no limit is acting on risks above it better than acting in every hour or never.",
    )


def _worst(subgroups: dict[str, Any]) -> str:
    """Name the group of the lowest AUROC."""
    if (group := worst_group(subgroups, "auroc")) is None:
        return "No group has enough positive stays to be compared."
    low, high = group["intervals"]["auroc"]
    return (
        f"Lowest AUROC: {number(100 * group['metrics']['auroc'])} [{number(100 * low)}, {number(100 * high)}] for "
        f"{group['characteristic']} {group['group']}; all stays have {number(100 * subgroups['all']['metrics']['auroc'])}."
    )


def _percent(metrics: dict[str, Any], intervals: dict[str, Any], name: str) -> str:
    low, high = intervals[name]
    return f"{100 * metrics[name]:.0f} % [{100 * low:.0f}, {100 * high:.0f}]"
