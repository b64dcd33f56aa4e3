"""What a site has done and must not do again: entries that are made once, and never taken back.

In a folder of the site an entry is an empty file, made before what it stands for leaves the site. It is there
after a crash, in another process and in the next run; only its name counts, so there is nothing in it to be
damaged. A name that cannot be read is refused: nobody knows what it forbids.
"""

import contextlib
import os
from collections.abc import Iterator, MutableSet
from pathlib import Path
from typing import NamedTuple, NoReturn, Protocol, runtime_checkable

from ccesa import files
from ccesa.errors import ConfigError, UsageError, quoted

#: A round that was answered, a suspended client that was resumed, a round for which a vector has left.
ROUND, STATE, MASK = "round", "state", "mask"
#: A vector that left for a task, and shares that were released for one: the key is the task's digest and the
#: series, the number that of the round.
VECTOR, RELEASE = "vector", "release"
#: A vector as an earlier version counted them, in no series; and one made of a table, whatever the question.
TASK = "task"
#: Seconds that a folder remembers rounds and states. What has left stays: a copy of a client may be older.
_REMEMBERED = 30 * 86400.0


class Entry(NamedTuple):
    """Something that was done; the number tells entries about the same apart."""

    about: str
    key: bytes
    number: int = 1


@runtime_checkable
class Memory(Protocol):
    """Where entries are kept; it belongs to one client, and outlives its rounds."""

    def add(self, entry: Entry) -> bool:
        """Return False if it was made before. When this returns, the entry is there to stay."""

    def entries(self, about: str, start: bytes = b"") -> Iterator[Entry]:
        """Return the entries whose keys start like this, in any order."""

    def __contains__(self, entry: Entry) -> bool: ...
    def sweep(self, now: float) -> None:
        """Forget what is too old to matter."""


class ProcessMemory:
    """Keeps entries as long as this object lives: for a server that follows the protocol, and for tests."""

    def __init__(self) -> None:
        self._kept: dict[Entry, object] = {}

    def add(self, entry: Entry) -> bool:
        """Return False if it was made before.

        Args:
            entry: What is about to be done.
        """
        mark = object()
        return self._kept.setdefault(entry, mark) is mark

    def entries(self, about: str, start: bytes = b"") -> Iterator[Entry]:
        """Return the entries whose keys start like this.

        Args:
            about: One of the kinds of entries.
            start: The first bytes of a key.
        """
        return (one for one in list(self._kept) if one.about == about and one.key.startswith(start))

    def __contains__(self, entry: Entry) -> bool:
        return entry in self._kept

    def sweep(self, now: float) -> None:
        """Forget nothing: it ends with the process.

        Args:
            now: Seconds since 1970.
        """


class FolderMemory:
    """Keeps entries as empty files in a folder that belongs to this site alone.

    Args:
        folder: It is made if it is not there.

    Raises:
        ConfigError: It cannot be made or written to, or others can write to it or exchange it.
    """

    def __init__(self, folder: Path | str) -> None:
        folder = Path(folder)
        try:
            made = [one for one in (folder, *folder.parents) if not one.exists()]
            folder.mkdir(mode=0o700, parents=True, exist_ok=True)
            for one in made:  # nothing is there to stay in a folder whose own name may be lost
                files.sync_folder(one.parent)
            files.check_folder(folder)
        except OSError as error:
            raise ConfigError(f"this site cannot keep its memory in {folder}: {error.strerror}") from error
        if not os.access(folder, os.W_OK | os.X_OK):
            raise ConfigError(f"this site cannot write to {folder}, where it is to keep its memory")
        self._folder = folder

    def add(self, entry: Entry) -> bool:
        """Return False if it was made before. When this returns, the entry is there to stay.

        Args:
            entry: What is about to be done.

        Raises:
            OSError: The system cannot write it, and nothing may be done.
        """
        try:
            handle = os.open(self._path(entry), os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
        except FileExistsError:
            return False
        os.close(handle)
        files.sync_folder(self._folder)
        return True

    def entries(self, about: str, start: bytes = b"") -> Iterator[Entry]:
        """Return the entries whose keys start like this, in any order.

        Args:
            about: One of the kinds of entries.
            start: The first bytes of a key.

        Raises:
            ConfigError: The folder cannot be read, or one of these entries says nothing.
        """
        return map(self._read, self._names(f"{about}-{start.hex()}"))

    def __contains__(self, entry: Entry) -> bool:
        try:
            os.lstat(self._path(entry))
        except FileNotFoundError:
            return False
        except OSError as error:
            raise ConfigError(f"this site cannot read its memory in {self._folder}: {error.strerror}") from error
        return True

    def sweep(self, now: float) -> None:
        """Forget what is too old to matter.

        Args:
            now: Seconds since 1970.
        """
        for name in [name for about in (ROUND, STATE) for name in self._names(f"{about}-")]:
            with contextlib.suppress(FileNotFoundError, ConfigError):  # another was faster; it is none of ours
                path = self._path(self._read(name))
                if now - path.lstat().st_mtime > _REMEMBERED:
                    path.unlink()

    def _names(self, begin: str) -> list[str]:
        try:
            return [name for name in os.listdir(self._folder) if name.startswith(begin)]
        except OSError as error:
            why = f"this site cannot read its memory in {self._folder}: {error.strerror}"
            raise ConfigError(why) from error

    def _path(self, entry: Entry) -> Path:
        return self._folder / f"{entry.about}-{entry.key.hex()}-{entry.number}"

    def _read(self, name: str) -> Entry:
        about, _, rest = name.partition("-")
        key, _, number = rest.partition("-")
        with contextlib.suppress(ValueError):
            entry = Entry(about, bytes.fromhex(key), int(number))
            if self._path(entry).name == name:
                return entry
        raise ConfigError(f"{self._folder} has an entry {quoted(name)}, and nobody knows what it forbids")


class UsedOnce(MutableSet[bytes]):
    """Rounds that this site answered, or states that it resumed, as a ``Client`` asks for them."""

    def __init__(self, memory: Memory, about: str) -> None:
        self._memory, self._about = memory, about

    def __iter__(self) -> Iterator[bytes]:
        return iter({entry.key for entry in self._memory.entries(self._about)})

    def __len__(self) -> int:
        return sum(1 for _ in self)

    def __contains__(self, key: object) -> bool:
        return isinstance(key, bytes) and Entry(self._about, key) in self._memory

    def add(self, key: bytes) -> None:
        if not self._memory.add(Entry(self._about, key)):
            raise ConfigError(f"another process of this site was first to use this {self._about}")

    def discard(self, key: bytes) -> NoReturn:
        raise UsageError("what was used stays used")
