"""What bin/evaluate prints of events, subgroups and the decision curve."""

from ncl_tf.evaluation.ward import ward_summary

CURVE = {
    "risk_threshold": [0.01, 0.02, 0.1, 0.5],
    "net_benefit": [0.2, 0.15, 0.01, -0.1],
    "treat_all": [0.2, 0.1, -0.3, -1],
}
METRICS = {"event_recall": 0.714, "alarm_precision": 0.081, "alarms_per_day": 1.304, "lead_time": 7.0}
EVENTS = {"events": 565, "events_without_warning_time": 21, "alarms": 4000, "detected": 403, "metrics": METRICS}
EVENTS |= {"intervals": {"event_recall": [0.66, 0.752]}, "at_rates": [{"alarms_per_day": 0.5, "event_recall": 0.4}]}
WORST = {"characteristic": "Age (years)", "group": "18 to 39"}
GROUPS = [
    {"characteristic": "Age (years)", "group": "40 to 49", "metrics": {"auroc": 0.8}, "intervals": {"auroc": [0, 1]}}
]
GROUPS += [WORST | {"metrics": {"auroc": 0.701}, "intervals": {"auroc": [0.65, 0.75]}}]
SUBGROUPS = {"worst": {"auroc": WORST}, "groups": GROUPS, "all": {"metrics": {"auroc": 0.804}}}


def summary(events=EVENTS, subgroups=SUBGROUPS, curve=CURVE):
    return list(ward_summary({"events": events, "subgroups": subgroups, "decision_curve": curve}))


def test_the_summary_in_words():
    assert summary() == [
        "events: 71 % [66, 75] of 565 found (21 more leave no time to warn) at 1.30 alarms per patient-day, of which 8.1 % are "
        "correct; median 7 hours before the onset",
        "  by alarms per patient-day: 40 % at 0.5",
        "subgroups: lowest AUROC 70.1 [65.0, 75.0] for Age (years) 18 to 39; all stays 80.4",
        "at limits of 2 to 10 %, acting on risks above the limit is better than acting on all hours or none",
    ]


def test_what_is_not_defined_is_left_out():
    nothing = {"event_recall": None, "alarm_precision": None, "alarms_per_day": 0.0, "lead_time": None}
    none = EVENTS | {"events": 0, "events_without_warning_time": 0, "metrics": nothing}
    useless = CURVE | {"net_benefit": [0.1, 0.05, -0.1, -0.2]}
    assert summary(none, SUBGROUPS | {"worst": {"auroc": None}}, useless) == [
        "events: none that leave time to warn; 0.00 alarms per patient-day"
    ]
    silent = EVENTS | {"alarms": 0, "detected": 0, "metrics": nothing | {"event_recall": 0.0}}
    assert summary(silent)[0].endswith("at 0.00 alarms per patient-day")
    assert list(ward_summary({"metrics": {"kappa": 0.4}})) == []
