"""`ncl_tf.load`: scores by name and by array, streams, and refusals that name value, place and what is allowed."""

import json
import shutil

import numpy as np
import pandas as pd
import pytest

import ncl_tf
from ncl_tf.serving.loading import Model
from refusals import refused

HOUR = 0  # position of ICULOS among the values
STATIC = {"Age": 61, "Gender": 1, "HospAdmTime": -3}


def make_stay(hours: int, seed: int = 1, first_hour: int = 1) -> tuple[np.ndarray, np.ndarray]:
    """Values [hours, 35], two thirds of them missing and some implausible, and static values [5]."""
    random = np.random.default_rng(seed)
    values = random.normal(70, 60, size=(hours, 35)).astype(np.float32)
    values[random.random(values.shape) < 0.67] = np.nan
    values[:, HOUR] = np.arange(first_hour, first_hour + hours)
    return values, np.array([1, np.nan, np.nan, 61, -3], np.float32)


@pytest.fixture(scope="module", params=[40, 108])
def any_model(request) -> Model:
    """The model, or that with observation columns: what their states have of an hour."""
    return request.getfixturevalue("model" if request.param == 40 else "observed_model")


@pytest.mark.parametrize("hours", [1, 2, 23, 24, 25, 60])
def test_streaming_equals_batch(any_model, hours, request):
    model = any_model
    values, static = make_stay(hours)
    expected = model.score(values, static)
    stream = model.stream(STATIC)
    np.testing.assert_allclose([stream.next(row) for row in values], expected, rtol=0, atol=1e-6)
    assert np.ptp(expected) > 0
    assert stream.state.shape == (1, 23, request.node.callspec.params["any_model"])


def test_a_stream_resumes_from_its_state(any_model):
    model = any_model
    values, static = make_stay(60)
    stream = model.stream(static)
    for row in values[:50]:
        stream.next(row)
    other = model.stream(state=json.loads(json.dumps(stream.state.tolist())))  # static values are part of it
    for row in values[50:]:
        np.testing.assert_array_equal(other.next(row), stream.next(row))


def named_rows(model, values: np.ndarray) -> list[dict[str, float]]:
    return [dict(zip(model.rows.value_names, row.tolist(), strict=True)) for row in values]


def test_static_values_may_become_known_later(model):
    values, static = make_stay(10)
    late = np.full((10, 5), np.nan, np.float32)
    late[4] = static
    scores = model.score(values, late)
    np.testing.assert_allclose(scores[:4], model.score(values[:4]), rtol=0, atol=1e-6)
    np.testing.assert_allclose(scores[4:], model.score(values, static)[4:], rtol=0, atol=1e-6)
    stream, rows = model.stream(), named_rows(model, values)
    rows[4] |= STATIC
    np.testing.assert_allclose([stream.next(row) for row in rows], scores, rtol=0, atol=1e-6)


def test_a_static_value_that_is_corrected_stays_so(model):
    values, static = make_stay(60)
    every = np.tile(static, (60, 1))
    every[2:, list(model.rows.names).index("Age")] = 20
    stream, rows = model.stream(STATIC), named_rows(model, values)
    rows[2]["Age"] = 20
    scores = [stream.next(row) for row in rows]
    np.testing.assert_allclose(scores, model.score(values, every), rtol=0, atol=1e-6)
    assert not np.allclose(scores, model.score(values, static), rtol=0, atol=1e-6)


def test_a_data_frame_goes_by_names(model):
    values, static = make_stay(20)
    frame = pd.DataFrame(values, columns=model.rows.value_names).assign(**STATIC, Unit1=None, Unit2=np.nan, comment="x")
    shuffled = frame[sorted(frame.columns, reverse=True)].astype({"Gender": "Int64", "HR": "object"})
    np.testing.assert_array_equal(model.score(shuffled), model.score(values, static))
    few = frame[["ICULOS", "HR", "Age"]]
    alone = few.reindex(columns=model.rows.names)
    np.testing.assert_array_equal(model.score(few), model.score(alone))
    assert not np.array_equal(model.score(few), model.score(shuffled))
    with refused("columns of the channels Gender, Unit1, & got Heart rate"):
        model.score(frame.rename(columns={"HR": "Heart rate"})[["Heart rate"]])
    with refused("channel ICULOS: must be a whole hour, got nan"):
        model.score(frame[["HR"]])


def test_hours_left_out_are_hours_without_measurement(any_model):
    model = any_model
    values, static = make_stay(12)
    values[5:8, 1:] = np.nan
    rows = [0, 1, 2, 3, 4, 8, 9, 10, 11]
    np.testing.assert_array_equal(model.score(values[rows], static), model.score(values, static)[rows])


def test_a_value_that_is_measured_again_is_another_input_only_with_observations(model, observed_model):
    values, static = make_stay(20)
    values[9:15, 1] = 88, *[np.nan] * 5
    again = values.copy()
    again[12, 1] = 88
    np.testing.assert_array_equal(model.score(again, static), model.score(values, static))
    differs = np.any(observed_model.score(again, static) != observed_model.score(values, static), axis=1)
    assert differs.tolist() == [False] * 12 + [True] * 8  # the count stays another one


def with_cell(row: int, column: int, value: float) -> np.ndarray:
    values, _ = make_stay(5)
    values[row, column] = value
    return values


@pytest.mark.parametrize(
    ("values", "static", "named"),
    [
        (np.zeros((3, 34)), None, ("[3, 34]", "[hours, 35]: ICULOS, HR, O2Sat")),
        (np.zeros(35), None, ("[35]", "[hours, 35]")),
        (np.zeros((0, 35)), None, ("no rows",)),
        (make_stay(3)[0], [1, 2, 3], ("static values", "[3]", "[5] or [3, 5]: Gender, Unit1")),
        (make_stay(3)[0], {"Sex": 1}, ("'Sex'", "Gender, Unit1")),
        (make_stay(3)[0], {"Gender": "f"}, ("channel Gender", "'f'", "one of 0, 1")),
        (with_cell(3, 1, np.inf), None, ("row 3, ICULOS 4, channel HR", "inf", "a finite number")),
        (with_cell(2, HOUR, 2), None, ("row 2, channel ICULOS", "2 after 2")),
        *((with_cell(2, HOUR, x), None, ("row 2, channel ICULOS", str(x), "a whole hour")) for x in (1.5, np.nan)),
        (with_cell(4, HOUR, 1e6), None, ("1 to 1000000", "100000 hours")),
        (make_stay(3)[0], [2, 0, 1, 60, -1], ("channel Gender", "got 2", "one of 0, 1")),
        ([["a"] * 35], None, ("the values", "array of numbers")),
    ],
)
def test_a_bad_stay_is_refused(model, values, static, named):
    with refused(*named):
        model.score(values, static)


def test_a_bad_hour_of_a_stream_is_refused_and_changes_nothing(model):
    values, static = make_stay(4)
    stream = model.stream(static)
    stream.next(values[0])
    before = stream.state
    for row, *named in (
        (values[0], "ICULOS 1, channel ICULOS", "got 1", "one after the hour of the row before"),
        (values[2], "channel ICULOS", "got 3", "one after the hour of the row before"),
        ({"ICULOS": 2, "Heart rate": 80}, "'Heart rate'", "Gender, Unit1"),
        ({"ICULOS": 2, "HR": float("inf")}, "channel HR", "'inf'", "a number"),
        (values[1][:-1], "[hours, 35]", "[1, 34]"),
    ):
        with refused(*named):
            stream.next(row)
    assert stream.state is before
    np.testing.assert_allclose(stream.next(values[1]), model.score(values[:2], static)[1], rtol=0, atol=1e-6)


def test_arrays_of_another_shape_are_refused(model):
    with refused("state", "[23, 40]", "[1, 23, 40]"):
        model.stream(state=np.zeros((23, 40)))
    with refused("[2, 48, 40]", "[samples, 24, 40]: Gender"):
        model.predict(np.zeros((2, 48, 40)))


def test_other_folders_are_refused(exported, tmp_path):
    for folder in (tmp_path / "none", tmp_path, exported.run):
        with refused(folder, "model.json"):
            ncl_tf.load(folder)
    other = shutil.copytree(exported.folder, tmp_path / "other")
    described = other / "model.json"
    card = json.loads(described.read_text())
    described.write_text(json.dumps(card | {"format_version": "2.0"}))
    with refused(other, "2.0", "1.x"):
        ncl_tf.load(other)
    described.write_text(json.dumps(card | {"format_version": "1.7"}))
    (other / "2").mkdir()  # for a server that takes the newest; not what model.json describes
    assert ncl_tf.load(other).card == card | {"format_version": "1.7"}
    shutil.rmtree(other / "1")
    with refused(other / "1", "SavedModel"):
        ncl_tf.load(other)


def test_a_damaged_export_is_refused(model, tmp_path):
    """A flipped bit of a weight or of the graph, a missing file, and a description of another form."""
    other = shutil.copytree(model.folder, tmp_path / "other")
    assert set(model.card["files"]) == {
        path.relative_to(other / "1").as_posix() for path in (other / "1").rglob("*") if path.is_file()
    }
    for name in ("saved_model.pb", "variables/variables.data-00000-of-00001"):
        whole = (other / "1" / name).read_bytes()
        (other / "1" / name).write_bytes(whole[:1000] + bytes([whole[1000] ^ 1]) + whole[1001:])
        with refused(other / "1" / name, "SHA-256", "damaged"):
            ncl_tf.load(other)
        (other / "1" / name).unlink()
        with refused(other / "1" / name, "No such file"):
            ncl_tf.load(other)
        (other / "1" / name).write_bytes(whole)
    described = other / "model.json"
    for change in (
        {"inputs": {}},
        {"inputs": None},
        {"preprocessor": {}},
        {"signatures": 3},
        {"files": []},
        {"task": "a"},
    ):
        described.write_text(json.dumps(model.card | change))
        with refused(described):
            ncl_tf.load(other)
