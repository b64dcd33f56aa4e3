"""A crowd for a hub: many participants in one process, each the real core with a connection of its own.

Every participant is ``service.participant.core``, with its cryptography and its checks. What carries it is
as little of HTTP/1.1 as that takes, because a thousand clients of httpx would be what is measured.
"""

import asyncio
import hashlib
import os
import random
import resource
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from ccesa.agreement.charter import Charter
from ccesa.agreement.identity import Identity
from ccesa.errors import ConfigError
from ccesa.memory import ProcessMemory
from ccesa.plan import Plan, plan
from ccesa.service.participant.calls import Call, Event, Flow, HubAnswer, Pause
from ccesa.service.participant.core import take_part
from ccesa.service.participant.site import Site, standing_of
from ccesa.simulate.enrolment import make_charter
from ccesa.words import Vector

DROPOUT = 0.1
#: Seconds after which a hub that says nothing is given up, beside those that it was asked to wait.
SILENCE = 120.0
#: Connections that are made at a time.
AT_A_TIME = 64
#: The most bytes of a header.
_HEADER = 1 << 16


@dataclass(frozen=True)
class Case:
    """Who takes part, and in what. Every process makes the rest from it, all the same."""

    guard: str
    clients: int
    words: int
    rounds: int = 1
    degree: int | None = None

    @cached_property
    def planned(self) -> Plan:
        """The plan that all rounds follow."""
        return plan(self.clients, DROPOUT, guard=self.guard, length=self.words, accept=True, degree=self.degree)

    @cached_property
    def charter(self) -> Charter | None:
        """The charter of all members, under the guard that has one."""
        if self.guard != "active":
            return None
        planned, members = self.planned, [self.identity(client) for client in range(self.clients)]
        return make_charter(
            members, graph=planned.graph, threshold=planned.threshold, min_survivors=planned.min_survivors
        )

    @property
    def edges(self) -> int:
        """Pairs of neighbours."""
        return round(self.clients * self.planned.degree / 2)

    def identity(self, client: int) -> Identity:
        """Return the identity of a member, which everyone could guess."""
        return Identity(hashlib.sha256(b"bench %d" % client).digest())

    def token(self, client: int) -> str:
        """Return the token of a client, which everyone could guess."""
        return f"bench-{client}"

    def vector(self, client: int, question: int) -> Vector:
        """Return what a client contributes to an answer."""
        every = np.random.default_rng([client, question])
        return every.integers(2**32, size=self.words, dtype=np.uint32)

    def site(self, client: int, origin: str, tell: Callable[[Event], None]) -> Site:
        """Return what a participant brings along."""

        def contribute(task: bytes, number: int) -> Vector:
            return self.vector(client, int(task.rpartition(b"#")[2]))

        who: dict[str, Any] = (
            {"token": self.token(client), "client": client}
            if self.charter is None
            else {"charter": self.charter, "identity": self.identity(client)}
        )
        standing = standing_of(origin=origin, **who)
        return Site(standing=standing, contribute=contribute, memory=ProcessMemory(), threads=1, tell=tell)


class Sent(NamedTuple):
    """One reply that the hub has answered; times are seconds since 1970."""

    client: int
    exchange: int
    bytes: int
    began: float
    ended: float
    status: int


@dataclass
class Seen:
    """What a crowd saw."""

    sent: list[Sent] = field(default_factory=list)
    #: How often participants said something of each kind.
    told: dict[str, int] = field(default_factory=dict)
    bytes_out: int = 0
    bytes_in: int = 0
    cpu_s: float = 0.0
    #: Of vectors that were held back: how many, in how long, and what each hub needed for them.
    bursts: list[dict[str, Any]] = field(default_factory=list)

    def tell(self, event: Event) -> None:
        """Count what a participant says."""
        self.told[event.kind] = self.told.get(event.kind, 0) + 1


class Hold:
    """Holds replies with vectors back until all of one exchange are ready: their senders are cheap then."""

    def __init__(self, clients: int, least_bytes: int, seen: Seen, hubs: Sequence[int]) -> None:
        self._clients, self._least, self._seen, self._hubs = clients, least_bytes, seen, hubs
        self._ready: dict[str, asyncio.Event] = {}
        self._waiting: dict[str, int] = {}
        self._left: dict[str, int] = {}
        self._began: tuple[float, list[float]] = (0.0, [])

    def holds(self, call: Call) -> bool:
        """Tell whether this call hands a vector in."""
        return call.method == "PUT" and len(call.body) >= self._least

    async def wait(self, call: Call) -> None:
        """Wait for the others."""
        ready = self._ready.setdefault(call.path, asyncio.Event())
        self._waiting[call.path] = self._waiting.get(call.path, 0) + 1
        if self._waiting[call.path] == self._clients:
            self._left[call.path] = self._clients
            self._began = time.time(), self._used()
            ready.set()
        await ready.wait()

    def taken(self, call: Call) -> None:
        """Note that a hub has one; with the last one, what all of them took."""
        self._left[call.path] -= 1
        if not self._left[call.path]:
            began, before = self._began
            used = [after - first for first, after in zip(before, self._used(), strict=True)]
            self._seen.bursts.append({"replies": self._clients, "wall_s": time.time() - began, "hubs_cpu_s": used})

    def _used(self) -> list[float]:
        return [processor_seconds(f"/proc/{pid}/stat") for pid in self._hubs]


def processor_seconds(stat: str) -> float:
    """Return what a process, or a thread, has used."""
    found = Path(stat).read_text().rpartition(")")[2].split()
    return (int(found[11]) + int(found[12])) / os.sysconf("SC_CLK_TCK")


class Wire:
    """One connection to a hub, which is kept, and made anew where the hub has closed it."""

    def __init__(self, address: tuple[str, int], door: asyncio.Semaphore, seen: Seen) -> None:
        self._address, self._door, self._seen = address, door, seen
        self._reader: asyncio.StreamReader | None = None
        self._writer: asyncio.StreamWriter | None = None

    async def carry(self, call: Call) -> HubAnswer:
        """Make one call; where nothing comes back, the answer says why."""
        try:
            async with asyncio.timeout(SILENCE + call.wait):
                return await self._answer(call)
        except (OSError, EOFError, TimeoutError, ValueError, LookupError) as error:
            self.close()
            return HubAnswer(status=0, reason=f"{type(error).__name__} {error}")

    def close(self) -> None:
        """Close the connection."""
        if self._writer is not None:
            self._writer.close()
        self._reader = self._writer = None

    async def _answer(self, call: Call) -> HubAnswer:
        if self._reader is None or self._reader.at_eof() or self._writer is None:
            self.close()
            async with self._door:
                self._reader, self._writer = await asyncio.open_connection(*self._address, limit=_HEADER)
        head = _head(call, self._address)
        self._writer.write(head)
        if call.body:
            self._writer.write(call.body)
        await self._writer.drain()
        self._seen.bytes_out += len(head) + len(call.body)
        raw = await self._reader.readuntil(b"\r\n\r\n")
        status, headers = _parsed(raw)
        body = b""
        if status != 204 and call.method != "HEAD":
            body = await self._reader.readexactly(int(headers["content-length"]))
        self._seen.bytes_in += len(raw) + len(body)
        if headers.get("connection", "") == "close":
            self.close()
        return HubAnswer(status=status, headers=headers, body=body)


def _head(call: Call, address: tuple[str, int]) -> bytes:
    lines = [f"{call.method} {call.path} HTTP/1.1", f"host: {address[0]}:{address[1]}"]
    lines += [f"{name}: {value}" for name, value in call.headers.items()]
    if call.method not in ("GET", "HEAD"):
        lines.append(f"content-length: {len(call.body)}")
    return "\r\n".join([*lines, "", ""]).encode()


def _parsed(head: bytes) -> tuple[int, dict[str, str]]:
    first, *lines = head.decode("latin-1").split("\r\n")
    pairs = (line.partition(":") for line in lines if line)
    return int(first.split(" ")[1]), {name.lower(): value.strip() for name, _, value in pairs}


async def drive(
    core: Flow[None], wire: Wire, sent: Callable[[Call, float, HubAnswer], None], hold: Hold | None
) -> None:
    """Run one participant to its end."""
    answer: HubAnswer | None = None
    try:
        while True:
            wish = core.send(answer)
            if isinstance(wish, Pause):
                await asyncio.sleep(wish.seconds * random.uniform(0.5, 1.0))
                answer = None
                continue
            held = hold if hold is not None and hold.holds(wish) else None
            if held is not None:
                await held.wait(wish)
            began = time.time()
            answer = await wire.carry(wish)
            sent(wish, began, answer)
            if held is not None and answer.status == 204:
                held.taken(wish)
            await asyncio.sleep(0)
    except StopIteration:
        return
    finally:
        core.close()
        wire.close()


async def gather(
    case: Case, clients: Sequence[int], addresses: Sequence[tuple[str, int]], hold: Sequence[int] = ()
) -> Seen:
    """Let these clients take part until the federation is over; hubs are shared out in turn.

    Args:
        case: What in.
        clients: Ids.
        addresses: Host and port of each hub.
        hold: Given the processes of hubs, vectors wait for each other before they leave.
    """
    most_files()
    seen, door = Seen(), asyncio.Semaphore(AT_A_TIME)
    holding = Hold(len(clients), 4 * case.words, seen, hold) if hold else None

    def participant(client: int) -> "asyncio.Future[None]":
        address = addresses[client % len(addresses)]
        site = case.site(client, "http://{}:{}".format(*address), seen.tell)

        def sent(call: Call, began: float, answer: HubAnswer) -> None:
            if call.method == "PUT":
                exchange = int(call.path.split("/")[-2])
                seen.sent.append(Sent(client, exchange, len(call.body), began, time.time(), answer.status))

        return asyncio.ensure_future(drive(take_part(site), Wire(address, door, seen), sent, holding))

    start = time.process_time()
    async with asyncio.TaskGroup() as group:
        for one in map(participant, clients):
            group.create_task(_finished(one))
    seen.cpu_s = time.process_time() - start
    return seen


async def _finished(one: "asyncio.Future[None]") -> None:
    await one


def most_files() -> None:
    """Let this process have as many connections as it may."""
    _, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))


def plain_sum(case: Case, survivors: Sequence[int], question: int) -> Vector:
    """Return the sum that a hub should find."""
    if not survivors:
        raise ConfigError("nobody is in this sum")
    total = np.zeros(case.words, np.uint32)
    for client in survivors:
        total += case.vector(client, question)
    return total
