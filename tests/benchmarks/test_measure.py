"""Measurements: turns, times and memory of real processes, and all work that is measured."""

import pathlib
import re

import numpy as np
import pytest

from benchmarks import data, heads, measure, mimic3, models, observations, serve, start, ward
from mimic3_tables import made_up_download
from ncl_tf.data.sources.mimic3_raw import multitask_files
from refusals import refused


def test_works_take_turns_in_processes_of_their_own(tmp_path, monkeypatch):
    monkeypatch.chdir(pathlib.Path(__file__).parent)
    note = tmp_path / "turns"
    works = {"small": (0.02, 1, str(note)), "large": (0.2, 200, str(note))}
    measured = measure.in_own_processes("work.make", works, repeats=2)
    turns = note.read_text().split()
    small, large = turns[:2]
    assert small != large
    assert turns == [small, large, *[small] * 2, *[large] * 2, *[small] * 2, *[large] * 2]  # a turn is two executions
    assert measured["large"].seconds >= 0.2
    assert measured["small"].seconds >= 0.02
    assert 0.15 < measured["large"].memory - measured["small"].memory < 0.3  # 199 MiB


def test_a_process_that_ends_is_reported(monkeypatch):
    monkeypatch.chdir(pathlib.Path(__file__).parent)
    with pytest.raises(RuntimeError, match=r"work.broken\(\) ended with exit code 3"):
        measure.in_own_processes("work.broken", {"": ()}, repeats=1)


def test_bin_benchmark_finds_its_functions_and_their_work():
    names = {
        "data": data,
        "mimic3": mimic3,
        "evaluate": heads,
        "ward": ward,
        "serve": serve,
        "observations": observations,
        "start": start,
    }
    names |= dict.fromkeys(("encoder", "objective", "step", "embed"), models)
    assert all(callable(getattr(module, name)) for name, module in names.items())
    works = ("forward", "backward", "embedding", "value_and_gradient", "training_step")
    assert all(callable(getattr(models, work)) for work in works)


@pytest.mark.slow
@pytest.mark.parametrize("form", models.FORMS)
def test_all_work_on_models_can_be_done(form, monkeypatch):
    monkeypatch.setattr(models, "BATCH", 8)
    works = [models.value_and_gradient(name, 64, form) for name in models.NEIGHBORHOODS]
    works += [models.forward(form), models.backward(form), models.embedding(16, form)]
    for work in [*works, models.training_step("n_w, w = 12", 8, 64, form)]:
        assert np.isfinite(work()).all()


@pytest.mark.slow
@pytest.mark.parametrize("name", ["data", "observations", "evaluate", "ward", "serve"])
def test_benchmarks_with_data_run_on_a_simulated_ward(name, tmp_path, run):
    done = run("bin/benchmark", name, f"--output={tmp_path}")
    assert done.returncode == 0, done.stderr
    assert (tmp_path / f"benchmark_{name}.json").exists()


def test_copies_of_a_download_are_prepared_like_it(tmp_path):
    made = made_up_download(1).write(tmp_path / "made_up", packed=True)
    mimic3.blow_up(made / "raw", made / "benchmark", 3, tmp_path)
    one, funnel = multitask_files(made / "raw", made / "benchmark")
    three, blown_up = multitask_files(tmp_path / "raw", tmp_path / "benchmark")
    assert (blown_up.rows, blown_up.kept, blown_up.unnamed) == (3 * funnel.rows, 3 * funnel.kept, 3 * funnel.unnamed)
    for name, read in one.items():
        if "listfile" in name:
            assert len(three[name]().splitlines()) - 1 == 3 * (len(read().splitlines()) - 1)
        else:
            folder, subject, rest = re.fullmatch(r"(\w+/)(\d+)(.*)", name).groups()
            assert {three[f"{folder}{copy * 1_000_000 + int(subject)}{rest}"]() for copy in range(3)} == {read()}


def test_mimic3_names_the_folders_that_it_needs(tmp_path):
    with refused("--raw and --benchmark"):
        mimic3.mimic3(None, None, 100)
    with refused("--copies must be 2 to 2000, got 1"):
        mimic3.mimic3("raw", "benchmark", 1)


def test_missing_sources_are_reported(tmp_path, run):
    done = run("bin/benchmark", "data", f"--source={tmp_path / 'typo.zip'}", f"--output={tmp_path}")
    assert (done.returncode, done.stdout) == (1, "")
    assert "Traceback" not in done.stderr
    assert done.stderr.count("typo.zip") == 2
    assert list(tmp_path.iterdir()) == []
