"""The page's content: its numbers are those of results/, its patients are simulated, and bad folders are refused."""

import html.parser
import json
import pathlib
import re
import shutil

import numpy as np
import pandas as pd
import pytest

import ncl_tf
from ncl_tf.data import Cohort
from ncl_tf.data.simulate import write_ward
from ncl_tf.data.windows import HISTORY
from ncl_tf.encoders import Encoder
from ncl_tf.errors import InputError
from ncl_tf.evaluation.heads import make_head
from ncl_tf.methods.supervised import Classifier
from ncl_tf.report import page, patient, provenance, sources, summary
from ncl_tf.report import tables as made
from ncl_tf.serving.export import export_classifier


class Tables(html.parser.HTMLParser):
    """Every table of a page: rows of cells' texts, by the beginning of its caption."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.found: dict[str, list[list[str]]] = {}
        self._caption, self._rows, self._into = "", [], None
        self.feed(text)

    def handle_starttag(self, tag, attributes):
        if tag == "table":
            self._caption, self._rows = "", []
        elif tag == "tr":
            self._rows.append([])
        elif tag in ("td", "th"):
            self._rows[-1].append("")
            self._into = "cell"
        elif tag == "caption":
            self._into = "caption"
        elif tag == "span" and self._into == "cell":
            self._rows[-1][-1] += " | "

    def handle_endtag(self, tag):
        if tag in ("td", "th", "caption"):
            self._into = None
        elif tag == "table":
            self.found.setdefault(self._caption, self._rows)

    def handle_data(self, data):
        if self._into == "caption":
            self._caption += data
        elif self._into == "cell":
            self._rows[-1][-1] += data

    def __getitem__(self, beginning: str) -> list[list[str]]:
        (rows,) = [rows for caption, rows in self.found.items() if caption.startswith(beginning)]
        return rows


@pytest.fixture(scope="module")
def text(reported):
    return reported.page.read_text(encoding="utf-8")


def shown(text: str) -> list[dict]:
    """The patient view's content."""
    return json.loads(re.search(r'id="monitors">(.*?)</script>', text)[1])


def x100(value: float) -> str:
    return f"{100 * value:.1f}".replace("-", "−")


def test_result_tables_are_results(reported, text):
    header, *rows = Tables(text)["Results on PhysioNet 2019"]
    assert header == ["", "seeds", "AUPRC MLP", "AUROC MLP", "Utility MLP"]
    assert [row[:2] for row in rows] == [["CL", "1"], ["NCL(n_w)", "2"]]
    found = {}
    for path in (reported.folder / "results").glob("*/sepsis-mlp.json"):
        result = json.loads(path.read_text(encoding="utf-8"))
        found.setdefault(path.parent.name.split("-seed")[0], []).append(result["metrics"])
    for row, method, paper in zip(rows, ("cl", "ncl_w"), ("9.5 ± 0.4", "9.3 ± 0.5"), strict=True):
        for cell, metric in zip(row[2:], ("auprc", "auroc", "utility"), strict=True):
            values = [metrics[metric] for metrics in found[method]]
            spread = f" ± {100 * np.std(values, ddof=1):.1f}" if len(values) > 1 else ""
            assert cell.split(" | ")[0] == x100(np.mean(values)) + spread
        less = 100 * np.mean([metrics["auprc"] for metrics in found[method]]) - float(paper[:3])
        assert row[2].split(" | ")[1] == f"{paper}, {less:+.1f}".replace("-", "−")
    best = np.mean([metrics["auroc"] for metrics in found["ncl_w"]])
    assert f"<td><strong>{x100(best)}</strong> ± " in text  # bold, as the paper has it


def test_single_runs_have_intervals(reported, text):
    header, row = Tables(text)["Single runs"]
    judged = json.loads((reported.single / "evaluations" / "sepsis-mlp.json").read_text(encoding="utf-8"))
    assert row[:4] == ["ncl_w-seed1111", "sepsis, MLP head, test split", "smoke", "1111"]
    for name, cell in zip(header[4:], row[4:], strict=True):
        low, high = (x100(value) for value in judged["intervals"][name.lower()])
        assert cell == f"{x100(judged['metrics'][name.lower()])} | {low} to {high}"


def test_data_are_counted_and_provenance_told(reported, text, ward_cohort):
    cohort = Cohort(ward_cohort)
    (stays,) = [row for row in Tables(text)["physionet2019"] if row[0] == "stays"]
    counts = [str(len(cohort[split].patient_windows)) for split in ("train", "val", "test")]
    assert stays == ["stays", *counts, "25,813", "6,454", "8,066", "differs"]
    record = json.loads((reported.single / "run.json").read_text(encoding="utf-8"))
    for fact in (
        record["cohort_checksum"],
        record["code_version"],
        record["started"],
        record["versions"]["tensorflow"],
    ):
        assert fact in text
    assert "bin/evaluate --run_dir=AGAIN --task=sepsis --head=mlp" in text
    assert str(reported.folder.parent) not in text  # no path of this machine
    assert "written: " in reported.printed


def test_figures_are_part_of_the_page(text):
    images = re.findall(r'<img src="data:image/svg\+xml;base64,[^"]{100,}" alt="([^"]+)">', text)
    assert len(images) >= 2
    assert not re.search(r"""(?:src|href)=["'](?!data:|#)""", text)


def test_simulated_ward_is_told(reported, ward_cohort):
    cohort = Cohort(ward_cohort)
    cohort.simulated = True
    found = sources.read([reported.folder])
    told = page.build(found, {cohort.checksum: cohort}, [], [])
    assert "A simulated ward, so ours alone." in told
    assert "25,813" not in told
    assert "beside the paper's figures, which are of real patients, they say nothing" in told


def test_patients_are_simulated_and_no_row_of_the_cohort_is_shown(text, ward, tmp_path):
    (monitor,) = shown(text)
    assert len(monitor["stays"]) == patient.SHOWN
    assert sum(1 in stay["label"] for stay in monitor["stays"]) == patient.POSITIVE
    write_ward(patient.WARD, patient.SEED, tmp_path / "ward")
    simulated, cohort = (
        {tuple(read(path)["HR"].dropna()) for path in folder.glob("*.psv")} for folder in (tmp_path / "ward", ward)
    )
    for stay in monitor["stays"]:
        rates = tuple(value for value in stay["values"][0] if value is not None)
        assert rates in simulated
        assert rates not in cohort
    names = {path.stem for path in ward.glob("*.psv")}
    assert not names & set(re.findall(r"p\d{6}", text))


def read(path: pathlib.Path) -> pd.DataFrame:
    return pd.read_csv(path, sep="|")


def test_risks_are_the_classifiers(reported, text, tmp_path):
    """The best classifier's, stay by stay through `score`, from files read by pandas."""
    (monitor,) = shown(text)
    assert monitor["model"] == "ncl_w-seed1111, sepsis-mlp"
    model = ncl_tf.load(reported.single / "evaluations/sepsis-mlp/classifier")
    write_ward(patient.WARD, patient.SEED, tmp_path / "ward")
    frames = {tuple(frame["HR"].dropna()): frame for frame in map(read, sorted((tmp_path / "ward").glob("*.psv")))}
    for stay in monitor["stays"][:3]:
        frame = frames[tuple(value for value in stay["values"][0] if value is not None)]
        np.testing.assert_allclose(stay["risk"], model.score(frame)[:, 1], atol=1e-4)
        assert stay["label"] == frame["SepsisLabel"].tolist()
        assert stay["hours"] == frame["ICULOS"].tolist()


def test_mimic_patients_are_simulated_too(mimic_ward_cohort, tmp_path):
    cohort = Cohort(mimic_ward_cohort)
    classifier = Classifier(
        Encoder(cohort.static_columns, filters=4, dilations=(1,)), make_head("mlp", 2), 0, np.ones(2, np.float32)
    )
    classifier.build((None, HISTORY, len(cohort.columns)))
    judged = {
        "name": "decompensation-mlp",
        "question": {"task": "decompensation", "split": "test"},
        "metrics": {"auprc": 0.1},
    }
    more = {"intervals": {}, "protocol": {}, "best_epoch": 0, "config": {}}
    folder = tmp_path / "evaluations/decompensation-mlp/classifier"
    export_classifier(folder, classifier, cohort, {"seed": 0, "budget": "none", "step": 0}, judged | more)
    run = sources.Training(tmp_path, "run", {"dataset": cohort.name}, {}, (judged,))
    (monitor,) = patient.monitors([sources.Source(tmp_path, "run", (run,))])
    assert [channel["title"] for channel in monitor["channels"]][:2] == ["Heart rate", "Mean arterial pressure"]
    assert len(monitor["stays"]) == patient.SHOWN
    assert {None, 0, 1} == {label for stay in monitor["stays"] for label in stay["label"]}


def copied(reported, tmp_path) -> pathlib.Path:
    """The folder, without the heavy parts."""
    return shutil.copytree(reported.folder, tmp_path / "copy", ignore=shutil.ignore_patterns("*.npz", "logs", "1"))


def test_unfinished_runs_are_refused_or_left_out_and_named(reported, tmp_path):
    folder = copied(reported, tmp_path)
    record = folder / "runs/cl-seed1111/run.json"
    record.write_text(record.read_text().replace('"finished"', '"started"'))
    with pytest.raises(InputError, match=r"cl-seed1111: the training has not finished \(step 2\)"):
        sources.read([record.parent])
    (found,) = sources.read([folder])
    assert found.unfinished == ("cl-seed1111",)
    assert "Left out, since they have not finished: cl-seed1111." in summary.section([found], {})
    for other in folder.glob("runs/*/run.json"):
        other.write_text(other.read_text().replace('"finished"', '"started"'))
    with pytest.raises(InputError, match="copy: no training has finished yet"):
        sources.read([folder])


def test_without_evaluations_the_page_says_how_to_make_them(reported, tmp_path):
    folder = copied(reported, tmp_path) / "runs/cl-seed1111"
    shutil.rmtree(folder / "evaluations")
    found = sources.read([folder])
    told = page.build(found, sources.cohorts(found, None), [], patient.monitors(found))
    for section in ("Nothing has been judged yet", "no run here has been judged", "No classifier here can score"):
        assert section in told


def test_bad_folders_and_cohorts(reported, ward_cohort, mimic_ward_cohort, tmp_path):
    with pytest.raises(InputError, match="nowhere: no such folder"):
        sources.read([tmp_path / "nowhere"])
    with pytest.raises(InputError, match=r"neither a run directory \(it has no run.json\) nor an output folder"):
        sources.read([tmp_path])
    (tmp_path / "run.json").write_text('{"status": "fini')
    with pytest.raises(InputError, match=r"run.json: cannot be read as JSON"):
        sources.read([tmp_path])
    found = sources.read([reported.single, reported.folder, reported.single])
    assert [source.name for source in found] == ["ncl_w-seed1111", "ward_smoke"]
    with pytest.raises(InputError, match="no run was trained on it; its SHA-256 is"):
        sources.cohorts(found, mimic_ward_cohort)
    moved = shutil.copy(ward_cohort, tmp_path / "moved.h5")
    (cohort,) = sources.cohorts(found, moved).values()
    assert cohort.path == moved


def test_a_cohort_that_is_gone_is_not_counted(reported):
    found = sources.read([reported.single])
    told = page.build(found, {found[0].trainings[0].record["cohort_checksum"]: None}, [], [])
    assert "is not where it was in training" in told


def test_folders_of_the_same_name_are_told_apart(reported, tmp_path):
    for parent in ("a", "b"):
        shutil.copytree(reported.single, tmp_path / parent / "run", ignore=shutil.ignore_patterns("*.npz", "logs", "1"))
    found = sources.read([tmp_path / "a/run", tmp_path / "b/run"])
    assert [source.name for source in found] == ["a/run", "b/run"]
    assert len({provenance.anchor(source, "run") for source in found}) == 2


def test_what_a_table_cannot_hold_is_escaped():
    assert "<script>" not in made.table("c", made.header(["<script>"]), [], "n")
