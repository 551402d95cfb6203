"""Declarations: what they refuse, what a cell means, classes of labels."""

import dataclasses
import json
import math

import numpy as np
import pytest

from ncl_tf.data.datasets import MIMIC3_BENCHMARK, PHYSIONET2019
from ncl_tf.data.declaration import Channel, Dataset, Task
from refusals import refused

NAN = math.nan
TASKS = (Task("ill"),)


@pytest.mark.parametrize("dataset", [PHYSIONET2019, MIMIC3_BENCHMARK], ids=lambda dataset: dataset.name)
def test_declarations_survive_json(dataset):
    assert Dataset.from_json(json.loads(json.dumps(dataclasses.asdict(dataset)))) == dataset


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("4 Spontaneously", 4), ("Spontaneously", 4), ("spontaneously ", 4), ("None", 1), ("1 No Response", 1),
        ("3 To speech", 3), ("4.0", 4), ("2", 2),
    ],
)  # fmt: skip
def test_spellings(text, value):
    eye = next(channel for channel in MIMIC3_BENCHMARK.channels if "eye" in channel.name)
    assert eye.code(text) == value


@pytest.mark.parametrize("text", ["", "5", "0", "nan", "1.5", "Blinking"])
def test_unseen_categories(text):
    eye = next(channel for channel in MIMIC3_BENCHMARK.channels if "eye" in channel.name)
    with pytest.raises(ValueError):
        eye.code(text)


@pytest.mark.parametrize("text", ["", "high", "nan", "inf", "-inf", "1e39", "1_000", "1,5"])
def test_numbers_that_are_none(text):
    with pytest.raises(ValueError):
        Channel("lab").code(text)


@pytest.mark.parametrize(
    ("arguments", "named"),
    [
        ({"kind": "text"}, "kind & 'text' & one of continuous, categorical"),
        ({"kind": "categorical"}, "two or more levels"),
        ({"levels": (1, 2)}, "a continuous one none & [1, 2]"),
        ({"kind": "categorical", "levels": (1, 1)}, "levels & [1, 1]"),
        ({"low": 5, "high": 5}, "low & high & 5 and 5"),
        ({"kind": "categorical", "levels": (0, 1), "spellings": {"m": 2}}, "'m' & got 2 & [0, 1]"),
        ({"kind": "categorical", "levels": (0, 1), "spellings": {"m": 0, "M": 1}}, "'m' & one level"),
    ],
)
def test_bad_channels(arguments, named):
    with refused("channel 'x'", named):
        Channel("x", **arguments)


@pytest.mark.parametrize(
    ("arguments", "named"),
    [
        ({"kind": "ternary"}, "'ternary' & one of binary, bins"),
        ({"kind": "bins"}, "one or more rising edges"),
        ({"kind": "bins", "edges": (2, 1)}, "one or more rising edges"),
        ({"edges": (1,)}, "'binary' none"),
    ],
)
def test_bad_tasks(arguments, named):
    with refused("task 'y'", named):
        Task("y", **arguments)


def test_bad_datasets():
    dynamic, static = Channel("a"), Channel("b", static=True)
    with refused("dataset 'd' & static channels"):
        Dataset("d", (dynamic, static), TASKS)
    with refused("dataset 'd' & 'a' twice"):
        Dataset("d", (dynamic, dynamic), TASKS)
    with refused("dataset 'd' & at least one channel and one task"):
        Dataset("d", (), TASKS)


def test_classes_of_labels():
    """Each bin includes its lower edge; unlabelled hours are class -1."""
    (stay,) = (task for task in MIMIC3_BENCHMARK.tasks if task.name == "length_of_stay")
    assert stay.classes == 10
    hours = np.array([0, 23.99, 24, 47, 191.9, 192, 335, 336, 5000, NAN])
    assert stay.classify(hours).tolist() == [0, 0, 1, 1, 7, 8, 8, 9, 9, -1]
    assert Task("ill").classify(np.array([0, 1, NAN])).tolist() == [0, 1, -1]
