"""A memory has an entry for each thing that a site has done and must not do again. None is taken back.

In a folder an entry is an empty file, made before its vector or its shares leave the site. Only its name counts, so it
has no content to be damaged. A name that cannot be read is refused: nobody knows what it forbids.
"""

import contextlib
import os
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple, Protocol, runtime_checkable

from ccesa import files
from ccesa.errors import ConfigError, quoted

#: A round that was answered, a suspended client that was resumed, a round for which a vector was sent.
ROUND, STATE, MASK = "round", "state", "mask"
#: A vector that left for a task, shares that were released for one: by task and series, with the round's number.
VECTOR, RELEASE = "vector", "release"
#: The task of which a vector was sent, by its name in this memory, where helpers count tasks.
NAMED = "named"
#: A vector as an earlier version counted them, in no series; and one made of a table, whatever the question.
TASK = "task"
#: The question that a helper answered in a round, and the round in which it answered about a task.
QUESTION, ANSWER = "question", "answer"
#: Seconds that a folder remembers rounds and states. Vectors and releases stay: a client's copy may be older.
_REMEMBERED = 30 * 86400.0


class Entry(NamedTuple):
    """Something that was done; the number separates entries about the same thing."""

    about: str
    key: bytes
    number: int = 1


@runtime_checkable
class Memory(Protocol):
    """Keeps the entries of one client, and outlives its rounds."""

    def add(self, entry: Entry) -> bool:
        """Return False if the entry exists. When this returns, it does, for good.

        Args:
            entry: The thing that is about to be done.

        Raises:
            OSError: The system cannot write it, and nothing may be done.
        """

    def entries(self, about: str, start: bytes = b"") -> Iterator[Entry]:
        """Return the entries whose keys start like this, in any order.

        Args:
            about: One of the kinds of entries.
            start: The first bytes of a key.

        Raises:
            ConfigError: The entries cannot be read.
        """

    def __contains__(self, entry: Entry) -> bool: ...
    def sweep(self, now: float) -> None:
        """Forget entries that are too old to matter.

        Args:
            now: Seconds since 1970.
        """


class ProcessMemory(Memory):
    """Keeps entries as long as this object lives: for a server that follows the protocol, and for tests."""

    def __init__(self) -> None:
        self._kept: dict[Entry, object] = {}

    def add(self, entry: Entry) -> bool:
        mark = object()
        return self._kept.setdefault(entry, mark) is mark

    def entries(self, about: str, start: bytes = b"") -> Iterator[Entry]:
        return (one for one in list(self._kept) if one.about == about and one.key.startswith(start))

    def __contains__(self, entry: Entry) -> bool:
        return entry in self._kept

    def sweep(self, now: float) -> None:
        pass  # entries end with the process


class FolderMemory(Memory):
    """Keeps entries as empty files in a folder that belongs to this site alone.

    Args:
        folder: It is made if it is missing.

    Raises:
        ConfigError: It cannot be made or written to, or others can write to it or exchange it.
    """

    def __init__(self, folder: Path | str) -> None:
        folder = Path(folder)
        try:
            made = [one for one in (folder, *folder.parents) if not one.exists()]
            folder.mkdir(mode=0o700, parents=True, exist_ok=True)
            for one in made:  # entries are not safe in a folder whose own name may be lost
                files.sync_folder(one.parent)
            files.check_trusted(folder)
        except OSError as error:
            raise ConfigError(f"this site cannot keep its memory in {folder}: {error.strerror}") from error
        if not os.access(folder, os.W_OK | os.X_OK):
            raise ConfigError(f"this site cannot write to {folder}, where it is to keep its memory")
        self._folder = folder

    def add(self, entry: Entry) -> bool:
        try:
            handle = os.open(self._path(entry), os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
        except FileExistsError:
            return False
        os.close(handle)
        files.sync_folder(self._folder)
        return True

    def entries(self, about: str, start: bytes = b"") -> Iterator[Entry]:
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
        for name in [name for about in (ROUND, STATE) for name in self._names(f"{about}-")]:
            with contextlib.suppress(FileNotFoundError, ConfigError):  # another process was faster; or not ours
                path = self._path(self._read(name))
                if now - path.lstat().st_mtime > _REMEMBERED:
                    path.unlink()

    def _names(self, begin: str) -> list[str]:
        try:
            return [name for name in os.listdir(self._folder) if name.startswith(begin)]
        except OSError as error:
            raise ConfigError(f"this site cannot read its memory in {self._folder}: {error.strerror}") from error

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


class Used(Protocol):
    """Rounds that a client answered, or states that it resumed: a set, or ``UsedOnce``."""

    def __contains__(self, key: object, /) -> bool: ...
    def add(self, key: bytes, /) -> None:
        """Note a key before it is used."""


class UsedOnce(Used):
    """Rounds that this site answered, or states that it resumed, in its memory."""

    def __init__(self, memory: Memory, about: str) -> None:
        self._memory, self._about = memory, about

    def __contains__(self, key: object, /) -> bool:
        return isinstance(key, bytes) and Entry(self._about, key) in self._memory

    def add(self, key: bytes, /) -> None:
        if not self._memory.add(Entry(self._about, key)):
            raise ConfigError(f"another process of this site was first to use this {self._about}")
