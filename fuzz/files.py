"""One private file that a harness writes its input into, in memory where the system has such a place."""

import os
import tempfile
from functools import cache
from pathlib import Path


@cache
def _path() -> Path:
    home = "/dev/shm" if os.path.isdir("/dev/shm") else None  # noqa: S108 - made by mkstemp, private
    handle, name = tempfile.mkstemp(prefix="ccesa-fuzz-", dir=home)
    os.close(handle)
    os.unlink(name)
    return Path(name)


class Holding:
    """``with Holding(data) as path``: a file of mode 600 that has these bytes, gone afterwards."""

    def __init__(self, data: bytes) -> None:
        self._data = data

    def __enter__(self) -> Path:
        handle = os.open(_path(), os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
        with os.fdopen(handle, "wb") as file:
            file.write(self._data)
        return _path()

    def __exit__(self, *_: object) -> None:
        _path().unlink()
