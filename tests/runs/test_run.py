"""The run directory: what it keeps, what it refuses, and what survives damage."""

import pathlib

import keras
import numpy as np
import pytest

from ncl_tf import runs
from ncl_tf.runs import EvaluationFolder, Run, bindings
from ncl_tf.runs.configuration import ADDED
from refusals import refused
from trainings import contents, record, reports

LONG = "'" + "/".join(["a_folder_with_a_long_name"] * 6) + "/cohort.h5'"  # gin breaks the line
CONFIG = f"""
# Macros:
# ==============================================================================
alpha = 0.4
cohort = \\
    {LONG}
steps = 20

# Parameters for encoder:
# ==============================================================================
encoder.dilations = (1, 2)
"""
FACTS = {"seed": 1, "cohort_checksum": "c0ffee", "columns": 40}


def small_model(seed: int = 0, units: int = 3) -> keras.Model:
    keras.utils.set_random_seed(seed)
    model = keras.Sequential([keras.layers.Input((4,)), keras.layers.Dense(units, name="dense")], name="small")
    model.compile(optimizer=keras.optimizers.Adam(0.1, name="adam"), loss="mse", run_eagerly=True)
    model.optimizer.build(model.trainable_variables)
    return model


def trained(model: keras.Model, seed: int = 0) -> keras.Model:
    random = np.random.default_rng(seed)
    model.fit(random.normal(size=(8, 4)), random.normal(size=(8, model.output_shape[1])), verbose=0)
    return model


def parts(model: keras.Model) -> tuple[keras.Model, keras.Optimizer]:
    return model, model.optimizer


def values_of(model: keras.Model) -> dict[str, np.ndarray]:
    return {path: np.array(variable) for path, variable in runs.named_variables(*parts(model)).items()}


def assert_same(found: dict[str, np.ndarray], expected: dict[str, np.ndarray]) -> None:
    assert found.keys() == expected.keys()
    for path, value in expected.items():
        np.testing.assert_array_equal(found[path], value, err_msg=path)


def opened(folder: pathlib.Path, config: str = CONFIG, **facts) -> Run:
    run = Run(folder)
    run.open(config, FACTS | facts)
    return run


def started(folder: pathlib.Path) -> Run:
    run = opened(folder)
    run.start()
    return run


def test_a_new_run_writes_nothing_before_it_starts_and_then_its_record(tmp_path):
    run = opened(tmp_path / "deep" / "run")
    assert not (tmp_path / "deep").exists()
    run.start()
    found = record(run.folder)
    assert found.items() >= (FACTS | {"status": "started", "step": 0}).items()
    assert not run.finished
    assert found["versions"].keys() >= {"python", "tensorflow", "keras", "numpy"}
    assert found["code_version"].startswith("0.")
    assert (run.folder / "config.gin").read_text() == CONFIG


def test_a_run_resumes_with_the_same_configuration_wherever_the_cohort_lies_and_whatever_fact_is_new(tmp_path):
    started(tmp_path / "run").save(status="finished", step=20)
    before = contents(tmp_path)
    run = opened(tmp_path / "run", CONFIG.replace(LONG, "'moved.h5'"), simulated=True)
    run.start()
    assert run.finished
    assert run.record.items() >= (FACTS | {"step": 20}).items()
    assert contents(tmp_path) == before


def test_another_configuration_is_refused_and_every_difference_named(tmp_path):
    started(tmp_path / "run")
    other = CONFIG.replace("alpha = 0.4", "alpha = 0.5").replace("steps = 20\n", "").replace("(1, 2)", "(1, 2, 4)")
    with refused(f"{tmp_path / 'run'}: holds a run with another configuration; ") as error:
        opened(tmp_path / "run", other + "\nencoder.size = 3\n", columns=42, cohort_checksum="beef")
    assert [" ".join(line.split()) for line in str(error.value).splitlines()[1:]] == [
        "alpha = 0.5 (the run has 0.4)",
        "dilations = (1, 2, 4) (the run has (1, 2))",
        "encoder.size = 3 (the run has not set)",
        "steps = not set (the run has 20)",
        "cohort_checksum: beef (the run has c0ffee)",
        "columns: 42 (the run has 40)",
    ]


def test_bindings_are_read_back_whole():
    assert bindings(CONFIG) == {"alpha": "0.4", "cohort": LONG, "steps": "20", **ADDED, "dilations": "(1, 2)"}


def test_folders_with_other_files_and_files_are_refused(tmp_path):
    file = tmp_path / "notes.txt"
    file.write_text("mine")
    with refused(f"{tmp_path}: ", "empty", "--run_dir"):
        opened(tmp_path)
    with refused(f"{file}: ", "empty", "--run_dir"):
        opened(file)
    with refused("cannot write into this folder"):
        started(file / "run")
    assert contents(tmp_path) == {"notes.txt": b"mine"}


def test_an_empty_folder_and_one_of_a_run_killed_at_its_start_are_free(tmp_path):
    started(tmp_path)
    (tmp_path / "run.json").rename(tmp_path / ".run.json.x.partial")
    started(tmp_path)
    assert (tmp_path / "run.json").exists()


def test_two_processes_do_not_write_into_one_folder(tmp_path):
    first, second = started(tmp_path), opened(tmp_path)
    with refused(f"{tmp_path}: another process ", "--run_dir"):
        second.start()
    first.close()
    second.start()


@pytest.mark.parametrize("status", ["started", "finished"])
def test_a_folder_that_another_process_took_meanwhile_is_refused(status, tmp_path):
    late, first = opened(tmp_path, CONFIG.replace("0.4", "0.5")), started(tmp_path)
    first.save(wall_seconds=1000.0, status=status)
    first.close()
    before = contents(tmp_path)
    for _ in range(2):  # it holds no lock then
        with refused("another process ", "again"):
            late.start()
    assert contents(tmp_path) == before


def test_metrics_after_the_checkpoint_and_torn_lines_are_forgotten(tmp_path):
    run = started(tmp_path)
    for step in (10, 20, 30):
        run.log({"step": step, "loss": step / 7})
    with (tmp_path / "metrics.jsonl").open("a") as file:
        file.write('{"step": 15, "lo')
    run.resume_from(20)
    lines = [{"step": 10, "loss": 10 / 7}, {"step": 20, "loss": 20 / 7}]
    assert run.reports() == reports(tmp_path) == lines


def test_the_record_shows_every_resumption_and_by_which_versions(tmp_path):
    run = started(tmp_path)
    run.resume_from(0)
    assert "continued" not in record(tmp_path)
    run.resume_from(10)
    run.resume_from(30)
    found = record(tmp_path)
    assert [resumed["step"] for resumed in found["continued"]] == [10, 30]
    machine = {name: found[name] for name in ("code_version", "versions", "machine")}
    assert all(resumed.items() >= machine.items() for resumed in found["continued"])


# Checkpoints


def test_a_checkpoint_holds_weights_and_optimizer_to_the_last_bit(tmp_path):
    run, model = started(tmp_path), trained(small_model())
    run.checkpoint(1, *parts(model))
    other = small_model(seed=1)
    assert run.restore(*parts(other)) == 1
    assert_same(values_of(other), values_of(model))
    assert_same(values_of(trained(other, 5)), values_of(trained(model, 5)))  # they continue alike
    assert int(model.optimizer.iterations) == 2


def test_the_last_two_checkpoints_are_kept(tmp_path):
    run, model = started(tmp_path), small_model()
    for step in (9, 10, 100):
        run.checkpoint(step, *parts(model))
    assert [path.name for path in run.checkpoints] == ["step-00000010.npz", "step-00000100.npz"]


def damages(raw: bytes) -> list[bytes]:
    """Truncated, empty, and with bytes flipped in the data, in headers and in the directory at the end."""
    positions = np.random.default_rng(0).integers(0, len(raw), 60)
    flipped = [raw[:i] + bytes([raw[i] ^ 255]) + raw[i + 1 :] for i in positions]
    return [raw[: len(raw) // 2], raw[:-1], b"", *flipped]


def test_damaged_checkpoints_are_reported_and_the_one_before_is_taken(tmp_path, capsys):
    run, model = started(tmp_path), trained(small_model())
    run.checkpoint(10, *parts(model))
    first = values_of(model)
    run.checkpoint(20, *parts(trained(model)))
    second = values_of(model)
    newest, steps, other = run.checkpoints[-1], [], small_model(seed=1)
    for damaged in damages(newest.read_bytes()):
        newest.write_bytes(damaged)
        steps.append(run.restore(*parts(other)))
        assert_same(values_of(other), {10: first, 20: second}[steps[-1]])  # 20: e.g. a flipped time stamp
        reported = "checkpoint step-00000020.npz is damaged (" in capsys.readouterr().out
        assert reported == newest.with_suffix(".damaged").exists() == (steps[-1] == 10)
        newest.with_suffix(".damaged").unlink(missing_ok=True)
    assert steps[:3] == [10, 10, 10]
    assert steps.count(10) > 30


def test_a_checkpoint_with_a_renamed_array_is_damaged_where_the_one_before_is_not(tmp_path, capsys):
    run, model = started(tmp_path), trained(small_model())
    run.checkpoint(10, *parts(model))
    expected = values_of(model)
    run.checkpoint(20, *parts(trained(model)))
    with np.load(run.checkpoints[-1]) as archive:
        values = {name.replace("kernel", "colonel"): archive[name] for name in archive.files}
    np.savez(run.checkpoints[-1], **values)
    other = small_model(seed=1)
    assert run.restore(*parts(other)) == 10
    assert_same(values_of(other), expected)
    out = capsys.readouterr().out
    assert "checkpoint step-00000020.npz is damaged (" in out
    assert "colonel" in out or "kernel" in out
    assert [path.name for path in run.checkpoints] == ["step-00000010.npz"]


def test_without_a_readable_checkpoint_a_run_begins_again(tmp_path, capsys):
    run, model = started(tmp_path), small_model()
    before = values_of(model)
    assert run.restore(*parts(model)) == 0
    assert_same(values_of(model), before)
    for step in (10, 20):
        run.checkpoint(step, *parts(model))
    for path in run.checkpoints:
        path.write_bytes(b"PK")
    assert run.restore(*parts(model)) == 0
    ends = [line.rpartition("falling back to ")[2] for line in capsys.readouterr().out.splitlines()]
    assert ends[0] == "the one before"
    assert ends[1].startswith("the beginning")


def test_a_checkpoint_that_cannot_be_read_now_is_not_called_damaged(tmp_path):
    run = started(tmp_path)
    newest = tmp_path / "checkpoints" / "step-00000010.npz"
    newest.mkdir(parents=True)  # what the system refuses to read
    with refused("step-00000010.npz: cannot be read (Is a directory)"):
        run.restore(*parts(small_model()))
    assert newest.exists()


def test_another_models_checkpoint_is_refused(tmp_path):
    run = started(tmp_path)
    run.checkpoint(10, *parts(small_model()))
    with refused("step-00000010.npz: made by another model; first difference: "):
        run.restore(*parts(small_model(units=4)))


def test_a_checkpoint_never_holds_what_is_not_finite(tmp_path):
    run, model = started(tmp_path), small_model()
    run.checkpoint(10, *parts(model))
    model.layers[0].kernel.assign(np.full((4, 3), np.nan))
    with refused("step 20: & kernel is not finite, & last good checkpoint is & 00010.npz"):
        run.checkpoint(20, *parts(model))
    assert len(run.checkpoints) == 1


class Twins(keras.Model):
    def __init__(self) -> None:
        super().__init__()
        self.twins = [keras.layers.Dense(2, name="twin") for _ in range(2)]

    def call(self, inputs):
        return self.twins[1](self.twins[0](inputs))


def test_layers_of_the_same_name_are_no_silent_loss():
    model = Twins()
    model(np.zeros((1, 2)))
    model.compile(optimizer="sgd")
    with pytest.raises(RuntimeError, match="two variables share a path"):
        runs.named_variables(model)


# Evaluations under way


def started_evaluation(folder: pathlib.Path, **facts) -> EvaluationFolder:
    kept = EvaluationFolder(folder)
    kept.start({"settings": {"head": "mlp"}, "protocol": {"patience": 20}} | facts)
    return kept


def test_an_evaluation_resumes_only_from_what_the_same_facts_led_to(tmp_path, capsys):
    folder, model = tmp_path / "sepsis-mlp", trained(small_model())
    kept = started_evaluation(folder)
    kept.log({"step": 3, "loss": 1.0})
    kept.checkpoint(3, *parts(model))
    kept.save(step=3, wall_seconds=7.0)
    kept.close()
    again, other = started_evaluation(folder), small_model(seed=1)
    assert (again.record["wall_seconds"], again.restore(*parts(other)), len(again.reports())) == (7.0, 3, 1)
    assert_same(values_of(other), values_of(model))
    again.close()
    assert capsys.readouterr().out == ""
    anew = started_evaluation(folder, protocol={"patience": 2})
    assert (anew.record["wall_seconds"], anew.restore(*parts(other)), anew.reports()) == (0.0, 0, [])
    assert "another protocol" in capsys.readouterr().out


def test_an_evaluation_is_made_by_one_process_and_leaves_only_its_classifier(tmp_path):
    folder = tmp_path / "sepsis-mlp"
    kept = started_evaluation(folder)
    with refused(f"{folder}: another process"):
        started_evaluation(folder)
    kept.save(step=3)
    (folder / "classifier").mkdir()
    kept.remove()
    assert [path.name for path in folder.iterdir()] == ["classifier"]
    (folder / "classifier").rmdir()
    kept.remove()
    assert not folder.exists()
