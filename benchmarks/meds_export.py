"""PhysioNet 2019 as a MEDS dataset: every measured cell becomes an event whose code is the channel's name."""

import json
import pathlib

import numpy as np
import pyarrow as pa
import pyarrow.parquet

from ncl_tf.data.datasets import PHYSIONET2019
from ncl_tf.data.sources.columns import MICROSECONDS_PER_HOUR as HOUR
from ncl_tf.data.splits import Split
from ncl_tf.data.stays import Stays

BEGIN = int(np.datetime64("2100-01-01", "us").astype(np.int64))  # hour 0 of every stay
OPENS, CLOSES = "ICU_ADMISSION", "ICU_DISCHARGE"
MEDS_SPLITS = {"train": "train", "val": "tuning", "test": "held_out"}


def export(stays: Stays, split: Split, folder: pathlib.Path, shards: int) -> int:
    """Write the stays of all splits as the dataset `folder`, with labels in task_labels; return the number of events.

    A stay becomes a subject, whose id is the number in its name.
    """
    (folder / "data").mkdir(parents=True)
    (folder / "metadata").mkdir()
    (folder / "task_labels" / "sepsis").mkdir(parents=True)
    (folder / "metadata" / "dataset.json").write_text(json.dumps({"meds_version": "0.4.1"}), encoding="utf-8")
    subject = np.char.lstrip(stays.names.astype(str), "p").astype(np.int64)
    part = {"subject_id": np.concatenate([subject[split[name]] for name in split])}
    part["split"] = np.repeat([MEDS_SPLITS[name] for name in split], [len(split[name]) for name in split])
    _write(part, folder / "metadata" / "subject_splits.parquet")
    chosen = np.sort(np.concatenate(list(split.values())))
    events = 0
    for number, some in enumerate(np.array_split(chosen, shards)):
        columns = _events(stays, some, subject)
        events += len(columns["time"])
        _write(columns, folder / "data" / f"{number:02}.parquet")
    rows = stays.rows(chosen)
    labels = {"subject_id": np.repeat(subject[chosen], stays.lengths[chosen]), "prediction_time": _times(stays, rows)}
    labels["boolean_value"] = stays.labels[rows, 0] == 1
    _write(labels, folder / "task_labels" / "sepsis" / "labels.parquet")
    return events


def schema_text() -> str:
    """Write the schema that reads the dataset."""
    lines = [f'name = "{PHYSIONET2019.name}"', f'opens = ["{OPENS}"]', f'closes = ["{CLOSES}"]']
    for channel in PHYSIONET2019.channels:
        lines += ["[[channels]]", f'name = "{channel.name}"', f'codes = ["{channel.name}"]', f'unit = "{channel.unit}"']
        lines += ["static = true"] * channel.static
        if channel.kind == "categorical":
            lines += ['kind = "categorical"', f"levels = {list(channel.levels)}"]
        lines += [
            f"{key} = {value}" for key, value in (("low", channel.low), ("high", channel.high)) if value is not None
        ]
    return "\n".join([*lines, "[[tasks]]", 'name = "sepsis"', ""])


def _events(stays: Stays, chosen: np.ndarray, subject: np.ndarray) -> dict[str, np.ndarray | pa.Array]:
    """Make the events of some stays: what is static without time, the opening, measurements hour by hour, the closing."""
    names = [channel.name for channel in PHYSIONET2019.channels]
    static = np.array([channel.static for channel in PHYSIONET2019.channels])
    rows, lengths = stays.rows(chosen), stays.lengths[chosen]
    values = np.ascontiguousarray(stays.values[rows])
    first, last = np.cumsum(lengths) - lengths, np.cumsum(lengths) - 1
    measured = ~np.isnan(values)
    measured[:, static] &= np.isin(np.arange(len(rows)), first)[:, None]
    row, channel = np.nonzero(measured)  # hour by hour
    time = _times(stays, rows).astype(np.int64)
    stay = np.repeat(np.arange(len(chosen)), lengths)
    code = np.concatenate([channel, np.repeat([len(names), len(names) + 1], len(chosen))])
    at = np.concatenate([np.where(static[channel], -1, time[row]), time[first], time[last]])
    value = np.concatenate([values[row, channel], np.full(2 * len(chosen), np.nan, np.float32)])
    of = np.concatenate([stay[row], np.arange(len(chosen)), np.arange(len(chosen))])
    order = np.lexsort((at, of))
    return {
        "subject_id": subject[chosen][of[order]],
        "time": pa.array(at[order], pa.timestamp("us"), mask=at[order] < 0),
        "code": pa.DictionaryArray.from_arrays(code[order].astype(np.int16), [*names, OPENS, CLOSES]).cast(pa.string()),
        "numeric_value": pa.array(value[order], from_pandas=True),
    }


def _times(stays: Stays, rows: np.ndarray) -> np.ndarray:
    """Compute the time of each of the rows, given that channel ICULOS has their hours: datetime64[us]."""
    hour = [channel.name for channel in PHYSIONET2019.channels].index(PHYSIONET2019.hour)
    return (BEGIN + stays.values[rows, hour].astype(np.int64) * HOUR).astype("datetime64[us]")


def _write(columns: dict[str, np.ndarray | pa.Array], path: pathlib.Path) -> None:
    pa.parquet.write_table(pa.table(columns), path)
