"""bin/prepare and bin/cohort as users run them: results, messages, exit codes, and what is left behind."""

import os
import pathlib
import re
import resource
import shutil
import signal
import subprocess
import sys
import tarfile
import zipfile

import h5py
import pytest

from meds_files import write_small
from ncl_tf.data.cohort import Cohort
from ncl_tf.data.raw_file import RawFile
from ncl_tf.data.simulator.ward import write_ward
from ncl_tf.data.splits import SPLITS
from processes import ROOT, finish, start, wait_for


@pytest.fixture
def small_table(tmp_path) -> list[str]:
    """Flags for a small table with its schema."""
    rows = [f"{stay},{hour},{60 + stay + hour},{int(stay % 5 == 0)}" for stay in range(40) for hour in range(3)]
    (tmp_path / "hourly.csv").write_text("\n".join(["stay,hour,HR,ill", *rows, ""]))
    schema = 'name = "small"\nstay = "stay"\nhour = "hour"\n[[channels]]\nname = "HR"\n[[tasks]]\nname = "ill"\n'
    (tmp_path / "schema.toml").write_text(schema)
    return [f"--source={tmp_path / 'hourly.csv'}", f"--schema={tmp_path / 'schema.toml'}"]


def prepare(run, *arguments: str | pathlib.Path) -> subprocess.CompletedProcess:
    result = run(*arguments)
    assert result.returncode == 0, result.stderr
    return result


def assert_fails(result: subprocess.CompletedProcess, message: str, output: pathlib.Path) -> None:
    """Exit code 1, the message and no traceback on standard error, nothing at --output or beside it."""
    assert (result.returncode, result.stdout) == (1, ""), result.stderr
    assert message in result.stderr and "Traceback" not in result.stderr
    assert result.stderr.splitlines()[-1].startswith("error: ")
    assert not output.exists() and not list(output.parent.glob(".*"))


def test_physionet2019(run, ward, ward_cohort, tmp_path):
    """Summary, equal bytes every time and for a zip of the same stays, and no overwriting by accident."""
    output = tmp_path / "new folder" / "ward.h5"
    command = ["bin/prepare", "physionet2019", f"--source={ward}", "--split=random", f"--output={output}"]
    result = prepare(run, *command)
    assert f"written: {output}" in result.stdout
    assert "not the paper's cohort, which has 25,813 / 6,454 / 8,066 stays" in result.stdout
    assert "100%" in result.stderr  # of the progress bar
    assert output.read_bytes() == ward_cohort.read_bytes()
    assert Cohort(output).simulated
    assert sorted(output.parent.iterdir()) == [output, output.with_name("ward.h5.sums")]

    again = run(*command)
    assert again.returncode == 1
    assert f"error: {output}: exists already; pass --overwrite" in again.stderr
    assert output.read_bytes() == ward_cohort.read_bytes()

    with zipfile.ZipFile(tmp_path / "ward.zip", "w", zipfile.ZIP_DEFLATED) as archive:
        for file in sorted(ward.iterdir(), reverse=True):
            archive.write(file, f"training/{file.name}")
    command[2] = f"--source={tmp_path / 'ward.zip'}"
    output.write_text("in the way")
    prepare(run, *command, "--overwrite")
    assert output.read_bytes() == ward_cohort.read_bytes()


def test_mimic3_benchmark(run, mimic_ward, mimic_ward_cohort, tmp_path):
    """The same bytes every time, and for a tar of the folder; flags change labels and columns."""
    output = tmp_path / "ward.h5"
    prepare(run, "bin/prepare", "mimic3_benchmark", f"--source={mimic_ward}", f"--output={output}")
    assert output.read_bytes() == mimic_ward_cohort.read_bytes()

    with tarfile.open(tmp_path / "multitask.tar.xz", "w:xz", preset=0) as archive:
        archive.add(mimic_ward, arcname="multitask")
    command = ["-m", "data_prep.mimic3_benchmark", f"--source={tmp_path / 'multitask.tar.xz'}"]
    prepare(run, *command, f"--output={tmp_path / 'tar.h5'}")
    assert (tmp_path / "tar.h5").read_bytes() == output.read_bytes()

    flags = ["--label_row=next", "--before_first_event=carry_back", "--categorical=guess"]
    prepare(run, *command, *flags, f"--output={tmp_path / 'authors.h5'}")
    with h5py.File(output) as ours, h5py.File(tmp_path / "authors.h5") as theirs:
        assert ours["data/val"].shape[0] == theirs["data/val"].shape[0]
        assert ours["data/val"].shape[1] < theirs["data/val"].shape[1]  # at least the height has become several columns
        for first, last, _ in ours["patient_windows/val"][:]:
            shifted = theirs["labels/val"][first + 1 : last + 1]
            assert ((shifted == ours["labels/val"][first:last]) | (shifted != shifted)).all()


def test_table(run, small_table, tmp_path):
    output = tmp_path / "table.h5"
    result = prepare(run, "bin/prepare", "table", *small_table, "--seed=1", f"--output={output}")
    assert f"written: {output}" in result.stdout
    cohort = Cohort(output)
    assert (cohort.name, cohort.columns) == ("small", ["HR"])
    assert sorted(stay for split in SPLITS for stay in cohort[split].stay_names) == sorted(map(str, range(40)))
    described = prepare(run, "bin/cohort", "describe", output).stdout
    assert "ill: positive stays" in described and "HR" in described


def test_raw_rows_are_kept_on_request_and_change_nothing_else(run, small_table, tmp_path):
    plain, kept = tmp_path / "plain.h5", tmp_path / "kept.h5"
    prepare(run, "bin/prepare", "table", *small_table, f"--output={plain}")
    command = ["bin/prepare", "table", *small_table, "--keep_raw", f"--output={kept}"]
    result = prepare(run, *command)
    raw = tmp_path / "kept.raw.h5"
    assert f"written: {kept}, {raw}" in result.stdout
    assert kept.read_bytes() == plain.read_bytes()
    assert not (tmp_path / "plain.raw.h5").exists()
    train = RawFile(Cohort(kept))["train"]
    expected = [60 + int(stay) + hour for stay in train.names for hour in range(3)]
    assert train.values[:, 0].tolist() == expected

    kept.unlink()
    before = raw.read_bytes()
    again = run(*command)
    assert again.returncode == 1
    assert f"error: {raw}: exists already; pass --overwrite" in again.stderr
    assert not kept.exists() and raw.read_bytes() == before
    prepare(run, *command, "--overwrite")
    assert kept.exists() and raw.read_bytes() == before


def test_bad_input(run, small_table, tmp_path):
    """One of each program; all other errors take the same path (see tests/data_prep)."""
    output, path = tmp_path / "out" / "cohort.h5", tmp_path / "p000007.psv"
    flag = f"--output={output}"
    path.write_text("HR,O2Sat\n80,99\n")
    result = run("bin/prepare", "physionet2019", f"--source={tmp_path}", "--split=random", flag)
    assert_fails(result, f"error: {path}, line 1: columns must be separated by '|', got 'HR,O2Sat'", output)

    result = run("bin/prepare", "mimic3_benchmark", f"--source={tmp_path}", flag)
    assert_fails(result, f"error: {tmp_path}: no train_listfile.csv", output)

    path = tmp_path / "hourly.csv"
    path.write_text(path.read_text().replace("7,2,69,0", "7,2,69,7"))
    result = run("bin/prepare", "table", *small_table, flag)
    assert_fails(result, f"error: {path}, line 25, column ill: labels must be 0, 1 or empty, got 7", output)


def test_meds(run, tmp_path):
    """The summary counts patients and what was left out; a code that never occurs leaves nothing at --output."""
    folder, output = write_small(tmp_path / "dataset"), tmp_path / "out" / "meds.h5"
    command = ["bin/prepare", "meds", f"--source={folder}", f"--labels={folder}/task_labels", f"--output={output}"]
    schema = tmp_path / "typo.toml"
    schema.write_text((folder / "schema.toml").read_text().replace('"HEIGHT"', '"HIGHT"'))
    result = run(*command, f"--schema={schema}")
    assert_fails(result, f"error: {folder}: the schema's code 'HIGHT' never occurs; did you mean 'HEIGHT'?", output)
    result = prepare(run, *command, f"--schema={folder}/schema.toml")
    assert "left out: labels before another one of the same hour (1)\n" in result.stdout
    assert re.search(r"^patients +2 +1 +1$", result.stdout, re.MULTILINE)
    assert f"written: {output}" in result.stdout and "events/s" in result.stderr


def test_published_split_needs_all_stays(run, ward, tmp_path):
    output = tmp_path / "out" / "cohort.h5"
    result = run("bin/prepare", "physionet2019", f"--source={ward}", f"--output={output}")
    assert_fails(result, "the 20336 stays of set A and the 20000 of set B together; got 72 and 0 of 72 stays", output)
    assert "reading" not in result.stderr  # refused before


def test_unwritable_output(run, tmp_path):
    """Told before anything is read. (Root may write everywhere, so here a file stands where a folder should.)"""
    (tmp_path / "file").write_text("no folder")
    output = tmp_path / "file" / "cohort.h5"
    result = run("bin/prepare", "table", "--source=nowhere.csv", "--schema=nowhere.toml", f"--output={output}")
    assert_fails(result, f"error: {output.parent}: cannot write into this folder", output)
    assert (tmp_path / "file").read_text() == "no folder"


def test_full_disk(ward, tmp_path):
    """Here files may grow to 64 KiB only; the error is clear and the partial file is gone."""
    output = tmp_path / "out" / "cohort.h5"
    result = subprocess.run(
        [sys.executable, "bin/prepare", "physionet2019", f"--source={ward}", "--split=random", f"--output={output}"],
        cwd=ROOT, capture_output=True, text=True, timeout=300, check=False,
        preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_FSIZE, (65536, 65536)),
    )  # fmt: skip
    assert_fails(result, f"error: {output}: cannot be written (File too large)", output)


def test_killed_while_writing(tmp_path):
    """A process that is killed in the middle of writing leaves nothing at --output, and the next one is not disturbed."""
    write_ward(300, seed=2, output=tmp_path / "ward")
    output = tmp_path / "out" / "cohort.h5"
    command = [sys.executable, "bin/prepare", "physionet2019", f"--source={tmp_path / 'ward'}", "--split=random"]
    command += [f"--output={output}"]
    process = start(command)
    wait_for(lambda: list(output.parent.glob(".*.partial")), process)  # there from the first byte until the last
    process.kill()
    assert finish(process)[0] == -signal.SIGKILL
    assert not output.exists()
    subprocess.run(command, cwd=ROOT, check=True, capture_output=True)
    assert sum(len(Cohort(output)[split].patient_windows) for split in SPLITS) == 300


@pytest.mark.skipif(not (ROOT / ".venv" / "bin" / "python").exists(), reason="needs the project's own .venv")
def test_programs_need_no_activation(ward_cohort, tmp_path):
    """From another folder, with a bare environment: the project's .venv is used."""
    path = os.pathsep.join(["/usr/local/bin", "/usr/bin", "/bin"])
    if not shutil.which("python3", path=path):
        pytest.skip("no python3 outside of environments")
    result = subprocess.run(
        [ROOT / "bin" / "cohort", "describe", ward_cohort],
        cwd=tmp_path, env={"PATH": path}, capture_output=True, text=True, timeout=300, check=False,
    )  # fmt: skip
    assert result.returncode == 0, result.stderr
    for part in ("physionet2019, 40 columns", "sepsis: labelled hours", "HospAdmTime"):
        assert part in result.stdout
