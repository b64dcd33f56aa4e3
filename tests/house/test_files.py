"""Files that matter: whole or not there, never overwritten by mistake, not read where others could write."""

import errno
import os
import signal
import stat
import subprocess
import sys
import threading
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ccesa import files
from ccesa.errors import ConfigError

posix = pytest.mark.skipif(os.name != "posix", reason="permissions of files")
texts = st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\r\ufeff"), max_size=50)


def mode(path: Path) -> int:
    return stat.S_IMODE(path.stat().st_mode)


def python(script: str, folder: Path) -> subprocess.CompletedProcess:
    """In a process of its own, inside of the folder."""
    command = [sys.executable, "-c", f"import os, sys; os.chdir(sys.argv[1])\n{script}", str(folder)]
    return subprocess.run(command, capture_output=True, text=True, timeout=60)


# A file that is new


@given(text=texts, private=st.booleans())
def test_what_is_written_is_read_again(text, private, tmp_path_factory):
    folder = tmp_path_factory.mktemp("new")
    files.write_new(folder / "file", text, private)
    assert files.read_trusted(folder / "file", 1000, private) == text
    assert os.listdir(folder) == ["file"]


@posix
@pytest.mark.parametrize(
    ("private", "umask", "expected"),
    [(True, 0o000, 0o600), (True, 0o022, 0o600), (False, 0o000, 0o644), (False, 0o077, 0o600)],
)
def test_nobody_else_can_write_to_a_new_file_whatever_the_umask(private, umask, expected, tmp_path):
    before = os.umask(umask)
    try:
        files.write_new(tmp_path / "file", "text", private)
    finally:
        os.umask(before)
    assert mode(tmp_path / "file") == expected


def put_file(path):
    path.write_text("mine")


def put_link(path):
    path.symlink_to(path.parent / "target")
    path.resolve().write_text("mine")


def put_dangling_link(path):
    path.symlink_to(path.parent / "target")


def no_links(*_):
    raise OSError(errno.EPERM, "no links here")


@pytest.mark.parametrize("linking", [True, False], ids=["links", "no links"])
@pytest.mark.parametrize("put", [put_file, put_link, put_dangling_link, Path.mkdir], ids=lambda put: put.__name__)
def test_what_is_there_is_never_overwritten(put, linking, tmp_path, monkeypatch):
    if not linking:
        monkeypatch.setattr(os, "link", no_links)
    path = tmp_path / "file"
    put(path)
    before = {name: (tmp_path / name).lstat() for name in os.listdir(tmp_path)}
    with pytest.raises(ConfigError, match="file already exists and will not be overwritten"):
        files.write_new(path, "theirs", private=False)
    after = {name: (tmp_path / name).lstat() for name in os.listdir(tmp_path)}
    assert after.keys() == before.keys()
    assert all(after[name].st_mtime_ns == before[name].st_mtime_ns for name in before)


def test_where_the_file_system_has_no_links_a_file_is_written_all_the_same(tmp_path, monkeypatch):
    monkeypatch.setattr(os, "link", no_links)
    files.write_new(tmp_path / "file", "text", private=True)
    assert files.read_trusted(tmp_path / "file", 10, private=True) == "text"
    assert os.listdir(tmp_path) == ["file"]


def dying(*_):
    raise OSError(errno.EIO, "the disk is dying")


@pytest.mark.parametrize("broken", [{"link": dying}, {"link": no_links, "replace": dying}], ids=["links", "no links"])
def test_a_move_that_fails_leaves_nothing(broken, tmp_path, monkeypatch):
    for name, instead in broken.items():
        monkeypatch.setattr(os, name, instead)
    with pytest.raises(OSError, match="dying"):
        files.write_new(tmp_path / "file", "text", private=True)
    assert os.listdir(tmp_path) == []


@pytest.mark.parametrize("write", [lambda path: files.write_new(path, "", True), lambda path: files.replace(path, "")])
def test_a_folder_that_is_not_there_is_named(write, tmp_path):
    with pytest.raises(ConfigError, match=f"there is no folder {tmp_path / 'no'}$"):
        write(tmp_path / "no" / "file")


def test_of_many_who_write_at_once_one_succeeds(tmp_path):
    path, won, lost = tmp_path / "file", [], []

    def write(text):
        try:
            files.write_new(path, text, private=False)
            won.append(text)
        except ConfigError:
            lost.append(text)

    threads = [threading.Thread(target=write, args=(str(k) * 1000,)) for k in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert (len(won), len(lost)) == (1, 7)
    assert [path.read_text()] == won
    assert os.listdir(tmp_path) == ["file"]


FULL_DISK = """
import os, resource
from ccesa import files

def room(size):
    resource.setrlimit(resource.RLIMIT_FSIZE, (size, resource.RLIM_INFINITY))

before = os.listdir()
room(10)
try:
    {act}
except OSError as error:
    assert error.filename == "file", error.filename
else:
    raise SystemExit("it was written")
assert os.listdir() == before, os.listdir()
room(resource.RLIM_INFINITY)
{act}
"""


@posix
def test_a_full_disk_leaves_nothing_behind_and_one_can_try_again(tmp_path):
    """The system takes ten bytes and refuses the rest, as a full disk does."""
    done = python(FULL_DISK.format(act="files.write_new('file', 'x' * 100, private=True)"), tmp_path)
    assert (done.returncode, done.stderr) == (0, "")
    assert (tmp_path / "file").read_text() == "x" * 100


@posix
def test_a_full_disk_leaves_the_old_text(tmp_path):
    (tmp_path / "file").write_text("old")
    act = "open('file').read() == 'old' or exit('lost'); files.replace('file', 'x' * 100)"
    done = python(FULL_DISK.format(act=act), tmp_path)
    assert (done.returncode, done.stderr) == (0, "")
    assert (tmp_path / "file").read_text() == "x" * 100


@posix
@pytest.mark.parametrize("private", [True, False])
def test_whoever_is_killed_while_writing_can_try_again(private, tmp_path):
    script = (
        "import os, signal\nfrom ccesa import files\n"
        "os.fsync = lambda handle: os.kill(os.getpid(), signal.SIGKILL)\n"
        f"files.write_new('file', 'secret', {private})"
    )
    assert python(script, tmp_path).returncode == -signal.SIGKILL
    assert not (tmp_path / "file").exists()
    files.write_new(tmp_path / "file", "text", private)
    assert (tmp_path / "file").read_text() == "text"
    (left,) = set(os.listdir(tmp_path)) - {"file"}
    assert mode(tmp_path / left) == (0o600 if private else 0o644)


@posix
@pytest.mark.parametrize(
    ("write", "move"),
    [(lambda path: files.write_new(path, "x", True), "link"), (lambda path: files.replace(path, "x"), "replace")],
)
def test_text_is_on_the_disk_before_it_has_its_name_and_the_name_before_returning(write, move, tmp_path, monkeypatch):
    events, fsync, move_there = [], os.fsync, getattr(os, move)

    def recorded_fsync(handle):
        events.append("folder" if stat.S_ISDIR(os.fstat(handle).st_mode) else "text")
        fsync(handle)

    def recorded_move(*paths):
        events.append("name")
        move_there(*paths)

    monkeypatch.setattr(os, "fsync", recorded_fsync)
    monkeypatch.setattr(os, move, recorded_move)
    write(tmp_path / "file")
    assert events == ["text", "name", "folder"]


@pytest.mark.parametrize(("number", "fails"), [(errno.EINVAL, False), (errno.EIO, True)])
def test_folders_that_cannot_be_synchronised_are_told_from_disks_that_fail(number, fails, tmp_path, monkeypatch):
    fsync = os.fsync

    def files_only(handle):
        if stat.S_ISDIR(os.fstat(handle).st_mode):
            raise OSError(number, "not this")
        fsync(handle)

    monkeypatch.setattr(os, "fsync", files_only)
    if fails:
        with pytest.raises(OSError, match="not this"):
            files.write_new(tmp_path / "file", "text", private=False)
    else:
        files.write_new(tmp_path / "file", "text", private=False)
    assert os.listdir(tmp_path) == ["file"]


# A file in place of another


@given(old=texts, new=texts)
def test_the_new_text_is_there_and_nothing_else(old, new, tmp_path_factory):
    folder = tmp_path_factory.mktemp("again")
    files.replace(folder / "file", old)
    files.replace(folder / "file", new)
    assert files.read_trusted(folder / "file", 1000) == new
    assert os.listdir(folder) == ["file"]


@posix
@pytest.mark.parametrize(("before", "after"), [(0o600, 0o600), (0o640, 0o640), (0o666, 0o644), (0o664, 0o644)])
@pytest.mark.parametrize("umask", [0o000, 0o077])
def test_a_file_stays_as_private_as_it_was_but_others_cannot_write_to_it(before, after, umask, tmp_path):
    path = tmp_path / "file"
    path.write_text("old")
    path.chmod(before)
    usual = os.umask(umask)
    try:
        files.replace(path, "new")
    finally:
        os.umask(usual)
    assert (path.read_text(), mode(path)) == ("new", after)


@posix
def test_what_is_private_is_so_all_the_time(tmp_path, monkeypatch):
    path, seen, fsync = tmp_path / "file", [], os.fsync

    def recorded(handle):
        seen.append(stat.S_IMODE(os.fstat(handle).st_mode))
        fsync(handle)

    path.write_text("old")
    path.chmod(0o600)
    monkeypatch.setattr(os, "fsync", recorded)
    files.replace(path, "new")
    assert seen[0] == 0o600


@posix
def test_a_link_is_replaced_and_not_followed(tmp_path):
    (tmp_path / "target").write_text("mine")
    (tmp_path / "file").symlink_to(tmp_path / "target")
    files.replace(tmp_path / "file", "new")
    assert (tmp_path / "target").read_text() == "mine"
    assert (tmp_path / "file").read_text() == "new"
    assert not (tmp_path / "file").is_symlink()
    assert mode(tmp_path / "file") == 0o644


def test_readers_see_the_old_text_or_the_new_one(tmp_path):
    path, whole, done = tmp_path / "file", {"a" * 100_000, "b" * 100_000}, threading.Event()
    files.replace(path, "a" * 100_000)
    seen = set()

    def read():
        while not done.is_set():
            seen.add(path.read_text())

    reader = threading.Thread(target=read)
    reader.start()
    for k in range(40):
        files.replace(path, "ab"[k % 2] * 100_000)
    done.set()
    reader.join()
    assert seen <= whole


# A file that can be trusted


@posix
@pytest.mark.parametrize("bits", [0o620, 0o602, 0o664, 0o666, 0o777])
def test_a_file_that_others_can_write_to_is_refused(bits, tmp_path):
    path = tmp_path / "file"
    path.write_text("text")
    path.chmod(bits)
    with pytest.raises(ConfigError, match=f"can be changed by others; .* chmod go-w {path}"):
        files.read_trusted(path, 10)
    path.chmod(bits & ~0o022)
    assert files.read_trusted(path, 10) == "text"


@posix
@pytest.mark.parametrize("bits", [0o640, 0o604, 0o601, 0o666])
def test_a_private_file_that_others_can_use_is_refused(bits, tmp_path):
    path = tmp_path / "file"
    path.write_text("text")
    path.chmod(bits)
    with pytest.raises(ConfigError, match=f"chmod 600 {path}"):
        files.read_trusted(path, 10, private=True)


@posix
@pytest.mark.parametrize(("bits", "refused"), [(0o777, True), (0o703, True), (0o1777, False), (0o775, False)])
def test_a_folder_in_which_anybody_can_exchange_the_file_is_refused(bits, refused, tmp_path):
    folder = tmp_path / "folder"
    folder.mkdir()
    (folder / "file").write_text("text")
    (tmp_path / "link").symlink_to(folder / "file")
    folder.chmod(bits)
    for path in (folder / "file", tmp_path / "link"):
        if refused:
            with pytest.raises(
                ConfigError, match=f"anyone who can write to {folder} can replace {path}: chmod o-w {folder}"
            ):
                files.read_trusted(path, 10)
        else:
            assert files.read_trusted(path, 10) == "text"
    if refused:  # nor is anything written where it would not be trusted afterwards
        for write in (lambda: files.write_new(folder / "new", "x", True), lambda: files.replace(folder / "new", "x")):
            with pytest.raises(ConfigError, match="anyone who can write to"):
                write()
        assert [path.name for path in folder.iterdir()] == ["file"]


@posix
def test_a_link_that_anybody_can_exchange_is_refused(tmp_path):
    (tmp_path / "file").write_text("text")
    folder = tmp_path / "folder"
    folder.mkdir()
    (folder / "link").symlink_to(tmp_path / "file")
    folder.chmod(0o777)
    with pytest.raises(ConfigError, match=f"chmod o-w {folder}"):
        files.read_trusted(folder / "link", 10)


@given(data=st.binary(max_size=20), most=st.integers(0, 20))
def test_more_bytes_than_asked_for_are_refused(data, most, tmp_path_factory):
    path = tmp_path_factory.getbasetemp() / "sized"
    path.write_bytes(data)
    path.chmod(0o600)
    if len(data) > most:
        with pytest.raises(ConfigError, match=f"more than {most} bytes"):
            files.read_trusted(path, most)
    else:
        try:
            text = data.decode()
        except UnicodeDecodeError:
            with pytest.raises(ConfigError, match="sized is not text"):
                files.read_trusted(path, most)
        else:
            assert files.read_trusted(path, most) == text


@pytest.mark.parametrize("make", [lambda path: None, Path.mkdir], ids=["missing", "folder"])
def test_what_is_no_file_cannot_be_read(make, tmp_path):
    make(tmp_path / "file")
    with pytest.raises(OSError, match=r"No such file|directory"):
        files.read_trusted(tmp_path / "file", 10)
