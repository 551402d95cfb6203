"""Groups of stays, from cohort files that the tests prepare of values that they know."""

import numpy as np
import pytest

from ncl_tf.data.cohort import Cohort, write_cohort
from ncl_tf.data.declaration import Channel, Dataset, Task
from ncl_tf.data.groups import characteristics
from ncl_tf.data.stays import Stays

NAN = np.nan
STAYS = 40


def written(path, channels, values, names=None, dataset="own", late=False):
    """The cohort of stays of one to three hours with static values [stays, channels], all of them in the test split, too.

    late: whether the values become known in the last hour of a stay only.
    """
    declared = Dataset(dataset, (*channels, Channel("HR")), (Task("sepsis"),))
    lengths = 1 + np.arange(len(values)) % 3
    rows = np.repeat(np.column_stack([values, np.arange(len(values))]), lengths, axis=0).astype(np.float32)
    if late:
        rows[np.setdiff1d(np.arange(len(rows)), np.cumsum(lengths) - 1), :-1] = np.nan
    names = np.array([f"s{i}" for i in range(len(values))]) if names is None else names
    stays = Stays(names, lengths, np.asfortranarray(rows), np.zeros((len(rows), 1), np.float32))
    every = np.arange(len(values))
    write_cohort(path, declared, stays, {"train": every, "val": every[:2], "test": every}, "")
    return Cohort(path)


def sizes(one):
    return dict(zip(one.groups, np.bincount(one.member).tolist(), strict=True))


def test_ages_lie_in_bands_that_include_their_lower_edge(tmp_path):
    ages = np.array([17.9, 18, 39.9, 40, 50, 59, 60, 70, 79.99, 80, 103, NAN])
    cohort = written(tmp_path / "c.h5", [Channel("Age", static=True, unit="years")], ages[:, None])
    (age,) = characteristics(cohort, "test")
    bands = ["under 18", "18 to 39", "18 to 39", "40 to 49", "50 to 59", "50 to 59", "60 to 69", "70 to 79", "70 to 79"]
    assert age.name == "Age (years)"
    assert [age.groups[group] for group in age.member] == [*bands, "80 and over", "80 and over", "unknown"]


def test_what_becomes_known_during_a_stay_counts(tmp_path):
    ages = np.arange(20.0, 32)[:, None] * [1, 2]
    channels = [Channel("age", static=True), Channel("Weight", static=True)]
    early, late = (written(tmp_path / f"{late}.h5", channels, ages, late=late) for late in (False, True))
    for one, same in zip(characteristics(early, "test"), characteristics(late, "test"), strict=True):
        assert one.groups == same.groups
        np.testing.assert_array_equal(one.member, same.member)
        assert "unknown" not in one.groups


@pytest.mark.parametrize(
    ("name", "unit", "banded"),
    [("anchor_age", "", True), ("Age at admission", "years", True), ("Weight", "", False), ("stage", "", False),
     ("age", "days", False)],
)  # fmt: skip
def test_what_an_age_is(tmp_path, name, unit, banded):
    values = np.linspace(10, 90, STAYS)[:, None]
    (one,) = characteristics(written(tmp_path / "c.h5", [Channel(name, static=True, unit=unit)], values), "test")
    assert ("80 and over" in one.groups) is banded
    assert (len(one.groups) == 4) is not banded


def test_other_channels_are_cut_into_quarters_of_the_known(tmp_path):
    values = np.append(np.arange(STAYS) * 2.5, [NAN, NAN, NAN])
    (height,) = characteristics(
        written(tmp_path / "c.h5", [Channel("Height", static=True, unit="cm")], values[:, None]), "test"
    )
    assert sizes(height) == {
        "below 25": 10, "25 to below 50": 10, "50 to below 75": 10, "75 and over": 10, "unknown": 3,
    }  # fmt: skip
    ties = np.where(np.arange(STAYS) < 30, 0.0, 1.0)[:, None]
    (tied,) = characteristics(written(tmp_path / "t.h5", [Channel("Score", static=True)], ties), "test")
    assert sizes(tied) == {"below 1": 30, "1 and over": 10}


def test_levels_of_categorical_channels(tmp_path):
    many = np.arange(STAYS) % 12
    many[:13] = 11  # levels 0 to 3 and 11 are no longer equally frequent
    channels = [
        Channel("Sex", "categorical", True, levels=(0, 1), spellings={"f": 0, "m": 1}),
        Channel("Unit", "categorical", True, levels=(0, 1)),
        Channel("Ward", "categorical", True, levels=(1, 2, 3), spellings={"surgery": 2, "surgical": 2}),
        Channel("Code", "categorical", True, levels=tuple(range(12))),
        Channel("Same", "categorical", True, levels=(0, 1)),
    ]
    sex, unit = np.arange(STAYS) % 2, np.where(np.arange(STAYS) < 10, NAN, np.arange(STAYS) % 2)
    ward = np.where(np.arange(STAYS) < 4, NAN, 1 + np.arange(STAYS) % 3)
    values = np.column_stack([sex, unit, ward, many, np.ones(STAYS)])
    found = {one.name: sizes(one) for one in characteristics(written(tmp_path / "c.h5", channels, values), "test")}
    assert found["Sex"] == {"f": 20, "m": 20}
    assert found["Unit"] == {"0 or unknown": 25, "1": 15}
    assert found["Ward"] == {"1": 12, "surgery": 12, "3": 12, "unknown": 4}
    assert list(found["Code"])[-1] == "other" and len(found["Code"]) == 8
    assert found["Code"]["11"] == 15 and sum(found["Code"].values()) == STAYS
    assert "Same" not in found  # one group is none


def test_hospitals_of_physionet_2019_are_known_by_the_names(tmp_path):
    names = np.array([f"p{i:06d}" for i in (1, 20643, 100001, 120000, 7)])
    cohort = written(tmp_path / "c.h5", [Channel("Age", static=True)], np.full((5, 1), 50.0), names, "physionet2019")
    (hospital,) = characteristics(cohort, "test")
    assert (hospital.name, hospital.groups, hospital.member.tolist()) == (
        "hospital",
        ("hospital A", "hospital B"),
        [0, 0, 1, 1, 0],
    )
    assert (
        characteristics(written(tmp_path / "o.h5", [Channel("Age", static=True)], np.full((5, 1), 50.0), names), "test")
        == []
    )


def test_the_number_of_channels_is_bounded(tmp_path):
    channels = [Channel(f"X{i}", static=True) for i in range(15)]
    values = np.random.default_rng(0).random((STAYS, 15))
    assert [one.name for one in characteristics(written(tmp_path / "c.h5", channels, values), "test")] == [
        f"X{i}" for i in range(12)
    ]


def test_groups_of_a_simulated_ward(ward_cohort):
    found = {one.name: one for one in characteristics(Cohort(ward_cohort), "train")}
    assert {"Gender", "Age (years)"} <= set(found) and "hospital" not in found
    assert found["Gender"].groups == ("female", "male")
    assert all((np.bincount(one.member) > 0).all() for one in found.values())
