"""Tiny cohorts in the form that YAIB writes, for tests of what becomes of them."""

import datetime
import pathlib

import numpy as np
import pyarrow as pa
import pyarrow.parquet

CONCEPTS = ("hr", "crea", "map")


def hours(numbers, unit: str = "s") -> pa.Array:
    """Hours as the column of durations that YAIB writes."""
    return pa.array([datetime.timedelta(hours=float(number)) for number in numbers], pa.duration(unit))


def tables(task: str, stays: int = 40, seed: int = 0, first: int = 100) -> dict[str, pa.Table]:
    """dyn, sta and outc: stays of 6 to 15 hours, every fifth one ill from its middle on, with a faster pulse."""
    rng = np.random.default_rng(seed)
    names, lengths = np.arange(first, first + stays, dtype=np.int32), rng.integers(6, 16, stays)
    stay, hour = np.repeat(names, lengths), np.concatenate([np.arange(length) for length in lengths])
    ill = (np.repeat(np.arange(stays) % 5 == 0, lengths)) & (hour >= np.repeat(lengths // 2, lengths))
    values = rng.normal([80, 1.5, 75], [8, 0.3, 7], (len(stay), 3)) + ill[:, None] * [30, 0, 0]
    values[rng.random(values.shape) < 0.3] = np.nan
    dyn = {"stay_id": stay, "time": hours(hour)} | dict(zip(CONCEPTS, values.T, strict=True))
    sta = {"stay_id": names, "age": rng.uniform(20, 90, stays), "sex": rng.choice(["Male", "Female"], stays)}
    sta |= {"height": rng.normal(170, 9, stays), "weight": rng.normal(80, 15, stays)}
    outc = {"stay_id": stay, "time": dyn["time"], "label": ill}
    if task == "los":
        outc["label"] = np.minimum(
            168.0, np.repeat(lengths, lengths) - 1.0 - hour + 20 * np.repeat(np.arange(stays), lengths)
        )
    if task == "mortality24":
        outc = {"stay_id": names, "label": (np.arange(stays) % 5 == 0).astype(np.int32)}
    return {name: pa.table(columns) for name, columns in (("dyn", dyn), ("sta", sta), ("outc", outc))}


def write_export(folder: pathlib.Path, parts: dict[str, pa.Table]) -> pathlib.Path:
    """Write the three files, of which some may be left out."""
    folder.mkdir(parents=True, exist_ok=True)
    for name, part in parts.items():
        pa.parquet.write_table(part, folder / f"{name}.parquet")
    return folder
