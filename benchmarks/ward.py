"""What an evaluation computes from the scores of a binary classifier, on splits of the size of PhysioNet 2019.

The training of the classifier and its predictions, which take most of an evaluation, are not part of it.
"""

import time

import numpy as np

from benchmarks.measure import Row, interleaved
from ncl_tf.data.declaration import Task
from ncl_tf.data.groups import Characteristic
from ncl_tf.evaluation import metrics
from ncl_tf.evaluation.calibration import Calibrator
from ncl_tf.evaluation.events import AlarmPolicy
from ncl_tf.evaluation.risk import AlarmChoice, HourScores, Risks, fit_risks
from ncl_tf.evaluation.settings import EvaluationSettings
from ncl_tf.evaluation.ward import ward_metrics

HOURS, STAYS, POSITIVE = 312_078, 8066, 586  # of the published test split: hours, stays, and those with sepsis
GROUPS = (2, 2, 2, 7, 4, 2)  # of each characteristic
THRESHOLD = 0.05
FITTED = Risks(
    Calibrator("logistic", 1.0, 0.0), {}, AlarmChoice(THRESHOLD, "utility", None, AlarmPolicy(horizon=12, lead=6), {})
)


def ward() -> list[Row]:
    """Measure the CPU time of calibrator and alarm threshold, and of all metrics with their intervals, on simulated scores."""
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

    def fit() -> None:
        fit_risks(hours, Task("sepsis"), EvaluationSettings())

    def report() -> None:
        metrics.binary_metrics(risks, labels, lengths, utility=True)
        metrics.bootstrap(metrics.binary_by_stay(risks, labels, lengths, utility=True), STAYS)
        FITTED.to_json(hours)
        ward_metrics(hours, FITTED, characteristics)

    works = {"calibrator and alarm threshold": fit, "all metrics of a binary task, 200 resamples": report}
    seconds = interleaved(works, repeats=3, clock=time.process_time)
    return [{"ward": name, "hours": HOURS, "stays": STAYS, "CPU seconds": seconds[name]} for name in works]
