"""What a helper keeps of its rounds: whole or not at all, for nobody else, and not beyond its time."""

import os
import stat

import pytest

from ccesa import files
from ccesa.errors import ConfigError
from ccesa.helper_keys import FolderKeys, HelperKey, HelperKeys, ProcessKeys
from ccesa.wire import encode

CONTEXT, OTHER = bytes(range(32)), bytes(32)
KEY = HelperKey(not_after=1000, secret=bytes(range(100, 132)))
ANSWER = HelperKey(not_after=1000, question=b"q" * 32, answer=b"the answer")
posix = pytest.mark.skipif(os.name != "posix", reason="needs the permissions of POSIX")


@pytest.fixture(params=["folder", "process"])
def keys(request, tmp_path) -> HelperKeys:
    return FolderKeys(tmp_path / "keys") if request.param == "folder" else ProcessKeys()


def test_a_key_is_kept_replaced_and_destroyed(keys):
    assert keys.get(CONTEXT) is None
    keys.put(CONTEXT, KEY)
    keys.put(OTHER, ANSWER)
    assert keys.get(CONTEXT) == KEY
    keys.put(CONTEXT, ANSWER)
    assert keys.get(CONTEXT) == ANSWER
    for _ in range(2):
        keys.drop(CONTEXT)
        assert keys.get(CONTEXT) is None
    assert keys.get(OTHER) == ANSWER


def test_a_sweep_destroys_what_is_out_of_time(keys):
    keys.put(CONTEXT, KEY)
    keys.put(OTHER, HelperKey(not_after=2000, answer=b"x"))
    for now, left in ((0, {CONTEXT, OTHER}), (999.9, {CONTEXT, OTHER}), (1000, {OTHER}), (2000, set())):
        keys.sweep(now)
        assert {one for one in (CONTEXT, OTHER) if keys.get(one)} == left


def test_no_secret_is_in_a_repr():
    for one in (KEY, ANSWER):
        assert repr(one) == str(one) == f"{one}" == "HelperKey(...)"
    keys = ProcessKeys()
    keys.put(CONTEXT, KEY)
    assert repr(KEY.secret) not in repr(keys)


def test_another_process_finds_them(tmp_path):
    FolderKeys(tmp_path / "a" / "keys").put(CONTEXT, KEY)
    assert FolderKeys(tmp_path / "a" / "keys").get(CONTEXT) == KEY


def test_nothing_of_a_key_stays_on_the_disk(tmp_path):
    keys = FolderKeys(tmp_path)
    keys.put(CONTEXT, KEY)
    keys.put(CONTEXT, ANSWER)
    assert [path.name for path in tmp_path.iterdir()] == [f"{CONTEXT.hex()}.key"]
    assert KEY.secret not in next(tmp_path.iterdir()).read_bytes()
    keys.drop(CONTEXT)
    assert not list(tmp_path.iterdir())


def test_a_crash_while_it_is_written_leaves_the_one_before(tmp_path, monkeypatch):
    keys = FolderKeys(tmp_path)
    keys.put(CONTEXT, KEY)
    monkeypatch.setattr(os, "replace", lambda *_: (_ for _ in ()).throw(OSError(28, "No space left on device")))
    with pytest.raises(OSError, match="No space"):
        keys.put(CONTEXT, ANSWER)
    assert keys.get(CONTEXT) == KEY
    assert len(list(tmp_path.iterdir())) == 1


def test_it_is_safe_on_the_disk_before_it_counts(tmp_path, monkeypatch):
    done, keys = [], FolderKeys(tmp_path)
    fsync, replace, sync = os.fsync, os.replace, files.sync_folder
    monkeypatch.setattr(os, "fsync", lambda handle: done.append("content") or fsync(handle))
    monkeypatch.setattr(os, "replace", lambda *paths: done.append("name") or replace(*paths))
    monkeypatch.setattr(files, "sync_folder", lambda folder: done.append("folder") or sync(folder))
    keys.put(CONTEXT, KEY)
    assert done.index("content") < done.index("name") < done.index("folder")
    done.clear()
    keys.drop(CONTEXT)
    assert done[0] == "folder"


@posix
def test_only_its_owner_can_read_it(tmp_path):
    keys = FolderKeys(tmp_path / "keys")
    keys.put(CONTEXT, KEY)
    assert stat.S_IMODE((tmp_path / "keys").stat().st_mode) == 0o700
    (path,) = (tmp_path / "keys").iterdir()
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    path.chmod(0o640)
    with pytest.raises(ConfigError, match="others can use it"):
        keys.get(CONTEXT)


@posix
@pytest.mark.parametrize("mode", [0o750, 0o705, 0o770, 0o777])
def test_a_folder_that_others_can_use(tmp_path, mode):
    (tmp_path / "keys").mkdir()
    (tmp_path / "keys").chmod(mode)
    with pytest.raises(ConfigError, match="others"):
        FolderKeys(tmp_path / "keys")


def test_a_place_where_no_folder_can_be(tmp_path):
    (tmp_path / "file").write_text("")
    with pytest.raises(ConfigError, match="cannot keep its keys"):
        FolderKeys(tmp_path / "file")


@pytest.mark.parametrize(
    "data", [b"", b"\xff", encode(KEY)[:-1], encode(KEY) + b"\0", b"\x95\x01\xc4\x00\xc4\x00\xc4\x00\x02"]
)
def test_a_damaged_key_is_named_and_swept(tmp_path, data):
    """It opens nothing for its helper, and must not stay for others. The text shows nothing of it."""
    keys = FolderKeys(tmp_path)
    keys.put(CONTEXT, KEY)
    (tmp_path / f"{CONTEXT.hex()}.key").write_bytes(data)
    with pytest.raises(ConfigError, match="is damaged: delete it; the round is lost") as error:
        keys.get(CONTEXT)
    assert error.value.__suppress_context__
    keys.put(OTHER, KEY)
    keys.sweep(0)
    assert not (tmp_path / f"{CONTEXT.hex()}.key").exists()
    assert keys.get(OTHER) == KEY


def test_other_files_are_left_alone(tmp_path):
    keys = FolderKeys(tmp_path)
    for name in ("notes.txt", "nothing.key", ".ccesa-00"):
        (tmp_path / name).write_bytes(b"x")
    keys.put(CONTEXT, KEY)
    keys.sweep(10**9)
    assert sorted(path.name for path in tmp_path.iterdir()) == [".ccesa-00", "notes.txt", "nothing.key"]


def test_two_processes_may_sweep_at_once(tmp_path, monkeypatch):
    one, other = FolderKeys(tmp_path), FolderKeys(tmp_path)
    one.put(CONTEXT, KEY)
    one.put(OTHER, KEY)
    get = one.get
    monkeypatch.setattr(one, "get", lambda context: other.sweep(1000) or get(context))
    one.sweep(1000)
    assert not list(tmp_path.iterdir())


def test_what_keeps_keys_is_known_by_its_methods():
    assert isinstance(ProcessKeys(), HelperKeys)
    assert not isinstance({}, HelperKeys)
