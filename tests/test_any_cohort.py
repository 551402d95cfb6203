"""Cohorts that are not the paper's, as users train on them, choose alpha and window, and score other stays."""

import json
import pathlib

import numpy as np
import pandas as pd
import pytest
from sklearn.metrics import average_precision_score, roc_auc_score

from exports import tables, write_export
from ncl_tf.data.cohort import Cohort
from ncl_tf.data.declaration import Task
from ncl_tf.data.splits import SPLITS
from ncl_tf.paper import tables as paper_tables
from ncl_tf.paper.plan import Plan
from refusals import refused

SMOKE = ["--gin_file=gin/budgets/smoke.gin", "--gin_param=dilations = (24,)", "--gin_param=filters = 8"]
TASKS = ["sepsis/eicu_demo", "aki/eicu_demo", "los/eicu_demo", "mortality24/eicu_demo", "aki/mimic_demo"]


def done(run, *command) -> str:
    result = run(*command)
    assert result.returncode == 0, result.stderr
    return result.stdout


def prepare(run, source: pathlib.Path, output: pathlib.Path) -> pathlib.Path:
    done(run, "bin/prepare", "yaib", f"--source={source}", f"--output={output}", "--keep_raw")
    return output


@pytest.mark.parametrize(("task", "metric"), [(Task("aki"), "auprc"), (Task("los", "bins", (24, 48)), "kappa")])
def test_a_search_is_named_after_task_and_metric_and_chooses_on_validation_data(task, metric):
    table = paper_tables.load_table(paper_tables.of_task("window_alpha", task))
    assert [(column.task, column.metric, column.head) for column in table.columns] == [(task.name, metric, "mlp")]
    assert (table.split, table.name, len(table.rows)) == ("val", f"window_alpha-{metric}-{task.name}", 35)
    with refused("table must be one of", "got 'window_alpha'"):
        paper_tables.load_table("window_alpha")


def test_jobs_of_a_search_are_of_the_recipes_for_any_cohort(mimic_ward_cohort, tmp_path):
    name = paper_tables.of_task("window_alpha", Cohort(mimic_ward_cohort).tasks[1])
    plan = Plan(paper_tables.load_table(name), str(mimic_ward_cohort), "smoke", 1, output=str(tmp_path))
    training, evaluation = plan.jobs()[:2]
    assert training.arguments[0] == "--gin_file=gin/beyond/table/ncl_w.gin"
    assert evaluation.arguments[2:] == ("--task=length_of_stay", "--head=mlp", "--split=val")


def test_from_an_export_of_yaib_to_a_search_and_another_hospital(run, tmp_path):
    """Without a file of the paper's datasets: one point of the search, then the same run on other stays."""
    cohort = prepare(run, write_export(tmp_path / "aki/here", tables("aki", seed=1)), tmp_path / "here.h5")
    other = prepare(run, write_export(tmp_path / "aki/there", tables("aki", stays=30, seed=2)), tmp_path / "there.h5")
    search = ["--budget=smoke", "--seeds=1", "--methods=window_8-alpha_0.3", f"--output={tmp_path / 'search'}"]
    search += [flag.replace("--gin_file=gin/budgets/smoke.gin", "--cpus_per_job=1") for flag in SMOKE]
    printed = done(run, "bin/reproduce", "--table=window_alpha", f"--cohort={cohort}", *search)
    run_dir = tmp_path / "search/runs/ncl_w-alpha_0.3-window_8-seed1111"
    found = json.loads((run_dir / "evaluations/aki-mlp-val.json").read_text())
    assert f"{100 * found['metrics']['auprc']:.1f}" in printed and "those of" not in printed
    assert found["protocol"]["balanced"] is False and found["config"]["momentum"] == "0.99"
    printed = done(run, "bin/evaluate", f"--run_dir={run_dir}", f"--external={other}", "--head=linear")
    assert "aki-linear-external_there on all stays of there, best epoch 1 of 1" in printed
    elsewhere = json.loads((run_dir / "evaluations/aki-linear-external_there.json").read_text())
    assert (elsewhere["external"]["stays"], elsewhere["external"]["dataset"]) == (30, "yaib")
    done(run, "bin/report", f"--runs={run_dir}", f"--output={tmp_path / 'report.html'}")
    page = (tmp_path / "report.html").read_text()
    assert "aki, linear head, all stays of there" in page and "--external=there.h5" in page
    refusal = run("bin/reproduce", "--table=physionet2019", "--task=aki", f"--cohort={cohort}")
    assert refusal.returncode == 1 and "--task is for the tables of any cohort, window_alpha" in refusal.stderr


def train(run, method: str, cohort: pathlib.Path, run_dir: pathlib.Path) -> pathlib.Path:
    task = [f"--gin_param=task = '{Cohort(cohort).tasks[0].name}'"] if method == "ncl_y" else []
    data = [f"--gin_file=gin/beyond/table/{method}.gin", f"--gin_param=cohort = '{cohort}'", f"--run_dir={run_dir}"]
    done(run, "bin/train", *data[:1], *SMOKE, *data[1:], *task)
    return run_dir


@pytest.mark.slow
@pytest.mark.parametrize("source", TASKS)
@pytest.mark.parametrize("method", ["ncl_w", "ncl_y"])
def test_every_demo_is_trained_evaluated_exported_and_predicted(yaib_demo, source, method, run, tmp_path):
    """Predictions of raw stays by the export are those of the evaluation."""
    cohort = prepare(run, yaib_demo / source, tmp_path / "demo.h5")
    task, run_dir = source.split("/")[0], train(run, method, cohort, tmp_path / "run")
    done(run, "bin/evaluate", f"--run_dir={run_dir}")
    done(run, "bin/export", f"--run_dir={run_dir}", f"--output={tmp_path / 'encoder'}")
    dyn, sta = (pd.read_parquet(yaib_demo / source / f"{name}.parquet") for name in ("dyn", "sta"))
    names = Cohort(cohort)["test"].stay_names.astype(int)[:3]
    table = dyn[dyn["stay_id"].isin(names)].merge(sta, on="stay_id")
    table["time"] = (table["time"] / pd.Timedelta(hours=1)).astype(int)
    table.rename(columns={"stay_id": "stay"}).to_csv(tmp_path / "stays.csv", index=False)
    model = run_dir / "evaluations" / f"{task}-mlp" / "classifier"
    done(
        run,
        "bin/predict",
        f"--model={model}",
        f"--input={tmp_path / 'stays.csv'}",
        f"--output={tmp_path / 'out'}",
        "--format=parquet",
    )
    predicted = pd.read_parquet(tmp_path / "out/predictions.parquet")
    evaluated = pd.read_parquet(run_dir / "evaluations" / f"{task}-mlp.parquet")
    merged = predicted.astype({"stay": str}).merge(evaluated, on=["stay", "hour"], suffixes=("", "_evaluated"))
    assert len(merged) == len(table)
    np.testing.assert_allclose(merged["probability_1"], merged["probability_1_evaluated"], atol=1e-5)


@pytest.mark.slow
def test_a_model_of_eicu_on_mimic(yaib_demo, run, tmp_path):
    """All stays of the other database; metrics are those of scikit-learn on predictions by the exported classifier."""
    import ncl_tf

    here, there = (prepare(run, yaib_demo / f"aki/{name}_demo", tmp_path / f"{name}.h5") for name in ("eicu", "mimic"))
    run_dir = train(run, "ncl_w", here, tmp_path / "run")
    for flags in [], [f"--external={there}"]:
        done(run, "bin/evaluate", f"--run_dir={run_dir}", *flags)
    result = json.loads((run_dir / "evaluations/aki-mlp-external_mimic.json").read_text())
    dyn, sta, outc = (pd.read_parquet(yaib_demo / f"aki/mimic_demo/{name}.parquet") for name in ("dyn", "sta", "outc"))
    model = ncl_tf.load(run_dir / "evaluations/aki-mlp/classifier")
    table = dyn.merge(sta, on="stay_id").merge(outc, on=["stay_id", "time"], how="left")
    table["time"] = table["time"] / pd.Timedelta(hours=1)
    scored = [
        stay.assign(probability=model.score(stay.drop(columns=["label", "stay_id"]))[:, 1])
        for _, stay in table.sort_values("time").groupby("stay_id")
    ]
    found = pd.concat(scored).dropna(subset="label")
    label, probability = found["label"].astype(int), found["probability"]
    assert (
        result["external"]["stays"]
        == sta["stay_id"].nunique()
        == sum(len(Cohort(there)[split].stay_names) for split in SPLITS)
    )
    assert result["metrics"]["auroc"] == pytest.approx(roc_auc_score(label, probability), abs=1e-4)
    assert result["metrics"]["auprc"] == pytest.approx(average_precision_score(label, probability), abs=1e-4)
