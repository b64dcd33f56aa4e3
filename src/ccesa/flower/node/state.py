"""A node keeps suspended clients in its state between messages, and in a folder what it has done.

Flower keeps a node's state (``context.state``) while a run lasts. Without a folder the node uses it for both.
"""

from collections.abc import Iterator
from pathlib import Path
from typing import Generic, TypeVar

import msgspec
from flwr.app import ConfigRecord, Context
from flwr.supercore.task_identity import TaskIdentity
from flwr.supercore.utils import get_flwr_home

from ccesa.errors import ConfigError
from ccesa.flower.both import log
from ccesa.flower.both.envelope import KEY
from ccesa.flower.node.settings import NodeSettings
from ccesa.helper_keys import FolderKeys
from ccesa.memory import MASK, NAMED, RELEASE, ROUND, STATE, VECTOR, Entry, FolderMemory, Memory
from ccesa.protocol.assisted_helper import KEY_MARGIN

T = TypeVar("T")
_FIELD = "kept"
#: For each type of message the running round or series, and one more, so that no late message ends it.
_MAXIMUM_CLIENTS = 2
#: The most entries in a node's state, by what they are about; the oldest are dropped.
_MAXIMUM_ENTRIES = {ROUND: 4096, STATE: 16, MASK: 4096, VECTOR: 4096, RELEASE: 4096, NAMED: 4096}


class StateValue(Generic[T]):
    """A value in a node's state. A damaged one is dropped, so that it does not keep the node out of rounds."""

    def __init__(self, context: Context, name: str, its_type: type[T]) -> None:
        self._state, self._name, self._type = context.state, name, its_type

    def load(self) -> T | None:
        if self._name not in self._state:
            return None
        try:
            return msgspec.msgpack.decode(self._state[self._name][_FIELD], type=self._type)
        except (msgspec.DecodeError, KeyError, TypeError, UnicodeDecodeError):
            log.warn("the state of this node is damaged and was dropped")
            self.store(None)
            return None

    def store(self, value: T | None) -> None:
        """Replace the value; without one, remove it."""
        self._state.pop(self._name, None)
        if value:
            self._state[self._name] = ConfigRecord({_FIELD: msgspec.msgpack.encode(value)})


class SuspendedClient(msgspec.Struct, frozen=True, kw_only=True):
    """A suspended client of a round or a series."""

    message_type: str
    #: The configuration of the round, or of the first round of the series.
    config: bytes
    client: bytes
    #: When its round or series began on this node, and when it was suspended, in seconds since 1970.
    born: float
    since: float


class SuspendedClients:
    """The suspended clients of this node for one type of message. They hold keys, so none stays without need.

    A train round does not end the series of an evaluation, nor the other way round.
    """

    def __init__(self, context: Context, message_type: str, now: float) -> None:
        self._kept = StateValue(context, KEY, list[SuspendedClient])
        self._type, self._now = message_type, now

    def take(self, config: bytes) -> SuspendedClient | None:
        """Return a client, and remove it with all older ones, which are given up; None as after a restart."""
        ours = self._load()
        taken = next((client for client in ours if client.config == config), None)
        if taken is not None:
            self._store([client for client in ours if client.born >= taken.born and client is not taken])
        return taken

    def put(self, config: bytes, client: bytes, born: float | None = None) -> None:
        """Keep a client. ``born`` is that of the client that was taken; without it, its round begins now."""
        born = self._now if born is None else born
        fresh = SuspendedClient(message_type=self._type, config=config, client=client, born=born, since=self._now)
        kept = [*(client for client in self._load() if client.config != config), fresh]
        self._store(sorted(kept, key=lambda client: client.born)[-_MAXIMUM_CLIENTS:])

    def wipe(self, config: bytes) -> None:
        """Drop the client of this round or series."""
        self._store([client for client in self._load() if client.config != config])

    def sweep(self, seconds: float) -> None:
        """Drop all, of any type of message, that have waited longer, or are from the future: a clock was set."""
        every = self._kept.load() or []
        awaited = [client for client in every if abs(self._now - client.since) <= seconds]
        if len(awaited) < len(every):
            log.warn("dropped the keys of a round that did not go on")
            self._kept.store(awaited)

    def _load(self) -> list[SuspendedClient]:
        return [client for client in self._kept.load() or [] if client.message_type == self._type]

    def _store(self, ours: list[SuspendedClient]) -> None:
        others = [client for client in self._kept.load() or [] if client.message_type != self._type]
        self._kept.store([*others, *ours])


class StateMemory:
    """Keeps entries in the node's state while a run lasts."""

    def __init__(self, context: Context) -> None:
        self._kept = StateValue(context, f"{KEY}-memory", dict[str, list[Entry]])

    def add(self, entry: Entry) -> bool:
        """Return False if the entry already exists."""
        kept = self._kept.load() or {}
        every = kept.setdefault(entry.about, [])
        if entry in every:
            return False
        kept[entry.about] = [*every, entry][-_MAXIMUM_ENTRIES[entry.about] :]
        self._kept.store(kept)
        return True

    def entries(self, about: str, start: bytes = b"") -> Iterator[Entry]:
        """Return the entries whose keys start like this."""
        kept = (self._kept.load() or {}).get(about, [])
        return (entry for entry in kept if entry.key.startswith(start))

    def __contains__(self, entry: Entry) -> bool:
        return entry in self.entries(entry.about)

    def sweep(self, now: float) -> None:
        """Do nothing: the number of entries is bounded."""


def open_memory(settings: NodeSettings, context: Context) -> Memory:
    """Open the node's folder, or one in Flower's own folder if this process belongs to one node.

    A SuperNode with a charter needs a folder. Others, and simulated nodes, fall back on their state: without a charter
    they trust the server not to ask for anything twice.
    """
    if settings.memory is not None:
        return FolderMemory(Path(settings.memory))
    try:
        # A SuperNode starts a process for each message, which knows its node. Simulated nodes share a process.
        own_process = TaskIdentity.node_id == context.node_id
    except RuntimeError:  # not set
        own_process = False
    if not own_process:
        return StateMemory(context)
    try:
        return FolderMemory(get_flwr_home() / "ccesa" / str(context.node_id))
    except (ConfigError, RuntimeError) as error:  # RuntimeError: the user has no home
        if settings.has_charter:
            raise ConfigError(f"{error}; give this node a folder of its own: ccesa-memory") from error
        log.warn(f"{error}; this node's memory ends with the run")
        return StateMemory(context)


def open_keys(settings: NodeSettings, now: float) -> FolderKeys | None:
    """Open the folder with the keys of a helper, without those of rounds that did not go on; None for other nodes."""
    if not settings.is_helper:
        return None
    if settings.memory is None:
        raise ConfigError("a helper needs a folder that it keeps when it is started again: ccesa-memory")
    keys, lasts = FolderKeys(Path(settings.memory) / "keys"), settings.charter.key_seconds - KEY_MARGIN
    keys.sweep(now + max(lasts - settings.forget_after, 0.0))  # a fresh key has all these seconds left
    return keys
