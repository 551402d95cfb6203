"""Reasons for private parts of Keras and TensorFlow: a test that fails here says that a public way has appeared."""

import inspect

import keras
import pytest
import tensorflow as tf
from tcn import TCN


def test_keras_offers_no_way_to_rename_a_variable():
    with pytest.raises(AttributeError):
        keras.Variable(0.0, name="before").path = "after"


def test_keras_tcn_leaves_its_normalization_unnamed():
    tcn = TCN(nb_filters=2, dilations=(1,), use_layer_norm=True)
    tcn.build((None, 4, 3))
    (block,) = tcn.residual_blocks
    for norm in block.layer_norm_layers:
        assert norm.name.startswith("layer_normalization")
        assert all(f"/{norm.name}/" in variable.path for variable in norm.weights)


def test_tensorflow_offers_no_choice_of_how_workers_look_after_each_other():
    public = (tf.config, tf.config.experimental, tf.distribute, tf.distribute.experimental)
    assert not [name for module in public for name in dir(module) if "coordination" in name or "health" in name]
    accepted = inspect.signature(tf.distribute.MultiWorkerMirroredStrategy).parameters
    assert accepted.keys() == {"cluster_resolver", "communication_options"}
