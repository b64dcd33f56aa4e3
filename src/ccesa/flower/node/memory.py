"""Where a node remembers what it has done: in a folder of its own, or in its state.

Where there is no folder, as in a simulation, entries are in the node's state, and end with the run.
"""

from collections.abc import Iterator
from pathlib import Path

from flwr.app import Context
from flwr.supercore.task_identity import TaskIdentity
from flwr.supercore.utils import get_flwr_home

from ccesa.errors import ConfigError
from ccesa.flower.both import log
from ccesa.flower.node.settings import NodeSettings
from ccesa.flower.node.state import Kept
from ccesa.memory import MASK, RELEASE, ROUND, STATE, VECTOR, Entry, FolderMemory, Memory

#: Entries about each of these that a node's state has at most; the oldest go.
_MOST = {ROUND: 4096, STATE: 16, MASK: 4096, VECTOR: 4096, RELEASE: 4096}
_RECORD = "ccesa-memory"


class StateMemory:
    """Keeps entries in the node's state, as long as a run lasts."""

    def __init__(self, context: Context) -> None:
        self._kept = Kept(context, _RECORD, dict[str, list[Entry]])

    def add(self, entry: Entry) -> bool:
        """Return False if it was made before."""
        kept = self._kept.load() or {}
        every = kept.setdefault(entry.about, [])
        if entry in every:
            return False
        kept[entry.about] = [*every, entry][-_MOST[entry.about] :]
        self._kept.store(kept)
        return True

    def entries(self, about: str, start: bytes = b"") -> Iterator[Entry]:
        """Return the entries whose keys start like this."""
        kept = (self._kept.load() or {}).get(about, [])
        return (entry for entry in kept if entry.key.startswith(start))

    def __contains__(self, entry: Entry) -> bool:
        return entry in self.entries(entry.about)

    def sweep(self, now: float) -> None:
        """There are never too many."""


def open_memory(settings: NodeSettings, context: Context) -> Memory:
    """Open the folder that the node names; else one in Flower's own, if this process belongs to one node.

    A SuperNode with a charter needs a folder. Others, and simulated nodes, fall back on their state: without
    a charter the server is trusted to ask for nothing twice.
    """
    if settings.memory is not None:
        return FolderMemory(Path(settings.memory))
    if not _is_own_process(context):
        return StateMemory(context)
    try:
        return FolderMemory(get_flwr_home() / "ccesa" / str(context.node_id))
    except (ConfigError, RuntimeError) as error:  # RuntimeError: there is no home
        if settings.has_charter:
            raise ConfigError(f"{error}; give this node a folder of its own: ccesa-memory") from error
        log.warn(f"{error}; it lasts as long as the run")
        return StateMemory(context)


def _is_own_process(context: Context) -> bool:
    """A SuperNode starts a process for each message, which knows its node; simulated nodes share theirs."""
    try:
        return bool(TaskIdentity.node_id == context.node_id)
    except RuntimeError:  # not set
        return False
