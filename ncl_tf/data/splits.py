"""Splits of stays into training, validation and test."""

import numpy as np

from ncl_tf.data.datasets import HOSPITALS
from ncl_tf.errors import InputError

SPLITS = ("train", "val", "test")

Split = dict[str, np.ndarray]  # split -> indices of its stays, rising


def random_split(positive: np.ndarray, seed: int, subjects: np.ndarray | None = None) -> Split:
    """Split stays at random into 64 / 16 / 20 %, each with the same share of `positive` [stays] bool, such as ever septic.

    With `subjects` [stays], the patient of each stay, patients are split instead: all stays of one fall into one split, and one
    is positive if any of their stays is.
    """
    if subjects is None:
        return _stratified(positive, seed, "stays")
    patient = np.unique(subjects, return_inverse=True)[1]
    split = _stratified(np.bincount(patient, weights=positive) > 0, seed, "patients")
    return {name: np.flatnonzero(np.isin(patient, part)) for name, part in split.items()}


def _stratified(positive: np.ndarray, seed: int, units: str) -> Split:
    """Split stays or patients, as the word `units` says, for `random_split`."""
    _check_enough(positive, units)
    rest, test = _four_to_one(np.arange(len(positive)), positive, seed)
    train, val = _four_to_one(rest, positive, seed)
    return {"train": np.sort(train), "val": np.sort(val), "test": np.sort(test)}


def _check_enough(positive: np.ndarray, units: str) -> None:
    total, positives = len(positive), int(positive.sum())
    if total < 25 or min(positives, total - positives) in (1, 2):
        raise InputError(
            f"a random split must have at least 25 {units}, at least 3 of them ever positive and 3 never (or all alike), got "
            f"{total} {units}, {positives} of them ever positive"
        )


def split_around(positive: np.ndarray, test: np.ndarray, seed: int, subjects: np.ndarray | None = None) -> Split:
    """Take the stays of `test` [stays] bool, such as those of another hospital, for testing; split the others at random.

    Of the others, 80 % train and 20 % validate, with shares of `positive` and with `subjects` as in `random_split`.
    """
    others = np.flatnonzero(~test)
    unit, kind = np.arange(len(others)), "stays to train and validate"
    if subjects is not None:
        unit, kind = np.unique(subjects[others], return_inverse=True)[1], "patients to train and validate"
    ever = np.bincount(unit, weights=positive[others]) > 0
    _check_enough(ever, kind)
    train, _ = _four_to_one(np.arange(len(ever)), ever, seed)
    training = np.isin(unit, train)
    return {"train": others[training], "val": others[~training], "test": np.flatnonzero(test)}


def check_subjects(split: Split, names: np.ndarray, subjects: np.ndarray) -> None:
    """Refuse a split that has stays of one patient in two parts; stays have `names` and `subjects` [stays]."""
    seen: dict[str, tuple[str, str]] = {}  # subject -> the split and name of a stay
    for part, stays in split.items():
        for stay in stays:
            before, other = seen.setdefault(subjects[stay], (part, names[stay]))
            if before != part:
                raise InputError(
                    f"all stays of a patient must be in one split, got patient {subjects[stay]} with stay {other} in {before} "
                    f"and stay {names[stay]} in {part}"
                )


def check_hospitals(names: np.ndarray) -> None:
    """Refuse stays [stays] of PhysioNet 2019 that are all of one hospital."""
    of_sets = [int(stays.sum()) for stays in _sets(names)]
    if not all(of_sets):
        raise InputError(
            f"a split by hospital must have stays of set A and of set B, got {of_sets[0]} and {of_sets[1]}. Pass both sets as "
            "--source, or --split=random"
        )


def hospital_split(names: np.ndarray, ever_septic: np.ndarray, test_hospital: str, seed: int) -> Split:
    """Split the stays of PhysioNet 2019 by hospital: "A" or "B" tests, the other trains and validates."""
    check_hospitals(names)
    return split_around(ever_septic, _sets(names)["AB".index(test_hospital)], seed)


def _sets(names: np.ndarray) -> list[np.ndarray]:
    """Find the stays of the training sets A and B of PhysioNet 2019, each [stays] bool."""
    return [np.char.startswith(names.astype(str), prefix) for prefix in HOSPITALS["physionet2019"]]


def check_published(names: np.ndarray) -> None:
    """Refuse stays [stays] other than those that the published split of PhysioNet 2019 is defined on."""
    a, b = (int(stays.sum()) for stays in _sets(names))
    if (a, b, len(names)) != (20336, 20000, 40336):
        raise InputError(
            f"the published split is defined on the 20336 stays of set A and the 20000 of set B together; got "
            f"{a} and {b} of {len(names)} stays. Pass both sets as --source, or "
            "--split=random"
        )


def published_split(names: np.ndarray, ever_septic: np.ndarray) -> Split:
    """Regenerate the split of PhysioNet 2019 by Horn et al. (2019), which the paper uses.

    Its definition: stays sorted by name, set A before set B; numpy's legacy generator seeded once; a stratified fifth
    for testing, then a stratified fifth of the rest for validation; three stays are left out.
    """
    check_published(names)
    generator = np.random.RandomState(16742963)  # noqa: NPY002 - the published split is defined by this legacy generator
    index = np.arange(len(names))
    rest, test = _four_to_one(index, ever_septic, generator)
    train, val = _four_to_one(rest, ever_septic, generator)
    test = test[~np.isin(names[test], ["p013777", "p108796"])]
    train = train[~np.isin(names[train], ["p115810"])]
    return {"train": np.sort(train), "val": np.sort(val), "test": np.sort(test)}


def _four_to_one(
    index: np.ndarray,
    stratum: np.ndarray,
    random_state: int | np.random.RandomState,  # noqa: NPY002
) -> list[np.ndarray]:
    """Shuffle the given stays and split them four to one, with the same share of each stratum."""
    from sklearn.model_selection import train_test_split  # here, because it takes a second and few programs split

    return train_test_split(index, test_size=0.2, stratify=stratum[index], random_state=random_state)
