"""Splits: shares, strata, and the published split of PhysioNet 2019."""

import numpy as np
import pytest
from sklearn.model_selection import train_test_split

from ncl_tf.data.splits import SPLITS, check_subjects, published_split, random_split
from refusals import refused


@pytest.mark.parametrize(("stays", "positive"), [(25, 3), (25, 22), (100, 10), (1000, 3), (1000, 500), (1000, 73)])
@pytest.mark.parametrize("seed", [0, 1, 2])
def test_random_split_is_stratified(stays, positive, seed):
    stratum = np.random.default_rng(seed).permutation(np.arange(stays) < positive)
    split = random_split(stratum, seed)
    assert tuple(split) == SPLITS
    assert sorted(np.concatenate(list(split.values()))) == list(range(stays))
    for name, share in zip(SPLITS, (0.64, 0.16, 0.2), strict=True):
        assert split[name].tolist() == sorted(split[name])
        assert abs(len(split[name]) - share * stays) <= 1
        assert abs(stratum[split[name]].sum() - share * positive) <= 1


def test_random_split_depends_on_the_seed_alone():
    stratum = np.arange(200) % 7 == 0
    one, again, other = random_split(stratum, 4), random_split(stratum, 4), random_split(stratum, 5)
    assert all(one[name].tolist() == again[name].tolist() for name in SPLITS)
    assert any(one[name].tolist() != other[name].tolist() for name in SPLITS)


@pytest.mark.parametrize("value", [False, True])
def test_one_stratum_is_fine(value):
    assert [len(part) for part in random_split(np.full(100, value), 0).values()] == [64, 16, 20]


@pytest.mark.parametrize(("stays", "positive"), [(24, 5), (100, 2), (100, 98), (115, 1), (1, 0)])
def test_too_few_stays(stays, positive):
    with refused(f"at least 25 stays & at least 3 of them & got {stays} stays, {positive} of them ever positive"):
        random_split(np.arange(stays) < positive, 0)


@pytest.mark.parametrize("seed", [0, 1])
def test_random_split_keeps_patients_together(seed):
    """Patients of one to four stays, in any order: each falls into one split, with its share of those ever positive."""
    rng = np.random.default_rng(seed)
    subjects = rng.permutation(np.repeat([f"patient {n}" for n in range(400)], rng.integers(1, 5, 400)))
    positive = rng.random(len(subjects)) < 0.1
    split = random_split(positive, seed, subjects)
    assert sorted(np.concatenate(list(split.values()))) == list(range(len(subjects)))
    patients = [set(subjects[split[name]]) for name in SPLITS]
    assert [len(part) for part in patients] == [256, 64, 80]
    assert len(set.union(*patients)) == 400
    ever = set(subjects[positive])
    for part, share in zip(patients, (0.64, 0.16, 0.2), strict=True):
        assert abs(len(part & ever) - share * len(ever)) <= 1
    check_subjects(split, np.arange(len(subjects)), subjects)


def test_too_few_patients():
    """A hundred stays are enough, but not of twenty patients."""
    with refused("at least 25 patients & got 20 patients, 5 of them ever positive"):
        random_split(np.arange(100) % 20 < 5, 0, np.arange(100) % 20)


def test_a_patient_in_two_splits_is_named():
    names, subjects = np.array(["s1", "s2", "s3", "s4"]), np.array(["ada", "bob", "eve", "bob"])
    split = {"train": np.array([0, 1]), "val": np.array([2]), "test": np.array([3])}
    with refused("patient bob with stay s2 in train and stay s4 in test"):
        check_subjects(split, names, subjects)


NAMES = np.array([f"p{number:06d}" for number in [*range(1, 20337), *range(100001, 120001)]])
SEPTIC = np.random.default_rng(0).random(len(NAMES)) < 0.07


def test_published_split_follows_its_definition():
    """Written down again with numpy's global generator, as it was defined; on the real outcomes see test_physionet2019."""
    np.random.seed(16742963)  # noqa: NPY002
    rest, test = train_test_split(np.arange(40336), test_size=0.2, stratify=SEPTIC)
    train, val = train_test_split(rest, test_size=0.2, stratify=SEPTIC[rest])
    dropped = {"train": {"p115810"}, "val": set(), "test": {"p013777", "p108796"}}
    split = published_split(NAMES, SEPTIC)
    for name, indices in (("train", train), ("val", val), ("test", test)):
        assert set(NAMES[split[name]]) == set(NAMES[indices]) - dropped[name]
        assert split[name].tolist() == sorted(split[name])


@pytest.mark.parametrize("left_out", [slice(0, 1), slice(40335, 40336), slice(0, 20336), slice(20336, 40336)])
def test_published_split_refuses_other_stays(left_out):
    names, septic = np.delete(NAMES, left_out), np.delete(SEPTIC, left_out)
    with refused("20336", "20000", f"of {len(names)} stays", "--split=random"):
        published_split(names, septic)
