"""Risks of exports: the graph against the formulas, `ncl_tf.load`, and exports of format 1.0, which have none."""

import json
import shutil

import numpy as np
import pytest
import tensorflow as tf

import ncl_tf
from benchmarks.serve import export_untrained
from ncl_tf.data import Cohort
from ncl_tf.data.sources import raw
from ncl_tf.evaluation.calibration import Calibrator
from ncl_tf.evaluation.predictions import write
from ncl_tf.serving import predict
from ncl_tf.serving.risk import risk
from refusals import refused

LOGISTIC = Calibrator("logistic", slope=1.3, intercept=-2.9)
POINTS = (-3.21, -3.2, 0.0, 0.07, 2.5), (1e-5, 0.004, 0.004, 0.3, 0.31)


def expected_risks(calibrator: Calibrator, probabilities: np.ndarray) -> np.ndarray:
    p = np.clip(probabilities.astype(np.float64), 1e-7, 1 - 1e-7)
    x = np.log(p / (1 - p))
    if calibrator.kind == "logistic":
        return 1 / (1 + np.exp(-1.3 * x + 2.9))
    return np.interp(x, calibrator.log_odds, calibrator.risks)


@pytest.mark.parametrize(
    "calibrator",
    [
        LOGISTIC,
        Calibrator("isotonic", log_odds=POINTS[0], risks=POINTS[1]),
        Calibrator("isotonic", None, None, (0.5,), (0.2,)),
    ],
    ids=["logistic", "isotonic", "one point"],
)
def test_the_graph_computes_the_calibrators_risks(calibrator):
    """As closely as float32 can hold them, in every bit of the probability and for a batch of any size."""
    random = np.random.default_rng(1)
    at_points = 1 / (1 + np.exp(-np.array(POINTS[0])))
    probabilities = np.concatenate(
        [random.random(1000), 10.0 ** random.uniform(-9, 0, 1000), at_points, [0, 1, 1 - 6e-8]]
    )
    probabilities = probabilities.astype(np.float32)
    signature = [tf.TensorSpec([None], tf.float32)]
    graph = tf.function(lambda p: risk(calibrator, p), signature, autograph=False)  # as an export traces it
    expected = expected_risks(calibrator, probabilities)
    np.testing.assert_allclose(graph(probabilities), expected, rtol=2e-7, atol=0)
    np.testing.assert_allclose(calibrator(probabilities), expected, rtol=1e-9, atol=0)
    assert graph(probabilities[:0]).shape == (0,)
    assert graph(probabilities).dtype == tf.float32


@pytest.mark.parametrize("name", ["ward", "physionet2019/sepsis"])
def test_a_stream_and_a_whole_stay_have_the_same_risk(name, model):
    model = model if name == "ward" else ncl_tf.load(name)
    values = np.random.default_rng(1).normal(70, 60, size=(60, 35)).astype(np.float32)
    values[:, 0] = np.arange(1, 61)
    values[::3, 1:] = np.nan
    risks, stream = model.risk(values), model.stream()
    assert stream.risk is None
    hours = [(stream.next(row)[1], stream.risk) for row in values]
    np.testing.assert_allclose([r for _, r in hours], risks, rtol=0, atol=1e-6)
    calibrator = Calibrator.from_json(model.card["evaluation"]["calibration"]["calibrator"])
    np.testing.assert_allclose(risks, calibrator(model.score(values)[:, 1]), rtol=2e-7)
    assert np.ptp(risks) > 0 or calibrator.slope == 0  # that of the ward has hardly learned anything


def test_hours_left_out_have_no_risk(model):
    values = np.full((6, 35), np.nan, np.float32)
    values[:, 0], values[[0, 1, 5], 1] = np.arange(1, 7), [80, 90, 140]
    np.testing.assert_array_equal(model.risk(values[[0, 1, 5]]), model.risk(values)[[0, 1, 5]])


@pytest.fixture
def old(ward_cohort, tmp_path):
    """An export as version 0.2.0 wrote them."""
    export_untrained(tmp_path / "old", Cohort(ward_cohort), filters=4, dilations=(24,))
    described = tmp_path / "old" / "model.json"
    described.write_text(json.dumps(json.loads(described.read_text()) | {"format_version": "1.0"}))
    return ncl_tf.load(tmp_path / "old")


def test_exports_of_format_1_0_score_without_risk(old, ward, ward_cohort, tmp_path):
    (tmp_path / "stays").mkdir()
    for path in sorted(ward.iterdir())[:3]:
        shutil.copy(path, tmp_path / "stays")
    _, parts = raw.read_raw([tmp_path / "stays"], old.dataset, "stay", None)
    scores, _ = predict.score_parts(old, parts, lambda stays: None)
    assert scores.risks is None
    assert predict.score_cohort(old, Cohort(ward_cohort), "val", lambda hours: None).risks is None
    write(tmp_path / "out", scores, "csv")
    assert (tmp_path / "out/predictions.csv").read_text().splitlines()[
        0
    ] == '"stay","hour","probability_0","probability_1"'
    stream = old.stream({"Age": 64})
    np.testing.assert_allclose(stream.next({"ICULOS": 1, "HR": 88}).sum(), 1, rtol=1e-6)
    assert stream.risk is None
    with refused(old.folder, "no risk & binary tasks & format 1.1"):
        old.risk(np.zeros((1, 35)))
