"""The gin tree: every file parses, builds what the paper says and trains; headers have the paper's figures."""

import pathlib
import re
import tomllib
from typing import NamedTuple

import gin
import keras
import numpy as np
import pytest

import tiny
from ncl_tf import project
from ncl_tf.data.cohort import Cohort
from ncl_tf.data.windows import Windows
from ncl_tf.methods import authors
from ncl_tf.methods.momentum import MomentumContrast
from ncl_tf.objective.neighborhoods import Intersection, SameLabel, SameStayWithin
from ncl_tf.runs import bindings
from ncl_tf.training import config, early_stopping, factories, schedules, trainer
from ncl_tf.training.distribution import Alone
from refusals import refused

FILES = sorted(str(path.relative_to(project.GIN)) for path in project.GIN.rglob("*.gin"))
TABLES = pathlib.Path(factories.__file__).parents[1] / "paper" / "tables"
RHO = {"physionet2019": 0.99, "mimic3_benchmark": 0.999}  # paper, section 5.3
TINY = {"history": 3, "dilations": (2,), "filters": 8, "augmentation.layers": ("noise",)}


class Row(NamedTuple):
    """A row of the paper's Table 1 with the settings of section 5.3 and the caption of Table 2."""

    alpha: float
    neighborhood: str  # n_w, n_y or both
    window: float | None = 0  # of n_w; None: infinite
    task: str | None = None
    frozen: bool = False


PAPER = {
    "physionet2019/cl": Row(1.0, "n_w", 0),
    "physionet2019/sacl": Row(0.0, "n_w", None),
    "physionet2019/clocs": Row(1.0, "n_w", None),
    "physionet2019/scl": Row(1.0, "n_y", task="sepsis"),
    "physionet2019/ncl_w": Row(0.4, "n_w", 12),
    "physionet2019/ncl_y": Row(0.9, "n_y", task="sepsis"),
    "mimic3_benchmark/cl": Row(1.0, "n_w", 0),
    "mimic3_benchmark/sacl": Row(0.0, "n_w", None),
    "mimic3_benchmark/clocs": Row(1.0, "n_w", None),
    "mimic3_benchmark/scl_decompensation": Row(1.0, "n_y", task="decompensation", frozen=True),
    "mimic3_benchmark/scl_length_of_stay": Row(1.0, "n_y", task="length_of_stay", frozen=True),
    "mimic3_benchmark/ncl_w": Row(0.3, "n_w", 16),
    "mimic3_benchmark/ncl_y_decompensation": Row(0.9, "n_y", task="decompensation"),
    "mimic3_benchmark/ncl_y_length_of_stay": Row(0.9, "n_y", task="length_of_stay"),
    "mimic3_benchmark/ncl_wy_decompensation": Row(1.0, "both", 16, "decompensation"),
    "mimic3_benchmark/ncl_wy_length_of_stay": Row(1.0, "both", 16, "length_of_stay"),
}
AUTOENCODERS = {f"{dataset}/seq2seq_ae{kind}": bool(kind) for dataset in RHO for kind in ("", "_forecast")}
END_TO_END = {
    "physionet2019/end_to_end": "sepsis",
    "mimic3_benchmark/end_to_end_decompensation": "decompensation",
    "mimic3_benchmark/end_to_end_length_of_stay": "length_of_stay",
}


@pytest.fixture(scope="session")
def cohorts(ward_cohort, mimic_ward_cohort):
    return {"physionet2019": Cohort(ward_cohort), "mimic3_benchmark": Cohort(mimic_ward_cohort)}


def load(*files: str, **macros) -> dict:
    """Bindings of `train`, macros and references resolved."""
    params = {"cohort": "nowhere.h5", "fast": False, "jit_compile": False} | macros
    config.configure(files, [f"{name} = {value!r}" for name, value in params.items()])
    return gin.get_bindings(trainer.train)


def build(*files: str, cohort: Cohort, **macros) -> tuple[MomentumContrast, dict]:
    """The model that `train` would make, and the bindings of `train`."""
    bound = load(*files, **macros)
    return bound["method"](cohort=cohort, seed=bound["seed"], fast=bound["fast"]), bound


def neighborhood_of(row: Row, inclusive: bool = False) -> list:
    n_w, n_y = SameStayWithin(row.window, inclusive), SameLabel()
    return {"n_w": [n_w], "n_y": [n_y], "both": [n_w, n_y]}[row.neighborhood]


def parts_of(neighborhood) -> list:
    return list(neighborhood.neighborhoods) if isinstance(neighborhood, Intersection) else [neighborhood]


def test_there_is_a_file_for_every_row_and_no_other():
    rows = [*PAPER, *AUTOENCODERS, *END_TO_END]
    assert {file for file in FILES if file.startswith("paper/")} == {f"paper/{name}.gin" for name in rows}
    assert not list(project.GIN.rglob("*.py"))  # it would shadow gin-config


@pytest.mark.parametrize("name", PAPER)
def test_a_papers_file_builds_its_row(name, cohorts):
    dataset, row = name.split("/")[0], PAPER[name]
    model, bound = build(f"paper/{name}.gin", cohort=cohorts[dataset])
    assert (model.objective.alpha, model.objective.temperature, model.momentum) == (row.alpha, 0.1, RHO[dataset])
    assert parts_of(model.objective.neighborhood) == neighborhood_of(row)
    tasks = {"physionet2019": ["sepsis"], "mimic3_benchmark": [task.name for task in cohorts[dataset].tasks]}[dataset]
    assert model.task == (None if row.task is None else tasks.index(row.task))
    assert model.freeze_projector == row.frozen
    assert (model.queue_size, bound["batch_size"], bound["steps"]) == (65536, 2048, 25000)
    assert type(model) is MomentumContrast  # nothing of the authors' code
    for encoder in (model.encoder, model.momentum_encoder):
        assert (encoder.tcn.nb_filters, encoder.tcn.kernel_size, encoder.merge.units) == (64, 2, 64)
        assert tuple(encoder.tcn.dilations) == (1, 2, 4, 8, 16)
        assert encoder.static_columns == {"physionet2019": 5, "mimic3_benchmark": 1}[dataset]
    assert model.augmentation.static_columns == model.encoder.static_columns
    layers = [type(layer).__name__ for layer in model.augmentation.layers]
    assert layers == ["HistoryCutout", "HistoryCrop", "GaussianNoise", "ChannelDropout"]


def rates(bound: dict) -> keras.optimizers.schedules.LearningRateSchedule:
    return schedules.schedule(bound["steps"], bound["warmup"], bound["lowest_rate"], bound["highest_rate"])


def test_learning_rate_is_the_papers():
    rate = rates(load("paper/physionet2019/cl.gin"))
    for step, expected in ((0, 1e-5), (1250, 5.05e-4), (2500, 1e-3), (13750, 5.05e-4), (25000, 1e-5)):
        assert float(rate(step)) == pytest.approx(expected, rel=1e-4)


def fit_two_steps(model: keras.Model, batches, cohort: Cohort) -> None:
    model.compile(optimizer=keras.optimizers.SGD(0.1), run_eagerly=True)
    model.build((None, model.window_hours, len(cohort.columns)))
    before = [np.array(variable) for variable in model.trainable_variables]
    logs = model.fit(batches, steps_per_epoch=2, shuffle=False, verbose=0).history
    assert np.isfinite(logs["loss"]).all()
    assert int(model.optimizer.iterations) == 2
    moved = [not np.array_equal(old, new) for old, new in zip(before, model.trainable_variables, strict=True)]
    assert np.mean(moved) > 0.9


AUTHORS = "mimic3_benchmark/ncl_wy_decompensation"


@pytest.mark.parametrize(("name", "files"), [*((name, ()) for name in PAPER), (AUTHORS, ("authors_code_joint.gin",))])
def test_a_papers_file_trains_two_steps(name, files, cohorts):
    """Two steps change the networks and bring real keys into the queue; loss and weights stay finite."""
    cohort = cohorts[name.split("/")[0]]
    model, bound = build(f"paper/{name}.gin", *files, "budgets/smoke.gin", cohort=cohort, **TINY)
    windows = Windows(cohort["train"], model.window_hours)
    schedules.check_sizes(model, windows.hours, bound["batch_size"], bound["steps"], bound["report_every"])
    assert bound["steps"] == 2
    fit_two_steps(model, windows.training(bound["batch_size"], bound["seed"]), cohort)
    enqueued = 2 * bound["batch_size"] * (1 if isinstance(model, authors.OtherViewKeys) else 2)
    assert np.sum(np.array(model.queue.attributes.stay) >= 0) == min(enqueued, model.queue_size)


@pytest.mark.parametrize("name", AUTOENCODERS)
def test_an_autoencoders_file_builds_and_trains_two_steps(name, cohorts):
    cohort = cohorts[name.split("/")[0]]
    files = (f"paper/{name}.gin", "budgets/smoke.gin")
    model, bound = build(*files, cohort=cohort, **{"encoder.filters": 8})
    assert (model.forecast, model.window_hours) == ((True, 96) if AUTOENCODERS[name] else (False, 48))
    assert not model.encoder.normalize
    samples = trainer.MethodSamples(model, cohort["train"], Alone())
    fit_two_steps(model, samples.batches(bound["batch_size"], bound["seed"]), cohort)
    model, _ = build(f"paper/{name}.gin", "authors_code.gin", cohort=cohort)
    assert isinstance(model, authors.AllSamplesAutoencoder)
    assert isinstance(model.decoder, authors.RectifiedDecoder)


@pytest.mark.parametrize("name", END_TO_END)
def test_an_end_to_end_file_builds_and_trains_two_steps(name, cohorts):
    """As the paper's section 5.3 and the heads' protocol say: 1e-5, batches of 2,048, patience 20, balanced for sepsis alone."""
    cohort, task = cohorts[name.split("/")[0]], END_TO_END[name]
    model, bound = build(f"paper/{name}.gin", "authors_code.gin", cohort=cohort, head="linear", rate=1e-3)
    assert model.early_stopping.rate == 1e-3
    assert model.head.kind == "linear"
    model, bound = build(f"paper/{name}.gin", cohort=cohort, **{"encoder.filters": 8})
    assert model.early_stopping == early_stopping.EarlyStopping(1e-5, 2048, patience=20, max_epochs=1000)
    assert (cohort.tasks[model.task].name, model.head.kind) == (task, "mlp")
    labels = cohort["train"].labels[:, model.task]
    share = np.nanmean(labels)
    expected = [0.5 / (1 - share), 0.5 / share] if task == "sepsis" else [1] * cohort.tasks[model.task].classes
    np.testing.assert_allclose(model.class_weights, expected, rtol=1e-6)
    samples = trainer.MethodSamples(model, cohort["train"], Alone())
    assert samples.count == np.sum(~np.isnan(labels))
    fit_two_steps(model, samples.batches(32, bound["seed"]), cohort)


@pytest.mark.parametrize("name", PAPER)
def test_authors_code_flips_every_point(name, cohorts):
    dataset, row = name.split("/")[0], PAPER[name]
    joint = row.neighborhood == "both"
    switch = "authors_code_joint.gin" if joint else "authors_code.gin"
    model, bound = build(f"paper/{name}.gin", switch, cohort=cohorts[dataset])
    assert isinstance(model, authors.OtherViewKeys)  # both the keys of an anchor and what is enqueued
    assert parts_of(model.objective.neighborhood) == neighborhood_of(row, inclusive=True)
    assert isinstance(model, authors.IndependentStart)
    assert model.augmentation.static_columns == 0  # noise and channel dropout on the static values, too
    assert isinstance(model, authors.EncoderStaticDropout)
    assert model.static_dropout.rate == 0.5
    assert not model.freeze_projector
    steps, warmup, batch_size = (50_001, 5_000, 1024) if joint else (25_001, 2_500, 2048)
    assert (bound["steps"], bound["batch_size"]) == (steps, batch_size)
    schedule = rates(bound)
    assert (schedule.warmup_steps, schedule.decay_steps) == (warmup, steps - warmup)
    found = model.objective.alpha, model.objective.temperature, model.momentum, model.queue_size
    assert found == (row.alpha, 0.1, RHO[dataset], 65536)  # nothing else


FRAGMENTS = {  # what a file that is only a part of a configuration needs before and after it
    "base.gin": (["methods/cl.gin"], {"momentum": 0.9}),
    "datasets/": (["methods/cl.gin"], {}),
    "neighborhoods/n_w.gin": (["datasets/physionet2019.gin"], {"alpha": 1, "window": 3}),
    "neighborhoods/soft_n_w.gin": (["datasets/physionet2019.gin"], {"alpha": 1, "half_life": 3}),
    "neighborhoods/soft_n_wy.gin": (["datasets/physionet2019.gin"], {"alpha": 1, "task": "sepsis", "half_life": 3}),
    "neighborhoods/n_y.gin": (["datasets/physionet2019.gin"], {"alpha": 1, "task": "sepsis"}),
    "neighborhoods/n_wy.gin": (["datasets/physionet2019.gin"], {"alpha": 1, "task": "sepsis", "window": 3}),
    "methods/ncl_y.gin": (["datasets/physionet2019.gin"], {"task": "sepsis"}),
    "methods/scl.gin": (["datasets/physionet2019.gin"], {"task": "sepsis"}),
    "methods/ncl_wy.gin": (["datasets/physionet2019.gin"], {"task": "sepsis", "window": 3}),
    "methods/end_to_end.gin": (["datasets/physionet2019.gin"], {"task": "sepsis"}),
    "methods/": (["datasets/physionet2019.gin"], {}),
    "budgets/": (["paper/physionet2019/cl.gin"], {}),
    "beyond/table/ncl_y.gin": ([], {"task": "sepsis"}),
    "beyond/table/end_to_end.gin": ([], {"task": "sepsis"}),
    "beyond/observations.gin": (["paper/physionet2019/cl.gin"], {}),
    "authors_code": (["paper/physionet2019/ncl_w.gin"], {}),
}


@pytest.mark.parametrize("file", FILES)
def test_every_file_parses_is_complete_and_can_be_read_back(file, cohorts):
    context, macros = next((FRAGMENTS[part] for part in FRAGMENTS if file.startswith(part)), ([], {}))
    files = [file, *context] if file == "base.gin" or file.startswith("datasets/") else [*context, file]
    cohort = cohorts["mimic3_benchmark" if "mimic3_benchmark" in file else "physionet2019"]
    _, bound = build(*files, cohort=cohort, **macros)
    assert config.macro("queue_size") % (2 * bound["batch_size"]) == 0
    assert bound["steps"] % bound["report_every"] == 0 or file.startswith("authors_code")
    once = gin.config_str()
    gin.clear_config()
    gin.parse_config(once)
    assert gin.config_str() == once


@pytest.mark.parametrize("file", FILES)
def test_every_number_carries_its_source(file):
    lines = (project.GIN / file).read_text(encoding="utf-8").splitlines()
    about = lines[0].startswith("# ") and not file.startswith("paper/")
    for line in lines:
        number = re.match(r"[\w.]+ = .*\d", line.split("#")[0])
        assert not number or "# " in line or (about and file != "base.gin"), f"{file}: {line}"


FIGURES = {  # of each dataset, by the name that a gin file or its method has in them
    "physionet2019": ("physionet2019",),
    "mimic3_benchmark": ("mimic3", "joint_neighborhood_mimic3"),
}


@pytest.mark.parametrize("name", [*PAPER, *AUTOENCODERS, *END_TO_END])
def test_a_papers_file_begins_with_its_command_its_time_and_the_papers_figures(name):
    dataset, row = name.split("/")
    text = (project.GIN / "paper" / f"{name}.gin").read_text(encoding="utf-8")
    header = " ".join(line[1:].strip(" \\") for line in text.splitlines() if line.startswith("#"))
    assert f"bin/train --gin_file=gin/paper/{name}.gin --gin_param=\"cohort = '{dataset}.h5'\"" in header
    assert re.search(r"Time: .*\d (h|min) on (one core|two cores)", header)
    tables = [tomllib.loads((TABLES / f"{table}.toml").read_text(encoding="utf-8")) for table in FIGURES[dataset]]
    table, cells = next(
        (table, block["figures"][known])
        for known in (row, "end_to_end" if name in END_TO_END else row)
        for table in tables
        for block in table["blocks"].values()
        if known in block["figures"]
    )
    assert f"Paper, {table['label']}, linear | MLP head:" in header
    assert table["heads"] == ["linear", "mlp"]
    cells = iter(cell.replace("*", "") for cell in cells)
    expected = [
        (task, metric, next(cells), next(cells)) for task, metrics in table["metrics"].items() for metric in metrics
    ]
    found = [
        (task, metric.lower(), linear, mlp)
        for task, figures in re.findall(r"^#   (\w+): (.*\|.*)$", text, re.MULTILINE)
        for metric, linear, mlp in re.findall(r"(\w+) ([\d.]+ ± [\d.]+) \| ([\d.]+ ± [\d.]+)", figures)
    ]
    assert found == [cell for cell in expected if name not in END_TO_END or cell[0] == END_TO_END[name]]


OBSERVED = {  # the files with observation columns, and those without
    "observed_cl": "paper/physionet2019/cl.gin",
    "observed_ncl_w": "paper/physionet2019/ncl_w.gin",
    "observed_ncl_y": "paper/physionet2019/ncl_y.gin",
    "observed_ncl_soft_w": "beyond/physionet2019/ncl_soft_w.gin",
    "observed_end_to_end": "paper/physionet2019/end_to_end.gin",
}


@pytest.mark.parametrize("name", OBSERVED)
def test_observations_change_nothing_but_the_columns(name, observed_cohort, ward_cohort, tmp_path):
    """The settings are those of the file without; a cohort without the columns is refused."""
    file = f"beyond/physionet2019/{name}.gin"
    text = (project.GIN / file).read_text(encoding="utf-8")
    assert f"--gin_file=gin/{file} " in text
    assert "--observations=recency,count" in text
    plain, macros = load(OBSERVED[name]), bindings_of_macros()
    bound = load(file)
    assert bound.pop("observations") == ["recency", "count"]
    assert bound | {"method": None} == plain | {"method": None}
    added = {"observations", "measurement_dropout"} | ({"rate"} if name == "observed_end_to_end" else set())
    assert {key for key, value in bindings_of_macros().items() if macros.get(key) != value} == added
    cohort = Cohort(observed_cohort)
    small = TINY if name != "observed_end_to_end" else {"encoder.filters": 8}
    model, bound = build(file, "budgets/smoke.gin", cohort=cohort, **small)
    samples = trainer.MethodSamples(model, cohort["train"], Alone())
    fit_two_steps(model, samples.batches(bound["batch_size"], bound["seed"]), cohort)
    with refused(ward_cohort, "recency, count", "got none", "--observations=recency,count", "HR:recency", "62 more"):
        tiny.train(tmp_path / "run", "physionet2019/cl", ward_cohort, (file,))
    assert not (tmp_path / "run").exists()


def bindings_of_macros() -> dict[str, str]:
    return {name: value for name, value in bindings(gin.config_str()).items() if "." not in name}


def test_budgets_are_what_they_say():
    sizes = {}
    for budget in ("paper", "paper_quarter", "desktop", "laptop", "search", "smoke"):
        bound = load("paper/physionet2019/cl.gin", f"budgets/{budget}.gin")
        assert bound["budget"] == budget
        sizes[budget] = bound["steps"], bound["batch_size"], config.macro("queue_size")
    assert sizes["paper"] == (25000, 2048, 65536)
    assert sizes["paper_quarter"] == (6250, 2048, 65536)
    assert (sizes["desktop"], sizes["search"]) == ((48000, 128, 16384), (6000, 128, 16384))
    assert sizes["smoke"][0] == 2


@pytest.mark.parametrize(
    ("name", "trained"), [("ncl_w", None), ("seq2seq_ae", 40), ("seq2seq_ae_forecast", 40), ("end_to_end", 40)]
)
def test_the_laptop_caps_what_has_no_small_steps_and_fine_tuning(name, trained):
    assert load(f"paper/physionet2019/{name}.gin").get("max_minutes") is None
    assert factories.protocol().max_minutes is None
    assert load(f"paper/physionet2019/{name}.gin", "budgets/laptop.gin").get("max_minutes") == trained
    assert factories.protocol().max_minutes == 40
