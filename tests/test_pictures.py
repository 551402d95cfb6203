"""The documentation's pictures: drawn from results/, described, small, complete in themselves."""

import json
import re
import statistics
import tomllib
from xml.etree import ElementTree

import pytest

from docs import diagrams, pictures
from processes import ROOT

IMAGES = ROOT / "docs" / "images"
SVG = "{http://www.w3.org/2000/svg}"
PHONE = 358  # pixels that a phone leaves for a picture


def test_drawn_pictures_are_those_that_results_make() -> None:
    for name, content in pictures.pictures().items():
        assert (IMAGES / name).read_text(encoding="utf-8") == content, f"{name} is out of date: run `make docs`"


def test_pictures_are_shown_described_and_small() -> None:
    pages = [ROOT / "README.md", *(ROOT / "docs").glob("*.md")]
    texts = "".join(page.read_text(encoding="utf-8") for page in pages)
    shown = set(re.findall(r"!\[[^\]]{20,}\]\((?:docs/)?images/([\w.]+)\)", texts))
    there = {path.name: path.stat().st_size for path in IMAGES.iterdir()}
    assert there.keys() == shown
    assert sum(there.values()) < 2_000_000


@pytest.mark.parametrize("name", sorted(path.name for path in IMAGES.glob("*.svg")))
def test_drawings_stand_alone(name: str) -> None:
    content = (IMAGES / name).read_text(encoding="utf-8")
    root = ElementTree.fromstring(content)
    assert root.findtext(f"{SVG}title")
    assert root.findtext(f"{SVG}desc")
    assert content.count("http") == 1  # the name space
    width = float(root.get("width"))
    assert min(int(text.get("font-size")) for text in root.iter(f"{SVG}text")) * PHONE / width > 7.5


def test_headline_shows_the_means_of_the_results() -> None:
    """The numbers of the description, calculated by hand, and where the dots of AUROC lie on its axis."""
    root = ElementTree.parse(IMAGES / "headline.svg").getroot()
    described, means = root.findtext(f"{SVG}desc"), []
    methods = {"CL": "cl", "NCL(n_w)": "ncl_w", "NCL(n_Y)": "ncl_y", "End-to-End": "end_to_end-head_mlp"}
    for title, method in methods.items():
        found = (ROOT / "results" / "physionet2019_laptop").glob(f"{method}-seed*/sepsis-mlp.json")
        values = [100 * json.loads(path.read_text(encoding="utf-8"))["metrics"]["auroc"] for path in found]
        assert f"{title} AUROC {statistics.mean(values):.1f} ± {statistics.stdev(values):.1f}" in described
        means.append(statistics.mean(values))
    texts = {float(text.get("x")): text.text for text in root.iter(f"{SVG}text") if (text.text or "").isdigit()}
    (left, low), (right, high), *_ = sorted(texts.items())
    dots = [float(dot.get("cx")) for dot in root.iter(f"{SVG}circle") if dot.get("fill") == pictures.OURS]
    values = [float(low) + (x - left) * (float(high) - float(low)) / (right - left) for x in dots[:4]]
    assert values == pytest.approx(means, abs=0.02)


def test_the_layers_are_those_that_lint_checks() -> None:
    settings = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
    layers = settings["tool"]["importlinter"]["contracts"][0]["layers"]
    layers = [{name.removeprefix("ncl_tf.") for name in layer.split(" : ")} for layer in layers]
    drawn = [set(row) for row in diagrams.LAYERS]
    assert drawn[0] == {"bin, data_prep"}
    assert drawn[1:-1] == layers[1:-4]
    (lowest,) = drawn[-1]
    assert set(lowest.split(", ")) == set().union(*layers[-4:])
