"""The paper's figures as data: every one of them against the LaTeX text, and the descriptions against our declarations."""

import math
import re
import tomllib

import pytest

from ncl_tf.data.datasets import MIMIC3_BENCHMARK, PAPER_COUNTS, PHYSIONET2019
from ncl_tf.paper import tables
from ncl_tf.paper.tables import PaperFigure
from processes import ROOT
from refusals import refused

DATASETS = {dataset.name: dataset for dataset in (MIMIC3_BENCHMARK, PHYSIONET2019)}
LABELLED = [name for name in tables.names() if (tables.load_table(name).label or "").startswith("tab:")]
INSTANCES, MEASUREMENTS = (  # method -> alpha, window (hours), neighborhood; dataset -> the paper's name -> our channel
    tomllib.loads((tables.HERE / f"{name}.toml").read_text(encoding="utf-8")) for name in ("instances", "measurements")
)
KERNEL_FILTERS = ["kernel_filters_mimic3", "kernel_filters_physionet2019"]
MACROS = {r"\NCLwY": "NCL(n_w and n_Y)", r"\NCLw": "NCL(n_w)", r"\NCLY": "NCL(n_Y)"}
METRICS = {"AUPRC": "auprc", "AUROC": "auroc", "Kappa": "kappa", "Utility": "utility"}
TASKS = {"Decompensation": "decompensation", **dict.fromkeys(("Length-of-stay", "Length of stay"), "length_of_stay")}
TASKS |= dict.fromkeys(("Sepsis onset prediction", "Sepsis onset", "Sepsis"), "sepsis")
HEADS = {"Linear": "linear", "MLP": "mlp"}


def environments(text: str) -> list[str]:
    return re.findall(r"\\begin\{table\*?\}.*?\\end\{table\*?\}", text, re.DOTALL)


def labelled(text: str, label: str) -> str:
    (found,) = [table for table in environments(text) if rf"\label{{{label}}}" in table]
    return found


def lines(table: str) -> list[list[str]]:
    """The cells of each line of the table's tabulars; a cell over n columns n times."""
    tabulars = re.findall(r"\\begin\{tabular\}.*?\n(.*?)\\end\{tabular\}", table, re.DOTALL)
    found = []
    for line in r" \\ ".join(tabulars).split(r"\\"):
        line = re.sub(r"\\(toprule|midrule|bottomrule|hline)", "", line)
        cells = []
        for cell in re.split(r"(?<!\\)&", line):
            span = re.fullmatch(r"\s*\\multicolumn\{(\d)\}\{[^}]*\}\{(.*)\}\s*", cell, re.DOTALL)
            cells += [span[2].strip()] * int(span[1]) if span else [cell.strip()]
        found.append(cells)
    return [cells for cells in found if any(cells)]


def figure(cell: str) -> PaperFigure | None:
    match = re.fullmatch(r"(\\textbf\{)?([\d.]+)\}? *\$\\pm\$ *([\d.]+)\}?", cell)
    return match and PaperFigure(float(match[2]), float(match[3]), match[1] is not None)


def title(cell: str) -> str:
    """A method's name, without citation and the authors' ways to write it."""
    cell = re.sub(r"\\citep\{.*?\}|\(Ours\)", "", cell).replace("Seq2-Seq", "Seq2Seq").replace("n_y", "n_Y")
    for macro, written in MACROS.items():
        cell = cell.replace(macro, written)
    return re.sub(r"\s+", " ", cell.replace("$", "")).strip()


def header(cells: list[list[str]], name: str) -> list[str]:
    (line,) = [line[1:] for line in cells if line[0] == name] or [[]]
    return [re.sub(r"\s*\((in \\%|\$\\times 100\$)\)", "", cell) for cell in line]


@pytest.mark.parametrize("name", LABELLED)
def test_every_figure_is_the_papers(name, paper_text):
    table = tables.load_table(name)
    cells = lines(labelled(paper_text, table.label))
    assert [TASKS[task] for task in header(cells, "Task")] == [column.task for column in table.columns]
    assert [METRICS[metric] for metric in header(cells, "Metric")] == [column.metric for column in table.columns]
    heads = [HEADS[head] for head in header(cells, "Head")]
    assert (heads or ["mlp"] * len(table.columns)) == [column.head for column in table.columns]
    labels = [float(label.split()[0]) / 100 for label in header(cells, "Labels")]
    assert (labels or [1.0] * len(table.columns)) == [column.labels for column in table.columns]
    found = [(title(first), tuple(map(figure, rest))) for first, *rest in cells if rest and figure(rest[0])]
    assert found == [(row.title, row.figures) for row in table.rows]
    caption = re.search(r"averaged over (?:the same )?(\d+) runs", labelled(paper_text, table.label))
    assert caption is None or int(caption[1]) == table.seeds


@pytest.mark.parametrize("name", KERNEL_FILTERS)
def test_kernel_sizes_and_filters_are_the_papers(name, paper_text):
    table = tables.load_table(name)
    dataset = "MIMIC-III" if table.dataset == "mimic3_benchmark" else "Physionet 2019"
    (text,) = [t for t in environments(paper_text) if "Kernel Size" in t and dataset in t]
    found, axis = [], None
    for first, second in lines(text):
        if figure(second):
            found.append((f"{axis}_{first}", (figure(second),)))
        else:
            axis = {"Kernel Size": "kernel_size", "Number of filters": "filters"}[first]
            assert METRICS[second.split()[0]] == table.columns[0].metric
            assert "Validation set" in second
            assert table.split == "val"
    assert found == [(row.name, row.figures) for row in table.rows]
    assert f"averaged over {table.seeds} seeds" in text
    assert "number of filters was set to 32" in text
    assert "kernel size was set to 2" in text
    fixed = {"kernel_size": {"filters": 32}, "filters": {"kernel_size": 2}}
    for row in table.rows:
        value = {row.block: int(row.name.split("_")[-1])}
        assert row.settings == fixed[row.block] | value


def test_no_figure_of_the_paper_is_left_out(paper_text):
    everywhere = [cell for table in environments(paper_text) for line in lines(table) for cell in line]
    ours = [f for name in LABELLED + KERNEL_FILTERS for row in tables.load_table(name).rows for f in row.figures]
    assert sorted(map(str, filter(None, map(figure, everywhere)))) == sorted(map(str, ours))
    assert len(ours) == len(re.findall(r"\d\}? *\$\\pm\$ *\d", paper_text))


def test_all_augmentations_together(paper_text):
    (value,) = re.findall(r"composing all transformations, which achieves an AUPRC of \$([\d.]+)\$ on val", paper_text)
    table = tables.load_table("augmentations_mimic3")
    assert (table.split, table.columns[0].metric) == ("val", "auprc")
    known = [row for row in table.rows if row.figures[0]]
    assert [row.settings["augmentation.layers"] for row in known] == [["cutout", "crop", "noise", "channel_dropout"]]
    assert known[0].figures == (PaperFigure(float(value), None, False),)


def test_other_methods_as_instances(paper_text):
    found = {}
    for name, alpha, window, neighborhood in lines(labelled(paper_text, "tab:baseline"))[1:]:
        values = {"alpha": float(alpha.strip("$")), "neighborhood": neighborhood.strip("$")}
        window = window.strip("$ ")
        if window != "N.A":
            values["window"] = math.inf if window == r"+\infty" else int(window)
        found[title(name).lower()] = values
    assert found == INSTANCES


@pytest.mark.parametrize(("method", "instance"), INSTANCES.items())
def test_gin_files_configure_the_instances(method, instance):
    text = (ROOT / "gin" / "methods" / f"{method}.gin").read_text(encoding="utf-8")
    bound = dict(re.findall(r"^(\w+) = (\S+)", text, re.MULTILINE))
    assert float(bound["alpha"]) == instance["alpha"]
    assert bound.get("window") == (None if "window" not in instance else str(instance["window"]).replace("inf", "None"))
    assert f"include 'neighborhoods/{instance['neighborhood'].lower()}.gin'" in text


@pytest.mark.parametrize(
    ("dataset", "label"),
    [("mimic3_benchmark", "tab:data-set-desc-mimic-iii"), ("physionet2019", "tab:data-set-desc-physionet2019")],
)
def test_data_statistics(dataset, label, paper_text):
    task, what, found = None, None, {}
    for first, *rest in lines(labelled(paper_text, label)):
        first, rest = (re.sub(r"\\textbf\{(.*)\}", r"\1", first), [re.sub(r"\\textbf\{(.*)\}", r"\1", c) for c in rest])
        task = first or task
        if rest[0].startswith("Number of"):
            what = rest[0]
        elif rest[0] != "Train":
            train, test, val = (int(number.replace(",", "")) for number in rest)
            found[task, what] = (train, val, test)
    kinds = {"Number of samples": "labelled hours", "Number of positives": "positive hours"}
    counts = {}
    for (task, what), numbers in found.items():
        if what == "Number of patients":
            counts["stays"] = numbers
        else:
            counts.setdefault(TASKS[task], {})[kinds[what]] = numbers
    assert counts == PAPER_COUNTS[dataset]


@pytest.mark.parametrize(
    ("name", "label"), [("mimic3_benchmark", "tab:variables_MIMIC"), ("physionet2019", "tab:Variables Physionet")]
)
def test_measurements_are_the_declared_channels(name, label, paper_text):
    found = {}
    for measurement, kind in lines(labelled(paper_text, label)):
        if "Measurement" not in measurement:
            found[measurement.replace("$_2$", "2")] = kind
    assert list(found) == list(MEASUREMENTS[name])
    channels = {channel.name: channel for channel in DATASETS[name].channels}
    for measurement, kind in found.items():
        channel = channels.pop(MEASUREMENTS[name][measurement])
        assert kind == (f"Static ({channel.kind.title()})" if channel.static else channel.kind.title()), measurement
    assert set(channels) == ({"pH", "Magnesium", "Phosphate", "Potassium"} if name == "physionet2019" else set())


def test_seeds_are_the_papers_twenty():
    text = "1111 2222 3333 4444 5555 6666 7777 8888 9999 1234 2345 3456 4567 5678 6789 9876 8765 7654 6543 5432"
    assert list(tables.SEEDS) == [int(seed) for seed in text.split()]


@pytest.mark.parametrize("name", tables.names())
def test_every_table_is_complete(name):
    table = tables.load_table(name)
    declared = {task.name for task in DATASETS[table.dataset].tasks}
    assert set(table.tasks) <= declared
    assert 1 <= table.seeds <= len(tables.SEEDS)
    assert len({row.name for row in table.rows}) == len(table.rows)
    assert all(len(row.figures) == len(table.columns) for row in table.rows)


def test_narrowed_keeps_figures_with_their_columns():
    table = tables.load_table("physionet2019").narrowed(["ncl_w", "cl"], ["mlp"])
    assert [row.name for row in table.rows] == ["cl", "ncl_w"]
    assert [(c.metric, c.head) for c in table.columns] == [("auprc", "mlp"), ("auroc", "mlp"), ("utility", "mlp")]
    assert [figure.mean for figure in table.rows[1].figures] == [9.3, 80.7, 30.2]


def test_unknown_names_are_refused_with_the_known_ones():
    with refused("table", "physionet2019", "window_alpha_mimic3", "got 'physionet'"):
        tables.load_table("physionet")
    for arguments, named in [
        ((["cl", "ncl"],), "method & seq2seq_ae,  & ncl_y & got 'ncl'"),
        ((None, ["deep"]), "head & linear, mlp & got 'deep'"),
        (([],), "method & got ''"),  # --methods=$FORGOTTEN
    ]:
        with refused("'physionet2019'", named):
            tables.load_table("physionet2019").narrowed(*arguments)


def test_the_papers_best_is_the_highest_mean_of_its_two_tables() -> None:
    (row,) = [row for row in tables.load_table("beyond_physionet2019").rows if row.quoted]
    found: dict[str, list[PaperFigure]] = {}
    for name in ("physionet2019", "fine_tuning_physionet2019"):
        table = tables.load_table(name)
        for figures in (row.figures for row in table.rows):
            for column, one in zip(table.columns, figures, strict=True):
                found.setdefault(column.metric, []).append(one)
    best = [max(found[metric], key=lambda one: one.mean) for metric in ("auprc", "auroc", "utility")]
    assert [(one.mean, one.std) for one in row.figures] == [(one.mean, one.std) for one in best]
