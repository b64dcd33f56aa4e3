"""What a server knows after each step: one type per state, and what stays the same through a round.

States are frozen but for what grows with every reply, because a copy of it would be too much: the public
keys that were seen, what was sealed, the deposits, the running sum and the released shares.
"""

from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import Executor
from dataclasses import dataclass, field, fields
from functools import cached_property
from typing import Any, Generic, NamedTuple, TypeVar

import numpy as np
from numpy.typing import NDArray

from ccesa.agreement.config import RoundConfig
from ccesa.crypto import shamir
from ccesa.crypto.keys import X25519
from ccesa.evidence import WrongShare
from ccesa.graphs.assignment import AssignmentGraph, Flags, Holders, Nodes
from ccesa.graphs.evolution import Evolution
from ccesa.protocol import messages as m
from ccesa.words import Vector

#: Byte strings of one size, one for each node or for each edge.
Rows = NDArray[np.uint8]
#: Returns what a request says about one node.
ByNode = Callable[[int], bytes]
#: What goes to each client, by id, ascending.
Requests = Mapping[int, bytes]

Own = TypeVar("Own", covariant=True)
Later = TypeVar("Later", bound="Drawn")


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


@dataclass(frozen=True, kw_only=True)
class ServerRound(Generic[Own]):
    """A round is what stays the same through the steps of one server."""

    config: RoundConfig
    context: bytes
    #: What the server itself holds to: what was agreed on.
    own: Own
    random: shamir.Randomness = field(repr=False)
    threads: int
    #: Takes masks off elsewhere, where there is one.
    executor: Executor | None = field(repr=False)
    #: What clients are asked to work on, by its digest; known when step 2 opens.
    task: bytes
    #: The fraction of clients that may still leave once the shares are accepted.
    dropout: float

    def requests(self, graph: AssignmentGraph, to: Flags, make: Callable[[int, dict[str, Any]], m.Message]) -> Requests:
        """Return a request for each of these nodes; ``make`` gets the node and the head of its message."""
        ids, head = graph.ids.tolist(), {"context": self.context}
        nodes = {ids[node]: node for node in np.flatnonzero(to).tolist()}
        return MadeOnDemand(nodes, lambda node: make(node, {**head, "client": ids[node]}).encode())


# States, in the order of the steps


@dataclass(frozen=True, kw_only=True, eq=False)
class Advertising:
    """While step 0 is open, keys come in."""

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
    """While step 1 is open, sealed texts come in, and are kept by the edge that they go over."""

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
        """Return by node what a client knows of V2: its own id and those of its neighbours in it."""
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


def grow(kind: type[Later], state: Drawn, **more: object) -> Later:
    """Return a later state: what it has in common with an earlier one, and more."""
    common = {one.name: getattr(state, one.name) for one in fields(kind) if hasattr(state, one.name)}
    return kind(**common | more)


# What a server keeps of every edge


class PairSeeds:
    """What the ends of each edge said about their pair seeds: a client that drops out is held to it.

    Commitments come with the sealed texts, deposits when these are accepted; both by the graph as drawn.
    Where an agreement has no pair seeds, all of them are empty.
    """

    def __init__(self, agreement: X25519, graph: AssignmentGraph, sealed: Rows) -> None:
        self._graph = graph
        #: What is sealed ends in the commitment to the seed in it.
        self._commitments = sealed[:, agreement.text_bytes - agreement.commitment_bytes :].copy()
        self._deposits = np.zeros((len(sealed), agreement.deposit_bytes), np.uint8)

    def keep(self, node: int, given: Flags, deposits: bytes) -> None:
        """Keep the deposits of one node, of the seeds that these of its neighbours gave it."""
        rows = np.frombuffer(deposits, np.uint8).reshape(int(given.sum()), self._deposits.shape[1])
        self._deposits[self._graph.edges(node)][given] = rows

    def commitment(self, node: int, neighbour: int) -> bytes:
        """Return what binds a node to the seed that it gave this neighbour."""
        return self._commitments[self._graph.edge(node, neighbour)].tobytes()

    def deposit(self, node: int, neighbour: int) -> bytes:
        """Return what a node deposited of the seed that this neighbour gave it."""
        if not self._deposits.shape[1]:  # an edge takes time to find
            return b""
        return self._deposits[self._graph.edge(node, neighbour)].tobytes()


class Shares(NamedTuple):
    """Shares of some dealers stand one dealer after the other; ``rows`` says whose each is."""

    rows: Nodes
    holders: Nodes
    xs: Nodes
    elements: shamir.Elements


class ReleasedShares:
    """Every client releases a share of its own secret, and of each of its neighbours' in V2."""

    def __init__(self, graph: AssignmentGraph, v2: Flags) -> None:
        self._holders = Holders.of(graph)
        rows = np.concatenate([[0], np.cumsum(v2[self._holders.nodes])])
        #: By holder, then dealer in V2: each client's lie together, as they come. This is where.
        self._bounds: list[int] = rows[self._holders.starts].tolist()
        #: By place in a holder's closed neighbourhood: the row of what it holds of the dealer there.
        self._rows = rows[:-1]
        self._elements = np.zeros((self._bounds[-1], shamir.SECRET_ELEMENTS), np.uint16)

    def due(self, holder: int) -> int:
        """Count the shares that one client has to release."""
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


# What requests say about the neighbours of each node is packed for all of them at once, and cut


def cut(packed: bytes, sizes: Nodes) -> ByNode:
    """Cut these bytes, which stand one node's after the other, into parts of these sizes."""
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
