"""The metrics of a binary classifier: all that an evaluation reports of its scores, on a test split of the paper's size."""

import numpy as np

from benchmarks.measure import Row, interleaved
from ncl_tf.data.groups import Characteristic
from ncl_tf.evaluation import metrics
from ncl_tf.evaluation.calibration import Calibrator
from ncl_tf.evaluation.events import AlarmPolicy
from ncl_tf.evaluation.risk import AlarmChoice, HourScores, Risks
from ncl_tf.evaluation.ward import ward_metrics

HOURS, STAYS, POSITIVE = 312_078, 8066, 586  # of the published test split: hours, stays, and those with sepsis
GROUPS = (2, 2, 2, 7, 4, 2)  # of each characteristic
THRESHOLD = 0.05
FITTED = Risks(
    Calibrator("logistic", 1.0, 0.0), {}, AlarmChoice(THRESHOLD, "utility", None, AlarmPolicy(horizon=12, lead=6), {})
)


def ward() -> list[Row]:
    """Metrics, calibration before and after, events, subgroups and decision curve, with their intervals, of simulated scores."""
    random = np.random.default_rng(0)
    lengths = np.full(STAYS, 8) + random.multinomial(HOURS - 8 * STAYS, random.dirichlet(np.full(STAYS, 2.5)))
    labels = np.zeros(HOURS)
    for last in random.choice(np.cumsum(lengths), POSITIVE, replace=False):
        labels[last - random.integers(3, 9) : last] = 1
    risks = 1 / (1 + np.exp(4.5 - random.normal(size=HOURS) - 1.2 * labels))
    characteristics = [
        Characteristic(str(number), tuple("abcdefg"[:groups]), random.permutation(np.arange(STAYS) % groups))
        for number, groups in enumerate(GROUPS)
    ]
    hours = HourScores(risks, labels, lengths)

    def work() -> None:
        metrics.binary_metrics(risks, labels, lengths, utility=True)
        metrics.bootstrap(metrics.binary_by_stay(risks, labels, lengths, utility=True), STAYS)
        FITTED.to_json(hours)
        ward_metrics(hours, FITTED, characteristics)

    seconds = interleaved({"": work}, repeats=3)[""]
    return [
        {
            "evaluate": "all metrics of a binary task",
            "hours": HOURS,
            "stays": STAYS,
            "resamples": 200,
            "seconds": seconds,
        }
    ]
