"""Groups of stays that a model might serve differently well: by what is static of a patient, and by hospital.

Each **characteristic** deals all stays of a split out to groups:

- A categorical channel: a group per level; beyond `MOST_LEVELS`, the rarer ones are one group. A channel of two levels is
  one column of zeros and ones, in which an unknown value is a zero, too.
- Age in years: the bands between `AGE_EDGES`.
- Any other continuous channel: the quarters of the stays whose value is known.
- The hospital, where the names of stays show it.

Stays whose value is not known are a group of their own: where a scaled column is exactly 0, nothing was measured. Values are
those of a stay's last hour, which knows all that any hour knows. At most `MOST_CHANNELS` channels are looked at.
"""

import dataclasses
import re
from collections.abc import Sequence

import numpy as np

from ncl_tf.data.cohort import Cohort
from ncl_tf.data.datasets import HOSPITALS, LEVEL_TITLES
from ncl_tf.data.declaration import Channel

AGE_EDGES = (18, 40, 50, 60, 70, 80)  # years; a band includes its lower edge
MOST_CHANNELS, MOST_LEVELS = 12, 8
UNKNOWN, OTHER = "unknown", "other"


@dataclasses.dataclass(frozen=True)
class Characteristic:
    """A characteristic of stays, and the groups that it deals them out to.

    Attributes:
        name: of the channel, with its unit.
        groups: their names, in their order; none is empty.
        member: [S] int, the group of each stay.
    """

    name: str
    groups: tuple[str, ...]
    member: np.ndarray


def characteristics(cohort: Cohort, split: str) -> list[Characteristic]:
    """List the characteristics by which the stays of a split differ; one with a single group is left out.

    Files of the authors' code do not say how their columns were scaled; their stays have no characteristics.
    """
    if cohort.preprocessor is None:
        return []
    data, declared = cohort[split], cohort.preprocessor.dataset
    known, start, found = data.data[data.patient_windows[:, 1]], 0, []
    for index, channel in enumerate(channel for channel in declared.channels if channel.static):
        columns = known[:, start : start + len(channel.columns)]
        start += len(channel.columns)
        if index >= MOST_CHANNELS:
            break
        always = cohort.channel_statistics.get(channel.name, {}).get("known") == 1
        if channel.kind == "categorical":
            titles = LEVEL_TITLES.get(declared.name, {}).get(channel.name, {})
            found.append(_by_level(channel, columns, always, titles))
        else:
            mean, scale = cohort.preprocessor.mean[index], cohort.preprocessor.scale[index]
            values = _in_units(columns[:, 0], mean, scale)
            values[(columns[:, 0] == 0) & (not always)] = np.nan
            found.append(_by_band(channel, values))
    if not cohort.simulated:
        found.append(_by_hospital(declared.name, data.stay_names))
    return [one for one in found if len(one.groups) > 1]


def _in_units(scaled: np.ndarray, mean: float, scale: float) -> np.ndarray:
    """Undo the scaling [S] of single precision, and the error that it left: values on an edge belong above it."""
    mean, scale = float(mean), float(scale)
    digits = 5 - int(np.floor(np.log10(max(abs(mean), scale))))
    return np.round(scaled.astype(np.float64) * scale + mean, digits)


def _by_level(channel: Channel, columns: np.ndarray, always: bool, titles: dict[float, str]) -> Characteristic:
    """Group by the level of a categorical channel; columns: [S, one per level or 1]."""
    spelled = {level: text for text, level in reversed(channel.spellings.items())} | titles
    names = [spelled.get(level, f"{level:g}") for level in channel.levels]
    if len(channel.levels) == 2:
        zero = names[0] if always else f"{names[0]} or {UNKNOWN}"
        return _nonempty(channel.name, [zero, names[1]], columns[:, 0].astype(int))
    level = np.where(columns.any(1), columns.argmax(1), len(names))
    stays = np.bincount(level, minlength=len(names) + 1)[:-1]
    if (stays > 0).sum() > MOST_LEVELS:
        rare = np.argsort(-stays, kind="stable")[MOST_LEVELS - 1 :]
        level = np.where(np.isin(level, rare), len(names) + 1, level)
    return _nonempty(channel.name, [*names, UNKNOWN, OTHER], level)


def _by_band(channel: Channel, values: np.ndarray) -> Characteristic:
    """Group by bands of a continuous channel; values: [S], NaN where unknown."""
    name = f"{channel.name} ({channel.unit})" if channel.unit else channel.name
    known = values[~np.isnan(values)]
    if _is_age(channel):
        edges = list(AGE_EDGES)
        names = [f"{low} to {high - 1}" for low, high in zip(AGE_EDGES, AGE_EDGES[1:], strict=False)]
        names = [f"under {edges[0]}", *names, f"{edges[-1]} and over"]
    else:
        quartiles = np.unique(np.quantile(known, [0.25, 0.5, 0.75], method="higher")) if len(known) else np.zeros(0)
        edges = [edge for edge in quartiles if edge > known.min()]
        names = [f"{low:.3g} to below {high:.3g}" for low, high in zip(edges, edges[1:], strict=False)]
        names = [f"below {edges[0]:.3g}", *names, f"{edges[-1]:.3g} and over"] if edges else ["known"]
    band = np.where(np.isnan(values), len(names), np.searchsorted(edges, values, side="right"))
    return _nonempty(name, [*names, UNKNOWN], band)


def _is_age(channel: Channel) -> bool:
    """Whether a channel holds years of age, by its name and unit."""
    return bool(re.search(r"(?<![a-z])age(?![a-z])", channel.name.casefold())) and channel.unit in ("", "years", "y")


def _by_hospital(dataset: str, stays: np.ndarray) -> Characteristic:
    prefixes = HOSPITALS.get(dataset, {})
    member = np.full(len(stays), len(prefixes))
    for number, prefix in enumerate(prefixes):
        member[np.char.startswith(stays.astype(str), prefix)] = number
    return _nonempty("hospital", [*prefixes.values(), UNKNOWN], member)


def _nonempty(name: str, groups: Sequence[str], member: np.ndarray) -> Characteristic:
    """Leave out groups without stays."""
    there, number = np.unique(member, return_inverse=True)
    return Characteristic(name, tuple(groups[index] for index in there), number)
