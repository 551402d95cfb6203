"""The rules of the house that a parser can check: sizes, names, who reads which files, no private APIs."""

import ast
import collections
import functools
import re
import subprocess
import sys
from collections.abc import Iterator

import pytest

from ncl_tf.version import VERSION
from processes import ROOT

MOST_LINES_OF_A_MODULE, MOST_LINES_OF_A_FUNCTION = 300, 60
RUN_FILES = ("run.json", "metrics.jsonl", "config.gin", "plan.json")
INTERFACES = {"read_stays", "draw_stays"}  # of modules that stand for one another, a source of data each
DOCUMENTED = {"_fields", "_replace", "_asdict", "_exit"}  # public names of named tuples and of `os`
FOREIGN = "keras|tensorflow|gin|ray|tcn"


@functools.cache
def modules() -> dict[str, ast.Module]:
    """Parse all programs and modules, tests aside, by path."""
    paths = [path for folder in ("ncl_tf", "data_prep", "benchmarks", "docs") for path in (ROOT / folder).rglob("*.py")]
    paths += [path for path in (ROOT / "bin").iterdir() if path.is_file()]
    return {str(path.relative_to(ROOT)): ast.parse(path.read_text(encoding="utf-8")) for path in sorted(paths)}


def nodes(*kinds: type[ast.AST]) -> Iterator[tuple[str, ast.AST]]:
    for path, tree in modules().items():
        for node in ast.walk(tree):
            if isinstance(node, kinds):
                yield path, node


def test_modules_and_functions_are_short():
    long = {path for path in modules() if len((ROOT / path).read_text().splitlines()) > MOST_LINES_OF_A_MODULE}
    long |= {
        f"{path}: {node.name}"
        for path, node in nodes(ast.FunctionDef, ast.AsyncFunctionDef)
        if node.end_lineno - node.lineno >= MOST_LINES_OF_A_FUNCTION
    }
    assert long == set()


def test_a_public_name_exists_once():
    places = collections.defaultdict(list)
    for path, tree in modules().items():
        for node in tree.body:
            if path.startswith("ncl_tf/") and isinstance(node, ast.ClassDef | ast.FunctionDef) and node.name[0] != "_":
                places[node.name].append(path)
    assert {name: paths for name, paths in places.items() if len(paths) > 1 and name not in INTERFACES} == {}


def test_only_the_run_store_names_its_files():
    named = {
        f"{path}: {node.value}"
        for path, node in nodes(ast.Constant)
        if not path.startswith("ncl_tf/runs/") and str(node.value).rsplit("/")[-1] in RUN_FILES
    }
    assert named == set()


def private_names(tree: ast.Module) -> Iterator[str]:
    """Yield private names that other packages own: of imports, and attributes that `tree` never sets."""
    own = {node.name for node in ast.walk(tree) if isinstance(node, ast.FunctionDef | ast.ClassDef)}
    own |= {node.id for node in ast.walk(tree) if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store)}
    for node in ast.walk(tree):
        if isinstance(node, ast.Attribute) and isinstance(node.ctx, ast.Store) and ast.unparse(node.value) == "self":
            own.add(node.attr)
    for node in ast.walk(tree):
        if isinstance(node, ast.Attribute) and node.attr not in own | DOCUMENTED:
            yield from re.findall("^_[A-Za-z].*", node.attr)
        elif isinstance(node, ast.Import | ast.ImportFrom):
            modules = [f"{getattr(node, 'module', '')}.{alias.name}".strip(".") for alias in node.names]
            yield from (
                name for name in modules if re.match(rf"({FOREIGN})\b.*\._|tensorflow\.python|keras\.src", name)
            )


def test_private_names_of_other_packages_are_used_in_one_file():
    used = {
        f"{path}: {name}"
        for path, tree in modules().items()
        if path != "ncl_tf/compat.py"
        for name in private_names(tree)
    }
    assert used == set()


@pytest.mark.parametrize(
    ("code", "expected"),
    [
        ("import gin\ngin.config._REGISTRY\ngin.config._parse()", ["_REGISTRY", "_parse"]),
        ("from ray._private.services import x", ["ray._private.services.x"]),
        ("import tensorflow.python.eager as e", ["tensorflow.python.eager"]),
        ("def f(variable):\n    return variable._path", ["_path"]),
        ("class A:\n    def f(self, other):\n        self._x = 1\n        return other._x", []),
    ],
)
def test_private_names_are_seen(code, expected):
    assert sorted(private_names(ast.parse(code))) == expected


RUN_STORE = [f"ncl_tf.runs.{path.stem}" for path in (ROOT / "ncl_tf/runs").glob("[!_]*.py")]


@pytest.mark.parametrize(
    ("modules", "heavy"),
    [
        (["ncl_tf"], ["tensorflow", "keras", "numpy"]),
        (["ncl_tf.data", "ncl_tf.data.describe"], ["tensorflow", "keras"]),
        (RUN_STORE, ["tensorflow", "keras", "gin", "tcn", "ray"]),
    ],
)
def test_light_modules_import_no_heavy_ones(modules, heavy):
    code = f"import sys, {', '.join(modules)}; print([name for name in {heavy} if name in sys.modules])"
    done = subprocess.run([sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, check=False)
    assert (done.stdout, done.stderr) == ("[]\n", "")


def test_paths_in_the_architecture_exist():
    text = (ROOT / "docs" / "architecture.md").read_text(encoding="utf-8")
    paths = re.findall(r"`((?:ncl_tf|gin|bin|data_prep|benchmarks|results|tests|docs)/[\w./]*)[^`]*`", text)
    assert len(paths) > 40
    assert [path for path in paths if not (ROOT / path).exists()] == []


def test_the_version_is_the_same_everywhere() -> None:
    texts = {name: (ROOT / name).read_text(encoding="utf-8") for name in ("CITATION.cff", "CHANGELOG.md")}
    assert re.findall(r"^version: (.*)", texts["CITATION.cff"], re.MULTILINE) == [VERSION]
    released = re.findall(r"^date-released: (.*)", texts["CITATION.cff"], re.MULTILINE)
    assert re.findall(r"^## (\S+) \((.*)\)", texts["CHANGELOG.md"], re.MULTILINE)[0] == (VERSION, *released)
