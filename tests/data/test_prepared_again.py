"""A cohort prepared again by the preprocessor of another: against loops over raw rows; what means something else is refused."""

import dataclasses
import pathlib

import numpy as np
import pytest

from ncl_tf.data.cohort import Cohort, write_cohort
from ncl_tf.data.declaration import Channel, Dataset, Task
from ncl_tf.data.prepared_again import ALL, PreparedAgain
from ncl_tf.data.raw_file import RawFile, write_raw_file
from ncl_tf.data.splits import SPLITS
from ncl_tf.data.stays import Stays
from refusals import refused

NAN = np.nan
SEX = {"kind": "categorical", "static": True, "levels": (0, 1), "text_only": True}
TRAINED_ON = Dataset(
    "mine",
    (
        Channel("sex", **SEX, spellings={"f": 0, "m": 1}),
        Channel("age", static=True, unit="years"),
        Channel("ICP"),
        Channel("HR", low=10, high=300, unit="beats/min"),
        Channel("rhythm", kind="categorical", levels=(1, 2, 3)),
    ),
    (Task("sepsis"),),
    observations=("recency", "count"),
)
OTHER = Dataset(
    "theirs",
    (
        Channel("age", static=True),
        Channel("sex", **SEX, spellings={"M": 0, "male": 0, "F": 1}),
        Channel("rhythm", kind="categorical", levels=(3, 1)),
        Channel("pH", low=6, high=8),
        Channel("HR", low=60, high=70, unit="beats/min"),
    ),
    (Task("stay", kind="bins", edges=(2,)), Task("sepsis")),
)
LENGTHS = np.array([3, 1, 4, 2, 2])
SPLIT = {"train": np.array([1, 3]), "val": np.array([0]), "test": np.array([2, 4])}


def write(path: pathlib.Path, dataset: Dataset, seed: int, subjects: np.ndarray | None = None) -> Stays:
    """Write a cohort of a few stays, with its raw rows; half of the cells are missing."""
    rng, hours = np.random.default_rng(seed), LENGTHS.sum()
    values = np.empty((hours, len(dataset.channels)), np.float32, order="F")
    for position, channel in enumerate(dataset.channels):
        drawn = rng.choice(channel.levels, hours) if channel.levels else rng.uniform(0, 400, hours)
        values[:, position] = np.where(rng.random(hours) < 0.5, drawn, NAN)
    labels = rng.integers(0, 2, (hours, len(dataset.tasks))).astype(np.float32)
    stays = Stays(np.array(list("abcde")), LENGTHS, values, labels, subjects=subjects)
    write_cohort(path, dataset, stays, SPLIT, "")
    write_raw_file(path, dataset, stays, SPLIT)
    return stays


def filled(values: np.ndarray, low: float = -np.inf, high: float = np.inf) -> np.ndarray:
    """Carry one stay's values forward, then remove what is outside of the range."""
    values = [values[max((i for i in range(k + 1) if not np.isnan(values[i])), default=k)] for k in range(len(values))]
    return np.array([value if low <= value <= high else NAN for value in values])


def expected(raw: dict[str, np.ndarray], fitted: dict[str, tuple[float, float]]) -> np.ndarray:
    """Prepare the raw channels of one stay by hand, as `TRAINED_ON` declares: [hours, columns]."""
    hours = len(raw["HR"])
    sex, rhythm = filled(raw["sex"]), filled(raw["rhythm"])
    columns = [(sex == 0).astype(float)]  # "M" is level 0 there, and 1 in the preprocessor's words
    for name, low, high in (("age", -np.inf, np.inf), ("ICP", 0, 0), ("HR", 10, 300)):
        mean, scale = fitted[name]
        known = filled(raw[name], low, high) if name in raw else np.full(hours, NAN)
        columns.append(np.nan_to_num((known - mean) / scale))
    columns += [(rhythm == level).astype(float) for level in (1, 2, 3)]
    dynamic = [raw.get(name, np.full(hours, NAN)) for name in ("ICP", "HR", "rhythm")]
    for values in dynamic:
        last = [max((i for i in range(k + 1) if not np.isnan(values[i])), default=None) for k in range(hours)]
        columns.append([0 if i is None else 1 / (1 + k - i) for k, i in enumerate(last)])
    for name, values in zip(("ICP", "HR", "rhythm"), dynamic, strict=True):
        mean, scale = fitted[f"{name}:count"]
        columns.append([(np.log1p((~np.isnan(values[: k + 1])).sum()) - mean) / scale for k in range(hours)])
    return np.stack(columns, axis=1)


def test_rows_are_prepared_by_the_other_cohorts_statistics_ranges_and_levels(tmp_path):
    write(tmp_path / "mine.h5", TRAINED_ON, seed=1)
    stays = write(tmp_path / "theirs.h5", OTHER, seed=2, subjects=np.array(["p", "q", "r", "s", "t"]))
    preprocessor = Cohort(tmp_path / "mine.h5").preprocessor
    names = [channel.name for channel in TRAINED_ON.channels]
    fitted = dict(zip(names, zip(preprocessor.mean, preprocessor.scale, strict=True), strict=True))
    counts = zip(preprocessor.count_mean, preprocessor.count_scale, strict=True)
    fitted |= {f"{name}:count": pair for name, pair in zip(names, counts, strict=True)}
    before, again = Cohort(tmp_path / "theirs.h5"), PreparedAgain(tmp_path / "theirs.h5", preprocessor)
    assert (again.missing, again.unused) == (["ICP"], ["pH"])
    assert again.columns == Cohort(tmp_path / "mine.h5").columns and again.static_columns == 2
    assert (again.name, again.tasks, again.checksum) == ("theirs", OTHER.tasks, before.checksum)
    assert again.preprocessor.dataset.observations == ("recency", "count")
    own = [channel.name for channel in OTHER.channels]
    blocks = np.split(stays.values, np.cumsum(LENGTHS)[:-1])
    prepared = [expected(dict(zip(own, block.T, strict=True)), fitted) for block in blocks]
    for split, chosen in SPLIT.items():
        np.testing.assert_allclose(again[split].data, np.concatenate([prepared[stay] for stay in chosen]), atol=1e-6)
        for field in ("labels", "classes", "patient_windows", "stay_names", "subjects"):
            np.testing.assert_array_equal(getattr(again[split], field), getattr(before[split], field))
    everyone = again[ALL]
    order = np.concatenate([SPLIT[split] for split in SPLITS])
    np.testing.assert_allclose(everyone.data, np.concatenate([prepared[stay] for stay in order]), atol=1e-6)
    assert everyone.stay_names.tolist() == list("bdace") and everyone.subjects.tolist() == list("qsprt")
    np.testing.assert_array_equal(everyone.lengths, LENGTHS[order])
    np.testing.assert_array_equal(everyone.patient_windows[:, 0], np.cumsum(LENGTHS[order]) - LENGTHS[order])
    np.testing.assert_array_equal(everyone.classes, np.concatenate([before[split].classes for split in SPLITS]))
    assert everyone.label_times is None


def test_by_its_own_preprocessor_a_cohort_stays_as_it_is(tmp_path):
    write(tmp_path / "mine.h5", TRAINED_ON, seed=1)
    cohort = Cohort(tmp_path / "mine.h5")
    again = PreparedAgain(tmp_path / "mine.h5", cohort.preprocessor)
    assert again.missing == again.unused == []
    for split in SPLITS:
        np.testing.assert_array_equal(again[split].data, cohort[split].data)
        np.testing.assert_array_equal(RawFile(again)[split].values, RawFile(cohort)[split].values)


@pytest.mark.parametrize(
    ("channels", "words"),
    [
        ([Channel("HR", unit="Hz")], "channel 'HR' & beats/min & got Hz"),
        ([Channel("HR", kind="categorical", levels=(0, 1))], "channel 'HR' & continuous & got categorical"),
        ([Channel("rhythm", kind="categorical", levels=(1, 4))], "channel 'rhythm' & 1, 2, 3 & got '4'"),
        ([Channel("sex", **SEX, spellings={"w": 0, "m": 1})], "channel 'sex' & 'f', 'm' & got 'w'"),
        ([Channel("sex", **SEX | {"text_only": False})], "channel 'sex' & 'f', 'm' & got '0'"),
        ([Channel("pulse"), Channel("pH")], "channels such as sex, age, ICP, HR, rhythm & got pulse, pH"),
    ],
)
def test_channels_of_another_meaning_are_refused(tmp_path, channels, words):
    write(tmp_path / "mine.h5", TRAINED_ON, seed=1)
    write(tmp_path / "theirs.h5", dataclasses.replace(OTHER, channels=tuple(channels)), seed=2)
    with refused(tmp_path / "theirs.h5", words):
        PreparedAgain(tmp_path / "theirs.h5", Cohort(tmp_path / "mine.h5").preprocessor)


def test_without_raw_rows_the_flag_that_keeps_them_is_named(tmp_path):
    write(tmp_path / "mine.h5", TRAINED_ON, seed=1)
    (tmp_path / "mine.raw.h5").unlink()
    with refused(tmp_path / "mine.raw.h5", "--keep_raw"):
        PreparedAgain(tmp_path / "mine.h5", Cohort(tmp_path / "mine.h5").preprocessor)
