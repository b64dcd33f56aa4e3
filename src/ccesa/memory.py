"""What a site has done and must not do again: entries that are made once, and never taken back.

In a folder of the site an entry is an empty file, made before what it stands for leaves the site. It is there
after a crash, in another process and in the next run; only its name counts, so there is nothing in it to be
damaged.
"""

import contextlib
import os
import stat
from collections.abc import Iterator, MutableMapping, MutableSet
from pathlib import Path
from typing import NamedTuple, NoReturn, Protocol

from ccesa import files
from ccesa.errors import ConfigError, UsageError

#: A round that was answered, a suspended client that was resumed, a round that was trained for, a task that
#: was contributed to.
ROUND, STATE, MASK, TASK = "round", "state", "mask", "task"
#: Seconds that a folder remembers rounds, states and masks: their keys are gone long before. Tasks stay.
_REMEMBERED = 30 * 86400.0


class Entry(NamedTuple):
    """Something that was done; the number tells entries about the same apart."""

    about: str
    key: bytes
    number: int = 1


class FolderMemory:
    """Keeps entries as empty files in a folder that belongs to this site alone."""

    def __init__(self, folder: Path) -> None:
        try:
            folder.mkdir(mode=0o700, parents=True, exist_ok=True)
            mode = folder.stat().st_mode
        except OSError as error:
            raise ConfigError(f"this site cannot keep its memory in {folder}: {error.strerror}") from error
        if not os.access(folder, os.W_OK | os.X_OK):
            raise ConfigError(f"this site cannot write to {folder}, where it is to keep its memory")
        if os.name == "posix" and mode & stat.S_IWOTH:
            raise ConfigError(f"everybody can write to {folder}, where this site keeps its memory: chmod o-w")
        self._folder = folder

    def add(self, entry: Entry) -> bool:
        """Return False if it was made before. When this returns, the entry is there to stay."""
        try:
            handle = os.open(self._path(entry), os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
        except FileExistsError:
            return False
        os.close(handle)
        files.sync_folder(self._folder)
        return True

    def entries(self, about: str) -> Iterator[Entry]:
        for path in self._folder.glob(f"{about}-*-*"):
            _, key, number = path.name.split("-", 2)
            with contextlib.suppress(ValueError):  # not one of ours
                yield Entry(about, bytes.fromhex(key), int(number))

    def __contains__(self, entry: Entry) -> bool:
        return os.path.lexists(self._path(entry))

    def sweep(self, now: float) -> None:
        """Forget what is too old to matter."""
        for entry in [entry for about in (ROUND, STATE, MASK) for entry in self.entries(about)]:
            path = self._path(entry)
            with contextlib.suppress(FileNotFoundError):  # another process was faster
                if now - path.lstat().st_mtime > _REMEMBERED:
                    path.unlink()

    def _path(self, entry: Entry) -> Path:
        return self._folder / f"{entry.about}-{entry.key.hex()}-{entry.number}"


class Memory(Protocol):
    """Where entries are kept."""

    def add(self, entry: Entry) -> bool:
        """Return False if it was made before."""

    def entries(self, about: str) -> Iterator[Entry]: ...
    def __contains__(self, entry: Entry) -> bool: ...
    def sweep(self, now: float) -> None:
        """Forget what is too old to matter."""


class _Keys:
    """The keys of all entries about one thing."""

    def __init__(self, memory: Memory, about: str) -> None:
        self._memory, self._about = memory, about

    def __iter__(self) -> Iterator[bytes]:
        return iter({entry.key for entry in self._memory.entries(self._about)})

    def __len__(self) -> int:
        return sum(1 for _ in self)


class UsedOnce(_Keys, MutableSet[bytes]):
    """Rounds that this site answered, or states that it resumed, as a ``Client`` asks for them."""

    def __contains__(self, key: object) -> bool:
        return isinstance(key, bytes) and Entry(self._about, key) in self._memory

    def add(self, key: bytes) -> None:
        if not self._memory.add(Entry(self._about, key)):
            raise ConfigError(f"another process of this site was first to use this {self._about}")

    def discard(self, key: bytes) -> NoReturn:
        raise UsageError("what was used stays used")


class TaskCounts(_Keys, MutableMapping[bytes, int]):
    """How often this site contributed to each task, as ``Spending`` asks for it."""

    def __init__(self, memory: Memory) -> None:
        super().__init__(memory, TASK)

    def __getitem__(self, task: bytes) -> int:
        count = 0
        while Entry(TASK, task, count + 1) in self._memory:
            count += 1
        if not count:
            raise KeyError(task)
        return count

    def __setitem__(self, task: bytes, count: int) -> None:
        """Count one more; refuse where another process of this site has done so in the meantime."""
        if count > 1 and Entry(TASK, task, count - 1) not in self._memory:
            raise UsageError("contributions are counted one by one")
        if not self._memory.add(Entry(TASK, task, count)):
            raise ConfigError("another process of this site was first to count this contribution")

    def __delitem__(self, task: bytes) -> NoReturn:
        raise UsageError("what was contributed stays contributed")
