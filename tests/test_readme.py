"""The README: its Python blocks run as they are, its commands are those of the programs, its tables come from results/."""

import json
import os
import pathlib
import re
import shlex
import subprocess
import sys

import numpy as np
import pytest
import tensorflow as tf

from benchmarks.serve import export_untrained
from ncl_tf.data import Cohort
from ncl_tf.reporting import readme
from processes import ROOT, finish, flags_of, start

TEXT = (ROOT / "README.md").read_text(encoding="utf-8")


def blocks(language: str) -> list[str]:
    return re.findall(rf"```{language}\n(.*?)```", TEXT, re.DOTALL)


@pytest.fixture(scope="module")
def folder(tmp_path_factory, ward_cohort):
    """A working folder that holds what the README's blocks name."""
    folder = tmp_path_factory.mktemp("readme")
    (folder / "ward.h5").symlink_to(ward_cohort)
    export_untrained(folder / "sepsis_model", Cohort(ward_cohort), filters=8, dilations=(1, 24))
    return folder


def run_block(code: str, folder: pathlib.Path) -> subprocess.CompletedProcess:
    environment = os.environ | {"PYTHONPATH": str(ROOT)}
    environment.pop("TF_CPP_MIN_LOG_LEVEL")  # as users have it
    return subprocess.run(
        [sys.executable, "-c", code], cwd=folder, env=environment, capture_output=True, text=True, check=False
    )


OTHERS = ("saved_model", "SameHourOfStay")  # what blocks with a test of their own have in them


@pytest.mark.parametrize("block", [block for block in blocks("python") if not any(word in block for word in OTHERS)])
def test_python_block_runs_and_prints_nothing_else(block, folder):
    done = run_block(block, folder)
    assert (done.returncode, done.stderr) == (0, "")


def test_raw_stay_block_needs_nothing_of_this_project(folder):
    (block,) = [block for block in blocks("python") if "saved_model" in block]
    code = block + "\nimport sys\nassert not {'ncl_tf', 'tcn', 'gin', 'keras_tcn'} & set(sys.modules)"
    done = run_block(code, folder)
    assert done.returncode == 0, done.stderr
    numbers = np.array(re.findall(r"\d\.\d+", done.stdout), float).reshape(2, 6, 2)
    np.testing.assert_allclose(numbers[0], numbers[1], rtol=0, atol=1e-6)  # the whole stay, and hour by hour


def test_rest_call_is_what_the_signature_takes(folder):
    (request,) = re.findall(r"curl .*? -d '(.*?)'", TEXT, re.DOTALL)
    request = json.loads(request)
    function = tf.saved_model.load(folder / "sepsis_model/1").signatures[request["signature_name"]]
    answer = function(**{name: tf.constant(value, tf.float32) for name, value in request["inputs"].items()})
    assert answer["probabilities"].shape == (2, 2)


def test_table_example_prepares(tmp_path, python):
    """The worked example: its schema describes its table (here with enough stays to split)."""
    (schema,), (table,) = blocks("toml"), blocks("csv")
    header, *rows = table.strip().split("\n")
    stays = [row.replace("17,", f"{stay},", 1) for stay in range(40) for row in rows]
    stays = [row[:-1] + "0" if int(row.split(",")[0]) % 3 else row for row in stays]
    (tmp_path / "hourly.csv").write_text("\n".join([header, *stays]) + "\n")
    (tmp_path / "schema.toml").write_text(schema)
    (command,) = re.findall(r"bin/prepare table .*", TEXT)
    code, out, err = finish(start([python, ROOT / command.split()[0], *command.split()[1:]], tmp_path))
    assert code == 0, err
    assert "6 columns, the first 2 static" in out


PROGRAM = r"(?<![\w/])(bin/\w+)"


def commands() -> list[str]:
    """Of all bash blocks, each on one line, without comments."""
    lines = re.sub(r"\\\n\s*", "", "\n".join(blocks("bash"))).splitlines()
    return [re.sub(r"\s#.*", "", line) for line in lines if re.search(PROGRAM, line)]


@pytest.mark.parametrize("command", commands())
def test_commands_have_flags_and_files_of_the_project(command):
    program, source, flags = re.search(PROGRAM + r"(?: (\w+))?(.*)", command).groups()
    known = flags_of(f"{program} {source}" if source else program) | {"help"}
    assert known > set(re.findall(r" --(\w+)", flags)), known
    assert all((ROOT / path).exists() for path in re.findall(r"gin/[\w/]+\.gin", command))


def test_own_neighborhood_is_trained_and_evaluated(folder, python):
    (block,) = [block for block in blocks("python") if "SameHourOfStay" in block]
    (folder / "my_neighborhood.py").write_text(block)
    (commands,) = [block for block in blocks("bash") if "my_neighborhood" in block]
    train, evaluate = re.sub(r"\\\n", "", commands).strip().replace("bin/", f"{python} {ROOT}/bin/").splitlines()
    small = "--gin_param='encoder.dilations = (24,)' --gin_param='encoder.filters = 8' --gin_param='augmentation.layers = ()'"
    for command in (f"{train} {small}", f"{evaluate} --gin_param='protocol.max_epochs = 1'"):
        code, _, err = finish(start(shlex.split(command), folder))
        assert code == 0, err
    assert "SameHourOfStay" in (folder / "runs/same_hour/config.gin").read_text()
    assert (folder / "runs/same_hour/evaluations/sepsis-mlp.json").exists()


def test_tables_are_made_from_results():
    made = re.findall(r"<!-- (\w+): made by `make tables`[^>]*-->\n\|", TEXT)
    assert made == ["physionet2019_laptop", "limited_labels_physionet2019_laptop", "benchmarks"]
    assert readme.build_readme(TEXT, ROOT / "results") == TEXT


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
    for record in (run, *run.get("continued", []), *([result] if "metrics" in result else [])):
        check_origin(record)
    assert result["config"]["seed"] == str(run["seed"])
    assert result["config"]["budget"] == repr(run["budget"])
    assert re.fullmatch("[0-9a-f]{64}", run["cohort_checksum"])
    assert run["wall_seconds"] > 0
    assert "/" not in json.dumps({name: value for name, value in result.items() if name != "config"})
