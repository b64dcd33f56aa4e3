"""The paper's rule for p and t as printed, with errata: the baseline, not a recommendation.

q_total is the probability that a client drops out in a round, and q in one of its four steps. The paper's bounds and
tables are in experiments/bounds.py.
"""

import math
from typing import NamedTuple

from ccesa.errors import ConfigError
from ccesa.parts import check_clients

STEPS = 4


class PaperRule(NamedTuple):
    """The paper's choice for a round: p*, the mean degree that it gives, and one t for all."""

    p_star: float
    degree: float
    t: int


def rule(n: int, q_total: float) -> PaperRule | None:
    """Return the choice of the paper's rule; None if it has no p*."""
    try:
        p = p_star(n, q_total)
    except ConfigError:
        return None
    return PaperRule(p, p * (n - 1), threshold(n, p))


def step_dropout(q_total: float, steps: int = STEPS) -> float:
    """Return q with q_total = 1 - (1 - q)^4. Erratum: the paper speaks of steps 0 to 4, but has four steps."""
    if not 0 <= q_total < 1:
        raise ConfigError(f"dropout must lie in [0, 1), not {q_total}")
    return -math.expm1(math.log1p(-q_total) / steps)


def reliability_term(n: int, q_total: float) -> float:
    """Theorem 3: above this p, CCESA(n, p) is asymptotically almost surely reliable. It exceeds 1 for small n.

    Erratum: its proof needs a slightly larger p in every row of the paper's table, for the t of the paper's rule.
    """
    check_clients(n)
    step_dropout(q_total)  # refuses what is not a probability
    if q_total >= 0.5:
        raise ConfigError(f"the paper's rule needs a total dropout below 1/2, not {q_total}")
    return (3 * _spread(n) - 1) / ((n - 1) * (1 - 2 * q_total))


def privacy_term(n: int, q_total: float) -> float:
    """Theorem 4: above this p, CCESA(n, p) is asymptotically almost surely private."""
    check_clients(n)
    survivors = math.ceil(n * (1 - step_dropout(q_total)) ** 3 - math.sqrt(n * math.log(n)))
    if survivors < 1:
        raise ConfigError(f"the paper's bound on the survivors is {survivors} for n = {n}: too few clients")
    return math.log(survivors) / survivors


def p_star(n: int, q_total: float) -> float:
    """Remark 1: the threshold connection probability, the larger of the two terms.

    Erratum: it does not exist if that exceeds 1, as at q_total = 0.1 for every n < 55.
    """
    p = max(reliability_term(n, q_total), privacy_term(n, q_total))
    if p > 1:
        raise ConfigError(
            f"the paper's p* is {p:.2f} for n = {n} and dropout {q_total:g}: its rule needs more clients; "
            "use the complete graph"
        )
    return p


def threshold(n: int, p: float) -> int:
    """The design rule for t (appendix "Designing the parameter t", proposition 1), one t for all.

    Erratum: with it the unmasking attack is improbable. t_i = floor((d_i + 1) / 2) + 1 makes it impossible.
    """
    check_clients(n)
    return math.ceil(((n - 1) * p + _spread(n) + 1) / 2)


def _spread(n: int) -> float:
    return math.sqrt((n - 1) * math.log(n - 1))
