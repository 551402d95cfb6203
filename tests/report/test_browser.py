"""The page in a real browser: quiet, alone, usable by pointer and keyboard, on a phone and in both themes."""

import pytest

# Contrast of every text with its background (WCAG 2.1): the worst ratios, below 4.5, or 3 for large text.
CONTRAST = """(() => {
  const parse = (text) => text.match(/[\\d.]+/g).map(Number);
  const light = ([r, g, b]) => {
    const [x, y, z] = [r, g, b].map((v) => (v /= 255) <= 0.04045 ? v / 12.92 : ((v + 0.055) / 1.055) ** 2.4);
    return 0.2126 * x + 0.7152 * y + 0.0722 * z;
  };
  const ratio = (a, b) => { const [x, y] = [light(a), light(b)].sort((p, q) => q - p); return (x + 0.05) / (y + 0.05); };
  const behind = (node) => {
    for (; node; node = node.parentElement) {
      const colour = parse(getComputedStyle(node).backgroundColor);
      if (colour.length < 4 || colour[3] > 0) return colour;
    }
    return [255, 255, 255];
  };
  const shade = parse(getComputedStyle(document.querySelector(".swatch")).backgroundColor);
  const found = [], walker = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT);
  let count = 0;
  while (walker.nextNode()) {
    const node = walker.currentNode.parentElement, style = getComputedStyle(node);
    const text = walker.currentNode.data.trim(), hidden = ["SCRIPT", "NOSCRIPT", "OPTION"].includes(node.tagName);
    if (!text || hidden || !node.getClientRects().length) continue;
    const svg = node.namespaceURI.endsWith("svg"), size = parseFloat(style.fontSize);
    const needed = size >= 24 || (size >= 18.66 && style.fontWeight >= 700) ? 3 : 4.5;
    for (const back of svg ? [behind(node), shade] : [behind(node)]) {
      const got = ratio(parse(svg ? style.fill : style.color), back);
      count += 1;
      if (got < needed) found.push(`${node.tagName}.${node.getAttribute("class")} "${text.slice(0, 30)}" ${got.toFixed(2)}`);
    }
  }
  return { count, found };
})()"""
READOUT = "document.getElementById('readout').textContent"
HOUR = "Number(document.getElementById('monitor').getAttribute('aria-valuenow'))"


@pytest.fixture
def opened(browser, reported):
    """The page, freshly loaded in a large window."""
    browser.theme("light")
    browser.size(1280, 900)
    browser.problems.clear(), browser.requests.clear()
    browser.open(reported.page)
    return browser


def open_all(browser) -> None:
    browser.run("document.querySelectorAll('details').forEach((block) => { block.open = true; })")


def test_no_errors_and_no_requests(opened, reported):
    open_all(opened)
    for image in range(opened.run("document.images.length")):
        assert opened.run(f"document.images[{image}].decode().then(() => document.images[{image}].naturalWidth)") > 100
    opened.run("document.getElementById('theme').click()")
    assert opened.problems == []
    assert {url for url in opened.requests if not url.startswith("data:image/svg+xml")} == {reported.page.as_uri()}


def test_policy_stops_what_is_not_the_pages_own(opened):
    """Chromium would tell of the attempt; nothing leaves the file."""
    opened.run("fetch('https://example.com/').catch(() => 0)")
    opened.run("document.body.insertAdjacentHTML('beforeend', '<img src=https://example.com/x.png>')")
    opened.run("new Promise((done) => setTimeout(done, 100))")
    assert sum("Content Security Policy" in problem for problem in opened.problems) >= 2


def test_the_picker_changes_the_chart(opened):
    traces = "[...document.querySelectorAll('.trace')].map((path) => path.getAttribute('d')).join()"
    first = opened.run(traces), opened.run(READOUT)
    opened.run("document.getElementById('stay').focus()")
    opened.press("ArrowDown", 40)
    assert opened.run("document.getElementById('stay').selectedIndex") == 1
    assert opened.run(traces) != first[0]
    assert opened.run(READOUT) != first[1]


def test_arrow_keys_move_the_hour(opened):
    opened.run("document.getElementById('monitor').focus()")
    opened.press("Home", 36)
    assert opened.run(HOUR) == 0
    before = opened.run(READOUT)
    opened.press("ArrowRight", 39)
    opened.press("ArrowRight", 39)
    assert opened.run(HOUR) == 2
    assert opened.run(READOUT) != before
    opened.press("ArrowLeft", 37)
    assert opened.run(HOUR) == 1
    opened.press("End", 35)
    assert opened.run(HOUR) == opened.run("Number(document.getElementById('monitor').getAttribute('aria-valuemax'))")
    told = opened.run("document.getElementById('monitor').getAttribute('aria-valuetext')")
    assert told == opened.run(READOUT)
    for part in ("Hour ", "heart rate ", " beats/min", "risk ", "alarm", "label: "):
        assert part in told


def test_the_pointer_reads_the_hour_out(opened):
    opened.run("document.getElementById('monitor').scrollIntoView()")
    left, top, width = opened.run(
        "(({left, top, width}) => [left, top, width])(document.getElementById('monitor').getBoundingClientRect())"
    )
    hours = []
    for part in (0.1, 0.4, 0.8):
        opened.point(left + part * width, top + 120)
        hours.append(opened.run(HOUR))
    assert hours == sorted(set(hours))
    # What is read out are the numbers behind the picture.
    risk = opened.run(f"JSON.parse(document.getElementById('monitors').textContent)[0].stays[0].risk[{hours[-1]}]")
    assert f"risk {100 * risk:.1f}, " in opened.run(READOUT)


def test_the_keyboard_reaches_everything_and_shows_where_it_is(opened):
    opened.press("Tab", 9)
    assert opened.run("document.activeElement.className") == "skip"
    assert opened.run("document.activeElement.getBoundingClientRect().left") >= 0
    seen = []
    for _ in range(60):
        opened.press("Tab", 9)
        name, outline = opened.run(
            "(({activeElement: node}) => [node.id || node.tagName, getComputedStyle(node).outlineStyle])(document)"
        )
        if name == "BODY":
            break
        assert outline != "none", name
        seen.append(name)
    assert {"theme", "stay", "monitor", "SUMMARY", "A"} <= set(seen)


@pytest.mark.parametrize("theme", ["light", "dark"])
@pytest.mark.parametrize("width", [375, 1280])
def test_contrast_and_width(opened, theme, width):
    opened.theme(theme)
    opened.size(width, 812)
    open_all(opened)
    opened.run("new Promise((done) => requestAnimationFrame(() => requestAnimationFrame(done)))")
    assert opened.run("document.documentElement.scrollWidth") <= width
    contrast = opened.run(CONTRAST)
    assert contrast["count"] > 100
    assert contrast["found"] == []
    assert opened.run("document.querySelector('.monitor svg').getBoundingClientRect().width") <= width


def test_the_button_changes_the_theme(opened):
    background = "getComputedStyle(document.body).backgroundColor"
    light = opened.run(background)
    opened.run("document.getElementById('theme').click()")
    dark = opened.run(background)
    assert dark != light
    assert opened.run("document.getElementById('theme').textContent") == "Light theme"
    opened.call("Emulation.setEmulatedMedia", media="print", features=[])
    assert opened.run(background) == "rgb(255, 255, 255)"  # on paper, always
    assert opened.run("getComputedStyle(document.querySelector('nav')).display") == "none"
    opened.call("Emulation.setEmulatedMedia", media="")


def test_names_for_those_who_do_not_see(opened):
    assert opened.run("[...document.images].every((image) => image.alt.length > 20)")
    assert opened.run("[...document.querySelectorAll('table')].every((table) => table.caption.textContent.trim())")
    assert opened.run("[...document.querySelectorAll('th')].every((head) => head.scope && head.textContent.trim())")
    levels = opened.run("[...document.querySelectorAll('h1, h2, h3, h4')].map((heading) => Number(heading.tagName[1]))")
    assert levels.count(1) == 1
    assert all(after - before <= 1 for before, after in zip(levels, levels[1:], strict=False))
    assert opened.run("document.querySelector('label[for=stay]').textContent") == "Simulated stay"
    ids = opened.run("[...document.querySelectorAll('[id]')].map((node) => node.id)")
    assert len(ids) == len(set(ids))
    assert opened.run(
        "[...document.querySelectorAll('a')].every((a) => document.getElementById(decodeURIComponent(a.hash.slice(1))))"
    )


def test_a_link_opens_its_folded_block(opened):
    opened.run("document.querySelector('th a').click()")
    opened.run("new Promise((done) => setTimeout(done, 50))")
    assert opened.run("document.getElementById(location.hash.slice(1)).open")
