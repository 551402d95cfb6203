"""The store reads what earlier versions wrote by today's names, compares configurations, and finds a run's cohort."""

import hashlib
import json
import pathlib
import types

import pytest

from ncl_tf.errors import InputError
from ncl_tf.runs import OutputFolder, StoredRun, bindings, configuration
from ncl_tf.runs.output import read_result
from ncl_tf.runs.store import MissingCohortError, read_evaluation
from refusals import refused

OLD = "alpha = 0.5\nencoder.size = 64\nold.rate = 1e-05\nuser.rate = %speed\nspeed = 2\n"


def test_bindings_that_did_not_exist_have_the_value_that_they_amounted_to():
    old, new = bindings(OLD), bindings(OLD + "history = 48\nencoder.history = %history\n")
    assert old == new
    assert configuration.differences(old, new) == {}
    other = bindings(OLD + "history = 24\nencoder.history = %history\n")
    assert configuration.differences(old, other) == {"history": ("48", "24")}
    assert configuration.differences(old, other, ignored={"history"}) == {}
    assert bindings(OLD + "encoder.history = 24") == other  # bound before there was a macro


def test_renamed_bindings_macros_and_references(monkeypatch, tmp_path):
    monkeypatch.setattr(configuration, "RENAMED", {"old.rate": "new.rate", "speed": "pace"})
    expected = {"alpha": "0.5", "new.rate": "1e-05", "user.rate": "%pace", "pace": "2"}
    assert expected.items() <= bindings(OLD).items()
    assert not {"old.rate", "speed"} & bindings(OLD).keys()
    (tmp_path / "config.gin").write_text("import my_module\n# a comment\n" + OLD)
    text = configuration.read_configuration(tmp_path / "config.gin")
    assert text.startswith("import my_module\n")
    assert bindings(text) == bindings(OLD)


@pytest.mark.parametrize("key", ["question", "settings"])
def test_evaluations_of_earlier_versions(key, tmp_path):
    path = tmp_path / "sepsis-mlp.json"
    path.write_text(json.dumps({key: {"task": "sepsis"}, "config": {"alpha": "0.5"}}))
    assert read_evaluation(path) == {"settings": {"task": "sepsis"}, "config": {"alpha": "0.5", **configuration.ADDED}}
    with refused("sepsis-mlp.json & bin/reproduce & best_epoch, intervals, metrics, protocol, run"):
        read_result(path)


def test_a_run_that_is_being_trained(tmp_path):
    run = StoredRun(tmp_path)
    for content, place in [(None, "run.json"), ('{"status": "started", "step": 4}', "step 4"), ("{", "run.json")]:
        if content:
            (tmp_path / "run.json").write_text(content)
        with refused(tmp_path, place):
            StoredRun(tmp_path).require_finished()
    assert StoredRun(tmp_path).record_or_nothing() == {}
    assert (run.reports, run.config, run.encoder, run.evaluations, run.total_steps) == ([], {}, None, (), None)
    (tmp_path / "metrics.jsonl").write_text('{"step": 2}\n{"step": 4}\n{"st')
    assert run.reports == [{"step": 2}, {"step": 4}]
    (tmp_path / "config.gin").write_bytes(b"\xff")
    with refused("config.gin"):
        run.configuration  # noqa: B018
    for config, expected in {
        "train.steps = %steps\nsteps = 20\ntrain.method = @momentum_contrast\n": 20,
        "train.steps = 30\nsteps = 20\ntrain.method = @momentum_contrast\n": 30,
        "train.steps = %steps\nsteps = 20\ntrain.method = @end_to_end\n": None,
    }.items():
        (tmp_path / "config.gin").write_text(config)
        assert StoredRun(tmp_path).total_steps == expected
    (tmp_path / "metrics.jsonl").write_text('{"step": 2}\n\0\0\n')
    with refused("metrics.jsonl", "JSON object"):
        run.reports  # noqa: B018


def opened(path: pathlib.Path) -> types.SimpleNamespace:
    """A cohort as the store sees it."""
    checksum = hashlib.sha256(path.read_bytes()).hexdigest()
    return types.SimpleNamespace(path=path, checksum=checksum, differing_columns=", ".join)


def test_the_cohort_is_found_by_its_checksum(tmp_path):
    here, other = tmp_path / "here.h5", tmp_path / "other.h5"
    here.write_bytes(b"cohort"), other.write_bytes(b"another")
    (tmp_path / "config.gin").write_text(f"cohort = \\\n    '{here}'\n")
    (tmp_path / "run.json").write_text(json.dumps({"cohort_checksum": opened(here).checksum}))
    run = StoredRun(tmp_path)
    assert run.cohort(opened).path == here
    with refused("other.h5", opened(here).checksum, opened(other).checksum) as error:
        run.cohort(opened, str(other))
    assert error.type is InputError
    moved = here.rename(tmp_path / "moved.h5")
    assert run.cohort(opened, str(moved)).path == moved
    with pytest.raises(MissingCohortError, match="here.h5.*--cohort"):
        run.cohort(opened)
    other.rename(here)  # another file in its place
    with pytest.raises(MissingCohortError, match="here.h5.*--cohort"):
        run.cohort(opened)


def test_an_output_folder_lists_its_runs(tmp_path):
    for name in ("cl-seed2", "cl-seed1"):
        (tmp_path / "runs" / name).mkdir(parents=True)
        (tmp_path / "runs" / name / "run.json").write_text("{}")
    assert [run.name for run in OutputFolder(tmp_path).runs] == ["cl-seed1", "cl-seed2"]
