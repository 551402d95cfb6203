"""Evaluating runs: what is refused, and that nothing of it leaves traces."""

import json
import pathlib
import shutil

import h5py
import pytest

from ncl_tf.data.cohort import Cohort
from ncl_tf.evaluation.subject import load_run
from refusals import refused
from tiny import evaluate
from trainings import checkpoints, contents, record


def test_folders_without_an_encoder_are_refused(ncl_w, tmp_path):
    with refused("run directory & run.json"):
        evaluate(tmp_path)
    run_dir = shutil.copytree(ncl_w, tmp_path / "run")
    (run_dir / "run.json").write_text(json.dumps(record(ncl_w) | {"status": "started"}))
    with refused("finished & step 2 & bin/train"):
        evaluate(run_dir)
    shutil.copy(ncl_w / "run.json", run_dir)
    checkpoints(run_dir)[2].unlink()  # the one before must not be taken for it
    with refused("no readable checkpoint of step 2"):
        evaluate(run_dir)


def test_other_cohorts_are_refused_and_a_moved_one_is_taken(ncl_w, ward_cohort, mimic_ward_cohort, tmp_path):
    checksum = Cohort(ward_cohort).checksum
    with refused(mimic_ward_cohort, checksum):
        evaluate(ncl_w, cohort=str(mimic_ward_cohort))
    elsewhere = shutil.copytree(ncl_w, tmp_path / "run")
    config = (elsewhere / "config.gin").read_text().replace(str(ward_cohort), "gone.h5")
    (elsewhere / "config.gin").write_text(config)
    with refused("gone.h5: no such file", "--cohort"):
        evaluate(elsewhere)
    copy = pathlib.Path(shutil.copy(ward_cohort, tmp_path / "copy.h5"))
    assert load_run(ncl_w, str(copy)).cohort.path == copy
    with h5py.File(copy, "r+") as file:
        file["labels/test"][0] = 1 - file["labels/test"][0]
    with refused(copy, checksum, Cohort(copy).checksum):
        evaluate(ncl_w, cohort=str(copy))


def test_a_cohort_with_other_columns_is_refused_by_their_names(ncl_w, observed_cohort):
    with refused(observed_cohort, "SHA-256", "HR:recency, O2Sat:recency", "and 62 more"):
        evaluate(ncl_w, cohort=str(observed_cohort))


@pytest.mark.parametrize(
    ("asked", "named"),
    [
        ({"task": "mortality"}, "one of sepsis, got 'mortality'"),
        ({"labels": 0.0}, "above 0, up to 1, got 0.0"),
        ({"labels": 1.5}, "above 0, up to 1, got 1.5"),
        ({"labels": 0.05}, "got 0.05 of the"),
        ({"head": "deep"}, "linear, mlp, trees, got 'deep'"),
        ({"features": "all"}, "one of representation, last_hour, window, engineered & got 'all'"),
        (
            {"features": "engineered"},
            "representation, last_hour, window for head mlp, got 'engineered', which is for trees",
        ),
        ({"head": "trees", "fine_tune": True}, "with fine_tune, head must be linear or mlp, got 'trees'"),
        ({"head": "trees", "gin_params": ("protocol.patience = 5",)}, "'protocol.patience = 5' & trees alone"),
        ({"gin_params": ("trees.rate = 0.1",)}, "'trees.rate = 0.1' & protocol alone"),
        ({"head": "trees", "gin_params": ("trees.rate = 0.0",)}, "trees.rate must be above 0, got 0.0"),
        (
            {"head": "trees", "gin_params": ("trees.max_iterations = 0",)},
            "trees.max_iterations must be 1 or more, got 0",
        ),
        ({"head": "trees", "gin_params": ("trees.leaves = 1",)}, "trees.leaves must be 2 or more, got 1"),
        ({"head": "trees", "features": "last_hour"}, "ward.raw.h5: no such file & --keep_raw"),
        ({"fine_tune": True, "features": "window"}, "features must be representation, got 'window'"),
        ({"labels": 0.5, "label_seed": -1}, "label_seed must be 0 or more, got -1"),
        ({"silence": -1}, "silence must be 0 or more hours, got -1"),
        ({"horizon": -1}, "horizon must be 0 or more hours, got -1"),
        ({"alarms_per_day": 0.0}, "alarms_per_day must be a number above 0, got 0.0"),
        ({"alarms_per_day": float("inf")}, "alarms_per_day must be a number above 0, got inf"),
        ({"alarms_per_day": float("nan")}, "alarms_per_day must be a number above 0, got nan"),
        ({"split": "holdout"}, "train, val, test, got 'holdout'"),
        ({"gin_params": ("protocol.patience = 0",)}, "protocol.patience must be 1 or more, got 0"),
        ({"gin_params": ("protocol.max_epochs = -1",)}, "protocol.max_epochs must be 1 or more, got -1"),
        ({"gin_params": ("protocol.batch_size = 0",)}, "protocol.batch_size must be 1 or more, got 0"),
        ({"gin_params": ("protocol.linear_rate = 0.0",)}, "protocol.linear_rate must be above 0, got 0.0"),
        ({"gin_params": ("protocol.fine_tune_rate = -1.0",)}, "protocol.fine_tune_rate must be above 0, got -1.0"),
        ({"gin_params": ("alpha = 0.9",)}, "protocol & linear_rate, mlp_rate, & alpha = 0.9"),  # of the training
    ],
)
def test_bad_settings_are_refused_and_leave_no_traces(ncl_w, asked, named):
    before = contents(ncl_w)
    with refused(named):
        evaluate(ncl_w, **asked)
    assert contents(ncl_w) == before


def test_an_evaluation_of_that_name_is_kept(ncl_w):
    settings = {"head": "linear", "features": "last_hour", "split": "train"}
    path = ncl_w / "evaluations" / "sepsis-linear-last_hour-train.json"
    evaluate(ncl_w, **settings)
    before = contents(ncl_w)
    with refused(f"{path.name}: exists", "--overwrite"):
        evaluate(ncl_w, **settings)
    assert contents(ncl_w) == before
    evaluate(ncl_w, **settings, overwrite=True)
    assert path.read_bytes() != before[str(path.relative_to(ncl_w))]  # its time of making


@pytest.mark.parametrize(
    ("split", "named"),
    [("test", "split 'test' & two classes & [0]"), ("val", "split 'val' & to calibrate risks & 0 positive among 748")],
)
def test_a_split_of_one_class_is_refused(ncl_w, adopted, ward_cohort, tmp_path, split, named):
    path = pathlib.Path(shutil.copy(ward_cohort, tmp_path / "healthy.h5"))
    with h5py.File(path, "r+") as file:
        file[f"labels/{split}"][:] = 0
    run_dir = adopted(ncl_w, path, tmp_path / "run")
    with refused(named):
        evaluate(run_dir, head="linear", features="last_hour", cohort=str(path))
    assert not (run_dir / "evaluations").exists()
