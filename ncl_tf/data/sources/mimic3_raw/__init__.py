"""The multitask folder of mimic3-benchmarks (Harutyunyan et al., 2019), made from the tables of MIMIC-III.

`multitask_files` applies the rules in this order: stays (`stays`), events (`events`, `cleaning`), series (`series`) and
labels (`labels`). The tables are read by `tables`, those of mimic3-benchmarks by `resources`.
"""

import pathlib
from collections.abc import Callable
from typing import NamedTuple

from ncl_tf.data.sources.common import progress
from ncl_tf.data.sources.mimic3_raw.events import REASONS, read_events
from ncl_tf.data.sources.mimic3_raw.labels import LIST_HEADER, list_line
from ncl_tf.data.sources.mimic3_raw.resources import read_item_map, read_subject_split
from ncl_tf.data.sources.mimic3_raw.series import make_series
from ncl_tf.data.sources.mimic3_raw.stays import read_unit_stays
from ncl_tf.data.sources.mimic3_raw.tables import EVENT_TABLES, find_tables
from ncl_tf.data.splits import SPLITS
from ncl_tf.errors import InputError


class Funnel(NamedTuple):
    """What was kept and what was dropped, by rule.

    Attributes:
      stays: how many stays were left after each rule, in order.
      dropped: rows of the event tables that each rule dropped, in order.
      rows, kept: of these tables, in all and after these rules.
      unnamed: subjects that neither split table names; they are in training.
    """

    stays: dict[str, int]
    dropped: dict[str, int]
    rows: int
    kept: int
    unnamed: int

    def __str__(self) -> str:
        lines = [f"{'stays':52}{self.stays['stays']:>14,}"]
        lines += [f"  {rule:50}{count:>14,}" for rule, count in self.stays.items() if rule != "stays"]
        lines += [f"{'rows of events':52}{self.rows:>14,}"]
        lines += [f"  dropped: {rule:41}{count:>14,}" for rule, count in self.dropped.items()]
        lines += [f"  {'kept':50}{self.kept:>14,}"]
        if self.unnamed:
            lines += [f"{'patients in neither split table, so in training':52}{self.unnamed:>14,}"]
        return "\n".join(lines)


def multitask_files(raw: pathlib.Path, benchmark: pathlib.Path) -> tuple[dict[str, Callable[[], bytes]], Funnel]:
    """Make the files of the multitask folder: by name in it, a function that returns the bytes; and what was kept.

    Args:
      raw: the folder of the MIMIC-III download.
      benchmark: a checkout of mimic3-benchmarks, or a folder with its three public tables.
    """
    tables, items, split = find_tables(raw), read_item_map(benchmark), read_subject_split(benchmark)
    stays, counts = read_unit_stays(tables)
    if not stays:
        raise InputError(f"{tables['ICUSTAYS'].path}: no stay of the benchmark; got {counts}")
    events, values, tally = read_events([tables[name] for name in EVENT_TABLES], items, stays)
    header = ",".join(["Hours", *values.variables, "\n"]).replace(",\n", "\n").encode()
    files: dict[str, Callable[[], bytes]] = {}
    lists: dict[str, list[str]] = {name: [] for name in SPLITS}
    with progress(None, "making series", total=len(stays)) as bar:
        for series in make_series(events, values, stays):
            stay = stays[series.stay]
            name, place = f"{stay.subject}_episode{stay.episode}_timeseries.csv", split.of(stay.subject)
            lists[place].append(list_line(name, stay, series.first))
            folder = "test" if place == "test" else "train"
            files[f"{folder}/{name}"] = lambda text=series.text: header + text
            bar.update(series.stay + 1 - bar.n)  # stays without events are passed over
        bar.update(len(stays) - bar.n)
    counts["with events in the unit"] = len(files)
    for name in SPLITS:
        if not lists[name]:
            raise InputError(f"{raw}: no stay in the split {name}, by the tables of subjects in {benchmark}")
    lists["train/"], lists["test/"] = lists["train"] + lists["val"], lists["test"]
    for name, lines in lists.items():
        text = "\n".join([LIST_HEADER, *sorted(lines), ""]).encode()
        files[f"{name}{'' if name.endswith('/') else '_'}listfile.csv"] = lambda text=text: text
    rules = [rule for rule in tally if rule not in ("rows", "kept")]
    rules.sort(
        key=lambda rule: ("of other items", *REASONS).index(rule) if rule in ("of other items", *REASONS) else 99
    )
    dropped = {rule: tally[rule] for rule in rules if tally[rule]}
    unnamed = len({stay.subject for stay in stays} - split.named)
    return files, Funnel(counts, dropped, tally["rows"], tally["kept"], unnamed)
