"""The file of a helper's key: damaged, or the one encoding of what was read; never shown."""

import tempfile
from functools import cache
from pathlib import Path

from ccesa.errors import ConfigError
from ccesa.helper_keys import FolderKeys
from ccesa.wire import encode

CONTEXT = bytes(range(32))


def one(data: bytes) -> None:
    keys, path = _folder()
    path.write_bytes(data)
    path.chmod(0o600)
    try:
        found = keys.get(CONTEXT)
    except ConfigError:
        keys.sweep(0)
        if path.exists():
            raise AssertionError("a damaged key that stays") from None
        return
    if found is None or encode(found) != data:
        raise AssertionError("a key with two encodings")
    if found.secret and repr(found.secret) in repr(found):
        raise AssertionError("a key that shows its secret")
    keys.sweep(found.not_after)
    if path.exists():
        raise AssertionError("a key that is out of time and stays")


@cache
def _folder() -> tuple[FolderKeys, Path]:
    home = "/dev/shm" if Path("/dev/shm").is_dir() else None  # noqa: S108 - made by mkdtemp, private
    folder = Path(tempfile.mkdtemp(prefix="ccesa-fuzz-", dir=home))
    return FolderKeys(folder), folder / f"{CONTEXT.hex()}.key"
