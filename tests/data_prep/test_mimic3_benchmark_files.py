"""MIMIC-III Benchmark: which files are refused, and with which words; folder and tar give the same."""

import pathlib
import shutil
import tarfile

import numpy as np
import pytest

from ncl_tf.data.sources import mimic3_benchmark
from refusals import refused

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
    ("line", "column", "text", "named"),
    [
        *((3, "Heart Rate", text, f"column Heart Rate & {text!r} & a number") for text in ("fast", "inf", "1e60")),
        (4, EYE, "Blinking", f"column {EYE} & 'Blinking' & one of 1, 2, 3, 4, 'None', '1 No Response'"),
        (4, EYE, "5", f"column {EYE} & '5' & one of"),
        (2, "Capillary refill rate", "2.0", "column Capillary refill rate & '2.0' & one of 0, 1"),
        (6, "Hours", "0.0", "column Hours & got 0 after"),
        (6, "Hours", "", "column Hours & empty"),
        (6, "Hours", "6 o'clock", 'column Hours & "6 o\'clock" & a number'),
        (1, "Heart Rate", "Pulse", "missing column Heart Rate"),
        (1, "Heart Rate", "Heart Rate,Pulse", "unknown column Pulse"),
        (1, "Heart Rate", "Heart Rate,Glucose", "repeated column Glucose"),
        (3, "Heart Rate", "80,81", "19 & 18 cells"),
    ],
)
def test_bad_series(folder, line, column, text, named):
    set_cell(folder / SERIES, line, column, text)
    with refused(f"multitask: {SERIES}, line {line}", named):
        read(folder)


@pytest.mark.parametrize(
    ("change", "named"),
    [
        (lambda text: "", "empty file"),
        (lambda text: text.split("\n")[0], "no row after the header"),
        (lambda text: text.split("\n")[0] + "\n\n", "no row after the header"),
        (lambda text: text.replace(",", ";"), "line 1 & missing column Height"),
        (lambda text: text.replace("\n", "\n\n", 3).replace("\n\n", "\n", 2), "line 4, column Hours & empty"),
        (lambda text: text.replace("Hours,Capillary refill rate", "Capillary refill rate,Hours", 1),
         "line 1 & another order & _timeseries.csv"),
    ],
    ids=["empty", "only header", "blank row", "delimiter", "blank line", "order"],
)  # fmt: skip
def test_bad_texts_of_series(folder, change, named):
    path = folder / SERIES
    path.write_text(change(path.read_text()))
    with refused(f"multitask: {SERIES}", named):
        read(folder)


@pytest.mark.parametrize(
    ("column", "text", "named"),
    [
        *(("length of stay", text, f"{text!r} & hours below 100000") for text in ("long", "-1", "nan", "inf", "1e9")),
        (LOS, "1;1;2.5", "3 entries & as many masks as labels"),
        (LOS, "1;0;1;8;7;6;5;4", "masks & 0 or 1 & got 8"),
        (LOS, "1;0.5;8;7", "masks & 0 or 1 & got 0.5"),
        (LOS, "1;1;8;soon", "numbers & 'soon'"),
        (LOS, "1;1;8;nan", "labels & numbers of hours & got nan"),
        (LOS, "1;1;8;inf", "labels & numbers of hours & got inf"),
        (LOS, ";".join(["0"] * 2000), "labels & hours 0 to & got 1000"),
        (DECOMPENSATION, "1;1;0;2", "labels & 0 or 1 & got 2"),
        (DECOMPENSATION, "1;1;0;0.5", "labels & 0 or 1 & got 0.5"),
        (DECOMPENSATION, "1;1;0", "3 entries"),
        (DECOMPENSATION, "a", "numbers & 'a'"),
    ],
)
def test_bad_listfile(folder, column, text, named):
    line = list_line(folder)
    set_cell(folder / "train_listfile.csv", line, column, text)
    with refused(f"multitask: train_listfile.csv, line {line}, column {column}", named):
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
def test_missing_or_empty_lists(folder, split):
    path = folder / f"{split}_listfile.csv"
    path.write_text(path.read_text().split("\n")[0] + "\n")
    with refused(path.name, "no stays"):
        read(folder)
    path.unlink()
    with refused(folder, path.name, "python -m mimic3models.split_train_val"):
        read(folder)


@pytest.mark.parametrize(
    ("change", "named"),
    [
        (lambda lines: [], "line 1 & 'filename'"),
        (lambda lines: ["filename,stay"], "line 1 & 'length of stay'"),
        (lambda lines: [*lines[:2], lines[2].rsplit(",", 2)[0]], "line 3 & got 4 & 6 cells"),
        (lambda lines: [*lines[:2], lines[2] + ",7"], "line 3 & got 7 & 6 cells"),
    ],
    ids=["empty", "columns", "short line", "long line"],
)
def test_bad_texts_of_lists(folder, change, named):
    path = folder / "test_listfile.csv"
    path.write_text("\n".join([*change(path.read_text().splitlines()), ""]))
    with refused("test_listfile.csv", named):
        read(folder)


def test_missing_series_and_a_stay_in_two_lists(folder):
    line = (folder / "train_listfile.csv").read_text().splitlines()[list_line(folder) - 1]
    with (folder / "val_listfile.csv").open("a") as file:
        file.write(line + "\n")
    with refused(folder, "stay 4_episode1"):
        read(folder)
    (folder / SERIES).unlink()
    with refused("train_listfile.csv & 4_episode1_timeseries.csv", SERIES):
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
    with refused(f"multitask: {SERIES}, line 3, column Heart Rate & 'fast'"):
        read(folder)
