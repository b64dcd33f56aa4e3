"""How likely it is that colluders can make an honest client leave a round in which they accuse it.

In the step *accept* an accusation costs an edge. A client that has lost edges needs some holders beyond its
threshold, for the dropouts to come, and is left out without them: so colluders choose a dropout after all,
where an honest client has too few honest neighbours. docs/planning.md has the argument.
"""

import math

import numpy as np
from scipy.special import logsumexp

from ccesa.graphs.assumptions import Assumptions
from ccesa.graphs.tails import Binomial, Hypergeometric, at, log_below


def log_left_out(assumptions: Assumptions, degree: int, needed: int) -> float:
    """Bound ln P(some honest client has fewer holders than needed, once every colluder has turned from it).

    Those it has left are itself and its honest neighbours that stay, of ``degree`` neighbours.
    """
    honest = assumptions.clients - assumptions.colluders
    return min(0.0, math.log(honest) + _log_few(assumptions, degree, needed - 1)) if honest else -math.inf


def _log_few(assumptions: Assumptions, degree: int, least: int) -> float:
    """Return ln P(fewer than this of an honest client's neighbours are honest and stay)."""
    others, colluders = assumptions.clients - 1, assumptions.colluders
    if assumptions.exact:  # at worst all who drop out are honest
        gone = min(colluders + assumptions.dropped, others)
        return at(log_below(Hypergeometric(others, others - gone), degree), least)
    stay, colluding = Binomial.failing(assumptions.dropout), np.arange(min(colluders, degree) + 1)
    tails = [at(log_below(stay, degree - many), least) for many in colluding.tolist()]
    return float(logsumexp(assumptions.colluding.log_pmf(degree, colluding) + tails))
