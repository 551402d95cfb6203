"""The simulated ward in the form of PhysioNet 2019: hourly rows, one `pNNNNNN.psv` per stay, sepsis in one stay of nine."""

import pathlib
from typing import NamedTuple

import numpy as np

from ncl_tf.data.physiology import draw_patients, noise, texts, vitals_and_labs

ROUND = 9  # one stay of every nine turns septic
LABEL_LEAD = 6  # the label is 1 from six hours before the clinical onset


class Measured(NamedTuple):
    """How a channel is measured: in which panel, in what share of its samples, in what share of stays at all."""

    panel: str
    share: float
    ever: float
    decimals: int
    low: float
    high: float


# Hourly rate of each panel in a stay that has it. The monitor is always on but for gaps.
PANELS = {
    "monitor": 0.93, "nurse": 0.36, "ventilator": 0.24, "gas": 0.16, "chemistry": 0.08, "glucose": 0.11,
    "count": 0.08, "coagulation": 0.06, "liver": 0.05,
}  # fmt: skip
CHANNELS = {
    "HR": Measured("monitor", 0.985, 1, 0, 25, 220),
    "O2Sat": Measured("monitor", 0.945, 1, 0, 60, 100),
    "Temp": Measured("nurse", 0.95, 1, 1, 32, 42),
    "SBP": Measured("monitor", 0.92, 0.99, 0, 40, 250),
    "MAP": Measured("monitor", 0.96, 1, 0, 25, 180),
    "DBP": Measured("monitor", 0.87, 0.63, 0, 15, 140),
    "Resp": Measured("monitor", 0.965, 1, 0, 4, 60),
    "EtCO2": Measured("monitor", 0.6, 0.04, 0, 12, 90),
    "BaseExcess": Measured("gas", 0.93, 0.62, 0, -25, 25),
    "HCO3": Measured("chemistry", 0.97, 0.98, 0, 6, 45),
    "FiO2": Measured("ventilator", 1, 0.58, 2, 0.21, 1),
    "pH": Measured("gas", 1, 0.64, 2, 6.8, 7.7),
    "PaCO2": Measured("gas", 0.8, 0.62, 0, 15, 110),
    "SaO2": Measured("gas", 0.5, 0.4, 0, 50, 100),
    "AST": Measured("liver", 1, 0.3, 0, 5, 9000),
    "BUN": Measured("chemistry", 1, 0.98, 0, 2, 200),
    "Alkalinephos": Measured("liver", 1, 0.29, 0, 15, 2000),
    "Calcium": Measured("chemistry", 0.62, 0.82, 1, 5, 14),
    "Chloride": Measured("chemistry", 0.98, 0.98, 0, 75, 140),
    "Creatinine": Measured("chemistry", 0.82, 0.98, 1, 0.2, 15),
    "Bilirubin_direct": Measured("liver", 0.8, 0.03, 1, 0.1, 30),
    "Glucose": Measured("glucose", 1, 0.98, 0, 30, 700),
    "Lactate": Measured("gas", 0.5, 0.38, 1, 0.3, 20),
    "Magnesium": Measured("chemistry", 0.93, 0.93, 1, 0.8, 5),
    "Phosphate": Measured("chemistry", 0.65, 0.82, 1, 0.6, 12),
    "Potassium": Measured("chemistry", 0.99, 0.98, 1, 2, 8),
    "Bilirubin_total": Measured("liver", 0.9, 0.29, 1, 0.1, 45),
    "TroponinI": Measured("chemistry", 0.5, 0.03, 2, 0.01, 50),
    "Hct": Measured("count", 1, 0.98, 1, 12, 60),
    "Hgb": Measured("count", 0.95, 0.98, 1, 4, 20),
    "PTT": Measured("coagulation", 1, 0.78, 1, 15, 150),
    "WBC": Measured("count", 0.9, 0.97, 1, 0.2, 90),
    "Fibrinogen": Measured("coagulation", 0.6, 0.13, 0, 50, 1200),
    "Platelets": Measured("count", 0.85, 0.97, 0, 8, 900),
}
HEADER = "|".join([*CHANNELS, "Age", "Gender", "Unit1", "Unit2", "HospAdmTime", "ICULOS", "SepsisLabel"])


def write_block(
    rng: np.random.Generator, size: int, first: int, wanted: int, folder: pathlib.Path
) -> dict[str, int]:
    """Draws `size` stays, writes the first `wanted` of them, numbered from `first` + 1, and counts what it wrote."""
    lengths, first_positive, illness = _courses(rng, size)
    hour = np.arange(illness.shape[1])
    clock = (rng.integers(0, 24, (size, 1)) + hour) % 24
    patients = draw_patients(rng, size)
    values = vitals_and_labs(rng, patients, illness, clock)
    measured = _measured(rng, illness, clock)

    within = (hour < lengths[:, None]) & (np.arange(size) < wanted)[:, None]
    label = hour >= first_positive[:, None]
    surgical = rng.random((size, 1)) < 0.5
    unit = np.where(rng.random((size, 1)) < 0.5, np.nan, surgical)  # half of the stays do not say
    starts = np.minimum(rng.geometric(0.63, (size, 1)), 12)
    columns = [
        texts(np.where(measured[name], np.clip(values[name], how.low, how.high), np.nan)[within], how.decimals)
        for name, how in CHANNELS.items()
    ]
    waited = -np.round(np.minimum(rng.lognormal(1.5, 1.9, (size, 1)), 700), 2)
    others = [patients.age[:, None], patients.male[:, None], 1 - unit, unit, waited, starts + hour, label]
    columns += [texts(np.broadcast_to(other, within.shape)[within].astype(float), 2) for other in others]
    rows = list(map("|".join, zip(*columns, strict=True)))
    ends = np.cumsum(lengths[:wanted])
    for stay, (start, end) in enumerate(zip(ends - lengths[:wanted], ends, strict=True), first + 1):
        (folder / f"p{stay:06d}.psv").write_text("\n".join([HEADER, *rows[start:end], ""]), encoding="ascii")
    positive = (label & within).sum(axis=1)
    return {
        "hours": len(rows),
        "positive stays": int(np.count_nonzero(positive)),
        "positive hours": int(positive.sum()),
    }


def _courses(rng: np.random.Generator, size: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Lengths in hours [stays], hour of the first positive label [stays] (huge if never), illness [stays, hours].

    Sepsis begins 6 to 18 hours before the first positive hour and grows until the record ends, a few hours after
    its clinical onset. Onsets are spread over the stay so that the hour alone does not tell.
    """
    lengths = np.clip(rng.lognormal(np.log(44), 0.5, size), 14, 160).astype(int)
    septic = np.arange(0, size, ROUND) + rng.integers(0, ROUND, size // ROUND)
    first_positive = np.full(size, 10**6)
    first_positive[septic] = 10 + rng.uniform(0, 1, len(septic)) ** 1.6 * rng.lognormal(np.log(64), 0.5, len(septic))
    tail = LABEL_LEAD + rng.choice(5, len(septic), p=(0.01, 0.02, 0.07, 0.3, 0.6))
    lengths[septic] = first_positive[septic] + tail

    hour = np.arange(lengths.max())
    lead = rng.uniform(6, 18, (size, 1))
    build_up = (hour - first_positive[:, None] + lead) / (lead + 4)
    strength = rng.lognormal(0, 0.3, (size, 1))
    sepsis = strength * np.clip(build_up, 0, 1.2) ** 1.2
    on_admission = rng.exponential(0.5, (size, 1)) * np.exp(-hour / rng.uniform(6, 24, (size, 1)))
    return lengths, first_positive, sepsis + on_admission


def _measured(rng: np.random.Generator, illness: np.ndarray, clock: np.ndarray) -> dict[str, np.ndarray]:
    """{channel: [stays, hours] whether it is measured}. Channels of one panel are measured together.

    Labs are drawn on admission, in the early morning and, more often the more ill the patient is, in between.
    """
    size, hours = illness.shape
    eager = (1 + 0.5 * illness) * np.where((clock >= 4) & (clock < 7), 3.5, 0.6) + 3 * (np.arange(hours) < 2)
    taken, depth = {}, {}
    for panel, rate in PANELS.items():
        depth[panel] = rng.random((size, 1))  # how far down its list of channels a stay's panel goes
        if panel == "monitor":  # gaps last some hours
            taken[panel] = noise(rng, (hours, size), 0.6).T < 1.5
        else:
            taken[panel] = rng.random((size, hours)) < rate * (1.0 if panel in ("nurse", "ventilator") else eager)
    return {
        name: taken[how.panel] & (depth[how.panel] < how.ever) & (rng.random((size, hours)) < how.share)
        for name, how in CHANNELS.items()
    }
