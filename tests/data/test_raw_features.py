"""Features on raw rows against plain loops over the hours of stays that were read from the source's texts."""

import math

import numpy as np
import pytest

from ncl_tf.data.cohort import Cohort
from ncl_tf.data.raw_features import RawFeatures
from ncl_tf.data.raw_file import RawFile

VITAL = ("HR", "O2Sat", "Temp", "SBP", "MAP", "DBP", "Resp")
PLAUSIBLE = {"HR": (10, 300), "O2Sat": (0, 100), "Temp": (30, 50), "SBP": (10, 300), "MAP": (10, 200), "DBP": (10, 200)}
PLAUSIBLE |= {"Resp": (0, 100), "EtCO2": (10, 100), "FiO2": (0, 100)}


@pytest.fixture(scope="module")
def cohort(raw_ward_cohort):
    return Cohort(raw_ward_cohort)


def known_values(column: list[float], name: str) -> list[float]:
    """Fill forward, then drop what is not plausible."""
    low, high = PLAUSIBLE.get(name, (-math.inf, math.inf))
    found, last = [], math.nan
    for value in column:
        last = last if math.isnan(value) else value
        found.append(last if low <= last <= high else math.nan)
    return found


def by_loop(kind: str, names: list[str], columns: list[list[float]]) -> list[list[float]]:
    """The features of every hour of a stay; columns: [channels][hours] as measured."""
    known = [known_values(column, name) for name, column in zip(names, columns, strict=True)]
    dynamic = range(names.index("ICULOS") + 1, len(names))
    vital = [names.index(name) for name in VITAL]
    rows = []
    for hour in range(len(columns[0])):
        row = [values[hour] for values in known]
        if kind == "window":
            for hours in (6, 12, 18, 24, 30, 36, 42):
                row += [known[i][hour - hours] if hour >= hours else math.nan for i in dynamic]
        if kind == "engineered":
            measured = {i: [h for h in range(hour + 1) if not math.isnan(columns[i][h])] for i in dynamic}
            row += [hour - measured[i][-1] if measured[i] else math.nan for i in dynamic]
            row += [len(measured[i]) for i in dynamic]
            last = {i: [v for v in known[i][max(0, hour - 5) : hour + 1] if not math.isnan(v)] for i in vital}
            row += [min(last[i], default=math.nan) for i in vital]
            row += [max(last[i], default=math.nan) for i in vital]
            row += [known[i][hour] - known[i][hour - 6] if hour >= 6 else math.nan for i in vital]
        rows.append(row)
    return rows


@pytest.mark.parametrize(
    ("kind", "columns"), [("last_hour", 40), ("window", 40 + 7 * 34), ("engineered", 40 + 2 * 34 + 21)]
)
def test_features_equal_a_loop_over_the_hours_of_the_sources_files(kind, columns, cohort, ward):
    raw = RawFile(cohort)["val"]
    names = [channel.name for channel in cohort.preprocessor.dataset.channels]
    found, expected = RawFeatures.of_cohort(kind, cohort)(raw), []
    for name in raw.names:
        header, *lines = (ward / f"{name}.psv").read_text().split()
        order = [header.split("|").index(column) for column in names]
        rows = np.array([line.split("|") for line in lines], np.float32)[:, order]
        expected += by_loop(kind, names, rows.T.tolist())
    assert found.dtype == np.float32
    assert found.shape == (len(raw.values), columns)
    np.testing.assert_allclose(found, np.array(expected, np.float32), rtol=1e-4, atol=1e-4)
    assert 0.1 < np.isnan(found).mean() < 0.8


def test_nothing_is_carried_from_stay_to_stay_and_implausible_values_are_missing(cohort):
    dataset = cohort.preprocessor.dataset
    names = [channel.name for channel in dataset.channels]
    raw = RawFile(cohort)["test"]
    rate = names.index("HR")
    raw.values[:, rate] = np.nan
    raw.values[raw.first_rows[1] - 1, rate] = 80  # the last hour of the first stay
    raw.values[raw.first_rows[2], rate] = 301
    found = RawFeatures("engineered", dataset, (rate,))(raw)
    own = [rate, 40 + rate - 6, 74 + rate - 6, 108, 109, 110]  # value, hours since, number; minimum, maximum, change
    np.testing.assert_array_equal(found[raw.first_rows[1] - 1, own], np.float32([80, 0, 1, 80, 80, np.nan]))
    np.testing.assert_array_equal(found[raw.first_rows[1], own], np.float32([np.nan, np.nan, 0] + [np.nan] * 3))
    np.testing.assert_array_equal(found[raw.first_rows[2], own], np.float32([np.nan, 0, 1] + [np.nan] * 3))
