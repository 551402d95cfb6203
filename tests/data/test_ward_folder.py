"""The folder of a simulated ward: whole or absent, and never in place of anything but a ward."""

import pathlib

import pytest

from ncl_tf.data.simulator.folder import MARKER
from ncl_tf.data.simulator.ward import write_ward
from ncl_tf.errors import InputError


def contents(folder: pathlib.Path) -> dict[str, bytes]:
    return {str(path.relative_to(folder)): path.read_bytes() for path in sorted(folder.rglob("*")) if path.is_file()}


def test_only_a_ward_is_replaced(tmp_path):
    ward = tmp_path / "ward"
    write_ward(20, 2, ward)
    with pytest.raises(InputError, match="is not empty"):
        write_ward(9, 2, ward)
    write_ward(9, 2, ward, overwrite=True)
    assert len(list(ward.glob("*.psv"))) == 9
    before = contents(ward) | {"thesis.txt": b"years of work"}
    (ward / "thesis.txt").write_bytes(b"years of work")
    with pytest.raises(InputError, match="thesis.txt: is not part"):
        write_ward(9, 2, ward, overwrite=True)
    assert contents(ward) == before
    (ward / MARKER).unlink()
    with pytest.raises(InputError, match=f"has no {MARKER}"):
        write_ward(9, 2, ward, overwrite=True)
    with pytest.raises(InputError, match="must be a folder, got a file"):
        write_ward(9, 2, ward / "thesis.txt", overwrite=True)
    (tmp_path / "empty").mkdir()
    write_ward(1, 2, tmp_path / "empty")
    assert sorted(path.name for path in tmp_path.iterdir()) == ["empty", "ward"]


def test_an_interrupted_ward_leaves_nothing_and_spares_the_old_one(tmp_path):
    def interrupt(written: int) -> None:
        raise KeyboardInterrupt

    write_ward(9, 2, tmp_path / "ward")
    before = contents(tmp_path)
    for name in ("ward", "new"):
        with pytest.raises(KeyboardInterrupt):
            write_ward(9, 3, tmp_path / name, progress=interrupt, overwrite=True)
    assert contents(tmp_path) == before
