"""Reading configurations: what is refused, with the nearest name that is known; and which settings a method uses."""

import pathlib
import re
from collections.abc import Iterator

import gin
import pytest

from ncl_tf.data.cohort import Cohort
from ncl_tf.errors import InputError
from ncl_tf.objective import neighborhoods
from ncl_tf.training import config, factories, trainer
from ncl_tf.training.used_settings import CONFIGURABLES
from refusals import refused

CL = "paper/physionet2019/cl.gin"
COHORT = "cohort = 'nowhere.h5'"


@pytest.fixture(autouse=True)
def no_configuration_stays() -> Iterator[None]:
    yield
    gin.clear_config()


def refusal(*files: str, params: tuple[str, ...] = ()) -> str:
    with pytest.raises(InputError) as error:
        config.configure(files, params)
    return str(error.value)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("alpha = = 3", "not valid gin: Unable to parse value. (mine.gin, line 1)"),
        ("alpha 3", "not valid gin: Couldn't parse statement, expected ':' or '='. (mine.gin, line 1)"),
        ("alpha = [1, 2", "not valid gin: "),
        ("task = sepsis", "not valid gin: neither a value nor a reference; texts need quotes"),
        ("import no_such_module", "No module named 'no_such_module'"),
        ("include 'no_such_file.gin'", "includes 'no_such_file.gin': no such file, neither here nor in gin/"),
        ("trian.steps = 3", "No configurable matching 'trian'. Did you mean 'train'?"),
        ("train.stepz = 3", "Configurable 'train' doesn't have a parameter named 'stepz'. Did you mean 'steps'?"),
        (
            "SameStayWithin.windw = 3",
            "Configurable 'SameStayWithin' doesn't have a parameter named 'windw'. Did you mean 'window'?",
        ),
        (
            "train.method = @sophisticated",
            "No configurable matching reference '@sophisticated'. If it is yours, name its module by --import.",
        ),
        ("train.method = @momentum_contras", "No configurable matching reference '@momentum_contras'. Did you mean"),
    ],
)
def test_malformed_files_and_unknown_bindings_are_refused(text: str, message: str, tmp_path: pathlib.Path) -> None:
    file = tmp_path / "mine.gin"
    file.write_text(text + "\n")
    assert refusal(CL, str(file)).startswith(f"{file}: {message}")
    if not text.startswith(("import", "include")):
        assert refusal(CL, params=(text,)).startswith(f"--gin_param={text!r}: {message.split('(')[0]}")


def test_files_that_are_not_there_or_not_text_are_refused(tmp_path: pathlib.Path) -> None:
    assert refusal("no_such.gin") == "no_such.gin: no such gin file, neither here nor in gin/"
    assert refusal("gin/paper/physionet2019/nclw.gin").endswith(". Did you mean 'gin/paper/physionet2019/ncl_w.gin'?")
    assert refusal(str(tmp_path)).startswith(f"{tmp_path}: no such gin file")
    (tmp_path / "cohort.h5").write_bytes(b"\x89HDF\r\n\xff")
    assert refusal(str(tmp_path / "cohort.h5")).startswith(f"{tmp_path / 'cohort.h5'}: ")


def test_unknown_and_missing_macros_are_refused() -> None:
    assert refusal(CL, params=(COHORT, "alhpa = 1")) == (
        "this configuration uses no macro 'alhpa'; did you mean 'alpha'?"
    )
    assert refusal("paper/physionet2019/scl.gin", params=(COHORT, "window = 3")).startswith(
        "this configuration uses no macro 'window'; momentum_contrast uses alpha, batch_size, "
    )
    config.configure(
        [CL], [COHORT, "train.steps = 3"]
    )  # a binding in the place of a macro's leaves the macro without use
    assert refusal(CL) == "macro 'cohort' is not set; add --gin_param=\"cohort = 'path/to/file.h5'\""
    assert refusal("datasets/physionet2019.gin", "neighborhoods/n_w.gin", params=(COHORT, "window = 3")) == (
        "macro 'alpha' is not set; add --gin_param=\"alpha = ...\""
    )
    assert "name the file of a method first" in refusal("budgets/smoke.gin")
    message = refusal(CL, params=(COHORT, "train.seed = 5"))
    assert message.startswith("train.seed = 5: ") and message.endswith("set seed = 5 instead")


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
def test_a_setting_that_the_method_ignores_is_refused(file: str, param: str, uses: list[str]) -> None:
    message = refusal(f"paper/physionet2019/{file}.gin", params=(COHORT, param))
    setting = param.split("\n")[-1].partition(" =")[0]
    method = {"end": "end_to_end", "seq": "autoencoder"}.get(file[:3], "momentum_contrast")
    before, _, used = message.rpartition(" uses ")
    assert repr(setting) in before
    assert method in message
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
        (
            "ncl_w",
            "momentum_contrast.neighborhood = @gin.singleton()\ntask = 'sepsis'",
        ),  # who knows what a user's own compares
        ("ncl_w", "neighborhoods.SameStayWithin.inclusive = True"),
    ],
)
def test_a_setting_that_has_an_effect_is_accepted_and_files_may_hold_any(file: str, param: str) -> None:
    config.configure([f"paper/physionet2019/{file}.gin", "budgets/laptop.gin", "authors_code.gin"], [COHORT, param])


def test_every_configurable_of_the_project_is_known() -> None:
    assert all(callable(gin.get_configurable(name)) for name in CONFIGURABLES)
    named = {name for name, value in vars(factories).items() if callable(value) and hasattr(value, "__wrapped__")}
    assert named - {"intersection", "union"} <= CONFIGURABLES  # configured as Intersection and Union


def test_a_configuration_without_method_is_refused(tmp_path: pathlib.Path, ward_cohort: pathlib.Path) -> None:
    (tmp_path / "empty.gin").write_text("")
    config.configure([str(tmp_path / "empty.gin")], [])
    with pytest.raises(InputError, match="macro 'seed' is not set; name the file of a method"):
        config.macro("seed")
    message = "no 'cohort', 'method', .* for 'train'; name the file of a method first"
    with pytest.raises(InputError, match=message), config.plain_errors():
        trainer.train(None)
    config.configure(["datasets/physionet2019.gin"], [COHORT])
    with pytest.raises(InputError, match="no 'neighborhood', 'alpha' for 'momentum_contrast'"), config.plain_errors():
        factories.momentum_contrast(Cohort(ward_cohort), 0, False)


@pytest.mark.parametrize("neighborhood", ["SameLabel()", "Union(SameStayWithin(2), Intersection(SameLabel()))"])
def test_labels_of_no_task_are_not_compared(neighborhood: str, ward_cohort: pathlib.Path) -> None:
    made = eval(neighborhood, vars(neighborhoods))
    config.configure([CL], [COHORT])
    with refused("task", "one of the cohort, 'sepsis'", "compares labels", "got None"):
        factories.momentum_contrast(Cohort(ward_cohort), 0, False, neighborhood=made)


def test_files_are_found_here_before_in_the_projects_folder(
    tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch, capfd
) -> None:
    (tmp_path / "mine.gin").write_text("include 'paper/physionet2019/ncl_w.gin'\nalpha = 0.7  # mine\n")
    (tmp_path / "datasets").mkdir()  # named like one of ours
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.chdir(tmp_path)
    config.configure(["mine.gin"], [COHORT, "window = 3"])
    assert (config.macro("alpha"), config.macro("window")) == (0.7, 3)
    assert capfd.readouterr().err == ""  # gin's own notes about places where it looked in vain
