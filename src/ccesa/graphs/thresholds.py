"""A threshold rule gives t_i, the number of holders that open a secret, for d_i neighbours."""

from typing import TYPE_CHECKING, ClassVar, TypeVar

import numpy as np
from numpy.typing import NDArray

from ccesa.crypto.shamir import MAX_HOLDERS
from ccesa.errors import ConfigError
from ccesa.parts import Part, check_integer, check_range

if TYPE_CHECKING:
    from ccesa.graphs.kinds import Kind

#: One number of neighbours, or an array of them.
Degree = TypeVar("Degree", int, NDArray[np.int64])
#: The clients that count, by whether the dealer does.
_COUNTED = {True: ", including the dealer", False: ", the neighbours that confirm"}


class Rule(Part, frozen=True, kw_only=True):
    """Base of the threshold rules."""

    #: Whether it grows with the neighbourhood, and so exceeds half of every neighbourhood.
    follows_degree: ClassVar[bool] = True

    def of(self, degree: Degree) -> Degree:
        """Return t_i, how many holders open a secret of a client.

        Args:
            degree: How many neighbours the client has, or an array of such numbers.
        """
        raise NotImplementedError

    def check(self, graph: "Kind", clients: int, dealer_counts: bool) -> None:
        """Check that the rule works in a round, and works safely.

        Args:
            graph: The assignment graph of the round.
            clients: How many clients there are.
            dealer_counts: Whether a client counts among those that have to reach its threshold.

        Raises:
            ConfigError: Too few can, or so many that two disjoint sets of them could open both secrets.
        """

    @property
    def name(self) -> str:
        """The name of the rule on the wire."""
        return str(self.__struct_config__.tag)

    @property
    def in_words(self) -> str:
        """A description of the rule for people."""
        return self.name


class Majority(Rule, frozen=True, kw_only=True, tag="majority"):
    """The rule t_i = floor((d_i + 1) / 2) + 1: two disjoint sets of t_i holders cannot exist."""

    def of(self, degree: Degree) -> Degree:
        return (degree + 1) // 2 + 1


class Linear(Rule, frozen=True, kw_only=True, tag="linear"):
    """The rule t_i = floor(slope · d_i / 1024) + base, and never below the majority.

    It is for graphs with varying degrees: more neighbours can have more colluders among them.

    Attributes:
        slope: Holders per 1024 neighbours, 0 to 1024.
        base: Holders to add, 0 to 65520.

    Raises:
        ConfigError: A field is out of range.
    """

    slope: int
    base: int

    def __post_init__(self) -> None:
        check_range("slope", self.slope, 0, 1024, of=" of a linear threshold")
        check_range("base", self.base, 0, MAX_HOLDERS, of=" of a linear threshold")

    def of(self, degree: Degree) -> Degree:
        majority, line = (degree + 1) // 2 + 1, self.slope * degree // 1024 + self.base
        return majority + (line > majority) * (line - majority)

    def check(self, graph: "Kind", clients: int, dealer_counts: bool) -> None:
        # A client of the mean degree has to be able to share.
        degree = int(graph.mean_degree(clients))
        t, most = self.of(degree), degree + dealer_counts
        if t > most:
            raise ConfigError(
                f"linear threshold t = {t} exceeds the neighbourhood: at the mean degree only {most} clients "
                f"count{_COUNTED[dealer_counts]}; lower slope or base"
            )

    @property
    def in_words(self) -> str:
        return f"linear ({self.slope}/1024 of the neighbours + {self.base})"


class Fixed(Rule, frozen=True, kw_only=True, tag="fixed"):
    """The paper's rule: the same t for every client.

    Attributes:
        t: How many holders open a secret, at least 2 and more than half of those that hold a share.

    Raises:
        ConfigError: t is below 2.
    """

    follows_degree: ClassVar[bool] = False

    t: int

    def __post_init__(self) -> None:
        check_integer("t", self.t)
        if self.t < 2:
            raise ConfigError(f"threshold t must be at least 2, not {self.t}: one holder alone would know the secret")

    def of(self, degree: Degree) -> Degree:
        return 0 * degree + self.t

    def check(self, graph: "Kind", clients: int, dealer_counts: bool) -> None:
        largest, holders = graph.max_degree(clients) + dealer_counts, graph.mean_degree(clients) + 1
        if self.t > largest:
            counted = _COUNTED[dealer_counts]
            raise ConfigError(
                f"threshold t = {self.t} exceeds the neighbourhood: at most {largest} clients count{counted}"
            )
        # Two disjoint sets of t holders would let a server ask one for b_i and the other for s_i.
        if 2 * self.t <= holders:
            # If degrees are random, few clients have more than four standard deviations above the mean.
            raise ConfigError(
                f"threshold t = {self.t} is unsafe: {holders:.0f} clients hold a share, so two disjoint sets of t "
                "exist and could open both secrets of one client; use at least "
                f"{int(holders + 4 * graph.spread(clients)) // 2 + 1}"
            )


Threshold = Majority | Linear | Fixed
