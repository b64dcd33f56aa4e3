"""The exact probability of each event for one given client; certificates join all clients by union bounds."""

import math
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from scipy.special import logsumexp

from ccesa.graphs import ErdosRenyi, Graph
from ccesa.graphs.assumptions import Assumptions
from ccesa.graphs.tails import Binomial, Counts, Logs, at, log_at_least, log_below, window

Rule = Callable[[int], int]


@dataclass(frozen=True, eq=False)
class Degrees:
    """How many neighbours a client has: one number, or the distribution of it."""

    values: Counts
    logs: Logs
    #: ln of all that is not listed; it counts as failure.
    rest: float

    @classmethod
    def of(cls, graph: Graph, clients: int) -> "Degrees":
        """Return the distribution if everyone advertises."""
        if isinstance(graph, ErdosRenyi) and graph.p < 1:
            return cls(*window(Binomial(graph.p), clients - 1))
        return cls(np.array([graph.max_degree(clients)]), np.zeros(1), -math.inf)

    def average(self, log_given: Callable[[int], float]) -> float:
        """Return ln of the mean over the degree of what is given for each degree."""
        logs = [log_given(int(degree)) for degree in self.values]
        return float(logsumexp(np.append(self.logs + logs, self.rest)))


def unreliable(degrees: Degrees, t: Rule, assumptions: Assumptions, own_share: bool = False) -> float:
    """Return ln P(it has fewer than t live holders). Its own share counts only if asked to."""
    return degrees.average(lambda d: at(log_below(assumptions.live, d), t(d) - own_share))


def exposed(degrees: Degrees, t: Rule, assumptions: Assumptions) -> float:
    """Return ln P(it is honest and has at least t - 1 colluding neighbours, and one at least)."""
    return degrees.average(lambda d: at(log_at_least(assumptions.colluding, d), max(t(d) - 1, 1)))


def unmaskable(degrees: Degrees, t: Rule, assumptions: Assumptions) -> float:
    """Return ln P(h + 2 c + 1 >= 2 t for an honest one): h honest and c colluding neighbours, itself."""
    return degrees.average(lambda d: at(log_at_least(assumptions.colluding, d), 2 * t(d) - d - 1))
