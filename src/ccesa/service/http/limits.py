"""Limits on what anybody can make a hub do or hold, and who is let in where there are too many."""

import asyncio
from collections import deque
from dataclasses import dataclass
from typing import Protocol

KIB, MIB = 1 << 10, 1 << 20


@dataclass(frozen=True, kw_only=True)
class Limits:
    """How much, how many and how long, at most. Seconds and bytes.

    Attributes:
        connections: At a time, in all.
        connections_of_member: At a time, of one member.
        header_bytes: Of one request, with its first line.
        headers: Lines in it.
        header_seconds: Until it is complete, from its first byte or the connection on.
        idle_seconds: Between two requests.
        linger_seconds: For what is still on its way to or from a connection that is to be closed.
        linger_bytes: Of a body that nobody wants are read, so that its sender can read why.
        failures: Failed authentications on one connection.
        lookups: Of tokens on connections of strangers, at a time.
        sessions_per_minute: Of one member.
        wait_seconds: That a request can ask to be kept waiting.
        grace_seconds: By which a body, or whoever reads an answer, may fall behind the least rate.
        least_rate: Bytes per second.
        silence_seconds: Between two pieces of a body.
        yield_seconds: Of silence, after which a body yields to a newer request of the same member.
        body_in_memory: Larger bodies are written to a file as they come.
        bodies_in_memory: Bytes of all bodies that are held at a time.
        room_seconds: That a body waits for others to leave room; then it is written to a file, too.
        handshake_seconds: For TLS.
        shutdown_seconds: For what is under way when the hub is stopped.
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
    least_rate: int = 8 * KIB
    silence_seconds: float = 30.0
    yield_seconds: float = 2.0
    body_in_memory: int = MIB
    bodies_in_memory: int = 64 * MIB
    room_seconds: float = 5.0
    handshake_seconds: float = 10.0
    shutdown_seconds: int = 5


class Guest(Protocol):
    """A connection, as far as the door knows it."""

    def turn_out(self) -> None:
        """Close it at once."""


class Door:
    """Who is connected. Strangers make room for members, and the oldest of them goes first.

    So whoever opens connections and says nothing, or nothing true, keeps nobody out.
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
        """Let a new connection in, as a stranger; False where there is no room."""
        if len(self) >= self._most:
            if not self._strangers:
                return False
            self._turn_out_oldest(self._strangers)
        self._move(guest, self._strangers)
        return True

    def know(self, guest: Guest, client: int) -> None:
        """Note that a member has just proved that it is at the other end."""
        group = self._members.setdefault(client, {})
        if guest in group or guest not in self._groups:
            return
        self._move(guest, group)
        if len(group) > self._most_of_member:
            self._turn_out_oldest(group)

    def knows(self, guest: Guest) -> bool:
        """Tell whether a member was at the other end before."""
        return guest in self._groups and guest not in self._strangers

    def leave(self, guest: Guest) -> None:
        """Forget a connection that is closed."""
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
    """So many bytes, which requests share; whoever finds none left waits for its turn."""

    def __init__(self, size: int) -> None:
        self._left = size
        self._queue: deque[tuple[int, asyncio.Future[None]]] = deque()

    async def take(self, size: int) -> None:
        """Wait until so many bytes are free, and hold them."""
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
        """Give so many bytes back."""
        self._left += size
        self._next()

    def _next(self) -> None:
        while self._queue and (self._queue[0][1].cancelled() or self._queue[0][0] <= self._left):
            size, turn = self._queue.popleft()
            if not turn.cancelled():
                self._left -= size
                turn.set_result(None)
