"""MIMIC-III from the download: which files are refused, and with which words."""

import gzip
import pathlib

import pytest

from mimic3_tables import MadeUpDownload
from ncl_tf.data.sources.mimic3_raw import multitask_files, tables
from refusals import refused

MAP = "itemid_to_variable_map.csv"
DATE = "must be a date such as 2130-02-04 04:25:00"


@pytest.fixture
def folder(tmp_path) -> pathlib.Path:
    """The tables of four stays, to be spoilt; all rows of events are kept."""
    made = MadeUpDownload(outputs=0)
    for subject, split in enumerate(["train", "val", "test", "train"], start=1):
        made.patient(subject, split=split)
        stay = made.stay(subject, 100 * subject, 30)
        for minute in range(0, 1500, 50):
            made.event(stay, minute, variable="Heart Rate" if minute % 100 else "Temperature")
    return made.write(tmp_path / "made_up")


def read(folder: pathlib.Path):
    return multitask_files(folder / "raw", folder / "benchmark")


def replace_in_line(path: pathlib.Path, number: int, old: str, new: str) -> str:
    """Replace a text in a line of a file, and return the line before."""
    lines = path.read_text().splitlines()
    line = lines[number - 1]
    assert old in line
    lines[number - 1] = line.replace(old, new, 1)
    path.write_text("\n".join([*lines, ""]))
    return line


def cell(path: pathlib.Path, number: int, column: int) -> str:
    return path.read_text().splitlines()[number - 1].split(",")[column].strip('"')


@pytest.mark.parametrize("name", tables.NEEDED)
def test_a_missing_table(folder, name):
    (folder / "raw" / f"{name}.csv").unlink()
    with refused(folder / "raw", f"no {name}.csv or {name}.csv.gz", "https://physionet.org/content/mimiciii/1.4/"):
        read(folder)


def test_names_of_files_in_lower_case_and_packed(folder):
    expected = {name: text() for name, text in read(folder)[0].items()}
    for path in (folder / "raw").iterdir():
        path.with_name(f"{path.name.lower()}.gz").write_bytes(gzip.compress(path.read_bytes()))
        path.unlink()
    assert {name: text() for name, text in read(folder)[0].items()} == expected


@pytest.mark.parametrize("block", [2**24, 500, 137])
def test_a_line_break_within_a_cell(folder, block, monkeypatch):
    """Of items that are not used, as free text may have; wherever the blocks are cut."""
    monkeypatch.setattr(tables, "BLOCK", block)
    expected = {name: text() for name, text in read(folder)[0].items()}
    path = folder / "raw" / "CHARTEVENTS.csv"
    lines = path.read_text().splitlines()
    broken = '1,1,2,3,998,"","","two\nlines, ""quoted""\n","","",""'
    path.write_text("\n".join([*lines[:5], *[broken] * 20, *lines[5:], ""]))
    assert {name: text() for name, text in read(folder)[0].items()} == expected
    old = cell(path, 90, 4)
    replace_in_line(path, 90, f",{old},", ",x,")
    with refused(f"{path}, line 90, column ITEMID & 'x'"):
        read(folder)


def test_a_quote_that_opens_no_cell(folder, monkeypatch):
    """Blocks must end somewhere, even if quotes are never in pairs."""
    monkeypatch.setattr(tables, "BLOCK", 500)
    expected = {name: text() for name, text in read(folder)[0].items()}
    path = folder / "raw" / "CHARTEVENTS.csv"
    lines = path.read_text().splitlines()
    path.write_text("\n".join([*lines[:5], "1,1,2,3,998,,,5'10\",,,", *lines[5:], ""]))
    assert {name: text() for name, text in read(folder)[0].items()} == expected
    chart = tables.find_tables(folder / "raw")["CHARTEVENTS"]
    lengths = list(tables.map_blocks([chart], lambda table, first, block: len(block)))
    assert sum(lengths) == path.stat().st_size - path.read_bytes().index(b"\n") - 1
    assert max(lengths) < 1500


def test_bytes_that_are_no_text(folder):
    path = folder / "raw" / "CHARTEVENTS.csv"
    lines = path.read_bytes().splitlines()
    begin, _, error = lines[24].rsplit(b",", 2)
    lines[24] = b",".join([begin, b"\xb0F", error])
    path.write_bytes(b"\n".join([*lines, b""]))
    with refused(f"{path}, line 25: must be text in UTF-8, got the bytes b'\\xb0'"):
        read(folder)


@pytest.mark.parametrize("name", ["CHARTEVENTS", "PATIENTS"])
@pytest.mark.parametrize("change", [lambda data: data[:-20], lambda data: data[:8], lambda data: b"not packed" + data],
                         ids=["end", "begin", "kind"])  # fmt: skip
def test_a_damaged_gzip(folder, name, change):
    path = folder / "raw" / f"{name}.csv"
    path.with_name(f"{name}.csv.gz").write_bytes(change(gzip.compress(path.read_bytes())))
    path.unlink()
    with refused(f"{name}.csv.gz & cannot be read to its end & truncated download"):
        read(folder)


def test_a_truncated_table(folder):
    path = folder / "raw" / "CHARTEVENTS.csv"
    lines = path.read_text().splitlines()
    path.write_text("\n".join([*lines[:-1], lines[-1][:20]]))
    with refused(f"{path}, line {len(lines)}: must have 11 cells, got "):
        read(folder)


@pytest.mark.parametrize(
    ("name", "column"),
    [("CHARTEVENTS", "ICUSTAY_ID"), ("LABEVENTS", "VALUEUOM"), ("ICUSTAYS", "LOS"), ("PATIENTS", "DOB")],
)
def test_a_header_without_a_column(folder, name, column):
    path = folder / "raw" / f"{name}.csv"
    replace_in_line(path, 1, f'"{column}"', '"OTHER"')
    with refused(f"{path}, line 1: must have the columns & got no {column}"):
        read(folder)
    path.write_text("")
    with refused(f"{path}, line 1: must have the columns & {column} & got an empty file"):
        read(folder)


def test_mimic4(folder):
    replace_in_line(folder / "raw" / "CHARTEVENTS.csv", 1, '"ICUSTAY_ID"', '"STAY_ID"')
    with refused("CHARTEVENTS.csv, line 1 & columns of MIMIC-IV & reads MIMIC-III"):
        read(folder)
    (folder / "raw" / "CHARTEVENTS.csv").unlink()
    (folder / "raw" / "icu").mkdir()
    with refused(folder / "raw", "folders of MIMIC-IV & reads MIMIC-III"):
        read(folder)
    (folder / "raw" / "icu").rmdir()
    (folder / "raw" / "ICUSTAYS.csv").unlink()
    (folder / "raw" / "PATIENTS.csv").write_text("subject_id,gender,anchor_age,anchor_year,anchor_year_group,dod\n")
    with refused("PATIENTS.csv, line 1 & columns of MIMIC-IV"):  # of its folder hosp
        read(folder)


@pytest.mark.parametrize(
    ("name", "column", "index"),
    [("ICUSTAYS", "INTIME", 9), ("ICUSTAYS", "OUTTIME", 10), ("ADMISSIONS", "ADMITTIME", 3), ("PATIENTS", "DOB", 3)],
)
@pytest.mark.parametrize("text", ["2150-13-01 00:00:00", "01/02/2150", "2150-01-02T00:00:00", "2150-01-02 00:00:00.5",
                                  "2150-01-02 00:00:00+02:00"])  # fmt: skip
def test_a_bad_date_of_a_stay(folder, name, column, index, text):
    path = folder / "raw" / f"{name}.csv"
    replace_in_line(path, 3, cell(path, 3, index), text)
    with refused(f"{path}, line 3, column {column}: {DATE}, got {text!r}"):
        read(folder)


@pytest.mark.parametrize("block", [2**24, 500])
@pytest.mark.parametrize(("column", "index", "text", "allowed"), [
    ("CHARTTIME", 5, "2150-02-30 00:00:00", DATE), ("CHARTTIME", 5, "yesterday", DATE),
    ("CHARTTIME", 5, "2150-02-03", DATE), ("CHARTTIME", 5, "2150-02-03 04:25", DATE),
    ("CHARTTIME", 5, "2150-02-03 04:25:00Z", DATE),
    ("ITEMID", 4, "2x1", "must be a whole number"), ("HADM_ID", 2, "1.5", "must be a whole number"),
])  # fmt: skip
def test_a_bad_cell_of_an_event(folder, column, index, text, allowed, block, monkeypatch):
    """The line is that of the file, whatever block it is in."""
    monkeypatch.setattr(tables, "BLOCK", block)
    path = folder / "raw" / "CHARTEVENTS.csv"
    old = cell(path, 40, index)
    replace_in_line(path, 40, f'"{old}"' if index == 5 else f",{old},", f'"{text}"' if index == 5 else f",{text},")
    with refused(f"{path}, line 40, column {column}: {allowed}, got {text!r}"):
        read(folder)


def test_a_bad_id_length_or_number_of_cells(folder):
    path = folder / "raw" / "ICUSTAYS.csv"
    before = path.read_text()
    replace_in_line(path, 2, cell(path, 2, 3), "x7")
    with refused(f"{path}, line 2, column ICUSTAY_ID: must be a whole number, got 'x7'"):
        read(folder)
    path.write_text(before)
    replace_in_line(path, 4, cell(path, 4, 11), "long")
    with refused(f"{path}, line 4, column LOS: must be a number of days, got 'long'"):
        read(folder)
    path.write_text(before)
    replace_in_line(path, 4, ",", ",7,")
    with refused(f"{path}, line 4: must have 12 cells, got 13"):
        read(folder)
    path.write_text(before.splitlines()[0] + "\n")
    with refused(f"{path}: no stay of the benchmark"):
        read(folder)


@pytest.mark.parametrize(
    ("change", "named"),
    [
        (lambda text: text.replace(",ready,", ",verify,"), f'{MAP}: no row with LEVEL2 set, STATUS "ready"'),
        (lambda text: text.replace("STATUS,", "STATE,"), f"{MAP}, line 1 & got no STATUS"),
        (lambda text: text.replace(",x,7", ",x,many", 1), f"{MAP}, line 2: COUNT and ITEMID must be whole numbers"),
        (lambda text: text.replace(",220045,", ",211,"), "item 211 must be one variable"),
        (lambda text: "", f"{MAP}, line 1"),
    ],
    ids=["none ready", "column", "number", "twice", "empty"],
)
def test_a_bad_map(folder, change, named):
    path = folder / "benchmark" / MAP
    path.write_text(change(path.read_text()))
    with refused(path, named):
        read(folder)


@pytest.mark.parametrize("name", ["testset.csv", "valset.csv"])
def test_bad_split_tables(folder, name):
    path = folder / "benchmark" / name
    before = path.read_text()
    for line in ("1;0", "1", "one,0", "1,2", ""):
        path.write_text(f"{before.splitlines()[0]}\n{line}\n{before}")
        with refused(f"{path}, line 2: must be a subject and 0 or 1, such as 100,1; got {line!r}"):
            read(folder)
    path.write_text(before.replace(",1", ",0"))
    with refused(folder / "raw", f"no stay in the split {name[:-7]}"):
        read(folder)
    path.unlink()
    with refused(folder / "benchmark", f"no {name} & a checkout of https://github.com/YerevaNN/mimic3-benchmarks"):
        read(folder)


def test_a_checkout_of_the_benchmark(folder):
    """Its tables are in three places."""
    expected = {name: text() for name, text in read(folder)[0].items()}
    for place, names in {"mimic3benchmark/resources": (MAP, "testset.csv"), "mimic3models": ("valset.csv",)}.items():
        (folder / "benchmark" / place).mkdir(parents=True)
        for name in names:
            (folder / "benchmark" / name).rename(folder / "benchmark" / place / name)
    assert {name: text() for name, text in read(folder)[0].items()} == expected


def test_paths_that_are_no_folders(folder):
    for path, kind in ((folder / "nowhere", "a path that does not exist"), (folder / "benchmark" / MAP, "a file")):
        with refused(f"{path}: --raw must be the folder of the MIMIC-III download, got {kind}"):
            multitask_files(path, folder / "benchmark")
