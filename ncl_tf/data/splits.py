"""Which stays train, validate and test."""

import numpy as np
from sklearn.model_selection import train_test_split

from ncl_tf.errors import InputError

SPLITS = ("train", "val", "test")

Split = dict[str, np.ndarray]  # split -> indices of its stays, rising


def random_split(stratum: np.ndarray, seed: int) -> Split:
    """64 / 16 / 20 % of the stays, each split with its share of every stratum.

    Args:
      stratum: [stays] e.g. whether a stay is ever septic.
      seed: other seeds, other splits.
    """
    rare = np.unique(stratum, return_counts=True)[1].min()
    if len(stratum) < 25 or rare < 3:
        raise InputError(
            f"too few stays for a stratified random split: {len(stratum)} stays, the rarer stratum has {rare}; "
            "needed are at least 25 stays and 3 in each stratum"
        )
    index = np.arange(len(stratum))
    rest, test = train_test_split(index, test_size=0.2, stratify=stratum, random_state=seed)
    train, val = train_test_split(rest, test_size=0.2, stratify=stratum[rest], random_state=seed)
    return {"train": np.sort(train), "val": np.sort(val), "test": np.sort(test)}


def published_split(names: np.ndarray, ever_septic: np.ndarray) -> Split:
    """The split of PhysioNet 2019 by Horn et al. (2019), which the paper uses, regenerated.

    Its definition: stays sorted by name, set A before set B; numpy's legacy generator seeded once; a stratified fifth
    for testing, then a stratified fifth of the rest for validation; three stays without any measurement left out.
    """
    counts = {
        letter: int(np.char.startswith(names.astype(str), f"p{digit}").sum()) for digit, letter in enumerate("AB")
    }
    if (counts["A"], counts["B"], len(names)) != (20336, 20000, 40336):
        raise InputError(
            f"the published split is defined on the 20336 stays of set A and the 20000 of set B together; got "
            f"{counts['A']} and {counts['B']} of {len(names)} stays. Pass both sets as --source, or "
            "--split=random"
        )
    generator = np.random.RandomState(16742963)  # noqa: NPY002 - the published split is defined by this legacy generator
    index = np.arange(len(names))
    rest, test = train_test_split(index, test_size=0.2, stratify=ever_septic, random_state=generator)
    train, val = train_test_split(rest, test_size=0.2, stratify=ever_septic[rest], random_state=generator)
    test = test[~np.isin(names[test], ["p013777", "p108796"])]
    train = train[~np.isin(names[train], ["p115810"])]
    return {"train": np.sort(train), "val": np.sort(val), "test": np.sort(test)}
