"""Comparisons of evaluations: a plain paired bootstrap over stays with scikit-learn, and what cannot be compared."""

import json
import pathlib
import shutil

import numpy as np
import pandas as pd
import pytest
from sklearn.metrics import average_precision_score, brier_score_loss, cohen_kappa_score, roc_auc_score

from ncl_tf.evaluation.metrics import binary_metrics, multiclass_metrics
from ncl_tf.evaluation.paired import compare_evaluations
from ncl_tf.reporting.figures import differences
from refusals import refused

STAYS = 40


def write(folder: pathlib.Path, name: str, skill: float, seed: int, task: str = "sepsis", **changes) -> pathlib.Path:
    """Write an evaluation of random stays, the same for all seeds, that has found some of the truth."""
    random = np.random.default_rng(0)
    lengths = random.integers(3, 12, STAYS)
    stay = np.repeat([f"p{number:03d}" for number in range(STAYS)], lengths)
    hour = np.concatenate([np.arange(length) for length in lengths])
    ill = np.repeat(random.random(STAYS) < 0.4, lengths) & (hour >= 2)
    label = ill.astype(float) if task == "sepsis" else random.integers(0, 90, len(hour)).astype(float)
    label[5] = np.nan
    labelled = ~np.isnan(label)
    classes = np.nan_to_num(label).astype(int) if task == "sepsis" else np.digitize(np.nan_to_num(label), (24, 48))
    noise = np.random.default_rng(seed)
    scores = skill * (classes[:, None] == np.arange(classes.max() + 1)) + noise.normal(
        size=(len(hour), classes.max() + 1)
    )
    p = np.exp(scores)
    p = (p / p.sum(1, keepdims=True)).astype(np.float32)
    table = pd.DataFrame({"stay": stay, "hour": hour, "label": label})
    if task != "sepsis":
        table["class"] = pd.array(classes, "Int32")
        table.loc[5, "class"] = pd.NA
        metrics = multiclass_metrics(p[labelled], classes[labelled])
    else:
        of_labelled = np.bincount(np.repeat(np.arange(STAYS), lengths)[labelled])
        metrics = binary_metrics(p[labelled, 1].astype(float), classes[labelled], of_labelled, utility=True)
    for column in range(p.shape[1]):
        table[f"probability_{column}"] = p[:, column]
    folder.mkdir(exist_ok=True)
    table.to_parquet(folder / f"{name}.parquet")
    result = {"settings": {"task": task, "split": "test"}, "metrics": metrics, "run": {"dataset": "physionet2019"}}
    (folder / f"{name}.json").write_text(json.dumps(result | changes))
    return folder / f"{name}.json"


def drawn(resamples: int, stays: int = STAYS) -> list[np.ndarray]:
    """Cohorts of stays drawn with replacement, by the generator that the intervals of evaluations use, too."""
    random = np.random.default_rng(0)
    return [random.integers(stays, size=stays) for _ in range(resamples)]


def cohorts(path: pathlib.Path, resamples: int) -> list[pd.DataFrame]:
    """The labelled hours of an evaluation's predictions in each of these cohorts."""
    table = pd.read_parquet(path.with_suffix(".parquet"))
    by_stay = dict(list(table[table["label"].notna()].groupby("stay")))
    return [pd.concat([by_stay[f"p{number:03d}"] for number in chosen]) for chosen in drawn(resamples)]


def test_a_plain_paired_bootstrap_finds_the_same(tmp_path):
    paths = [write(tmp_path, "a", 1.0, 1), write(tmp_path, "b", 2.0, 2), write(tmp_path, "c", 1.0, 3)]
    found = compare_evaluations(paths, resamples=25)
    assert (found["stays"], found["resamples"]) == (STAYS, 25)
    tables = [pd.read_parquet(path.with_suffix(".parquet")).dropna() for path in paths]
    resampled = [cohorts(path, 25) for path in paths]
    functions = {"auroc": roc_auc_score, "auprc": average_precision_score, "brier": brier_score_loss}
    for metric, function in functions.items():
        whole = [function(table["label"], table["probability_1"]) for table in tables]
        values = np.array([[function(rows["label"], rows["probability_1"]) for rows in of] for of in resampled])
        for number, name in ((1, "b"), (2, "c")):
            expected = values[number] - values[0]
            (line,) = [one for one in found["differences"] if (one["evaluation"], one["metric"]) == (name, metric)]
            np.testing.assert_allclose(line["interval"], np.percentile(expected, [2.5, 97.5]), rtol=1e-5, atol=1e-7)
            assert line["share_above_zero"] == np.mean(expected > 0)
            assert line["difference"] == pytest.approx(whole[number] - whole[0], abs=1e-7)
    better = [one for one in found["differences"] if one["metric"] == "auroc"]
    assert better[0]["interval"][0] > 0 > better[1]["interval"][0]  # skill is found, chance is not


def test_bins_are_compared_by_kappa(tmp_path):
    paths = [write(tmp_path, name, skill, seed, "length_of_stay") for name, skill, seed in (("a", 1, 1), ("b", 2, 2))]
    found = compare_evaluations(paths, resamples=15)
    kappas = []
    for rows in (rows for path in paths for rows in cohorts(path, 15)):
        predicted = rows[[f"probability_{k}" for k in range(3)]].to_numpy().argmax(1)
        kappas.append(cohen_kappa_score(rows["class"].astype(int), predicted, weights="linear"))
    resampled = np.subtract(kappas[15:], kappas[:15])
    (line,) = [one for one in found["differences"] if one["metric"] == "kappa"]
    np.testing.assert_allclose(line["interval"], np.percentile(resampled, [2.5, 97.5]), rtol=1e-9)


def test_the_order_of_stays_does_not_matter(tmp_path):
    paths = [write(tmp_path, "a", 1.0, 1), write(tmp_path, "b", 2.0, 2)]
    expected = compare_evaluations(paths, resamples=5)["differences"]
    table = pd.read_parquet(tmp_path / "b.parquet")
    stays = [part for _, part in table.groupby("stay")]
    pd.concat(stays[::-1]).to_parquet(tmp_path / "b.parquet")
    for one, same in zip(expected, compare_evaluations(paths, resamples=5)["differences"], strict=True):
        np.testing.assert_allclose(one.pop("interval"), same.pop("interval"))
        assert one == pytest.approx(same)


def changed(path: pathlib.Path, change) -> None:
    table = pd.read_parquet(path.with_suffix(".parquet"))
    change(table).to_parquet(path.with_suffix(".parquet"))


@pytest.mark.parametrize(
    ("change", "named"),
    [
        (lambda table: table[table["stay"] != "p007"], "39, of which 39 are the same & 'p007'"),
        (lambda table: table.replace({"stay": {"p007": "q007"}}), "39 are the same & 'p007'"),
        (lambda table: table.assign(label=table["label"].mask(table.index == 20, 1 - table["label"])), "labels of"),
        (lambda table: table.drop(index=20), "labels of & differ at stay"),
        (lambda table: table.assign(probability_1=table["probability_0"]), "must hold the predictions of & auroc"),
    ],
)
def test_evaluations_of_other_hours_are_refused(change, named, tmp_path):
    paths = [write(tmp_path, "a", 1.0, 1), write(tmp_path, "b", 2.0, 2)]
    changed(paths[1], change)
    with refused("b", named):
        compare_evaluations(paths, resamples=2)


def test_other_tasks_and_splits_and_missing_files_are_refused(tmp_path):
    first = write(tmp_path, "a", 1.0, 1)
    split = write(tmp_path, "split", 1.0, 2, settings={"task": "sepsis", "split": "val"})
    task = write(tmp_path, "task", 1.0, 2, settings={"task": "shock", "split": "test"})
    alone = pathlib.Path(shutil.copy(first, tmp_path / "alone.json"))
    other = tmp_path / "other.json"
    other.write_text("{}")
    for paths, named in (
        ([first], "two evaluations or more, got 1"),
        ([first, first], "must differ, got a twice"),
        ([first, split], "split must be 'test' & got 'val'"),
        ([first, task], "task must be 'sepsis' & got 'shock'"),
        ([first, alone], "alone.parquet: no such file & bin/evaluate"),
        ([first, other], "other.json: must be the JSON of an evaluation & lacks metrics, run, settings"),
    ):
        with refused(named):
            compare_evaluations(paths, resamples=2)


def test_the_program_writes_a_table_a_figure_and_json(tmp_path, run):
    paths = [write(tmp_path, "a", 1.0, 1), write(tmp_path, "b", 2.0, 2)]
    done = run("bin/compare", *paths, "--resamples=20", f"--output={tmp_path}/out")
    assert done.returncode == 0, done.stderr
    found = json.loads((tmp_path / "out" / "comparison.json").read_text())
    assert done.stdout.startswith((tmp_path / "out" / "comparison.md").read_text())
    names = ["comparison.json", "comparison.md", *(f"differences.{form}" for form in ("csv", "json", "png", "svg"))]
    assert sorted(path.name for path in (tmp_path / "out").iterdir()) == sorted(names)
    (line,) = [one for one in found["differences"] if one["metric"] == "auprc"]
    low, high = line["interval"]
    cell = f"{100 * line['difference']:+.2f} [{100 * low:.2f}, {100 * high:.2f}]"
    assert cell in done.stdout
    drawn_data = pd.read_csv(tmp_path / "out" / "differences.csv")
    assert drawn_data["low"].tolist() == pytest.approx([one["interval"][0] for one in found["differences"]])
    refusal = run("bin/compare", paths[0])
    assert (refusal.returncode, refusal.stderr) == (1, "error: a comparison must have two evaluations or more, got 1\n")


def test_a_difference_is_marked_where_its_interval_excludes_zero(tmp_path):
    found = compare_evaluations([write(tmp_path, "a", 0.0, 1), write(tmp_path, "b", 3.0, 2)], resamples=20)
    rows = [line.split(" | ") for line in differences.markdown(found).splitlines()[:4]]
    column = rows[0].index("AUROC")
    assert rows[2][0] == "| a" and rows[3][0] == "| b"
    assert rows[3][column].endswith("]*")
