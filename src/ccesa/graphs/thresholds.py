"""A threshold rule gives t_i, the number of holders that open a secret, for d_i neighbours."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import ClassVar, TypeVar

import numpy as np
from numpy.typing import NDArray

from ccesa.crypto.shamir import MAX_HOLDERS
from ccesa.errors import ConfigError
from ccesa.parts import Part, check_integer, check_range

#: One number of neighbours, or an array of them.
Degree = TypeVar("Degree", int, NDArray[np.int64])


@dataclass(frozen=True, kw_only=True)
class HolderCounts:
    """The clients that can hold shares of one client's secrets, against which a rule is checked."""

    #: Neighbours on average and at most, and the standard deviation of their number.
    mean: float
    most: int
    spread: float
    #: The largest threshold with which a client of this degree can take part, and a text about the clients that count.
    largest: Callable[[int], int]
    counted: str


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

    def check(self, holders: HolderCounts) -> None:
        """Check that the rule works in a round, and works safely.

        Args:
            holders: The clients that can hold shares in it.

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

    def check(self, holders: HolderCounts) -> None:
        # A client of the mean degree has to be able to share.
        degree = int(holders.mean)
        t, most = self.of(degree), holders.largest(degree)
        if t > most:
            raise ConfigError(
                f"linear threshold t = {t} exceeds the neighbourhood: at the mean degree only {most} clients "
                f"count{holders.counted}; lower slope or base"
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

    def check(self, holders: HolderCounts) -> None:
        largest = holders.largest(holders.most)
        if self.t > largest:
            raise ConfigError(
                f"threshold t = {self.t} exceeds the neighbourhood: at most {largest} clients count{holders.counted}"
            )
        # Two disjoint sets of t holders would let a server ask one for b_i and the other for s_i.
        if 2 * self.t <= holders.mean + 1:
            # If degrees are random, few clients have more than four standard deviations above the mean.
            raise ConfigError(
                f"threshold t = {self.t} is unsafe: {holders.mean + 1:.0f} clients hold a share, so two disjoint sets "
                f"of t exist and could open both secrets of one client; use at least "
                f"{int(holders.mean + 1 + 4 * holders.spread) // 2 + 1}"
            )


Threshold = Majority | Linear | Fixed
