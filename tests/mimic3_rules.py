"""The rules of the MIMIC-III Benchmark in plain Python, one row at a time: slow, and independent of the library."""

import csv
import datetime
import gzip
import io
import pathlib
import re

EMPTY = {"", "NA", "NULL", "n/a", "nan"}  # of those that occur in the made-up tables
EPS = 1e-6


def rows_of(folder: pathlib.Path, name: str) -> list[dict[str, str]]:
    packed = folder / f"{name}.csv.gz"
    data = gzip.decompress(packed.read_bytes()) if packed.exists() else (folder / f"{name}.csv").read_bytes()
    return [
        {key.upper(): cell for key, cell in row.items()}
        for row in csv.DictReader(io.StringIO(data.decode(), newline=""))
    ]


def date(text: str) -> datetime.datetime | None:
    return datetime.datetime.strptime(text, "%Y-%m-%d %H:%M:%S") if text else None


def choose_stays(raw: pathlib.Path) -> list[dict]:
    """The stays of the benchmark, each with its number among its subject's."""
    admissions = {(row["SUBJECT_ID"], row["HADM_ID"]): row for row in rows_of(raw, "ADMISSIONS")}
    patients = {row["SUBJECT_ID"]: row for row in rows_of(raw, "PATIENTS")}
    joined = []
    for stay in rows_of(raw, "ICUSTAYS"):
        if stay["FIRST_WARDID"] != stay["LAST_WARDID"] or stay["FIRST_CAREUNIT"] != stay["LAST_CAREUNIT"]:
            continue
        admission, patient = admissions.get((stay["SUBJECT_ID"], stay["HADM_ID"])), patients.get(stay["SUBJECT_ID"])
        if admission is not None and patient is not None:
            joined.append(
                {**stay, **admission, **patient, "INTIME": date(stay["INTIME"]), "OUTTIME": date(stay["OUTTIME"])}
            )
    chosen = []
    for stay in joined:
        age = (stay["INTIME"] - date(stay["DOB"])).total_seconds() / 3600 / 24 / 365
        age = 90 if age < 0 else age
        if [other["HADM_ID"] for other in joined].count(stay["HADM_ID"]) == 1 and age >= 18:
            deaths = [date(stay["DOD"]), date(stay["DEATHTIME"])]
            first, last = date(stay["ADMITTIME"]), date(stay["DISCHTIME"])
            stay["DIED"] = any(death is not None and first <= death <= last for death in deaths)
            chosen.append(stay)
    for stay in chosen:
        peers = [other for other in chosen if other["SUBJECT_ID"] == stay["SUBJECT_ID"]]
        peers.sort(key=lambda peer: (peer["INTIME"], peer["OUTTIME"] or datetime.datetime.max))
        stay["EPISODE"] = peers.index(stay) + 1
    return chosen


def clean(variable: str, text: str, unit: str, label: str) -> str | float | None:
    """The value of a measurement, None if it is dropped."""
    unit, label = unit.lower(), label.lower()
    if variable == "Capillary refill rate":
        return {"Normal <3 secs": 0.0, "Brisk": 0.0, "Abnormal >3 secs": 1.0, "Delayed": 1.0}.get(text)
    if variable in ("Glucose", "pH", "Oxygen saturation"):
        if not re.match(r"^(\d+(\.\d*)?|\.\d+)$", text):
            return None
        value = float(text)
        return value * 100 if variable == "Oxygen saturation" and value <= 1 else value
    if variable in ("Systolic blood pressure", "Diastolic blood pressure") and re.match(r"^\d+/\d+$", text):
        return float(text.split("/")[variable == "Diastolic blood pressure"])
    if variable.endswith("tolic blood pressure") or variable in (
        "Fraction inspired oxygen",
        "Temperature",
        "Weight",
        "Height",
    ):
        if not re.match(r"^-?[\d.]+$", text):
            return None
        value = float(text)
        if variable == "Fraction inspired oxygen" and "torr" not in unit:
            value = value / 100
        if variable == "Temperature" and value >= 79:
            value = (value - 32) * 5 / 9
        if variable == "Weight" and ("oz" in unit or "oz" in label):
            value = value / 16 * 0.453592
        elif variable == "Weight" and ("lb" in unit or "lb" in label):
            value = value * 0.453592
        if variable == "Height" and ("in" in unit or "in" in label):
            whole, part = divmod(value * 2.54, 1)
            value = whole + (part > 0.5 or (part == 0.5 and whole % 2 == 1))
        return value
    return text


def choose_events(
    raw: pathlib.Path, items: dict[str, tuple[str, str]], stays: list[dict]
) -> tuple[list[dict], dict[str, int]]:
    """Cleaned events of the stays, and how many rows were read and kept."""
    events, counts = [], {"rows": 0, "kept": 0}
    for table in ("CHARTEVENTS", "LABEVENTS", "OUTPUTEVENTS"):
        for row in rows_of(raw, table):
            counts["rows"] += 1
            of_subject = [stay for stay in stays if stay["SUBJECT_ID"] == row["SUBJECT_ID"]]
            of_admission = [stay for stay in of_subject if stay["HADM_ID"] == row["HADM_ID"]]
            if row["ITEMID"] not in items or not row["HADM_ID"] or not of_admission:
                continue
            (stay,) = of_admission
            if row.get("ICUSTAY_ID", "") not in ("", stay["ICUSTAY_ID"]) or row["VALUE"] in EMPTY:
                continue
            variable, label = items[row["ITEMID"]]
            value = clean(variable, row["VALUE"], row["VALUEUOM"], label)
            if value is not None:
                counts["kept"] += 1
                events.append({"stay": stay, "time": date(row["CHARTTIME"]), "variable": variable, "value": value})
    return events, counts


def series_of(stay: dict, events: list[dict]) -> list[tuple[float, dict[str, str]]]:
    """Hours and cells of a stay's rows, before they are cut to the length of the stay."""
    events = [event for event in events if event["stay"]["SUBJECT_ID"] == stay["SUBJECT_ID"]]
    rows = []
    for time, number in sorted({(event["time"], event["stay"]["ICUSTAY_ID"]) for event in events}):
        during = stay["OUTTIME"] is not None and stay["INTIME"] <= time <= stay["OUTTIME"]
        if number == stay["ICUSTAY_ID"] or during:
            cells = {}
            for variable in {event["variable"] for event in events if event["time"] == time}:
                largest = max(e["value"] for e in events if e["time"] == time and e["variable"] == variable)
                cells[variable] = largest if isinstance(largest, str) else repr(largest)
            rows.append(((time - stay["INTIME"]).total_seconds() / 60.0 / 60, cells))
    return rows


def list_line(name: str, stay: dict, length: float, first: float) -> str:
    def cell(end: float, label) -> str:
        times, hour = [], 0.0
        while hour < end + EPS:
            times.append(int(hour + EPS))
            hour += 1
        masks = [str(int(t > 4 and t > first)) for t in times]
        return ";".join(masks) + ";" + ";".join(label(t) for t in times)

    death = date(stay["DEATHTIME"])
    lived = (death - stay["INTIME"]).total_seconds() / 3600 if death else 1e18
    in_time = not (length < 48 - EPS or first > 48 + EPS)
    mortality = f"{47 if in_time else 0};{int(in_time)};{int(stay['DIED'])}"
    los = cell(length, lambda t: f"{length - t:.6f}")
    decompensation = cell(min(length, lived), lambda t: str(int(stay["DIED"] and lived - t < 24)))
    return f"{name},{length:.6f},{mortality},{los},,{decompensation}"


def multitask_slowly(raw: pathlib.Path, benchmark: pathlib.Path) -> tuple[dict[str, str | set[str]], dict[str, int]]:
    """The series by file name and the list files as sets of lines, and counts of rows."""
    with (benchmark / "itemid_to_variable_map.csv").open(newline="") as file:
        ready = [
            row for row in csv.DictReader(file) if row["LEVEL2"] and int(row["COUNT"]) > 0 and row["STATUS"] == "ready"
        ]
    items = {row["ITEMID"]: (row["LEVEL2"], row["MIMIC LABEL"]) for row in ready}
    splits = {}
    for name in ("test", "val"):
        lines = (benchmark / f"{name}set.csv").read_text().split()
        splits[name] = {line.split(",")[0] for line in lines if line.endswith(",1")}
    variables = sorted({row["LEVEL2"] for row in ready})
    stays = choose_stays(raw)
    events, counts = choose_events(raw, items, stays)
    files: dict[str, str | set[str]] = {f"{split}_listfile.csv": set() for split in ("train", "val", "test")}
    for stay in stays:
        length = 24 * float(stay["LOS"]) if stay["LOS"] else None
        rows = [row for row in series_of(stay, events) if length is not None and -EPS < row[0] < length + EPS]
        if rows:
            name = f"{stay['SUBJECT_ID']}_episode{stay['EPISODE']}_timeseries.csv"
            split = next((split for split in splits if stay["SUBJECT_ID"] in splits[split]), "train")
            lines = [",".join([repr(hours), *(cells.get(name, "") for name in variables)]) for hours, cells in rows]
            files[f"{'test' if split == 'test' else 'train'}/{name}"] = "\n".join(
                [",".join(["Hours", *variables]), *lines, ""]
            )
            files[f"{split}_listfile.csv"].add(list_line(name, stay, length, rows[0][0]))
    return files, counts
