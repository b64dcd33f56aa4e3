"""A round step by step, with a hand on every message: the one driver for everything that is not honest.

Honest rounds are driven by ``ccesa.protocol.round.run_round``. Attacks, tests and fuzzing stop between steps,
change what is on its way, and look at what each party makes of it.
"""

from collections.abc import Callable, Collection, Mapping
from typing import Self

from ccesa import words
from ccesa.protocol.client import Client
from ccesa.protocol.server import Aggregate, Server
from ccesa.words import Vector

#: What becomes of a message to or from this client on its way.
Change = Callable[[int, bytes], bytes]


def as_it_is(client: int, message: bytes) -> bytes:
    return message


class HostileRound:
    """A round between steps: ``requests`` lie open, and the caller decides what becomes of them.

    Every message passes through ``ask`` or ``hand_over``, and every step ends in ``close``. What a party
    raises there goes up to the caller; a subclass that plays on notes it instead.
    """

    def __init__(self, server: Server, clients: Mapping[int, Client], vectors: Mapping[int, Vector]) -> None:
        self.server, self.clients, self.vectors = server, dict(clients), vectors
        self.config = server.config
        self.requests = dict(server.open())

    def ask(self, client: int, request: bytes) -> bytes | None:
        """Return what this client answers; None where it does not."""
        return self.clients[client].receive(request)

    def hand_over(self, client: int, reply: bytes) -> None:
        """Give a reply to the server."""
        self.server.receive(client, reply)

    def close(self) -> None:
        """Close the step, which opens the requests of the next one."""
        self.requests = dict(self.server.close())

    def replies(self, gone: Collection[int] = (), to_client: Change = as_it_is) -> dict[int, bytes]:
        """Ask everyone who is not gone; the server hears nothing of the answers."""
        asked = [client for client in self.requests if client not in gone]
        said = {client: self.ask(client, to_client(client, self.requests[client])) for client in asked}
        return {client: reply for client, reply in said.items() if reply is not None}

    def step(self, gone: Collection[int] = (), to_client: Change = as_it_is, to_server: Change = as_it_is) -> None:
        """Play one step, with those gone whom the server does not hear."""
        for client, reply in self.replies(gone, to_client).items():
            self.hand_over(client, to_server(client, reply))
        self.close()

    def until(self, name: str, gone: Mapping[str, Collection[int]] = {}) -> Self:
        """Play honest steps until the one of this name is open, or the round is over.

        ``gone`` has, by the name of a step, the clients of whom the server hears nothing in it.
        """
        while self.requests and self.server.step.name != name:
            self.step(gone.get(self.server.step.name, ()))
        return self

    def to_the_end(self, gone: Mapping[str, Collection[int]] = {}) -> Self:
        """Play honest steps until no requests are left."""
        return self.until("", gone)

    def finish(self, gone: Mapping[str, Collection[int]] = {}) -> Aggregate:
        """Play honest steps to the end; raise the failure if there is no sum."""
        return self.to_the_end(gone).server.result()

    def expected(self, group: Collection[int]) -> Vector:
        """Return the plain sum of what these clients put in."""
        total = words.zeros(self.config.length, self.config.bits)
        for client in group:
            total += self.vectors[client]
        return total
