"""In an Erdős-Rényi graph, the paper's own, each pair is an edge or not, by a draw of its own."""

import math
from collections.abc import Iterator
from typing import ClassVar

from ccesa.errors import ConfigError
from ccesa.graphs import kinds
from ccesa.graphs.assignment import Flags, Nodes
from ccesa.graphs.kinds import Degrees, Kind, Ladder, Masks
from ccesa.parts import settle_probability

#: Mean degrees are planned in steps of a hundredth of a neighbour; above a hundred, of a ten-thousandth of the degree.
_GRID = 100
_HUNDRED = 100 * _GRID
#: The planner goes no further, because the tails of all degrees are held in memory at once.
MAX_MEAN_DEGREE = 4096


class ErdosRenyi(Kind, frozen=True, kw_only=True, tag="erdos-renyi"):
    """The paper's graph: each pair of clients is an edge or not, by a draw of its own.

    Attributes:
        p: The probability of an edge, in (0, 1].
        mask_p: The probability of an edge that carries masks, at most ``p``; every edge does unless given.

    Raises:
        ConfigError: A field is out of range.
    """

    varies: ClassVar[bool] = True

    p: float
    mask_p: float | None = None

    def __post_init__(self) -> None:
        settle_probability(self, "p")
        if self.mask_p is not None:
            settle_probability(self, "mask_p")
            if self.mask_p > self.p:
                raise ConfigError(f"mask_p = {self.mask_p} exceeds p = {self.p}: masks run on share edges only")

    def mean_degree(self, clients: int) -> float:
        return self.p * (clients - 1)

    def max_degree(self, clients: int) -> int:
        return clients - 1

    def spread(self, clients: int) -> float:
        return math.sqrt(self.mean_degree(clients) * (1 - self.p))

    def mean_mask_degree(self, clients: int) -> float:
        return (self.mask_p or self.p) * (clients - 1)

    def mask_edges(self, degree: int) -> int | None:
        return None if self.thin else degree

    def edges(self, seed: bytes, ids: Nodes) -> Iterator[tuple[Nodes, Nodes, Flags]]:
        # One draw for both questions, edge and masks, so that they nest.
        for low, high in kinds.every_pair(ids.size):
            draws = kinds.pair_draws(seed, ids[low], ids[high])
            edge = kinds.below(draws, self.p)
            mask = edge if self.mask_p is None else kinds.below(draws, self.mask_p)
            yield low[edge], high[edge], mask[edge]

    def neighbours(self, seed: bytes, ids: Nodes, node: int) -> Nodes:
        rest, low, high = kinds.others(ids.size, node)
        return rest[kinds.below(kinds.pair_draws(seed, ids[low], ids[high]), self.p)]

    def degrees(self, clients: int) -> Degrees:
        from ccesa.graphs.erdos_renyi_risks import EdgeDegrees
        from ccesa.graphs.harary_risks import EqualDegrees

        return EqualDegrees(clients - 1) if self.p >= 1 else EdgeDegrees(self.p, clients - 1)

    def masks(self, clients: int) -> Masks:
        from ccesa.graphs.erdos_renyi_risks import EdgeMasks

        return EdgeMasks(self.mask_p or self.p)

    @classmethod
    def candidates(cls, clients: int) -> Ladder:
        # Nearly always more edges do not hurt; where thresholds are rounded, a fraction of one may.
        most = _step_below(min(clients - 1, MAX_MEAN_DEGREE))
        return Ladder(most, lambda step: cls(p=_mean(step) / (clients - 1)), monotone=True)

    def thinner(self, clients: int) -> Ladder:
        def with_masks(step: int) -> ErdosRenyi:
            mask_p = _mean(step) / (clients - 1)
            return ErdosRenyi(p=self.p, mask_p=mask_p if mask_p < self.p else None)

        return Ladder(_step_below(self.mean_degree(clients)), with_masks)

    def in_words(self, clients: int) -> str:
        return f"{super().in_words(clients)}, p = {self.p:.6g}"


def _mean(step: int) -> float:
    """Return the mean degree at this step of the grid."""
    return step / _GRID if step <= _HUNDRED else 100 * (1 + 1 / _HUNDRED) ** (step - _HUNDRED)


def _step_below(mean: float) -> int:
    """Return the last step before this mean degree."""
    if mean <= 100:
        return math.ceil(mean * _GRID) - 1
    return _HUNDRED + math.ceil(math.log(mean / 100) / math.log1p(1 / _HUNDRED)) - 1
