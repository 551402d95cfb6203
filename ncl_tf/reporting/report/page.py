"""The page: everything in one file, which asks nothing of the network."""

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
from ncl_tf.reporting.report import patient, provenance, summary, tables
from ncl_tf.reporting.report.sources import Source, trainings
from ncl_tf.reporting.report.tables import escape
from ncl_tf.runs import code_version

HERE = pathlib.Path(__file__).resolve().parent
WIDE = 400  # points; narrower figures stand side by side where there is room
OF_PATIENTS = ("tsne",)  # a point for every hour of some patients: only where these are simulated


def write(
    read: Sequence[Source], cohorts: dict[str, Cohort | None], output: pathlib.Path, moved: pathlib.Path | None = None
) -> None:
    """Makes the page of what was read and writes it, atomically; `moved` is the cohort file if it is no longer where it was."""
    simulated = all(cohort and cohort.simulated for cohort in cohorts.values())
    drawn = figures.make(
        [source.folder for source in read],
        cohort=moved,
        progress=lambda names: [name for name in names if simulated or name not in OF_PATIENTS],
    )
    files.write_text(output, build(read, cohorts, drawn, patient.monitors(read)))


def build(
    read: Sequence[Source],
    cohorts: dict[str, Cohort | None],
    drawn: Sequence[figures.Figure],
    monitors: Sequence[dict[str, Any]],
) -> str:
    """The page's text."""
    style, script = ((HERE / name).read_text(encoding="utf-8") for name in ("style.css", "page.js"))
    names = dict.fromkeys(summary.cohort_names(trainings(read), cohorts).values())
    return string.Template((HERE / "page.html").read_text(encoding="utf-8")).substitute(
        title=escape(", ".join(names)),
        style=style,
        style_hash=_hash(style),
        script=script,
        script_hash=_hash(script),
        made=f"{datetime.datetime.now(datetime.UTC):%-d %B %Y, %H:%M} UTC",
        version=escape(code_version()),
        summary=summary.section(read, cohorts),
        data=_data(cohorts),
        results=_results(read, cohorts),
        figures=_figures(drawn),
        patient=_patient(monitors),
        provenance=provenance.section(read),
        monitors=json.dumps(monitors, separators=(",", ":")).replace("<", "\\u003c"),
    )


def _hash(text: str) -> str:
    """By which the page's content policy knows its own style and script, and refuses any other."""
    return base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()


def _data(cohorts: dict[str, Cohort | None]) -> str:
    parts = [tables.data(cohort) for cohort in cohorts.values() if cohort]
    parts += [
        f"<p>The cohort file with SHA-256 <code>{escape(checksum)}</code> is not where it was in training, so it is not counted "
        "here. <code>bin/report --cohort=FILE</code> names its new place.</p>"
        for checksum, cohort in cohorts.items()
        if cohort is None
    ]
    return "".join(parts)


def _results(read: Sequence[Source], cohorts: dict[str, Cohort | None]) -> str:
    parts = []
    simulated = {checksum for checksum, cohort in cohorts.items() if cohort and cohort.simulated}
    if wards := [source for source in read if source.trainings[0].record["cohort_checksum"] in simulated]:
        which = "These" if len(wards) == len(read) else f"Those of {escape(', '.join(ward.name for ward in wards))}"
        parts.append(
            f'<p class="note">{which} are results on a <strong>simulated ward</strong>. They show that everything works, and '
            "how methods compare there; beside the paper's figures, which are of real patients, they say nothing.</p>"
        )
    for source in read:
        for comparison in source.comparisons:
            anchors = {training.group: provenance.anchor(source, training.group) for training in source.trainings}
            parts.append(tables.comparison(comparison, anchors))
    single = {source.trainings[0].name: source for source in read if source.plan is None}
    judged = [source.trainings[0] for source in single.values() if source.trainings[0].evaluations]
    if judged:
        parts.append(tables.evaluations(judged, lambda name: provenance.anchor(single[name], name)))
    if not judged and not any(source.comparisons for source in read):
        parts.append("<p>None yet: no run here has been judged. <code>bin/evaluate --run_dir=RUN</code> does it.</p>")
    return "".join(parts)


def _figures(drawn: Sequence[figures.Figure]) -> str:
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
