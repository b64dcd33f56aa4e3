"""Suspended clients in a node's state: what a node keeps of a round between two messages."""

import msgspec
from flwr.app import Context

from ccesa.errors import ConfigError
from ccesa.flower.both import log
from ccesa.flower.both.envelope import KEY
from ccesa.flower.node.state import Kept

#: The round that runs, and one more: a message that comes late must not end the one that runs.
_ROUNDS = 2


class SuspendedClient(msgspec.Struct, frozen=True, kw_only=True):
    """One suspended client, with the configuration of its round."""

    config: bytes
    client: bytes
    #: When its round began on this node, and since when it is suspended, in seconds since 1970.
    born: float
    since: float


class SuspendedClients:
    """All suspended clients of this node. They hold the keys of their rounds, so none stays without need."""

    def __init__(self, context: Context, now: float) -> None:
        self._kept, self._now = Kept(context, KEY, list[SuspendedClient]), now

    def take(self, config: bytes) -> SuspendedClient:
        """Take one out of the state, with all older ones: its round has come further than they ever will."""
        every = self._kept.load() or []
        found = next((one for one in every if one.config == config), None)
        if found is None:
            raise ConfigError("this node has no part in that round; was it restarted?")
        self._kept.store([one for one in every if one.born >= found.born and one is not found])
        return found

    def put(self, config: bytes, client: bytes, born: float | None = None) -> None:
        """Keep a client. ``born`` is that of the client that was taken; without it, its round begins now."""
        now = self._now
        fresh = SuspendedClient(config=config, client=client, born=now if born is None else born, since=now)
        self._kept.store(sorted([*self._but(config), fresh], key=lambda one: one.born)[-_ROUNDS:])

    def wipe(self, config: bytes) -> None:
        """Drop the client of this round."""
        self._kept.store(self._but(config))

    def sweep(self, seconds: float) -> None:
        """Drop those that wait for longer than this; or from the future, after the clock was set."""
        every = self._kept.load() or []
        awaited = [one for one in every if abs(self._now - one.since) <= seconds]
        if len(awaited) < len(every):
            log.warn("the keys of a round that did not go on are dropped")
            self._kept.store(awaited)

    def _but(self, config: bytes) -> list[SuspendedClient]:
        return [one for one in self._kept.load() or [] if one.config != config]
