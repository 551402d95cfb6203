"""Evaluations of the same stays beside each other: differences of their metrics, with paired bootstrap intervals over stays.

Each resampled cohort is the same for all evaluations, so that what makes a stay hard for one and for the other cancels out.
"""

import dataclasses
import pathlib
from collections.abc import Callable, Iterable, Sequence
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet

from ncl_tf import files
from ncl_tf.errors import InputError
from ncl_tf.evaluation.metrics import StayMetrics, binary_by_stay, multiclass_by_stay, resampled_stays
from ncl_tf.runs import environment
from ncl_tf.runs.store import read_evaluation

RESAMPLES = 1000
AT_ONCE = 50  # resampled cohorts, before the progress bar moves
SAME = 1e-6  # relative difference of metrics that are the same


@dataclasses.dataclass(frozen=True)
class StoredEvaluation:
    """The JSON of an evaluation and the predictions beside it.

    Attributes:
        path: of the JSON.
        name: the end of its path that no other evaluation has.
        result: its content.
        hours: a row for each labelled hour, by stay and hour: stay, hour, class, probability_0, probability_1, ...
    """

    path: pathlib.Path
    name: str
    result: dict[str, Any]
    hours: pd.DataFrame

    def by_stay(self) -> StayMetrics:
        """Return the metrics as a function of how often each stay occurs."""
        columns = [name for name in self.hours.columns if name.startswith("probability_")]
        probabilities, classes = self.hours[columns].to_numpy(np.float64), self.hours["class"].to_numpy()
        lengths, known = stay_lengths(self.hours), self.result["metrics"]
        if "kappa" in known:
            by_stay = multiclass_by_stay(probabilities, classes, lengths)
        else:
            by_stay = binary_by_stay(probabilities[:, 1], classes, lengths, utility="utility" in known)
        for name, value in by_stay(np.ones(len(lengths), int)).items():
            if abs(value - known[name]) > SAME * max(abs(value), 1):
                raise InputError(
                    f"{predictions_beside(self.path)}: must hold the predictions of {self.path}, whose {name} is {known[name]}, "
                    f"got one of {value}; evaluate again"
                )
        return by_stay


def compare_evaluations(
    paths: Sequence[pathlib.Path],
    resamples: int = RESAMPLES,
    progress: Callable[[range], Iterable[int]] = lambda parts: parts,
) -> dict[str, Any]:
    """Compare the first evaluation with each of the others, which must be of the same task, split and stays.

    Args:
        paths: JSON files of bin/evaluate, with the predictions beside them.
        resamples: number of resampled cohorts.
        progress: wraps parts of the resampling.

    Returns:
        the content of the comparison's JSON: task, split, counts, `evaluations` with their metrics, and `differences`: for each
        other evaluation and metric its difference to the first one's, the 95 % interval, and the share of resampled
        cohorts in which it is above 0.
    """
    if len(paths) < 2:
        raise InputError(f"a comparison must have two evaluations or more, got {len(paths)}")
    if resamples < 1:
        raise InputError(f"resamples must be 1 or more, got {resamples}")
    names = files.shortest_unique_suffixes([path.with_suffix("") for path in paths])
    if len(set(names)) < len(names):
        raise InputError(f"evaluations must differ, got {max(names, key=names.count)} twice")
    found = [read_stored(path, name) for path, name in zip(paths, names, strict=True)]
    for other in found[1:]:
        check_same_hours(found[0], other)
    metrics = [one.by_stay() for one in found]
    stays = len(stay_lengths(found[0].hours))
    drawn = resampled_stays(stays, resamples)
    values = []  # of each evaluation, in each resampled cohort in which metrics are defined
    for start in progress(range(0, resamples, AT_ONCE)):
        for multiplicities in drawn[start : start + AT_ONCE]:
            values.append([metric(multiplicities) for metric in metrics])
    values = [of_draw for of_draw in values if None not in of_draw]
    whole = [metric(np.ones(stays, int)) for metric in metrics]
    settings = found[0].result["settings"]
    return {
        "task": settings["task"],
        "split": settings["split"],
        "dataset": found[0].result["run"]["dataset"],
        "stays": stays,
        "hours": len(found[0].hours),
        "resamples": len(values),
        "evaluations": [
            {"name": one.name, "settings": one.result["settings"], "run": one.result["run"], "metrics": scores}
            | {"code_version": one.result.get("code_version")}
            for one, scores in zip(found, whole, strict=True)
        ],
        "differences": [
            {"evaluation": one.name, "minus": found[0].name, "metric": name}
            | _difference(whole[number][name] - whole[0][name], [draw[number][name] - draw[0][name] for draw in values])
            for number, one in enumerate(found[1:], 1)
            for name in whole[0]
        ],
        **environment(),
    }


def _difference(value: float, resampled: list[float]) -> dict[str, Any]:
    interval = np.percentile(resampled, [2.5, 97.5]).tolist() if resampled else None
    above = float(np.mean(np.array(resampled) > 0)) if resampled else None
    return {"difference": value, "interval": interval, "share_above_zero": above}


def predictions_beside(path: pathlib.Path) -> pathlib.Path:
    """Name the file of predictions beside the JSON of an evaluation."""
    return path.with_suffix(".parquet")


def read_stored(path: pathlib.Path, name: str) -> StoredEvaluation:
    """Read the JSON of an evaluation and its predictions."""
    result = read_evaluation(path)
    if missing := sorted({"settings", "metrics", "run"} - result.keys()):
        raise InputError(
            f"{path}: must be the JSON of an evaluation by bin/evaluate, but it lacks {', '.join(missing)}"
        )
    predictions = predictions_beside(path)
    try:
        hours = pa.parquet.read_table(predictions).to_pandas()
    except FileNotFoundError as error:
        raise InputError(
            f"{predictions}: no such file; a comparison needs the predictions that bin/evaluate wrote beside {path.name}, which "
            "folders of results do not hold"
        ) from error
    except (OSError, pa.ArrowException) as error:
        raise InputError(f"{predictions}: must be the predictions that bin/evaluate wrote ({error})") from error
    if "class" not in hours:
        if "kappa" in result["metrics"]:
            raise InputError(
                f"{predictions}: must have the column class, which older versions did not write; evaluate again"
            )
        hours["class"] = hours["label"]
    hours = hours.dropna(subset="class").sort_values(["stay", "hour"], kind="stable", ignore_index=True)
    return StoredEvaluation(path, name, result, hours.astype({"class": np.int64}))


def stay_lengths(hours: pd.DataFrame) -> np.ndarray:
    """Count the hours of each stay: [S]; rows lie stay after stay."""
    return hours.groupby("stay", sort=False).size().to_numpy()


def check_same_hours(one: StoredEvaluation, other: StoredEvaluation) -> None:
    """Refuse two evaluations that were not scored on the same labelled hours of the same stays."""
    for name in ("task", "split"):
        values = [stored.result["settings"][name] for stored in (one, other)]
        if values[0] != values[1]:
            raise InputError(f"{other.path}: {name} must be {values[0]!r}, as in {one.path}, got {values[1]!r}")
    metrics = [", ".join(stored.result["metrics"]) for stored in (one, other)]
    if metrics[0] != metrics[1]:
        raise InputError(f"{other.path}: metrics must be {metrics[0]}, as in {one.path}, got {metrics[1]}")
    stays = [set(stored.hours["stay"]) for stored in (one, other)]
    if stays[0] != stays[1]:
        alone = next(iter(sorted(stays[0] ^ stays[1])))
        raise InputError(
            f"{other.path}: must be scored on the {len(stays[0])} stays of {one.path}, got {len(stays[1])}, of which "
            f"{len(stays[0] & stays[1])} are the same; stay {alone!r} is in one of them only"
        )
    keys = [stored.hours[["stay", "hour", "class"]] for stored in (one, other)]
    if not keys[0].equals(keys[1]):
        same = min(map(len, keys))
        rows = np.flatnonzero((keys[0][:same] != keys[1][:same]).any(axis=1).to_numpy())
        stay, hour, _ = keys[0].iloc[rows[0] if len(rows) else same - 1]
        raise InputError(
            f"{other.path}: must have the labels of {one.path}, hour by hour; they differ at stay {stay!r}, hour {hour}"
        )
