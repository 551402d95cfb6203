"""All test stays of the real PhysioNet 2019: raw files in, the probabilities of bin/evaluate out."""

import numpy as np
import pytest

from ncl_tf.data.sources import physionet2019


@pytest.mark.slow
@pytest.mark.parametrize("observations", [None, "recency,count,measured,change"])
def test_all_test_stays_score_as_evaluated(
    observations, physionet2019_zips, physionet2019_cohort, export, run, score_alone, tmp_path
):
    cohort = physionet2019_cohort
    if observations:
        cohort = tmp_path / "observed.h5"
        sources = (f"--source={path}" for path in physionet2019_zips)
        done = run("bin/prepare", "physionet2019", *sources, f"--observations={observations}", f"--output={cohort}")
        assert done.returncode == 0, done.stderr
    sizes = {"steps": 20, "batch_size": 512, "queue_size": 4096, "report_every": 20}
    model = export(cohort, tmp_path / "run", **sizes)
    folder = tmp_path / "stays"
    assert len(model.predictions) == 8066
    assert sum(map(len, model.predictions.values())) == 312_078
    folder.mkdir()
    for stay, _, read in physionet2019.find_stays(physionet2019_zips):
        if stay in model.predictions:
            (folder / f"{stay}.psv").write_bytes(read())
    _, scores = score_alone(model.folder, folder, streamed_every=40)
    done = run("bin/predict", f"--model={model.folder}", f"--input={folder}", f"--output={tmp_path / 'psv'}")
    assert "written: 8,066 stays, 312,078 hours" in done.stdout, done.stderr

    for stay, probabilities in model.predictions.items():
        np.testing.assert_allclose(scores[stay], probabilities, rtol=0, atol=1e-5)
        np.testing.assert_allclose(scores[f"risk_{stay}"], model.risks[stay], rtol=0, atol=1e-5)
        lines = (tmp_path / f"psv/{stay}.psv").read_text().splitlines()[1:]
        predicted = np.array([line.split("|")[0] for line in lines], float)
        np.testing.assert_allclose(predicted, probabilities[:, 1], rtol=0, atol=1e-5)
        if f"stream_{stay}" in scores:
            np.testing.assert_allclose(scores[f"stream_{stay}"], probabilities, rtol=0, atol=1e-5)
            np.testing.assert_allclose(scores[f"risk_stream_{stay}"], model.risks[stay], rtol=0, atol=1e-5)
    assert sum(name.startswith("stream_") for name in scores) == 202
