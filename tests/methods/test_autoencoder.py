"""Auto-encoders: what they read, what they have to reconstruct, and that they learn on a simulated ward."""

import keras
import numpy as np
import pytest
import tensorflow as tf

from ncl_tf.data.cohort import Cohort, SplitData, write_cohort
from ncl_tf.data.datasets import PHYSIONET2019
from ncl_tf.data.simulator.ward import write_ward
from ncl_tf.data.sources import physionet2019
from ncl_tf.data.splits import random_split
from ncl_tf.data.windows import Windows
from ncl_tf.errors import InputError
from ncl_tf.methods.authors import AllSamplesAutoencoder
from ncl_tf.methods.autoencoder import Autoencoder, Reconstruction
from ncl_tf.networks.decoder import Decoder, mirror
from ncl_tf.networks.encoder import Encoder
from ncl_tf.networks.fast import pieces
from ncl_tf.networks.fast.encoder import FastEncoder

STATIC, COLUMNS, HOURS = 2, 6, 12
FORECAST = pytest.mark.parametrize("forecast", [False, True], ids=["reconstruct", "forecast"])


def make_model(
    forecast: bool, static: int = STATIC, build: bool = True, kind: type[Autoencoder] = Autoencoder
) -> Autoencoder:
    keras.utils.set_random_seed(3)
    tcn = {"filters": 8, "kernel_size": 3, "dilations": (1, 2)}  # reaches 13 hours
    encoder = FastEncoder(static, HOURS, size=8, normalize=False, **tcn)
    model = kind(encoder, Decoder(static, COLUMNS - static, HOURS, **tcn), forecast)
    if build:
        model.build((None, model.window_hours, COLUMNS))
    return model


def random_windows(model: Autoencoder, seed: int = 0, samples: int = 5) -> np.ndarray:
    shape = (samples, model.window_hours, COLUMNS)
    return np.random.default_rng(seed).normal(size=shape).astype(np.float32)


def make_split(lengths: list[int], columns: int = COLUMNS) -> SplitData:
    """Stays of the given lengths; static columns hold 100 + the stay's number, dynamic ones 1 + the hour of the stay."""
    last = np.cumsum(lengths) - 1
    windows = np.stack([last - np.array(lengths) + 1, last, np.arange(len(lengths))], axis=1).astype(np.int32)
    hour = np.concatenate([np.arange(length) for length in lengths])
    data = np.repeat(1.0 + hour[:, None], columns, axis=1).astype(np.float32)
    data[:, :STATIC] = 100 + np.repeat(np.arange(len(lengths)), lengths)[:, None]
    labels = np.zeros((len(data), 1), np.float32)
    return SplitData(data, labels, labels.astype(np.int32), windows, np.arange(len(lengths)).astype(str))


@FORECAST
@pytest.mark.parametrize("static", [0, STATIC])
def test_terms_equal_those_by_hand(forecast, static):
    model = make_model(forecast, static)
    windows = random_windows(model)
    given_static, given = model.decoder(model.encoder(windows[:, :HOURS]))
    total, zero, count = 0.0, 0.0, 0
    for sample in range(5):
        for hour in range(HOURS):
            for column in range(static, COLUMNS):
                value = windows[sample, hour + (HOURS if forecast else 0), column]
                total += (given[sample, hour, column - static].numpy() - value) ** 2
                zero += value**2
                count += 1
    squares = [(given_static[i, j].numpy() - windows[i, -1, j]) ** 2 for i in range(5) for j in range(static)]
    static_mse = np.mean(squares) if squares else 0.0
    terms = model.errors(windows)
    np.testing.assert_allclose(terms.static_mse, static_mse, rtol=1e-5)
    np.testing.assert_allclose(terms.sequence_mse, total / count, rtol=1e-5)
    np.testing.assert_allclose(terms.zero_mse, zero / count, rtol=1e-5)
    np.testing.assert_allclose(terms.loss, static_mse + total / count, rtol=1e-5)


@FORECAST
def test_pieces_of_a_batch_have_its_terms_and_gradients(forecast, monkeypatch):
    monkeypatch.setattr(pieces, "default_size", lambda: 4)
    model = make_model(forecast)
    windows = tf.constant(random_windows(model, samples=11))
    found = []
    for evaluate in (model.errors, lambda windows: model.means(model.errors, windows, Reconstruction, training=True)):
        with tf.GradientTape() as tape:
            terms = evaluate(windows)
        found.append([*terms, *tape.gradient(terms.loss, model.trainable_variables)])
    for whole, summed in zip(*found, strict=True):
        np.testing.assert_allclose(summed, whole, rtol=1e-4, atol=1e-6)


@FORECAST
@pytest.mark.parametrize("hour", [0, 5, 11, 12, 20, 23, 30])
def test_targets_are_the_right_hours(forecast, hour):
    """The error of a decoder that always returns 7 for the sequence and 0 for static values shows its targets."""
    model = make_model(forecast)
    model.decoder.set_weights([np.zeros_like(weight) for weight in model.decoder.get_weights()])
    model.decoder.convolutions[-1].bias.assign(np.full(COLUMNS - STATIC, 7.0))
    windows = Windows(make_split([3, 40]), model.window_hours)
    terms = model.errors(windows.gather(tf.constant([3 + hour]))["window"])
    targets = np.array([1 + h if h >= 0 else 0 for h in range(hour - HOURS + 1, hour + 1)], dtype=float)
    np.testing.assert_allclose(terms.sequence_mse, np.mean((7 - targets) ** 2), rtol=1e-5)
    np.testing.assert_allclose(terms.zero_mse, np.mean(targets**2), rtol=1e-5)
    np.testing.assert_allclose(terms.static_mse, 101**2, rtol=1e-5)


@FORECAST
def test_only_the_first_hours_are_encoded(forecast):
    model = make_model(forecast)
    windows = random_windows(model)
    later = windows.copy()
    later[:, HOURS:] += 1
    for changed, reference in zip(model(later), model(windows), strict=True):
        np.testing.assert_array_equal(changed, reference)
    for step in (0, HOURS - 1):
        earlier = windows.copy()
        earlier[:, step, STATIC:] += 1
        assert np.abs(model(earlier)[1] - model(windows)[1]).max() > 1e-4


@pytest.mark.parametrize("lengths", [[10, 12, 13, 30, 1], [13], [5, 12]])
def test_forecasts_are_learned_where_the_first_half_has_an_observed_hour(lengths):
    model, split = make_model(forecast=True), make_split(lengths)
    windows = Windows(split, model.window_hours).gather(tf.range(len(split.data)))["window"].numpy()
    observed = [row for row, window in enumerate(windows) if np.any(window[:HOURS] != 0)]
    np.testing.assert_array_equal(model.sample_rows(split), observed)


def test_other_methods_are_trained_on_all_rows():
    assert make_model(forecast=False).sample_rows(make_split([10, 30])) is None
    assert make_model(forecast=True, kind=AllSamplesAutoencoder).sample_rows(make_split([10, 30])) is None


def fit(model: Autoencoder, windows: np.ndarray, jit_compile: bool) -> dict[str, list[float]]:
    """Five steps on batches of four, each with a validation after it."""
    data = tf.data.Dataset.from_tensor_slices({"window": windows}).batch(4).repeat()
    model.compile(keras.optimizers.SGD(0.05), jit_compile=jit_compile)
    return model.fit(data, steps_per_epoch=1, epochs=5, validation_data=data.take(2), shuffle=False, verbose=0).history


@pytest.mark.slow
def test_fit_is_the_same_by_xla_and_without_building_before():
    windows = random_windows(make_model(forecast=True), samples=8)
    plain = fit(make_model(forecast=True), windows, jit_compile=False)
    compiled = fit(make_model(forecast=True, build=False), windows, jit_compile=True)
    names = {"loss", "static_mse", "sequence_mse", "zero_mse"}
    assert set(plain) == names | {f"val_{name}" for name in names}
    for name, values in plain.items():
        np.testing.assert_allclose(compiled[name], values, rtol=1e-5)
    assert plain["val_loss"][-1] < plain["val_loss"][0]


@FORECAST
def test_only_training_changes_weights(forecast):
    model = make_model(forecast)
    model.compile(keras.optimizers.SGD(0.05))
    batch, weights = {"window": random_windows(model)}, model.get_weights()
    model.test_step(batch)
    for old, new in zip(weights, model.get_weights(), strict=True):
        np.testing.assert_array_equal(new, old)
    model.train_step(batch)
    for old, new in zip(weights, model.get_weights(), strict=True):
        assert np.any(new != old)


def test_first_halves_before_the_stay_do_no_harm():
    model = make_model(forecast=True, kind=AllSamplesAutoencoder)
    model.compile(keras.optimizers.SGD(0.05))
    windows = random_windows(model)
    windows[:, :HOURS] = 0
    for _ in range(2):
        assert np.isfinite(model.train_step({"window": windows})["loss"])
    assert all(np.all(np.isfinite(weight)) for weight in model.get_weights())


@pytest.fixture(scope="module")
def larger_ward(tmp_path_factory):
    """300 simulated stays, a third of them longer than 48 hours."""
    folder = tmp_path_factory.mktemp("autoencoder")
    write_ward(300, seed=1, output=folder / "ward")
    stays, checksum = physionet2019.read_stays([folder / "ward"])
    write_cohort(folder / "ward.h5", PHYSIONET2019, stays, random_split(stays.ever_positive(), seed=0), checksum)
    return Cohort(folder / "ward.h5")


@FORECAST
def test_learns_on_a_simulated_ward(larger_ward, forecast):
    """The paper's layers, half as wide, for 280 small steps."""
    keras.utils.set_random_seed(0)
    encoder = FastEncoder(larger_ward.static_columns, filters=32, normalize=False)
    model = Autoencoder(encoder, mirror(encoder, len(larger_ward.columns)), forecast)
    assert model.window_hours == (96 if forecast else 48)
    datasets = {}
    for name in ("train", "val"):
        split = larger_ward[name]
        rows = model.sample_rows(split) if forecast else np.arange(len(split.data))
        rows = np.random.default_rng(0).permutation(rows)
        datasets[name] = Windows(split, model.window_hours).sequential(32, rows)
    model.build((None, model.window_hours, len(larger_ward.columns)))
    optimizer = keras.optimizers.Adam(3e-3)
    optimizer.build(model.trainable_variables)
    model.compile(optimizer, jit_compile=False)
    held_out = datasets["val"].take(16)
    before = model.evaluate(held_out, return_dict=True, verbose=0)
    model.fit(datasets["train"].repeat(), steps_per_epoch=280, shuffle=False, verbose=0)
    after = model.evaluate(held_out, return_dict=True, verbose=0)
    assert after["sequence_mse"] < before["sequence_mse"]
    assert after["sequence_mse"] < 0.9 * after["zero_mse"]
    assert after["static_mse"] < before["static_mse"]


def test_bad_arguments():
    decoder = Decoder(STATIC, COLUMNS - STATIC)
    with pytest.raises(InputError, match="3 static columns and 48 hours.* 2 and 48$"):
        Autoencoder(Encoder(3), decoder)
    with pytest.raises(InputError, match="2 static columns and 24 hours.* 2 and 48$"):
        Autoencoder(Encoder(STATIC, 24), decoder)
    with pytest.raises(InputError, match="96 hours and 6 columns.* 48 and 6$"):
        Autoencoder(Encoder(STATIC), decoder, forecast=True).build((None, 48, COLUMNS))
    with pytest.raises(InputError, match="48 hours and 6 columns.* 48 and 7$"):
        Autoencoder(Encoder(STATIC), decoder).build((None, 48, COLUMNS + 1))
