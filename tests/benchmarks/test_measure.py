"""Measurements: turns, times and memory of real processes."""

import pathlib

import pytest

from ncl_tf.benchmarks import measure


def test_works_take_turns_in_processes_of_their_own(tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(pathlib.Path(__file__).parent)
    note = tmp_path / "turns"
    works = {"small": (0.02, 1, str(note)), "large": (0.2, 200, str(note))}
    measured = measure.in_own_processes("work.make", works, repeats=2)
    turns = note.read_text().split()
    small, large = turns[0], turns[1]
    assert small != large
    assert turns == [small, large, *[small] * 2, *[large] * 2, *[small] * 2, *[large] * 2]  # a turn is two executions
    assert measured["large"].seconds >= 0.2
    assert measured["small"].seconds >= 0.02
    assert 0.15 < measured["large"].memory - measured["small"].memory < 0.3  # 199 MiB


def test_a_process_that_ends_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(pathlib.Path(__file__).parent)
    with pytest.raises(RuntimeError, match=r"work.broken\(\) ended with exit code 3"):
        measure.in_own_processes("work.broken", {"": ()}, repeats=1)
