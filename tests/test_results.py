"""results/: every JSON records the code, the versions and the machine that it comes from."""

import json
import re

import pytest

from processes import ROOT


def check_origin(record: dict) -> None:
    assert re.fullmatch(r"\d+\.\d+\.\d+\+[0-9a-f]{12}", record["code_version"])  # of committed code
    assert {"python", "tensorflow", "keras", "keras-tcn"} <= record["versions"].keys()
    assert record["machine"].keys() == {"system", "processor", "cores"}


@pytest.mark.parametrize("path", sorted((ROOT / "results").glob("*.json")), ids=lambda path: path.stem)
def test_every_benchmark_records_where_it_comes_from(path):
    record = json.loads(path.read_text(encoding="utf-8"))
    check_origin(record)
    assert record["rows"]


@pytest.mark.parametrize("path", sorted((ROOT / "results").glob("*/**/*.json")), ids=lambda path: path.stem)
def test_every_result_records_where_it_comes_from(path):
    result = json.loads(path.read_text(encoding="utf-8"))
    run = result["run"]
    trained = run.get("step", 1) > 0  # without an encoder, there was no training
    for record in (*[run] * trained, *run.get("continued", []), *([result] if "metrics" in result else [])):
        check_origin(record)
    assert result["config"]["seed"] == str(run["seed"])
    assert result["config"]["budget"] == repr(run["budget"])
    assert re.fullmatch("[0-9a-f]{64}", run["cohort_checksum"])
    assert (run if trained else result)["wall_seconds"] > 0
    assert "/" not in json.dumps({name: value for name, value in result.items() if name not in ("config", "encoder")})
