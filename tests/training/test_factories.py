"""The augmentations that a configuration makes for a cohort with observation columns, by the names of the columns."""

import pathlib

import numpy as np
import pytest

from ncl_tf.data import Channel, Cohort, Dataset, Stays, Task, write_cohort
from ncl_tf.data.augmentations import Draws
from ncl_tf.data.declaration import OBSERVATIONS
from ncl_tf.data.splits import random_split
from ncl_tf.data.windows import Windows
from ncl_tf.training import factories

CHANNELS = (
    Channel("age", static=True),
    Channel("unit", kind="categorical", static=True, levels=(1, 2, 3)),
    Channel("HR", low=40, high=160),
    Channel("hour"),
    Channel("coma", kind="categorical", levels=(1, 2, 3)),
    Channel("lab"),
)
STATIC = ["age", "unit=1", "unit=2", "unit=3"]


@pytest.fixture(scope="module")
def cohort(tmp_path_factory: pytest.TempPathFactory) -> Cohort:
    """Thirty stays of 24 hours, in which half is measured."""
    random = np.random.default_rng(0)
    values = random.normal(90, 40, (30 * 24, 6)).astype(np.float32)
    values[:, [1, 4]] = random.integers(1, 4, (30 * 24, 2))
    values[random.random(values.shape) < 0.5] = np.nan
    values[:, 3] = np.tile(np.arange(24), 30)
    labels = np.repeat(np.float32(np.arange(30) % 3 == 0), 24)[:, None]
    stays = Stays(np.arange(30).astype(str), np.full(30, 24), values, labels)
    path: pathlib.Path = tmp_path_factory.mktemp("factories") / "observed.h5"
    dataset = Dataset("small", CHANNELS, (Task("ill"),), "hour", OBSERVATIONS)
    write_cohort(path, dataset, stays, random_split(stays.ever_positive(), 0), "")
    return Cohort(path)


@pytest.fixture(scope="module")
def windows(cohort: Cohort) -> np.ndarray:
    """Four times the last window of each training stay, [N, 24, columns]."""
    data = Windows(cohort["train"], 24)
    return np.tile(data.gather(cohort["train"].patient_windows[:, 1])["window"].numpy(), (4, 1, 1))


@pytest.mark.parametrize(("augment_static", "apart"), [("dropout", STATIC), ("channels", [])])
def test_noise_is_of_values(cohort, windows, augment_static, apart):
    layer = factories.augmentation(cohort, layers=["noise"], augment_static=augment_static).layers[0]
    view = layer(windows[:, :, len(apart) :], draws=Draws(0, 0, 0)).numpy()
    changed = (view != windows[:, :, len(apart) :]).any(axis=(0, 1))
    columns = cohort.columns[len(apart) :]
    assert [name for name, noisy in zip(columns, changed, strict=True) if noisy] == [c for c in columns if ":" not in c]


@pytest.mark.parametrize(("augment_static", "apart"), [("dropout", STATIC), ("channels", [])])
def test_channels_are_dropped_with_all_their_columns(cohort, windows, augment_static, apart):
    layer = factories.augmentation(cohort, layers=["channel_dropout"], augment_static=augment_static).layers[0]
    ones = np.ones_like(windows[:, :, len(apart) :])
    dropped = layer(ones, draws=Draws(0, 0, 0)).numpy()[:, 0] == 0
    channels = np.array([name.split(":")[0].split("=")[0] for name in cohort.columns[len(apart) :]])
    patterns = {channel: dropped[:, channels == channel] for channel in channels}
    assert {name: pattern.shape[1] for name, pattern in patterns.items()} == {
        **({} if apart else {"age": 1, "unit": 3}),
        **{"HR": 5, "hour": 1, "coma": 6, "lab": 5},
    }
    for pattern in patterns.values():
        assert (pattern == pattern[:, :1]).all()
    assert len({pattern[:, 0].tobytes() for pattern in patterns.values()}) == len(patterns)  # each on its own


@pytest.mark.parametrize("layer", ["cutout", "crop"])
def test_hours_are_hidden_in_all_columns(cohort, windows, layer):
    view = factories.augmentation(cohort, layers=[layer])(windows, draws=Draws(0, 0, 0)).numpy()
    dynamic = slice(len(STATIC), None)
    hidden = (view[:, :, dynamic] != windows[:, :, dynamic]).any(axis=2)
    assert hidden.any(axis=1).mean() > 0.3
    assert not view[:, :, dynamic][hidden].any()
    counts = [index for index, name in enumerate(cohort.columns) if name.endswith(":count")]
    assert windows[hidden][:, counts].all()  # none of which was zero before


def test_measurements_are_dropped_before_all_else(cohort, windows):
    made = factories.augmentation(cohort, layers=["noise"], measurement_dropout=1.0)
    view = made(windows, draws=Draws(0, 0, 0)).numpy()
    measured = [index for index, name in enumerate(cohort.columns) if name.endswith(":measured")]
    np.testing.assert_array_equal(view[:, 0, measured], windows[:, 0, measured])
    assert windows[:, 1:, measured].any() and not view[:, 1:, measured].any()
    lab = cohort.columns.index("lab")
    assert np.ptp(view[:, :, lab], axis=1).max() == 0  # the same noise at all hours: it came afterwards
    assert len(factories.augmentation(cohort).layers) == 4  # off by default
