"""What a node keeps between messages: in its state, clients that sleep; as marks, what it has done."""

from collections.abc import Iterator, MutableMapping, MutableSet
from logging import WARNING
from typing import Any, NoReturn

import msgspec
from flwr.app import ConfigRecord, Context
from flwr.common import log

from ccesa.errors import ConfigError, TaskSpent, UsageError
from ccesa.flower.marks import TASK, Mark, Marks
from ccesa.flower.records import KEY

#: The round that runs, and one more: a message that comes late must not end the one that runs.
_ROUNDS = 2


class Sleeper(msgspec.Struct, frozen=True, kw_only=True):
    """A suspended client of this node, with the configuration of its round."""

    config: bytes
    client: bytes
    #: When its round began on this node, and since when it sleeps, in seconds since 1970.
    born: float
    since: float


class Sleeping:
    """The suspended clients of this node. They hold the keys of their rounds, so none stays without need."""

    def __init__(self, context: Context, now: float) -> None:
        self._context, self._now = context, now

    def take(self, config: bytes) -> Sleeper:
        """Out of the state, with all older ones: this round has come further than they ever will."""
        every = self._load()
        found = next((one for one in every if one.config == config), None)
        if found is None:
            raise ConfigError("this node has no part in that round; was it restarted?")
        self._store([one for one in every if one.born >= found.born and one is not found])
        return found

    def put(self, config: bytes, client: bytes, born: float | None = None) -> None:
        """``born`` is that of the client that was taken; without it, its round begins now."""
        since = self._now
        fresh = Sleeper(config=config, client=client, born=since if born is None else born, since=since)
        self._store([*(one for one in self._load() if one.config != config), fresh])

    def wipe(self, config: bytes) -> None:
        """Of this round only."""
        self._store([one for one in self._load() if one.config != config])

    def sweep(self, seconds: float) -> None:
        """Wipe those that sleep for longer than this; or from the future, after the clock was set."""
        every = self._load()
        awaited = [one for one in every if abs(self._now - one.since) <= seconds]
        if len(awaited) < len(every):
            log(WARNING, "secure aggregation: the keys of a round that did not go on are dropped")
            self._store(awaited)

    def _load(self) -> list[Sleeper]:
        record = self._context.state.get(KEY)
        if record is None:
            return []
        try:
            return _sleepers(record)
        except (msgspec.ValidationError, ValueError):
            log(WARNING, "secure aggregation: the state of this node is damaged and dropped")
            self._context.state.pop(KEY, None)
            return []

    def _store(self, sleepers: list[Sleeper]) -> None:
        newest = sorted(sleepers, key=lambda one: one.born)[-_ROUNDS:]
        if newest:
            rows = [msgspec.structs.asdict(one) for one in newest]
            self._context.state[KEY] = ConfigRecord({name: [row[name] for row in rows] for name in rows[0]})
        else:
            self._context.state.pop(KEY, None)


def _sleepers(record: Any) -> list[Sleeper]:
    if not isinstance(record, ConfigRecord) or not all(isinstance(row, list) for row in record.values()):
        raise ValueError("no rows")
    rows = zip(*record.values(), strict=True)
    fields = [dict(zip(record, row, strict=True)) for row in rows]
    return msgspec.convert(fields, list[Sleeper], builtin_types=[bytes])  # bytes, and no text in base64


class Seen(MutableSet[bytes]):
    """Rounds that this node answered, or states that it resumed."""

    def __init__(self, marks: Marks, kind: str) -> None:
        self._marks, self._kind = marks, kind

    def __contains__(self, key: object) -> bool:
        return isinstance(key, bytes) and Mark(self._kind, key) in self._marks

    def __iter__(self) -> Iterator[bytes]:
        return (mark.key for mark in self._marks.of(self._kind))

    def __len__(self) -> int:
        return sum(1 for _ in self)

    def add(self, key: bytes) -> None:
        if not self._marks.make(Mark(self._kind, key)):
            raise ConfigError(f"another process of this node was first to use this {self._kind}")

    def discard(self, key: bytes) -> NoReturn:
        raise UsageError("what was used stays used")


class TaskCounts(MutableMapping[bytes, int]):
    """How often this node contributed to a task."""

    def __init__(self, marks: Marks) -> None:
        self._marks = marks

    def check(self, task: bytes, attempts: int) -> None:
        """Refuse a task that was contributed to as often as that."""
        if self.get(task, 0) >= attempts:
            raise TaskSpent(
                f"this node has contributed to this model {self[task]} times and allows {attempts}: two sums "
                "that differ by one node give that node away (ccesa-attempts, or attempts in the charter)"
            )

    def count(self, task: bytes, attempts: int) -> None:
        """One more, before it leaves; TaskSpent where other processes of this node used up the rest."""
        if not any(self._marks.make(Mark(TASK, task, number)) for number in range(1, attempts + 1)):
            self.check(task, attempts)

    def __getitem__(self, task: bytes) -> int:
        count = 0
        while Mark(TASK, task, count + 1) in self._marks:
            count += 1
        if not count:
            raise KeyError(task)
        return count

    def __setitem__(self, task: bytes, count: int) -> None:
        """Upwards only."""
        if count < self.get(task, 0):
            raise UsageError("what was contributed stays contributed")
        for number in range(1, count + 1):
            self._marks.make(Mark(TASK, task, number))

    def __delitem__(self, task: bytes) -> NoReturn:
        raise UsageError("what was contributed stays contributed")

    def __iter__(self) -> Iterator[bytes]:
        return iter({mark.key for mark in self._marks.of(TASK)})

    def __len__(self) -> int:
        return sum(1 for _ in self)
