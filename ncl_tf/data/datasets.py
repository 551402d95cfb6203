"""The declarations of the paper's two datasets (its appendix C; ranges as in the authors' resources)."""

from ncl_tf.data.declaration import Channel, Dataset, Task


def _binary(name: str) -> Channel:
    return Channel(name, kind="categorical", static=True, levels=(0, 1))


PHYSIONET2019 = Dataset(
    name="physionet2019",
    channels=(
        _binary("Gender"),
        _binary("Unit1"),
        _binary("Unit2"),
        Channel("Age", static=True, unit="years"),
        Channel("HospAdmTime", static=True, unit="hours"),
        Channel("ICULOS", unit="hours"),
        Channel("HR", low=10, high=300, unit="beats/min"),
        Channel("O2Sat", low=0, high=100, unit="%"),
        Channel("Temp", low=30, high=50, unit="deg C"),
        Channel("SBP", low=10, high=300, unit="mmHg"),
        Channel("MAP", low=10, high=200, unit="mmHg"),
        Channel("DBP", low=10, high=200, unit="mmHg"),
        Channel("Resp", low=0, high=100, unit="breaths/min"),
        Channel("EtCO2", low=10, high=100, unit="mmHg"),
        Channel("BaseExcess", unit="mmol/L"),
        Channel("HCO3", unit="mmol/L"),
        Channel("FiO2", low=0, high=100, unit="fraction"),
        Channel("pH"),
        Channel("PaCO2", unit="mmHg"),
        Channel("SaO2", unit="%"),
        Channel("AST", unit="IU/L"),
        Channel("BUN", unit="mg/dL"),
        Channel("Alkalinephos", unit="IU/L"),
        Channel("Calcium", unit="mg/dL"),
        Channel("Chloride", unit="mmol/L"),
        Channel("Creatinine", unit="mg/dL"),
        Channel("Bilirubin_direct", unit="mg/dL"),
        Channel("Glucose", unit="mg/dL"),
        Channel("Lactate", unit="mmol/L"),
        Channel("Magnesium", unit="mmol/dL"),
        Channel("Phosphate", unit="mg/dL"),
        Channel("Potassium", unit="mmol/L"),
        Channel("Bilirubin_total", unit="mg/dL"),
        Channel("TroponinI", unit="ng/mL"),
        Channel("Hct", unit="%"),
        Channel("Hgb", unit="g/dL"),
        Channel("PTT", unit="s"),
        Channel("WBC", unit="10^3/uL"),
        Channel("Fibrinogen", unit="mg/dL"),
        Channel("Platelets", unit="10^3/uL"),
    ),
    tasks=(Task("sepsis"),),
    hour="ICULOS",
)


def _spellings(*levels: tuple[str, ...]) -> dict[str, int]:
    """Number the levels of a score from 1 up: level by level, its texts in CareVue and MetaVision, the systems of MIMIC-III."""
    return {text: level for level, texts in enumerate(levels, start=1) for text in texts}


_EYE = _spellings(
    ("None", "1 No Response"),
    ("To Pain", "2 To pain"),
    ("To Speech", "3 To speech"),
    ("Spontaneously", "4 Spontaneously"),
)
_MOTOR = _spellings(
    ("No response", "1 No Response"),
    ("Abnormal extension", "2 Abnorm extensn"),
    ("Abnormal Flexion", "3 Abnorm flexion"),
    ("Flex-withdraws", "4 Flex-withdraws"),
    ("Localizes Pain", "5 Localizes Pain"),
    ("Obeys Commands", "6 Obeys Commands"),
)
_VERBAL = _spellings(
    ("No Response", "1 No Response", "No Response-ETT", "1.0 ET/Trach"),
    ("Incomprehensible sounds", "2 Incomp sounds"),
    ("Inappropriate Words", "3 Inapprop words"),
    ("Confused", "4 Confused"),
    ("Oriented", "5 Oriented"),
)


def _levels(first: int, last: int) -> tuple[float, ...]:
    return tuple(float(level) for level in range(first, last + 1))


LENGTH_OF_STAY_EDGES = (24, 48, 72, 96, 120, 144, 168, 192, 336)  # hours: up to eight days, then two weeks

MIMIC3_BENCHMARK = Dataset(
    name="mimic3_benchmark",
    channels=(
        Channel("Height", static=True, low=50, high=300, unit="cm"),
        Channel("Hours", unit="hours"),
        Channel("Capillary refill rate", kind="categorical", levels=(0, 1)),
        Channel("Diastolic blood pressure", low=10, high=200, unit="mmHg"),
        Channel("Fraction inspired oxygen", low=0.2, high=1.1, unit="fraction"),
        Channel("Glascow coma scale eye opening", kind="categorical", levels=_levels(1, 4), spellings=_EYE),
        Channel("Glascow coma scale motor response", kind="categorical", levels=_levels(1, 6), spellings=_MOTOR),
        Channel("Glascow coma scale total", kind="categorical", levels=_levels(3, 15)),
        Channel("Glascow coma scale verbal response", kind="categorical", levels=_levels(1, 5), spellings=_VERBAL),
        Channel("Glucose", low=0, high=2200, unit="mg/dL"),
        Channel("Heart Rate", low=10, high=300, unit="beats/min"),
        Channel("Mean blood pressure", low=10, high=200, unit="mmHg"),
        Channel("Oxygen saturation", low=0, high=100, unit="%"),
        Channel("Respiratory rate", low=0, high=45, unit="breaths/min"),
        Channel("Systolic blood pressure", low=10, high=300, unit="mmHg"),
        Channel("Temperature", low=30, high=50, unit="deg C"),
        Channel("Weight", low=5, high=250, unit="kg"),
        Channel("pH", low=0, high=14),
    ),
    tasks=(Task("decompensation"), Task("length_of_stay", kind="bins", edges=LENGTH_OF_STAY_EDGES)),
    hour="Hours",
)

# The paper's tables of data statistics (train, val, test), to hold a prepared cohort against.
PAPER_COUNTS = {
    "physionet2019": {
        "stays": (25813, 6454, 8066),
        "sepsis": {"labelled hours": (992732, 247283, 312078), "positive hours": (17891, 4475, 5550)},
    },
    "mimic3_benchmark": {
        "stays": (29250, 6371, 6281),
        "decompensation": {"labelled hours": (2377738, 530638, 523200), "positive hours": (49260, 11752, 9683)},
        "length_of_stay": {"labelled hours": (2586619, 572032, 563742)},
    },
}

# What cohort files do not hold of these datasets: what codes mean, and the hospital by how the name of a stay begins.
LEVEL_TITLES = {"physionet2019": {"Gender": {0: "female", 1: "male"}}}
HOSPITALS = {"physionet2019": {"p0": "hospital A", "p1": "hospital B"}}  # training sets A and B of the challenge
