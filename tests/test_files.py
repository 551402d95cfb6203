"""Files appear whole or not at all, and what killed processes leave is removed."""

import os
import pathlib
import shutil
import signal
import stat
import subprocess
import sys

import pytest

from ncl_tf import files
from ncl_tf.errors import InputError
from processes import ROOT, finish, start


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


def write_and_wait(kind: str, path: pathlib.Path) -> subprocess.Popen:
    """Start a process that begins to write a file or folder, and wait until it is in the middle of it."""
    body = "(new / 'part.txt').write_text('half')" if kind == "folder" else "new.write_text('half')"
    code = f"""
import pathlib, time
from ncl_tf import files
with files.atomic_{kind}(pathlib.Path({str(path)!r})) as new:
    {body}
    print("here", flush=True)
    time.sleep(600)
"""
    process = start([sys.executable, "-c", code], ROOT)
    assert process.stdout.readline() == "here\n"
    return process


@pytest.mark.parametrize("kind", ["path", "folder"])
def test_leftovers_of_a_killed_process_are_removed_and_those_of_a_live_one_are_not(kind, tmp_path):
    victim = write_and_wait(kind, tmp_path / "one")
    files.write_text(tmp_path / "two", "text")  # while it is alive
    assert len(list(tmp_path.glob(".one.*.partial/*"))) == 2  # the lock, and what it writes
    os.kill(victim.pid, signal.SIGKILL)
    assert finish(victim)[0] == -signal.SIGKILL
    assert len(list(tmp_path.glob(".one.*.partial/*"))) == 2
    files.write_text(tmp_path / "two", "text")
    assert list(tmp_path.iterdir()) == [tmp_path / "two"]


def test_what_looks_like_a_leftover_but_is_not_stays(tmp_path):
    own = tmp_path / ".mine.partial"
    own.mkdir()
    (own / "letter.txt").write_text("mine")
    (tmp_path / ".file.abc.partial").write_text("mine, too")
    (tmp_path / ".empty.abc.partial").mkdir()  # of a process that was killed before it wrote anything
    files.write_text(tmp_path / "two", "text")
    assert sorted(path.name for path in tmp_path.iterdir()) == [".file.abc.partial", ".mine.partial", "two"]
    assert (own / "letter.txt").read_text() == "mine"


@pytest.mark.parametrize("exchange", [True, False])
def test_a_folder_is_never_without_one_of_the_two(exchange, tmp_path, monkeypatch):
    """Where the system exchanges folders, one operation does it; elsewhere a kill between two leaves the old one to the next."""
    folder = tmp_path / "folder"
    with files.atomic_folder(folder) as new:
        (new / "file.txt").write_text("old")
    moves = []
    rename = pathlib.Path.rename

    def watched(path, target):
        moves.append((path.name, target.name))
        return rename(path, target)

    monkeypatch.setattr(pathlib.Path, "rename", watched)
    if not exchange:
        monkeypatch.setattr(files, "_exchanged", lambda *_: False)
    with files.atomic_folder(folder) as new:
        (new / "file.txt").write_text("new")
    assert (folder / "file.txt").read_text() == "new"
    assert list(tmp_path.iterdir()) == [folder]
    assert moves == ([] if exchange and sys.platform == "linux" else [("folder", "old"), ("new", "folder")])


def test_the_old_folder_that_a_killed_process_had_moved_aside_is_put_back(tmp_path):
    """As the fallback leaves it that is killed between its two renames."""
    victim = write_and_wait("folder", tmp_path / "a.b")
    os.kill(victim.pid, signal.SIGKILL)
    finish(victim)
    (scratch,) = tmp_path.glob(".a.b.*.partial")
    (scratch / "old").mkdir()
    (scratch / "old" / "file.txt").write_text("old")
    files.write_text(tmp_path / "other", "text")
    assert sorted(path.name for path in tmp_path.iterdir()) == ["a.b", "other"]
    assert (tmp_path / "a.b" / "file.txt").read_text() == "old"


def test_what_is_deleted_while_it_is_written_is_an_error_not_half_a_folder(tmp_path):
    """TensorFlow makes folders that are missing, so the rest of an export is written without complaint."""
    message = r"folder: cannot be written \(its unfinished files were deleted"
    with pytest.raises(InputError, match=message), files.atomic_folder(tmp_path / "folder") as new:
        (new / "first.txt").write_text("half")
        shutil.rmtree(new.parent)
        new.mkdir(parents=True)
        (new / "second.txt").write_text("half")
    message = r"file: cannot be written \(No such file"
    with pytest.raises(InputError, match=message), files.atomic_path(tmp_path / "file") as new:
        shutil.rmtree(new.parent)
    assert not [path for path in tmp_path.rglob("*") if path.is_file()]


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
