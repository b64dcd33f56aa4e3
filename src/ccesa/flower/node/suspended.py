"""Suspended clients in a node's state: what a node keeps of a round, or of a series, between two messages."""

import msgspec
from flwr.app import Context

from ccesa.flower.both import log
from ccesa.flower.both.envelope import KEY
from ccesa.flower.node.state import Kept

#: Of each type of message, what runs, and one more: a message that comes late must not end the one that runs.
_MOST = 2


class SuspendedClient(msgspec.Struct, frozen=True, kw_only=True):
    """One suspended client, with the configuration of its round, or of the first round of its series."""

    message_type: str
    config: bytes
    client: bytes
    #: When its round or series began on this node, and since when it is suspended, in seconds since 1970.
    born: float
    since: float


class SuspendedClients:
    """The suspended clients of this node for one type of message. They hold keys, so none stays without need.

    A train round does not end the series of an evaluation, nor the other way round.
    """

    def __init__(self, context: Context, message_type: str, now: float) -> None:
        self._kept, self._type, self._now = Kept(context, KEY, list[SuspendedClient]), message_type, now

    def take(self, config: bytes) -> SuspendedClient | None:
        """Take one out of the state, with all older ones: its round has come further than they ever will.

        None where this node has no part in it; was it restarted?
        """
        ours, others = self._every()
        found = next((one for one in ours if one.config == config), None)
        if found is not None:
            self._store([one for one in ours if one.born >= found.born and one is not found], others)
        return found

    def put(self, config: bytes, client: bytes, born: float | None = None) -> None:
        """Keep a client. ``born`` is that of the client that was taken; without it, its round begins now."""
        ours, others = self._every()
        fresh = SuspendedClient(
            message_type=self._type,
            config=config,
            client=client,
            born=self._now if born is None else born,
            since=self._now,
        )
        kept = [*(one for one in ours if one.config != config), fresh]
        self._store(sorted(kept, key=lambda one: one.born)[-_MOST:], others)

    def wipe(self, config: bytes) -> None:
        """Drop the client of this round or series."""
        ours, others = self._every()
        self._store([one for one in ours if one.config != config], others)

    def sweep(self, seconds: float) -> None:
        """Drop all that wait for longer than this; or from the future, after the clock was set."""
        every = self._kept.load() or []
        awaited = [one for one in every if abs(self._now - one.since) <= seconds]
        if len(awaited) < len(every):
            log.warn("the keys of a round that did not go on are dropped")
            self._kept.store(awaited)

    def _every(self) -> tuple[list[SuspendedClient], list[SuspendedClient]]:
        """Return the suspended clients for this type of message, and the others."""
        every = self._kept.load() or []
        ours = [one for one in every if one.message_type == self._type]
        return ours, [one for one in every if one.message_type != self._type]

    def _store(self, ours: list[SuspendedClient], others: list[SuspendedClient]) -> None:
        self._kept.store([*others, *ours])
