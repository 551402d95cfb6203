"""All test stays of the real PhysioNet 2019: raw files in, the probabilities of bin/evaluate out."""

import numpy as np
import pytest

from ncl_tf.data.exports import read_card
from ncl_tf.data.sources import physionet2019
from ncl_tf.evaluation.calibration import Calibrator


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

    calibrator = read_card(model.folder)["evaluation"]["calibration"]["calibrator"]

    def same_risk(found: np.ndarray, probabilities: np.ndarray) -> bool:
        """Whether risks are those of nearly the same probabilities; an isotonic curve may be steep between two of them."""
        low, high = (Calibrator.from_json(calibrator)(probabilities[:, 1] + shift) for shift in (-2e-6, 2e-6))
        return bool(((found >= low - 1e-6) & (found <= high + 1e-6)).all())

    for stay, probabilities in model.predictions.items():
        np.testing.assert_allclose(scores[stay], probabilities, rtol=0, atol=1e-5)
        assert same_risk(scores[f"risk_{stay}"], probabilities)
        assert same_risk(model.risks[stay], probabilities)
        lines = (tmp_path / f"psv/{stay}.psv").read_text().splitlines()[1:]
        predicted = np.array([line.split("|")[0] for line in lines], float)
        np.testing.assert_allclose(predicted, probabilities[:, 1], rtol=0, atol=1e-5)
        if f"stream_{stay}" in scores:
            np.testing.assert_allclose(scores[f"stream_{stay}"], probabilities, rtol=0, atol=1e-5)
            assert same_risk(scores[f"risk_stream_{stay}"], probabilities)
    assert sum(name.startswith("stream_") for name in scores) == 202
