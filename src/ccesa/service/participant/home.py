"""A site's home has its memory, which one process uses at a time, and beside it the keys of a helper."""

import contextlib
import os
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from ccesa import files
from ccesa.agreement.identity import Identity
from ccesa.errors import ConfigError
from ccesa.helper_keys import FolderKeys, HelperKeys, ProcessKeys
from ccesa.memory import Entry, FolderMemory, Memory, ProcessMemory
from ccesa.service.participant.calls import Event, Tell

#: In a memory: its lock and its owner. Beside an identity: the mark that it was used with a memory. Beside a memory:
#: the folder of a helper's keys.
_LOCK, _OWNER, _USED, _KEYS = "lock", "identity", ".used", ".keys"


@dataclass(frozen=True, kw_only=True)
class Home:
    """Without a folder everything ends with the process."""

    folder: Path | None
    identity: Identity | None
    file: Path | str | None  # of the identity
    tell: Tell

    @property
    def _used(self) -> Path | None:
        return None if self.file is None else Path(f"{self.file}{_USED}")

    def keys(self) -> HelperKeys:
        """Return the keys of a helper."""
        return ProcessKeys() if self.folder is None else FolderKeys(Path(f"{self.folder}{_KEYS}"))

    @contextlib.contextmanager
    def open(self) -> Iterator[Memory]:
        """Open the memory for this process alone."""
        folder = self.folder
        if folder is None:
            yield ProcessMemory()
            return
        if self._used is not None and self._used.exists() and not folder.exists():
            raise self._wrong_memory(folder)
        memory = FolderMemory(folder)
        try:
            lock = files.lock(folder / _LOCK)
        except BlockingIOError:
            raise ConfigError(f"another process uses the memory in {folder}") from None
        try:
            if self.identity is not None:
                self._check_owner(memory, Entry(_OWNER, self.identity.public), folder)
            memory.sweep(time.time())
            yield memory
        finally:
            os.close(lock)

    def _check_owner(self, memory: Memory, owner: Entry, folder: Path) -> None:
        """Refuse another memory than the one with which this identity was used before."""
        if owner not in memory:
            if self._used is not None and self._used.exists():
                raise self._wrong_memory(folder)
            text = f"a new memory begins in {folder}: use it wherever this identity takes part"
            self.tell(Event(kind="waiting", text=text))
            memory.add(owner)
        if self._used is not None:
            with contextlib.suppress(OSError):  # a read-only folder
                self._used.touch(mode=0o600)

    def _wrong_memory(self, folder: Path) -> ConfigError:
        return ConfigError(
            f"{folder} is not the memory of this identity, and {self._used} says that the identity was used before: "
            "give its folder. If the folder is lost, make a new identity, and a new charter with it. If this identity "
            f"has never sent anything, delete {self._used}"
        )
