"""PhysioNet 2019: which files are refused, and with which words; which odd ones are read, and how."""

import math
import pathlib
import zipfile

import numpy as np
import pytest

from ncl_tf.data.cohort import Cohort, write_cohort
from ncl_tf.data.datasets import PHYSIONET2019
from ncl_tf.data.sources import physionet2019
from psv import COLUMNS, HEADER
from refusals import refused

USUAL = {"HR": "80", "Temp": "36.6", "Age": "70.5", "Gender": "1", "HospAdmTime": "-2"}
USUAL |= {"ICULOS": "1", "SepsisLabel": "0"}


def row(**cells: str) -> str:
    return "|".join({**USUAL, **cells}.get(name, "NaN") for name in COLUMNS)


def stay(*rows: str, header: str = HEADER) -> str:
    return "\n".join([header, *rows, ""])


GOOD = [row(ICULOS="1"), row(ICULOS="2"), row(ICULOS="3")]


def spoilt(line: int, **cells: str) -> str:
    """The good stay with other cells in one line (2, 3 or 4)."""
    return stay(*(row(**{"ICULOS": str(i + 1), **(cells if i + 2 == line else {})}) for i in range(3)))


def read(folder: pathlib.Path, text: str | bytes, name: str = "p000002.psv"):
    """Reads a folder with a good stay before and after the given one."""
    folder.mkdir(exist_ok=True)
    for other in ("p000001.psv", "p000003.psv"):
        (folder / other).write_text(stay(*GOOD))
    (folder / name).write_bytes(text if isinstance(text, bytes) else text.encode())
    return physionet2019.read_stays([folder])[0]


@pytest.mark.parametrize(
    ("text", "named"),
    [
        ("", "empty file"),
        ("\n\n", "empty file"),
        *((HEADER + end, "no row after the header") for end in ("", "\n", "\r\n")),
        (stay(*GOOD).replace("|", ","), "line 1 & '|' & 'HR,O2Sat"),
        (stay(*GOOD).replace("|", "\t"), "line 1 & '|'"),
        (stay(*GOOD[1:], header=GOOD[0]), "line 1: missing column HR, O2Sat"),
        (stay(*GOOD).replace("Temp|", "Temperature|"), "line 1: missing column Temp; unknown column Temperature"),
        (stay(*GOOD, header=HEADER.removesuffix("|SepsisLabel")), "line 1: missing column SepsisLabel"),
        (stay(*GOOD, header=HEADER + "|Lactate2"), "line 1: unknown column Lactate2"),
        (stay(*GOOD, header=HEADER.replace("HR|O2Sat", "O2Sat|HR")), "line 1 & another order"),
        (stay(GOOD[0], GOOD[1] + "|7", GOOD[2]), "line 3 & 42 & 41 cells separated by |"),
        (stay(GOOD[0], GOOD[1].replace("|", ","), GOOD[2]), "line 3 & got 1 & 41 cells"),
        (stay(GOOD[0], "", GOOD[1]), "line 3 & got 1 & 41 cells"),
        (stay(*GOOD, ""), "line 5 & got 1 & 41 cells"),
        *(
            (spoilt(line, **{column: cell}), f"line {line}, column {column} & {cell!r} & {allowed}")
            for line, column, cells, allowed in (
                (3, "Temp", ("warm", "36,6", "1_000", '"36"', ""), "a number, or NaN"),
                (4, "Lactate", ("inf", "-inf", "1e39"), "a number"),
                (2, "Gender", ("2",), "one of 0, 1, or NaN"),
                (2, "Unit2", ("0.5",), "one of 0, 1, or NaN"),
                (4, "SepsisLabel", ("2", "NaN", "", "-1"), "one of 0, 1"),
            )
            for cell in cells
        ),
        (spoilt(4, ICULOS="1"), "line 4, column ICULOS & 1 after 2"),
        (spoilt(3, ICULOS="1"), "line 3, column ICULOS & 1 after 1"),
        (spoilt(3, ICULOS="2.5"), "line 3, column ICULOS & 2.5 & a whole hour"),
        (spoilt(3, ICULOS="NaN"), "line 3, column ICULOS & nan & a whole hour"),
        (stay(*GOOD).encode() + b"\xff\xfe|" * 40 + b"0\n", "line 5, column HR & a number"),
        (spoilt(4, ICULOS="30000000"), "stay p000002 & 100000 hours & 1 to 30000000"),
    ],
)  # fmt: skip
def test_bad_files(tmp_path, text, named):
    with refused("p000002", named):
        read(tmp_path, text)


@pytest.mark.parametrize("name", ["p2.psv", "p0000002.psv", "patient2.psv", "P000002.psv", "p000002 (1).psv"])
def test_bad_file_names(tmp_path, name):
    with refused(name, "pNNNNNN.psv"):
        read(tmp_path, stay(*GOOD), name)


def test_no_stays_at_all(tmp_path):
    (tmp_path / "readme.txt").write_text("nothing here")
    with zipfile.ZipFile(tmp_path / "empty.zip", "w") as archive:
        archive.writestr("readme.txt", "nothing here")
    for source in (tmp_path, tmp_path / "empty.zip"):
        with refused("pNNNNNN.psv", source):
            physionet2019.read_stays([source])


def test_the_same_stay_twice(tmp_path):
    read(tmp_path / "a", stay(*GOOD))
    with zipfile.ZipFile(tmp_path / "b.zip", "w") as archive:
        archive.writestr("training/p000002.psv", stay(*GOOD))
    with refused("b.zip: training/p000002.psv & stay p000002 & a/p000002.psv"):
        physionet2019.read_stays([tmp_path / "a", tmp_path / "b.zip"])
    (tmp_path / "a" / "again").mkdir()
    (tmp_path / "a" / "again" / "p000001.psv").write_text(stay(*GOOD))
    with refused("stay p000001 & again/p000001.psv"):
        physionet2019.read_stays([tmp_path / "a"])


VARIANTS = {
    "CRLF": stay(*GOOD).replace("\n", "\r\n"),
    "CR": stay(*GOOD).replace("\n", "\r"),
    "no last newline": stay(*GOOD).removesuffix("\n"),
    "CRLF, no last newline": stay(*GOOD).replace("\n", "\r\n").removesuffix("\r\n"),
    "other spellings of the same numbers": stay(*GOOD).replace("36.6", "36.60").replace("NaN", "nan"),
}


@pytest.mark.parametrize("variant", VARIANTS)
def test_harmless_variants(tmp_path, variant):
    expected, stays = read(tmp_path / "usual", stay(*GOOD)), read(tmp_path / "variant", VARIANTS[variant])
    np.testing.assert_array_equal(stays.values, expected.values)
    np.testing.assert_array_equal(stays.labels, expected.labels)


def test_a_variant_is_not_blamed_for_the_fault_of_another_file(tmp_path):
    """Labels written as 0.00 and a lower-case nan are fine; the search for the fault must not stop there."""
    variant = spoilt(3, SepsisLabel="0.00", Temp="nan")
    (tmp_path / "p000004.psv").write_text(spoilt(3, Temp="warm"))
    with refused("p000004.psv, line 3, column Temp & 'warm'"):
        read(tmp_path, variant)


def test_hours_left_out(tmp_path):
    """They become rows without label, forward filled, in which the hour counts on."""
    rows = [row(ICULOS="3", HR="70", SepsisLabel="0"), row(ICULOS="6", HR="90", SepsisLabel="1")]
    stays = read(tmp_path, stay(*rows))
    assert stays.names.tolist() == ["p000001", "p000002", "p000003"]
    assert stays.lengths.tolist() == [3, 4, 3]
    hour, heart_rate = PHYSIONET2019.columns.index("ICULOS"), PHYSIONET2019.columns.index("HR")
    assert stays.values[:, hour].tolist() == [1, 2, 3, 3, 4, 5, 6, 1, 2, 3]
    np.testing.assert_array_equal(stays.values[3:7, heart_rate], np.float32([70, np.nan, np.nan, 90]))
    np.testing.assert_array_equal(stays.labels[3:7, 0], np.float32([0, np.nan, np.nan, 1]))
    split = {"train": np.array([1]), "val": np.array([0]), "test": np.array([2])}
    write_cohort(tmp_path / "gap.h5", PHYSIONET2019, stays, split, "")
    train = Cohort(tmp_path / "gap.h5")["train"]
    # Filled: 70, 70, 70, 90 with mean 75; hours 3 to 6 with mean 4.5; both known in all four rows.
    np.testing.assert_allclose(train.data[:, heart_rate], np.array([-5, -5, -5, 15]) / math.sqrt(75), rtol=1e-6)
    np.testing.assert_allclose(train.data[:, hour], np.array([-1.5, -0.5, 0.5, 1.5]) / math.sqrt(1.25), rtol=1e-6)
