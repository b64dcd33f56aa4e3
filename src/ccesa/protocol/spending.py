"""A client works on a task in one series, whose numbers order its attempts, and releases shares for it once.

Two sums over the same task that differ by one client reveal that client's vector. So a memory that outlives rounds
notes which vectors were sent, and for which of them shares were released. A vector for a task ends every earlier round
of that task; a release closes the task. A vector that was sent counts even if its round is lost: colluders may know the
sum. Vectors with noise are charged to a ledger's account, which has its own limit; attempts keep theirs, in any order.

Helpers answer once about a task, and not about its name in the memory. So with helpers a name stays with the first task
that it had.

A fork in the middle of a round has the same keys. One entry per round lets one vector leave, and a fork drops its keys.
"""

from collections.abc import Callable
from dataclasses import dataclass, field
from threading import Lock

from ccesa.agreement.agreement import ATTEMPTS, RELEASES
from ccesa.agreement.config import RoundConfig
from ccesa.errors import ConfigError, FaultyServer, OrderError, TaskSpent
from ccesa.guards import guard_named
from ccesa.memory import MASK, NAMED, RELEASE, TASK, VECTOR, Entry, Memory
from ccesa.parts import whole_number
from ccesa.privacy.ledger import Account
from ccesa.protocol.parties import OwnProcess

#: Rounds in other threads may have the same memory.
_LOCK = Lock()


@dataclass(frozen=True, kw_only=True)
class Spending:
    """Lets vectors and shares of one round leave, or not. Without a memory nothing is remembered."""

    config: RoundConfig
    memory: Memory | None
    attempts: int = ATTEMPTS
    releases: int = RELEASES
    account: Account | None = None
    #: Returns the name of a task in the memory; None if that is the task itself.
    counted: Callable[[bytes], bytes] | None = None
    process: OwnProcess = field(default_factory=OwnProcess)

    def __post_init__(self) -> None:
        if self.memory is not None and not isinstance(self.memory, Memory):
            kind = type(self.memory).__name__
            raise ConfigError(f"tasks: expected a FolderMemory, a ProcessMemory or None, got {kind}")
        for name, value in (("attempts", self.attempts), ("releases", self.releases)):
            if whole_number(name, value) < 1:
                raise ConfigError(f"{name} must be at least 1, not {value}")

    def check_named(self, task: bytes) -> None:
        """Refuse to remember anything about no task at all."""
        if self.memory is not None and not any(task):
            raise ConfigError("give this client a task: it counts its contributions to each task")

    def check_account(self) -> None:
        if self.account is not None:
            self.account.check()

    def name(self, task: bytes) -> bytes:
        """Return the name of a task in the memory; empty without a memory."""
        if self.memory is None:
            return b""
        self.check_named(task)
        return task if self.counted is None else self.counted(task)

    def check(self, name: bytes) -> None:
        """Refuse a task for which no vector may leave in this round."""
        self.process.check()
        if self.memory is not None:
            if Entry(MASK, self.config.context) in self.memory:
                raise _another_process("sent its vector of this round")
            self._check_task(self.memory, name)
        self.check_account()

    def send(self, name: bytes, task: bytes) -> None:
        """Note a vector, before it leaves; the ledger comes last, because it never gives anything back."""
        with _LOCK:
            self.check(name)
            if self.memory is not None:
                self._note_named(self.memory, name, task)
                if not self.memory.add(Entry(MASK, self.config.context)):
                    raise _another_process("sent its vector of this round")
                if not self.memory.add(self._entry(VECTOR, name)):
                    raise _another_process("sent a vector for this task under this number")
                self._check_task(self.memory, name, own=1)  # other processes have no part in the lock
            if self.account is not None:
                self.account.charge(task, self.config.round_id)

    def check_latest(self, name: bytes) -> None:
        """Refuse to go on in a round that a later vector for its task, or a release, has ended."""
        self.process.check()
        if self.memory is None or self.account is not None:
            return
        own, vectors = (self._series, self.config.number), self._places(self.memory, VECTOR, name)
        if own not in vectors or self._has_later(vectors):
            raise FaultyServer("a later round has asked for a vector for this task: this round is over")
        if len(self._places(self.memory, RELEASE, name)) >= self.releases:
            raise FaultyServer("this client has released its shares for this task: the task is closed")

    def release(self, name: bytes) -> None:
        """Close the task, before shares leave."""
        with _LOCK:
            self.check_latest(name)
            if self.memory is None:
                return
            if not self.memory.add(self._entry(RELEASE, name)):  # also with noise: one reply leaves a round
                raise _another_process("released its shares of this round")
            if self.account is None and self._has_later(self._places(self.memory, VECTOR, name)):
                raise _another_process("sent a later vector for this task")

    def _check_task(self, memory: Memory, name: bytes, own: int = 0) -> None:
        """Refuse a vector for this task; ``own`` is 1 if that of this round has left already."""
        vectors = self._places(memory, VECTOR, name)
        old = sum(1 for _ in memory.entries(TASK, name))
        if len(vectors) + old - own >= self.attempts:
            raise TaskSpent(
                f"this client has contributed to this task {self.attempts} time(s), its limit: sums over the same task "
                "that differ by one client would reveal that client's vector"
            )
        if self.account is not None:
            return
        if len(self._places(memory, RELEASE, name)) >= self.releases:
            raise TaskSpent(
                f"this client has released its shares for this task {self.releases} time(s), its limit: another sum "
                "over it could reveal a client's vector"
            )
        if old:
            raise TaskSpent("this client contributed to this task with an earlier version, which noted no series")
        series, number = self._series, self.config.number
        if any(one != series for one, _ in vectors):
            raise TaskSpent(
                "this client has contributed to this task in another series: repeat a lost round in that one"
            )
        latest = max((last for _, last in vectors), default=-1)
        if latest >= number + own:
            raise TaskSpent(
                f"this client has contributed to this task in round {latest} of this series: the next attempt needs a "
                f"higher number, not {number}"
            )

    def _note_named(self, memory: Memory, name: bytes, task: bytes) -> None:
        """With helpers, note the task of this name, and refuse any other: helpers would answer about both."""
        charter = self.config.charter
        if self.counted is None or self.account is not None or not self.config.helper_ids:
            return
        if not isinstance(charter, bytes):
            raise ConfigError("a round with helpers needs a charter")
        own = Entry(NAMED, name + charter + task)
        for _ in range(2):  # another process may note another one at the same time
            if any(one != own for one in memory.entries(NAMED, name + charter)):
                raise TaskSpent(
                    "this client has contributed to this task in another form: repeat a lost round unchanged"
                )
            memory.add(own)

    def _has_later(self, vectors: set[tuple[bytes, int]]) -> bool:
        series, number = self._series, self.config.number
        return any(one != series or last > number for one, last in vectors)

    def _entry(self, about: str, name: bytes) -> Entry:
        return Entry(about, name + self._series, self.config.number)

    @property
    def _series(self) -> bytes:
        """The name of the series. Helpers answer by charter and task, so with helpers the charter is part of it.

        It is longer than the id of a series, which the server chooses.
        """
        config = self.config
        if guard_named(config.guard).has_graph or not isinstance(config.charter, bytes):
            return config.series_id
        return config.charter + config.series_id

    def _places(self, memory: Memory, about: str, name: bytes) -> set[tuple[bytes, int]]:
        return {(one.key[len(name) :], one.number) for one in memory.entries(about, name)}


def check_table(memory: Memory, table: bytes, attempts: int) -> int:
    """Refuse one more vector of a table, whatever the task; return the number that have left.

    Otherwise a lying server would ask for the same statistics in many tasks, each time of other sites.
    """
    count = sum(1 for _ in memory.entries(TASK, table))
    if count >= attempts:
        raise TaskSpent(f"this site has contributed its table {attempts} time(s), the limit of the charter")
    return count


def count_table(memory: Memory, table: bytes, attempts: int) -> None:
    if not memory.add(Entry(TASK, table, check_table(memory, table, attempts) + 1)):
        raise ConfigError("another process of this site has contributed the table first")


def _another_process(what: str) -> OrderError:
    return OrderError(f"another process of this client has {what}; its keys are dropped here")
