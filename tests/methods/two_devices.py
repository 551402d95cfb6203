"""Two devices train as one with the joint batch; run by test_momentum.py, whose helpers it uses."""

import numpy as np
import pytest
import tensorflow as tf

tf.config.set_logical_device_configuration(
    tf.config.list_physical_devices("CPU")[0], [tf.config.LogicalDeviceConfiguration()] * 2
)

from test_momentum import as_dataset, compiled, make_batches, make_model  # noqa: E402 - it starts TensorFlow

from ncl_tf.errors import InputError  # noqa: E402

strategy = tf.distribute.MirroredStrategy(["CPU:0", "CPU:1"])
dataset = as_dataset(make_batches(3))
authors = {"authors_keys": True, "static_dropout": 0.5, "independent_start": True}
for settings, eagerly in (({}, False), (authors, True)):
    alone = compiled(make_model(**settings))
    with strategy.scope():
        together = compiled(make_model(**settings), run_eagerly=eagerly, jit_compile=False)
    histories = [model.fit(dataset, verbose=0, shuffle=False).history for model in (alone, together)]
    for name, values in histories[0].items():
        np.testing.assert_allclose(histories[1][name], values, rtol=1e-5, err_msg=name)
    for one, both in zip(alone.variables, together.variables, strict=True):
        for replica in strategy.experimental_local_results(both.value):
            np.testing.assert_allclose(np.array(replica), np.array(one), rtol=0, atol=1e-5, err_msg=one.path)
scores = [model.evaluate(dataset.take(1), verbose=0) for model in (alone, together)]
np.testing.assert_allclose(scores[1], scores[0], rtol=1e-5)
with strategy.scope():
    with_xla = compiled(make_model(), run_eagerly=False, jit_compile=True)
    not_built = compiled(make_model(build=False), run_eagerly=False, jit_compile=False)
for model, message in ((with_xla, "jit_compile .* 2 replicas"), (not_built, "call build")):
    with pytest.raises(InputError, match=message):
        model.fit(dataset, verbose=0, shuffle=False)
print("two devices equal one")
