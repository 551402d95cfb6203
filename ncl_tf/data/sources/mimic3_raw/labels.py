"""A stay's line in the list files of the benchmark: its length and the labels of its tasks."""

import math

from ncl_tf.data.sources.mimic3_raw.series import EPS
from ncl_tf.data.sources.mimic3_raw.stays import UnitStay

LIST_HEADER = (
    "filename,length of stay,in-hospital mortality task (pos;mask;label),length of stay task (masks;labels),"
    "phenotyping task (labels),decompensation task (masks;labels)"
)
SHORTEST = 4  # hours of a stay before its first label
HORIZON = 24  # hours in which a death is a decompensation
MORTALITY_HOURS = 48  # after which the death in the hospital is predicted


def list_line(filename: str, stay: UnitStay, first: float) -> str:
    """Write the line of a stay whose first event is `first` hours after its start."""
    lived = math.inf if stay.death is None else (stay.death - stay.intime) / 3600
    remaining = [f"{stay.hours - hour:.6f}" for hour in _hours(stay.hours)]
    dying = [str(int(stay.died and lived - hour < HORIZON)) for hour in _hours(min(stay.hours, lived))]
    observed = int(stay.hours >= MORTALITY_HOURS - EPS and first <= MORTALITY_HOURS + EPS)
    mortality = f"{(MORTALITY_HOURS - 1) * observed};{observed};{int(stay.died)}"
    tasks = (mortality, _masked(remaining, first), "", _masked(dying, first))
    return ",".join([filename, f"{stay.hours:.6f}", *tasks])


def _hours(end: float) -> range:
    """List the whole hours up to an end, which may be negative."""
    return range(max(math.ceil(end + EPS), 0))


def _masked(labels: list[str], first: float) -> str:
    """Join masks and then labels; hours of the beginning and those before the first event are masked."""
    masks = [str(int(hour > SHORTEST and hour > first)) for hour in range(len(labels))]
    return f"{';'.join(masks)};{';'.join(labels)}"
