"""Reading configurations: what is refused, with the nearest name that is known; and which settings a method uses."""

import re

import gin
import pytest

from ncl_tf.data.cohort import Cohort
from ncl_tf.objective import neighborhoods
from ncl_tf.training import config, factories, trainer
from ncl_tf.training.used_settings import CONFIGURABLES
from refusals import refused

CL, SCL = "paper/physionet2019/cl.gin", "paper/physionet2019/scl.gin"
N_W = ["datasets/physionet2019.gin", "neighborhoods/n_w.gin"]
COHORT = "cohort = 'nowhere.h5'"


@pytest.mark.parametrize(
    ("text", "named"),
    [
        ("alpha = = 3", "not valid gin: Unable to parse value. (mine.gin, line 1)"),
        ("alpha 3", "not valid gin: Couldn't parse statement, expected ':' or '='. (mine.gin, line 1)"),
        ("alpha = [1, 2", "not valid gin: "),
        ("task = sepsis", "not valid gin: neither a value nor a reference; texts need quotes"),
        ("import no_such_module", "No module named 'no_such_module'"),
        ("include 'no_such_file.gin'", "includes 'no_such_file.gin': no such file, neither here nor in gin/"),
        ("trian.steps = 3", "No configurable matching 'trian'. Did you mean 'train'?"),
        ("train.stepz = 3", "Configurable 'train' doesn't have a parameter named 'stepz'. Did you mean 'steps'?"),
        ("SameStayWithin.windw = 3", "Configurable 'SameStayWithin' & 'windw'. Did you mean 'window'?"),
        ("train.method = @sophisticated", "No configurable matching reference '@sophisticated'. & --import."),
        ("train.method = @momentum_contras", "No configurable matching reference '@momentum_contras'. Did you mean"),
    ],
)
def test_malformed_files_and_unknown_bindings_are_refused(text, named, tmp_path):
    file = tmp_path / "mine.gin"
    file.write_text(text + "\n")
    with refused(f"{file}: {named}"):
        config.configure([CL, str(file)], ())
    if not text.startswith(("import", "include")):
        with refused(f"--gin_param={text!r}: {named.split('(')[0]}"):
            config.configure([CL], [text])


def test_files_that_are_not_there_or_not_text_are_refused(tmp_path):
    (tmp_path / "cohort.h5").write_bytes(b"\x89HDF\r\n\xff")
    for file, named in {
        "no_such.gin": "no_such.gin: no such gin file, neither here nor in gin/",
        "gin/paper/physionet2019/nclw.gin": ". Did you mean 'gin/paper/physionet2019/ncl_w.gin'?",
        str(tmp_path): f"{tmp_path}: no such gin file",
        str(tmp_path / "cohort.h5"): f"{tmp_path / 'cohort.h5'}: ",
    }.items():
        with refused(named):
            config.configure([file], ())


@pytest.mark.parametrize(
    ("files", "params", "named"),
    [
        ([CL], [COHORT, "alhpa = 1"], "no macro 'alhpa' & 'alpha'"),
        ([SCL], [COHORT, "window = 3"], "no macro 'window' & momentum_contrast uses alpha, batch_size, "),
        ([CL], [], "macro 'cohort' is not set & --gin_param=\"cohort = 'path/to/file.h5'\""),
        (N_W, [COHORT, "window = 3"], "macro 'alpha' is not set & --gin_param=\"alpha = ...\""),
        (["budgets/smoke.gin"], [], "name the file of a method first"),
        ([CL], [COHORT, "train.seed = 5"], "train.seed = 5: & set seed = 5 instead"),
    ],
)
def test_unknown_and_missing_macros_are_refused(files, params, named):
    with refused(named):
        config.configure(files, params)


def test_a_binding_in_the_place_of_a_macro_leaves_the_macro_without_use():
    config.configure([CL], [COHORT, "train.steps = 3"])


@pytest.mark.parametrize(
    ("file", "param", "uses"),
    [
        ("end_to_end", "steps = 3", ["rate", "max_epochs"]),
        ("end_to_end", "batch_size = 64", ["protocol"]),
        ("end_to_end", "train.highest_rate = 1e-3", ["rate"]),
        ("end_to_end", "queue_size = 64", ["head"]),
        ("end_to_end", "alpha = 0.5", ["rate"]),
        ("seq2seq_ae", "alpha = 0.5", ["steps"]),
        ("seq2seq_ae", "temperature = 0.5", ["steps"]),
        ("seq2seq_ae_forecast", "task = 'sepsis'", ["batch_size"]),
        ("seq2seq_ae", "encoder.normalize = True", ["encoder"]),
        ("seq2seq_ae", "augmentation.layers = ['noise']", ["autoencoder"]),
        ("cl", "task = 'sepsis'", ["alpha", "SameStayWithin"]),
        ("ncl_y", "SameStayWithin.inclusive = True", ["SameLabel", "task"]),
        ("ncl_w", "momentum_contrast.neighborhood = @SameLabel()\nwindow = 3", ["SameLabel"]),
        ("ncl_w", "autoencoder.forecast = True", ["window"]),
    ],
)
def test_a_setting_that_the_method_ignores_is_refused(file, param, uses):
    setting = param.split("\n")[-1].partition(" =")[0]
    method = {"end": "end_to_end", "seq": "autoencoder"}.get(file[:3], "momentum_contrast")
    with refused(method) as error:
        config.configure([f"paper/physionet2019/{file}.gin"], [COHORT, param])
    before, _, used = str(error.value).rpartition(" uses ")
    assert repr(setting) in before
    assert set(uses) <= set(re.findall(r"\w+", used))
    assert setting not in re.split("[,;] ", used)


@pytest.mark.parametrize(
    ("file", "param"),
    [
        ("end_to_end", "max_epochs = 3"),
        ("end_to_end", "protocol.batch_size = 64"),
        ("seq2seq_ae", "max_minutes = 3"),
        ("cl", "max_epochs = 3"),  # of its heads
        ("ncl_w", "momentum_contrast.neighborhood = @SameLabel()\ntask = 'sepsis'"),
        ("ncl_w", "momentum_contrast.neighborhood = @gin.singleton()\ntask = 'sepsis'"),  # a user's own may compare it
        ("ncl_w", "neighborhoods.SameStayWithin.inclusive = True"),
    ],
)
def test_a_setting_that_has_an_effect_is_accepted_and_files_may_hold_any(file, param):
    config.configure([f"paper/physionet2019/{file}.gin", "budgets/laptop.gin", "authors_code.gin"], [COHORT, param])


def test_every_configurable_of_the_project_is_known():
    assert all(callable(gin.get_configurable(name)) for name in CONFIGURABLES)
    named = {name for name, value in vars(factories).items() if callable(value) and hasattr(value, "__wrapped__")}
    assert named - {"intersection", "union"} <= CONFIGURABLES  # configured as Intersection and Union


def test_a_configuration_without_method_is_refused(tmp_path, ward_cohort):
    (tmp_path / "empty.gin").write_text("")
    config.configure([str(tmp_path / "empty.gin")], [])
    with refused("macro 'seed' is not set; name the file of a method"):
        config.macro("seed")
    with refused("no 'cohort', 'method', & for 'train'; name the file of a method first"), config.plain_errors():
        trainer.train(None)
    config.configure(["datasets/physionet2019.gin"], [COHORT])
    with refused("no 'neighborhood', 'alpha' for 'momentum_contrast'"), config.plain_errors():
        factories.momentum_contrast(Cohort(ward_cohort), 0, False)


@pytest.mark.parametrize("neighborhood", ["SameLabel()", "Union(SameStayWithin(2), Intersection(SameLabel()))"])
def test_labels_of_no_task_are_not_compared(neighborhood, ward_cohort):
    made = eval(neighborhood, vars(neighborhoods))
    config.configure([CL], [COHORT])
    with refused("task", "one of the cohort, 'sepsis'", "compares labels", "got None"):
        factories.momentum_contrast(Cohort(ward_cohort), 0, False, neighborhood=made)


def test_files_are_found_here_before_in_the_projects_folder(tmp_path, monkeypatch, capfd):
    (tmp_path / "mine.gin").write_text("include 'paper/physionet2019/ncl_w.gin'\nalpha = 0.7  # mine\n")
    (tmp_path / "datasets").mkdir()  # named like one of ours
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.chdir(tmp_path)
    config.configure(["mine.gin"], [COHORT, "window = 3"])
    assert (config.macro("alpha"), config.macro("window")) == (0.7, 3)
    assert capfd.readouterr().err == ""  # gin's own notes about places where it looked in vain
