"""Limits on the work and memory that clients can cost a hub, and the door that keeps surplus connections out."""

import asyncio
from dataclasses import dataclass
from typing import Protocol

KIB, MIB = 1 << 10, 1 << 20


@dataclass(frozen=True, kw_only=True)
class Limits:
    """Maxima in numbers, bytes and seconds."""

    #: Connections at a time, in all and of one member.
    connections: int = 20_000
    connections_of_member: int = 16
    #: One request's header with its first line, the lines in it, and the time until it is complete.
    header_bytes: int = 16 * KIB
    headers: int = 100
    header_seconds: float = 10.0
    idle_seconds: float = 75.0  # between two requests
    #: The rest that is sent and read before a connection closes: the sender of an unwanted body reads its answer.
    linger_seconds: float = 5.0
    linger_bytes: int = 4 * MIB
    #: Failed authentications on one connection, and lookups of strangers' tokens at a time.
    failures: int = 3
    lookups: int = 64
    sessions_per_minute: int = 30  # of one member
    wait_seconds: int = 60  # of a request, for a change
    #: A sender or a reader must reach the minimum rate, in bytes per second, but for the grace.
    grace_seconds: float = 10.0
    minimum_rate: int = 8 * KIB
    #: The time between two pieces of a body, and the time until a newer request of the member replaces it.
    silence_seconds: float = 30.0
    yield_seconds: float = 2.0
    #: One body and all bodies in memory. A larger one, or one that has waited for memory, goes to a file.
    body_in_memory: int = MIB
    bodies_in_memory: int = 64 * MIB
    room_seconds: float = 5.0
    #: The time for a TLS handshake, and for requests under way when the hub stops.
    handshake_seconds: float = 10.0
    shutdown_seconds: int = 5


class Guest(Protocol):
    """A connection, as the door sees it."""

    def turn_out(self) -> None:
        """Close it at once."""


class Door:
    """Counts connections. If there are too many, the oldest stranger goes first: strangers keep no member out."""

    def __init__(self, most: int, most_of_member: int) -> None:
        self._most, self._most_of_member = most, most_of_member
        self._strangers: dict[Guest, None] = {}
        self._members: dict[int, dict[Guest, None]] = {}
        self._groups: dict[Guest, dict[Guest, None]] = {}  # the dict of each guest

    def __len__(self) -> int:
        return len(self._groups)

    def enter(self, guest: Guest) -> bool:
        if len(self) >= self._most:
            if not self._strangers:
                return False
            self._turn_out_oldest(self._strangers)
        self._move(guest, self._strangers)
        return True

    def admit(self, guest: Guest, client: int) -> None:
        """Note that the other end has just proved to be this member."""
        group = self._members.setdefault(client, {})
        if guest in group or guest not in self._groups:
            return
        self._move(guest, group)
        if len(group) > self._most_of_member:
            self._turn_out_oldest(group)

    def is_member(self, guest: Guest) -> bool:
        return guest in self._groups and guest not in self._strangers

    def leave(self, guest: Guest) -> None:
        self._groups.pop(guest, {}).pop(guest, None)

    def _move(self, guest: Guest, group: dict[Guest, None]) -> None:
        self.leave(guest)
        self._groups[guest] = group
        group[guest] = None

    def _turn_out_oldest(self, group: dict[Guest, None]) -> None:
        oldest = next(iter(group))
        self.leave(oldest)
        oldest.turn_out()


class Room:
    """A number of bytes that requests share, first come, first served."""

    def __init__(self, size: int) -> None:
        self._left, self._turn, self._freed = size, asyncio.Lock(), asyncio.Event()

    async def take(self, size: int) -> None:
        """Wait until this many bytes are free, and hold them."""
        async with self._turn:
            while size > self._left:
                self._freed.clear()
                await self._freed.wait()
            self._left -= size

    def give(self, size: int) -> None:
        self._left += size
        self._freed.set()
