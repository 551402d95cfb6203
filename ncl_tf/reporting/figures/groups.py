"""Groups of runs that a figure compares, and what its caption states about them."""

from collections.abc import Iterable, Sequence, Sized
from typing import Any

from ncl_tf.data.cohort import titled
from ncl_tf.reporting.figures.figure import listed, seeds_text
from ncl_tf.reporting.sources import grouped
from ncl_tf.runs import StoredRun

SPLIT_TITLES = {"train": "training", "val": "validation", "test": "test"}


def dataset_title(run: StoredRun) -> str:
    """The name of a run's dataset, for readers."""
    return titled(run.record["dataset"], run.record.get("simulated", False))


def data_text(dataset: str, checksum: str) -> str:
    """A dataset's name and the first digits of the cohort's checksum, which differ between cohorts of one dataset."""
    return f"{dataset} (cohort {checksum[:8]})"


def by_alpha(runs: Sequence[StoredRun]) -> dict[str, list[StoredRun]]:
    """Group the runs that differ in alpha and seed only, by rising alpha: the longest such sweep; empty without one."""

    def all_else(run: StoredRun) -> tuple:
        rest = {name: value for name, value in run.config.items() if name not in ("alpha", "seed", "cohort")}
        return run.record["cohort_checksum"], *sorted(rest.items())

    swept = [run for run in runs if run.setting("alpha") is not None]
    sweeps = [grouped(sweep, lambda run: run.setting("alpha")) for sweep in grouped(swept, all_else).values()]
    longest = max(sweeps, key=len, default={})
    if len(longest) < 2:
        return {}
    return {f"α = {alpha:g}": sorted(longest[alpha], key=lambda run: run.record["seed"]) for alpha in sorted(longest)}


def evenly(groups: dict[Any, Any], most: int) -> dict[Any, Any]:
    """Choose at most so many of the groups, evenly spread, with the first and the last."""
    names = list(groups)
    if len(names) > most:
        names = [names[round(i * (len(names) - 1) / (most - 1))] for i in range(most)]
    return {name: groups[name] for name in names}


def facts(groups: Iterable[Sequence[StoredRun]], drawn: str = "") -> str:
    """State data, budget and number of seeds of runs, for captions; each group differs in the seed only."""
    groups = list(groups)
    runs = [run for group in groups for run in group]
    data = listed(data_text(dataset_title(run), run.record["cohort_checksum"]) for run in runs)
    budgets = listed(repr(run.record["budget"]) for run in runs)
    seeds = [len({run.record["seed"] for run in group}) for group in groups]
    return f"Data: {data}. Budget {budgets}; {seeds_text(seeds, drawn)}."


def left_out(groups: Sized, shown: Sized) -> str:
    """A sentence for captions, where not all groups are shown."""
    return f" Shown are {len(shown)} of {len(groups)}, evenly chosen by name." if len(shown) < len(groups) else ""
