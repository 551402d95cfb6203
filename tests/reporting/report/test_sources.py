"""What the report reads: folders that are finished, unfinished, not evaluated, of the same name, or no folders of ours."""

import html
import json
import pathlib
import shutil

import numpy as np
import pandas as pd
import pytest
from matplotlib.figure import Figure as Canvas

from ncl_tf.data import Cohort
from ncl_tf.methods.supervised import Classifier
from ncl_tf.networks.encoder import Encoder
from ncl_tf.networks.heads import Head
from ncl_tf.paper import tables as paper
from ncl_tf.paper.compare import Comparison
from ncl_tf.reporting.figures.figure import Figure
from ncl_tf.reporting.report import page, patient, provenance, summary, tables
from ncl_tf.reporting.sources import Sources
from ncl_tf.runs import environment
from ncl_tf.serving.export import export_classifier
from refusals import refused

SETTINGS = {"task": "sepsis", "head": "mlp", "features": "representation", "fine_tune": False, "labels": 1}
EVALUATION = {
    "name": "sepsis-mlp",
    "settings": SETTINGS | {"label_seed": 0, "split": "test"},
    "metrics": {"auprc": 0.09},
    "intervals": {"auprc": [0.08, 0.1]},
    "protocol": {"patience": 20, "max_epochs": 1000},
    **{"best_epoch": 3, "stopped_by_budget": False, "wall_seconds": 2.0, "config": {}},
}


def write_run(folder: pathlib.Path, cohort: pathlib.Path, status: str = "finished", **facts) -> pathlib.Path:
    """What bin/train leaves and the report reads of it."""
    folder.mkdir(parents=True)
    facts = {"seed": 1, "budget": "smoke", "dataset": "physionet2019", "step": 2, "wall_seconds": 3.0, **facts}
    record = {"status": status, "cohort_checksum": Cohort(cohort).checksum, **environment(), **facts}
    (folder / "run.json").write_text(json.dumps(record))
    (folder / "config.gin").write_text(f"cohort = \\\n    '{cohort}'\nseed = 1\n")
    return folder


def evaluated_run(folder: pathlib.Path, cohort: pathlib.Path, evaluation: dict | None = None, **facts) -> pathlib.Path:
    """A run with what bin/evaluate wrote about it."""
    write_run(folder, cohort, **facts)
    (folder / "evaluations").mkdir()
    (folder / "evaluations/sepsis-mlp.json").write_text(json.dumps(EVALUATION | (evaluation or {})))
    return folder


def auprc(value: float) -> dict:
    return {"metrics": {"auprc": value}}


@pytest.fixture
def plan(ward_cohort, tmp_path):
    """What bin/reproduce leaves, with one training that has finished and one that has not."""
    write_run(tmp_path / "out/runs/cl-seed1111", ward_cohort)
    write_run(tmp_path / "out/runs/ncl_w-seed1111", ward_cohort, "started")
    made = {"physionet2019": {"methods": ["cl", "ncl_w"], "heads": ["mlp"], "seeds": [1111]}}
    facts = {"cohort_checksum": Cohort(ward_cohort).checksum, "budget": "smoke", "gin_files": [], "gin_params": []}
    (tmp_path / "out/plan.json").write_text(json.dumps({**facts, "tables": made}))
    return tmp_path / "out"


def test_unfinished_trainings_are_refused_or_left_out_and_named(plan):
    with refused("ncl_w-seed1111", "step 2"):
        Sources([plan / "runs/ncl_w-seed1111"]).require_finished()
    sources = Sources([plan])
    sources.require_finished()
    assert [run.name for run in sources.finished] == ["cl-seed1111"]
    assert "have not finished: ncl_w-seed1111." in summary.summary_section(sources)
    shutil.rmtree(plan / "runs/cl-seed1111")
    with refused(plan, "finished", "bin/reproduce"):
        Sources([plan]).require_finished()


def test_without_evaluations_the_page_shows_how_to_make_them(plan):
    sources = Sources([plan])
    text = page.build_page(sources, [], patient.monitors(sources))
    sentences = ["Nothing has been evaluated yet", "To evaluate a run: <code>bin/evaluate --run_dir=RUN"]
    sentences += ["No classifier here can score", "There is nothing to draw yet"]
    assert [sentence for sentence in sentences if sentence not in text] == []


def test_what_is_no_folder_of_ours(tmp_path):
    for content, named in [(None, "run.json & plan.json"), ('{"status": "fini', "run.json: "), ("[]", "run.json: ")]:
        if content:
            (tmp_path / "run.json").write_text(content)
        with refused(tmp_path, named):
            Sources([tmp_path])
    with refused(tmp_path / "nowhere"):
        Sources([tmp_path / "nowhere"])


def test_folders_are_read_once_and_have_names_of_their_own(ward_cohort, tmp_path):
    folders = [write_run(tmp_path / parent / "runs" / "run", ward_cohort) for parent in ("a", "b")]
    sources = Sources([*folders, tmp_path / "a/../a/runs/run"])
    assert [source.name for source in sources.folders] == ["a/runs/run", "b/runs/run"]
    assert len({provenance.anchor(source, "run") for source in sources.folders}) == 2
    assert len(sources.runs) == 2


def test_cohorts_that_have_moved_or_are_gone(ward_cohort, mimic_ward_cohort, tmp_path):
    here = shutil.copy(ward_cohort, tmp_path / "here.h5")
    run = write_run(tmp_path / "run", here)
    assert [cohort.path for cohort in Sources([run]).cohorts.values()] == [here]
    moved = here.rename(tmp_path / "moved.h5")
    assert [cohort.path for cohort in Sources([run], moved).cohorts.values()] == [moved]
    theirs, ours = Cohort(mimic_ward_cohort).checksum, Cohort(ward_cohort).checksum
    with refused("mimic_ward.h5", ours, theirs):
        Sources([run], mimic_ward_cohort)
    gone = Sources([run])
    assert list(gone.cohorts.values()) == [None]
    assert "is not where it was in training" in page.build_page(gone, [], [])


def test_simulated_wards_are_not_held_against_the_paper(ward_cohort, tmp_path):
    cohort = Cohort(ward_cohort)
    assert cohort.simulated
    text = page.build_page(Sources([write_run(tmp_path / "run", ward_cohort)]), [], [])
    assert "Report on simulated physionet2019<" in text and "Simulated ward: only our" in text
    assert "cannot be compared with the paper's figures, which come from real patients" in text
    assert "25,813" not in text
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


def test_the_best_run_is_the_one_with_the_highest_metric(ward_cohort, tmp_path):
    values = {"a": 0.1, "b": 0.4, "c": 0.2}
    runs = [evaluated_run(tmp_path / name, ward_cohort, auprc(value)) for name, value in values.items()]
    text = summary.summary_section(Sources(runs))
    assert "<strong>b with MLP head</strong> has 40.0 (95 % interval 8.0 to 10.0), the best of 3" in text
    assert "<dt>best AUPRC, sepsis</dt><dd>40.0</dd>" in text


def table_row(method: str, seed: int, auprc: float) -> dict:
    """A result in the form of `ncl_tf.paper.results.rows`."""
    row = {"row": method, "seed": seed, "task": "sepsis", "head": "mlp", "labels": 1.0, "stopped_by_budget": False}
    metrics = {"auprc": auprc, "auroc": 0.8, "utility": 0.3}
    return row | {"metrics": metrics, "budget": "smoke", "changed": {}, "simulated": True, "dataset": "physionet2019"}


def test_the_best_row_of_a_table_is_the_one_with_the_highest_mean(plan):
    sources = Sources([plan])
    values = {"cl": (0.1, 0.6), "ncl_w": (0.4, 0.5), "ncl_y": (0.2, 0.3)}  # means 35, 45 and 25
    rows = [table_row(name, seed, auprc) for name, pair in values.items() for seed, auprc in enumerate(pair)]
    sources.folders[0].comparisons = (Comparison(paper.load_table("physionet2019"), rows),)
    ((result, compared),) = summary.best_results(sources).values()
    assert (result.who, compared) == ("NCL(n_w) with MLP head", 3)
    assert result.value == pytest.approx(45)


def test_rows_that_tables_share_are_counted_once_and_end_to_end_is_not_fine_tuned(plan):
    sources = Sources([plan])
    row, shared = table_row("end_to_end", 1111, 0.09), ("physionet2019", "fine_tuning_physionet2019")
    sources.folders[0].comparisons = tuple(Comparison(paper.load_table(name), [row]) for name in shared)
    ((result, compared),) = summary.best_results(sources).values()
    assert (result.who, compared) == ("End-to-End with MLP head", 1)


def test_real_and_simulated_patients_are_not_compared(ward_cohort, tmp_path):
    ward, real = Cohort(ward_cohort), Cohort(ward_cohort)
    real.simulated, real.checksum = False, "f" * 64
    icu = evaluated_run(tmp_path / "icu", ward_cohort, cohort_checksum=real.checksum)
    sources = Sources([evaluated_run(tmp_path / "ward", ward_cohort, auprc(0.4)), icu])
    sources.cohorts = {ward.checksum: ward, real.checksum: real}
    text = page.build_page(sources, [], [])
    for dataset, run, value in (("simulated physionet2019", "ward", "40.0"), ("physionet2019", "icu", "9.0")):
        assert f"Sepsis on {dataset}, test split, by AUPRC: <strong>{run} with MLP head</strong> has {value}" in text
    assert text.count("the only one evaluated") == 2
    assert "of ward come from a <strong>simulated ward</strong>" in text


def test_what_runs_and_figures_hold_is_escaped(ward_cohort, tmp_path):
    sign = "<i>x</i>"
    facts = dict.fromkeys(("budget", "dataset", "cohort_checksum", "code_version"), sign)
    content = {"settings": EVALUATION["settings"] | {"task": sign}}
    sources = Sources([evaluated_run(tmp_path / "a<i>b", ward_cohort, content, **facts)])
    sources.cohorts = {sign: None}
    figure = Figure("drawn", f"title {sign}", f"caption {sign}", f'alt {sign} "x"', pd.DataFrame(), Canvas())
    text, escaped = page.build_page(sources, [figure], []), html.escape(sign)
    assert "<i>" not in text
    assert text.count(escaped) > 11
    parts = ["a&lt;i&gt;b", "&quot;x&quot;", *(f"{part} {escaped}" for part in ("title", "caption", "alt"))]
    assert [part for part in parts if part not in text] == []
    row = table_row("cl", 1111, 0.09) | {"budget": sign, "changed": {"name": sign}}
    shown = tables.comparison(Comparison(paper.load_table("physionet2019"), [row]), {"cl": sign})
    assert "<i>" not in shown
    assert shown.count("&lt;i&gt;x") == 3  # budget and changed setting in the caption, and the link
    for simulated in (True, False):
        cohort = Cohort(ward_cohort)
        cohort.name, cohort.simulated = sign, simulated
        assert "<i>" not in tables.data(cohort)


@pytest.mark.slow
def test_mimic_patients_are_scored(mimic_ward_cohort, tmp_path):
    cohort = Cohort(mimic_ward_cohort)
    encoder = Encoder(cohort.static_columns, filters=4, dilations=(1, 24))
    classifier = Classifier(encoder, Head("mlp", 2), 0, np.ones(2, np.float32))
    classifier.build((None, 48, len(cohort.columns)))
    settings = EVALUATION["settings"] | {"task": "decompensation"}
    content = {"name": "decompensation-mlp", "settings": settings}
    run = evaluated_run(tmp_path / "run", mimic_ward_cohort, dataset=cohort.name, evaluation=content)
    folder = run / "evaluations/decompensation-mlp/classifier"
    export_classifier(folder, classifier, cohort, {"seed": 0, "budget": "none", "step": 0}, EVALUATION | content)
    (monitor,) = patient.monitors(Sources([run]))
    assert [channel["title"] for channel in monitor["channels"]][:2] == ["Heart rate", "Mean arterial pressure"]
    assert len(monitor["stays"]) == patient.SHOWN
    assert {None, 0, 1} == {label for stay in monitor["stays"] for label in stay["label"]}


def test_commands_show_what_was_changed_of_the_protocol(ward_cohort, tmp_path):
    protocol = {"rates": {"linear": 1e-4, "mlp": 5e-4}, "balanced": True, "patience": 20, "max_epochs": 7}
    config = {"max_epochs": "9", "protocol.linear_rate": "0.0001", "protocol.mlp_rate": "5e-05"}
    config |= {"protocol.balanced": "True", "protocol.max_epochs": "%max_epochs"}
    content = {"protocol": protocol | {"max_minutes": None}, "config": config}
    run = evaluated_run(tmp_path / "run", ward_cohort, content)
    text = provenance.provenance_section(Sources([run]).folders)
    expected = "bin/evaluate --run_dir=AGAIN --task=sepsis --head=mlp "
    expected += "'--gin_param=protocol.mlp_rate = 0.0005' '--gin_param=protocol.max_epochs = 7'"
    assert f"\n{html.escape(expected)}</code>" in text
