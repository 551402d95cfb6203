"""From the text of a measurement, its unit and its item to the value that the benchmark uses."""

import math
import re
from collections.abc import Callable

CAPILLARY_REFILL = {"Normal <3 secs": 0.0, "Brisk": 0.0, "Abnormal >3 secs": 1.0, "Delayed": 1.0}
PLAIN_DECIMAL = re.compile(r"[0-9]+(\.[0-9]*)?|\.[0-9]+")
PRESSURES = re.compile(r"([0-9]+)/([0-9]+)")  # systolic and diastolic


def clean_value(variable: str, text: str, unit: str, label: str) -> float | str | None:
    """Clean one measurement: a number, the text itself for variables without a rule, or None if it has no value.

    Args:
      variable: of the benchmark, such as Weight.
      text, unit: as in the event table.
      label: of the item, such as "Present Weight  (lb)".
    """
    rule = RULES.get(variable)
    value = text if rule is None else rule(text, unit.lower(), label.lower())
    return None if isinstance(value, float) and not math.isfinite(value) else value


def _number(text: str) -> float:
    """Return NaN for what is no number."""
    try:
        return math.nan if "_" in text else float(text)  # Python reads 1_000 as a number
    except ValueError:
        return math.nan


def _capillary_refill(text: str, unit: str, label: str) -> float:
    return CAPILLARY_REFILL.get(text, math.nan)


def _pressure(group: int) -> Callable[[str, str, str], float]:
    def clean(text: str, unit: str, label: str) -> float:
        both = PRESSURES.fullmatch(text)
        return float(both[group]) if both else _number(text)

    return clean


def _inspired_oxygen(text: str, unit: str, label: str) -> float:
    return _number(text) if "torr" in unit else _number(text) / 100


def _lab(text: str, unit: str, label: str) -> float:
    return float(text) if PLAIN_DECIMAL.fullmatch(text) else math.nan


def _saturation(text: str, unit: str, label: str) -> float:
    share = _lab(text, unit, label)
    return share * 100 if share <= 1 else share


def _temperature(text: str, unit: str, label: str) -> float:
    degrees = _number(text)
    return (degrees - 32) * 5 / 9 if degrees >= 79 else degrees


def _weight(text: str, unit: str, label: str) -> float:
    weight, ounces = _number(text), "oz" in unit or "oz" in label
    if ounces:
        weight /= 16
    return weight * 0.453592 if ounces or "lb" in unit or "lb" in label else weight


def _height(text: str, unit: str, label: str) -> float:
    height = _number(text)
    if math.isfinite(height) and ("in" in unit or "in" in label):
        return float(round(height * 2.54))  # half to even
    return height


RULES = {
    "Capillary refill rate": _capillary_refill,
    "Systolic blood pressure": _pressure(1),
    "Diastolic blood pressure": _pressure(2),
    "Fraction inspired oxygen": _inspired_oxygen,
    "Glucose": _lab,
    "pH": _lab,
    "Oxygen saturation": _saturation,
    "Temperature": _temperature,
    "Weight": _weight,
    "Height": _height,
}
