"""Measurement dropout against a plain loop: measurements are dropped from the raw stay, which is then prepared again."""

import dataclasses
import math

import numpy as np
import pytest
import tensorflow as tf

from ncl_tf.data import Channel, Dataset, Preprocessor, Stays, Task
from ncl_tf.data.augmentations import Augmentation, Draws
from ncl_tf.data.measurement_dropout import MeasurementDropout
from ncl_tf.data.preprocessing import clean
from refusals import refused

CHANNELS = (
    Channel("age", static=True),
    Channel("HR", low=40, high=160),
    Channel("hour"),
    Channel("coma", kind="categorical", levels=(1, 2, 3)),
    Channel("lab"),
)
DYNAMIC = (1, 3, 4)  # those with observations
WARD = Dataset("ward", CHANNELS, (Task("ill"),), "hour", ("recency", "count", "measured", "change"))
T = 10


def random_stays(seed: int) -> Stays:
    """Stays of up to 30 hours, in which a third is measured and some of it is implausible."""
    random = np.random.default_rng(seed)
    lengths = np.array([1, 2, T - 1, T, T + 1, *random.integers(1, 31, 25)])
    values = random.normal(90, 40, (lengths.sum(), 5)).astype(np.float32)
    values[:, 3] = random.integers(1, 4, len(values))
    values[random.random(values.shape) < 2 / 3] = np.nan
    values[:, 2] = np.arange(len(values))
    return Stays(np.arange(len(lengths)).astype(str), lengths, values, np.zeros((len(values), 1), np.float32))


def prepared(preprocessor: Preprocessor, raw: np.ndarray) -> np.ndarray:
    """Prepare one stay in a loop over its hours: [hours, channels] -> [hours, columns]."""
    rows, measured = [], {channel: [] for channel in range(5)}
    for hour, cells in enumerate(raw):
        for channel, value in enumerate(cells):
            if not math.isnan(value):
                measured[channel].append((hour, value))
        known = {channel: past[-1][1] for channel, past in measured.items() if past}
        scaled = {c: (known[c] - preprocessor.mean[c]) / preprocessor.scale[c] for c in known}
        row = [scaled.get(0, 0), 0 if implausible(known, 1) else scaled[1], scaled[2]]
        row += [float(known.get(3) == level) for level in (1, 2, 3)] + [scaled.get(4, 0)]
        row += [1 / (1 + hour - measured[c][-1][0]) if measured[c] else 0 for c in DYNAMIC]
        counts = {c: math.log(1 + len(measured[c])) for c in DYNAMIC}
        row += [(counts[c] - preprocessor.count_mean[c]) / preprocessor.count_scale[c] for c in DYNAMIC]
        row += [float(not math.isnan(cells[c])) for c in DYNAMIC]
        for c in (1, 4):
            last_two = [value for _, value in measured[c][-2:]]
            usable = len(last_two) == 2 and not any(implausible({c: value}, c) for value in last_two)
            row.append((last_two[1] - last_two[0]) / preprocessor.scale[c] if usable else 0)
        rows.append(row)
    return np.array(rows)


def implausible(known: dict[int, float], channel: int) -> bool:
    return channel not in known or (channel == 1 and not 40 <= known[1] <= 160)


@pytest.fixture(scope="module")
def fitted() -> Preprocessor:
    stays = random_stays(0)
    return Preprocessor.fit(WARD, stays, clean(WARD, stays), np.arange(30))


def windows_of(table: np.ndarray) -> np.ndarray:
    """The window that ends with each hour of a stay: [hours, T, columns], padded with zeros in front."""
    padded = np.concatenate([np.zeros((T - 1, table.shape[1])), table])
    return np.stack([padded[hour : hour + T] for hour in range(len(table))]).astype(np.float32)


MEASURED = slice(13, 16)  # the columns measured of HR, coma and lab


@pytest.mark.parametrize(("seed", "probability"), [(1, 0.4), (2, 0.4), (3, 1.0)])
def test_equals_dropping_measurements_from_the_raw_stay(fitted, seed, probability):
    stays = random_stays(seed)
    windows, of_stay, layer = [], [], MeasurementDropout(probability, fitted)
    for first, length in zip(stays.first_rows, stays.lengths, strict=True):
        raw = stays.values[first : first + length]
        windows.append(windows_of(prepared(fitted, raw)))
        of_stay += [(raw, end) for end in range(length)]
    windows = np.concatenate(windows)
    views = layer(windows, draws=Draws(seed, 0, 0)).numpy()
    dropped = (windows[:, :, MEASURED] == 1) & (views[:, :, MEASURED] == 0)
    for window, view, gone, (raw, end) in zip(windows, views, dropped, of_stay, strict=True):
        fewer = raw[: end + 1].copy()
        for hour, observed in np.argwhere(gone):
            fewer[end - T + 1 + hour, DYNAMIC[observed]] = np.nan
        np.testing.assert_allclose(view, windows_of(prepared(fitted, fewer))[-1], rtol=1e-5, atol=1e-5)
        np.testing.assert_array_equal(view[0], window[0])
    candidates = windows[:, 1:, MEASURED] == 1
    assert abs(dropped[:, 1:][candidates].mean() - probability) < 5 * math.sqrt(0.25 / candidates.sum())


def test_off_and_compiled(fitted):
    windows = np.concatenate([windows_of(prepared(fitted, random_stays(4).values[:25]))] * 4)
    unchanged = MeasurementDropout(0.0, fitted)(windows, draws=Draws(0, 0, 0)).numpy()
    np.testing.assert_array_equal(unchanged[:, :, :16], windows[:, :, :16])
    np.testing.assert_allclose(unchanged[:, :, 16:], windows[:, :, 16:], rtol=1e-5)  # changes are differences of values
    layer = MeasurementDropout(0.5, fitted)
    expected = layer(windows, draws=Draws(1, 7, 0)).numpy()
    compiled = tf.function(lambda windows, step: layer(windows, draws=Draws(1, step, 0)), jit_compile=True)
    np.testing.assert_allclose(compiled(windows, tf.constant(7)), expected, rtol=1e-5, atol=1e-6)
    shares = [layer(windows[i : i + 25], draws=Draws(1, 7, 0, first=i, total=100)) for i in (0, 25, 50, 75)]
    np.testing.assert_array_equal(tf.concat(shares, axis=0), expected)


@pytest.mark.parametrize("chosen", [("recency",), ("measured",), ("recency", "count"), ("count", "measured")])
def test_any_choice_of_observations_is_made_anew(fitted, chosen):
    """The same columns as with all observations; without static columns, too."""
    windows = windows_of(prepared(fitted, random_stays(4).values[:25]))
    views = MeasurementDropout(0.5, fitted)(windows, draws=Draws(0, 0, 0)).numpy()
    fewer = dataclasses.replace(fitted, dataset=dataclasses.replace(WARD, observations=chosen))
    columns = [WARD.columns.index(column) for column in fewer.dataset.columns]
    found = MeasurementDropout(0.5, fewer)(windows[:, :, columns], draws=Draws(0, 0, 0))
    np.testing.assert_array_equal(found, views[:, :, columns])
    found = MeasurementDropout(0.5, fewer, left_out=1)(windows[:, :, columns[1:]], draws=Draws(0, 0, 0))
    np.testing.assert_array_equal(found, views[:, :, columns[1:]])


def test_within_an_augmentation_it_acts_on_dynamic_columns(fitted):
    windows = windows_of(prepared(fitted, random_stays(4).values[:25]))
    layer = MeasurementDropout(0.5, fitted, left_out=1)
    found = Augmentation(1, [layer], static_rate=0.0)(windows, draws=Draws(0, 0, 0))
    alone = layer(windows[:, :, 1:], draws=Draws(0, 0, 0).stream(0))
    np.testing.assert_array_equal(found, np.concatenate([windows[:, :, :1], alone], axis=2))


def test_refusals(fitted):
    with refused("probability & 1.5"):
        MeasurementDropout(1.5, fitted)
    for chosen, got in (((), "got none"), (("count", "change"), "got count, change")):
        fewer = dataclasses.replace(fitted, dataset=dataclasses.replace(WARD, observations=chosen))
        with refused("recency or measured", got, "--observations=recency"):
            MeasurementDropout(0.5, fewer)
