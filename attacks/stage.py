"""Where attacks take place: real clients, a real server, and every message through the attacker's hands."""

from collections import defaultdict
from collections.abc import Callable, Collection, Iterable, Mapping, MutableSet, Sequence
from functools import partial
from typing import Any

import msgspec
import numpy as np

from attacks.base import Outcome, Tell
from attacks.colluders import ActiveColluder, Colluder
from attacks.eavesdropper import Eavesdropper, StillHidden
from attacks.hostile import HostileRound
from ccesa import words
from ccesa.agreement.charter import Charter
from ccesa.agreement.config import Floor, RoundConfig
from ccesa.agreement.identity import Identity
from ccesa.errors import FaultyClient, FaultyServer, OrderError, RoundFailed, TaskSpent
from ccesa.guards import guard_named
from ccesa.protocol import messages as m
from ccesa.protocol.client import ActiveClient, Client
from ccesa.protocol.server import Server
from ccesa.simulate.enrolment import enrol, fresh_account, make_charter
from ccesa.words import Vector

Vectors = Mapping[int, Vector]
LENGTH = 8


class Stage(HostileRound):
    """A round that goes on whoever aborts or is refused, and in which the attacker overhears everything."""

    def __init__(
        self,
        server: Server,
        clients: Mapping[int, Client],
        vectors: Vectors,
        tell: Tell,
        identities: Sequence[Identity] = (),
    ) -> None:
        super().__init__(server, clients, vectors)
        self.tell, self.identities = tell, identities
        self.overheard = Eavesdropper(self.config)
        self.aborted: dict[int, str] = {}
        self.refused: dict[int, str] = {}
        self.failure: RoundFailed | None = None
        for client in clients.values():
            if isinstance(client, Colluder):
                client.report_to(self.overheard)

    def ask(self, client: int, request: bytes) -> bytes | None:
        """Return what this client answers; None if it has aborted."""
        if client in self.aborted:
            return None
        self.overheard.overhear(client, request)
        try:
            reply = self.clients[client].receive(request)
        except (FaultyServer, OrderError, TaskSpent) as error:
            self.aborted[client] = str(error)
            return None
        message = m.decode(reply, len(reply))
        if isinstance(message, m.Complaint):
            accused = m.unpack_ids("accused", message.accused, self.config.clients)
            self.aborted[client] = f"it cannot use what {names(accused.tolist())} sealed for it"
        self.overheard.overhear(client, reply)
        return reply

    def hand_over(self, client: int, reply: bytes) -> None:
        """Give a reply to the real server, and tell what it refuses."""
        try:
            super().hand_over(client, reply)
        except FaultyClient as fault:
            self.refused[client] = str(fault)
            self.tell(f"  the server refuses an answer: {fault}")

    def close(self) -> None:
        """Close the step, and tell who answered; a round that fails has no requests left."""
        answered = len(self.requests) - len(self.server.waiting)
        self.tell(f"  step {self.server.step.name}: {answered} of {len(self.requests)} clients answered")
        try:
            super().close()
        except RoundFailed as failure:
            self.failure, self.requests = failure, {}

    def look_ahead(self) -> None:
        """Let the attacker read the open requests before they are sent: they tell the graph."""
        for client, request in self.requests.items():
            self.overheard.overhear(client, request)

    @property
    def is_right(self) -> bool:
        """Whether there is a sum that is exactly that of the clients the server names."""
        found = self.server.aggregate
        return found is not None and np.array_equal(found.vector, self.expected(found.survivors))

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
        wanted = self.expected(group)
        try:
            found = self.overheard.open(group, self_masked=self_masked)
        except StillHidden as hidden:
            return Outcome(succeeded=False, summary=f"{self._aborts_in_short()}{hidden}", victim=wanted)
        return opened(found, wanted, f"the server computed what {names(group)} sent")

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
    clients = {i: kinds[i](config, i, vectors[i], used_rounds=used_rounds.get(i), floor=floors[i]) for i in kinds}
    return Stage(server(config), clients, vectors, tell)


def active(
    clients: int,
    tell: Tell,
    *,
    kind: type[ActiveClient] = ActiveClient,
    server: type[Server] = Server,
    colluders: Collection[int] = (),
    colluder: type[ActiveColluder] = ActiveColluder,
    make_charter: Callable[..., Charter] = make_charter,
    vectors: Vectors | None = None,
    length: int = LENGTH,
    accept: bool = False,
    **agreed: Any,
) -> Stage:
    """A round under the guard ``active``, among the members of one charter."""
    identities = enrol(clients)
    charter = make_charter(identities, **agreed)
    config = charter.config(length=length, accept=accept)
    vectors = vectors or inputs(config)
    made = {
        i: (colluder if i in colluders else kind)(
            config, identities[i], charter, partial(vectors.__getitem__, i), tasks=None, account=fresh_account(charter)
        )
        for i in range(clients)
    }
    return Stage(server(config, charter), made, vectors, tell)


def under(
    guard: str,
    tell: Tell,
    *,
    clients: int = 9,
    server: type[Server] = Server,
    crooked: Mapping[int, type[Client]] = {},
    accept: bool = False,
    **fields: Any,
) -> Stage:
    """A round under either guard, with a server that is weakened and a few clients that are crooked."""
    kinds = {i: crooked.get(i, Client) for i in range(clients)}
    if not guard_named(guard).chartered:
        config = RoundConfig(clients=clients, length=LENGTH, accept=accept, **fields)
        vectors = inputs(config)
        return Stage(server(config), {i: kinds[i](config, i, vectors[i]) for i in kinds}, vectors, tell)
    identities = enrol(clients)
    charter = make_charter(identities, **fields)
    config = charter.config(length=LENGTH, accept=accept)
    vectors = inputs(config)
    made = {i: _also(ActiveClient, kinds[i])(config, identities[i], charter, vectors[i], tasks=None) for i in kinds}
    return Stage(server(config, charter), made, vectors, tell, identities)


def _also(active: type[Any], kind: type[Any]) -> type[Any]:
    """The active class, with what ``kind`` changes in the class that both are made from."""
    return active if issubclass(active, kind) else type(kind.__name__, (active, kind), {})


def inputs(config: RoundConfig) -> dict[int, Vector]:
    """Random vectors: one that is found again was not guessed."""
    random = np.random.default_rng()
    kind = words.dtype(config.bits)
    return {i: np.frombuffer(random.bytes(config.vector_bytes), kind) for i in range(config.clients)}


def changed(message: bytes, **fields: Any) -> bytes:
    """Return the same message with other fields."""
    return msgspec.structs.replace(m.decode(message, len(message)), **fields).encode()


def ids(*numbers: int) -> bytes:
    return np.array(numbers, "<u4").tobytes()


def names(clients: Iterable[int]) -> str:
    numbers = list(clients)
    if len(numbers) == 1:
        return f"client {numbers[0]}"
    shown = ", ".join(map(str, sorted(numbers)[:8]))
    return f"clients {shown}" + (f", ... ({len(numbers)} in all)" if len(numbers) > 8 else "")
