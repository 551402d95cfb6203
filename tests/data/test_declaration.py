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
EYE = next(channel for channel in MIMIC3_BENCHMARK.channels if "eye" in channel.name)


@pytest.mark.parametrize("dataset", [PHYSIONET2019, MIMIC3_BENCHMARK], ids=lambda dataset: dataset.name)
def test_declarations_survive_json(dataset):
    assert Dataset.from_json(json.loads(json.dumps(dataclasses.asdict(dataset)))) == dataset


def test_spellings():
    texts = {"4 Spontaneously": 4, "Spontaneously": 4, "spontaneously ": 4, "None": 1, "1 No Response": 1}
    texts |= {"3 To speech": 3, "4.0": 4, "2": 2}
    assert {text: EYE.code(text) for text in texts} == texts


NO_NUMBERS = ["", "high", "nan", "inf", "-inf", "1e39", "1_000", "1,5"]
NO_LEVELS = ["", "5", "0", "nan", "1.5", "Blinking"]


@pytest.mark.parametrize(
    ("channel", "text"), [*((EYE, text) for text in NO_LEVELS), *((Channel("lab"), text) for text in NO_NUMBERS)]
)
def test_texts_that_are_no_values(channel, text):
    with pytest.raises(ValueError):
        channel.code(text)


DYNAMIC, STATIC = Channel("a"), Channel("b", static=True)


@pytest.mark.parametrize(
    ("kind", "arguments", "named"),
    [
        (Channel, {"kind": "text"}, "kind & 'text' & one of continuous, categorical"),
        (Channel, {"kind": "categorical"}, "two or more levels"),
        (Channel, {"levels": (1, 2)}, "a continuous one none & [1, 2]"),
        (Channel, {"kind": "categorical", "levels": (1, 1)}, "levels & [1, 1]"),
        (Channel, {"low": 5, "high": 5}, "low & high & 5 and 5"),
        (Channel, {"kind": "categorical", "levels": (0, 1), "spellings": {"m": 2}}, "'m' & got 2 & [0, 1]"),
        (Channel, {"kind": "categorical", "levels": (0, 1), "spellings": {"m": 0, "M": 1}}, "'m' & one level"),
        (Task, {"kind": "ternary"}, "'ternary' & one of binary, bins"),
        (Task, {"kind": "bins"}, "one or more rising edges"),
        (Task, {"kind": "bins", "edges": (2, 1)}, "one or more rising edges"),
        (Task, {"edges": (1,)}, "'binary' none"),
        (Dataset, {"channels": (DYNAMIC, STATIC), "tasks": TASKS}, "static channels"),
        (Dataset, {"channels": (DYNAMIC, DYNAMIC), "tasks": TASKS}, "'a' twice"),
        (Dataset, {"channels": (), "tasks": TASKS}, "at least one channel and one task"),
    ],
)
def test_bad_declarations(kind, arguments, named):
    with refused(f"{kind.__name__.lower()} 'x'", named):
        kind("x", **arguments)


def test_classes_of_labels():
    """Each bin includes its lower edge; unlabelled hours are class -1."""
    (stay,) = (task for task in MIMIC3_BENCHMARK.tasks if task.name == "length_of_stay")
    assert stay.classes == 10
    hours = np.array([0, 23.99, 24, 47, 191.9, 192, 335, 336, 5000, NAN])
    assert stay.classify(hours).tolist() == [0, 0, 1, 1, 7, 8, 8, 9, 9, -1]
    assert Task("ill").classify(np.array([0, 1, NAN])).tolist() == [0, 1, -1]
