"""Archives are read completely or refused: damage to any byte, cuts at any place, and files that would hide others."""

import bz2
import gzip
import io
import lzma
import pathlib
import tarfile
import zipfile

import numpy as np
import pytest

from ncl_tf import memory
from ncl_tf.data.sources import archives
from ncl_tf.errors import InputError
from refusals import refused

CONTENTS = {f"ward/p{i:06d}.psv": f"HR|Temp\n{i}|36.{i}\n".encode() * 40 for i in range(1, 5)}
PACKERS = {"": bytes, ".gz": gzip.compress, ".bz2": bz2.compress, ".xz": lzma.compress}


def tar(contents: list[tuple[str, bytes]]) -> bytes:
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w") as archive:
        for name, data in contents:
            member = tarfile.TarInfo(name)
            member.size = len(data)
            archive.addfile(member, io.BytesIO(data))
    return buffer.getvalue()


def read(path: pathlib.Path) -> dict[str, bytes]:
    return {name: data() for name, data in archives.open_source(path, ".psv")}


def written(tmp_path: pathlib.Path, name: str, data: bytes) -> pathlib.Path:
    (tmp_path / name).write_bytes(data)
    return tmp_path / name


@pytest.mark.parametrize("suffix", PACKERS)
def test_a_cut_archive_is_refused_wherever_it_is_cut(tmp_path, suffix):
    whole = tar(list(CONTENTS.items()))
    assert read(written(tmp_path, f"whole.tar{suffix}", PACKERS[suffix](whole))) == CONTENTS
    ends = [512 * block for block in range(1, 1 + sum(1 + -(-len(data) // 512) for data in CONTENTS.values()))]
    for end in ends:  # among them the ends of all members
        with refused(f"{end}.tar{suffix}: must be & complete"):
            read(written(tmp_path, f"{end}.tar{suffix}", PACKERS[suffix](whole[:end])))
    packed = PACKERS[suffix](whole)
    for end in range(1, len(packed) - 1, 97 if suffix else 1031):
        if suffix or end <= ends[-1]:  # of a plain tar, nothing but zeros follows
            with refused("must be & complete"):
                read(written(tmp_path, f"cut{end}.tar{suffix}", packed[:end]))


@pytest.mark.parametrize("suffix", [".gz", ".bz2", ".xz"])
def test_every_flipped_bit_of_a_compressed_tar_is_found_or_without_effect(tmp_path, suffix):
    """The checksum is at the end, behind the last member, where a reader of members alone never comes."""
    packed = PACKERS[suffix](tar(list(CONTENTS.items())))
    generator, refusals = np.random.default_rng(0), 0
    for position in generator.choice(len(packed) * 8, 300, replace=False).tolist():
        damaged = bytearray(packed)
        damaged[position // 8] ^= 1 << position % 8
        try:
            assert read(written(tmp_path, f"flipped.tar{suffix}", bytes(damaged))) == CONTENTS, position
        except InputError:
            refusals += 1
    assert refusals > 200  # of the others, most are in the name or date that a gzip header has


def test_a_damaged_header_hides_no_stays(tmp_path):
    whole = tar(list(CONTENTS.items()))
    second = 512 * (1 + -(-len(CONTENTS["ward/p000001.psv"]) // 512))
    for block in (b"\0" * 512, b"x" * 512):  # the first one looks like the end
        with refused("damaged.tar & complete"):
            read(written(tmp_path, "damaged.tar", whole[:second] + block + whole[second + 512 :]))
    with refused("two.tar & complete"):  # cat a.tar b.tar
        read(written(tmp_path, "two.tar", whole + tar([("p000009.psv", b"more")])))


def test_a_file_occurs_once(tmp_path):
    twice = [("p000001.psv", b"one"), ("p000002.psv", b"two"), ("./p000001.psv", b"other")]
    with refused("twice.tar & 'p000001.psv' twice"):
        read(written(tmp_path, "twice.tar", tar(twice)))
    with zipfile.ZipFile(tmp_path / "twice.zip", "w") as archive:
        for name, data in twice:
            archive.writestr(name, data)
    with refused("twice.zip & 'p000001.psv' twice"):
        read(tmp_path / "twice.zip")


def test_links_are_refused_not_left_out(tmp_path):
    with tarfile.open(tmp_path / "links.tar", "w") as archive:
        link = tarfile.TarInfo("p000002.psv")
        link.type, link.linkname = tarfile.LNKTYPE, "p000001.psv"
        archive.addfile(link)
    with refused("links.tar & 'p000002.psv' & link"):
        read(tmp_path / "links.tar")


def test_a_zip_of_a_newer_version_is_refused(tmp_path):
    with zipfile.ZipFile(tmp_path / "new.zip", "w") as archive:
        archive.writestr("p000001.psv", b"one")
    data = bytearray((tmp_path / "new.zip").read_bytes())
    data[data.rindex(b"PK\1\2") + 6] = 99  # the version that is needed to extract
    with refused("new.zip & zip file version 9.9"):
        read(written(tmp_path, "new.zip", bytes(data)))


def test_what_unpacks_to_more_than_the_memory_is_refused_before_it_is_read(tmp_path, monkeypatch):
    with zipfile.ZipFile(tmp_path / "bomb.zip", "w", zipfile.ZIP_DEFLATED) as archive:
        for i in range(3):
            archive.writestr(f"p{i:06d}.psv", bytes(2**20))
    packed = PACKERS[".gz"](tar([(f"p{i:06d}.psv", bytes(2**20)) for i in range(3)]))
    paths = [tmp_path / "bomb.zip", written(tmp_path, "bomb.tar.gz", packed)]
    assert all(path.stat().st_size < 2**15 and len(read(path)) == 3 for path in paths)
    monkeypatch.setattr(memory, "most", 2.5 * 2**20)
    for path in paths:
        with refused(path.name, "0.0 GB & --max_gigabytes"):
            read(path)
    assert 2**28 < memory.available() < 2**45
