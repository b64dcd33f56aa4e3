"""Where attacks take place: real clients, a real server, and every message through the attacker's hands."""

from collections import defaultdict
from collections.abc import Callable, Collection, Iterable, Mapping, MutableSet
from typing import Any

import msgspec
import numpy as np

from attacks.base import Outcome, Tell
from attacks.colluders import ActiveColluder, Colluder
from attacks.transcript import StillHidden, Transcript
from ccesa import ring
from ccesa.charter import Charter
from ccesa.config import Floor, RoundConfig
from ccesa.errors import FaultyClient, FaultyServer, OrderError, RoundFailed
from ccesa.protocol import messages as m
from ccesa.protocol.client import ActiveClient, Client
from ccesa.protocol.server import ActiveServer, Server
from ccesa.protocol.steps import Requests
from ccesa.ring import Vector
from ccesa.simulate.enrolment import chartered, enrol

Vectors = Mapping[int, Vector]
#: Of a client and the honest request for it, what the server sends instead.
Lie = Callable[[int, bytes], bytes]


def honestly(client: int, request: bytes) -> bytes:
    return request


class Stage:
    """A round between steps: ``requests`` lie open, and the attacker decides what becomes of them."""

    def __init__(self, server: Server, clients: Mapping[int, Client], vectors: Vectors, tell: Tell) -> None:
        self.server, self.clients, self.vectors, self.tell = server, clients, vectors, tell
        self.config = server.config
        self.transcript = Transcript(server.config)
        self.aborted: dict[int, str] = {}
        self.failure: RoundFailed | None = None
        self.requests: Requests = server.open()
        for client in clients.values():
            if isinstance(client, Colluder):
                client.report_to(self.transcript)

    def ask(self, client: int, request: bytes) -> bytes | None:
        """What this client answers; None if it has aborted."""
        if client in self.aborted:
            return None
        self.transcript.overhear(client, request)
        try:
            reply = self.clients[client].receive(request)
        except (FaultyServer, OrderError) as error:
            self.aborted[client] = str(error)
            return None
        message = m.decode(reply, len(reply))
        if isinstance(message, m.Complaint):
            accused = m.unpack_ids("accused", message.accused, self.config.clients)
            self.aborted[client] = f"it cannot use what {names(accused.tolist())} sealed for it"
            return reply
        self.transcript.overhear(client, reply)
        return reply

    def step(self, gone: Iterable[int] = (), lie: Lie = honestly) -> None:
        """One step of the server, with those gone whom it pretends not to have heard."""
        name, gone = self.server.step.name, set(gone)
        answered = 0
        for client, request in self.requests.items():
            reply = None if client in gone else self.ask(client, lie(client, request))
            if reply is not None:
                answered += 1
                self.hand_over(client, reply)
        self.tell(f"  step {name}: {answered} of {len(self.requests)} clients answered")
        try:
            self.requests = self.server.close()
        except RoundFailed as failure:
            self.failure, self.requests = failure, {}

    def ask_all(self, lie: Lie = honestly) -> None:
        """The open requests, without a word to the honest server about the answers."""
        for client, request in self.requests.items():
            self.ask(client, lie(client, request))

    def hand_over(self, client: int, reply: bytes) -> None:
        """To the real server."""
        try:
            self.server.receive(client, reply)
        except FaultyClient as fault:
            self.tell(f"  the server cannot use an answer: {fault}")

    def until(self, name: str, gone: Mapping[str, Iterable[int]] = {}) -> "Stage":
        """Honest steps until the one of this name is open, or the round is over."""
        while self.requests and self.server.step.name != name:
            self.step(gone.get(self.server.step.name, ()))
        return self

    def finish(self, gone: Mapping[str, Iterable[int]] = {}) -> Vector:
        """The sum as the honest steps give it."""
        self.until("", gone)
        return self.server.result().vector

    def tell_aborts(self) -> None:
        """Every client that noticed, by what it noticed."""
        reasons: dict[str, list[int]] = defaultdict(list)
        for client, reason in self.aborted.items():
            reasons[reason].append(client)
        shown = sorted(reasons.items(), key=lambda item: -len(item[1]))
        for reason, clients in shown[:4]:
            self.tell(f"  {names(clients)} aborted: {reason}")
        if len(shown) > 4:
            rest = [client for _, clients in shown[4:] for client in clients]
            self.tell(f"  {names(rest)} aborted for the like reasons")

    def steal(self, group: Collection[int], *, self_masked: bool = True) -> Outcome:
        """Try to open the sum of these clients; the end of most attacks."""
        self.tell_aborts()
        wanted = self.plain_sum(group)
        try:
            found = self.transcript.open(group, self_masked=self_masked)
        except StillHidden as hidden:
            return Outcome(succeeded=False, summary=f"{self._aborts_in_short()}{hidden}", victim=wanted)
        return opened(found, wanted, f"the server computed what {names(group)} sent")

    def plain_sum(self, group: Iterable[int]) -> Vector:
        total = ring.zeros(self.config.length, self.config.bits)
        for client in group:
            total += self.vectors[client]
        return total

    def _aborts_in_short(self) -> str:
        if not self.aborted:
            return ""
        first = next(iter(self.aborted))
        return f"{names(self.aborted)} aborted ({self.aborted[first]}); "


def opened(found: Vector, wanted: Vector, how: str) -> Outcome:
    """Stolen only if it is exactly what the victim has."""
    same = bool(np.array_equal(found, wanted))
    summary = how if same else "what the server computed is not what was sent"
    return Outcome(succeeded=same, summary=summary, stolen=found, victim=wanted)


def curious(
    config: RoundConfig,
    tell: Tell,
    *,
    kind: type[Client] = Client,
    server: type[Server] = Server,
    colluders: Collection[int] = (),
    vectors: Vectors | None = None,
    used_rounds: Mapping[int, MutableSet[bytes]] = {},
    floor: Floor | None = None,
) -> Stage:
    """A round under the guard ``curious``."""
    vectors = vectors or inputs(config)
    kinds = {i: Colluder if i in colluders else kind for i in range(config.clients)}
    floors = {i: None if i in colluders else floor for i in kinds}
    clients = {
        i: kinds[i](config, i, vectors[i], used_rounds=used_rounds.get(i), floor=floors[i]) for i in kinds
    }
    return Stage(server(config), clients, vectors, tell)


def active(
    clients: int,
    tell: Tell,
    *,
    kind: type[ActiveClient] = ActiveClient,
    server: type[ActiveServer] = ActiveServer,
    colluders: Collection[int] = (),
    colluder: type[ActiveColluder] = ActiveColluder,
    make_charter: Callable[..., Charter] = chartered,
    vectors: Vectors | None = None,
    length: int = 8,
    **agreed: Any,
) -> Stage:
    """A round under the guard ``active``, among the members of one charter."""
    identities = enrol(clients)
    charter = make_charter(identities, **agreed)
    config = charter.config(length=length)
    vectors = vectors or inputs(config)
    made = {
        i: (colluder if i in colluders else kind)(config, identities[i], charter, vectors[i], tasks=None)
        for i in range(clients)
    }
    return Stage(server(config, charter), made, vectors, tell)


def inputs(config: RoundConfig) -> dict[int, Vector]:
    """Random vectors: one that is found again was not guessed."""
    random = np.random.default_rng()
    kind = ring.dtype(config.bits)
    return {i: np.frombuffer(random.bytes(config.vector_bytes), kind) for i in range(config.clients)}


def changed(message: bytes, **fields: Any) -> bytes:
    """The same message with other fields."""
    return msgspec.structs.replace(m.decode(message, len(message)), **fields).encode()


def ids(*numbers: int) -> bytes:
    return np.array(numbers, "<u4").tobytes()


def names(clients: Iterable[int]) -> str:
    numbers = list(clients)
    if len(numbers) == 1:
        return f"client {numbers[0]}"
    shown = ", ".join(map(str, sorted(numbers)[:8]))
    return f"clients {shown}" + (f", … ({len(numbers)} in all)" if len(numbers) > 8 else "")
