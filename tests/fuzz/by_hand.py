"""Readings of the same files without the code under test: cell by cell in Python, with csv, json, tomllib, h5py and numpy.

A file that cannot be read so makes them raise, which counts as a fault where the code under test took it.
"""

import ast
import csv
import datetime
import decimal
import gzip
import hashlib
import io
import json
import math
import pathlib
import re
import struct
import tomllib
import zlib
from collections.abc import Callable
from typing import Any

import h5py
import numpy as np
import pyarrow as pa
import pyarrow.parquet

from ncl_tf.data.datasets import MIMIC3_BENCHMARK
from psv import DYNAMIC, HEADER, STATIC

MISSING = ("", "NaN", "nan", "NA")
PARTS = ("train", "val", "test")


def write_csv(path: pathlib.Path, rows: list[dict[str, str]]) -> None:
    with path.open("w", newline="") as file:
        writer = csv.DictWriter(file, rows[0])
        writer.writeheader()
        writer.writerows(rows)


def write_parquet(path: pathlib.Path, rows: list[dict[str, str]]) -> None:
    kinds = {"stay": int, "hour": int, "HR": float, "rhythm": int, "ill": int, "left": float}
    columns = {name: [None if row[name] == "" else kinds.get(name, str)(row[name]) for row in rows] for name in rows[0]}
    write_arrow(path, pa.table(columns))


def write_arrow(path: pathlib.Path, content: pa.Table) -> None:
    pa.parquet.write_table(content, path)


def number(cell: str) -> float:
    """Convert a cell that must be a plain number, NaN where it is missing."""
    if cell in MISSING or cell.strip().casefold() == "nan":
        return math.nan
    value = float(cell)
    assert math.isfinite(value) and "_" not in cell, cell
    return value


def lines_of(data: bytes) -> list[str]:
    text = data.decode("utf-8", errors="surrogateescape").replace("\r\n", "\n").replace("\r", "\n")
    return text.removesuffix("\n").split("\n")


def psv(folder: pathlib.Path) -> dict[str, Any]:
    names, lengths, values, labels = [], [], [], []
    for path in sorted(folder.rglob("*.psv"), key=lambda path: path.stem):
        header, *lines = lines_of(path.read_bytes())
        assert header == HEADER
        rows = [dict(zip(HEADER.split("|"), line.split("|"), strict=True)) for line in lines]
        hours = [int(float(row["ICULOS"])) for row in rows]
        assert hours == sorted(set(hours))
        by_hour = dict(zip(hours, rows, strict=True))
        for hour in range(hours[0], hours[-1] + 1):
            row = by_hour.get(hour, {})
            values.append(
                [hour if name == "ICULOS" else number(row.get(name, "NaN")) for name in (*STATIC, "ICULOS", *DYNAMIC)]
            )
            labels.append([number(row.get("SepsisLabel", "NaN"))])
        names.append(path.stem)
        lengths.append(hours[-1] - hours[0] + 1)
    return {"names": names, "lengths": np.array(lengths), "values": np.array(values), "labels": np.array(labels)}


def mimic3(folder: pathlib.Path) -> dict[str, Any]:
    channels = list(MIMIC3_BENCHMARK.channels)
    listed = []
    for part in PARTS:
        header, *lines = (
            line.split(",") for line in (folder / f"{part}_listfile.csv").read_text(errors="replace").splitlines()
        )
        listed += [(dict(zip(header, line, strict=True)), part) for line in lines]
    listed.sort(key=lambda item: item[0]["filename"])
    found: dict[str, Any] = {"names": [], "lengths": [], "values": [], "labels": [], "train": [], "val": [], "test": []}
    for row, part in listed:
        hours = float(row["length of stay"])
        length = math.ceil(hours) + 1
        header, *lines = lines_of((folder / ("test" if part == "test" else "train") / row["filename"]).read_bytes())
        grid = [[math.nan] * len(channels) for _ in range(length)]
        before = -math.inf
        for line in lines:
            cells = dict(zip(header.split(","), line.split(","), strict=True))
            time = float(cells["Hours"])
            assert time >= before
            before, hour = time, max(math.ceil(time), 0)
            for position, channel in enumerate(channels):
                value = coded(cells[channel.name], channel)
                if hour < length and not math.isnan(value):
                    grid[hour][position] = value
        for hour in range(length):
            grid[hour][[channel.name for channel in channels].index("Hours")] = hour
        labels = [[math.nan, math.nan] for _ in range(length)]
        for position, column in enumerate(("decompensation task (masks;labels)", "length of stay task (masks;labels)")):
            entries = [float(entry) for entry in row[column].split(";")] if row[column].strip(";") else []
            half = len(entries) // 2
            for hour, (mask, label) in enumerate(zip(entries[:half], entries[half:], strict=True)):
                if hour < length and mask == 1:
                    labels[hour][position] = label
        found[part].append(len(found["names"]))
        found["names"].append(row["filename"].removesuffix("_timeseries.csv"))
        found["lengths"].append(length)
        found["values"] += grid
        found["labels"] += labels
    return {name: value if name == "names" else np.array(value) for name, value in found.items()}


def coded(cell: str, channel: Any) -> float:
    """Convert a cell of the benchmark: a spelling of a level, or a number."""
    if cell == "":
        return math.nan
    spelled = {text.casefold(): code for text, code in channel.spellings.items()}
    code = spelled.get(cell.strip().casefold())
    value = number(cell) if code is None else code
    assert channel.kind == "continuous" or value in channel.levels
    return value


def plain_rows(path: pathlib.Path) -> list[dict[str, str]]:
    """Read a table as texts, as a CSV would have them."""
    if path.suffix == ".csv":
        with path.open(encoding="utf-8-sig", newline="") as file:
            header, *rows = csv.reader(file, strict=True)
        assert len(set(header)) == len(header) or len({*header} & NAMES) == sum(name in NAMES for name in header)
        return [dict(zip(header, row, strict=True)) for row in rows]
    rows = pa.parquet.read_table(path).to_pylist()
    return [{name: as_text(value) for name, value in row.items() if name in NAMES} for row in rows]


NAMES = {"stay", "hour", "patient", "part", "sex", "HR", "rhythm", "ill", "left"}


def as_text(value: Any) -> str:
    if value is None or (isinstance(value, float) and math.isnan(value)):
        return ""
    if isinstance(value, bool):
        return str(int(value))
    if isinstance(value, datetime.timedelta):
        return repr(value / datetime.timedelta(hours=1))
    if isinstance(value, datetime.datetime):
        return value.isoformat(" ")
    if isinstance(value, float) and value.is_integer():
        return str(int(value))
    assert isinstance(value, str | int | float | decimal.Decimal), type(value)
    return str(value)


def hour_of(rows: list[dict[str, str]], row: dict[str, str]) -> float:
    """The hour of a row: a number, or of a time those since the first of its stay."""
    if re.match(r"\d{4}-\d\d-\d\d", row["hour"]):
        times = [datetime.datetime.fromisoformat(other["hour"]) for other in rows if other["stay"] == row["stay"]]
        return (datetime.datetime.fromisoformat(row["hour"]) - min(times)) / datetime.timedelta(hours=1)
    return number(row["hour"])


def stays_of(rows: list[dict[str, str]]) -> tuple[list[str], dict[str, dict[float, dict[str, str]]]]:
    """Sort stays, as numbers if all are, and their rows by hour."""
    names = sorted({row["stay"] for row in rows})
    assert "" not in names
    if all(name.isdecimal() for name in names):
        names.sort(key=int)
    by_stay: dict[str, dict[float, dict[str, str]]] = {name: {} for name in names}
    for row in rows:
        hour = hour_of(rows, row)
        assert hour == int(hour) and hour not in by_stay[row["stay"]]
        by_stay[row["stay"]][hour] = row
    return names, by_stay


def level(cell: str, levels: dict[str, float]) -> float:
    if cell in MISSING:
        return math.nan
    folded = {text.casefold(): code for text, code in levels.items()}
    if (key := cell.strip().casefold()) in folded:
        return folded[key]
    value = number(cell)
    assert value in levels.values() and levels is not SEX  # whose codes are ours
    return value


SEX = {"female": 0, "male": 1, "F": 0, "W": 0}
SEX_OF_MODEL = {"F": 0, "female": 0, "M": 1, "0": 0, "1": 1}
RHYTHM = {"1": 1, "2": 2, "3": 3}


def user_table(folder: pathlib.Path) -> dict[str, Any]:
    rows = plain_rows(next(path for path in folder.iterdir() if path.stem == "table"))
    names, by_stay = stays_of(rows)
    found: dict[str, Any] = {
        "names": names,
        "lengths": [],
        "values": [],
        "labels": [],
        "subjects": [],
        **{part: [] for part in PARTS},
    }
    for index, name in enumerate(names):
        hours = sorted(by_stay[name])
        found["lengths"].append(int(hours[-1] - hours[0]) + 1)
        for hour in range(int(hours[0]), int(hours[-1]) + 1):
            row = by_stay[name].get(hour, dict.fromkeys(NAMES, ""))
            found["values"].append([level(row["sex"], SEX), number(row["HR"]), level(row["rhythm"], RHYTHM)])
            labels = [number(row["ill"]), number(row["left"])]
            assert math.isnan(labels[0]) or labels[0] in (0, 1)
            found["labels"].append(labels)
        for key, values in (("patient", found["subjects"]), ("part", found)):
            [value] = {row[key] for row in by_stay[name].values()}
            assert value != ""
            values.append(value) if key == "patient" else values[value].append(index)
    exact = ("names", "subjects")
    return {name: value if name in exact else np.array(value) for name, value in found.items()}


def for_model(folder: pathlib.Path) -> dict[str, Any]:
    names, by_stay = stays_of(plain_rows(folder / "table.csv"))
    lengths, values = [], []
    for name in names:
        hours = sorted(by_stay[name])
        lengths.append(int(hours[-1] - hours[0]) + 1)
        for hour in range(int(hours[0]), int(hours[-1]) + 1):
            row = by_stay[name].get(hour, dict.fromkeys(NAMES, ""))
            known = number(row["hour"]) if row["hour"] else math.nan
            values.append([level(row["sex"], SEX_OF_MODEL), number(row["HR"]), known])
    return {"names": names, "lengths": np.array(lengths), "values": np.array(values)}


def yaib(folder: pathlib.Path) -> dict[str, Any]:
    dyn, sta, outc = (pa.parquet.read_table(folder / f"{name}.parquet") for name in ("dyn", "sta", "outc"))
    known = ["age", "sex", "height", "weight"]
    static = [name for name in [*known, *sorted(set(sta.column_names) - set(known), key=sta.column_names.index)]
              if name in sta.column_names and name != "stay_id"]  # fmt: skip
    rows, of_stay, outcomes = (
        [{k: as_text(v) for k, v in row.items()} for row in part.to_pylist()] for part in (dyn, sta, outc)
    )
    names, by_stay = stays_of([row | {"stay": row["stay_id"], "hour": row["time"]} for row in rows])
    sexes = {"male": 1.0, "female": 0.0}
    found: dict[str, Any] = {"names": names, "lengths": [], "values": {}, "labels": []}
    constants = {row["stay_id"]: row for row in of_stay}
    assert len(constants) == len(of_stay) == len(names)
    labels = {(row["stay_id"], number(row["time"])): number(row["label"]) for row in outcomes}
    assert len(labels) == len(outcomes)
    dynamic = [name for name in dyn.column_names if name not in ("stay_id", "time")]
    for name in names:
        hours = sorted(by_stay[name])
        found["lengths"].append(int(hours[-1] - hours[0]) + 1)
        for hour in range(int(hours[0]), int(hours[-1]) + 1):
            row = by_stay[name].get(hour, dict.fromkeys(dynamic, "")) | {"time": str(hour)}
            for column in static:
                cell = constants[name][column]
                value = sexes.get(cell.strip().casefold(), math.nan) if column == "sex" and cell else number(cell)
                found["values"].setdefault(column, []).append(value)
            for column in ("time", *dynamic):
                found["values"].setdefault(column, []).append(number(row[column]))
            found["labels"].append([labels.pop((name, hour), math.nan)])
    assert not labels
    return {
        "names": names,
        "lengths": np.array(found["lengths"]),
        "labels": np.array(found["labels"]),
        "by_channel": found["values"],
    }


def schema(folder: pathlib.Path) -> dict[str, Any]:
    value = tomllib.loads((folder / "schema.toml").read_text(encoding="utf-8"))
    defaults = {"kind": "continuous", "static": False, "low": None, "high": None, "unit": "", "levels": ()}
    given = [{"name": channel["name"]} | defaults | channel for channel in value["channels"]]
    channels = {c["name"]: [*(c[key] for key in list(defaults)[:-1]), len(c["levels"])] for c in given}
    assert len(channels) == len(value["channels"])
    tasks = {t["name"]: [t.get("kind", "binary"), t.get("edges", [])] for t in value["tasks"]}
    for low, high in ((channel[2], channel[3]) for channel in channels.values()):
        assert all(bound is None or math.isfinite(bound) for bound in (low, high))
    assert all(math.isfinite(edge) for task in tasks.values() for edge in task[1])
    return {"keys": {key: value[key] for key in ("name", "stay", "hour")}, "channels": channels, "tasks": tasks}


def meds(folder: pathlib.Path) -> dict[str, Any]:
    """Of a MEDS dataset its stays, their heart rates and labels."""
    events = [
        row for path in sorted((folder / "data").rglob("*.parquet")) for row in pa.parquet.read_table(path).to_pylist()
    ]
    given = [
        row for path in (folder / "task_labels").rglob("*.parquet") for row in pa.parquet.read_table(path).to_pylist()
    ]
    found: dict[str, Any] = {"names": [], "lengths": [], "subjects": [], "rates": [], "labels": []}
    hour = datetime.timedelta(hours=1)
    for subject in dict.fromkeys(row["subject_id"] for row in events):
        own = [row for row in events if row["subject_id"] == subject and row["time"] is not None]
        opens = sorted({row["time"] for row in own if row["code"].startswith("ADMISSION//")})
        closes = sorted({row["time"] for row in own if row["code"] in ("DISCHARGE", "MEDS_DEATH")})
        for number_of_stay, begin in enumerate(opens):
            end = next(time for time in closes if time > begin or (time == begin and len(opens) == 1))
            length = math.ceil((end - begin) / hour) + 1
            rates, labels = [math.nan] * length, [math.nan] * length
            for row in own:
                if begin <= row["time"] <= end and (row["code"] == "HR" or row["code"].startswith("PULSE//")):
                    value = row.get("numeric_value")
                    if value is not None and not math.isnan(value):
                        rates[math.ceil((row["time"] - begin) / hour)] = float(value)
            mine = [row for row in given if row["subject_id"] == subject and begin <= row["prediction_time"] <= end]
            for row in sorted(mine, key=lambda row: row["prediction_time"]):
                [value] = [
                    row[name] for name in ("boolean_value", "integer_value", "float_value") if row.get(name) is not None
                ]
                labels[math.floor((row["prediction_time"] - begin) / hour)] = float(value)
            found["names"].append(str(subject) if number_of_stay == 0 else f"{subject}-{number_of_stay + 1}")
            found["subjects"].append(str(subject))
            found["lengths"].append(length)
            found["rates"] += rates
            found["labels"] += [[label] for label in labels]
    return {name: value if name in ("names", "subjects") else np.array(value) for name, value in found.items()}


def archive(form: str) -> Callable[[pathlib.Path], dict[str, bytes]]:
    return lambda folder: (unzipped if form == "zip" else untarred)((folder / f"ward.{form}").read_bytes())


def unzipped(data: bytes) -> dict[str, bytes]:
    """Take a zip apart by its central directory."""
    end = data.rindex(b"PK\5\6")
    count, size, offset = struct.unpack("<HII", data[end + 10 : end + 20])
    position, found = end - size, {}
    shift = position - offset
    for _ in range(count):
        fields = struct.unpack("<4s6H3I5H2I", data[position : position + 46])
        method, crc, packed, plain, name_size, extra, comment, start = (fields[i] for i in (4, 7, 8, 9, 10, 11, 12, 16))
        name = data[position + 46 : position + 46 + name_size].decode()
        position += 46 + name_size + extra + comment
        local = data[start + shift : start + shift + 30]
        begin = start + shift + 30 + sum(struct.unpack("<2H", local[26:30]))
        part = data[begin : begin + packed]
        content = part if method == 0 else zlib.decompress(part, -15) if method == 8 else None
        if name.endswith(".psv"):
            assert name not in found
            assert content is None or (zlib.crc32(content) == crc and len(content) == plain)
            found[name] = content
    return found


def untarred(data: bytes) -> dict[str, bytes]:
    """Take a tar apart block by block; names and sizes are as plain headers have them."""
    data = gzip.decompress(data) if data[:2] == b"\x1f\x8b" else data
    position, found = 0, {}
    while any(data[position : position + 512]):
        header = data[position : position + 512]
        total = sum(header[:148]) + 8 * 32 + sum(header[156:])
        assert total == int(header[148:156].split(b"\0")[0].strip(), 8)
        name, size = header[:100].split(b"\0")[0].decode(), int(header[124:136].rstrip(b"\0 "), 8)
        content = data[position + 512 : position + 512 + size]
        assert len(content) == size and header[156:157] in (b"0", b"\0", b"5")
        if name.endswith(".psv"):
            assert name not in found
            found[name] = content
        position += 512 + -(-size // 512) * 512
    assert position < len(data)
    return found


def cohort(folder: pathlib.Path) -> dict[str, Any]:
    path, sums = folder / "ward.h5", folder / "ward.h5.sums"
    if sums.exists():
        assert sums.read_text().split()[0] == hashlib.sha256(path.read_bytes()).hexdigest()
    with h5py.File(io.BytesIO(path.read_bytes())) as file:
        found = {"columns": list(file["data"].attrs["columns"]), "tasks": list(file["labels"].attrs["tasks"])}
        for part in PARTS:
            found |= {f"{group}/{part}": file[group][part][()] for group in ("data", "labels")}
            found[f"stay_names/{part}"] = [name.decode() for name in file["stay_names"][part][()]]
            windows = file["patient_windows"][part][()]
            found[f"patient_windows/{part}"] = windows[:, :2]
            assert np.isfinite(found[f"data/{part}"]).all()
            assert windows[0, 0] == 0 and windows[-1, 1] == len(found[f"data/{part}"]) - 1
            ill, left = found[f"labels/{part}"].T
            assert set(ill[~np.isnan(ill)]) <= {0, 1} and not np.isinf(left).any()
    return found


def raw_rows(folder: pathlib.Path) -> dict[str, Any]:
    with h5py.File(io.BytesIO((folder / "ward.raw.h5").read_bytes())) as file:
        found = {f"raw/{part}": file["raw"][part][()] for part in PARTS}
    assert not any(np.isinf(values).any() for values in found.values())
    return found


def checkpoint(folder: pathlib.Path) -> dict[str, Any]:
    """The newest file in which all is readable, finite and of the right form; damaged ones have been renamed by now."""
    for path in sorted((folder / "checkpoints").glob("step-*.npz"), reverse=True):
        with np.load(path) as archive:
            values = {name: archive[name] for name in archive.files}
        assert all(value.shape == (3, 4) and value.dtype == np.float32 for value in values.values())
        assert all(np.isfinite(value).all() for value in values.values())
        return {"step": int(path.stem.split("-")[1]), **values}
    return {"step": 0, **{f"model/{name}": value for name, value in _untouched().items()}}


def _untouched() -> dict[str, np.ndarray]:
    random = np.random.default_rng(0)
    return {name: random.normal(size=(3, 4)).astype("f4") for name in "abc"}


def run(folder: pathlib.Path) -> dict[str, Any]:
    lines = (folder / "run/metrics.jsonl").read_bytes().splitlines(keepends=True)
    reports = [json.loads(line) for line in lines if line.endswith(b"\n")]
    assert all(isinstance(report, dict) and isinstance(report["step"], int) for report in reports)
    text = (folder / "run/config.gin").read_text(encoding="utf-8")
    settings = dict(re.findall(r"^([\w./]+) = (.*)$", text, re.MULTILINE))
    steps = settings.get("train.steps")
    while steps and steps.startswith("%"):
        steps = settings.get(steps[1:])
    record = json.loads((folder / "run/run.json").read_bytes())
    assert record["status"] == "finished"
    return {"record": record, "reports": reports, "config": settings.get("alpha"), "text": True,
            "steps": None if steps is None else ast.literal_eval(steps)}  # fmt: skip


def gin_file(folder: pathlib.Path) -> dict[str, Any]:
    """The values that a file sets itself; the last one of a name counts."""
    text = (folder / "mine.gin").read_text(encoding="utf-8")
    text = re.sub(r"#.*", "", text)
    found, statement = [], ""
    for line in text.splitlines():
        statement += f"{line}\n"
        if sum(map(statement.count, "([{")) <= sum(map(statement.count, ")]}")):
            found.append(statement.strip())
            statement = ""
    assert not statement
    pairs = (binding.split("=", 1) for binding in found if re.match(r"\w+\s*=", binding))
    values = {name.strip(): ast.literal_eval(value.strip()) for name, value in pairs if value.strip()[:1] not in "@%"}
    known = ("cohort", "alpha", "window", "seed", "train.report_every", "filters", "dilations")
    return {name: value for name, value in values.items() if name in known}


def export(folder: pathlib.Path) -> dict[str, Any]:
    card = json.loads((folder / "model.json").read_bytes())
    files = {name: (folder / "1" / name).read_bytes() for name in card.get("files", {})}
    assert all(hashlib.sha256(data).hexdigest() == card["files"][name] for name, data in files.items())
    prepared = card["preprocessor"]
    mean = None if prepared is None else np.array(prepared["mean"], float)
    return {"hours": card["inputs"]["windows"]["hours"], "mean": mean, "files": files}


def results(folder: pathlib.Path) -> dict[str, Any]:
    result = json.loads((folder / "results/result.json").read_bytes())
    plan = json.loads((folder / "plan.json").read_bytes())
    return {"metrics": result["metrics"], "intervals": result["intervals"], "plan": plan["tables"]}
