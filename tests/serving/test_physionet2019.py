"""All test stays of the real PhysioNet 2019: raw files in, the probabilities of bin/evaluate out."""

import numpy as np
import pyarrow.parquet
import pytest

from data_prep import physionet2019
from ncl_tf.data import Cohort

# Reads the files with Python alone; every 40th stay is followed hour by hour, too.
SCORE = """
import json
import pathlib
import sys

import numpy as np
import tensorflow as tf

model, stays, output = map(pathlib.Path, sys.argv[1:])
inputs = json.loads((model / "model.json").read_text())["inputs"]
functions, results = tf.saved_model.load(str(model / "1")), {}
for number, path in enumerate(sorted(stays.iterdir())):
    header, *lines = [line.split("|") for line in path.read_text().splitlines()]
    rows = np.array(lines, np.float32)
    values, static = (rows[:, [header.index(name) for name in inputs[part]]] for part in ("values", "static"))
    results[path.stem] = functions.score_stay(values, static[:1])["probabilities"].numpy()
    if number % 40 == 0:
        state, hours = np.full([1, 47, 40], np.nan, np.float32), []
        for row in values:
            following = functions.score_next(row[None], static[:1], state)
            hours.append(following["probabilities"][0])
            state = following["state"]
        results["stream_" + path.stem] = np.stack(hours)
np.savez(output, **results)
"""
SETTINGS = {"steps": 20, "batch_size": 512, "queue_size": 4096, "report_every": 20, "jit_compile": False}


@pytest.mark.slow
def test_all_test_stays_score_as_evaluated(physionet2019_zips, physionet2019_cohort, run, alone, tmp_path):
    trained, folder = tmp_path / "run", tmp_path / "stays"
    macros = [f"--gin_param={name} = {value}" for name, value in SETTINGS.items()]
    macros.append(f"--gin_param=cohort = '{physionet2019_cohort}'")
    for command in (
        ["bin/train", "--gin_file=gin/paper/physionet2019/ncl_w.gin", *macros, f"--run_dir={trained}"],
        ["bin/evaluate", f"--run_dir={trained}", "--gin_param=protocol.max_epochs = 1"],
        ["bin/export", f"--run_dir={trained}", f"--output={tmp_path / 'model'}"],
    ):
        done = run(*command)
        assert done.returncode == 0, done.stderr
    names = set(Cohort(physionet2019_cohort)["test"].stay_names)
    assert len(names) == 8066
    folder.mkdir()
    for stay, _, read in physionet2019.find_stays(physionet2019_zips):
        if stay in names:
            (folder / f"{stay}.psv").write_bytes(read())
    alone(SCORE, tmp_path / "model", folder, tmp_path / "out.npz")
    done = run("bin/predict", f"--model={tmp_path / 'model'}", f"--input={folder}", f"--output={tmp_path / 'psv'}")
    assert "written: 8,066 stays, 312,078 hours" in done.stdout, done.stderr

    expected = pyarrow.parquet.read_table(trained / "evaluations/sepsis-mlp.parquet").to_pandas()
    assert len(expected) == 312_078
    scores = np.load(tmp_path / "out.npz")
    streamed = 0
    for stay, part in expected.groupby("stay"):
        probabilities = part[["probability_0", "probability_1"]].to_numpy()
        np.testing.assert_allclose(scores[stay], probabilities, rtol=0, atol=1e-5)
        lines = (tmp_path / f"psv/{stay}.psv").read_text().splitlines()[1:]
        predicted = np.array([line.split("|")[0] for line in lines], float)
        np.testing.assert_allclose(predicted, probabilities[:, 1], rtol=0, atol=1e-5)
        if f"stream_{stay}" in scores.files:
            np.testing.assert_allclose(scores[f"stream_{stay}"], probabilities, rtol=0, atol=1e-5)
            streamed += 1
    assert streamed == 202
