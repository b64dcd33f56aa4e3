"""Files are written whole or not at all, and read only if others could not have changed them (checked on POSIX)."""

import contextlib
import errno
import os
import secrets
import stat
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import IO, TypeVar

from ccesa.errors import ConfigError

try:
    import fcntl
except ImportError:  # pragma: no cover - another system than POSIX
    fcntl = None  # type: ignore[assignment]

Parsed = TypeVar("Parsed")
_OTHERS_WRITE = stat.S_IWGRP | stat.S_IWOTH
#: The answers of systems without hard links, and of those that cannot synchronise a folder.
_NO_LINKS = {errno.EPERM, errno.ENOSYS, errno.EOPNOTSUPP}
_NO_SYNC = {errno.EINVAL, errno.EBADF}


def write_new(path: Path | str, text: str, private: bool) -> None:
    """Write a file that does not exist yet; a ``private`` one can be read by its owner only.

    A kill halfway leaves no file of that name. Raises ConfigError if the name is taken or the folder is missing.
    """
    with new_file(path, private) as file:
        file.write(text.encode())


@contextlib.contextmanager
def new_file(path: Path | str, private: bool) -> Iterator[IO[bytes]]:
    """Let a file be written piece by piece; it has its name when all of it is written, as in ``write_new``."""
    path = Path(path)
    _check_place(path)
    with _beside(path, 0o600 if private else 0o644) as file:
        yield file
        written = _synchronise(file)
        try:
            _move_to_new(written, path)
        except FileExistsError as error:
            raise ConfigError(f"{path} already exists and will not be overwritten") from error
    sync_folder(path.parent)


def replace(path: Path | str, text: str | bytes, private: bool = False) -> None:
    """Write a file, new or not; its readers see the old content or the new one, whole.

    Only its owner can write to it then, and only its owner can read a new ``private`` one. A link is replaced, not
    followed. Raises ConfigError for a missing folder.
    """
    path = Path(path)
    _check_place(path)
    exists = path.is_file()
    with _beside(path, 0o600 if exists or private else 0o644) as file:
        file.write(text if isinstance(text, bytes) else text.encode())
        written = _synchronise(file)
        if exists:
            written.chmod(stat.S_IMODE(path.stat().st_mode) & ~_OTHERS_WRITE)
        os.replace(written, path)
    sync_folder(path.parent)


def read_trusted(path: Path | str, most_bytes: int, private: bool = False) -> str:
    """Read a text that nobody but its owner could have written; a ``private`` one must be secret, too.

    Raises ConfigError if others can change or exchange the file, or it is too long or not UTF-8. Line ends stay.
    """
    try:
        return trusted_bytes(path, most_bytes, private).decode()
    except UnicodeDecodeError:
        raise ConfigError(f"{path} is not text") from None  # the error holds the bytes, which may be secret


def parse_trusted(path: Path | str, most_bytes: int, parse: Callable[[str], Parsed]) -> Parsed:
    """Return the object in a file that only its owner can change; errors name the file."""
    text = read_trusted(path, most_bytes)
    try:
        return parse(text)
    except ConfigError as error:
        raise ConfigError(f"{path}: {error}") from error


def trusted_bytes(path: Path | str, most_bytes: int, private: bool = False) -> bytes:
    """Read bytes as ``read_trusted`` reads a text."""
    with open(path, "rb") as file:
        _check_status(Path(path), os.fstat(file.fileno()), private)
        data = file.read(most_bytes + 1)
    if len(data) > most_bytes:
        raise ConfigError(f"{path} has more than {most_bytes} bytes; is it the right file?")
    return data


def check_trusted(path: Path, private: bool = False) -> None:
    """Raise ConfigError if others can write to a file or folder, or exchange it; or read it, if ``private``."""
    _check_status(path, os.stat(path), private)


def has_locks() -> bool:
    return fcntl is not None


def lock(path: Path | str) -> int:
    """Lock a file, made if it is missing, until the handle is closed or the process ends.

    Raises BlockingIOError if another process has it. On a system without such locks nothing is locked.
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
    if not path.parent.is_dir():
        raise ConfigError(f"there is no folder {path.parent}")
    _check_folders(path)


def _check_status(path: Path, status: os.stat_result, private: bool) -> None:
    if os.name == "posix":
        if private and status.st_mode & (stat.S_IRWXG | stat.S_IRWXO):
            raise ConfigError(f"{path} is secret, and others can use it; if it is yours alone: chmod 600 {path}")
        if status.st_mode & _OTHERS_WRITE:
            raise ConfigError(f"{path} can be changed by others; if it is still as it should be: chmod go-w {path}")
    _check_folders(path)


def _check_folders(path: Path) -> None:
    """Refuse a path on which others can exchange files; in a sticky folder, as /tmp is, they cannot."""
    if os.name != "posix":
        return
    spelled, real = path.absolute(), path.resolve()  # a link, and what it points to
    for folder in dict.fromkeys([*spelled.parents, *real.parents]):
        mode = folder.stat().st_mode
        if mode & stat.S_IWOTH and not mode & stat.S_ISVTX:
            raise ConfigError(f"anyone who can write to {folder} can replace {path}: chmod o-w {folder}")


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


def _synchronise(file: IO[bytes]) -> Path:
    """Close a file that is safe on the disk, and return its path."""
    file.flush()
    os.fsync(file.fileno())
    file.close()
    return Path(file.name)


def _move_to_new(written: Path, path: Path) -> None:
    try:
        os.link(written, path)
    except OSError as error:
        if error.errno not in _NO_LINKS:
            raise
        os.close(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600))  # takes the name
        try:
            os.replace(written, path)
        except OSError:
            path.unlink()
            raise


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
