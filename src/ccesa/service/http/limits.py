"""Limits on the work and memory that clients can cost a hub, and who is let in when there are too many."""

import asyncio
from collections import deque
from dataclasses import dataclass
from typing import Protocol

KIB, MIB = 1 << 10, 1 << 20


@dataclass(frozen=True, kw_only=True)
class Limits:
    """How much, how many and how long, at most, in bytes and seconds.

    Attributes:
        connections: At a time, in all.
        connections_of_member: At a time, of one member.
        header_bytes: Of one request, with its first line.
        headers: Lines in it.
        header_seconds: Until a header is complete, from its first byte or the connection on.
        idle_seconds: Between two requests.
        linger_seconds: To send and read the rest before a connection is closed.
        linger_bytes: Read of an unwanted body, so that its sender can read the answer.
        failures: Failed authentications on one connection.
        lookups: Of tokens at a time, on connections that have not authenticated.
        sessions_per_minute: Of one member.
        wait_seconds: That a request can wait for a change.
        grace_seconds: By which a sender or a reader may fall behind the minimum rate.
        minimum_rate: Bytes per second.
        silence_seconds: Between two pieces of a body.
        yield_seconds: Without a piece, after which a newer request of the same member replaces a body.
        body_in_memory: Larger bodies are written to a file as they arrive.
        bodies_in_memory: Of all bodies together.
        room_seconds: That a body waits for memory; then it is written to a file, too.
        handshake_seconds: For TLS.
        shutdown_seconds: For requests under way when the hub stops.
    """

    connections: int = 20_000
    connections_of_member: int = 16
    header_bytes: int = 16 * KIB
    headers: int = 100
    header_seconds: float = 10.0
    idle_seconds: float = 75.0
    linger_seconds: float = 5.0
    linger_bytes: int = 4 * MIB
    failures: int = 3
    lookups: int = 64
    sessions_per_minute: int = 30
    wait_seconds: int = 60
    grace_seconds: float = 10.0
    minimum_rate: int = 8 * KIB
    silence_seconds: float = 30.0
    yield_seconds: float = 2.0
    body_in_memory: int = MIB
    bodies_in_memory: int = 64 * MIB
    room_seconds: float = 5.0
    handshake_seconds: float = 10.0
    shutdown_seconds: int = 5


class Guest(Protocol):
    """A connection, as the door sees it."""

    def turn_out(self) -> None:
        """Close it at once."""


class Door:
    """Keeps count of connections. When there are too many, the oldest stranger is turned out first.

    So a stranger that opens many connections keeps no member out.
    """

    def __init__(self, most: int, most_of_member: int) -> None:
        self._most, self._most_of_member = most, most_of_member
        self._strangers: dict[Guest, None] = {}
        self._members: dict[int, dict[Guest, None]] = {}
        #: In which of these dicts a guest is.
        self._groups: dict[Guest, dict[Guest, None]] = {}

    def __len__(self) -> int:
        return len(self._groups)

    def enter(self, guest: Guest) -> bool:
        if len(self) >= self._most:
            if not self._strangers:
                return False
            self._turn_out_oldest(self._strangers)
        self._move(guest, self._strangers)
        return True

    def know(self, guest: Guest, client: int) -> None:
        """Note that the other end has just proved to be this member."""
        group = self._members.setdefault(client, {})
        if guest in group or guest not in self._groups:
            return
        self._move(guest, group)
        if len(group) > self._most_of_member:
            self._turn_out_oldest(group)

    def knows(self, guest: Guest) -> bool:
        """Return whether the other end has proved to be a member."""
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
        self._left = size
        self._queue: deque[tuple[int, asyncio.Future[None]]] = deque()

    async def take(self, size: int) -> None:
        """Wait until this many bytes are free, and hold them."""
        if not self._queue and size <= self._left:
            self._left -= size
            return
        turn = asyncio.get_running_loop().create_future()
        self._queue.append((size, turn))
        try:
            await turn
        except asyncio.CancelledError:
            if not turn.cancelled():  # it was its turn just now
                self._left += size
            self._next()
            raise

    def give(self, size: int) -> None:
        self._left += size
        self._next()

    def _next(self) -> None:
        while self._queue and (self._queue[0][1].cancelled() or self._queue[0][0] <= self._left):
            size, turn = self._queue.popleft()
            if not turn.cancelled():
                self._left -= size
                turn.set_result(None)
