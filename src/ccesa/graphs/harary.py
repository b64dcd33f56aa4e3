"""In a Harary graph everyone has the same number of neighbours, on a random circle."""

from collections.abc import Iterator

import numpy as np

from ccesa.crypto.shamir import MAX_HOLDERS
from ccesa.errors import ConfigError
from ccesa.graphs import kinds
from ccesa.graphs.assignment import Flags, Nodes
from ccesa.graphs.kinds import Degrees, Kind, Ladder, Masks
from ccesa.parts import check_integer


def check_circle_degree(name: str, degree: int) -> None:
    """Refuse a degree that cannot be halved."""
    check_integer(name, degree)
    if degree < 2 or degree % 2:
        raise ConfigError(f"{name} must be an even number of at least 2, not {degree}, half on each side of the circle")


class Harary(Kind, frozen=True, kw_only=True, tag="harary"):
    """A random circle on which everyone is joined to the nearest degree / 2 on each side.

    Attributes:
        degree: How many neighbours a client has, an even number below the number of clients.
        mask_degree: How many of them it shares a mask with, the nearest; an even number, all unless given.

    Raises:
        ConfigError: A field is out of range.
    """

    degree: int
    mask_degree: int | None = None

    def __post_init__(self) -> None:
        check_circle_degree("degree", self.degree)
        if self.mask_degree is not None:
            check_circle_degree("mask_degree", self.mask_degree)
            if self.mask_degree > self.degree:
                raise ConfigError(
                    f"mask_degree = {self.mask_degree} exceeds degree = {self.degree}: masks run on share edges only"
                )

    def check(self, clients: int) -> None:
        if self.degree >= clients:
            raise ConfigError(
                f"degree = {self.degree} needs more than {self.degree} clients, but there are "
                f"{clients}: lower it or use the complete graph"
            )

    def max_degree(self, clients: int) -> int:
        return min(self.degree, clients - 1)

    def mean_mask_degree(self, clients: int) -> float:
        return self.mask_edges(self.max_degree(clients))

    def mask_edges(self, degree: int) -> int:
        return min(self.mask_degree or degree, degree)

    def edges(self, seed: bytes, ids: Nodes) -> Iterator[tuple[Nodes, Nodes, Flags]]:
        masked = self.mask_edges(self.degree) // 2  # on each side
        if self._joins_all(ids.size):
            positions = kinds.circle_positions(seed, ids.size)
            for low, high in kinds.every_pair(ids.size):
                yield low, high, kinds.circle_distance(positions, low, high) <= masked
            return
        around = kinds.circle(seed, ids.size)
        for step in range(1, self.degree // 2 + 1):
            far = np.roll(around, -step)
            yield np.minimum(around, far), np.maximum(around, far), np.full(ids.size, step <= masked)

    def neighbours(self, seed: bytes, ids: Nodes, node: int) -> Nodes:
        if self._joins_all(ids.size):
            return kinds.others(ids.size, node)[0]
        return kinds.near_on_circle(seed, ids.size, node, self.degree // 2)

    def _joins_all(self, size: int) -> bool:
        """Return whether all nodes are neighbours of each other, because there are few."""
        return self.degree >= size - 1

    def degrees(self, clients: int) -> Degrees:
        from ccesa.graphs.harary_risks import EqualDegrees

        return EqualDegrees(self.max_degree(clients))

    def masks(self, clients: int) -> Masks:
        from ccesa.graphs.harary_risks import CircleMasks

        return CircleMasks(self.mask_degree or self.max_degree(clients))

    @classmethod
    def candidates(cls, clients: int) -> Ladder:
        return Ladder(min(clients - 2, MAX_HOLDERS - 1) // 2, lambda half: cls(degree=2 * half))

    def thinner(self, clients: int) -> Ladder:
        width = self.max_degree(clients)
        return Ladder(width // 2 - 1, lambda half: Harary(degree=width, mask_degree=2 * half))
