"""The simulated ward in the form of PhysioNet 2019: one file of hourly rows per stay, sepsis in one stay of nine."""

from statistics import NormalDist
from typing import NamedTuple

import numpy as np

from ncl_tf.data.simulator.physiology import draw_patients, noise, vitals_and_labs
from ncl_tf.data.simulator.texts import StayFile, tables, texts

LISTS: dict[str, str] = {}  # this form has no list files
ROUND = 9  # one stay of every nine turns septic
LABEL_LEAD = 6  # hours from the first positive label to the clinical onset


class Measured(NamedTuple):
    """How a channel is measured: in which panel, in what share of its samples, in what share of stays at all."""

    panel: str
    share: float
    ever: float
    decimals: int


class Panel(NamedTuple):
    """What is measured together: its hourly rate in a well patient, and what illness 1 adds, relative to that."""

    rate: float
    worry: float


# The monitor is always on but for gaps. The sicker a patient is, the more often nurses look, and the more is sent to
# the laboratory: blood gases with lactate above all. The rates are of stays that have the panel.
PANELS = {
    "monitor": Panel(0.93, 0), "nurse": Panel(0.34, 0.3), "ventilator": Panel(0.22, 0.5),
    "gas": Panel(0.12, 2), "chemistry": Panel(0.07, 1), "glucose": Panel(0.1, 0.5), "count": Panel(0.07, 1),
    "coagulation": Panel(0.052, 1), "liver": Panel(0.042, 1.2),
}  # fmt: skip
BEDSIDE = ("nurse", "ventilator")  # as often by night as by day
CHANNELS = {
    "HR": Measured("monitor", 0.985, 1, 0),
    "O2Sat": Measured("monitor", 0.945, 1, 0),
    "Temp": Measured("nurse", 0.95, 1, 1),
    "SBP": Measured("monitor", 0.92, 0.99, 0),
    "MAP": Measured("monitor", 0.96, 1, 0),
    "DBP": Measured("monitor", 0.87, 0.63, 0),
    "Resp": Measured("monitor", 0.965, 1, 0),
    "EtCO2": Measured("monitor", 0.6, 0.04, 0),
    "BaseExcess": Measured("gas", 0.93, 0.62, 0),
    "HCO3": Measured("chemistry", 0.97, 0.98, 0),
    "FiO2": Measured("ventilator", 1, 0.58, 2),
    "pH": Measured("gas", 1, 0.64, 2),
    "PaCO2": Measured("gas", 0.8, 0.62, 0),
    "SaO2": Measured("gas", 0.5, 0.4, 0),
    "AST": Measured("liver", 1, 0.3, 0),
    "BUN": Measured("chemistry", 1, 0.98, 0),
    "Alkalinephos": Measured("liver", 1, 0.29, 0),
    "Calcium": Measured("chemistry", 0.62, 0.82, 1),
    "Chloride": Measured("chemistry", 0.98, 0.98, 0),
    "Creatinine": Measured("chemistry", 0.82, 0.98, 1),
    "Bilirubin_direct": Measured("liver", 0.8, 0.03, 1),
    "Glucose": Measured("glucose", 1, 0.98, 0),
    "Lactate": Measured("gas", 0.5, 0.38, 1),
    "Magnesium": Measured("chemistry", 0.93, 0.93, 1),
    "Phosphate": Measured("chemistry", 0.65, 0.82, 1),
    "Potassium": Measured("chemistry", 0.99, 0.98, 1),
    "Bilirubin_total": Measured("liver", 0.9, 0.29, 1),
    "TroponinI": Measured("chemistry", 0.5, 0.03, 2),
    "Hct": Measured("count", 1, 0.98, 1),
    "Hgb": Measured("count", 0.95, 0.98, 1),
    "PTT": Measured("coagulation", 1, 0.78, 1),
    "WBC": Measured("count", 0.9, 0.97, 1),
    "Fibrinogen": Measured("coagulation", 0.6, 0.13, 0),
    "Platelets": Measured("count", 0.85, 0.97, 0),
}


def draw_stays(rng: np.random.Generator, first: int, count: int) -> list[StayFile]:
    """Draws `count` stays (whole rounds), numbered from `first` + 1."""
    lengths, first_positive, illness = _courses(rng, count)
    hour = np.arange(illness.shape[1])
    clock = (rng.integers(0, 24, (count, 1)) + hour) % 24
    patients = draw_patients(rng, count)
    values = vitals_and_labs(rng, patients, illness, clock)
    measured = _measured(rng, illness, clock)
    label = hour >= first_positive[:, None]
    within = hour < lengths[:, None]

    columns = {}
    for name, how in CHANNELS.items():
        columns[name] = texts(np.where(measured[name], values[name], np.nan)[within], how.decimals)
    surgical = np.where(rng.random(count) < 0.5, rng.random(count) < 0.5, np.nan)  # unknown in half of the stays
    others = {
        "Age": patients.age[:, None],
        "Gender": patients.male[:, None],
        "Unit1": 1 - surgical[:, None],
        "Unit2": surgical[:, None],
        "HospAdmTime": -np.minimum(rng.lognormal(1.5, 1.9, (count, 1)), 700),
        "ICULOS": hour + np.minimum(rng.geometric(0.63, (count, 1)), 12),  # some records begin late
        "SepsisLabel": label,
    }
    for name, column in others.items():
        columns[name] = texts(np.broadcast_to(column, within.shape)[within].astype(float), 2)
    files = tables(list(columns), list(columns.values()), lengths, "|")
    positive_hours = (label & within).sum(axis=1)
    return [
        StayFile(f"p{first + stay + 1:06d}.psv", files[stay], int(lengths[stay]), int(positive_hours[stay]))
        for stay in range(count)
    ]


def _courses(rng: np.random.Generator, count: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Lengths in hours [stays], first positive hour [stays] (far beyond the end if none), illness [stays, hours].

    Sepsis begins 6 to 18 hours before the first positive label and grows until the record ends, a few hours after
    its clinical onset. Onsets are spread so that neither the hour nor the length of a record predicts them.
    """
    lengths = np.clip(rng.lognormal(np.log(44), 0.5, count), 14, 160).astype(int)
    septic = np.arange(0, count, ROUND) + rng.integers(0, ROUND, count // ROUND)
    first_positive = np.full(count, 10**6)
    spread = rng.random(len(septic)) ** 1.6 * rng.lognormal(np.log(64), 0.5, len(septic))
    first_positive[septic] = 10 + np.minimum(spread, 150)
    after_onset = rng.choice(5, len(septic), p=(0.01, 0.02, 0.07, 0.3, 0.6))
    lengths[septic] = first_positive[septic] + LABEL_LEAD + after_onset

    hour = np.arange(lengths.max())
    lead = rng.uniform(6, 18, (count, 1))
    build_up = np.clip((hour - first_positive[:, None] + lead) / (lead + 4), 0, 1.2) ** 1.2
    on_admission = rng.exponential(0.5, (count, 1)) * np.exp(-hour / rng.uniform(6, 24, (count, 1)))
    return lengths, first_positive, rng.lognormal(0, 0.3, (count, 1)) * build_up + on_admission


def _measured(rng: np.random.Generator, illness: np.ndarray, clock: np.ndarray) -> dict[str, np.ndarray]:
    """{channel: [stays, hours] whether it is measured}. Channels of one panel are measured together.

    Measurements are informative: they become more frequent as a patient worsens (`PANELS`). Labs are drawn on
    admission and in the early morning, too.
    """
    count, hours = illness.shape
    routine = np.where((clock >= 4) & (clock < 7), 3.5, 0.6)
    admission = 3 * (np.arange(hours) < 2)
    taken, depth = {}, {}
    for name, panel in PANELS.items():
        depth[name] = rng.random((count, 1))  # how far down its list of channels this stay's panel goes
        if name == "monitor":  # gaps last some hours
            taken[name] = NormalDist().inv_cdf(panel.rate) > noise(rng, (hours, count), 0.6).T
        else:
            often = 1 + panel.worry * illness
            if name not in BEDSIDE:
                often = often * routine + admission
            taken[name] = rng.random((count, hours)) < panel.rate * often
    return {
        name: taken[how.panel] & (depth[how.panel] < how.ever) & (rng.random((count, hours)) < how.share)
        for name, how in CHANNELS.items()
    }
