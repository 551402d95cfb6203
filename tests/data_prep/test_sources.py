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


def make_folder(path: pathlib.Path) -> pathlib.Path:
    for name, data in FILES.items():
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


def contents(path: pathlib.Path) -> dict[str, bytes]:
    return {name: read() for name, read in open_source(path, ".csv")}


def test_folder_zip_and_tar_are_read_alike(tmp_path):
    expected = {name: data for name, data in FILES.items() if name.endswith(".csv")}
    assert contents(make_folder(tmp_path / "folder")) == expected
    assert contents(make_zip(tmp_path / "files.zip", FILES)) == expected
    for compression in ("", "gz", "bz2", "xz"):
        assert contents(make_tar(tmp_path / f"files.tar.{compression}", FILES, compression)) == expected


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
    for name in files:
        (tmp_path / "folder" / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / "folder" / name).write_bytes(b"x")
    for source in (tmp_path / "folder", make_zip(tmp_path / "f.zip", files), make_tar(tmp_path / "f.tar", files)):
        assert is_ward(source, ".csv") == simulated
    assert not is_ward(tmp_path / "folder" / next(name for name in names if name.endswith(".csv")), ".csv")


def test_errors_name_a_file_that_cannot_be_read(tmp_path):
    (tmp_path / "a.csv").write_text("one")
    for source in (tmp_path, tmp_path / "a.csv"):
        ((_, read),) = open_source(source, ".csv")
        (tmp_path / "a.csv").unlink()
        with refused("a.csv & No such file or directory"):
            read()
        (tmp_path / "a.csv").write_text("one")


def test_nothing_is_unpacked(tmp_path):
    contents(make_zip(tmp_path / "files.zip", FILES))
    contents(make_tar(tmp_path / "files.tar.xz", FILES, "xz"))
    assert sorted(path.name for path in tmp_path.iterdir()) == ["files.tar.xz", "files.zip"]


@pytest.mark.parametrize("name", ["../x.csv", "/x.csv", "sub/../../x.csv", "..\\x.csv", "../x.txt"])
@pytest.mark.parametrize("make", [make_zip, make_tar])
def test_members_that_escape(tmp_path, make, name):
    archive = make(tmp_path / "archive", {**FILES, name: b"evil"})
    with refused(f"archive: member {name!r}"):
        contents(archive)


def truncate(path: pathlib.Path, share: float) -> pathlib.Path:
    data = path.read_bytes()
    path.write_bytes(data[: int(share * len(data))])
    return path


@pytest.mark.parametrize("share", [0.0, 0.1, 0.5, 0.9, 0.99])
def test_truncated_archives(tmp_path, share):
    noise = {f"{i}.csv": bytes((i * k * k + k) % 251 for k in range(4000)) for i in range(20)}
    archives = [make_zip(tmp_path / "files.zip", noise)]
    archives += [make_tar(tmp_path / f"files.tar.{kind}", noise, kind) for kind in ("gz", "bz2", "xz")]
    for archive in archives:
        with refused(archive, "a folder or a complete zip or tar file"):
            contents(truncate(archive, share))


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


def flip(path: pathlib.Path, position: int) -> pathlib.Path:
    data = bytearray(path.read_bytes())
    data[position] ^= 0xFF
    path.write_bytes(bytes(data))
    return path


def test_damaged_member_of_a_zip(tmp_path):
    archive = make_zip(tmp_path / "files.zip", FILES)
    flip(archive, archive.read_bytes().index(b"sub/b.csv") + len("sub/b.csv") + 4)
    with refused("files.zip: sub/b.csv"):
        contents(archive)


def test_damaged_directory_of_a_zip(tmp_path):
    archive = make_zip(tmp_path / "files.zip", FILES)
    flip(archive, archive.read_bytes().index(b"PK\x01\x02"))
    with refused("files.zip & a complete zip or tar file"):
        contents(archive)


def test_damaged_xz(tmp_path):
    archive = make_tar(tmp_path / "files.tar.xz", FILES, "xz")
    with refused("files.tar.xz & a complete zip or tar file"):
        contents(flip(archive, len(archive.read_bytes()) // 2))
