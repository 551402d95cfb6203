"""README.md and docs/: Python blocks run as they are, commands are those of the programs, tables come from results/.

A page's blocks run in one process, each with names of its own. A block that needs those of the block above it follows a
paragraph with the words "continues the block above".
"""

import datetime
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

import meds_files
import ncl_tf
from docs import models, tables
from processes import ROOT, finish, flags_of, start

TEXTS = {str(page.relative_to(ROOT)): page.read_text(encoding="utf-8") for page in tables.pages()}
LINKING = [*ROOT.glob("*.md"), *(ROOT / "docs").rglob("*.md"), *(ROOT / "models").rglob("*.md")]
COLUMNS, README_LINES = 120, 190
MADE = ["physionet2019_laptop", "limited_labels_physionet2019_laptop", "headline", "variants", "choices", "benchmarks"]
MADE += ["rates", "sizes", *["beyond_physionet2019_laptop"] * 2, "crashes", "observations", "hospitals"]
MADE += ["shipped"] * bool(ncl_tf.models())
OTHERS = ("saved_model", "SameHourOfStay")  # what blocks with a test of their own have in them


def blocks(language: str, containing: str = "") -> list[str]:
    """List the blocks of all pages, once each."""
    found = re.findall(rf"^```{language}\n(.*?)^```", "\n".join(TEXTS.values()), re.DOTALL | re.MULTILINE)
    return [block for block in dict.fromkeys(found) if containing in block]


def python_blocks(text: str) -> list[str]:
    """List a page's blocks of Python, joined where one says that it continues another."""
    joined: list[str] = []
    for lead, block in re.findall(r"([^\n]*)\n+```python\n(.*?)^```", text, re.DOTALL | re.MULTILINE):
        if "continues the block above" in lead:
            joined[-1] += block
        elif not any(word in block for word in OTHERS):
            joined.append(block)
    return joined


def prose(text: str) -> list[str]:
    """List the lines of a page without code and tables."""
    text = re.sub(r"^```.*?^```|^<!-- \w+:.*?<!-- end -->", "", text, flags=re.DOTALL | re.MULTILINE)
    return [line for line in text.splitlines() if not line.startswith("|")]


@pytest.fixture(scope="module")
def folder(tmp_path_factory, ward, ward_cohort, python):
    """A working folder with what the pages' commands make: cohorts, a run with its evaluation, an export, results."""
    folder = tmp_path_factory.mktemp("docs")
    (block,) = blocks("python", "SameHourOfStay")
    (folder / "my_neighborhood.py").write_text(block)
    for name in ("ward.h5", "runs/quickstart/ward.h5"):
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).symlink_to(ward_cohort)
    (folder / "runs/quickstart/ward").symlink_to(ward)
    train_own_neighborhood(folder, python)
    for name, evaluation in (("ncl_w", None), ("sepsis", "sepsis-mlp")):
        models.ship(f"physionet2019/{name}", folder / "runs/same_hour", evaluation, folder / "models")
    (folder / "runs/quickstart/ncl_w").symlink_to(folder / "runs/same_hour")
    (folder / "sepsis_model").symlink_to(folder / "runs/same_hour/evaluations/sepsis-mlp/classifier")
    (folder / "runs/physionet2019_laptop").mkdir()
    (folder / "runs/physionet2019_laptop/results").symlink_to(ROOT / "results/physionet2019_laptop")
    return folder


def train_own_neighborhood(folder: pathlib.Path, python: str) -> None:
    """Run the commands of the example as they stand, on a small network."""
    (commands,) = blocks("bash", "my_neighborhood")
    commands = re.sub(r"\s#.*", "", commands.replace("\\\n", "")).replace("bin/", f"{python} {ROOT}/bin/")
    train, evaluate = commands.strip().splitlines()
    small = "--gin_param='encoder.dilations = (24,)' --gin_param='encoder.filters = 8' --gin_param='augmentation.layers = ()'"
    evaluate += " --gin_param='protocol.max_epochs = 1'"
    for command in (f"{train} {small}", evaluate, f"{evaluate} --split=val"):
        code, _, err = finish(start(shlex.split(command), folder))
        assert code == 0, err


# Where no models ship yet, those that the fixture makes stand for them.
MODELS = "import pathlib\nfrom ncl_tf import project\nproject.MODELS = pathlib.Path('models').absolute()"
PREFIX = [] if ncl_tf.models() else [MODELS]


def run_python(blocks: list[str], folder: pathlib.Path) -> subprocess.CompletedProcess:
    environment = os.environ | {"PYTHONPATH": str(ROOT)}
    environment.pop("TF_CPP_MIN_LOG_LEVEL")  # as users have it
    each = "import json, sys\nfor block in json.load(sys.stdin): exec(compile(block, '<block>', 'exec'), {})"
    settings = {"cwd": folder, "env": environment, "capture_output": True, "text": True}
    return subprocess.run([sys.executable, "-c", each], input=json.dumps(blocks), check=False, **settings)


@pytest.mark.parametrize("page", [page for page, text in TEXTS.items() if python_blocks(text)])
def test_python_blocks_run_and_print_nothing_else(page, folder):
    found = python_blocks(TEXTS[page])
    imports_tensorflow = re.search("^import (keras|tensorflow)", "".join(found), re.MULTILINE)
    quiet = ["from ncl_tf import quiet"] * bool(imports_tensorflow)  # its messages are not ours
    done = run_python(PREFIX + quiet + found, folder)
    assert (done.returncode, done.stderr) == (0, "")


def test_the_notebook_runs_and_holds_no_outputs(folder):
    cells = json.loads((ROOT / "docs/first_steps.ipynb").read_text())["cells"]
    code = [cell for cell in cells if cell["cell_type"] == "code"]
    assert all(cell["outputs"] == [] and cell["execution_count"] is None for cell in code)
    checks = "assert risk.shape == (len(stay),) and np.ptp(risk) > 0 and len(plt.get_fignums()) == 2\n"
    checks += "assert representations.shape == (len(rows), 64) and np.isfinite(points).all() and np.ptp(points) > 1"
    backend = "import matplotlib\nmatplotlib.use('Agg')"
    done = run_python([*PREFIX, backend, "\n".join(["".join(cell["source"]) for cell in code] + [checks])], folder)
    assert done.returncode == 0, done.stderr
    assert "physionet2019/sepsis classifier sepsis\n" in done.stdout


@pytest.mark.slow
@pytest.mark.parametrize("block", blocks("python", "tf.lite"))
def test_lite_embeds_the_same(block, folder):
    check = "model = tf.saved_model.load('sepsis_model/1')\nexpected = model.embed(windows)['representations']\n"
    check += "np.testing.assert_allclose(embed(windows=windows)['representations'], expected, rtol=0, atol=1e-5)"
    done = run_python([block + check], folder)
    assert done.returncode == 0, done.stderr


@pytest.mark.parametrize("block", blocks("python", "saved_model.load"))
def test_raw_stay_block_needs_nothing_of_this_project(block, folder):
    alone = "import sys\nassert not {'ncl_tf', 'tcn', 'gin', 'keras_tcn'} & set(sys.modules)"
    done = run_python([block, alone], folder)
    assert done.returncode == 0, done.stderr
    numbers = np.array(re.findall(r"\d\.\d+", done.stdout), float).reshape(2, 6, 2)
    np.testing.assert_allclose(numbers[0], numbers[1], rtol=0, atol=1e-6)  # the whole stay, and hour by hour


@pytest.mark.parametrize("request_body", re.findall(r"curl .*? -d '(.*?)'", "\n".join(TEXTS.values()), re.DOTALL))
def test_rest_call_is_what_the_signature_takes(request_body, folder):
    request = json.loads(request_body)
    function = tf.saved_model.load(folder / "sepsis_model/1").signatures[request["signature_name"]]
    answer = function(**{name: tf.constant(value, tf.float32) for name, value in request["inputs"].items()})
    assert answer["probabilities"].shape == (2, 2)


def test_own_neighborhood_is_trained_and_evaluated(folder):
    assert "SameHourOfStay" in (folder / "runs/same_hour/config.gin").read_text()
    assert (folder / "runs/same_hour/evaluations/sepsis-mlp.json").exists()


@pytest.mark.parametrize("schema", blocks("toml", 'stay = "'))
def test_table_example_prepares(schema, tmp_path, python):
    """The worked example: its schema describes its table (here with enough stays to split)."""
    (table,) = blocks("csv")
    header, *rows = table.strip().split("\n")
    stays = [row.replace("17,", f"{stay},", 1) for stay in range(40) for row in rows]
    stays = [row[:-1] + "0" if int(row.split(",")[0]) % 3 else row for row in stays]
    (tmp_path / "hourly.csv").write_text("\n".join([header, *stays]) + "\n")
    (tmp_path / "schema.toml").write_text(schema)
    (command,) = {command for command in commands() if command.startswith("bin/prepare table")}
    code, out, err = finish(start([python, ROOT / command.split()[0], *command.split()[1:]], tmp_path))
    assert code == 0, err
    assert "6 columns, the first 2 static" in out


def test_meds_example_prepares(tmp_path, python):
    """The schema of the page reads a dataset that has each of its codes, here with a stay for each split."""
    (schema,) = blocks("toml", "opens = ")
    (tmp_path / "meds.toml").write_text(schema)
    codes = re.findall(r'"([A-Z_]+(?://[^"*]*)?)\*?"', re.sub("^name.*", "", schema, flags=re.MULTILINE))
    assert codes[:3] == ["ICU_ADMISSION//", "ICU_DISCHARGE//", "MEDS_DEATH"]
    begin, hour = datetime.datetime(2020, 1, 1), datetime.timedelta(hours=1)
    events, splits = [], {1: "train", 2: "tuning", 3: "held_out"}
    for subject in splits:
        events += [
            (subject, begin, code, 37.0, "sinus") for code in codes if "DISCHARGE" not in code and "DEATH" not in code
        ]
        last = codes[1] if subject == 1 else codes[2]
        events.append((subject, begin + 2 * hour, last, None, None))
    meds_files.write_events(events, tmp_path / "icu_meds/data/0.parquet")
    meds_files.write_metadata(tmp_path / "icu_meds", splits)
    labels = [(subject, begin + hour, subject == 1) for subject in splits]
    meds_files.write_labels(labels, tmp_path / "icu_meds/task_labels/sepsis/0.parquet")
    (command,) = {command for command in commands() if command.startswith("bin/prepare meds")}
    code, out, err = finish(start([python, ROOT / command.split()[0], *command.split()[1:]], tmp_path))
    assert code == 0, err
    assert "8 columns, the first 2 static" in out


PROGRAM = r"(?<![\w/])(bin/\w+)"


def commands() -> list[str]:
    """Of all bash blocks, each on one line, without comments."""
    lines = re.sub(r"\\\n\s*", "", "\n".join(blocks("bash"))).splitlines()
    return list(dict.fromkeys(re.sub(r"\s*(^|\s)#.*", "", line) for line in lines))


@pytest.mark.parametrize("command", [command for command in commands() if re.search(PROGRAM, command)])
def test_commands_have_flags_and_files_of_the_project(command):
    program, source, flags = re.search(PROGRAM + r"(?: (\w+))?(.*)", command).groups()
    known = flags_of(f"{program} {source}" if source else program) | {"help"}
    assert known > set(re.findall(r" --(\w+)", flags)), known
    assert all((ROOT / path).exists() for path in re.findall(r"gin/[\w/]+\.gin", command))


def test_commands_name_targets_of_make():
    targets = re.findall(r"^([\w-]+):", (ROOT / "Makefile").read_text(), re.MULTILINE)
    named = [target for command in commands() for target in re.findall(r"^make (?:\w+=\S+ )*([a-z-]+)", command)]
    assert named
    assert set(named) <= set(targets)


@pytest.mark.parametrize("page", TEXTS)
def test_tables_are_made_from_results(page):
    assert tables.fill(TEXTS[page], ROOT / "results") == TEXTS[page]


def test_all_tables_are_shown():
    made = re.findall(r"<!-- (\w+): made by `make tables`[^>]*-->\n\|", "\n".join(TEXTS.values()))
    assert sorted(made) == sorted(MADE)


@pytest.mark.parametrize("page", TEXTS)
def test_results_are_in_tables_alone(page):
    text = " ".join(prose(TEXTS[page]))
    assert re.findall(r"\b(?:AUROC|AUPRC|[Uu]tility|[Kk]appa)\b[^.|]{0,40}?\b\d{1,2}\.\d", text) == []


def anchors(path: pathlib.Path) -> set[str]:
    """List the anchors of a page's headings, as code hosts name them."""
    text = re.sub(r"^```.*?^```", "", path.read_text(encoding="utf-8"), flags=re.DOTALL | re.MULTILINE)
    titles = re.findall(r"^#+ (.*)", text, re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", title.lower()).replace(" ", "-") for title in titles}


@pytest.mark.parametrize("path", LINKING, ids=lambda path: str(path.relative_to(ROOT)))
def test_relative_links_and_anchors_exist(path):
    links = re.findall(r"\]\(([^)\s]+)\)|(?:src|href)=\"([^\"]+)\"", path.read_text(encoding="utf-8"))
    for link in (link or other for link, other in links):
        if not link.startswith(("http://", "https://", "mailto:")):
            name, _, anchor = link.partition("#")
            target = path.parent / name if name else path
            assert target.exists(), link
            assert not anchor or anchor in anchors(target), link


def test_each_page_is_reachable():
    seen, waiting = {ROOT / "README.md"}, [ROOT / "docs/index.md"]
    while waiting:
        if (page := waiting.pop().resolve()) not in seen and page.exists():
            seen.add(page)
            waiting += [page.parent / link for link in re.findall(r"\]\(([\w/.-]+\.md)", page.read_text())]
    assert [page for page in TEXTS if (ROOT / page) not in seen] == []


@pytest.mark.parametrize("page", TEXTS)
def test_lines_are_short(page):
    lines = [re.sub(r"\]\([^)]*\)", "]", line) for line in prose(TEXTS[page])]
    assert [line for line in lines if len(line) > COLUMNS] == []


def test_the_readme_is_short():
    assert TEXTS["README.md"].count("\n") <= README_LINES
