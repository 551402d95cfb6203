"""Early stopping and time caps: when epochs end, what is kept, and that time counts from a run's beginning."""

import math

import keras
import numpy as np
import pytest

from ncl_tf.errors import InputError
from ncl_tf.training.clock import Clock
from ncl_tf.training.early_stopping import Best, EarlyStopping, SeparateEpochs
from ncl_tf.training.schedules import FixedSteps


def small_model(seed: int) -> keras.Model:
    keras.utils.set_random_seed(seed)
    return keras.Sequential([keras.layers.Input((4,)), keras.layers.Dense(3, name="dense")], name="small")


def best_of(epoch: int) -> Best:
    best = Best(small_model(0))
    best.update(epoch, 1.0)
    return best


def test_every_epoch_is_one_pass_wherever_it_is_counted_from():
    """After the steps of e epochs, each sample was seen e times, but for what a last whole batch reaches over."""
    random, best = np.random.default_rng(0), best_of(10**6)
    for _ in range(200):
        hours = int(random.integers(1, 5000))
        plan = EarlyStopping(1e-5, int(random.integers(1, hours + 1)), patience=2, max_epochs=9)
        step = 0
        for epoch in range(1, 10):
            assert not plan.over(step, hours, best)
            end = plan.next_report(step, hours)
            assert 0 <= end * plan.batch_size - epoch * hours < plan.batch_size
            inside = {step, (step + end) // 2, end - 1}  # also after an interruption
            assert {(plan.epoch(s, hours), plan.next_report(s, hours)) for s in inside} == {(epoch, end)}
            step = end
        assert plan.over(step, hours, best)


def test_separate_epochs_end_with_a_smaller_batch():
    """10 hours in batches of 4: 4, 4 and 2, then the next epoch; counted by hand."""
    plan = SeparateEpochs(1e-5, batch_size=4, patience=2, max_epochs=9)
    assert [plan.epoch(step, 10) for step in range(7)] == [1, 1, 1, 2, 2, 2, 3]
    assert [plan.next_report(step, 10) for step in range(7)] == [3, 3, 3, 6, 6, 6, 9]
    assert [plan.epoch(step, 8) for step in range(5)] == [1, 1, 2, 2, 3]  # whole batches: none is smaller
    assert [plan.next_report(step, 3) for step in range(2)] == [1, 2]  # a batch larger than the epoch
    assert [plan.over(step, 10, best_of(1)) for step in (6, 8, 9)] == [False, False, True]


@pytest.mark.parametrize(("done", "best", "over"), [(3, 3, False), (4, 3, False), (5, 3, True), (6, 5, False)])
def test_patience_counts_from_the_best_epoch(done, best, over):
    plan = EarlyStopping(1e-5, batch_size=10, patience=2, max_epochs=100)
    assert plan.over(10 * done, 100, best_of(best)) == over


def test_fixed_steps_report_at_the_same_steps_after_an_interruption():
    plan = FixedSteps(100, 32, 0.1, 1e-5, 1e-3, report_every=30)
    assert [plan.next_report(step, 0) for step in (0, 29, 30, 37, 90, 99)] == [30, 30, 60, 60, 100, 100]
    assert [plan.over(step, 0) for step in (99, 100)] == [False, True]


def test_the_best_weights_come_back():
    model = small_model(1)
    best = Best(model)
    chosen = None
    for epoch, loss in enumerate([3.0, 2.0, 2.0, math.nan, 2.5], start=1):
        model.set_weights([weight + epoch for weight in model.get_weights()])
        best.update(epoch, loss)
        chosen = model.get_weights() if epoch == 2 else chosen
    best.restore_best_weights()
    assert (int(best.epoch), float(best.loss)) == (2, 2.0)  # an equal loss is no better one
    for expected, found in zip(chosen, model.get_weights(), strict=True):
        np.testing.assert_array_equal(found, expected)
    paths = [variable.path for variable in best.variables]
    assert paths == ["best/epoch", "best/loss", "best/small.dense.kernel", "best/small.dense.bias"]


def test_the_clock_counts_what_was_spent_before():
    assert not Clock(0.0, None).over
    assert Clock(10.0**9, None).left == math.inf
    assert 590 < Clock(0.0, 10).left <= 600
    assert not Clock(590.0, 10).over
    assert Clock(600.0, 10).over
    assert 600 <= Clock(600.0, 10).seconds < 610


@pytest.mark.parametrize("minutes", [0, -1, math.nan])
def test_caps_that_make_no_sense_are_refused(minutes):
    with pytest.raises(InputError, match=rf"max_minutes must be above 0.* None.* got {minutes}"):
        Clock(0.0, minutes)
