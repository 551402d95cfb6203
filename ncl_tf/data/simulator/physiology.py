"""The simulated patients: who they are, how ill they are hour by hour, and what that does to vitals and labs.

As in a real ward, patients differ from one another more than any one of them changes. By design, a single hour contains
little information and the change against the patient's own past a lot. Two things ensure that: wide baselines, and `frailty`,
which shifts a patient's baseline for good into the direction in which acute illness shifts it for hours.
"""

import dataclasses
from typing import NamedTuple

import numpy as np

FRAILTY = 0.7  # correlation of frailty with the baselines of what illness changes


class Driver(NamedTuple):
    """One simulated quantity: standard deviations `between` and `within` patients, and its shift at illness 1.

    With `log`, center is a median and the other numbers are differences of logarithms. `memory` is the correlation
    of the noise from one hour to the next, `rhythm` the amplitude of the 24-hour wave, highest at 5 p.m.
    """

    center: float
    between: float
    within: float
    illness: float = 0.0
    memory: float = 0.8
    rhythm: float = 0.0
    log: bool = False


DRIVERS = {
    "HR": Driver(82, 14, 8, 11, rhythm=2.5),
    "O2Sat": Driver(97, 1.7, 1.2, -0.9),
    "Temp": Driver(36.95, 0.5, 0.32, 0.45, memory=0.85, rhythm=0.2),
    "MAP": Driver(79, 11, 7.5, -8, rhythm=2),
    "PulsePressure": Driver(60, 13, 5.5, -3),
    "Resp": Driver(18.5, 3.6, 2.7, 2.7, memory=0.7, rhythm=0.5),
    "FiO2": Driver(0.47, 0.1, 0.05, 0.05, memory=0.95),
    "HCO3": Driver(24.5, 3.7, 1.4, -1.3, memory=0.95),
    "PaCO2": Driver(40.5, 6.5, 3.5, -1.5, memory=0.9),
    "AST": Driver(50, 0.9, 0.25, 0.25, memory=0.97, log=True),
    "BUN": Driver(18, 0.6, 0.1, 0.12, memory=0.97, log=True),
    "Alkalinephos": Driver(80, 0.5, 0.12, memory=0.97, log=True),
    "Calcium": Driver(8.3, 0.6, 0.35, -0.1, memory=0.95),
    "Chloride": Driver(105.5, 4.8, 2, memory=0.95),
    "Creatinine": Driver(0.95, 0.5, 0.12, 0.16, memory=0.97, log=True),
    "Glucose": Driver(126, 0.25, 0.22, 0.08, memory=0.8, log=True),
    "Lactate": Driver(1.7, 0.4, 0.26, 0.3, memory=0.9, log=True),
    "Magnesium": Driver(2.03, 0.27, 0.17, memory=0.95),
    "Phosphate": Driver(3.4, 0.9, 0.5, 0.2, memory=0.95),
    "Potassium": Driver(4.15, 0.42, 0.3, 0.08, memory=0.9),
    "Bilirubin_total": Driver(0.95, 0.8, 0.15, 0.12, memory=0.98, log=True),
    "TroponinI": Driver(2.0, 1.2, 0.3, 0.1, memory=0.95, log=True),
    "Hgb": Driver(10.5, 1.5, 0.6, -0.15, memory=0.97),
    "PTT": Driver(34, 0.3, 0.2, 0.06, memory=0.95, log=True),
    "WBC": Driver(11, 0.42, 0.15, 0.2, memory=0.97, log=True),
    "Fibrinogen": Driver(255, 0.45, 0.12, 0.08, memory=0.98, log=True),
    "Platelets": Driver(180, 0.48, 0.1, -0.08, memory=0.98, log=True),
    "Alertness": Driver(1.1, 0.15, 0.07, -0.3, memory=0.9),
}

# What passes by itself, in units of the driver: it looks like the start of an illness, from a single hour all the more.
TRANSIENTS = (
    {"HR": 14, "MAP": 9, "Resp": 4, "PulsePressure": 6},  # pain
    {"HR": 9, "Temp": 0.9, "Resp": 2},  # fever
    {"HR": 11, "MAP": -9, "PulsePressure": -6},  # a fall of blood pressure after a drug
)
# What devices and laboratories report at most.
LIMITS = {
    "HR": (25, 220), "O2Sat": (60, 100), "Temp": (32, 42), "SBP": (40, 250), "MAP": (25, 180), "DBP": (15, 140),
    "Resp": (4, 45), "EtCO2": (12, 90), "BaseExcess": (-25, 25), "HCO3": (6, 45), "FiO2": (0.21, 1), "pH": (6.8, 7.7),
    "PaCO2": (15, 110), "SaO2": (50, 100), "AST": (5, 9000), "BUN": (2, 200), "Alkalinephos": (15, 2000),
    "Calcium": (5, 14), "Chloride": (75, 140), "Creatinine": (0.2, 15), "Bilirubin_direct": (0.1, 30),
    "Glucose": (30, 700), "Lactate": (0.3, 20), "Magnesium": (0.8, 5), "Phosphate": (0.6, 12), "Potassium": (2, 8),
    "Bilirubin_total": (0.1, 45), "TroponinI": (0.01, 50), "Hct": (12, 60), "Hgb": (4, 20), "PTT": (15, 150),
    "WBC": (0.2, 90), "Fibrinogen": (50, 1200), "Platelets": (8, 900),
}  # fmt: skip


@dataclasses.dataclass
class Patients:
    """Who the patients are: arrays over patients; `baseline` and `response` are [patients, drivers]."""

    age: np.ndarray
    male: np.ndarray
    height: np.ndarray
    weight: np.ndarray
    baseline: np.ndarray  # the patient's own usual deviation, in standard deviations between patients
    response: np.ndarray  # by how much illness moves each driver, relative to the table

    def take(self, index: np.ndarray) -> "Patients":
        """Select patients by their positions; a patient may be selected several times."""
        return Patients(*(getattr(self, field.name)[index] for field in dataclasses.fields(self)))


def draw_patients(rng: np.random.Generator, count: int) -> Patients:
    """Draws `count` patients. The old are a little frailer; in one patient of four illness lowers the temperature."""
    place = {name: index for index, name in enumerate(DRIVERS)}
    age = np.clip(rng.normal(63, 16, count), 18, 90)
    male = rng.random(count) < 0.56
    height = 163 + 13 * male + 7 * rng.standard_normal(count)
    weight = 27 * np.exp(0.2 * rng.standard_normal(count)) * (height / 100) ** 2
    own = rng.standard_normal((count, len(DRIVERS)))
    own[:, place["BUN"]] = 0.8 * own[:, place["Creatinine"]] + 0.6 * own[:, place["BUN"]]  # both are the kidneys'
    frailty = 0.95 * rng.standard_normal(count) + 0.3 * (age - 63) / 16
    direction = np.sign([driver.illness for driver in DRIVERS.values()])
    baseline = np.sqrt(1 - (FRAILTY * direction) ** 2) * own + FRAILTY * direction * frailty[:, None]
    response = rng.lognormal(-0.1, 0.45, (count, len(DRIVERS)))
    response[:, place["Temp"]] *= np.where(rng.random(count) < 0.25, -1, 1)
    return Patients(age, male, height, weight, baseline, response)


def noise(rng: np.random.Generator, shape: tuple[int, ...], memory: np.ndarray | float) -> np.ndarray:
    """Unit-variance AR(1) noise along the first axis of `shape`; `memory` broadcasts over the other axes."""
    series = rng.standard_normal(shape)
    fresh = np.sqrt(1 - np.square(memory))
    for step in range(1, shape[0]):
        series[step] = memory * series[step - 1] + fresh * series[step]
    return series


def vitals_and_labs(
    rng: np.random.Generator, patients: Patients, illness: np.ndarray, clock: np.ndarray
) -> dict[str, np.ndarray]:
    """Compute the true values of every channel, measured or not.

    Args:
      illness: [patients, hours], 0 for a patient's usual state, about 1 at the height of a sepsis.
      clock: [patients, hours] hour of the day.

    Returns:
      {channel: [patients, hours]}: the drivers and what follows from them.
    """
    count, hours = illness.shape
    memory = np.array([driver.memory for driver in DRIVERS.values()])[:, None]
    wander = noise(rng, (hours, len(DRIVERS), count), memory).transpose(1, 2, 0)
    wave = np.cos((clock - 17) * 2 * np.pi / 24)
    passing = _transients(rng, count, hours)
    values = {}
    for place, (name, driver) in enumerate(DRIVERS.items()):
        deviation = driver.between * patients.baseline[:, place, None] + driver.within * wander[place]
        deviation += driver.illness * patients.response[:, place, None] * illness + driver.rhythm * wave
        for pattern, strength in zip(TRANSIENTS, passing, strict=True):
            if name in pattern:
                deviation += pattern[name] * strength
        values[name] = driver.center * np.exp(deviation) if driver.log else driver.center + deviation
    values |= _derived(rng, values)
    return {name: np.clip(value, *LIMITS.get(name, (None, None))) for name, value in values.items()}


def _transients(rng: np.random.Generator, count: int, hours: int) -> list[np.ndarray]:
    """One [patients, hours] strength per kind of transient: half a sine wave of 4 to 12 hours, about every third day."""
    strengths = []
    for _ in TRANSIENTS:
        start = rng.exponential(60, (count, 1))
        duration = rng.uniform(4, 12, (count, 1))
        since = np.mod(np.arange(hours) - start, 72)  # repeats every 72 hours
        bump = np.sin(np.pi * np.minimum(since / duration, 1))
        strengths.append(np.where(np.arange(hours) >= start, bump, 0) * rng.lognormal(0, 0.3, (count, 1)))
    return strengths


def _derived(rng: np.random.Generator, values: dict[str, np.ndarray]) -> dict[str, np.ndarray]:
    """What physiology ties to the drivers; the noise is that of the measurement."""
    pulse = np.maximum(values["PulsePressure"], 15)
    hco3, paco2 = np.maximum(values["HCO3"], 6), np.maximum(values["PaCO2"], 15)
    ph = 6.1 + np.log10(hco3 / (0.0307 * paco2))  # Henderson-Hasselbalch
    shape = pulse.shape
    return {
        "SBP": values["MAP"] + pulse * 2 / 3,
        "DBP": values["MAP"] - pulse / 3,
        "FiO2": np.round(values["FiO2"] * 20) / 20,  # set in steps
        "pH": ph,
        "BaseExcess": 0.93 * (hco3 - 24.4 + 14.8 * (ph - 7.4)),
        "SaO2": values["O2Sat"] - 0.5 + 0.6 * rng.standard_normal(shape),
        "EtCO2": paco2 - 4 + 1.5 * rng.standard_normal(shape),
        "Hct": 2.95 * values["Hgb"] + 0.5 * rng.standard_normal(shape),
        "Bilirubin_direct": 0.45 * values["Bilirubin_total"],
    }
