"""What is promised about a sum with noise: honest clients in it, and denser graphs that have more of them."""

from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from ccesa.graphs import Graph
from ccesa.privacy import Mechanism

if TYPE_CHECKING:
    from ccesa.plan.result import Plan


class Promise(NamedTuple):
    """So many honest clients are in every sum that can be opened, except with 2^``fails`` in a round."""

    honest: int
    fails: float


@dataclass(frozen=True, kw_only=True)
class Offer:
    """A denser graph for the same demand, with its noise and its price.

    Attributes:
        graph: The graph.
        degree: Neighbours of a client.
        honest: H, the honest clients whose noise is counted on.
        ratio: The noise of an expected sum beside that of a trusted curator.
        sent_bytes: What a client sends in a round.
        agreements: How often a client agrees on keys in a round.
    """

    graph: Graph
    degree: int
    honest: int
    ratio: float
    sent_bytes: float
    agreements: float

    @classmethod
    def of(cls, plan: "Plan", mechanism: Mechanism) -> "Offer":
        """Return what a plan with this noise has to offer."""
        return cls(
            graph=plan.graph,
            degree=int(plan.degree),
            honest=mechanism.honest,
            ratio=ratio(mechanism, plan.assumptions.staying),
            sent_bytes=plan.cost.sent_bytes,
            agreements=plan.cost.agreements,
        )


def ratio(mechanism: Mechanism, survivors: int) -> float:
    """Return the noise of a sum over so many beside that of a trusted curator."""
    return mechanism.noise(survivors) / mechanism.curator


def both(one: float, other: float) -> float:
    """Return log2 of the sum of two probabilities that are given as such."""
    return min(0.0, float(np.logaddexp2(one, other)))
