"""Every family of assignment graphs has one interface, which rounds, clients and the planner use.

A family is a module of its own with a subclass of ``Kind``, and its name in the list in ``__init__.py``. The end of
this file has the draws that families share: a word for each pair of clients, and a random circle of all clients.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar, Protocol

import numpy as np
from numpy.typing import NDArray

from ccesa.crypto import primitives
from ccesa.graphs.assignment import Flags, Nodes
from ccesa.graphs.thresholds import Rule, Threshold
from ccesa.parts import Part

if TYPE_CHECKING:  # these load scipy, which only plans need
    from ccesa.graphs import Graph
    from ccesa.graphs.assumptions import Assumptions, Demand, Event, Roster


class Degrees(Protocol):
    """How many neighbours clients have, and bounds on what follows from that."""

    def likely(self, log_rare: float) -> tuple[int, int]:
        """Return the smallest and the largest number of neighbours that are not rarer than this."""

    def unreliable(self, rule: Rule, assumptions: "Assumptions") -> float:
        """Bound P(some client has fewer than t live holders)."""

    def few_holders(self, rule: Rule, assumptions: "Assumptions") -> float:
        """Bound P(some client has fewer than t holders among those that stay, itself included)."""

    def around(self, event: "Event", rule: Rule, roster: "Roster") -> float:
        """Bound P(the event happens to some honest client), for every roster that is possible."""

    def left_out(self, rule: Rule, assumptions: "Assumptions", spare: float) -> float:
        """Bound P(with all colluders against it some honest client lacks t holders and ``spare`` per neighbour)."""

    def rule(self, demand: "Demand", log_apart: float, kept: Callable[[Threshold], bool]) -> Threshold | None:
        """Return the best rule that is ``kept``, or None; masks take ``log_apart`` of the budget for privacy."""

    def may_hold(self, demand: "Demand", most: int) -> bool:
        """Return false only if no graph with up to ``most`` neighbours can keep the demand."""


class Masks(Protocol):
    """On which edges masks run."""

    def log_apart(self, assumptions: "Assumptions", roster: "Roster | None" = None) -> float:
        """Bound P(the honest survivors' mask graph falls apart), for every roster that is possible."""

    def log_torn(self, few_holders: "Callable[[Assumptions], float]", assumptions: "Assumptions") -> float:
        """Estimate P(some are left out after *share*, bounded by ``few_holders``, and then masks fall apart)."""


class Kind(Part, frozen=True, kw_only=True):
    """A family of graphs with its parameters. Degrees are those when all clients advertise.

    Args:
        clients: In every method, how many clients there are.
        degree: How many neighbours one client has.
        seed: The 32 bytes from which the graph is drawn.
        ids: Client ids, ascending. A node is a place among them.
        node: The node whose neighbours are returned.
    """

    #: Whether the number of neighbours depends on the seed.
    varies: ClassVar[bool] = False

    @property
    def name(self) -> str:
        """The name of the family, on the wire and on the command line."""
        return str(self.__struct_config__.tag)

    def check(self, clients: int) -> None:
        """Check that this number of clients can have such a graph.

        Raises:
            ConfigError: They cannot; the text names a remedy.
        """

    # Degrees

    def mean_degree(self, clients: int) -> float:
        """Return how many neighbours a client has, the mean where they vary."""
        return self.max_degree(clients)

    def max_degree(self, clients: int) -> int:
        """Return how many neighbours a client has at most."""
        raise NotImplementedError

    def spread(self, clients: int) -> float:
        """Return the standard deviation of the number of neighbours."""
        return 0.0

    def mean_mask_degree(self, clients: int) -> float:
        """Return how many neighbours a client shares a mask with, the mean where they vary."""
        return self.mean_degree(clients)

    def mask_edges(self, degree: int) -> int | None:
        """Return how many of a client's edges carry masks; None where that depends on the seed."""
        return degree

    @property
    def thin(self) -> bool:
        """Whether a field ``mask_...`` asks for masks on some of the edges only."""
        return any(name.startswith("mask_") and getattr(self, name) is not None for name in self.__struct_fields__)

    # Drawing

    def edges(self, seed: bytes, ids: Nodes) -> Iterator[tuple[Nodes, Nodes, Flags]]:
        """Draw all edges, each once and from its lower node to its higher one.

        Args:
            seed: The 32 bytes that decide.
            ids: Client ids, ascending; a node is a place among them.

        Yields:
            Lower nodes, higher nodes, and flags that say which edges carry masks, in chunks.
        """
        raise NotImplementedError

    def neighbours(self, seed: bytes, ids: Nodes, node: int) -> Nodes:
        """Return the neighbours of one node, ascending, without drawing the edges of all others.

        Args:
            seed: The 32 bytes that decide.
            ids: Client ids, ascending; a node is a place among them.
            node: The node whose neighbours are returned.
        """
        raise NotImplementedError

    # Planning

    def degrees(self, clients: int) -> Degrees:
        """Return the distribution of the number of neighbours, which bounds what colluders can do."""
        raise NotImplementedError

    def masks(self, clients: int) -> Masks:
        """Return the structure of the mask edges, which bounds how likely they fall apart."""
        raise NotImplementedError

    @classmethod
    def candidates(cls, clients: int) -> "Ladder":
        """Return the graphs that the planner tries, from the sparsest to the densest."""
        raise NotImplementedError

    def thinner(self, clients: int) -> "Ladder | None":
        """Return the same graph with fewer mask edges, the thinnest first; None if the family has no such graphs."""
        return None

    def in_words(self, clients: int) -> str:
        """Return a description of the graph for people."""
        degree = self.mean_degree(clients)
        about = "" if degree == int(degree) else "on average "
        return f"{self.name}, {about}{degree:.4g} neighbours hold shares"


@dataclass(frozen=True)
class Ladder:
    """Graphs in an order: ``at(1)`` has the fewest edges, ``at(most)`` the most."""

    most: int
    at: Callable[[int], "Graph"]
    #: Whether denser graphs keep what sparser ones do, so that the first that works is found by bisection.
    monotone: bool = False


#: Pairs that are drawn at a time.
_CHUNK = 1 << 15


def every_pair(size: int) -> Iterator[tuple[Nodes, Nodes]]:
    """Yield all pairs of nodes, each once, in chunks."""
    rows = max(1, _CHUNK // size)
    for first in range(0, size, rows):
        nodes = np.arange(first, min(first + rows, size))
        after = size - 1 - nodes  # pairs with a later node
        low = np.repeat(nodes, after)
        yield low, low + 1 + np.arange(low.size) - np.repeat(np.cumsum(after) - after, after)


def others(size: int, node: int) -> tuple[Nodes, Nodes, Nodes]:
    """Return all nodes but one, and the pairs that it forms with them, the lower node first."""
    rest = np.delete(np.arange(size), node)
    return rest, np.minimum(rest, node), np.maximum(rest, node)


def pair_draws(seed: bytes, low: Nodes, high: Nodes) -> NDArray[np.uint64]:
    """Return a uniform 64-bit word for each pair of ids: AES of the pair under the seed."""
    return primitives.aes128_blocks(seed[:16], low, high)


def below(draws: NDArray[np.uint64], p: float) -> Flags:
    """Return true with probability p: the draw is below floor(p · 2^64), exactly."""
    threshold = int(p * 2.0**64)
    return draws < np.uint64(threshold) if threshold < 2**64 else np.ones(draws.size, bool)


def circle(seed: bytes, size: int) -> Nodes:
    """Return the nodes in their order around the circle: by a random 64-bit word of each, ties by node."""
    return np.argsort(_circle_words(seed, size), kind="stable")


def circle_positions(seed: bytes, size: int) -> Nodes:
    """Return where each node sits on the circle."""
    return np.argsort(circle(seed, size))


def near_on_circle(seed: bytes, size: int, node: int, each_side: int) -> Nodes:
    """Return the nearest nodes on each side of one on the circle, ascending, from a window around it."""
    words = _circle_words(seed, size)
    ahead = (words - words[node]).view(np.int64)  # around the circle of 2^64, by the shorter way
    window = (2 * each_side << 64) // size  # it is doubled until it has enough nodes on both sides
    while True:
        in_half = window < 1 << 63
        near = np.flatnonzero((ahead >= -window) & (ahead <= window)) if in_half else np.arange(size)
        order = near[np.argsort(ahead[near], kind="stable")]
        place = int(np.flatnonzero(order == node)[0])
        if near.size == size or min(place, near.size - 1 - place) >= each_side:
            steps = np.delete(np.arange(-each_side, each_side + 1), each_side)
            return np.sort(order[(place + steps) % near.size])
        window *= 2


def _circle_words(seed: bytes, size: int) -> NDArray[np.uint64]:
    nodes = np.arange(size)
    return primitives.aes128_blocks(seed[16:], nodes, nodes)


def circle_distance(positions: Nodes, low: Nodes, high: Nodes) -> Nodes:
    """Return how far apart the two nodes of each pair sit on the circle."""
    apart = np.abs(positions[low] - positions[high])
    return np.minimum(apart, positions.size - apart)
