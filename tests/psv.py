"""The form of the challenge's .psv files, written down once more: a reference for readers and for the simulated ward."""

HEADER = (
    "HR|O2Sat|Temp|SBP|MAP|DBP|Resp|EtCO2|BaseExcess|HCO3|FiO2|pH|PaCO2|SaO2|AST|BUN|Alkalinephos|Calcium|Chloride|"
    "Creatinine|Bilirubin_direct|Glucose|Lactate|Magnesium|Phosphate|Potassium|Bilirubin_total|TroponinI|Hct|Hgb|PTT|"
    "WBC|Fibrinogen|Platelets|Age|Gender|Unit1|Unit2|HospAdmTime|ICULOS|SepsisLabel"
)
COLUMNS = HEADER.split("|")
DYNAMIC = COLUMNS[:34]
STATIC = ("Gender", "Unit1", "Unit2", "Age", "HospAdmTime")  # the order of a cohort's columns
RANGES = {  # what is plausible
    "HR": (10, 300), "O2Sat": (0, 100), "Temp": (30, 50), "SBP": (10, 300), "MAP": (10, 200), "DBP": (10, 200),
    "Resp": (0, 100), "EtCO2": (10, 100), "FiO2": (0, 100),
}  # fmt: skip
