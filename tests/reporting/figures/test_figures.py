"""Figures of a tiny sweep on the simulated ward: a real training and evaluation, the rest of the sweeps in their form."""

import json
import pathlib
import re
import shutil
import zlib

import numpy as np
import pandas as pd
import pytest
from PIL import Image

import trainings
from ncl_tf import files
from ncl_tf.data import Cohort
from ncl_tf.paper import results, tables
from ncl_tf.paper.plan import Plan
from ncl_tf.paper.planned import planned_evaluations
from ncl_tf.reporting import figures
from ncl_tf.reporting.figures import NAMES
from ncl_tf.reporting.figures.evaluations import RECALLS, precisions
from ncl_tf.reporting.figures.figure import Figure
from ncl_tf.reporting.figures.groups import evenly
from ncl_tf.reporting.figures.representations import stay_distances
from refusals import refused

SWEEPS = ("alpha_n_w", "alpha_n_y", "temperature_momentum", "window_alpha", "augmentations")
SEEDS = tables.SEEDS[:2]


def make(folders: list[pathlib.Path], names: list[str] | None = None, cohort: pathlib.Path | None = None, **options):
    return figures.make(figures.Sources(folders, cohort), names, **options)


def score(row: tables.TableRow, seed: int) -> float:
    """A number for each point and seed of a sweep; tables that share a training share it."""
    point = sorted({"method": row.method, **row.settings}.items())
    return 0.2 + zlib.crc32(str(point).encode()) % 100 / 500 + 0.003 * SEEDS.index(seed)


def fill(folder: pathlib.Path, dataset: str, template: dict) -> None:
    """The results of all sweeps of a dataset that are not there yet, in the form of a real one."""
    for table in map(tables.load_table, tables.names()):
        if table.dataset != dataset or not table.name.startswith(SWEEPS):
            continue
        for row, _, seed, _, asked in planned_evaluations(table, SEEDS):
            value = score(row, seed)
            scores = {"auprc": value, "auroc": value + 0.3, "utility": value - 0.3, "kappa": value + 0.1}
            run = template["run"] | {"result": template["run"]["result"] | {"accuracy": 1 - value}}
            if not (folder / "results" / asked.path).exists():
                files.write_json(folder / "results" / asked.path, template | {"metrics": scores, "run": run})


@pytest.fixture(scope="module")
def reproduced(trained_run: pathlib.Path, ward_cohort: pathlib.Path, tmp_path_factory) -> pathlib.Path:
    """An output folder of bin/reproduce: one alpha of NCL(n_w) really trained and evaluated, the other points filled in."""
    folder = tmp_path_factory.mktemp("figures") / "ward_smoke"
    table = tables.load_table("alpha_n_w_physionet2019").narrowed(["alpha_0.0"])
    plan = Plan(table, str(ward_cohort), "smoke", 1, output=str(folder))
    plan.open()
    only_val = shutil.ignore_patterns("sepsis-mlp", "sepsis-mlp.*")
    shutil.copytree(trained_run, folder / "runs" / trained_run.name, ignore=only_val)
    other = shutil.copytree(trained_run, folder / "runs" / "ncl_w-alpha_1.0-window_12-seed1111", ignore=only_val)
    config = (trained_run / "config.gin").read_text()
    (other / "config.gin").write_text(config.replace("alpha = 0.0", "alpha = 1.0"))
    results.collect(plan)
    fill(folder, "physionet2019", json.loads(next((folder / "results").glob("*/*.json")).read_text()))
    return folder


@pytest.fixture(scope="module")
def benchmark(reproduced: pathlib.Path, mimic_ward_cohort: pathlib.Path) -> pathlib.Path:
    """An output folder with the sweeps of the other dataset, filled in."""
    folder = reproduced.with_name("benchmark_smoke")
    Plan(tables.load_table("alpha_n_w_mimic3"), str(mimic_ward_cohort), "smoke", 2, output=str(folder)).open()
    fill(folder, "mimic3_benchmark", json.loads(next((reproduced / "results").glob("*/*.json")).read_text()))
    return folder


@pytest.fixture(scope="module")
def made(reproduced: pathlib.Path, benchmark: pathlib.Path, mimic_ward_cohort: pathlib.Path) -> dict[str, Figure]:
    """Every figure."""
    sweeps_and_runs = make([reproduced, benchmark], [name for name in NAMES if name != "length_of_stay_bins"])
    bins = make([], ["length_of_stay_bins"], cohort=mimic_ward_cohort)
    return {figure.name: figure for figure in [*sweeps_and_runs, *bins]}


@pytest.mark.parametrize("name", NAMES)
def test_a_figure_has_data_labels_caption_and_files(name, made, tmp_path, ward_cohort):
    figure = made[name]
    assert len(figure.data)
    assert re.search(r"Data: .*simulated (physionet2019|mimic3_benchmark) \(cohort [0-9a-f]{8}\)", figure.caption)
    assert name == "length_of_stay_bins" or re.search(r"Budget 'smoke'; [12] seeds?", figure.caption)
    assert 40 < len(figure.alt) < 900
    shown = [ax for ax in figure.canvas.axes if ax.get_label() != "<colorbar>"]
    if name == "tsne":
        assert figure.canvas.get_supxlabel() == "t-SNE coordinates (no unit)"
    else:
        named = {"distances": shown[1:], "subgroups": shown[:1]}.get(name, shown)  # ticks name the other panels' rows
        assert all(ax.get_ylabel() for ax in named)
        assert name in ("reliability", "event_recall") or all(ax.get_xlabel() for ax in shown)
    png, svg, csv, words = figure.save(tmp_path)
    assert min(Image.open(png).size) > 300
    drawn = svg.read_text()
    assert drawn.startswith("<svg")
    assert "http" not in re.sub(r"https?://(www\.w3|purl|creativecommons|matplotlib)\.org", "", drawn)
    pd.testing.assert_frame_equal(pd.read_csv(csv), figure.data.reset_index(drop=True), check_dtype=False)
    assert json.loads(words.read_text()) == {"title": figure.title, "caption": figure.caption, "alt": figure.alt}
    assert not set(Cohort(ward_cohort)["val"].stay_names) & set(re.split(r"[,\n]", csv.read_text()))


def test_the_same_data_give_the_same_bytes(reproduced):
    first, second = (make([reproduced], ["window_alpha"])[0].svg() for _ in range(2))
    assert first == second
    assert "<dc:date>" not in first


def test_sweeps_show_mean_and_deviation_over_seeds(made):
    for name, table_name, metric, change in [
        ("window_alpha", "window_alpha_mimic3", "auprc", 0),
        ("temperature_momentum", "temperature_momentum_physionet2019", "utility", -0.3),
        ("augmentations", "augmentations_physionet2019", "utility", -0.3),
        ("alpha_n_y", "alpha_n_y_length_of_stay", "kappa", 0.1),
    ]:
        table, data = tables.load_table(table_name), made[name].data
        found = data[(data["table"] == table_name) & (data["metric"] == metric)]
        expected = [[100 * (score(row, seed) + change) for seed in SEEDS] for row in table.rows]
        assert len(found) == len(table.rows)
        np.testing.assert_allclose(found["mean"], np.mean(expected, axis=1))
        np.testing.assert_allclose(found["std"], np.std(expected, axis=1, ddof=1))
        assert set(found["seeds"]) == {2}


def test_all_four_augmentations_alone_are_no_grid(reproduced, tmp_path):
    folder, name = tmp_path / "four", "cl-layers_cutout+crop+noise+channel_dropout-seed1111"
    shutil.copytree(reproduced, folder, ignore=shutil.ignore_patterns("runs", "cl-*"))
    shutil.copytree(reproduced / "results" / name, folder / "results" / name)
    with refused("'augmentations'", "alone or in pairs"):
        make([folder], ["augmentations"])


def test_contrastive_accuracy_stands_beside_the_performance_of_n_y(made):
    table, data = tables.load_table("alpha_n_y_decompensation"), made["alpha_n_y"].data
    found = data[(data["table"] == table.name) & (data["metric"] == "contrastive_accuracy")]
    expected = [100 * np.mean([1 - score(row, seed) for seed in SEEDS]) for row in table.rows]
    np.testing.assert_allclose(found["mean"], expected)
    labels = [ax.get_ylabel() for ax in made["alpha_n_y"].canvas.axes]
    assert labels.count("contrastive accuracy (%)") == 3
    assert {"decompensation\nAUPRC (x 100)", "length of stay\nKappa (x 100)", "sepsis\nUtility (x 100)"} < set(labels)


def test_real_points_of_the_sweep_are_the_evaluations_metrics(made, reproduced):
    run = reproduced / "runs" / "ncl_w-alpha_0.0-window_12-seed1111"
    evaluation = json.loads((run / "evaluations" / "sepsis-mlp-val.json").read_text())
    row = tables.load_table("alpha_n_w_physionet2019").rows[0]
    other = score(row, SEEDS[1]) - 0.3
    data = made["alpha_n_w"].data
    point = data[(data["dataset"] == "simulated physionet2019") & (data["metric"] == "utility") & (data["alpha"] == 0)]
    assert point["mean"].item() == pytest.approx(50 * (evaluation["metrics"]["utility"] + other))
    assert re.search(r"Settings other than the paper's or the budget's: .*queue_size = 512", made["alpha_n_w"].caption)


def test_training_curves_are_the_reports(made, reproduced):
    data = made["training_curves"].data
    for alpha in ("0.0", "1.0"):
        reports = trainings.reports(reproduced / "runs" / f"ncl_w-alpha_{alpha}-window_12-seed1111")
        of_run = data[(data["run"] == f"ncl_w-alpha_{alpha}-window_12") & (data["split"] == "training")]
        for term, scale in (("loss", 1), ("alignment", 1), ("discrimination", 1), ("accuracy", 100)):
            curve = of_run[of_run["term"] == term]
            assert curve["step"].tolist() == [report["step"] for report in reports]
            assert curve["mean"].tolist() == [scale * report[term] for report in reports]


def precisions_by_hand(probabilities: np.ndarray, labels: np.ndarray) -> list[float]:
    thresholds = np.unique(probabilities)[::-1]
    calls = [probabilities >= threshold for threshold in thresholds]
    return [
        next(labels[called].mean() for called in calls if labels[called].sum() / labels.sum() >= recall - 1e-12)
        for recall in RECALLS
    ]


def test_precision_at_a_recall_by_hand():
    random = np.random.default_rng(0)
    labels = random.random(300) < 0.2
    probabilities = np.round(0.3 * labels + random.random(300), 2)  # with ties
    np.testing.assert_allclose(precisions(probabilities, labels), precisions_by_hand(probabilities, labels))


def test_precision_and_reliability_are_those_of_the_predictions(made, reproduced):
    evaluations = reproduced / "runs" / "ncl_w-alpha_0.0-window_12-seed1111" / "evaluations"
    hours = pd.read_parquet(evaluations / "sepsis-mlp-val.parquet").dropna()
    risk, label = hours["probability_1"].to_numpy(), hours["label"].to_numpy()
    curves, bins = (made[name].data for name in ("precision_recall", "reliability"))
    for name in ("ncl_w-alpha_0.0-window_12, mlp", "ncl_w-alpha_1.0-window_12, mlp"):  # one is a copy of the other
        curve, line = curves[curves["run"] == name], bins[bins["run"] == name]
        np.testing.assert_allclose(curve["recall"], RECALLS)
        np.testing.assert_allclose(curve["precision"], precisions_by_hand(risk, label))
        assert line["share"].sum() == pytest.approx(1)
        for low, high, predicted, observed, share in line[["low", "high", "predicted", "observed", "share"]].to_numpy():
            within = (risk > low) & (risk <= high)
            expected = (risk[within].mean(), label[within].mean(), within.mean())
            assert (predicted, observed, share) == pytest.approx(expected, rel=1e-5)


def test_figures_of_a_ward_show_what_the_evaluation_found(made, reproduced):
    evaluations = reproduced / "runs" / "ncl_w-alpha_0.0-window_12-seed1111" / "evaluations"
    found = json.loads((evaluations / "sepsis-mlp-val.json").read_text())
    name = "ncl_w-alpha_0.0-window_12, mlp"
    curve, drawn = found["events"]["curve"], made["event_recall"].data
    drawn = drawn[(drawn["run"] == name) & (drawn["metric"] == "event_recall")]
    points = list(zip(curve["alarms_per_day"], curve["event_recall"], strict=True))
    for rate, value in drawn[["alarms_per_day", "mean"]].to_numpy():
        (low, below), (high, above) = max(p for p in points if p[0] <= rate), min(p for p in points if p[0] >= rate)
        assert min(below, above) - 1e-9 <= value <= max(below, above) + 1e-9
    groups = made["subgroups"].data
    assert set(groups["metric"]) == {"auroc", "auprc_at_prevalence", "event_recall", "observed_to_expected"}
    female = groups[(groups["group"] == "female") & (groups["metric"] == "auroc")]
    (entry,) = [one for one in found["subgroups"]["groups"] if one["group"] == "female"]
    low, high = entry["intervals"]["auroc"] or (np.nan, np.nan)
    np.testing.assert_array_equal(
        female[["stays", "value", "low", "high"]].astype(float).to_numpy(),
        [[entry["stays"], entry["metrics"]["auroc"] or np.nan, low, high]],
    )
    risks = made["calibration"].data
    for when in ("before", "after"):  # of one of two evaluations that are alike
        drawn = risks[risks["when"] == when][["hours", "mean_risk", "observed"]]
        pd.testing.assert_frame_equal(
            drawn.reset_index(drop=True), pd.DataFrame(found["calibration"][when]["bins"]), check_dtype=False
        )
    benefit = made["decision_curve"].data
    assert benefit[benefit["run"] == name]["net_benefit"].tolist() == found["decision_curve"]["net_benefit"]


def test_runs_of_two_folders_are_no_seeds_of_each_other(reproduced, tmp_path):
    made = reproduced / "runs" / "ncl_w-alpha_0.0-window_12-seed1111"
    places = ["laptop/runs/ncl_w-seed1111", "laptop/runs/ncl_w-seed2222", "paper/runs/ncl_w-seed3333", "paper/runs/cl"]
    folders = [shutil.copytree(made, tmp_path / place) for place in places]
    labels = [run.label for run in figures.Sources(folders).runs]
    assert labels == ["laptop/runs/ncl_w", "laptop/runs/ncl_w", "paper/runs/ncl_w", "cl"]
    (folders[1] / "run.json").write_text("{")
    with refused("ncl_w-seed2222/run.json: "):
        figures.Sources(folders)


def test_bins_are_counted_by_hand(made, mimic_ward_cohort):
    data = made["length_of_stay_bins"].data
    days = Cohort(mimic_ward_cohort)["train"].labels[:, 1] / 24
    days = days[~np.isnan(days)]
    found = data[data["split"] == "train"].set_index("bin")["share"]
    assert list(found.index) == ["< 1", "1–2", "2–3", "3–4", "4–5", "5–6", "6–7", "7–8", "8–14", "≥ 14"]
    assert found["< 1"] == pytest.approx((days < 1).mean())
    assert found["8–14"] == pytest.approx(((days >= 8) & (days < 14)).mean())
    assert found.sum() == pytest.approx(1)


def test_distances_by_hand():
    random = np.random.default_rng(1)
    stays = np.repeat([1, 2, 3], [4, 1, 6])
    vectors = random.normal(size=(11, 5)).astype(np.float32)
    unit = vectors / np.linalg.norm(vectors, axis=1, keepdims=True)
    pairs = {"within a stay": [], "between stays": [], 2: []}
    for i in range(11):
        for j in range(i):
            pairs["within a stay" if stays[i] == stays[j] else "between stays"].append(1 - unit[i] @ unit[j])
            if stays[i] == stays[j] and i - j == 2:
                pairs[2].append(1 - unit[i] @ unit[j])
    rows = stay_distances(vectors, stays)
    found = {row["hours_apart"] if row["hours_apart"] > 0 else row["pairs"]: row["value"] for row in rows}
    for key, values in pairs.items():
        assert found[key] == pytest.approx(np.mean(values), rel=1e-5)


def test_tsne_compares_the_alphas_and_keeps_stays_anonymous(made, ward_cohort):
    data = made["tsne"].data
    assert list(data.columns) == ["run", "seed", "stay", "class", "x", "y"]
    assert list(dict.fromkeys(data["run"])) == ["α = 0", "α = 1"]
    numbers = sorted(set(data["stay"]))
    assert numbers == list(range(1, len(numbers) + 1))
    assert [ax.get_title() for ax in made["tsne"].canvas.axes[:2]] == ["α = 0", "α = 1"]
    split = Cohort(ward_cohort)["val"]
    last_hours = [split.labels[max(first, last - 71) : last + 1, 0] for first, last, _ in split.patient_windows]
    known = {(len(hours), np.nansum(hours)) for hours in last_hours}
    shown = data[data["run"] == "α = 0"].groupby("stay")["class"].agg(lambda one: (len(one), sum(one == 1)))
    assert set(shown) <= known
    assert data["class"].max() == 1


def test_all_leaves_out_what_cannot_be_drawn(reproduced, mimic_ward_cohort, tmp_path, run):
    lacking: dict[str, str] = {}
    drawn = make([next((reproduced / "runs").iterdir())], left_out=lacking.__setitem__)
    expected = ["tsne", "distances", "training_curves", "precision_recall", "reliability"]
    expected += ["event_recall", "calibration", "subgroups", "decision_curve"]
    assert [figure.name for figure in drawn] == expected
    assert sorted([*lacking, *expected]) == sorted(NAMES)
    program = run("bin/figures", "--figure=all", f"--cohort={mimic_ward_cohort}", f"--output={tmp_path / 'figures'}")
    assert program.returncode == 0, program.stderr
    assert "left out: window_alpha; it needs results of bin/reproduce --table=window_alpha_mimic3 or " in program.stdout
    assert program.stdout.count("left out: ") == len(NAMES) - 1
    names = {path.name for path in (tmp_path / "figures").iterdir()}
    assert names == {f"length_of_stay_bins.{form}" for form in ("png", "svg", "csv", "json")}


def test_bad_requests(reproduced, ward_cohort, mimic_ward_cohort, tmp_path):
    run_dir = next((reproduced / "runs").iterdir())
    (tmp_path / "letters").mkdir()
    for folders, names, cohort, named in [
        ([run_dir], ["alpha"], None, "one of alpha_n_w,  & 'alpha'"),
        ([tmp_path / "gone"], None, None, tmp_path / "gone"),
        ([tmp_path / "letters"], None, None, "letters & a run directory"),
        ([run_dir], ["alpha_n_w"], None, "'alpha_n_w' & results of bin/reproduce --table=alpha_n_w_mimic3 or "),
        ([run_dir], ["length_of_stay_bins"], None, "'length_of_stay_bins' & a task in bins"),
        ([], ["length_of_stay_bins"], ward_cohort, f"given: {ward_cohort}"),
        ([run_dir], None, mimic_ward_cohort, "the cohort of a run"),
    ]:
        with refused(named):
            make(folders, names, cohort)
    assert make([], None) == []


def test_evenly_spread():
    groups = dict.fromkeys("abcdefghijk", 0)
    assert list(evenly(groups, 5)) == ["a", "c", "f", "i", "k"]
    assert list(evenly(groups, 11)) == list(groups)
