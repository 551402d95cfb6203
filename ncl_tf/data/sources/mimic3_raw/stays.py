"""Which stays of MIMIC-III belong to the benchmark, and what is known of each."""

import collections
from typing import NamedTuple

import numpy as np

from ncl_tf.data.sources.mimic3_raw.tables import MISSING, RawTable, dict_rows, seconds, whole_number
from ncl_tf.errors import InputError

ADULT = 18  # years
AGE_OF_HIDDEN_BIRTHS = 90  # years; the download moves the births of the very old, some to after the stay
NEVER = np.iinfo(np.int64).max


class UnitStay(NamedTuple):
    """A stay in an intensive care unit that the benchmark uses; times are seconds since 1970.

    Attributes:
      subject, admission, stay: the ids of the patient, of the admission to the hospital, and of the stay.
      episode: the number of the stay among those of the subject, from 1.
      intime, outtime: of the stay; None if not known.
      hours: length of the stay, None if not known.
      died: whether the patient died in the hospital.
      death: when the patient died there; None: not, or not known.
    """

    subject: int
    admission: int
    stay: int
    episode: int
    intime: int
    outtime: int | None
    hours: float | None
    died: bool
    death: int | None


def read_unit_stays(tables: dict[str, RawTable]) -> tuple[list[UnitStay], dict[str, int]]:
    """Read the stays of the benchmark, in order of subject and episode, and how many were left after each rule."""
    admissions = {}
    for place, row in dict_rows(tables["ADMISSIONS"]):
        key = whole_number(row, "SUBJECT_ID", place), whole_number(row, "HADM_ID", place)
        admissions[key] = [seconds(row, column, place) for column in ("ADMITTIME", "DISCHTIME", "DEATHTIME")]
    patients = {
        whole_number(row, "SUBJECT_ID", place): (seconds(row, "DOB", place), seconds(row, "DOD", place))
        for place, row in dict_rows(tables["PATIENTS"])
    }
    counts = {"stays": 0, "in one ward and one care unit": 0}
    known = []
    for place, row in dict_rows(tables["ICUSTAYS"]):
        counts["stays"] += 1
        if (row["FIRST_WARDID"], row["FIRST_CAREUNIT"]) != (row["LAST_WARDID"], row["LAST_CAREUNIT"]):
            continue
        counts["in one ward and one care unit"] += 1
        subject, admission, stay = (
            whole_number(row, column, place) for column in ("SUBJECT_ID", "HADM_ID", "ICUSTAY_ID")
        )
        if (subject, admission) in admissions and subject in patients:
            intime, outtime = seconds(row, "INTIME", place), seconds(row, "OUTTIME", place)
            if intime is None:
                raise InputError(f"{place}, column INTIME: must be a date, got {row['INTIME']!r}")
            born, dead = patients[subject]
            admitted, discharged, death = admissions[subject, admission]
            died = any(_within(time, admitted, discharged) for time in (dead, death))
            found = UnitStay(subject, admission, stay, 0, intime, outtime, _length(row, place), died, death)
            known.append((found, born))
    stays_of = collections.Counter(found.admission for found, _ in known)
    alone = [(found, born) for found, born in known if stays_of[found.admission] == 1]
    counts["the only one of their admission"] = len(alone)
    adults = [found for found, born in alone if _age(found.intime, born) >= ADULT]
    counts[f"of patients of {ADULT} years or more"] = len(adults)
    return _numbered(adults), counts


def _length(row: dict[str, str], place: str) -> float | None:
    """Return the length of a stay in hours."""
    if row["LOS"] in MISSING:
        return None
    try:
        return 24.0 * float(row["LOS"])
    except ValueError as error:
        raise InputError(f"{place}, column LOS: must be a number of days, got {row['LOS']!r}") from error


def _within(time: int | None, first: int | None, last: int | None) -> bool:
    return None not in (time, first, last) and first <= time <= last


def _age(intime: int, born: int | None) -> float:
    """Return the age in years; unknown ages are below all others."""
    if born is None:
        return -np.inf
    years = (intime - born) / 3600 / 24 / 365
    return AGE_OF_HIDDEN_BIRTHS if years < 0 else years


def _numbered(stays: list[UnitStay]) -> list[UnitStay]:
    """Number the episodes of each subject in order of INTIME and OUTTIME, an unknown one last."""
    ordered = sorted(
        stays, key=lambda stay: (stay.subject, stay.intime, NEVER if stay.outtime is None else stay.outtime)
    )
    episodes: collections.Counter[int] = collections.Counter()
    numbered = []
    for stay in ordered:
        episodes[stay.subject] += 1
        numbered.append(stay._replace(episode=episodes[stay.subject]))
    return numbered
