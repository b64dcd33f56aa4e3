"""In the complete graph everyone is joined to everyone, as in conventional secure aggregation."""

from collections.abc import Iterator

import numpy as np

from ccesa.crypto.shamir import MAX_HOLDERS
from ccesa.errors import ConfigError
from ccesa.graphs import kinds
from ccesa.graphs.assignment import Flags, Nodes
from ccesa.graphs.harary import check_circle_degree
from ccesa.graphs.kinds import Degrees, Kind, Ladder, Masks
from ccesa.parts import settle_probability


class Complete(Kind, frozen=True, kw_only=True, tag="complete"):
    """Everyone with everyone: conventional secure aggregation.

    Attributes:
        mask_p: The probability with which an edge carries masks, in (0, 1].
        mask_degree: How many neighbours a client shares a mask with, an even number; all without either.

    Raises:
        ConfigError: A field is out of range, or both are given.
    """

    mask_p: float | None = None
    mask_degree: int | None = None

    def __post_init__(self) -> None:
        if self.mask_p is not None and self.mask_degree is not None:
            raise ConfigError("a complete graph takes mask_p or mask_degree, not both")
        if self.mask_p is not None:
            settle_probability(self, "mask_p")
        if self.mask_degree is not None:
            check_circle_degree("mask_degree", self.mask_degree)

    def check(self, clients: int) -> None:
        if (self.mask_degree or 0) >= clients:
            raise ConfigError(
                f"mask_degree = {self.mask_degree} needs more than {self.mask_degree} clients, but there are {clients}"
            )

    def max_degree(self, clients: int) -> int:
        return clients - 1

    def mean_mask_degree(self, clients: int) -> float:
        if self.mask_p is not None:
            return self.mask_p * (clients - 1)
        return min(self.mask_degree or clients - 1, clients - 1)

    def mask_edges(self, degree: int) -> int | None:
        return min(self.mask_degree or degree, degree) if self.mask_p is None else None

    def edges(self, seed: bytes, ids: Nodes) -> Iterator[tuple[Nodes, Nodes, Flags]]:
        positions = kinds.circle_positions(seed, ids.size)
        for low, high in kinds.every_pair(ids.size):
            if self.mask_degree is not None:
                yield low, high, kinds.circle_distance(positions, low, high) <= self.mask_degree // 2
            elif self.mask_p is not None:
                yield low, high, kinds.below(kinds.pair_draws(seed, ids[low], ids[high]), self.mask_p)
            else:
                yield low, high, np.ones(low.size, bool)

    def neighbours(self, seed: bytes, ids: Nodes, node: int) -> Nodes:
        return kinds.others(ids.size, node)[0]

    def degrees(self, clients: int) -> Degrees:
        from ccesa.graphs.harary_risks import EqualDegrees

        return EqualDegrees(clients - 1)

    def masks(self, clients: int) -> Masks:
        from ccesa.graphs.erdos_renyi_risks import EdgeMasks
        from ccesa.graphs.harary_risks import CircleMasks

        return CircleMasks(self.mask_degree or clients - 1) if self.mask_p is None else EdgeMasks(self.mask_p)

    @classmethod
    def candidates(cls, clients: int) -> Ladder:
        # More clients than can hold shares have no complete graph.
        return Ladder(int(clients <= MAX_HOLDERS), lambda step: cls())

    def thinner(self, clients: int) -> Ladder:
        return Ladder((clients - 1) // 2 - 1, lambda half: Complete(mask_degree=2 * half))
