"""A round with lying clients among honest ones and a real server: the stage of the attacks by clients."""

from collections.abc import Callable, Collection, Iterable, Mapping
from typing import Any

import numpy as np

from attacks.base import Tell
from attacks.stage import inputs
from ccesa import ring
from ccesa.config import RoundConfig
from ccesa.errors import FaultyClient, FaultyServer, OrderError, RoundFailed
from ccesa.graphs.assignment import neighbourhood
from ccesa.identity import Identity
from ccesa.protocol import messages as m
from ccesa.protocol import signed_texts
from ccesa.protocol.client import ActiveClient, Client
from ccesa.protocol.server import ActiveServer, Server
from ccesa.protocol.steps import Requests
from ccesa.ring import Vector
from ccesa.simulate.enrolment import chartered, enrol

_LENGTH = 8
#: Of a client and its honest reply, all that it sends instead.
Lie = Callable[[int, bytes], Iterable[bytes]]


def honestly(client: int, reply: bytes) -> Iterable[bytes]:
    return (reply,)


class ClientRound:
    """One round, driven step by step. Only the server's own words decide how it ends."""

    def __init__(
        self,
        guard: str,
        tell: Tell,
        *,
        clients: int = 9,
        server: type[Server] = Server,
        crooked: Mapping[int, type[Client]] = {},
        **fields: Any,
    ) -> None:
        self.tell, self.identities = tell, list[Identity]()
        if guard == "active":
            self.identities = enrol(clients)
            self._enrol(server, crooked, fields)
        else:
            self.config = RoundConfig(clients=clients, length=_LENGTH, **fields)
            self.vectors = inputs(self.config)
            self.clients = {
                i: crooked.get(i, Client)(self.config, i, self.vectors[i]) for i in range(clients)
            }
            self.server = server(self.config)
        #: Everything that went over the network.
        self.traffic: list[tuple[int, bytes]] = []
        self.refused: dict[int, str] = {}
        self.aborted: dict[int, str] = {}
        self.failure: RoundFailed | None = None
        self.crash: Exception | None = None
        self.requests: Requests = self.server.open()

    def _enrol(
        self,
        server: type[Server],
        crooked: Mapping[int, type[Client]],
        fields: dict[str, Any],
    ) -> None:
        """The same classes under the active guard: what a weakened server leaves out is left out here too."""
        charter = chartered(self.identities, **fields)
        self.config = charter.config(length=_LENGTH)
        self.vectors = inputs(self.config)
        self.clients = {
            i: _under(ActiveClient, crooked.get(i, Client))(
                self.config, identity, charter, self.vectors[i], tasks=None
            )
            for i, identity in enumerate(self.identities)
        }
        self.server = _under(ActiveServer, server)(self.config, charter)

    def step(self, gone: Collection[int] = (), lie: Lie = honestly) -> None:
        for client, request in self.requests.items():
            self.traffic.append((client, request))
            if client in gone or client in self.aborted:
                continue
            try:
                honest = self.clients[client].receive(request)
            except (FaultyServer, OrderError) as error:
                self.aborted[client] = str(error)
                continue
            if m.named(honest) is m.Complaint:
                self.aborted[client] = "it cannot use what was sealed for it, and complains"
            for reply in lie(client, honest):
                self.traffic.append((client, reply))
                self.hand_over(client, reply)
        self._close()

    def hand_over(self, client: int, reply: bytes) -> None:
        try:
            self.server.receive(client, reply)
        except FaultyClient as fault:
            self.refused[client] = str(fault)
            self.tell(f"  the server refuses: {fault}")
        except (ValueError, IndexError) as error:  # a weakened server stumbles over what it did not check
            self.crash = self.crash or error
            self.tell(f"  the server crashes: {type(error).__name__}: {error}")

    def _close(self) -> None:
        name = self.server.step.name
        try:
            self.requests = self.server.close()
        except (RoundFailed, OrderError) as error:
            self.failure = error if isinstance(error, RoundFailed) else None
            self.requests = {}
            self.tell(f"  step {name}: {error}")
        except (ValueError, IndexError) as error:
            self.crash, self.requests = error, {}
            self.tell(f"  the server crashes: {type(error).__name__}: {error}")

    def until(self, name: str, gone: Mapping[str, Collection[int]] = {}) -> "ClientRound":
        while self.requests and self.server.step.name != name:
            self.step(gone.get(self.server.step.name, ()))
        return self

    def finish(self) -> "ClientRound":
        while self.requests:
            self.step()
        return self

    def ring_around(self, client: int) -> tuple[int, int, int]:
        """On a ring: the neighbour before, the one after, and the one after that."""
        before, after = self._neighbours(client)
        return before, after, next(i for i in self._neighbours(after) if i != client)

    def _neighbours(self, client: int) -> list[int]:
        """As each client learns them in step 1: told, or derived from the root."""
        data = self.requests[client]
        request = m.decode(data, len(data))
        if isinstance(request, m.ShareRequest):
            return m.unpack_ids("neighbours", request.neighbours, self.config.clients).tolist()
        root = m.expect(request, m.RosterRequest).root
        everyone = np.arange(self.config.clients)
        seed = signed_texts.seed(self.config.context, root)
        return neighbourhood(self.config.graph, seed, everyone, client).tolist()

    @property
    def sum(self) -> Vector | None:
        return self.server.aggregate.vector if self.server.aggregate else None

    @property
    def right(self) -> bool:
        """There is a sum, and it is exactly that of the clients that the server names."""
        aggregate = self.server.aggregate
        if aggregate is None:
            return False
        return bool(np.array_equal(aggregate.vector, self.plain_sum(aggregate.survivors)))

    def plain_sum(self, group: Iterable[int]) -> Vector:
        total = ring.zeros(self.config.length, self.config.bits)
        for client in group:
            total += self.vectors[client]
        return total


def _under(active: type[Any], kind: type[Any]) -> type[Any]:
    """The active class, with what ``kind`` changes in the class that both are made from."""
    return active if issubclass(active, kind) else type(kind.__name__, (active, kind), {})
