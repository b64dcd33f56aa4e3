"""What a node has done and must not do again: marks that can be made once, and are never taken back.

In a folder of the node a mark is an empty file, made before what it stands for leaves the node. It is there
after a crash, in another process and in the next run; only its name counts, so there is nothing in it to be
damaged. Where there is no folder, as in a simulation, marks are in the node's state, and end with the run.
"""

import contextlib
import os
import stat
from collections.abc import Iterator
from logging import WARNING
from pathlib import Path
from typing import NamedTuple, Protocol

from flwr.app import ConfigRecord, Context
from flwr.common import log
from flwr.supercore.task_identity import TaskIdentity
from flwr.supercore.utils import get_flwr_home

from ccesa.errors import ConfigError
from ccesa.flower.site import Site

#: A round that was answered, a suspended client that was resumed, a model that was contributed to.
ROUND, STATE, TASK = "round", "state", "task"
#: Marks of each kind that a node's state has at most; the oldest go.
_MOST = {ROUND: 4096, STATE: 16, TASK: 4096}
_RECORD = "ccesa-marks"
_KEY_BYTES, _NUMBER_BYTES = 32, 4
_ROW = _KEY_BYTES + _NUMBER_BYTES
#: Seconds that a folder remembers rounds and states: their keys are gone long before. Tasks stay.
_REMEMBERED = 30 * 86400.0


class Mark(NamedTuple):
    """The number tells marks of the same kind and key apart."""

    kind: str
    key: bytes
    number: int = 1


class Marks(Protocol):
    """Where marks are kept."""

    def make(self, mark: Mark) -> bool:
        """False if it was made before. When this returns, the mark is there to stay."""

    def of(self, kind: str) -> Iterator[Mark]: ...

    def __contains__(self, mark: object) -> bool: ...

    def sweep(self, now: float) -> None:
        """Forget what is too old to matter."""


class FolderMarks:
    """Empty files in a folder that belongs to this node alone."""

    def __init__(self, folder: Path) -> None:
        try:
            folder.mkdir(mode=0o700, parents=True, exist_ok=True)
            mode = folder.stat().st_mode
        except OSError as error:
            raise ConfigError(f"this node cannot keep its marks in {folder}: {error.strerror}") from error
        if not os.access(folder, os.W_OK | os.X_OK):
            raise ConfigError(f"this node cannot write to {folder}, where it is to keep its marks")
        if os.name == "posix" and mode & stat.S_IWOTH:
            raise ConfigError(f"everybody can write to {folder}, where this node keeps its marks: chmod o-w")
        self._folder = folder

    def make(self, mark: Mark) -> bool:
        try:
            handle = os.open(self._path(mark), os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
        except FileExistsError:
            return False
        os.close(handle)
        _make_durable(self._folder)
        return True

    def of(self, kind: str) -> Iterator[Mark]:
        for path in self._folder.glob(f"{kind}-*-*"):
            _, key, number = path.name.split("-", 2)
            with contextlib.suppress(ValueError):  # not one of ours
                yield Mark(kind, bytes.fromhex(key), int(number))

    def __contains__(self, mark: object) -> bool:
        return isinstance(mark, Mark) and os.path.lexists(self._path(mark))

    def sweep(self, now: float) -> None:
        for mark in [mark for kind in (ROUND, STATE) for mark in self.of(kind)]:
            path = self._path(mark)
            with contextlib.suppress(FileNotFoundError):  # another process was faster
                if now - path.lstat().st_mtime > _REMEMBERED:
                    path.unlink()

    def _path(self, mark: Mark) -> Path:
        return self._folder / f"{mark.kind}-{mark.key.hex()}-{mark.number}"


class StateMarks:
    """Rows of bytes in the node's state, one for each kind."""

    def __init__(self, context: Context) -> None:
        self._context = context

    def make(self, mark: Mark) -> bool:
        if mark in self:
            return False
        row = mark.key + mark.number.to_bytes(_NUMBER_BYTES, "little")
        rows = {kind: self._rows(kind) for kind in _MOST}
        rows[mark.kind] = (rows[mark.kind] + row)[-_MOST[mark.kind] * _ROW :]
        self._context.state[_RECORD] = ConfigRecord(dict(rows))
        return True

    def of(self, kind: str) -> Iterator[Mark]:
        rows = self._rows(kind)
        for place in range(0, len(rows), _ROW):
            key, number = rows[place : place + _KEY_BYTES], rows[place + _KEY_BYTES : place + _ROW]
            yield Mark(kind, key, int.from_bytes(number, "little"))

    def __contains__(self, mark: object) -> bool:
        return isinstance(mark, Mark) and mark in self.of(mark.kind)

    def sweep(self, now: float) -> None:
        """There are never too many."""

    def _rows(self, kind: str) -> bytes:
        """Damaged ones are dropped, so that the node is not kept out of later rounds."""
        record = self._context.state.get(_RECORD, ConfigRecord())
        found = record.get(kind, b"") if isinstance(record, ConfigRecord) else None
        if isinstance(found, bytes) and len(found) % _ROW == 0:
            return found
        log(WARNING, "secure aggregation: the marks in this node's state are damaged and dropped")
        self._context.state.pop(_RECORD, None)
        return b""


def open_marks(site: Site, context: Context) -> Marks:
    """Where the site says; else in Flower's own folder, if this process belongs to one node.

    A node with a charter needs a folder. Others fall back on their state: under ``curious`` the server asks
    for nothing twice.
    """
    if site.memory is not None:
        return FolderMarks(site.memory)
    if not _is_own_process(context):
        return StateMarks(context)
    try:
        return FolderMarks(get_flwr_home() / "ccesa" / str(context.node_id))
    except (ConfigError, RuntimeError) as error:  # RuntimeError: there is no home
        if site.has_charter:
            raise ConfigError(f"{error}; give this node a folder of its own: ccesa-memory") from error
        log(WARNING, "secure aggregation: %s; marks last as long as the run", error)
        return StateMarks(context)


def _is_own_process(context: Context) -> bool:
    """A SuperNode starts a process for each message, which knows its node; simulated nodes share theirs."""
    try:
        return bool(TaskIdentity.node_id == context.node_id)
    except RuntimeError:  # not set
        return False


def _make_durable(folder: Path) -> None:
    """The name of a new file is on the disk only when its folder is."""
    if os.name == "posix":
        handle = os.open(folder, os.O_RDONLY)
        try:
            os.fsync(handle)
        finally:
            os.close(handle)
