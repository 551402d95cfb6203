"""bin/export and bin/predict, as users run them."""

import json
import pathlib
import shutil

import h5py
import numpy as np
import pandas as pd
import pyarrow.parquet
import pytest

from ncl_tf.data import Cohort
from ncl_tf.data.sources import raw
from ncl_tf.evaluation.predictions import Scores, write
from ncl_tf.serving import predict
from refusals import refused


@pytest.fixture(scope="module")
def copied(exported, run, tmp_path_factory) -> pathlib.Path:
    """The model as bin/export wrote it."""
    folder = tmp_path_factory.mktemp("exported") / "model"
    done = run("bin/export", f"--run_dir={exported.run}", f"--output={folder}")
    assert done.returncode == 0, done.stderr
    assert "the classifier of" in done.stdout
    return folder


@pytest.fixture(scope="module")
def stays(stay_files, tmp_path_factory) -> pathlib.Path:
    """The files of the test split; in one of them, HR is 400 twice and Temp 20 once."""
    folder = shutil.copytree(stay_files, tmp_path_factory.mktemp("changed") / "stays")
    first = min(folder.iterdir())
    rows = [row.split("|") for row in first.read_text().splitlines()]
    rows[-2][0] = rows[-1][0] = "400"
    rows[-1][2] = "20"
    first.write_text("\n".join(map("|".join, [*rows, [""]])))
    return folder


def test_psv_in_psv_out(copied, stays, exported, run, tmp_path):
    done = run("bin/predict", f"--model={copied}", f"--input={stays}", f"--output={tmp_path / 'out'}")
    assert done.returncode == 0, done.stderr
    changed = sorted(stays.iterdir())[0].stem
    hours = sum(map(len, exported.predictions.values()))
    assert f"written: {len(exported.predictions)} stays, {hours:,} hours" in done.stdout
    assert "HR: 2 values outside the plausible range, treated as missing" in done.stdout
    assert "Temp: 1 values outside" in done.stdout
    written = sorted((tmp_path / "out").iterdir())
    assert [path.name for path in written] == sorted(f"{stay}.psv" for stay in exported.predictions)
    for path in written:
        header, *lines = path.read_text().splitlines()
        assert header == "PredictedProbability|PredictedLabel"
        cells = np.array([line.split("|") for line in lines], float)
        expected = exported.predictions[path.stem]
        assert len(cells) == len(expected)
        same = slice(0, -2 if path.stem == changed else None)
        np.testing.assert_allclose(cells[same, 0], expected[same, 1], rtol=0, atol=1e-5)
        np.testing.assert_array_equal(cells[:, 1], cells[:, 0] > 0.5)


def test_table_in_parquet_out(copied, ward, exported, run, tmp_path):
    """The ward's files as one table, rows in no order and one hour of the first stay left out."""
    names = sorted(exported.predictions)[:6]
    rows = [pd.read_csv(ward / f"{name}.psv", sep="|", dtype=str).assign(patient=name) for name in names]
    rows[0] = rows[0].drop(index=3)
    table = pd.concat(rows).sample(frac=1, random_state=1)
    table.to_csv(tmp_path / "hourly.csv", index=False, na_rep="NaN")
    flags = [f"--model={copied}", f"--input={tmp_path / 'hourly.csv'}", "--stay=patient", "--format=parquet"]
    done = run("bin/predict", *flags, f"--output={tmp_path / 'out'}")
    assert done.returncode == 0, done.stderr
    frame = pyarrow.parquet.read_table(tmp_path / "out/predictions.parquet").to_pandas()
    assert list(frame.columns) == ["stay", "hour", "probability_0", "probability_1", "risk"]
    assert list(frame["stay"].unique()) == names
    for name, stay in zip(names, rows, strict=True):
        part = frame[frame["stay"] == name]
        assert list(part["hour"]) == stay["ICULOS"].astype(float).tolist()
        if name != names[0]:
            np.testing.assert_allclose(part["probability_1"], exported.predictions[name][:, 1], rtol=0, atol=1e-5)
            np.testing.assert_allclose(part["risk"], exported.risks[name], rtol=0, atol=1e-5)


def test_a_cohort_is_scored_as_evaluated(model, exported, ward_cohort, tmp_path):
    hours = []
    scores = predict.score_cohort(model, Cohort(ward_cohort), "test", hours.append)
    expected = np.concatenate(list(exported.predictions.values()))
    np.testing.assert_allclose(scores.probabilities, expected, rtol=0, atol=1e-5)
    np.testing.assert_allclose(scores.risks, np.concatenate(list(exported.risks.values())), rtol=0, atol=1e-5)
    assert list(scores.names) == list(exported.predictions)
    assert sum(hours) == len(scores.hours)
    write(tmp_path / "out", scores, "csv")
    assert (
        (tmp_path / "out/predictions.csv")
        .read_text()
        .startswith('"stay","hour","probability_0","probability_1","risk"\n')
    )


def test_a_cohort_of_another_model_is_refused(model, mimic_ward_cohort):
    with refused(mimic_ward_cohort, "another list of channels"):
        predict.score_cohort(model, Cohort(mimic_ward_cohort), "test", lambda hours: None)


@pytest.mark.parametrize("what", ["mean", "scale", "high", "checksum alone", "count_mean", "count_scale"])
def test_a_cohort_that_was_prepared_otherwise_in_one_number_is_refused(what, request, tmp_path):
    """The cohort of training, with one number of HR's preparation changed, or with a changed remark that has no effect."""
    of_training = ["observed_model", "observed_cohort"] if "count" in what else ["model", "ward_cohort"]
    model, cohort = (request.getfixturevalue(name) for name in of_training)
    path = shutil.copy(cohort, tmp_path / "other.h5")
    with h5py.File(path, "r+") as file:
        preparation = json.loads(file.attrs["preprocessor"])
        position = [channel["name"] for channel in preparation["dataset"]["channels"]].index("HR")
        if what in preparation:
            preparation[what][position] *= 2
        elif what == "high":
            preparation["dataset"]["channels"][position]["high"] = 250
        else:
            preparation["dataset"]["channels"][position]["unit"] = "per minute"
        file.attrs["preprocessor"] = json.dumps(preparation)
    if what == "checksum alone":
        assert len(predict.score_cohort(model, Cohort(path), "test", lambda hours: None).hours)
        return
    with refused("other.h5", f"another {'range' if what == 'high' else what} of HR"):
        predict.score_cohort(model, Cohort(path), "test", lambda hours: None)


def test_files_without_labels_are_read(model, stays, tmp_path):
    """The challenge hides the last column from those who predict."""
    path = sorted(stays.iterdir())[1]
    lines = [line.rsplit("|", 1)[0] for line in path.read_text().splitlines()]
    (tmp_path / path.name).write_text("\n".join([*lines, ""]))
    (_, with_labels), (_, without) = (raw.psv_stays([p], model.dataset) for p in (path, tmp_path / path.name))
    one, other = next(with_labels), next(without)
    np.testing.assert_array_equal(one.stays.values, other.stays.values)
    assert other.stays.lengths.tolist() == [len(lines) - 1]


def test_many_hours_are_scored_in_batches_of_whole_stays(model, stays, monkeypatch):
    _, parts = raw.psv_stays([stays], model.dataset)
    part = next(parts)
    expected = predict.score_raw(model, *part)
    monkeypatch.setattr(predict, "BATCH", 100)
    found = predict.score_raw(model, *part)
    np.testing.assert_allclose(found.probabilities, expected.probabilities, rtol=0, atol=1e-6)
    np.testing.assert_allclose(found.risks, expected.risks, rtol=0, atol=1e-6)


def test_what_cannot_be_read_is_refused(model, stays, ward_cohort, mimic_ward_cohort, tmp_path):
    (tmp_path / "hourly.csv").write_text("stay,hour,HR\n1,0,80\n")
    table, other = tmp_path / "hourly.csv", Cohort(mimic_ward_cohort).preprocessor.dataset
    for paths, dataset, named in [
        ([table], model.dataset, "one column 'ICULOS' & got 0 among stay, hour, HR"),
        ([table, stays], model.dataset, "hourly.csv & the only --input"),
        ([stays], other, ".psv files & Height, Hours"),
    ]:
        with refused(named):
            raw.read_raw(paths, dataset, "stay", None)
    for stay, classes, named in [("a", 10, "2 classes & csv or parquet"), ("../a", 2, "stay '../a'  & csv or parquet")]:
        with refused(named):
            shares = np.full((1, classes), 1 / classes)
            write(tmp_path / "out", Scores(np.array([stay]), np.array([1]), np.array([0]), shares), "psv")
    assert not (tmp_path / "out").exists()
