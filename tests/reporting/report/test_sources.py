"""What the report reads: folders that are finished, unfinished, unjudged, of the same name, or no folders of ours at all."""

import dataclasses
import json
import pathlib
import shutil

import numpy as np
import pytest

from ncl_tf.data import Cohort
from ncl_tf.errors import InputError
from ncl_tf.methods.supervised import Classifier
from ncl_tf.networks.encoder import Encoder
from ncl_tf.networks.heads import make_head
from ncl_tf.paper import tables as paper
from ncl_tf.paper.compare import Comparison
from ncl_tf.reporting.report import page, patient, provenance, sources, summary, tables
from ncl_tf.runs import environment
from ncl_tf.serving.export import export_classifier


def write_run(folder: pathlib.Path, cohort: pathlib.Path, status: str = "finished") -> pathlib.Path:
    """What bin/train leaves and the report reads of it."""
    folder.mkdir(parents=True)
    facts = {"seed": 1, "budget": "smoke", "dataset": "physionet2019", "step": 2, "wall_seconds": 3.0}
    record = {"status": status, **facts, "cohort_checksum": Cohort(cohort).checksum, **environment()}
    (folder / "run.json").write_text(json.dumps(record))
    (folder / "config.gin").write_text(f"cohort = \\\n    '{cohort}'\nseed = 1\n")
    return folder


@pytest.fixture
def plan(ward_cohort, tmp_path):
    """What bin/reproduce leaves, with one training that has finished and one that has not."""
    write_run(tmp_path / "out/runs/cl-seed1111", ward_cohort)
    write_run(tmp_path / "out/runs/ncl_w-seed1111", ward_cohort, "started")
    made = {"physionet2019": {"methods": ["cl", "ncl_w"], "heads": ["mlp"], "seeds": [1111]}}
    (tmp_path / "out/plan.json").write_text(
        json.dumps({"budget": "smoke", "gin_files": [], "gin_params": [], "tables": made})
    )
    return tmp_path / "out"


def test_unfinished_trainings_are_refused_or_left_out_and_named(plan):
    with pytest.raises(InputError, match=r"ncl_w-seed1111: the training has not finished \(step 2\)"):
        sources.read([plan / "runs/ncl_w-seed1111"])
    (found,) = sources.read([plan])
    assert [training.name for training in found.trainings] == ["cl-seed1111"]
    told = summary.section([found], sources.cohorts([found], None))
    assert "Left out, since they have not finished: ncl_w-seed1111." in told
    shutil.rmtree(plan / "runs/cl-seed1111")
    with pytest.raises(
        InputError, match="out: its runs/ holds no finished training; start the same bin/reproduce command again"
    ):
        sources.read([plan])


def test_without_evaluations_the_page_says_how_to_make_them(plan):
    found = sources.read([plan])
    told = page.build(found, sources.cohorts(found, None), [], patient.monitors(found))
    for sentence in ("Nothing has been judged yet", "no run here has been judged", "No classifier here can score"):
        assert sentence in told
    assert "There is nothing to draw yet" in told


def test_what_is_no_folder_of_ours(plan, tmp_path):
    with pytest.raises(InputError, match="nowhere: no such folder"):
        sources.read([tmp_path / "nowhere"])
    with pytest.raises(InputError, match=r"neither a run directory \(it has no run.json\) nor an output folder"):
        sources.read([tmp_path])
    (tmp_path / "run.json").write_text('{"status": "fini')
    with pytest.raises(InputError, match=r"run.json: cannot be read as JSON"):
        sources.read([tmp_path])
    (tmp_path / "run.json").write_text("[]")
    with pytest.raises(InputError, match=r"run.json: holds no JSON object"):
        sources.read([tmp_path])


def test_folders_are_read_once_and_told_apart(ward_cohort, tmp_path):
    folders = [write_run(tmp_path / parent / "runs" / "run", ward_cohort) for parent in ("a", "b")]
    found = sources.read([*folders, tmp_path / "a/../a/runs/run"])
    assert [source.name for source in found] == ["a/runs/run", "b/runs/run"]
    assert len({provenance.anchor(source, "run") for source in found}) == 2
    assert len(sources.trainings([*found, *found])) == 2


def test_cohorts_that_have_moved_or_are_gone(ward_cohort, mimic_ward_cohort, tmp_path):
    here = shutil.copy(ward_cohort, tmp_path / "here.h5")
    found = sources.read([write_run(tmp_path / "run", here)])
    (cohort,) = sources.cohorts(found, None).values()
    assert cohort.path == here
    moved = here.rename(tmp_path / "moved.h5")
    (cohort,) = sources.cohorts(found, moved).values()
    assert cohort.path == moved
    with pytest.raises(InputError, match="mimic_ward.h5: no run was trained on it; its SHA-256 is"):
        sources.cohorts(found, mimic_ward_cohort)
    gone = sources.cohorts(found, None)
    assert list(gone.values()) == [None]
    assert "is not where it was in training" in page.build(found, gone, [], [])


def test_simulated_wards_are_not_held_against_the_paper(ward_cohort, tmp_path):
    cohort = Cohort(ward_cohort)
    assert cohort.simulated
    found = sources.read([write_run(tmp_path / "run", ward_cohort)])
    told = page.build(found, {cohort.checksum: cohort}, [], [])
    assert "Report on simulated physionet2019<" in told
    assert "A simulated ward, so ours alone." in told
    assert "25,813" not in told
    assert "beside the paper's figures, which are of real patients, they say nothing" in told
    cohort.simulated = False
    shown = tables.data(cohort)
    counts = "".join(f"<td>{len(cohort[split].patient_windows)}</td>" for split in ("train", "val", "test"))
    assert f'<th scope="row">stays</th>{counts}<td>25,813</td><td>6,454</td><td>8,066</td><td>differs</td>' in shown


def test_mimic_stays_are_simulated():
    stays = patient.simulated("mimic3_benchmark", task=0)
    assert stays.ever_positive(0).sum() == patient.POSITIVE
    assert len(stays.names) == patient.SHOWN
    names = [channel.name for channel in patient.DATASETS["mimic3_benchmark"].channels]
    for vital in patient.VITALS["mimic3_benchmark"]:
        assert np.isfinite(stays.values[:, names.index(vital)]).any()


JUDGED = {
    "name": "sepsis-mlp",
    "question": {
        "task": "sepsis",
        "head": "mlp",
        "features": "representation",
        "fine_tune": False,
        "labels": 1,
        "label_seed": 0,
        "split": "test",
    },
    "metrics": {"auprc": 0.09},
    "intervals": {"auprc": [0.08, 0.1]},
    "protocol": {"patience": 20, "max_epochs": 1000},
    "best_epoch": 3,
    "stopped_by_budget": False,
    "wall_seconds": 2.0,
    "config": {},
}


def judged_run(folder: pathlib.Path, cohort: pathlib.Path, auprc: float = 0.09) -> pathlib.Path:
    """A run with what bin/evaluate wrote about it."""
    write_run(folder, cohort)
    (folder / "evaluations").mkdir()
    (folder / "evaluations/sepsis-mlp.json").write_text(json.dumps(JUDGED | {"metrics": {"auprc": auprc}}))
    return folder


def test_real_and_simulated_patients_are_not_compared(ward_cohort, tmp_path):
    ward, real = Cohort(ward_cohort), Cohort(ward_cohort)
    real.simulated, real.checksum = False, "f" * 64
    simulated, better = judged_run(tmp_path / "ward", ward_cohort, 0.4), judged_run(tmp_path / "icu", ward_cohort)
    record = json.loads((better / "run.json").read_text()) | {"cohort_checksum": real.checksum}
    (better / "run.json").write_text(json.dumps(record))
    found = sources.read([simulated, better])
    told = page.build(found, {ward.checksum: ward, real.checksum: real}, [], [])
    assert (
        "Sepsis on simulated physionet2019, test split, by AUPRC: <strong>ward with MLP head</strong> has 40.0" in told
    )
    assert "Sepsis on physionet2019, test split, by AUPRC: <strong>icu with MLP head</strong> has 9.0" in told
    assert told.count("the only one judged") == 2
    assert "Those of ward are results on a <strong>simulated ward</strong>" in told


def test_rows_that_tables_share_are_counted_once_and_end_to_end_is_not_fine_tuned(plan):
    (found,) = sources.read([plan])
    made = []
    for name in ("physionet2019", "fine_tuning_physionet2019"):
        row = {
            "row": "end_to_end",
            "seed": 1111,
            "task": "sepsis",
            "head": "mlp",
            "labels": 1.0,
            "stopped_by_budget": False,
        }
        row |= {
            "metrics": {"auprc": 0.09, "auroc": 0.8, "utility": 0.3},
            "budget": "smoke",
            "changed": {},
            "simulated": True,
        }
        made.append(Comparison(paper.load(name), [row]))
    ((result, compared),) = summary.best_results([dataclasses.replace(found, comparisons=tuple(made))]).values()
    assert (result.who, compared) == ("End-to-End with MLP head", 1)


def test_what_runs_say_of_themselves_is_escaped(ward_cohort, tmp_path):
    run, sign = judged_run(tmp_path / "a<i>b", ward_cohort), "<i>x</i>"
    record = json.loads((run / "run.json").read_text())
    (run / "run.json").write_text(
        json.dumps(record | dict.fromkeys(("seed", "budget", "dataset", "cohort_checksum", "code_version"), sign))
    )
    judged = JUDGED | {"question": JUDGED["question"] | {"task": sign}}
    (run / "evaluations/sepsis-mlp.json").write_text(json.dumps(judged))
    found = sources.read([run])
    told = page.build(found, dict.fromkeys([sign]), [], [])
    assert "<i>" not in told
    assert "a&lt;i&gt;b" in told
    assert told.count("&lt;i&gt;x&lt;/i&gt;") > 8


@pytest.mark.slow
def test_mimic_patients_are_scored(mimic_ward_cohort, tmp_path):
    cohort = Cohort(mimic_ward_cohort)
    classifier = Classifier(
        Encoder(cohort.static_columns, filters=4, dilations=(24,)), make_head("mlp", 2), 0, np.ones(2, np.float32)
    )
    classifier.build((None, 48, len(cohort.columns)))
    judged = {
        "name": "decompensation-mlp",
        "question": {"task": "decompensation", "split": "test"},
        "metrics": {"auprc": 0.1},
    }
    more = {"intervals": {}, "protocol": {}, "best_epoch": 0, "config": {}}
    folder = tmp_path / "evaluations/decompensation-mlp/classifier"
    export_classifier(folder, classifier, cohort, {"seed": 0, "budget": "none", "step": 0}, judged | more)
    record = {"dataset": cohort.name, "cohort_checksum": cohort.checksum}
    run = sources.Training(tmp_path, "run", record, {}, (judged,))
    (monitor,) = patient.monitors([sources.Source(tmp_path, "run", (run,))])
    assert [channel["title"] for channel in monitor["channels"]][:2] == ["Heart rate", "Mean arterial pressure"]
    assert len(monitor["stays"]) == patient.SHOWN
    assert {None, 0, 1} == {label for stay in monitor["stays"] for label in stay["label"]}
