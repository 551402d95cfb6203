"""When and how often something was measured, against plain loops over the hours."""

import math

import numpy as np
import pytest

from ncl_tf.data import observations

NAN = math.nan


def by_loop(values: np.ndarray, lengths: list[int]) -> dict[str, np.ndarray]:
    """Walk through the hours of one channel with what has been measured in the stay so far."""
    found, row = {"hours_since": [], "measurements": [], "measured_before": []}, 0
    for length in lengths:
        measured = []  # hour of the stay and value
        for hour in range(length):
            if not math.isnan(values[row]):
                measured.append((hour, values[row]))
            found["hours_since"].append(hour - measured[-1][0] if measured else NAN)
            found["measurements"].append(len(measured))
            found["measured_before"].append(measured[-2][1] if len(measured) > 1 else NAN)
            row += 1
    return {name: np.array(column, np.float32) for name, column in found.items()}


@pytest.mark.parametrize("share", [0, 0.1, 0.5, 1])
def test_formulas_equal_a_loop_over_hours(share):
    rng = np.random.default_rng(int(10 * share))
    lengths = [1, 1, *rng.integers(1, 15, 60), 1]
    values = rng.normal(size=sum(lengths)).astype(np.float32)
    values[rng.random(len(values)) >= share] = NAN
    first_rows = np.cumsum(lengths) - lengths
    for name, expected in by_loop(values, lengths).items():
        np.testing.assert_array_equal(getattr(observations, name)(values, first_rows), expected, err_msg=name)


def test_formulas_by_hand():
    values, first_rows = np.float32([NAN, 5, NAN, NAN, 7, 8, NAN, 9, NAN]), np.array([0, 6, 8])
    found = {name: getattr(observations, name)(values, first_rows) for name in by_loop(values, [6, 2, 1])}
    np.testing.assert_array_equal(found["hours_since"], [NAN, 0, 1, 2, 0, 0, NAN, 0, NAN])
    np.testing.assert_array_equal(found["measurements"], [0, 1, 1, 1, 2, 3, 0, 1, 0])
    np.testing.assert_array_equal(found["measured_before"], [NAN, NAN, NAN, NAN, 5, 7, NAN, NAN, NAN])
