"""A server has states that both guards know, and a record of what stays the same through a round.

States are frozen but for what grows with every reply, because a copy of it would be too much: the public
keys that were seen, what was sealed, the deposits, the running sum and the released shares.
"""

from collections.abc import Callable
from concurrent.futures import Executor
from dataclasses import dataclass, field, fields
from functools import cached_property
from typing import Any, Generic, TypeVar

import numpy as np
from numpy.typing import NDArray

from ccesa.agreement.config import RoundConfig
from ccesa.crypto import shamir
from ccesa.evidence import WrongShare
from ccesa.graphs.assignment import AssignmentGraph, Flags, Nodes
from ccesa.graphs.evolution import Evolution
from ccesa.protocol import messages as m
from ccesa.protocol.packing import ByNode, ids_around
from ccesa.protocol.pair_seeds import PairSeeds
from ccesa.protocol.released_shares import ReleasedShares
from ccesa.protocol.steps import MadeOnDemand, Requests
from ccesa.words import Vector

#: Byte strings of one size, one for each node or for each edge.
Rows = NDArray[np.uint8]

Own = TypeVar("Own")
Later = TypeVar("Later", bound="Drawn")


@dataclass(frozen=True, kw_only=True)
class Round(Generic[Own]):
    """A round is what stays the same through the steps of one server."""

    config: RoundConfig
    context: bytes
    #: What the server itself holds to: the charter, where there is one.
    own: Own
    random: shamir.Randomness = field(repr=False)
    threads: int
    #: Takes masks off elsewhere, where there is one.
    executor: Executor | None = field(repr=False)
    #: What clients are asked to work on, by its digest; known when step 2 opens.
    task: bytes
    #: The fraction of clients that may still leave once the shares are accepted.
    dropout: float

    def requests(
        self, graph: AssignmentGraph, to: Flags, make: Callable[[int, dict[str, Any]], m.Message]
    ) -> Requests:
        """Return a request for each of these nodes; ``make`` gets the node and the head of its message."""

        nodes, ids = np.flatnonzero(to).tolist(), graph.ids.tolist()

        def encoded(node: int) -> bytes:
            return make(node, {"context": self.context, "client": ids[node]}).encode()

        return MadeOnDemand({ids[node]: node for node in nodes}, encoded)


@dataclass(frozen=True, kw_only=True, eq=False)
class Opened:
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
    seeds: PairSeeds = field(repr=False)
    total: Vector = field(repr=False)

    @cached_property
    def ids_around(self) -> ByNode:
        """Return by node what a client knows of V2: its own id and those of its neighbours in it."""
        return ids_around(self.graph, self.v2)


@dataclass(frozen=True, kw_only=True, eq=False)
class Settled(Delivered):
    """After step 2 the sum over V3 is complete, under its masks."""

    v3: Flags
    released: ReleasedShares = field(repr=False)


@dataclass(frozen=True, kw_only=True, eq=False)
class Unmasked(Settled):
    """After step 3 the total is the sum."""

    evolution: Evolution
    wrong_shares: frozenset[WrongShare]


def grown(kind: type[Later], state: Drawn, **more: Any) -> Later:
    """Return a later state: what it has in common with an earlier one, and more."""
    common = {one.name: getattr(state, one.name) for one in fields(kind) if hasattr(state, one.name)}
    return kind(**common | more)
