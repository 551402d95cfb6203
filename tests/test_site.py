"""The documentation site: built without a warning, complete in itself."""

import html.parser
import os
import pathlib
import re
import subprocess
import sys

import pytest

from processes import ROOT

PAGES = sorted((ROOT / "docs").glob("*.md"))
LOADS = {"src", "srcset", "poster", "data"}  # attributes that a browser follows by itself; href only of <link>


class Loaded(html.parser.HTMLParser):
    """Collects what a browser loads for a page, links to click aside."""

    def __init__(self, page: pathlib.Path) -> None:
        super().__init__()
        self.addresses: list[str] = []
        self.feed(page.read_text(encoding="utf-8"))

    def handle_starttag(self, tag: str, attributes: list[tuple[str, str | None]]) -> None:
        self.addresses += [value for name, value in attributes if name in LOADS or (tag, name) == ("link", "href")]


def build(output: pathlib.Path, config: pathlib.Path = ROOT / "mkdocs.yml") -> subprocess.CompletedProcess:
    command = [sys.executable, "-m", "mkdocs", "build", f"--config-file={config}", f"--site-dir={output}"]
    environment = os.environ | {"NO_MKDOCS_2_WARNING": "1"}
    return subprocess.run(command, env=environment, capture_output=True, text=True, check=False)


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> pathlib.Path:
    folder = tmp_path_factory.mktemp("site")
    done = build(folder)
    assert done.returncode == 0, done.stderr
    return folder


@pytest.mark.parametrize(
    ("pages", "problem"),
    [
        ({"index.md": "[x](nothing.md)"}, "'nothing.md'"),
        ({"index.md": "[x](#nowhere)"}, "'#nowhere'"),
        ({"index.md": "", "orphan.md": ""}, "orphan.md"),
    ],
)
def test_broken_links_and_orphans_fail_the_build(pages: dict[str, str], problem: str, tmp_path: pathlib.Path) -> None:
    (tmp_path / "docs").mkdir()
    for name, text in pages.items():
        (tmp_path / "docs" / name).write_text(f"# Page\n{text}\n")
    config = tmp_path / "mkdocs.yml"
    config.write_text(f"INHERIT: {ROOT / 'mkdocs.yml'}\nnav: [index.md]\n")
    done = build(tmp_path / "site", config)
    assert done.returncode == 1
    assert problem in done.stderr


def test_every_page_is_built(site: pathlib.Path) -> None:
    assert {page.stem for page in PAGES} <= {page.stem for page in site.glob("*.html")}


def test_the_site_loads_nothing_from_the_network(site: pathlib.Path) -> None:
    loaded = [address for page in site.rglob("*.html") for address in Loaded(page).addresses]
    assert any(address.endswith(".css") for address in loaded)
    styles = "".join(style.read_text(encoding="utf-8") for style in site.rglob("*.css"))
    loaded += re.findall(r"url\(\s*['\"]?([^'\")]+)", styles) + re.findall(r"@import\s+['\"]([^'\"]+)", styles)
    assert [address for address in loaded if re.match(r"(https?:)?//", address)] == []
    mermaid = [page.name for page in site.glob("*.html") if 'class="mermaid"' in page.read_text(encoding="utf-8")]
    assert mermaid == []  # the theme would fetch what draws it


def test_the_api_page_shows_docstrings(site: pathlib.Path) -> None:
    text = (site / "api.html").read_text(encoding="utf-8")
    names = re.findall(r"^::: ([\w.]+)$", (ROOT / "docs" / "api.md").read_text(encoding="utf-8"), re.MULTILINE)
    assert len(names) > 10
    assert [name for name in names if f'id="{name}"' not in text] == []
