"""The simulated ward in the form of the MIMIC-III Benchmark's multitask data: events at irregular times and list files."""

import pathlib

import numpy as np

from ncl_tf.data.physiology import draw_patients, noise, texts, vitals_and_labs

# Nine stays are of seven subjects: (subject, episode, whether it is the subject's last) of each stay of a round.
ROUND = (
    (0, 1, True), (1, 1, True), (2, 1, False), (2, 2, True), (3, 1, True), (4, 1, True), (5, 1, False), (5, 11, True),
    (6, 1, True),
)  # fmt: skip
SUBJECTS = 7
VALIDATION, TEST = (3, 10, 17), (6, 13, 19)  # subjects modulo 20: 70 % train, 15 % validation, 15 % test

CHART, LAB, EXTRA = range(3)  # the times within an hour at which something may be written down, in this order
MASKED_HOURS = 5  # the benchmark leaves the first hours out
WINDOW = 24  # decompensation: death within so many hours

# Title, {time: share of its rows with a value}, decimals, template of the text.
NUMBERS = {
    "DBP": ("Diastolic blood pressure", {CHART: 0.95}, 0, "{}"),
    "FiO2": ("Fraction inspired oxygen", {CHART: 0.12}, 2, "{}"),
    "Glucose": ("Glucose", {LAB: 0.85}, 0, "{}"),
    "HR": ("Heart Rate", {CHART: 0.97, EXTRA: 0.5}, 0, "{:.0f}"),
    "MAP": ("Mean blood pressure", {CHART: 0.95}, 0, "{:.0f}"),
    "O2Sat": ("Oxygen saturation", {CHART: 0.95, EXTRA: 0.5}, 0, "{}"),
    "Resp": ("Respiratory rate", {CHART: 0.96, EXTRA: 0.4}, 0, "{:.0f}"),
    "SBP": ("Systolic blood pressure", {CHART: 0.95}, 0, "{}"),
    "Temp": ("Temperature", {CHART: 0.3}, 1, "{}"),
    "pH": ("pH", {LAB: 0.35}, 2, "{}"),
}
LIMITS = {"FiO2": (0.21, 1), "O2Sat": (60, 100), "Resp": (2, 44), "DBP": (12, 150), "Glucose": (30, 800)}
# Texts of the levels from 1 up, as the two charting systems CareVue and MetaVision spell them.
COMA_SCALE = {
    "Glascow coma scale eye opening": (
        ("None", "To Pain", "To Speech", "Spontaneously"),
        ("1 No Response", "2 To pain", "3 To speech", "4 Spontaneously"),
    ),
    "Glascow coma scale motor response": (
        ("No response", "Abnormal extension", "Abnormal Flexion", "Flex-withdraws", "Localizes Pain", "Obeys Commands"),
        ("1 No Response", "2 Abnorm extensn", "3 Abnorm flexion", "4 Flex-withdraws", "5 Localizes Pain",
         "6 Obeys Commands"),
    ),
    "Glascow coma scale verbal response": (
        ("No Response-ETT", "Incomprehensible sounds", "Inappropriate Words", "Confused", "Oriented"),
        ("1.0 ET/Trach", "2 Incomp sounds", "3 Inapprop words", "4 Confused", "5 Oriented"),
    ),
}  # fmt: skip
LIST_HEADER = (
    "filename,length of stay,in-hospital mortality task (pos;mask;label),length of stay task (masks;labels),"
    "phenotyping task (labels),decompensation task (masks;labels)"
)


def write_block(
    rng: np.random.Generator, size: int, first: int, wanted: int, folder: pathlib.Path
) -> dict[str, int]:
    """Draws `size` stays, writes the first `wanted` of them, counted on from `first`, and counts what it wrote."""
    stay_hours, death, illness = _courses(rng, size)
    subjects, episodes = zip(*(_subject_and_episode(first + stay) for stay in range(size)), strict=True)
    hour = np.arange(illness.shape[1])
    clock = (rng.integers(0, 24, (size, 1)) + hour) % 24
    patients = draw_patients(rng, size).take(np.unique(subjects, return_index=True, return_inverse=True)[2])
    values = vitals_and_labs(rng, patients, illness, clock)
    rows, rows_of_stay = _rows(rng, values, illness, np.minimum(stay_hours, death), wanted)

    lists = {"train": [], "val": [], "test": []}
    counts = {"hours": 0, "positive stays": 0, "positive hours": 0}
    ends = np.cumsum(rows_of_stay)
    for stay in range(wanted):
        name = f"{subjects[stay]}_episode{episodes[stay]}_timeseries.csv"
        split = _split(subjects[stay])
        subfolder = folder / ("test" if split == "test" else "train")
        subfolder.mkdir(exist_ok=True)
        lines = [HEADER, *rows[ends[stay] - rows_of_stay[stay] : ends[stay]], ""]
        (subfolder / name).write_text("\n".join(lines), encoding="ascii")
        line, hours, positives = _list_line(rng, name, stay_hours[stay], death[stay])
        lists[split].append(line)
        counts["hours"] += hours
        counts["positive stays"] += positives > 0
        counts["positive hours"] += positives
    for split, lines in lists.items():
        with (folder / f"{split}_listfile.csv").open("a" if first else "w", encoding="ascii") as file:
            file.writelines(f"{line}\n" for line in ([] if first else [LIST_HEADER]) + lines)
    return counts
