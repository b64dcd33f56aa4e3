"""Files are written whole or not at all, and read only where others could not have changed them.

Permissions are checked where the system has them (POSIX). The owner of a file and root can always change it.
"""

import contextlib
import errno
import os
import secrets
import stat
from collections.abc import Iterator
from pathlib import Path
from typing import IO

from ccesa.errors import ConfigError

try:
    import fcntl
except ImportError:  # pragma: no cover - another system than POSIX
    fcntl = None  # type: ignore[assignment]

_OTHERS_WRITE = stat.S_IWGRP | stat.S_IWOTH
#: What systems answer that have no hard links, and those that cannot synchronise a folder.
_NO_LINKS = {errno.EPERM, errno.ENOSYS, errno.EOPNOTSUPP}
_NO_SYNC = {errno.EINVAL, errno.EBADF}


def write_new(path: Path | str, text: str, private: bool) -> None:
    """Write a file that is not there yet; a ``private`` one can be read by its owner only.

    The text is written beside and moved into place, so a full disk or a kill halfway leaves no file of that
    name, and one can try again. Raises ConfigError if something of that name, or no folder, is there.
    """
    with new_file(path, private) as file:
        file.write(text.encode())


@contextlib.contextmanager
def new_file(path: Path | str, private: bool) -> Iterator[IO[bytes]]:
    """Let a file be written piece by piece; it has its name when all of it is there, as in ``write_new``."""
    path = Path(path)
    _check_place(path)
    with _beside(path, 0o600 if private else 0o644) as file:
        yield file
        written = _synchronised(file)
        try:
            _move_to_new(written, path)
        except FileExistsError as error:
            raise ConfigError(f"{path} already exists and will not be overwritten") from error
    sync_folder(path.parent)


def replace(path: Path | str, text: str) -> None:
    """Write a file, whether it is there or not; whoever reads it sees the old text or the new one, whole.

    It keeps its permissions, but others can no longer write to it. A link is replaced, not followed.
    Raises ConfigError if there is no such folder.
    """
    path = Path(path)
    _check_place(path)
    there = path.is_file()
    with _beside(path, 0o600 if there else 0o644) as file:
        file.write(text.encode())
        written = _synchronised(file)
        if there:
            written.chmod(stat.S_IMODE(path.stat().st_mode) & ~_OTHERS_WRITE)
        os.replace(written, path)
    sync_folder(path.parent)


def read_trusted(path: Path | str, most_bytes: int, private: bool = False) -> str:
    """Read a text that nobody but its owner could have written; a ``private`` one must be secret, too.

    Raises ConfigError if others can write to the file or exchange it, if it has more than ``most_bytes``, or
    if it is not UTF-8. The text is what the file has, line ends included.
    """
    try:
        return trusted_bytes(path, most_bytes, private).decode()
    except UnicodeDecodeError:
        raise ConfigError(f"{path} is not text") from None  # the error holds the bytes, which may be secret


def trusted_bytes(path: Path | str, most_bytes: int, private: bool = False) -> bytes:
    """Read bytes as ``read_trusted`` reads a text."""
    with open(path, "rb") as file:
        if os.name == "posix":
            _check_mode(path, os.fstat(file.fileno()).st_mode, private)
            _check_folders(Path(path))
        data = file.read(most_bytes + 1)
    if len(data) > most_bytes:
        raise ConfigError(f"{path} has more than {most_bytes} bytes; is it the right file?")
    return data


def check_private(path: Path | str) -> None:
    """Raise ConfigError if others can read or write a file, or exchange it."""
    if os.name == "posix":
        _check_mode(path, os.stat(path).st_mode, private=True)
        _check_folders(Path(path))


def check_folder(folder: Path) -> None:
    """Raise ConfigError if others can make, remove or exchange files in a folder."""
    if os.name == "posix":
        _check_mode(folder, os.stat(folder).st_mode, private=False)
        _check_folders(folder)


def has_locks() -> bool:
    """Tell whether this system has the locks that ``lock`` takes."""
    return fcntl is not None


def lock(path: Path | str) -> int:
    """Lock a file, made where there is none, until the handle is closed or the process ends.

    Raises BlockingIOError where another process has it. On a system without such locks nothing is locked.
    """
    handle = os.open(path, os.O_RDWR | os.O_CREAT, 0o600)
    try:
        if fcntl is not None:
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        os.close(handle)
        raise
    return handle


def _check_place(path: Path) -> None:
    """Refuse to write a file where it would not be trusted afterwards."""
    if not path.parent.is_dir():
        raise ConfigError(f"there is no folder {path.parent}")
    if os.name == "posix":
        _check_folders(path)


def _check_mode(path: Path | str, mode: int, private: bool) -> None:
    if private and mode & (stat.S_IRWXG | stat.S_IRWXO):
        raise ConfigError(f"{path} is secret, and others can use it; if it is yours alone: chmod 600 {path}")
    if mode & _OTHERS_WRITE:
        raise ConfigError(f"{path} can be changed by others; if it is still as it should be: chmod go-w {path}")


def _check_folders(path: Path) -> None:
    """Refuse a path on which others can exchange files; in a sticky folder, as /tmp is, they cannot."""
    spelled, real = path.absolute(), path.resolve()  # a link, and what it points to
    for folder in dict.fromkeys([*spelled.parents, *real.parents]):
        mode = folder.stat().st_mode
        if mode & stat.S_IWOTH and not mode & stat.S_ISVTX:
            raise ConfigError(
                f"{path} can be replaced by anyone who can write to a folder above it: chmod o-w {folder}"
            )


@contextlib.contextmanager
def _beside(path: Path, mode: int) -> Iterator[IO[bytes]]:
    """Open a new file in the same folder; it is gone afterwards."""
    beside = path.parent / f".ccesa-{secrets.token_hex(8)}"
    try:
        with open(beside, "xb", opener=lambda name, flags: os.open(name, flags, mode)) as file:
            yield file
    except OSError as error:
        if error.errno is not None and error.filename in (None, str(beside)):
            error.filename = str(path)  # the name that the caller knows
        raise
    finally:
        beside.unlink(missing_ok=True)


def _synchronised(file: IO[bytes]) -> Path:
    """Close a file that is safe on the disk, and return where it is."""
    file.flush()
    os.fsync(file.fileno())
    file.close()
    return Path(file.name)


def _move_to_new(written: Path, path: Path) -> None:
    """Give a file its name, unless something has that name."""
    try:
        os.link(written, path)
    except OSError as error:
        if error.errno not in _NO_LINKS:
            raise
        _claim(path)
        try:
            os.replace(written, path)
        except OSError:
            path.unlink()
            raise


def _claim(path: Path) -> None:
    """Take a name that nothing has, with an empty file."""
    os.close(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600))


def sync_folder(folder: Path) -> None:
    """Write a folder to the disk: only then is a new name in it safe."""
    if os.name != "posix":
        return
    handle = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(handle)
    except OSError as error:
        if error.errno not in _NO_SYNC:
            raise
    finally:
        os.close(handle)
