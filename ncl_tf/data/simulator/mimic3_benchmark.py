"""The simulated ward in the form of the MIMIC-III Benchmark's multitask data: events at irregular times, list files.

Events lie in three parts of each hour: the nurse's chart, then labs, then what is noted down in between.
"""

import numpy as np

from ncl_tf.data.datasets import MIMIC3_BENCHMARK
from ncl_tf.data.simulator.physiology import draw_patients, noise, vitals_and_labs
from ncl_tf.data.simulator.texts import StayFile, tables, texts

# Nine stays are of seven subjects: each stay's (subject, episode) in a round. Episode numbers can have two digits.
ROUND = ((0, 1), (1, 1), (2, 1), (2, 2), (3, 1), (4, 1), (5, 1), (5, 11), (6, 1))
MORTAL = (0, 1, 3, 4, 5, 7, 8)  # one of these stays of a round ends in death: a subject's last one
SUBJECTS = 7
VALIDATION, TEST = (3, 10, 17), (6, 13, 19)  # subjects modulo 20: 70 % train, 15 % validation, 15 % test
MASKED_HOURS = 5  # the benchmark makes no sample of the first hours
HORIZON = 24  # decompensation: death within so many hours

# Column: channel of the physiology, share of the rows in each part of the hour that hold it, decimals, template.
# Every row holds one channel at least.
NUMBERS = {
    "Capillary refill rate": ("Refill", (0.004, 0, 0), 0, "{}"),
    "Diastolic blood pressure": ("DBP", (0.95, 0, 0), 0, "{}"),
    "Fraction inspired oxygen": ("FiO2", (0.1, 0, 0), 2, "{}"),
    "Glucose": ("Glucose", (0, 1, 0), 0, "{}"),
    "Heart Rate": ("HR", (1, 0, 1), 0, "{:.0f}"),
    "Height": ("Height", (0.4, 0, 0), 0, "{}"),
    "Mean blood pressure": ("MAP", (0.95, 0, 0), 0, "{:.0f}"),
    "Oxygen saturation": ("O2Sat", (0.95, 0, 0.5), 0, "{}"),
    "Respiratory rate": ("Resp", (0.96, 0, 0.4), 0, "{:.0f}"),
    "Systolic blood pressure": ("SBP", (0.95, 0, 0), 0, "{}"),
    "Temperature": ("Temp", (0.3, 0, 0), 1, "{}"),
    "Weight": ("Weight", (0.04, 0, 0), 1, "{}"),
    "pH": ("pH", (0, 0.4, 0), 2, "{}"),
}
COMA_RATE = 0.27  # of the chart's rows; the three scores are taken together

COMA_SCALE = {channel.name: channel for channel in MIMIC3_BENCHMARK.channels if channel.spellings}
COMA_TOTAL = "Glascow coma scale total"
LISTS = dict.fromkeys(
    ("train_listfile.csv", "val_listfile.csv", "test_listfile.csv"),
    "filename,length of stay,in-hospital mortality task (pos;mask;label),length of stay task (masks;labels),"
    "phenotyping task (labels),decompensation task (masks;labels)",
)


def draw_stays(rng: np.random.Generator, first: int, count: int) -> list[StayFile]:
    """Draws `count` stays (whole rounds), the ward's stays from number `first` on."""
    lengths, deaths, illness = _courses(rng, count)
    round_number, place = np.divmod(np.arange(count), len(ROUND))
    subject_in_round, episode = np.array(ROUND).T[:, place]
    patients = draw_patients(rng, count).take(round_number * len(ROUND) + subject_in_round)
    clock = (rng.integers(0, 24, (count, 1)) + np.arange(illness.shape[1])) % 24
    values = vitals_and_labs(rng, patients, illness, clock)
    values["Refill"] = (illness > 1.8).astype(float)
    for name, body in {"Height": patients.height, "Weight": patients.weight}.items():
        values[name] = np.broadcast_to(body[:, None], illness.shape)
    series = _series(rng, values, illness, np.minimum(lengths, deaths))
    phenotypes = rng.random((count, 25)) < 0.15
    subjects = (first // len(ROUND) + round_number) * SUBJECTS + subject_in_round + 1
    stays = []
    for stay, subject in enumerate(subjects):
        split = "val" if subject % 20 in VALIDATION else "test" if subject % 20 in TEST else "train"
        name = f"{subject}_episode{episode[stay]}_timeseries.csv"
        line, hours, positive_hours = _list_line(name, float(lengths[stay]), float(deaths[stay]), phenotypes[stay])
        path = f"{'test' if split == 'test' else 'train'}/{name}"  # validation stays lie in train/
        stays.append(StayFile(path, series[stay], hours, positive_hours, f"{split}_listfile.csv", line))
    return stays


def _courses(rng: np.random.Generator, count: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Length of stay in hours [stays], hour of death [stays] (infinite if survived), illness [stays, hours].

    Who goes home recovers over the last days; who dies gets worse over the last day or two.
    """
    days = np.clip(rng.lognormal(np.log(2.3), 0.85, count), 0.25, 17)
    lengths = np.round(np.round(days, 4) * 24, 4)  # in the database, days have four decimals
    dying = np.arange(0, count, len(ROUND)) + rng.choice(MORTAL, count // len(ROUND))
    deaths = np.full(count, np.inf)
    deaths[dying] = lengths[dying] - np.maximum(0, rng.uniform(-3, 4, len(dying)))  # some leave the unit hours later
    hour = np.arange(np.ceil(lengths.max()))
    recovery = 2 * (1 - np.exp(-np.maximum(lengths[:, None] - hour, 0) / 100))
    recovery[dying] = 1
    decline = np.clip(1.1 - (deaths[:, None] - hour) / rng.uniform(18, 44, (count, 1)), 0, 1.1)
    return lengths, deaths, rng.lognormal(0, 0.2, (count, 1)) * recovery + 1.6 * decline


def _series(
    rng: np.random.Generator, values: dict[str, np.ndarray], illness: np.ndarray, ends: np.ndarray
) -> list[str]:
    """The text of each stay's series up to the hour `ends` [stays]. `values` are {channel: [stays, hours]}."""
    count, hours = illness.shape
    seconds = 3600 * np.arange(hours)[:, None] + 1200 * np.arange(3) + rng.integers(0, 1000, (count, 1, 3))
    seconds = seconds + 36 * rng.integers(0, 5, seconds.shape)
    charted = noise(rng, (hours, count), 0.6).T < 1.5  # gaps last some hours
    labs = rng.random(illness.shape) < 0.16 + 0.06 * illness
    noted = rng.random(illness.shape) < 0.25
    happens = np.stack([charted, labs, noted], axis=2) & (seconds < 3600 * ends[:, None, None])
    stay, hour, part = np.nonzero(happens)  # the rows, in order of time

    columns = {}
    for column, (channel, shares, decimals, template) in NUMBERS.items():
        measured = rng.random(len(stay)) < np.array(shares)[part]
        if column == "Height":
            measured &= hour < 2
        value = np.where(measured, values[channel][stay, hour], np.nan)
        columns[column] = texts(value, decimals, template, missing="")
    assessed = (part == 0) & (rng.random(len(stay)) < COMA_RATE)
    system = rng.integers(0, 2, count)[stay]
    columns |= _coma_scores(values["Alertness"][stay, hour], assessed, system)
    columns = {"Hours": list(map(str, (seconds[stay, hour, part] / 3600).tolist()))} | dict(sorted(columns.items()))
    return tables(list(columns), list(columns.values()), np.bincount(stay, minlength=count), ",")


def _coma_scores(alertness: np.ndarray, assessed: np.ndarray, system: np.ndarray) -> dict[str, list[str]]:
    """Texts of the coma scale [rows], empty where not `assessed`; `system` 0 or 1 picks the spelling.

    MetaVision records the total beside the three scores, CareVue does not.
    """
    columns, total = {}, np.zeros(len(alertness))
    for column, channel in COMA_SCALE.items():
        levels = len(channel.levels)
        level = np.clip(np.ceil(alertness * levels), 1, levels).astype(int)
        total += level
        spellings = {code: [text for text, of in channel.spellings.items() if of == code] for code in channel.levels}
        written = np.array([["", ""], *(texts[-2:] for texts in spellings.values())], object)  # of both systems
        columns[column] = written[level * assessed, system].tolist()
    columns[COMA_TOTAL] = texts(np.where(assessed & (system == 1), total, np.nan), 0, "{:.0f}", missing="")
    return columns


def _list_line(name: str, length: float, death: float, phenotypes: np.ndarray) -> tuple[str, int, int]:
    """A stay's line in its list file, its number of hours and of hours with decompensation.

    Entry j of a list belongs to hour j = 0 ... floor(stay); the list of decompensation ends at death.
    """
    remaining = length - np.arange(int(length) + 1)
    decompensation = (death - np.arange(int(min(length, death)) + 1) < HORIZON).astype(int)
    two_days = int(length >= 48)
    fields = [
        name,
        f"{length:.6f}",
        f"{47 * two_days};{two_days};{int(death < np.inf)}",
        _masks_and_labels(remaining, "{:.6f}"),
        ";".join(map(str, phenotypes.astype(int).tolist())),
        _masks_and_labels(decompensation, "{}"),
    ]
    return ",".join(fields), len(remaining), int(decompensation.sum())


def _masks_and_labels(labels: np.ndarray, template: str) -> str:
    masks = ["0"] * MASKED_HOURS + ["1"] * len(labels)
    return ";".join([*masks[: len(labels)], *map(template.format, labels.tolist())])
