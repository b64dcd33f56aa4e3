"""A log file has rows of bytes, each on the disk before the next one. A counter says how many there are.

Before a row come its length, a digest of that, and a digest of the row; both follow from all rows before it. So a row
that a crash has cut off does not look like damage. Only a counter that is not restored with the file shows its age.
"""

import hashlib
import os
import struct
from collections.abc import Iterable, Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import IO

from ccesa import files
from ccesa.errors import ConfigError, DamagedLog, OrderError, StaleLog

MARK_BYTES = 8
NO_MARK = bytes(MARK_BYTES)
_HEAD = struct.Struct(">I4s32s")
_COUNT = struct.Struct(f">Q{MARK_BYTES}s")
_CHUNK = 1 << 20


class OpeningCounter:
    """Counts openings in a file of 16 bytes, made if missing: their number, and the mark of the last one.

    Raises ConfigError if another process or others have access to it, and DamagedLog if it has the wrong size.
    """

    def __init__(self, path: Path | str) -> None:
        self._path = Path(path)
        with ExitStack() as undone:
            self._file = undone.enter_context(locked(self._path))
            self.value = self._read()
            undone.pop_all()

    def set(self, number: int, mark: bytes) -> None:
        """Write the number, safe on the disk when this returns; raise StaleLog if another process did."""
        if self._read() != self.value:
            raise StaleLog(f"another process has changed the counter {self._path}")
        self._file.seek(0)
        self._file.write(_COUNT.pack(number, mark))
        os.fsync(self._file.fileno())
        self.value = number, mark

    def close(self) -> None:
        self._file.close()

    def _read(self) -> tuple[int, bytes]:
        self._file.seek(0)
        data = self._file.read(_COUNT.size + 1)
        if len(data) not in (0, _COUNT.size):
            raise DamagedLog(f"{self._path} is not a counter of openings: it has the wrong size")
        return _COUNT.unpack(data) if data else (0, NO_MARK)


class LogFile:
    """Rows in a file of one process, made if missing. A last row that is not whole is cut off.

    Raises ConfigError if another process or others have access to it, and DamagedLog if it was changed.
    """

    def __init__(self, path: Path | str) -> None:
        self.path, self._is_broken = Path(path), False
        #: Where the last row ends, and the digest of all rows.
        self._end, self._chain = 0, b""
        with ExitStack() as undone:
            self._file = undone.enter_context(locked(self.path))
            for _, end, chain in _read(self._file, self.path):
                self._end, self._chain = end, chain
            self._file.truncate(self._end)
            os.fsync(self._file.fileno())
            undone.pop_all()

    def __iter__(self) -> Iterator[bytes]:
        return (body for body, _, _ in _read(self._file, self.path))

    def append(self, body: bytes) -> None:
        """Append a row, which is safe on the disk when this returns. After an OSError the file takes no more."""
        if self._is_broken:
            raise OrderError(f"{self.path} was closed, or a row could not be written: open the log again")
        self._is_broken = True
        self._file.seek(self._end)
        self._chain = _write(self._file, self._chain, body)
        os.fsync(self._file.fileno())
        self._end, self._is_broken = self._file.tell(), False

    def replace(self, bodies: Iterable[bytes]) -> None:
        """Write these rows to a file that takes the place of this one, whole."""
        self._is_broken = True
        beside = self.path.with_name(f"{self.path.name}.new")
        beside.unlink(missing_ok=True)
        with ExitStack() as undone:
            file = undone.enter_context(locked(beside))
            chain = b""
            for body in bodies:
                chain = _write(file, chain, body)
            os.fsync(file.fileno())
            os.replace(beside, self.path)
            files.sync_folder(self.path.parent)
            undone.pop_all()
        self._file.close()
        self._file, self._end, self._chain, self._is_broken = file, file.tell(), chain, False

    def close(self) -> None:
        self._is_broken = True
        self._file.close()


def locked(path: Path) -> IO[bytes]:
    """Open a file for this process alone, and make it if it is missing."""
    is_new = not path.exists()
    try:
        handle = files.lock(path)
    except BlockingIOError:
        raise ConfigError(f"another process has {path}: give each server its own") from None
    except OSError as error:
        raise ConfigError(f"{path} cannot be opened: {error.strerror}") from None
    with ExitStack() as undone:
        file = undone.enter_context(os.fdopen(handle, "r+b", buffering=0))
        files.check_trusted(path, private=True)
        if os.name == "posix" and os.fstat(handle).st_ino != path.stat().st_ino:
            raise ConfigError(f"another process has replaced {path}")
        if is_new:
            files.sync_folder(path.parent)
        undone.pop_all()
    return file


def _digest(chain: bytes, data: bytes) -> bytes:
    digest = hashlib.sha256(chain)
    digest.update(data)
    return digest.digest()


def _write(file: IO[bytes], chain: bytes, body: bytes) -> bytes:
    """Write a row where the file stands; return the digest of all rows up to it."""
    length, after = len(body).to_bytes(4, "big"), _digest(chain, body)
    for part in (length + _digest(chain, length)[:4] + after, body):
        rest = memoryview(part)
        while rest:
            rest = rest[file.write(rest) :]
    return after


def _read(file: IO[bytes], path: Path) -> Iterator[tuple[bytes, int, bytes]]:
    """Return each whole row, its end, and the digest of all rows up to it; skip the rest of a row after a crash."""
    size, at, chain = os.fstat(file.fileno()).st_size, 0, b""
    while at < size:
        file.seek(at)
        head = _up_to(file, _HEAD.size)
        if len(head) < _HEAD.size:
            return
        length, check, after = _HEAD.unpack(head)
        if check != _digest(chain, head[:4])[:4]:
            if _has_only_a_head(file, head):
                return
            raise DamagedLog(f"{path} is damaged at byte {at}")
        body = _up_to(file, length)
        is_whole = len(body) == length and _digest(chain, body) == after
        at += _HEAD.size + length
        if not is_whole and at >= size:
            return
        if not is_whole:
            raise DamagedLog(f"{path} is damaged before byte {at}")
        chain = after
        yield body, at, chain


def _up_to(file: IO[bytes], length: int) -> bytes:
    parts = []
    while length and (part := file.read(min(length, _CHUNK))):
        parts.append(part)
        length -= len(part)
    return b"".join(parts)


def _has_only_a_head(file: IO[bytes], head: bytes) -> bool:
    """Tell whether a row ends within its head, and the rest of the file is zeros."""
    if not head.endswith(b"\0"):
        return False
    while part := file.read(_CHUNK):
        if part.strip(b"\0"):
            return False
    return True
