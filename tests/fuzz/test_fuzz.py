"""A short form of `make fuzz-test` with a fixed seed, and bugs put in on purpose, which the harness must find."""

import json
import os
import time

import numpy as np
import pytest

from fuzz import campaign
from fuzz.kinds import KINDS, same
from ncl_tf.data.sources import archives, columns, physionet2019
from ncl_tf.runs import store

SEED = 7


def outcomes(name: str, cases: int) -> set[str]:
    """Run the first cases of a kind; return how they ended."""
    return {one.outcome for one in campaign.run_kind(KINDS[name], SEED, range(cases))}


@pytest.mark.parametrize("name", [name for name, kind in KINDS.items() if not kind.heavy])
def test_damaged_files_are_refused_or_read_as_they_are(name):
    cases = 4 if "without" in name else 15
    ended = campaign.run_kind(KINDS[name], SEED, range(cases))
    assert [one for one in ended if one.outcome in campaign.FAULTS] == []
    assert [one.case for one in ended] == list(range(cases))


@pytest.mark.parametrize("name", [name for name, kind in KINDS.items() if not kind.heavy])
def test_sound_files_are_read_as_they_are(name, tmp_path):
    """Without damage, both readings are the same and hold something."""
    kind = KINDS[name]
    kind.make(tmp_path)
    if not kind.damaged:
        kind.damage(tmp_path, np.random.default_rng(1))
    ours, theirs = kind.ours(tmp_path), kind.theirs(tmp_path)
    assert ours.keys() == theirs.keys() and ours
    assert [key for key in ours if not same(ours[key], theirs[key])] == []


def test_wrong_values_are_found(monkeypatch):
    monkeypatch.setattr(physionet2019, "is_sound", lambda *arguments: True)
    assert "wrong" in outcomes("psv", 60)
    seconds = lambda column: column.cast("int64").cast("float64").to_numpy()  # noqa: E731 - the bug that there was
    monkeypatch.setattr(columns, "durations", seconds)
    assert "wrong" in outcomes("yaib", 2)


def test_lost_files_are_found(monkeypatch):
    monkeypatch.setattr(archives, "_check_end", lambda *arguments: None)
    assert "wrong" in outcomes("tar", 40)


def test_tracebacks_hangs_and_crashes_are_found(monkeypatch):
    monkeypatch.setattr(store, "read_record", lambda folder: json.loads((folder / "run.json").read_text()))
    assert "traceback" in outcomes("run", 60)
    monkeypatch.setattr(campaign, "SECONDS", 0.2)

    def without_end(folder):
        while True:
            time.monotonic()

    monkeypatch.setattr(store, "read_record", without_end)
    assert outcomes("run", 3) <= {"hang", "refused"} and "hang" in outcomes("run", 3)
    monkeypatch.setattr(store, "read_record", lambda folder: os.abort())
    assert "crash" in outcomes("run", 3)


def test_the_comparison():
    nan, one = np.array([np.nan, 1.0]), np.array([1.0, 2.0], "f4")
    assert same({"a": nan, "b": ["x"]}, {"a": nan.copy(), "b": ["x"]})
    assert same(np.float32([0.1]), np.array([0.1])) and not same(np.float32([0.1]), np.array([0.100001]))
    for other in (np.array([1.0, np.nan]), np.array([1.0, 2.1]), np.array([1.0]), np.array([1.0, np.inf])):
        assert not same(one, other)
    assert not same({"a": 1}, {"a": 1, "b": 2}) and not same(["a"], ["b"])
