"""MIMIC-III Benchmark: which files are refused, and with which words; folder and tar give the same."""

import pathlib
import shutil
import tarfile

import numpy as np
import pytest

from ncl_tf.data.sources import mimic3_benchmark
from ncl_tf.errors import InputError

SERIES = "train/4_episode1_timeseries.csv"  # a training stay
LOS, DECOMPENSATION = "length of stay task (masks;labels)", "decompensation task (masks;labels)"
EYE = "Glascow coma scale eye opening"


@pytest.fixture
def folder(mimic_ward, tmp_path) -> pathlib.Path:
    """A copy of a ward, to be spoilt."""
    return shutil.copytree(mimic_ward, tmp_path / "multitask")


def read(path: pathlib.Path):
    return mimic3_benchmark.read_stays(path, carry_back=False, shift=0)


def set_cell(path: pathlib.Path, line: int, column: str, text: str) -> None:
    lines = path.read_text().splitlines()
    cells = lines[line - 1].split(",")
    cells[lines[0].split(",").index(column)] = text
    lines[line - 1] = ",".join(cells)
    path.write_text("\n".join([*lines, ""]))


def list_line(folder: pathlib.Path) -> int:
    """Line of SERIES in its listfile."""
    lines = (folder / "train_listfile.csv").read_text().splitlines()
    return next(number for number, line in enumerate(lines, start=1) if line.startswith(pathlib.Path(SERIES).name))


@pytest.mark.parametrize(
    ("line", "column", "text", "message"),
    [
        (3, "Heart Rate", "fast", "line 3, column Heart Rate: 'fast' is not a number"),
        (3, "Heart Rate", "inf", "line 3, column Heart Rate: 'inf' is not a number"),
        (3, "Heart Rate", "1e60", "line 3, column Heart Rate: '1e60' is not a number"),
        (4, EYE, "Blinking", f"line 4, column {EYE}: 'Blinking' is not one of 1, 2, 3, 4, 'None', '1 No Response'"),
        (4, EYE, "5", f"line 4, column {EYE}: '5' is not one of"),
        (2, "Capillary refill rate", "2.0", "line 2, column Capillary refill rate: '2.0' is not one of 0, 1"),
        (6, "Hours", "0.0", "line 6, column Hours: 0 follows .*; hours must not go backwards"),
        (6, "Hours", "", "line 6, column Hours: empty"),
        (6, "Hours", "6 o'clock", 'line 6, column Hours: "6 o\'clock" is not a number'),
        (1, "Heart Rate", "Pulse", "line 1: missing column Heart Rate"),
        (1, "Heart Rate", "Heart Rate,Pulse", "line 1: unknown column Pulse"),
        (1, "Heart Rate", "Heart Rate,Glucose", "line 1: repeated column Glucose"),
        (3, "Heart Rate", "80,81", "line 3: 19 cells, expected 18 separated by commas"),
    ],
)
def test_bad_series(folder, line, column, text, message):
    set_cell(folder / SERIES, line, column, text)
    with pytest.raises(InputError, match=rf"multitask: {SERIES}, {message}"):
        read(folder)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda text: "", ": empty file"),
        (lambda text: text.split("\n")[0], ": no row after the header"),
        (lambda text: text.split("\n")[0] + "\n\n", ": no row after the header"),
        (lambda text: text.replace(",", ";"), ", line 1: missing column Height"),
        (lambda text: text.replace("\n", "\n\n", 3).replace("\n\n", "\n", 2), ", line 4, column Hours: empty"),
        (lambda text: text.replace("Hours,Capillary refill rate", "Capillary refill rate,Hours", 1),
         ", line 1: columns are in another order than in .*_timeseries.csv"),
    ],
    ids=["empty", "only header", "blank row", "delimiter", "blank line", "order"],
)  # fmt: skip
def test_bad_texts_of_series(folder, change, message):
    path = folder / SERIES
    path.write_text(change(path.read_text()))
    with pytest.raises(InputError, match=rf"multitask: {SERIES}{message}"):
        read(folder)


@pytest.mark.parametrize(
    ("column", "text", "message"),
    [
        ("length of stay", "long", "column length of stay: 'long' is not a number of hours"),
        ("length of stay", "-1", "column length of stay: '-1' is not"),
        ("length of stay", "nan", "column length of stay: 'nan' is not"),
        ("length of stay", "inf", "column length of stay: 'inf' is not"),
        ("length of stay", "1e9", "column length of stay: '1e9' is not"),
        (LOS, "1;1;2.5", "3 entries, but as many masks as labels"),
        (LOS, "1;0;1;8;7;6;5;4", "mask 8; allowed are 0 and 1"),
        (LOS, "1;0.5;8;7", "mask 0.5; allowed are 0 and 1"),
        (LOS, "1;1;8;soon", "could not convert string to float: 'soon'"),
        (LOS, "1;1;8;nan", "label nan; allowed are numbers of hours"),
        (LOS, "1;1;8;inf", "label inf; allowed are numbers of hours"),
        (LOS, ";".join(["0"] * 2000), r"1000 labels for the hours 0 to \d+ of the stay"),
        (DECOMPENSATION, "1;1;0;2", "label 2; allowed are 0 and 1"),
        (DECOMPENSATION, "1;1;0;0.5", "label 0.5; allowed are 0 and 1"),
        (DECOMPENSATION, "1;1;0", "3 entries"),
        (DECOMPENSATION, "a", "could not convert string to float: 'a'"),
    ],
)
def test_bad_listfile(folder, column, text, message):
    line = list_line(folder)
    set_cell(folder / "train_listfile.csv", line, column, text)
    where = "column " + column.replace("(", r"\(").replace(")", r"\)") + ": "
    message = message if message.startswith("column") else where + message
    with pytest.raises(InputError, match=rf"multitask: train_listfile\.csv, line {line}, {message}"):
        read(folder)


@pytest.mark.parametrize("column", [LOS, DECOMPENSATION])
def test_masked_labels_may_be_anything_and_lists_empty(folder, column):
    """A masked entry is not looked at; a stay without any entry is unlabelled."""
    set_cell(folder / "train_listfile.csv", list_line(folder), column, "0;0;nan;-7")
    read(folder)
    set_cell(folder / "train_listfile.csv", list_line(folder), column, "")
    stays, _, _ = read(folder)
    rows = stays.rows(np.flatnonzero(stays.names == "4_episode1"))
    assert np.isnan(stays.labels[rows, [DECOMPENSATION, LOS].index(column)]).all()


@pytest.mark.parametrize("split", ["train", "val", "test"])
def test_missing_listfile(folder, split):
    (folder / f"{split}_listfile.csv").unlink()
    with pytest.raises(InputError, match=rf"no {split}_listfile\.csv; .*python -m mimic3models\.split_train_val"):
        read(folder)


@pytest.mark.parametrize("text", ["", "filename,stay\n"])
def test_listfile_without_its_columns(folder, text):
    (folder / "val_listfile.csv").write_text(text)
    with pytest.raises(InputError, match=r"val_listfile\.csv, line 1: no column '(filename|length of stay)'"):
        read(folder)


@pytest.mark.parametrize("split", ["train", "val", "test"])
def test_listfile_without_stays(folder, split):
    path = folder / f"{split}_listfile.csv"
    path.write_text(path.read_text().split("\n")[0] + "\n")
    with pytest.raises(InputError, match=rf"{split}_listfile\.csv: no stays"):
        read(folder)


@pytest.mark.parametrize(("change", "cells"), [(lambda line: line.rsplit(",", 2)[0], 4), (lambda line: line + ",7", 7)])
def test_listfile_with_a_ragged_line(folder, change, cells):
    path = folder / "test_listfile.csv"
    lines = path.read_text().splitlines()
    lines[2] = change(lines[2])
    path.write_text("\n".join(lines))
    with pytest.raises(InputError, match=rf"test_listfile\.csv, line 3: {cells} cells, expected 6"):
        read(folder)


def test_missing_series(folder):
    (folder / SERIES).unlink()
    with pytest.raises(
        InputError, match=rf"train_listfile\.csv names 4_episode1_timeseries\.csv, but there is no {SERIES}"
    ):
        read(folder)


def test_stay_listed_twice(folder):
    """Within a list, or in two of them."""
    line = (folder / "train_listfile.csv").read_text().splitlines()[list_line(folder) - 1]
    with (folder / "val_listfile.csv").open("a") as file:
        file.write(line + "\n")
    with pytest.raises(InputError, match="stay 4_episode1 is listed twice"):
        read(folder)


def test_series_that_no_list_names_are_left_out(folder):
    (folder / "train" / "999_episode1_timeseries.csv").write_text("not even a series")
    stays, _, _ = read(folder)
    assert "999_episode1" not in stays.names


@pytest.mark.parametrize(("top", "compression"), [("data/multitask", "xz"), (".", ""), ("./multitask", "gz")])
def test_folder_and_tar_give_the_same(folder, tmp_path, top, compression):
    with tarfile.open(tmp_path / "multitask.tar", f"w:{compression}") as archive:
        archive.add(folder, arcname=top)
    stays, split, checksum = read(folder)
    packed, packed_split, packed_checksum = read(tmp_path / "multitask.tar")
    assert checksum == packed_checksum
    assert stays.names.tolist() == packed.names.tolist()
    np.testing.assert_array_equal(stays.values, packed.values)
    np.testing.assert_array_equal(stays.labels, packed.labels)
    assert all(split[name].tolist() == packed_split[name].tolist() for name in split)


def test_chunks(folder, monkeypatch):
    whole, _, _ = read(folder)
    monkeypatch.setattr(mimic3_benchmark, "CHUNK", 5)
    parts, _, _ = read(folder)
    np.testing.assert_array_equal(whole.values, parts.values)
    set_cell(folder / SERIES, 3, "Heart Rate", "fast")
    with pytest.raises(InputError, match=rf"multitask: {SERIES}, line 3, column Heart Rate: 'fast'"):
        read(folder)
