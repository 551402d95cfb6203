"""The short form of `make crash-test`, and that it finds a program that writes what it should not."""

import random

import pytest

import crashes


@pytest.fixture(scope="module")
def preparations(python, tmp_path_factory) -> dict[str, crashes.Scenario]:
    return {made.name: made for made in crashes.preparations(python, tmp_path_factory.mktemp("shared"))}


@pytest.mark.parametrize("name", ["bin/prepare simulate", "bin/prepare table", "bin/prepare meds"])
def test_killed_and_started_again_it_leaves_the_same(name, preparations, python, tmp_path):
    outcome = crashes.campaign(python, preparations[name], 4, tmp_path, random.Random(1))
    assert outcome.problems == []
    assert outcome.kills == 4


@pytest.mark.parametrize(
    ("body", "problem"),
    [
        ("open(path, 'w').write('half'); time.sleep(1); open(path, 'w').write('whole')", "/out.h5 is not whole"),
        ("time.sleep(1); open(path + '.csv', 'a').write('whole'); time.sleep(1)", "differs in the end: /out.h5.csv"),
    ],
)
def test_a_program_that_writes_in_place_is_found(body, problem, python, tmp_path):
    script = tmp_path / "bad.py"
    script.write_text(f"import sys, time\npath = sys.argv[1]\n{body}\n")
    bad = crashes.Scenario("bad", 1, lambda folder: [str(script), str(folder / "out.h5")])
    outcome = crashes.campaign(python, bad, 8, tmp_path / "campaign", random.Random(1))
    assert any(problem in found for found in outcome.problems), outcome
