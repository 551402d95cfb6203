"""Schedule and sizes of a training, and whether the advice on sizes is good."""

import math
import re
from types import SimpleNamespace

import numpy as np
import pytest

from ncl_tf.errors import InputError
from ncl_tf.training import schedules


@pytest.mark.parametrize(("steps", "warmup"), [(1000, 0.1), (600, 0.25), (7, 0.0), (2, 0.1), (5, 1.0)])
def test_schedule_is_linear_then_a_cosine(steps, warmup):
    low, high, rising = 1e-5, 1e-3, round(warmup * steps)
    rate = schedules.schedule(steps, warmup, low, high)
    for step in range(0, steps, max(steps // 50, 1)):
        if step < rising:
            expected = low + (high - low) * step / rising
        else:
            expected = low + (high - low) * (1 + math.cos(math.pi * (step - rising) / (steps - rising))) / 2
        assert float(rate(step)) == pytest.approx(expected, rel=1e-4)


def sizes(queue_size: int, keys_per_sample: int) -> SimpleNamespace:
    """Stands for a model, of which only these are looked at."""
    return SimpleNamespace(queue_size=queue_size, keys_per_sample=keys_per_sample)


@pytest.mark.parametrize("keys_per_sample", [1, 2])
def test_advice_on_the_queue_is_good_advice(keys_per_sample):
    """Whatever hours, batch and queue: either accepted, and then right, or one piece of advice away from it."""
    random = np.random.default_rng(0)
    kinds = set()
    for _ in range(300):
        hours, batch_size, queue_size = (int(2 ** random.uniform(0, 12)) for _ in range(3))
        model = sizes(queue_size, keys_per_sample)
        for _ in range(3):
            try:
                schedules.check_sizes(model, hours, batch_size, steps=1, report_every=1)
                break
            except InputError as error:
                batch = re.search(r"batch_size must be 1 to (\d+)", str(error))
                queue = re.search(r"(?:queue_size = |nearest: )(\d+)", str(error))
                kinds.add(re.sub(r"\d+", "", str(error))[:40])
                if batch:
                    batch_size = int(batch[1])
                    if batch_size == 0:
                        assert hours == 1  # one hour is no cohort
                        break
                else:
                    model.queue_size = int(queue[1])
        else:
            pytest.fail(f"{hours} hours: advice did not help")
        if batch_size:
            assert model.queue_size <= hours
            assert model.queue_size % (batch_size * keys_per_sample) == 0
    assert len(kinds) == 3


def test_a_queue_that_suits_is_taken_as_it_is():
    schedules.check_sizes(sizes(65536, 2), 992_732, 2048, 25_000, 250)
    schedules.check_sizes(sizes(0, 0), 100, 100, 1, 1)  # a method without queue
