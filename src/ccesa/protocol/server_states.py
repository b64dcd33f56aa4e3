"""The states of a server after each step, one type per state, and the round, which stays the same.

States are frozen but for the parts that grow with every reply, because copies would be too large.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping
from concurrent.futures import Executor
from dataclasses import dataclass, field, fields
from functools import cached_property
from typing import Any, Generic, NamedTuple, TypeVar

import msgspec
import numpy as np
from numpy.typing import NDArray

from ccesa.agreement.config import RoundConfig
from ccesa.crypto import shamir
from ccesa.crypto.keys import X25519
from ccesa.evidence import WrongShare
from ccesa.graphs.assignment import AssignmentGraph, Evolution, Flags, Holders, Nodes
from ccesa.protocol import messages as m
from ccesa.words import Vector

#: Byte strings of one size, one for each node or for each edge.
Rows = NDArray[np.uint8]
#: Returns the part of a request for one node.
ByNode = Callable[[int], bytes]
#: The request for each client, by id, ascending.
Requests = Mapping[int, bytes]

Own = TypeVar("Own", covariant=True)
Later = TypeVar("Later", bound="Drawn")


class MadeOnDemand(Requests):
    """Requests that are made on demand, from any thread, always the same bytes: all at once would be too large."""

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


def requests_for(clients: Iterable[int], message: m.Message) -> Requests:
    """Return this request for each client: it is the same for all but in the client's id."""
    return MadeOnDemand(
        {client: client for client in clients}, lambda client: msgspec.structs.replace(message, client=client).encode()
    )


@dataclass(frozen=True, kw_only=True)
class ServerRound(Generic[Own]):
    """Everything that stays the same through the steps of one server."""

    config: RoundConfig
    context: bytes
    own: Own
    random: shamir.Randomness = field(repr=False)
    threads: int
    executor: Executor | None = field(repr=False)
    #: Seconds since 1970; None stands for the system's clock.
    now: float | None
    #: The digest of the work that clients are asked for; known when step 2 opens.
    task: bytes
    #: The fraction of clients that may still leave after *accept*.
    dropout: float
    #: Whether replies come from a log: they were in time when they came.
    from_log: bool = False

    def requests(self, graph: AssignmentGraph, to: Flags, make: Callable[[int, dict[str, Any]], m.Message]) -> Requests:
        """Return a request for each of these nodes; ``make`` gets the node and the head of its message."""
        ids, head = graph.ids.tolist(), {"context": self.context}
        nodes = {ids[node]: node for node in np.flatnonzero(to).tolist()}
        return MadeOnDemand(nodes, lambda node: make(node, {**head, "client": ids[node]}).encode())


@dataclass(frozen=True, kw_only=True, eq=False)
class Advertising:
    #: All of them, in the order in which they came: none may come twice.
    public_keys: set[bytes] = field(default_factory=set)


@dataclass(frozen=True, kw_only=True, eq=False)
class Drawn:
    """After step 0 V1 is complete, and the graph over it is drawn."""

    graph: AssignmentGraph
    thresholds: Nodes
    mask_keys: list[bytes]


@dataclass(frozen=True, kw_only=True, eq=False)
class Sharing(Drawn):
    """While step 1 is open, sealed texts come in, and are kept by their edges."""

    sealed: Rows
    commitments: Rows


@dataclass(frozen=True, kw_only=True, eq=False)
class Delivered(Drawn):
    """After step 1 V2 has its shares. Masked vectors go into one running sum and are dropped."""

    v2: Flags
    #: To b_i, by node.
    commitments: Rows
    seeds: "PairSeeds" = field(repr=False)
    total: Vector = field(repr=False)

    @cached_property
    def ids_around(self) -> ByNode:
        return ids_around(self.graph, self.v2)


@dataclass(frozen=True, kw_only=True, eq=False)
class Settled(Delivered):
    """After step 2 the sum over V3 is complete, under its masks."""

    v3: Flags
    released: "ReleasedShares" = field(repr=False)


@dataclass(frozen=True, kw_only=True, eq=False)
class Unmasked(Settled):
    """After step 3 the total is the sum."""

    evolution: Evolution
    wrong_shares: frozenset[WrongShare]

    @property
    def survivors(self) -> tuple[int, ...]:
        """The ids of V3, ascending."""
        return self.evolution.ids(self.evolution.v3)


def grow(kind: type[Later], state: Drawn, **more: object) -> Later:
    """Return a later state: the fields that it has in common with an earlier one, and more."""
    common = {one.name: getattr(state, one.name) for one in fields(kind) if hasattr(state, one.name)}
    return kind(**common | more)


class PairSeeds:
    """The promises of both ends of each edge about their pair seeds: commitments in sealed texts, and deposits."""

    def __init__(self, agreement: X25519, graph: AssignmentGraph, sealed: Rows) -> None:
        self._graph = graph
        #: A sealed text ends with the commitment to its seed.
        self._commitments = sealed[:, agreement.text_bytes - agreement.commitment_bytes :].copy()
        self._deposits = np.zeros((len(sealed), agreement.deposit_bytes), np.uint8)

    def keep(self, node: int, given: Flags, deposits: bytes) -> None:
        """Keep the deposits of one node, of the seeds that these of its neighbours gave it."""
        rows = np.frombuffer(deposits, np.uint8).reshape(int(given.sum()), self._deposits.shape[1])
        self._deposits[self._graph.edges(node)][given] = rows

    def commitment(self, node: int, neighbour: int) -> bytes:
        return self._commitments[self._graph.edge(node, neighbour)].tobytes()

    def deposit(self, node: int, neighbour: int) -> bytes:
        """Return a node's deposit of the seed that this neighbour gave it."""
        if not self._deposits.shape[1]:  # an edge takes time to find
            return b""
        return self._deposits[self._graph.edge(node, neighbour)].tobytes()


class Shares(NamedTuple):
    """Shares of some dealers, one dealer after the other; ``rows`` gives the dealer of each."""

    rows: Nodes
    holders: Nodes
    xs: Nodes
    elements: shamir.Elements


class ReleasedShares:
    """Every client releases a share of its own secret, and of each of its neighbours' in V2."""

    def __init__(self, graph: AssignmentGraph, v2: Flags) -> None:
        self._holders = Holders.of(graph)
        rows = np.concatenate([[0], np.cumsum(v2[self._holders.nodes])])
        #: The shares of a holder are together, as they come, by dealer in V2, between these bounds.
        self._bounds: list[int] = rows[self._holders.starts].tolist()
        #: By place in a holder's closed neighbourhood: the row of its share of the dealer there.
        self._rows = rows[:-1]
        self._elements = np.zeros((self._bounds[-1], shamir.SECRET_ELEMENTS), np.uint16)

    def due(self, holder: int) -> int:
        return self._bounds[holder + 1] - self._bounds[holder]

    def keep(self, holder: int, shares: bytes) -> None:
        """Keep the shares that one client released, by ascending dealer; raises OutsideField."""
        # By its full shape: numpy would hand a single share on to all dealers.
        rows = shamir.from_bytes(shares).reshape(self.due(holder), shamir.SECRET_ELEMENTS)
        self._elements[self._bounds[holder] : self._bounds[holder + 1]] = rows

    def of(self, dealers: Nodes, v4: Flags, most: int | None = None) -> Shares:
        """Return the shares of these dealers in V2 that came; of each dealer only the first ``most``."""
        rows, places = self._holders.live(dealers, v4, most)
        holders, xs = self._holders.nodes[places], self._holders.xs[places]
        elements = self._elements.take(self._rows[self._holders.reverse[places]], axis=0)
        return Shares(rows, holders, xs, elements)


def cut(packed: bytes, sizes: Nodes) -> ByNode:
    """Cut bytes that were packed for all nodes at once into parts of these sizes, one per node."""
    ends = [0, *np.cumsum(sizes).tolist()]
    return lambda node: packed[ends[node] : ends[node + 1]]


def ids_near(graph: AssignmentGraph, chosen: Flags) -> ByNode:
    """Pack the ids of those neighbours of each node that are among the chosen nodes."""
    picked = chosen[graph.columns]
    return cut(m.pack_ids(graph.ids[graph.columns[picked]]), m.ID_BYTES * graph.count(picked))


def ids_around(graph: AssignmentGraph, chosen: Flags) -> ByNode:
    """Pack the same ids, and each node's own among them, ascending."""
    picked = chosen[graph.columns]
    counts, before = (graph.count(edges) for edges in (picked, picked & (graph.columns < graph.rows)))
    own = np.cumsum(counts) - counts + before
    ids = np.insert(graph.ids[graph.columns[picked]], own, graph.ids)
    return cut(m.pack_ids(ids), m.ID_BYTES * (counts + 1))
