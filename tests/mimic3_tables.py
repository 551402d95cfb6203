"""Made-up tables in the form of MIMIC-III's download and of mimic3-benchmarks: no patient is behind them."""

import csv
import datetime
import gzip
import io
import pathlib
import random

BEGIN = datetime.datetime(2150, 1, 1, 3, 17)
# Variable: items with their labels; texts, of which the first two are usual; units.
TABLE = """
Capillary refill rate: 115 Capillary Refill [Right]: Brisk|Delayed|Normal <3 secs|Abnormal >3 secs|Other|normal:
Diastolic blood pressure: 8368 Arterial BP|220180 NBP: 60|71.5|120/80|130/7|1/2/3|low|12/: mmHg
Systolic blood pressure: 51 Arterial BP [Systolic]: 120|99.5|120/80|98/71|/80|high: mmHg|
Mean blood pressure: 52 Arterial BP Mean: 70|73.666702270507812|9|100: mmHg
Fraction inspired oxygen: 3420 FIO2|223835 Inspired O2 Fraction: 40|50|0.5|100|1|room air|nan|inf|1_0: |%|torr|Torr
Glascow coma scale eye opening: 184 Eye Opening: None|4 Spontaneously|To Pain|3 To speech|Spontaneously:
Glascow coma scale motor response: 454 Motor Response: 6 Obeys Commands|No response:
Glascow coma scale total: 198 GCS Total: 15|3|9|11: points
Glascow coma scale verbal response: 723 Verbal Response: 1.0 ET/Trach|5 Oriented:
Glucose: 50931 GLUCOSE|807 Fingerstick Glucose: 101|99.|.5|98.50|ERROR|1e2|-5|>500| 80|nan: mg/dL
Heart Rate: 211 Heart Rate|220045 Heart Rate: 88|104|9|104.0|88.5: bpm|BPM
Height: 1394 Height Inches|226707 Height|226730 Height (cm): 70|62.5|67.5|5'10|170|75: |Inch|cm|in
Oxygen saturation: 646 SpO2|50817 OXYGEN SATURATION: 98|97.5|1|0.97|0|1.01|ERROR: %
pH: 50820 PH|780 Arterial pH: 7.4|7.35|UNABLE TO REPORT|7: units
Respiratory rate: 618 Respiratory Rate: 20|17.5|118|8: insp/min
Temperature: 678 Temperature F|223762 Temperature Celsius: 98.6|37|79|78.9|101.30000305175781|warm: ?F|?C|
Weight: 763 Daily Weight|3581 Present Weight  (lb)|3582 Present Weight  (oz): 80|81.5|176|2800|heavy: kg|lb|oz|LBS|
"""
ITEMS = {}
for line in TABLE.strip().splitlines():
    name, numbered, texts, units = line.split(":")
    items = {int(number): label for number, _, label in (item.strip().partition(" ") for item in numbered.split("|"))}
    ITEMS[name] = items, texts[1:].split("|"), units.strip().split("|")
LAB_ITEMS = (50931, 50817, 50820)
MISSING = ["", "", "NA", "NULL", "n/a"]
STAY_COLUMNS = (
    "row_id,subject_id,hadm_id,icustay_id,dbsource,"
    "first_careunit,last_careunit,first_wardid,last_wardid,intime,outtime,los"
)
ADMISSION_COLUMNS = "row_id,subject_id,hadm_id,admittime,dischtime,deathtime,diagnosis"
PATIENT_COLUMNS = "row_id,subject_id,gender,dob,dod"
CHART_COLUMNS = "row_id,subject_id,hadm_id,icustay_id,itemid,charttime,storetime,value,valuenum,valueuom,error"
LAB_COLUMNS = "row_id,subject_id,hadm_id,itemid,charttime,value,valuenum,valueuom,flag"
OUTPUT_COLUMNS = "row_id,subject_id,hadm_id,icustay_id,charttime,itemid,value,valueuom,iserror"


def hours(count: float) -> datetime.timedelta:
    return datetime.timedelta(seconds=round(3600 * count))


class MadeUpDownload:
    """Tables that are filled stay by stay and event by event, and then written into folders raw/ and benchmark/."""

    def __init__(self, seed: int = 0, outputs: float = 0.05) -> None:
        """Put that share of the charted events into OUTPUTEVENTS."""
        self.rng, self.outputs = random.Random(seed), outputs
        self.stays, self.admissions, self.patients = [], [], []
        self.chart, self.lab, self.output = [], [], []
        self.test, self.val = [], []

    def patient(self, subject: int, age: float = 60, dod: str = "", split: str = "train") -> None:
        born = BEGIN - datetime.timedelta(days=age * 365) if age < 200 else BEGIN.replace(year=BEGIN.year - 300)
        self.patients.append([1, subject, "F", born, dod])
        if split:
            self.test.append(f"{subject},{int(split == 'test')}")
        if split in ("train", "val"):
            self.val.append(f"{subject},{int(split == 'val')}")

    def stay(
        self, subject: int, begin: float, length: float, *, admission: int | None = None, known: bool = True,
        death: float | None = None, wards: tuple = (7, 7), units: tuple = ("MICU", "MICU"), unknown: int = 0,
    ) -> tuple[int, int, int, datetime.datetime, float]:  # fmt: skip
        """Add a stay that begins so many hours after BEGIN, and its admission; death in hours after its begin.

        Of its end and its length, the first `unknown` are not known.
        """
        number = 200_000 + len(self.stays)
        admission = admission or 100_000 + len(self.stays)
        intime = BEGIN + hours(begin)
        outtime = intime + hours(length)
        end = ["" if place < unknown else cell for place, cell in enumerate([outtime, f"{length / 24:.4f}"])]
        self.stays.append([1, subject, admission, number, "carevue", *units, *wards, intime, *end])
        if known and all(other[2] != admission for other in self.admissions):
            died = "" if death is None else intime + hours(death)
            ends = max(outtime, died or outtime) + hours(20)
            self.admissions.append([1, subject, admission, intime - hours(50), ends, died, 'WOUND, "DEEP"'])
        return subject, admission, number, intime, length

    def events(self, stay: tuple, count: int, usual: float = 0.7) -> None:
        """Add events at few times, so that many share a cell; some before and after the stay, some of faulty rows."""
        for _ in range(count):
            self.event(stay, self.rng.choice([*range(-30, int(stay[4] * 60) + 30, 45), 0, round(stay[4] * 60)]), usual)

    def event(self, stay: tuple, minute: float, usual: float = 1.0, variable: str = "", text: str = "") -> None:
        rng, (subject, admission, number, intime, _) = self.rng, stay
        items, texts, units = ITEMS[variable or rng.choice(list(ITEMS))]
        item = rng.choice(list(items))
        text = text or rng.choice(texts[:2] if rng.random() < usual else [*texts, rng.choice(MISSING)])
        if rng.random() > usual + 0.25:  # a row that is not the stay's
            item, admission, number = rng.choice(
                [(999, admission, number), (item, "", number), (item, 99, number), (item, admission, 42),
                 (item, admission, ""), (item, self.stays[0][2], "")]
            )  # fmt: skip
        self.add(subject, admission, number, item, intime + datetime.timedelta(minutes=minute), text, rng.choice(units))

    def add(self, subject, admission, number, item, time, text, unit) -> None:
        if item in LAB_ITEMS:
            self.lab.append([1, subject, admission, item, time, text, "", unit, ""])
        elif self.rng.random() < self.outputs:
            self.output.append([1, subject, admission, number, time, item, text, unit, ""])
        else:
            error = self.rng.choice(["", "0", "1"])
            self.chart.append([1, subject, admission, number, item, time, time, text, "", unit, error])

    def write(
        self, folder: pathlib.Path, upper: bool = True, packed: bool = False, newline: str = "\n"
    ) -> pathlib.Path:
        """Write all tables, rows in random order: headers in upper or lower case, as .csv or .csv.gz."""
        raw, benchmark = folder / "raw", folder / "benchmark"
        raw.mkdir(parents=True)
        benchmark.mkdir()
        tables = {
            "ICUSTAYS": (STAY_COLUMNS, self.stays), "ADMISSIONS": (ADMISSION_COLUMNS, self.admissions),
            "PATIENTS": (PATIENT_COLUMNS, self.patients), "CHARTEVENTS": (CHART_COLUMNS, self.chart),
            "LABEVENTS": (LAB_COLUMNS, self.lab), "OUTPUTEVENTS": (OUTPUT_COLUMNS, self.output),
        }  # fmt: skip
        for name, (columns, rows) in tables.items():
            text = io.StringIO(newline="")
            quoting = csv.QUOTE_NONNUMERIC if upper else csv.QUOTE_MINIMAL
            writer = csv.writer(text, quoting=quoting, lineterminator=newline)
            writer.writerow((columns.upper() if upper else columns).split(","))
            writer.writerows(self.rng.sample(rows, len(rows)))
            data = text.getvalue().encode()
            (raw / f"{name}.csv{'.gz' if packed else ''}").write_bytes(gzip.compress(data) if packed else data)
        lines = ["LEVEL2,LEVEL1,ALTERNATIVE,STATUS,STATUS NOTE,ITEMID,MIMIC LABEL,UNITNAME,LINKSTO,COUNT"]
        for variable, (items, _, _) in ITEMS.items():
            lines += [f"{variable},{variable},,ready,,{item},{label},,x,7" for item, label in items.items()]
        lines += ["Heart Rate,,,verify,,998,,,x,7", "Heart Rate,,,ready,,999,,,x,0", ",,,ready,,997,,,x,7"]
        (benchmark / "itemid_to_variable_map.csv").write_text("\n".join([*lines, ""]))
        (benchmark / "testset.csv").write_text("\n".join([*self.test, ""]))
        (benchmark / "valset.csv").write_text("\n".join([*self.val, ""]))
        return folder


def made_up_download(seed: int = 0, usual: float = 0.7) -> MadeUpDownload:
    """Many stays with every case that the rules distinguish; `usual` is the share of texts that any reader understands."""
    made = MadeUpDownload(seed)
    everywhere = []
    for subject, split in enumerate(["train", "val", "test", "train", "train", ""] * 4, start=1):  # usual ones
        made.patient(subject, split=split)
        begin = 100 * subject + made.rng.randrange(3600) / 3600
        everywhere.append(made.stay(subject, begin, made.rng.uniform(0.2, 90), death=made.rng.choice([None, 3.5, 30])))
    made.patient(50)  # eleven episodes, in an order that is neither that of the table nor of the ids
    everywhere += [made.stay(50, made.rng.uniform(0, 9000), 5 + 24 * made.rng.randrange(2)) for _ in range(11)]
    made.patient(51)  # two stays at one time, with events at the same moments
    both = [made.stay(51, 10, 30), made.stay(51, 25, 40)]
    everywhere += both
    for minute in range(0, 1800, 20):
        for stay, shift in zip(both, (0, -900), strict=True):
            made.event(stay, minute + shift, 0.9, "Heart Rate" if minute % 3 else "")
    made.event(both[1], 900)  # at the very end of the other stay
    rules = [{"wards": (7, 8)}, {"units": ("MICU", "CCU")}, {"known": False}, {"unknown": 2}]
    for subject, rule in enumerate([*rules, {"death": -2.5}, {"death": 0}, {"unknown": 1}], start=60):
        made.patient(subject)
        everywhere.append(made.stay(subject, 5, 48, **rule))
    everywhere.append(made.stay(66, 20, 60))  # beside a stay whose end is not known
    made.patient(70)  # two stays of one admission, of which one has a transfer; and two that have none
    everywhere += [
        made.stay(70, 5, 20, admission=90_001, wards=(7, 7)),
        made.stay(70, 40, 20, admission=90_001, wards=(7, 9)),
    ]
    everywhere += [made.stay(70, 500, 20, admission=90_002), made.stay(70, 530, 20, admission=90_002)]
    for subject, age in enumerate([17.9, 18.1, -0.1, 300, 17.99], start=71):
        made.patient(subject, age)
        everywhere.append(made.stay(subject, 0, 24))
    made.patient(80, dod=str(BEGIN + hours(15)))  # died, but no time of death
    made.patient(81, dod=str(BEGIN + hours(5000)))  # died after the stay
    everywhere += [
        made.stay(subject, 0, length) for subject, length in ((80, 24.0), (81, 47.9976), (82, 60))
    ]  # 82 is unknown
    made.patient(83)
    made.stay(83, 0, 30)  # no event at all
    for subject, first in ((84, 360), (85, 2940)):  # the first event: at a whole hour, after two days
        made.patient(subject)
        late = made.stay(subject, 0, 70)
        for minute in range(first, 4200, 90):
            made.event(late, minute)
    made.patient(86, age=18)  # to the second
    made.patient(87, dod=str(BEGIN - hours(51)))  # before the admission, an hour later
    everywhere += [made.stay(86, 0, 24), made.stay(87, 0, 24)]
    made.patient(88)  # died after the discharge that is written down
    everywhere.append(made.stay(88, 0, 48, death=30))
    made.admissions[-1][4] = BEGIN + hours(29)
    for stay in everywhere:
        made.events(stay, made.rng.choice([3, 60, 300]), usual)
    return made
