"""All test stays of the real PhysioNet 2019: raw files in, the probabilities of bin/evaluate out."""

import numpy as np
import pytest

from ncl_tf.data.sources import physionet2019

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


@pytest.mark.slow
def test_all_test_stays_score_as_evaluated(physionet2019_zips, physionet2019_cohort, export, run, alone, tmp_path):
    sizes = {"steps": 20, "batch_size": 512, "queue_size": 4096, "report_every": 20}
    model = export(physionet2019_cohort, tmp_path / "run", **sizes)
    folder = tmp_path / "stays"
    assert len(model.predictions) == 8066
    assert sum(map(len, model.predictions.values())) == 312_078
    folder.mkdir()
    for stay, _, read in physionet2019.find_stays(physionet2019_zips):
        if stay in model.predictions:
            (folder / f"{stay}.psv").write_bytes(read())
    alone(SCORE, model.folder, folder, tmp_path / "out.npz")
    done = run("bin/predict", f"--model={model.folder}", f"--input={folder}", f"--output={tmp_path / 'psv'}")
    assert "written: 8,066 stays, 312,078 hours" in done.stdout, done.stderr

    scores, streamed = np.load(tmp_path / "out.npz"), 0
    for stay, probabilities in model.predictions.items():
        np.testing.assert_allclose(scores[stay], probabilities, rtol=0, atol=1e-5)
        lines = (tmp_path / f"psv/{stay}.psv").read_text().splitlines()[1:]
        predicted = np.array([line.split("|")[0] for line in lines], float)
        np.testing.assert_allclose(predicted, probabilities[:, 1], rtol=0, atol=1e-5)
        if f"stream_{stay}" in scores:
            np.testing.assert_allclose(scores[f"stream_{stay}"], probabilities, rtol=0, atol=1e-5)
            streamed += 1
    assert streamed == 202
