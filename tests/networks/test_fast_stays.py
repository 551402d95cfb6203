"""All hours of whole stays at once, against the keras-tcn layer on each hour's window."""

import numpy as np
import pytest
import tensorflow as tf
from tcn import TCN

from layers import randomize
from ncl_tf.data.windows import every_window
from ncl_tf.networks.encoder import Encoder
from ncl_tf.networks.fast.encoder import FastEncoder
from ncl_tf.networks.fast.stays import last_steps

LENGTHS = [1, 3, 30, 2, 75]  # of stays: shorter and longer than windows
HOUR = np.concatenate([np.arange(length) for length in LENGTHS]).astype(np.int32)


def windows_by_hand(rows: np.ndarray, history: int) -> np.ndarray:
    windows = np.zeros((len(rows), history, rows.shape[1]), np.float32)
    for row, hour in enumerate(HOUR):
        known = rows[row - min(hour, history - 1) : row + 1]
        windows[row, history - len(known) :] = known
    return windows


@pytest.mark.parametrize(
    ("kernel_size", "dilations", "stacks", "history"),
    [
        (2, (1, 2, 4, 8, 16), 1, 48),  # the paper's
        (2, (1, 2, 4), 2, 48),  # its reach is shorter than a window
        (3, (1, 3, 5), 1, 20),
        (2, (8, 1, 4), 1, 5),  # a tap beyond the window
        (4, (7,), 1, 1),
    ],
)
def test_equals_the_layer_on_windows(kernel_size, dilations, stacks, history):
    options = {"use_skip_connections": False, "use_layer_norm": True, "return_sequences": True}
    tcn = TCN(6, kernel_size, stacks, dilations, **options)
    tcn.build((None, history, 3))
    randomize(tcn, seed=kernel_size)  # biases, too, since padding must stay zero behind them
    rows = np.random.default_rng(1).normal(size=(len(HOUR), 3)).astype(np.float32)
    expected = tcn(windows_by_hand(rows, history))[:, -1].numpy()
    assert np.abs(expected).max() > 0.1
    found = tf.function(last_steps, autograph=False)(tcn, rows, HOUR, history)
    np.testing.assert_allclose(found, expected, rtol=0, atol=2e-5)


@pytest.mark.parametrize("kind", [Encoder, FastEncoder])
def test_encoder_of_stays_equals_encoder_of_windows(kind):
    encoder = kind(2, size=8, filters=6)
    encoder.build((None, 48, 5))
    randomize(encoder, seed=3)
    rows = np.random.default_rng(2).normal(size=(len(HOUR), 5)).astype(np.float32)
    windows = windows_by_hand(rows, 48)
    np.testing.assert_array_equal(every_window(rows, HOUR, 48), windows)
    np.testing.assert_allclose(encoder.stays(rows, HOUR), encoder(windows), rtol=0, atol=1e-5)
