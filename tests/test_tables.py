"""The tables of the documentation against the JSON files that they come from."""

import json
import pathlib
import re
import statistics

import pytest

from docs import tables
from ncl_tf.paper import settings
from processes import ROOT

RESULTS = ROOT / "results"
METRICS = ("auprc", "auroc", "utility")


def made(name: str, results: pathlib.Path = RESULTS) -> str:
    """Make the table of that name in an empty document."""
    return tables.fill(f"<!-- {name}: from results/ -->\n<!-- end -->", results)


def line(name: str, *start: str) -> list[str]:
    """Find the one line of a table that starts with these cells; returns the others."""
    cells = [[cell.strip() for cell in line.split("|")[1:-1]] for line in made(name).splitlines() if line[:1] == "|"]
    (found,) = [row[len(start) :] for row in cells if row[: len(start)] == list(start)]
    return found


def stored(pattern: str) -> list[dict[str, float]]:
    """Read the metrics of results, x 100."""
    known = [json.loads(path.read_text()) for path in sorted(RESULTS.glob(pattern))]
    return [{name: 100 * result["metrics"][name] for name in METRICS} for result in known]


def test_a_table_is_made_from_results(tmp_path: pathlib.Path) -> None:
    block = "before\n<!-- physionet2019_laptop: from results/ -->\n\n<!-- end -->\nafter"
    assert tables.fill(block, tmp_path) == block  # no results yet
    path = tmp_path / "physionet2019_laptop" / "cl-seed1111" / "sepsis-mlp.json"
    config = settings.configured(("gin/paper/physionet2019/cl.gin", "gin/budgets/laptop.gin"), ())
    path.parent.mkdir(parents=True)
    run = {"budget": "laptop", "dataset": "physionet2019", "cohort_checksum": "abc", "wall_seconds": 2.0}
    metrics = {"auprc": 0.09, "auroc": 0.8, "utility": 0.3}
    result = {"metrics": metrics, "intervals": {}, "run": run, "wall_seconds": 1.0}
    result |= {"protocol": {"patience": 20, "max_epochs": 1000}, "best_epoch": 980, "stopped_by_budget": False}
    result |= {"config": config | {"batch_size": "256", "report_every": "1", "rate": "0.1"}}
    path.write_text(json.dumps(result))
    built = tables.fill(block, tmp_path)
    assert "| CL | 1 | **9.0** | 9.5 ± 0.4 | **80.0** | 80.2 ± 0.4 | **30.0** | 29.7 ± 1.0 |" in built
    assert "or the budget's: CL batch_size = 256, rate = 0.1.)" in built  # what decides about no figure does not count
    assert tables.fill(built, tmp_path) == built
    for change in ({"metrics": metrics | {"auprc": 0.091}}, {"best_epoch": 981}):
        path.write_text(json.dumps(result | change))
        assert tables.fill(built, tmp_path) != built
    assert "| **9.0**† | 9.5" in tables.fill(built, tmp_path)  # epochs were up before patience was


def test_the_headline_is_the_mean_and_deviation_over_seeds() -> None:
    text = made("headline")
    assert [row.split("|")[1].strip() for row in text.splitlines()[3:7]] == ["CL", "NCL(n_w)", "End-to-End", "NCL(n_Y)"]
    found = stored("physionet2019_laptop/ncl_y-seed*/sepsis-mlp.json")
    seeds, *cells = line("headline", "NCL(n_Y)")
    assert int(seeds) == len(found) > 1
    for metric, cell in zip(METRICS, cells[::2], strict=True):
        values = [metrics[metric] for metrics in found]
        assert cell == f"{statistics.fmean(values):.1f} ± {statistics.stdev(values):.1f}"
    assert cells[1::2] == ["10.1 ± 0.3", "80.8 ± 0.2", "31.9 ± 0.9"]  # as the paper prints them
    assert "†" in "".join(line("headline", "End-to-End"))


def test_fractions_of_labels_and_heads_have_lines_of_their_own() -> None:
    found = stored("physionet2019_laptop/cl-seed2222/sepsis-mlp-labels_0.1_*.json")
    seeds, auprc, *_ = line("limited_labels_physionet2019_laptop", "CL", "10%")
    assert (seeds, len(found)) == ("1", 4)
    assert auprc.replace("*", "") == "{:.1f} ± {:.1f}".format(
        *(summary([metrics["auprc"] for metrics in found]) for summary in (statistics.fmean, statistics.stdev))
    )
    (found,) = stored("physionet2019_laptop/scl-seed1111/sepsis-linear.json")
    assert line("physionet2019_laptop", "SCL", "linear")[3] == f"{found['auroc']:.1f}"


@pytest.mark.parametrize(
    ("method", "setting", "folder"),
    [
        ("SCL", "the laptop budget", "physionet2019_laptop/scl"),
        ("SCL", "steps = 60000", "physionet2019_laptop_60000_steps/scl"),
        ("SCL", "steps = 1", "physionet2019_laptop_untrained/scl"),
        ("SCL", "`gin/authors_code.gin`", "physionet2019_laptop_authors_code/scl"),
        ("CLOCS", "queue_size = 65536", "physionet2019_laptop_large_queue/clocs"),
        ("NCL(n_w)", "steps = 12000", "physionet2019_laptop_12000_steps/ncl_w"),
    ],
)
def test_a_variant_is_one_run(method: str, setting: str, folder: str) -> None:
    (linear,), (mlp,) = (stored(f"{folder}-seed1111/sepsis-{head}.json") for head in ("linear", "mlp"))
    expected = [f"{result[metric]:.1f}" for metric in METRICS for result in (linear, mlp)]
    assert line("variants", method, setting) == expected


def test_variants_have_the_papers_figures() -> None:
    assert line("variants", "SCL", "the paper")[:2] == ["6.7 ± 0.6", "6.0 ± 0.5"]


def test_hospitals_are_lines_by_method_and_way(tmp_path: pathlib.Path) -> None:
    assert made("hospitals", tmp_path).splitlines()[1:-1] == [""]  # no results yet
    folder = tmp_path / "physionet2019_hospitals"
    folder.mkdir()
    known = {"metrics": {"auprc": 0.081, "auroc": 0.7649, "utility": -0.012}, "stopped_by_budget": False}
    known |= {"intervals": {"auprc": [0.07, 0.09], "auroc": [0.75, 0.78], "utility": [-0.03, 0.01]}}
    known |= {"best_epoch": 3, "protocol": {"patience": 20, "max_epochs": 100}}
    for name, change in (("ncl_w-A_to_B", {}), ("end_to_end-B_to_A", {"stopped_by_budget": True})):
        (folder / f"{name}.json").write_text(json.dumps(known | change))
    lines = [line for line in made("hospitals", tmp_path).splitlines() if line.startswith("|")]
    assert lines[2:] == [
        "| End-to-End | B | A | 8.1† (7.0 to 9.0) | 76.5† (75.0 to 78.0) | -1.2† (-3.0 to 1.0) |",
        "| NCL(n_w) | A | B | 8.1 (7.0 to 9.0) | 76.5 (75.0 to 78.0) | -1.2 (-3.0 to 1.0) |",
    ]


def test_models_that_ship_are_a_line_for_each_evaluation(tmp_path: pathlib.Path) -> None:
    assert made("shipped", tmp_path / "results").splitlines()[1:-1] == [""]  # no models yet
    (tmp_path / "models").mkdir()
    entry = {"kind": "encoder", "task": "sepsis", "validation": {}, "channels": [], "data": {}, "run": {}, "files": {}}
    entry["figures"] = {"sepsis-mlp": {"auprc": 0.0912, "auroc": 0.8026, "utility": 0.3002}, "stay-mlp": {"kappa": 0.4}}
    index = {"format_version": "1.0", "models": {"a/b": entry}}
    (tmp_path / "models/index.json").write_text(json.dumps(index))
    lines = [line for line in made("shipped", tmp_path / "results").splitlines() if line.startswith("|")]
    assert lines[2:] == [
        "| `a/b` | encoder | `sepsis-mlp` | 9.1 | 80.3 | 30.0 |",
        "| `a/b` | encoder | `stay-mlp` | | | |",
    ]


def test_choices_are_validation_figures() -> None:
    (found,) = stored("physionet2019_laptop_choices/cl-batch_256.json")
    assert line("choices", "CL, MLP head", "6,000 steps of 256") == [*(f"{found[m]:.1f}" for m in METRICS), ""]
    reports = json.loads((RESULTS / "physionet2019_laptop_choices/end_to_end-rate_1e-4.json").read_text())["reports"]
    losses = [report["val_loss"] for report in reports]
    epoch = 1 + losses.index(min(losses))
    expected = f"{min(losses):.3f}, epoch {epoch} of {len(losses)}"
    assert line("choices", "End-to-End", "rate = 0.0001") == ["", "", "", expected]


def test_observations_were_chosen_by_validation_figures() -> None:
    folder = "physionet2019_observed_choices"
    for name, row in {
        "recency_count": "recency, count",
        "recency_count-compress": "recency, count; inputs compressed",
        "recency_count-dropout_0.3": "recency, count; measurement dropout 0.3",
    }.items():
        (found,) = stored(f"{folder}/observed_ncl_w-{name}.json")
        assert line("observations", "NCL(n_w)", row, "6,000", "MLP") == [f"{found[metric]:.1f}" for metric in METRICS]
    known = [json.loads(path.read_text()) for path in (RESULTS / folder).glob("*.json")]
    assert {result["settings"]["split"] for result in known} == {"val"}


def test_measurements_are_those_of_the_benchmarks() -> None:
    rows = json.loads((RESULTS / "benchmark_step.json").read_text())["rows"]
    row = next(row for row in rows if row["step"] == "n_Y")
    fast = f"{row['fast s']:.3g} s, {row['fast GiB']:.1f} GiB"
    ratios = [f"{row[f'{form} s'] / row['fast s']:.1f}" for form in ("readable", "readable with XLA")]
    assert line("benchmarks", "training step, n_Y")[2:] == [fast, *ratios]
    (small,) = (row for row in rows if row["batch"] == 256)
    assert line("sizes", "256", "16,384") == [f"{small['fast s']:.3g} s, {small['fast GiB']:.1f} GiB"]
    served = json.loads((RESULTS / "benchmark_serve.json").read_text())["rows"]
    assert line("rates", "score_stay, a stay at a time") == [f"{served[1]['hours/s']:,.0f} hours per second"]
    assert not re.search(r"nan|None", made("benchmarks") + made("rates") + made("sizes"))


def test_metrics_of_a_ward_are_a_line_of_rates(tmp_path: pathlib.Path) -> None:
    row = {"ward": "all metrics", "hours": 312078, "stays": 8066, "CPU seconds": 3.14}
    content = {"rows": [row], "machine": {"cores": 2, "processor": "X"}}
    (tmp_path / "benchmark_ward.json").write_text(json.dumps(content))
    assert "| all metrics, 312,078 hours of 8,066 stays | 3.1 s of CPU time |" in made("rates", tmp_path)
    assert "all metrics" not in made("benchmarks", tmp_path)
