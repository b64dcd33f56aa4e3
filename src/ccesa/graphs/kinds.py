"""All families of assignment graphs have one interface: what a round, a client and a planner ask for.

A family is a module of its own with a subclass of ``Kind``, and its name in the list in ``__init__.py``.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar

from ccesa.graphs.assignment import Flags, Nodes
from ccesa.parts import Part

if TYPE_CHECKING:  # bounds load scipy, which only plans need
    from ccesa.graphs import Graph
    from ccesa.graphs.bounds import Degrees, Masks


class Kind(Part, frozen=True, kw_only=True):
    """A family of graphs with its parameters. Degrees are those of n clients who all advertise."""

    #: Whether the number of neighbours depends on the seed.
    varies: ClassVar[bool] = False

    @property
    def name(self) -> str:
        """The name of the family, on the wire and on the command line."""
        return str(self.__struct_config__.tag)

    def check(self, clients: int) -> None:
        """Check that so many clients can have such a graph.

        Args:
            clients: How many clients there are.

        Raises:
            ConfigError: They cannot; the text says what can.
        """

    # Degrees

    def mean_degree(self, clients: int) -> float:
        """Return how many neighbours a client has, the mean where they vary.

        Args:
            clients: How many clients there are.
        """
        return self.max_degree(clients)

    def max_degree(self, clients: int) -> int:
        """Return how many neighbours a client has at most.

        Args:
            clients: How many clients there are.
        """
        raise NotImplementedError

    def spread(self, clients: int) -> float:
        """Return the standard deviation of the number of neighbours.

        Args:
            clients: How many clients there are.
        """
        return 0.0

    def mean_mask_degree(self, clients: int) -> float:
        """Return how many neighbours a client shares a mask with, the mean where they vary.

        Args:
            clients: How many clients there are.
        """
        return self.mean_degree(clients)

    def mask_edges(self, degree: int) -> int | None:
        """Return how many of a client's edges carry masks; None where that depends on the seed.

        Args:
            degree: How many neighbours the client has.
        """
        return degree

    @property
    def thin(self) -> bool:
        """Whether masks are asked for on some of the edges only."""
        return False

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
            node: The one whose neighbours are wanted.
        """
        raise NotImplementedError

    # Planning

    def degrees(self, clients: int) -> "Degrees":
        """Return the distribution of the number of neighbours, which bounds what colluders can do.

        Args:
            clients: How many clients there are.
        """
        raise NotImplementedError

    def masks(self, clients: int) -> "Masks":
        """Return the structure of the mask edges, which bounds how likely they fall apart.

        Args:
            clients: How many clients there are.
        """
        raise NotImplementedError

    @classmethod
    def candidates(cls, clients: int) -> "Ladder":
        """Return the graphs that the planner tries, from the sparsest to the densest.

        Args:
            clients: How many clients there are.
        """
        raise NotImplementedError

    def thinner(self, clients: int) -> "Ladder | None":
        """Return the same graph with fewer mask edges, from the thinnest on; None where it has no such.

        Args:
            clients: How many clients there are.
        """
        return None

    def in_words(self, clients: int) -> str:
        """Return what the graph is like, for people.

        Args:
            clients: How many clients there are.
        """
        degree = self.mean_degree(clients)
        about = "" if degree == int(degree) else "on average "
        return f"{self.name}, {about}{degree:.4g} neighbours hold shares"


@dataclass(frozen=True)
class Ladder:
    """A ladder has graphs in an order: ``at(1)`` has the fewest edges, ``at(most)`` the most."""

    most: int
    at: Callable[[int], "Graph"]
    #: Whether denser graphs keep what sparser ones do, so that the first that works is found by bisection.
    monotone: bool = False
