"""The page that bin/report makes: its numbers are those of results/, its patients are simulated, and a real browser shows it:
quiet, alone, usable by pointer and keyboard, on a phone and in both themes."""

import html
import json
import pathlib
import re

import gin
import numpy as np
import pandas as pd
import pytest

import ncl_tf
from ncl_tf.data import Cohort
from ncl_tf.data.simulator.ward import write_ward
from ncl_tf.reporting.report import page, patient
from ncl_tf.reporting.report.ward import answers
from ncl_tf.reporting.sources import Sources
from ncl_tf.runs import bindings
from ncl_tf.training import config

CONTRAST = pathlib.Path(__file__).with_name("contrast.js").read_text(encoding="utf-8")
READOUT = "document.getElementById('readout').textContent"
HOUR = "Number(document.getElementById('monitor').getAttribute('aria-valuenow'))"


def plain(text: str) -> str:
    return html.unescape(re.sub(r"<[^>]*>", "", text.replace('<span class="below">', " | ")))


def table(text: str, beginning: str) -> list[list[str]]:
    """The texts of the cells, row by row, of the table whose caption begins so; " | " is between a cell's two lines."""
    tables = re.findall(r"<table>.*?<caption>(.*?)</caption>(.*?)</table>", text, re.DOTALL)
    (rows, *_) = [rows for caption, rows in tables if plain(caption).startswith(beginning)]
    cells = (re.findall(r"<t[dh]\b[^>]*>(.*?)</t[dh]>", row, re.DOTALL) for row in re.findall(r"<tr>(.*?)</tr>", rows))
    return [list(map(plain, row)) for row in cells]


@pytest.fixture(scope="module")
def text(reported):
    return reported.page.read_text(encoding="utf-8")


def shown(text: str) -> list[dict]:
    """The patient view's content."""
    return json.loads(re.search(r'id="monitors">(.*?)</script>', text)[1])


def x100(value: float) -> str:
    return f"{100 * value:.1f}".replace("-", "−")


def test_result_tables_are_results(reported, text):
    header, *rows = table(text, "Results on PhysioNet 2019")
    assert header == ["", "seeds", "AUPRC MLP", "AUROC MLP", "Utility MLP"]
    assert [row[:2] for row in rows] == [["CL", "1"], ["NCL(n_w)", "2"]]
    found = {}
    for path in (reported.folder / "results").glob("*/sepsis-mlp.json"):
        result = json.loads(path.read_text(encoding="utf-8"))
        found.setdefault(path.parent.name.split("-seed")[0], []).append(result["metrics"])
    for row, method, paper in zip(rows, ("cl", "ncl_w"), ("9.5 ± 0.4", "9.3 ± 0.5"), strict=True):
        for cell, metric in zip(row[2:], ("auprc", "auroc", "utility"), strict=True):
            values = [metrics[metric] for metrics in found[method]]
            spread = f" ± {100 * np.std(values, ddof=1):.1f}" if len(values) > 1 else ""
            assert cell.split(" | ")[0] == x100(np.mean(values)) + spread + "†"  # an epoch is all that there is
        less = 100 * np.mean([metrics["auprc"] for metrics in found[method]]) - float(paper[:3])
        assert row[2].split(" | ")[1] == f"{paper}, {less:+.1f}".replace("-", "−")
    best = np.mean([metrics["auroc"] for metrics in found["ncl_w"]])
    assert f"<td><strong>{x100(best)}</strong> ± " in text  # bold, as the paper has it


def test_single_runs_have_intervals(reported, text):
    header, row = table(text, "Single runs")
    evaluation = json.loads((reported.single / "evaluations" / "sepsis-mlp.json").read_text(encoding="utf-8"))
    assert row[:4] == ["ncl_w-seed1111", "sepsis, MLP head, test split", "smoke", "1111"]
    for name, cell in zip(header[4:], row[4:], strict=True):
        low, high = (x100(value) for value in evaluation["intervals"][name.lower()])
        assert cell == f"{x100(evaluation['metrics'][name.lower()])}† | {low} to {high}"


def test_data_are_counted_and_provenance_shown(reported, text, ward_cohort):
    cohort = Cohort(ward_cohort)
    (stays,) = [row for row in table(text, "physionet2019") if row[0] == "stays"]
    assert stays == ["stays", *(str(len(cohort[split].patient_windows)) for split in ("train", "val", "test"))]
    record = json.loads((reported.single / "run.json").read_text(encoding="utf-8"))
    parts = [record["cohort_checksum"], record["code_version"], record["started"], record["versions"]["tensorflow"]]
    parts += ["bin/evaluate --run_dir=AGAIN --task=sepsis --head=mlp", "mlp_rate 0.01; "]  # of the protocol
    assert [part for part in parts if part not in text] == []
    assert str(reported.folder.parent) not in text  # no path of this machine
    assert "written: " in reported.printed


def test_the_command_that_is_shown_makes_the_same_training(reported, text, ward_cohort):
    shown = "bin/train --gin_file=ncl_w-seed1111/config.gin --gin_param=&quot;cohort = &#x27;COHORT.h5&#x27;&quot;"
    assert shown in text
    config.configure([str(reported.single / "config.gin")], [f"cohort = '{ward_cohort}'"])
    assert bindings(gin.config_str()) == bindings((reported.single / "config.gin").read_text())
    gin.clear_config()


def test_figures_are_part_of_the_page(text):
    images = re.findall(r'<img src="data:image/svg\+xml;base64,[^"]{100,}" alt="([^"]+)">', text)
    assert len(images) >= 2
    assert not re.search(r"""(?:src|href)=["'](?!data:|#)""", text)


def test_points_of_patients_are_drawn_only_if_simulated(reported, text, tmp_path):
    """A cohort that is not marked as simulated may be of real patients."""
    sources = Sources([reported.single])
    (cohort,) = sources.cohorts.values()
    cohort.simulated = False
    page.write_page(sources, tmp_path / "p.html")
    other = (tmp_path / "p.html").read_text(encoding="utf-8")
    assert "<h3>t-SNE" in text
    assert "<h3>t-SNE" not in other
    assert "<h3>Training curves" in other and "<h3>Distances" in other


def test_patients_are_simulated_and_no_row_of_the_cohort_is_shown(text, ward, tmp_path):
    (monitor,) = shown(text)
    assert len(monitor["stays"]) == patient.SHOWN
    assert sum(1 in stay["label"] for stay in monitor["stays"]) == patient.POSITIVE
    write_ward(patient.WARD, patient.SEED, tmp_path / "ward")
    simulated, cohort = (
        {tuple(read(path)["HR"].dropna()) for path in folder.glob("*.psv")} for folder in (tmp_path / "ward", ward)
    )
    for stay in monitor["stays"]:
        rates = tuple(value for value in stay["values"][0] if value is not None)
        assert rates in simulated
        assert rates not in cohort
    names = {path.stem for path in ward.glob("*.psv")}
    assert not names & set(re.findall(r"p\d{6}", text))


def read(path: pathlib.Path) -> pd.DataFrame:
    return pd.read_csv(path, sep="|")


def test_scores_are_the_classifiers(reported, text, tmp_path):
    """The best classifier's, stay by stay through `score`, from files read by pandas."""
    (monitor,) = shown(text)
    assert monitor["model"] == "ncl_w-seed1111, sepsis-mlp"
    model = ncl_tf.load(reported.single / "evaluations/sepsis-mlp/classifier")
    write_ward(patient.WARD, patient.SEED, tmp_path / "ward")
    frames = {tuple(frame["HR"].dropna()): frame for frame in map(read, sorted((tmp_path / "ward").glob("*.psv")))}
    for stay in monitor["stays"][:3]:
        frame = frames[tuple(value for value in stay["values"][0] if value is not None)]
        np.testing.assert_allclose(stay["score"], model.score(frame)[:, 1], atol=1e-4)
        np.testing.assert_allclose(stay["risk"], model.risk(frame), atol=1e-5)
        assert stay["label"] == frame["SepsisLabel"].tolist()
        assert stay["hours"] == frame["ICULOS"].tolist()


def heard(score: list[float], label: list[int], threshold: float, silence: int, lead: int) -> list[int]:
    """Whether there is no alarm, an alarm, silence after it, or a known event, hour by hour; events never end here."""
    onset = label.index(1) + lead if 1 in label else len(label)
    states, last = [], -silence - 1
    for hour, value in enumerate(score):
        if hour < onset and value > threshold and hour - last > silence:
            last = hour
        states.append(3 if hour >= onset else 1 if last == hour else 2 if hour - last <= silence else 0)
    return states


def test_alarms_of_the_patient_view_are_those_of_the_evaluation(reported, text):
    (monitor,) = shown(text)
    alarm = json.loads((reported.single / "evaluations" / "sepsis-mlp.json").read_text())["alarm"]
    assert (monitor["threshold"], monitor["silence"]) == (alarm["threshold"], alarm["silence"])
    for stay in monitor["stays"]:
        assert stay["state"] == heard(stay["score"], stay["label"], alarm["threshold"], alarm["silence"], alarm["lead"])


def test_what_a_ward_hears_by_hand():
    """Two stays: an alarm in the last hour of the first silences nothing in the second, whose event is known from hour 3 on."""
    scores = np.array([0.9, 0.9, 0.1, 0.9, 0.9, 0.2, 0.9, 0.9])
    labels = np.array([0, 0, 0, 0, 0, 0, 1, 1])
    alarm = {"threshold": 0.5, "silence": 1, "lead": 1}
    states = patient.alarm_states(scores, labels, np.array([4, 4]), alarm)
    assert states.tolist() == [1, 2, 0, 1, 1, 2, 1, 3]


def test_a_ward_gets_its_answers(reported, text):
    """The table of the section on wards has the numbers of the evaluation's JSON."""
    result = json.loads((reported.single / "evaluations" / "sepsis-mlp.json").read_text())
    (caption,) = re.findall(r"<span>(sepsis, simulated physionet2019, test split: [^<]*)</span>", text)
    assert "ncl_w, mlp, seed 1111" in html.unescape(caption)
    found = dict(table(text, "sepsis, simulated physionet2019, test split")[1:])
    assert f"above {x100(result['alarm']['threshold'])} %" in found["When is there an alarm?"]
    events = result["events"]
    low, high = events["intervals"]["event_recall"]
    share = (
        f"{100 * events['metrics']['event_recall']:.0f} % [{100 * low:.0f}, {100 * high:.0f}] of {events['events']}."
    )
    assert found["How many events does it find?"].startswith(share)
    assert f"{events['alarms'] / events['patient_days']:.2f} per" in found["For how many alarms?"]
    assert f"by {100 * result['calibration']['after']['ece']:.2g} % on" in found["Does 3 % mean 3 %?"]
    assert {"For whom is it worse?", "Is acting on it worth it?"} <= set(found)
    section = re.search(r'<section id="ward".*?</section>', text, re.DOTALL)[0]
    titles = ["Events found, by alarm rate", "Decision curve", "Does 3 % mean 3 %?", "Subgroups"]
    assert re.findall(r"<h3>(.*?)</h3>", section) == titles


def test_answers_about_what_is_not_there():
    """No event to warn of, no alarm, no group large enough, and no risk worth acting on."""
    metrics = dict.fromkeys(("event_recall", "alarm_precision", "alarms_per_day", "lead_time"))
    events = {"metrics": metrics, "intervals": metrics, "policy": {"silence": 8, "horizon": 12}, "events": 0}
    events |= {"events_without_warning_time": 2, "lead_time_quartiles": None, "correct_alarms": 0, "alarms": 0}
    curve = {"risk_threshold": [0.1], "net_benefit": [-0.1], "treat_all": [0.1]}
    result = {"events": events, "alarm": {"threshold": 0.25, "alarms_per_day": 0.5}, "decision_curve": curve}
    result |= {
        "subgroups": {"worst": {"auroc": None}},
        "calibration": {"before": {"ece": 0.2}, "after": {"ece": 0.003}},
    }
    found = dict(answers(result))
    assert found["How many events does it find?"] == "There are none. 2 more left no time to warn."
    assert found["For how many alarms?"] == "0.00 per patient-day."
    assert "at most 0.5 a patient-day" in found["When is there an alarm?"]
    assert found["Does 3 % mean 3 %?"] == "The risk is wrong by 0.3 % on average, the probability by 20 %."
    assert found["For whom is it worse?"] == "No group has enough positive stays to be compared."
    assert (
        found["Is acting on it worth it?"]
        == "No: at no limit is acting on risks above it better than acting in every hour or never."
    )
    assert {"How early?", "And for other numbers of alarms a day?"}.isdisjoint(found)


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
    """Chromium reports the attempts; nothing leaves the file."""
    opened.run("fetch('https://example.com/').catch(() => 0)")
    opened.run("document.body.insertAdjacentHTML('beforeend', '<img src=https://example.com/x.png>')")
    opened.run("new Promise((done) => setTimeout(done, 100))")
    assert sum("Content Security Policy" in problem for problem in opened.problems) >= 2


def test_the_picker_changes_the_chart(opened):
    expressions = "[...document.querySelectorAll('.trace')].map((path) => path.getAttribute('d')).join()", READOUT
    before = list(map(opened.run, expressions))
    opened.run("document.getElementById('stay').focus()")
    opened.press("ArrowDown", 40)
    assert opened.run("document.getElementById('stay').selectedIndex") == 1
    assert all(opened.run(expression) != value for expression, value in zip(expressions, before, strict=True))


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
    spoken = opened.run("document.getElementById('monitor').getAttribute('aria-valuetext')")
    assert spoken == opened.run(READOUT)
    for part in ("Hour ", "heart rate ", " beats/min", "score ", "risk ", "event known", "label: "):
        assert part in spoken


def test_the_pointer_reads_the_hour_out(opened):
    opened.run("document.getElementById('monitor').scrollIntoView()")
    place = "document.getElementById('monitor').getBoundingClientRect()"
    left, top, width = opened.run(f"(({{left, top, width}}) => [left, top, width])({place})")
    hours = []
    for part in (0.1, 0.4, 0.8):
        opened.point(left + part * width, top + 120)
        hours.append(opened.run(HOUR))
    assert hours == sorted(set(hours))
    # What is read out are the numbers behind the picture.
    score = opened.run(f"JSON.parse(document.getElementById('monitors').textContent)[0].stays[0].score[{hours[-1]}]")
    assert f"score {100 * score:.1f}, " in opened.run(READOUT)


def test_the_keyboard_reaches_everything_and_shows_where_it_is(opened):
    opened.press("Tab", 9)
    assert opened.run("document.activeElement.className") == "skip"
    assert opened.run("document.activeElement.getBoundingClientRect().left") >= 0
    seen = []
    for _ in range(60):
        opened.press("Tab", 9)
        name = opened.run("document.activeElement.id || document.activeElement.tagName")
        outline = opened.run("getComputedStyle(document.activeElement).outlineStyle")
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
    assert opened.run(background) != light
    assert opened.run("document.getElementById('theme').textContent") == "Light theme"
    opened.call("Emulation.setEmulatedMedia", media="print", features=[])
    assert opened.run(background) == "rgb(255, 255, 255)"  # on paper, always
    assert opened.run("getComputedStyle(document.querySelector('nav')).display") == "none"
    opened.call("Emulation.setEmulatedMedia", media="")


def every(selector: str, condition: str) -> str:
    return f"[...document.querySelectorAll('{selector}')].every((node) => {condition})"


def test_names_for_those_who_do_not_see(opened):
    assert opened.run(every("img", "node.alt.length > 20"))
    assert opened.run(every("table", "node.caption.textContent.trim()"))
    assert opened.run(every("th", "node.scope && node.textContent.trim()"))
    assert opened.run(every("a", "document.getElementById(decodeURIComponent(node.hash.slice(1)))"))
    levels = opened.run("[...document.querySelectorAll('h1, h2, h3, h4')].map((heading) => Number(heading.tagName[1]))")
    assert levels.count(1) == 1
    assert all(after - before <= 1 for before, after in zip(levels, levels[1:], strict=False))
    assert opened.run("document.querySelector('label[for=stay]').textContent") == "Simulated stay"
    ids = opened.run("[...document.querySelectorAll('[id]')].map((node) => node.id)")
    assert len(ids) == len(set(ids))


def test_a_link_opens_its_folded_block(opened):
    opened.run("document.querySelector('th a').click()")
    opened.run("new Promise((done) => setTimeout(done, 50))")
    assert opened.run("document.getElementById(location.hash.slice(1)).open")
