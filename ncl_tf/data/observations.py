"""When and how often something was measured: formulas on raw rows, which filling forward and imputing zeros would lose.

Every function takes one channel of many stays, `values` [hours] on the hourly grid with NaN where nothing was measured, and
`first_rows` [stays], the row of each stay's first hour. A measurement is any number, also one outside its plausible range.
"""

import numpy as np


def last_measured(values: np.ndarray, first_rows: np.ndarray) -> np.ndarray:
    """Find the row of the last measurement of each hour's stay: [hours] int32; before the first one, the stay's first row."""
    row = np.where(np.isnan(values), 0, np.arange(len(values), dtype=np.int32))
    row[first_rows] = first_rows  # nothing is carried over from the stay before
    return np.maximum.accumulate(row, out=row)


def hours_since(values: np.ndarray, first_rows: np.ndarray) -> np.ndarray:
    """Count the hours since the last measurement: [hours] float32; 0 in the hour of one, NaN before the first."""
    last = last_measured(values, first_rows)
    hours = (np.arange(len(values), dtype=np.int32) - last).astype(np.float32)
    hours[np.isnan(values[last])] = np.nan
    return hours


def recency(values: np.ndarray, first_rows: np.ndarray) -> np.ndarray:
    """Compute 1 / (1 + hours since the last measurement): [hours] float32; 0 before the first."""
    last = last_measured(values, first_rows)
    hours = np.arange(1, len(values) + 1, dtype=np.int32) - last
    return np.where(np.isnan(values[last]), np.float32(0), 1 / hours.astype(np.float32))


def measurements(values: np.ndarray, first_rows: np.ndarray) -> np.ndarray:
    """Count the measurements since each stay's first hour, the present one included: [hours] int32."""
    measured = ~np.isnan(values)
    count = np.cumsum(measured, dtype=np.int32)
    before = count[first_rows] - measured[first_rows]
    return count - np.repeat(before, np.diff(first_rows, append=len(values)))


def measured_before(values: np.ndarray, first_rows: np.ndarray) -> np.ndarray:
    """Find the value that was measured before the last one: [hours]; NaN up to a stay's second measurement."""
    measured = np.flatnonzero(~np.isnan(values))
    stay_begins = np.repeat(first_rows, np.diff(first_rows, append=len(values)))[measured[1:]]
    before = np.full_like(values, np.nan)
    before[measured[1:]] = np.where(measured[:-1] < stay_begins, np.nan, values[measured[:-1]])
    return before[last_measured(values, first_rows)]
