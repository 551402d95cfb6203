"""The page: everything in one file, which needs no network."""

import base64
import datetime
import hashlib
import json
import pathlib
import re
import string
from collections.abc import Sequence
from typing import Any

from ncl_tf import files
from ncl_tf.data.cohort import Cohort
from ncl_tf.reporting import figures
from ncl_tf.reporting.figures.figure import Figure
from ncl_tf.reporting.report import patient, provenance, summary, tables, ward
from ncl_tf.reporting.report.tables import escape
from ncl_tf.reporting.sources import Sources, without_seed
from ncl_tf.runs import code_version

HERE = pathlib.Path(__file__).resolve().parent
WIDE = 400  # points; narrower figures stand side by side where there is room
OF_PATIENTS = ("tsne",)  # a point for every hour of some patients: only where these are simulated


def write_page(sources: Sources, output: pathlib.Path) -> None:
    """Make the page from finished runs and reproduced tables, and write it atomically."""
    simulated = all(cohort and cohort.simulated for cohort in sources.cohorts.values())
    drawn = figures.make(
        sources, progress=lambda names: [name for name in names if simulated or name not in OF_PATIENTS]
    )
    files.write_text(output, build_page(sources, drawn, patient.monitors(sources)))


def build_page(sources: Sources, drawn: Sequence[Figure], monitors: Sequence[dict[str, Any]]) -> str:
    """Build the page's HTML from finished runs and reproduced tables, figures and the content of the patient view."""
    style, script = ((HERE / name).read_text(encoding="utf-8") for name in ("style.css", "page.js"))
    names = dict.fromkeys(summary.cohort_names(sources).values())
    return string.Template((HERE / "page.html").read_text(encoding="utf-8")).substitute(
        title=escape(", ".join(names)),
        style=style,
        style_hash=_hash(style),
        script=script,
        script_hash=_hash(script),
        made=f"{datetime.datetime.now(datetime.UTC):%-d %B %Y, %H:%M} UTC",
        version=escape(code_version()),
        summary=summary.summary_section(sources),
        data=_data(sources.cohorts),
        results=_results(sources),
        figures=_figures([one for one in drawn if one.name not in ward.FIGURES]),
        ward=ward.ward_section(sources, drawn, _figures),
        patient=_patient(monitors),
        provenance=provenance.provenance_section(sources.folders),
        monitors=json.dumps(monitors, separators=(",", ":")).replace("<", "\\u003c"),
    )


def _hash(text: str) -> str:
    """The hash by which the page's content policy admits its own style and script, and refuses any other."""
    return base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()


def _data(cohorts: dict[str, Cohort | None]) -> str:
    parts = [tables.data(cohort) for cohort in cohorts.values() if cohort]
    parts += [
        f"<p>The cohort file with SHA-256 <code>{escape(checksum)}</code> is not where it was in training, so it is not counted "
        "here; give its new path by <code>bin/report --cohort=FILE</code>.</p>"
        for checksum, cohort in cohorts.items()
        if cohort is None
    ]
    return "".join(parts)


def _results(sources: Sources) -> str:
    parts = []
    simulated = {checksum for checksum, cohort in sources.cohorts.items() if cohort and cohort.simulated}
    if wards := [source for source in sources.folders if source.finished[0].record["cohort_checksum"] in simulated]:
        every = len(wards) == len(sources.folders)
        which = "These results" if every else f"Results of {escape(', '.join(ward.name for ward in wards))}"
        parts.append(
            f'<p class="note">{which} come from a <strong>simulated ward</strong>. They show that the programs work. They '
            "cannot be compared with the paper's figures, which come from real patients.</p>"
        )
    for source in sources.folders:
        groups = {without_seed(run.name) for run in source.finished}
        anchors = {group: provenance.anchor(source, group) for group in groups}
        parts += [tables.comparison(comparison, anchors) for comparison in source.comparisons]
    single = {source.name: source for source in sources.folders if source.output is None}
    evaluated = [source.runs[0] for source in single.values() if source.runs[0].evaluations]
    if evaluated:
        parts.append(tables.single_runs(evaluated, lambda name: provenance.anchor(single[name], name)))
    if not evaluated and not any(source.comparisons for source in sources.folders):
        parts.append("<p>None yet. To evaluate a run: <code>bin/evaluate --run_dir=RUN</code>.</p>")
    return "".join(parts)


def _figures(drawn: Sequence[Figure]) -> str:
    parts = []
    for figure in drawn:
        svg = figure.svg()
        image = base64.b64encode(svg.encode()).decode()
        wide = ' class="wide"' if float(re.search(r'width="([\d.]+)', svg)[1]) > WIDE else ""
        parts.append(
            f"<figure{wide}><h3>{escape(figure.title)}</h3>"
            f'<div class="frame"><img src="data:image/svg+xml;base64,{image}" alt="{escape(figure.alt)}"></div>'
            f"<figcaption>{escape(figure.caption)}</figcaption></figure>"
        )
    return f'<div class="figures">{"".join(parts)}</div>' if parts else "<p>There is nothing to draw yet.</p>"


def _patient(monitors: Sequence[dict[str, Any]]) -> str:
    if not monitors:
        return (
            "<p>No classifier here can score a simulated stay: <code>bin/evaluate</code> exports one for each binary task of the "
            "paper's two datasets.</p>"
        )
    groups = []
    for position, monitor in enumerate(monitors):
        options = "".join(
            f'<option value="{position}-{number}">{escape(_title(number, stay, monitor["task"]))}</option>'
            for number, stay in enumerate(monitor["stays"])
        )
        label = f"{monitor['task']}, {monitor['dataset']}: {monitor['model']}"
        groups.append(f'<optgroup label="{escape(label)}">{options}</optgroup>')
    return string.Template((HERE / "patient.html").read_text(encoding="utf-8")).substitute(options="".join(groups))


def _title(number: int, stay: dict[str, Any], task: str) -> str:
    positive = [hour for hour, label in zip(stay["hours"], stay["label"], strict=True) if label == 1]
    outcome = f"{task} from hour {positive[0]}" if positive else f"no {task}"
    return f"{number + 1}: {len(stay['hours'])} hours, {outcome}"
