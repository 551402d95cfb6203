"""Folders, zips and tars are read alike; damaged or hostile archives are refused."""

import io
import pathlib
import tarfile
import zipfile

import pytest

from ncl_tf.data.simulator.folder import MARKER
from ncl_tf.data.sources.archives import is_ward, open_source
from refusals import refused

FILES = {"a.csv": b"one\n", "sub/b.csv": b"two" * 5000, "sub/deep/c.csv": b"", "readme.txt": b"not asked for"}


def make_folder(path: pathlib.Path, files: dict[str, bytes]) -> pathlib.Path:
    for name, data in files.items():
        (path / name).parent.mkdir(parents=True, exist_ok=True)
        (path / name).write_bytes(data)
    (path / "folder.csv").mkdir()
    return path


def make_zip(path: pathlib.Path, files: dict[str, bytes]) -> pathlib.Path:
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, data in files.items():
            archive.writestr(name, data)
    return path


def make_tar(path: pathlib.Path, files: dict[str, bytes], compression: str = "") -> pathlib.Path:
    with tarfile.open(path, f"w:{compression}") as archive:
        for name, data in files.items():
            member = tarfile.TarInfo(name)
            member.size = len(data)
            archive.addfile(member, io.BytesIO(data))
    return path


def make_xz(path: pathlib.Path, files: dict[str, bytes]) -> pathlib.Path:
    return make_tar(path, files, "xz")


def contents(path: pathlib.Path) -> dict[str, bytes]:
    return {name: read() for name, read in open_source(path, ".csv")}


def test_folder_zip_and_tar_are_read_alike(tmp_path):
    expected = {name: data for name, data in FILES.items() if name.endswith(".csv")}
    assert contents(make_folder(tmp_path / "folder", FILES)) == expected
    assert contents(make_zip(tmp_path / "files.zip", FILES)) == expected
    for compression in ("", "gz", "bz2", "xz"):
        assert contents(make_tar(tmp_path / f"files.tar.{compression}", FILES, compression)) == expected
    assert len(list(tmp_path.iterdir())) == 6  # nothing is unpacked


@pytest.mark.parametrize(
    "names, simulated",
    [
        (["a.csv"], False),
        ([MARKER, "a.csv", "train/b.csv"], True),
        (["one/a.csv", f"one/{MARKER}", "two/b.csv", f"two/{MARKER}"], True),
        (["ward/a.csv", f"ward/{MARKER}", "b.csv"], False),  # patients beside a ward
        (["ward/a.csv", f"ward/{MARKER}", "icu/b.csv"], False),
    ],
)
def test_patients_beside_a_ward_are_not_simulated(tmp_path, names, simulated):
    files = dict.fromkeys(names, b"x")
    for make, name in ((make_folder, "folder"), (make_zip, "f.zip"), (make_tar, "f.tar")):
        assert is_ward(make(tmp_path / name, files), ".csv") == simulated
    assert not is_ward(tmp_path / "folder" / next(name for name in names if name.endswith(".csv")), ".csv")


def test_errors_name_a_file_that_cannot_be_read(tmp_path):
    (tmp_path / "a.csv").write_text("one")
    for source in (tmp_path, tmp_path / "a.csv"):
        ((_, read),) = open_source(source, ".csv")
        (tmp_path / "a.csv").unlink()
        with refused("a.csv & No such file or directory"):
            read()
        (tmp_path / "a.csv").write_text("one")


@pytest.mark.parametrize("name", ["../x.csv", "/x.csv", "sub/../../x.csv", "..\\x.csv", "../x.txt"])
@pytest.mark.parametrize("make", [make_zip, make_tar])
def test_members_that_escape(tmp_path, make, name):
    archive = make(tmp_path / "archive", {**FILES, name: b"evil"})
    with refused(f"archive: member {name!r}"):
        contents(archive)


@pytest.mark.parametrize("share", [0.0, 0.1, 0.5, 0.9, 0.99])
def test_truncated_archives(tmp_path, share):
    noise = {f"{i}.csv": bytes((i * k * k + k) % 251 for k in range(4000)) for i in range(20)}
    archives = [make_zip(tmp_path / "files.zip", noise)]
    archives += [make_tar(tmp_path / f"files.tar.{kind}", noise, kind) for kind in ("gz", "bz2", "xz")]
    for archive in archives:
        data = archive.read_bytes()
        archive.write_bytes(data[: int(share * len(data))])
        with refused(archive, "a folder or a complete zip or tar file"):
            contents(archive)


def test_file_that_is_no_archive(tmp_path):
    (tmp_path / "training_setA.zip").write_text("HR|O2Sat\n1|2\n")
    with refused("training_setA.zip & a folder or a complete zip or tar file"):
        contents(tmp_path / "training_setA.zip")
    for name, kind in (("hourly.xlsx", "a .xlsx file"), ("stays", "a file of another kind")):
        (tmp_path / name).write_text("stay,hour\n1,2\n")
        with refused(tmp_path / name, f"a folder, zip or tar of .csv files & {kind}"):
            contents(tmp_path / name)
    with refused(tmp_path / "nowhere"):
        contents(tmp_path / "nowhere")


@pytest.mark.parametrize(
    ("make", "name", "damaged", "named"),
    [
        (make_zip, "files.zip", lambda data: data.index(b"sub/b.csv") + len("sub/b.csv") + 4, "files.zip: sub/b.csv"),
        (make_zip, "files.zip", lambda data: data.index(b"PK\x01\x02"), "a complete zip or tar file"),
        (make_xz, "files.tar.xz", lambda data: len(data) // 2, "a complete zip or tar file"),
    ],
    ids=["member of a zip", "directory of a zip", "xz"],
)
def test_a_damaged_byte(tmp_path, make, name, damaged, named):
    archive = make(tmp_path / name, FILES)
    data = bytearray(archive.read_bytes())
    data[damaged(data)] ^= 0xFF
    archive.write_bytes(data)
    with refused(archive, named):
        contents(archive)
