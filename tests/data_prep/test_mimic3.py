"""MIMIC-III from the download: the demo against the scripts of mimic3-benchmarks, made-up tables against slow rules."""

import pathlib
import re
import tarfile

import numpy as np
import pytest

from mimic3_rules import multitask_slowly
from mimic3_tables import made_up_download
from ncl_tf.data.cohort import Cohort
from ncl_tf.data.sources.mimic3_raw import multitask_files, series, tables
from ncl_tf.data.sources.mimic3_raw.cleaning import clean_value

LISTS = ("train_listfile.csv", "val_listfile.csv", "test_listfile.csv")


def without_phenotypes(text: bytes) -> set[str]:
    """The lines of a list file, without the fifth column."""
    cells = [line.split(",") for line in text.decode().splitlines()]
    assert all(len(line) == 6 for line in cells)
    return {",".join([*line[:4], line[5]]) for line in cells}


def test_the_demo_is_what_the_scripts_of_the_benchmark_make(mimic3_demo, mimic3_demo_cohort, run, tmp_path):
    """Cell by cell as text, the cohort byte by byte; the funnel; and the counts of the data's description."""
    folder, demo = tmp_path / "data" / "multitask", mimic3_demo.parent
    flags = [f"--raw={demo / 'raw'}", f"--benchmark={demo / 'benchmark_resources'}", f"--multitask={folder}"]
    done = run("bin/prepare", "mimic3", *flags, f"--output={tmp_path / 'cohort.h5'}")
    assert done.returncode == 0, done.stderr
    assert (tmp_path / "cohort.h5").read_bytes() == mimic3_demo_cohort.read_bytes()
    with tarfile.open(mimic3_demo) as archive:
        members = [member for member in archive if member.isfile()]
        theirs = {m.name.split("/", 1)[1]: archive.extractfile(m).read().replace(b"\r\n", b"\n") for m in members}
    ours = {path.relative_to(folder).as_posix(): path.read_bytes() for path in folder.rglob("*.csv")}
    assert ours.keys() == theirs.keys()
    assert sum("timeseries" in name for name in ours) == 113
    for name, text in theirs.items():
        if "listfile" in name:
            assert without_phenotypes(ours[name]) == without_phenotypes(text), name
        else:
            assert ours[name] == text, name
    counts = [int(line.split()[-1].replace(",", "")) for line in done.stdout.partition("\n\n")[0].splitlines()]
    assert counts[:6] == [136, 126, 115, 114, 113, 758355 + 76074 + 11320]
    assert sum(counts[6:]) == counts[5]


@pytest.mark.parametrize(("seed", "upper", "packed", "newline"), [(1, True, True, "\n"), (2, False, False, "\r\n")])
def test_made_up_tables_equal_the_slow_rules(seed, upper, packed, newline, tmp_path, monkeypatch):
    """In small blocks and chunks, and in one."""
    folder = made_up_download(seed).write(tmp_path / "made_up", upper, packed, newline)
    expected, counts = multitask_slowly(folder / "raw", folder / "benchmark")
    for block, chunk in ((tables.BLOCK, series.CHUNK), (3000, 100)):
        monkeypatch.setattr(tables, "BLOCK", block)
        monkeypatch.setattr(series, "CHUNK", chunk)
        files, funnel = multitask_files(folder / "raw", folder / "benchmark")
        found = {name: read().decode() for name, read in files.items()}
        for split in LISTS:
            header, *lines = found.pop(split).splitlines()
            assert header.count(",") == 5 and len(lines) == len(set(lines))
            assert set(lines) == expected[split]
        both = [found.pop(f"{split}/listfile.csv").splitlines()[1:] for split in ("train", "test")]
        assert sorted(both[0]) == sorted(expected[LISTS[0]] | expected[LISTS[1]]) and set(both[1]) == expected[LISTS[2]]
        assert found == {name: text for name, text in expected.items() if name not in LISTS}
        assert (funnel.rows, funnel.kept) == (counts["rows"], counts["kept"])
        assert funnel.kept + sum(funnel.dropped.values()) == funnel.rows
        assert funnel.unnamed == 4  # of the subjects 1 to 24, every sixth


def test_made_up_tables_have_every_case(tmp_path):
    """Without these cases, the comparison above would show less than it seems to."""
    folder = made_up_download(1).write(tmp_path / "made_up")
    files, funnel = multitask_files(folder / "raw", folder / "benchmark")
    assert list(funnel.stays.values()) == sorted(funnel.stays.values(), reverse=True)
    assert len(set(funnel.stays.values())) == 5  # each rule leaves out some
    assert len(funnel.dropped) == 6 + 10  # rules, and variables that are numbers
    assert {f"train/50_episode{number}_timeseries.csv" for number in range(1, 12)} <= files.keys()
    times = [line.split(b",")[0] for line in files["train/51_episode1_timeseries.csv"]().splitlines()]
    assert len(times) > len(set(times)) + 10  # two stays at one moment
    lists = b"".join(files[name]() for name in LISTS).decode().splitlines()
    by_name = {line.split(",")[0]: line.split(",")[5] for line in lists}
    assert by_name["64_episode1_timeseries.csv"] == ";"  # died before the stay
    assert by_name["65_episode1_timeseries.csv"] == "0;1"  # died as it began
    assert "63_episode1_timeseries.csv" not in by_name  # no length
    assert "86_episode1_timeseries.csv" in by_name  # 18 years old
    assert set(by_name["87_episode1_timeseries.csv"].split(";")[25:]) == {"0"}
    assert by_name["88_episode1_timeseries.csv"].split(";")[31:] == ["0"] * 31  # hours 0 to 30


@pytest.mark.parametrize(
    ("variable", "text", "unit", "label", "expected"),
    [
        ("Systolic blood pressure", "120/80", "mmHg", "", 120.0),
        ("Diastolic blood pressure", "120/80", "mmHg", "", 80.0),
        ("Diastolic blood pressure", "120/80/60", "mmHg", "", None),
        ("Fraction inspired oxygen", "40", "%", "", 0.4),
        ("Fraction inspired oxygen", "0.4", "Torr", "", 0.4),
        ("Oxygen saturation", "0.97", "%", "", 97.0),
        ("Oxygen saturation", "1e2", "%", "", None),
        ("Glucose", "99.", "", "", 99.0),
        ("Glucose", "-5", "", "", None),
        ("Temperature", "98.6", "?C", "", 37.0),
        ("Temperature", "78.9", "?F", "Temperature F", 78.9),
        ("Weight", "160", "oz", "", 4.53592),
        ("Weight", "10", "kg", "Present Weight  (lb)", 4.53592),
        ("Height", "62.5", "Inch", "", 159.0),  # 158.75
        ("Height", "25", "", "Height Inches", 64.0),  # 63.5, to even
        ("Height", "75", "Inch", "", 190.0),  # 190.5, to even
        ("Height", "62.5", "cm", "", 62.5),
        ("Capillary refill rate", "Delayed", "", "", 1.0),
        ("Capillary refill rate", "delayed", "", "", None),
        ("Heart Rate", "104.0", "bpm", "", "104.0"),
        ("Glascow coma scale eye opening", "None", "", "", "None"),
    ],
)
def test_cleaning_by_hand(variable, text, unit, label, expected):
    found = clean_value(variable, text, unit, label)
    assert found == pytest.approx(expected, rel=1e-12) if isinstance(expected, float) else found == expected


def test_the_cohort_is_that_of_the_multitask_folder(run, tmp_path):
    """With the flags of the authors' code too; a decompensation list may be empty."""
    folder = made_up_download(3, usual=1.0).write(tmp_path / "made_up")
    flags = [f"--raw={folder / 'raw'}", f"--benchmark={folder / 'benchmark'}", f"--multitask={tmp_path / 'multitask'}"]
    done = run("bin/prepare", "mimic3", *flags, f"--output={tmp_path / 'raw.h5'}")
    assert done.returncode == 0, done.stderr
    assert "patients in neither split table, so in training" in done.stdout
    last = {line.partition(":")[0]: line for line in re.split(r"[\r\n]+", done.stderr) if "%|" in line}
    assert set(last) == {"reading", "making series", "writing"}
    assert all(": 100%|" in line for line in last.values()), last
    source = f"--source={tmp_path / 'multitask'}"
    assert run("bin/prepare", "mimic3_benchmark", source, f"--output={tmp_path / 'two.h5'}").returncode == 0
    assert (tmp_path / "raw.h5").read_bytes() == (tmp_path / "two.h5").read_bytes()
    cohort = Cohort(tmp_path / "raw.h5")
    assert not cohort.simulated
    stays = dict(zip(cohort["train"].stay_names, cohort["train"].patient_windows, strict=True))
    first, last, _ = stays["64_episode1"]
    assert np.isnan(cohort["train"].labels[first : last + 1, 0]).all()
    assert not np.isnan(cohort["train"].labels[first : last + 1, 1]).all()

    authors = ["--label_row=next", "--before_first_event=carry_back", "--categorical=guess"]
    for command, output in ((["mimic3", *flags[:2]], "three.h5"), (["mimic3_benchmark", source], "four.h5")):
        assert run("bin/prepare", *command, *authors, f"--output={tmp_path / output}").returncode == 0
    assert (
        (tmp_path / "three.h5").read_bytes()
        == (tmp_path / "four.h5").read_bytes()
        != (tmp_path / "two.h5").read_bytes()
    )

    again = run("bin/prepare", "mimic3", *flags, f"--output={tmp_path / 'raw.h5'}", "--overwrite")
    assert again.returncode == 1
    assert f"error: {pathlib.Path(tmp_path / 'multitask')}: exists already" in again.stderr
