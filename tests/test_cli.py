"""What all programs share: help, and what they print about missing or misspelled arguments."""

import functools
import os
import re
import subprocess
import sys

import pytest

from ncl_tf.paper import tables
from ncl_tf.reporting import figures
from processes import ROOT, flags_of

PROGRAMS = sorted(path.name for path in (ROOT / "bin").iterdir() if path.is_file() and not path.suffix)
SOURCES = sorted(path.stem for path in (ROOT / "data_prep").glob("*.py") if "cli.run(" in path.read_text())
COMMANDS = [*PROGRAMS, *(f"prepare {source}" for source in SOURCES)]
SLOW = {"tensorflow", "keras", "sklearn", "pandas", "scipy", "matplotlib", "ray"}  # to import, in part for seconds
ABSL = ("helpfull", "alsologtostderr", "flagfile", "pdb")


@functools.cache
def answer(command: str, columns: int = 80) -> subprocess.CompletedProcess:
    environment = os.environ | {"COLUMNS": str(columns), "PYTHONPROFILEIMPORTTIME": "1"}
    program, *rest = command.split()
    line = [sys.executable, f"bin/{program}", *rest]
    return subprocess.run(line, cwd=ROOT, env=environment, capture_output=True, text=True, timeout=60, check=False)


def imported(done: subprocess.CompletedProcess) -> set[str]:
    """The packages that an answer's program has imported."""
    found = set(re.findall(r"^import time:.*\|\s+(\w+)", done.stderr, re.MULTILINE))
    assert "absl" in found
    return found


def shown(text: str, flag: str) -> int:
    return len(re.findall(rf"^  (?:-\w,)?--(?:\[no\])?{flag}\b", text, re.MULTILINE))


@pytest.mark.parametrize("program", PROGRAMS)
def test_help_ends_quietly_where_its_reader_has_left(program: str) -> None:
    reading, writing = os.pipe()
    os.close(reading)
    command = [sys.executable, ROOT / "bin" / program, "--help"]
    with os.fdopen(writing) as closed:
        done = subprocess.run(command, stdout=closed, stderr=subprocess.PIPE, timeout=60, check=False)
    assert (done.returncode, done.stderr) == (0, b"")


@pytest.mark.parametrize("command", COMMANDS)
def test_help_has_a_description_three_examples_and_all_flags_in_groups(command: str) -> None:
    done = answer(f"{command} --help")
    assert done.returncode == 0
    assert SLOW & imported(done) == set()
    description, rest = done.stdout.split("\n\nExamples:\n")
    examples, *blocks = rest.split("\n\n")
    assert 20 < len(description.split()) < 90
    assert len(re.findall(r"^  # \S", examples, re.MULTILINE)) == 3
    calls = re.findall(r"^  (bin/\w+(?: \w+)?)((?:.*\\\n)*.*)", examples, re.MULTILINE)
    assert any(f"bin/{command} " in f"{called} " for called, _ in calls)
    for called, arguments in calls:
        assert set(re.findall(r" --(\w+)", arguments)) <= flags_of(called), called
        assert all((ROOT / path).exists() for path in re.findall(r"gin/[\w/]+\.gin", arguments))
    groups = [block.splitlines() for block in blocks if "\n  --" in block]
    assert all(re.fullmatch(r"[A-Z][\w ]+", heading) for heading, *_ in groups)
    entries = "\n".join("\n".join(lines) for _, *lines in groups)
    own = flags_of(f"bin/{command}")
    assert {flag: shown(entries, flag) for flag in own} == dict.fromkeys(own, 1)
    assert "repeat this option" not in entries
    assert max(map(len, f"{description}\n{examples}\n{entries}".splitlines())) <= 80
    assert max(map(len, answer(f"{command} --help", 120).stdout.splitlines())) <= 100


@pytest.mark.parametrize("command", COMMANDS)
def test_flags_of_absl_are_in_the_full_help_alone(command: str) -> None:
    brief, full = (answer(f"{command} {flag}").stdout for flag in ("--help", "--helpfull"))
    assert {flag: (shown(brief, flag), shown(full, flag)) for flag in ABSL} == dict.fromkeys(ABSL, (0, 1))
    assert full.startswith(brief[:-1])


def test_help_lists_what_can_be_chosen() -> None:
    assert all(f"\n  {source} " in answer("prepare --help").stdout for source in SOURCES)
    assert all(f"\n  {name} " in answer("reproduce --help").stdout for name in tables.names())
    assert all(f"\n  {name} " in answer("figures --help").stdout for name in figures.NAMES)


@pytest.mark.parametrize("command", COMMANDS)
def test_without_arguments_a_program_shows_what_to_do_next(command: str) -> None:
    done = answer(command)
    message = [line for line in done.stderr.splitlines() if not line.startswith("import time:")]
    assert (done.returncode, done.stdout) == (1, "")
    assert message[0].startswith(f"error: bin/{command} needs ")
    assert message[-1] == f"Run bin/{command} --help for more."
    commands = [line for line in message if line.startswith("  bin/")]
    assert len(commands) == 2
    needed = re.findall(r"^  --(\w+).*(?:\n {10}.*)*?\(required", answer(f"{command} --help").stdout, re.MULTILINE)
    assert re.findall(r"--(\w+)", message[0]) == needed


@pytest.mark.parametrize(
    ("command", "named"),
    [
        ("train --gin_file=gin/paper/physionet2019/nlc_w.gin", "nlc_w.gin & gin/paper/physionet2019/ncl_w.gin"),
        ("evaluate --run_dir=nowhere", "nowhere: no such folder"),
        ("evaluate --run_dir=docs", "docs & run.json"),
        ("evaluate --run_dir=nowhere --head=big", "head & linear, mlp & 'big'"),
        ("evaluate --encoder=physionet2019/none --cohort=x.h5 --output=x", "physionet2019/none: not an exported model"),
        ("evaluate --encoder=docs --cohort=x.h5 --output=x", "docs: not an exported model & bin/export"),
        ("train --gin_file=gin/quickstart.gin --gin_param=initial_encoder='x/y'", "x/y: not an exported model"),
        ("export --run_dir=nowhere --output=x", "nowhere: no such folder"),
        ("predict --model=nowhere --input=x --output=x", "nowhere: not an exported model"),
        ("report --runs=nowhere --output=x.html", "nowhere: no such folder"),
        ("figures --figure=tsme --output=x", "--figure & tsne & 'tsme'"),
        ("figures --figure=tsne --runs=nowhere --output=x", "nowhere: no such folder"),
        ("cohort describe nowhere.h5", "nowhere.h5: no such file"),
        ("prepare physionet2019 --source=nowhere --output=x.h5", "nowhere: no such file or folder"),
        ("reproduce --table=nowhere --cohort=x", "table & physionet2019 & 'nowhere'"),
        ("reproduce --table=physionet2019 --cohort=nowhere.h5", "nowhere.h5: no such file"),
    ],
)
def test_what_is_not_there_is_refused_at_once(command: str, named: str) -> None:
    done = answer(command)
    assert (done.returncode, done.stdout) == (1, "")
    assert SLOW & imported(done) == set()
    message = re.sub(r"^import time:.*\n", "", done.stderr, flags=re.MULTILINE)
    assert message.startswith("error: ")
    assert [part for part in named.split(" & ") if part not in message] == []


def test_what_is_left_to_do_is_printed_at_once(ward_cohort, tmp_path) -> None:
    done = answer(
        f"reproduce --table=physionet2019 --cohort={ward_cohort} --budget=smoke --only_print --output={tmp_path}"
    )
    assert (done.returncode, SLOW & imported(done)) == (0, set())
    assert "time left" in done.stdout


@pytest.mark.parametrize(
    ("command", "named"),
    [
        ("train --gin_fil=x", "--gin_fil & --gin_file?"),
        ("prepare table --sead=3", "--sead & --seed?"),
        ("prepare physionet", "'physionet' & physionet2019?"),
        ("benchmark steps", "'steps' & step?"),
        ("cohort descrbe ward.h5", "'descrbe' & describe?"),
        ("cohort describe a.h5 b.h5", "'b.h5'"),
        ("train --strategy=all", "--strategy & 'all' & none, mirrored, multiworker"),
        ("train --wait=soon", "--wait & 'soon' & number >= 1"),
        ("evaluate --fine_tune=maybe", "--fine_tune & 'maybe' & true, false"),
        ("prepare table --seed=-1", "--seed & '-1' & [0, 4294967295]"),
        ("prepare table --source=x --schema=y stray", "--output"),
        ("prepare table --source=x --schema=y --output=z stray", "'stray' & --name=value"),
    ],
)
def test_wrong_arguments_are_named_with_what_is_allowed(command: str, named: str) -> None:
    done = answer(command)
    assert (done.returncode, done.stdout) == (1, "")
    message = re.sub(r"^import time:.*\n", "", done.stderr, flags=re.MULTILINE)
    assert message.startswith("error: ")
    assert [part for part in named.split(" & ") if part not in message.splitlines()[0]] == []
