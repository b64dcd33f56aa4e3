"""A folder for bodies that are too large for memory, or come in parts: one file per client.

Its names are numbers. It belongs to one process: a file that another one cut while it is mapped would end
this one.
"""

import mmap
import os
from pathlib import Path

from ccesa import files
from ccesa.errors import ConfigError
from ccesa.wire import Data

#: Series, exchange and client of an upload.
Key = tuple[int, int, int]


class Spool:
    """Keeps uploads until their exchange is over.

    Args:
        folder: Where; it is made if it is not there.

    Raises:
        ConfigError: Another process uses it.
        OSError: It cannot be made.
    """

    def __init__(self, folder: Path) -> None:
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        self._folder = folder
        try:
            self._lock = files.lock(folder / "lock")  # systems without locks do not let mapped files be cut
        except BlockingIOError:
            raise ConfigError(f"another hub uses {folder}: give each its own spool folder") from None

    def close(self) -> None:
        """Let another process have the folder."""
        os.close(self._lock)

    def size(self, key: Key) -> int:
        """Return how many bytes of an upload are there."""
        try:
            return self._path(key).stat().st_size
        except FileNotFoundError:
            return 0

    def append(self, key: Key) -> "Appending":
        """Return an open upload, to which pieces are added."""
        flags = os.O_WRONLY | os.O_APPEND | os.O_CREAT
        return Appending(os.open(self._path(key), flags, 0o600))

    def mapped(self, key: Key) -> Data:
        """Return a whole upload where it lies; it stays readable after ``remove``."""
        with self._path(key).open("rb") as file:
            if not os.fstat(file.fileno()).st_size:
                return b""
            return memoryview(mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ))

    def remove(self, key: Key) -> None:
        """Forget an upload."""
        self._path(key).unlink(missing_ok=True)

    def sweep(self, series: int, exchange: int) -> None:
        """Forget all uploads for other exchanges than this one."""
        for path in self._folder.glob("*-*-*"):
            if not path.name.startswith(f"{series}-{exchange}-"):
                path.unlink(missing_ok=True)

    def _path(self, key: Key) -> Path:
        return self._folder / "-".join(str(int(number)) for number in key)


class Appending:
    """An open file at whose end pieces are added."""

    def __init__(self, descriptor: int) -> None:
        self._descriptor = descriptor

    def __enter__(self) -> "Appending":
        return self

    def __exit__(self, *_: object) -> None:
        os.close(self._descriptor)

    def add(self, piece: bytes) -> None:
        """Write all of a piece; OSError where the disk is full."""
        rest = memoryview(piece)
        while rest:
            rest = rest[os.write(self._descriptor, rest) :]
