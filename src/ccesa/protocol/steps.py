"""A step is what opens it, what answers it, and the functions of both sides.

Each guard has one table of them, without and with *accept*, in the folder that has its name: nothing else
says what is legal when. A client in state k accepts the request of step k and nothing else; a server in step
k accepts its replies and nothing else. Drivers loop until the server has no requests left and never count
steps.
"""

from collections.abc import Callable, Iterator, Mapping
from importlib import import_module
from typing import Any, NamedTuple, Protocol

from ccesa.guards import guard_named
from ccesa.protocol import messages as m

#: What goes to each client, by id, ascending.
Requests = Mapping[int, bytes]
Kind = type[m.Message]


class MadeOnDemand(Requests):
    """Requests that are made when they are asked for, from any thread: all at once would be too much to hold.

    Whatever they are made from never changes: a request is the same bytes each time, also after later steps.
    """

    def __init__(self, nodes: dict[int, int], make: Callable[[int], bytes]) -> None:
        self._nodes, self._make = nodes, make

    def __getitem__(self, client: int) -> bytes:
        return self._make(self._nodes[client])

    def __iter__(self) -> Iterator[int]:
        return iter(self._nodes)

    def __len__(self) -> int:
        return len(self._nodes)

    def __contains__(self, client: object) -> bool:
        return client in self._nodes

    def __repr__(self) -> str:
        return f"<requests for {len(self)} clients>"


class Step(NamedTuple):
    """A step is one row of a guard's table. Functions take and return frozen states."""

    name: str
    request: Kind
    reply: Kind
    #: In which state the request finds a client.
    state: type
    #: Client: (round, state, request) -> (next state, reply).
    answer: Callable[[Any, Any, Any], tuple[Any, m.Message]]
    #: Server: (round, state, client, reply) -> what is kept of the reply. A faulty one leaves no trace.
    take: Callable[[Any, Any, int, Any], Any]
    #: Server: (round, state, what was kept by client) -> (next state, requests of the next step).
    close: Callable[[Any, Any, dict[int, Any]], tuple[Any, Requests]]
    #: What a client that cannot go on answers in place of the reply; it is out of the round then.
    instead: Kind | None = None

    @classmethod
    def of(
        cls, guard: str, file: str, request: Kind, reply: Kind, state: type, instead: Kind | None = None
    ) -> "Step":
        """Make a row from ``client_<file>.py`` and ``server_<file>.py`` in the package of a guard."""
        client, server = (import_module(f"{guard}.{side}_{file}") for side in ("client", "server"))
        name = file.split("_")[1]
        return cls(name, request, reply, state, client.answer, server.take, server.close, instead)

    @property
    def replies(self) -> tuple[Kind, ...]:
        """Return the kinds of message that answer the request."""
        return (self.reply,) if self.instead is None else (self.reply, self.instead)


class HasSteps(Protocol):
    """A round, as far as it says which steps it has."""

    @property
    def guard(self) -> str: ...
    @property
    def accept(self) -> bool: ...


def steps_of(round: HasSteps) -> tuple[Step, ...]:
    """Return the steps of a round in their order: the table of its guard, with *accept* or without."""
    return import_module(f"{__package__}.{guard_named(round.guard).name}").STEPS[round.accept]
