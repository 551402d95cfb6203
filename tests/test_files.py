"""Files appear whole or not at all."""

import pathlib
import stat

import pytest

from ncl_tf import files
from ncl_tf.errors import InputError


def test_a_reader_sees_the_old_file_or_the_new_one(tmp_path):
    """The new file takes the old one's place at once: whoever has the old one open still reads all of it."""
    path = tmp_path / "file.txt"
    files.write_text(path, "old")
    with path.open() as reader:
        with files.atomic_path(path) as partial:
            partial.write_text("new")
            assert path.read_text() == "old"
        assert path.read_text() == "new"
        assert reader.read() == "old"
    assert list(tmp_path.iterdir()) == [path]


def test_failure_leaves_the_old_file(tmp_path):
    path = tmp_path / "file.txt"
    files.write_text(path, "old")
    with pytest.raises(ZeroDivisionError), files.atomic_path(path) as partial:
        partial.write_text("half of the new")
        1 / 0  # noqa: B018
    assert list(tmp_path.iterdir()) == [path]
    assert path.read_text() == "old"


def test_errors_of_the_disk_are_reported(tmp_path):
    message = r"file\.txt: cannot be written \(No space left on device\)"
    with pytest.raises(InputError, match=message), files.atomic_path(tmp_path / "file.txt"):
        raise OSError(28, "a long story")
    assert list(tmp_path.iterdir()) == []


def test_a_folder_appears_whole_and_failure_leaves_the_old_one(tmp_path):
    folder = tmp_path / "folder"
    for text in ("old", "new"):
        with files.atomic_folder(folder) as new:
            (new / "file.txt").write_text(text)
    with (
        pytest.raises(InputError, match=r"folder: cannot be written \(No space left on device\)"),
        files.atomic_folder(folder),
    ):
        raise OSError(28, "a long story")
    with pytest.raises(InputError, match="folder: cannot be written"), files.atomic_folder(folder) as new:
        new.rmdir()  # so it cannot take the place of the old one, which has made room
    assert (folder / "file.txt").read_text() == "new"
    assert list(tmp_path.iterdir()) == [folder]


def test_paths_are_shortened_to_unique_suffixes():
    paths = [pathlib.Path(path) for path in ("/x/a/runs/cl", "/x/b/runs/cl", "/x/b/runs/sacl", "/x/a/runs/cl")]
    assert files.shortest_unique_suffixes(paths) == ["a/runs/cl", "b/runs/cl", "sacl", "a/runs/cl"]
    assert files.shortest_unique_suffixes([pathlib.Path("/cl"), pathlib.Path("/x/cl")]) == ["//cl", "x/cl"]


def test_permissions_are_the_usual_ones(tmp_path):
    """Temporary files are private; results are as readable as any new file."""
    files.write_text(tmp_path / "ours.txt", "text")
    (tmp_path / "usual.txt").write_text("text")
    ours, usual = ((tmp_path / name).stat().st_mode for name in ("ours.txt", "usual.txt"))
    assert stat.S_IMODE(ours) == stat.S_IMODE(usual)


def test_check_output(tmp_path):
    path = tmp_path / "new" / "deeper" / "file.h5"
    files.check_output(path, overwrite=False)
    assert path.parent.is_dir()
    assert list(path.parent.iterdir()) == []
    path.write_text("there")
    files.check_output(path, overwrite=True)
    with pytest.raises(InputError, match=r"file\.h5: exists already; pass --overwrite"):
        files.check_output(path, overwrite=False)
    with pytest.raises(InputError, match="--output must name a file"):
        files.check_output(tmp_path, overwrite=True)
    with pytest.raises(InputError, match="cannot write into this folder"):
        files.check_output(path / "below" / "file.h5", overwrite=True)
    assert path.read_text() == "there"
