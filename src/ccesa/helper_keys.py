"""A helper keeps one secret for each round until it has answered, and then its answer, until the round is over.

Members mask with the public half. So a secret that outlives its round opens vectors: it leaves the disk with the
answer, or when its time is up. It belongs to no backup.
"""

import contextlib
from collections.abc import Iterator
from pathlib import Path
from typing import Literal, Protocol, runtime_checkable

import msgspec

from ccesa import files
from ccesa.errors import ConfigError, MalformedMessage
from ccesa.wire import decode, encode

#: A secret and an answer as large as the largest vector fit.
_MAX_BYTES = 2**32 + 4096


class HelperKey(msgspec.Struct, frozen=True, array_like=True, forbid_unknown_fields=True):
    """The state of a helper in one round: its secret, or its answer."""

    #: Seconds since 1970. From then on neither is there.
    not_after: int
    secret: bytes = b""
    #: The digest of the question that was answered.
    question: bytes = b""
    answer: bytes = b""
    version: Literal[1] = 1

    def __repr__(self) -> str:
        return "HelperKey(...)"


@runtime_checkable
class HelperKeys(Protocol):
    """Keeps the keys of one helper, by the context of each round."""

    def get(self, context: bytes) -> HelperKey | None:
        """Return the key of a round, or None.

        Args:
            context: 32 bytes.

        Raises:
            ConfigError: The key cannot be read, or is damaged.
        """

    def put(self, context: bytes, key: HelperKey) -> None:
        """Keep a key in place of the one before, which is gone when this returns.

        Args:
            context: 32 bytes.
            key: The new state.

        Raises:
            OSError: The system cannot write it, and nothing may leave.
        """

    def drop(self, context: bytes) -> None:
        """Destroy the key of a round, if there is one.

        Args:
            context: 32 bytes.
        """

    def sweep(self, now: float) -> None:
        """Destroy all keys whose time is up.

        Args:
            now: Seconds since 1970.
        """


class ProcessKeys(HelperKeys):
    """Keeps keys as long as this object lives: for helpers of one process, and for tests."""

    def __init__(self) -> None:
        self._kept: dict[bytes, HelperKey] = {}

    def get(self, context: bytes) -> HelperKey | None:
        return self._kept.get(context)

    def put(self, context: bytes, key: HelperKey) -> None:
        self._kept[context] = key

    def drop(self, context: bytes) -> None:
        self._kept.pop(context, None)

    def sweep(self, now: float) -> None:
        self._kept = {context: key for context, key in self._kept.items() if now < key.not_after}


class FolderKeys(HelperKeys):
    """Keeps keys as files in a folder that belongs to this helper alone, without backups.

    Args:
        folder: It is made if it is missing.

    Raises:
        ConfigError: It cannot be made, or others can use it.
    """

    def __init__(self, folder: Path | str) -> None:
        self._folder = Path(folder)
        try:
            self._folder.mkdir(mode=0o700, parents=True, exist_ok=True)
            files.check_trusted(self._folder, private=True)
        except OSError as error:
            raise ConfigError(f"this helper cannot keep its keys in {folder}: {error.strerror}") from error

    def get(self, context: bytes) -> HelperKey | None:
        path = self._path(context)
        try:
            return decode(_DECODER, files.trusted_bytes(path, _MAX_BYTES, private=True), _MAX_BYTES, "helper's key")
        except FileNotFoundError:
            return None
        except MalformedMessage:
            raise ConfigError(f"{path} is damaged: delete it; the round is lost") from None

    def put(self, context: bytes, key: HelperKey) -> None:
        files.replace(self._path(context), encode(key), private=True)

    def drop(self, context: bytes) -> None:
        self._path(context).unlink(missing_ok=True)
        files.sync_folder(self._folder)

    def sweep(self, now: float) -> None:
        for context in list(self._contexts()):
            with contextlib.suppress(FileNotFoundError):  # another process was faster
                try:
                    key = self.get(context)
                except ConfigError:  # a damaged one opens nothing for us, and must not stay for others
                    key = None
                if key is None or key.not_after <= now:
                    self.drop(context)

    def _contexts(self) -> Iterator[bytes]:
        for path in self._folder.glob("*.key"):
            with contextlib.suppress(ValueError):
                yield bytes.fromhex(path.stem)

    def _path(self, context: bytes) -> Path:
        return self._folder / f"{context.hex()}.key"


_DECODER = msgspec.msgpack.Decoder(HelperKey)
