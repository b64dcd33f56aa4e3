"""The paper's bounds and costs, complete and as printed, with their errata. Its rule is ccesa.plan.paper.

q_total is the probability that a client drops out in a round, q the same for one of its four steps. Bounds
are given as natural logarithms, because values like 10^-144 are meant and not zero.
"""

import math

import numpy as np
from numpy.typing import NDArray
from scipy.special import gammaln, logsumexp, xlog1py, xlogy
from scipy.stats import binom

from ccesa.parts import check_clients
from ccesa.plan.paper import step_dropout


def spread(n: int) -> float:
    """sqrt((n - 1) log(n - 1)), which the paper's p* and t are made of."""
    return math.sqrt((n - 1) * math.log(n - 1))


def log_unreliability(n: int, p: float, q_total: float, t: int) -> float:
    """ln of Theorem 5's bound n · exp(-(n - 1) · D((t - 1) / (n - 1) || p (1 - q)^4)), at most 0.

    It is a Chernoff bound and holds only for t - 1 below the mean of the live neighbours; above, the bound
    says nothing, which the paper does not mention. It does not count the client's own share.
    """
    check_clients(n)
    share, alive = (t - 1) / (n - 1), p * (1 - q_total)
    if share >= alive:
        return 0.0
    return min(0.0, math.log(n) - (n - 1) * divergence(share, alive))


def divergence(share: float, alive: float) -> float:
    """D(share || alive) of two coins; infinite where only the second always falls on the same side."""
    if alive == 1:
        return 0.0 if share == 1 else math.inf
    return float(xlogy(share, share / alive) + xlogy(1 - share, (1 - share) / (1 - alive)))


def not_informative(n: int, p: float, q_total: float, t: int) -> float:
    """How many clients of V2 are expected to have fewer than t live holders, exactly.

    By Theorem 1 no more rounds than that are lost. Who is in V4 counts itself; the others, whose secrets are
    needed as well, do not.
    """
    own, others = (float(binom.cdf(least - 1, n - 1, p * (1 - q_total))) for least in (t - 1, t))
    return n * of_v2(q_total, own, others)


def of_v2(q_total: float, own: float, others: float) -> float:
    """P(a client is in V2 and fails): ``own`` if it is in V4, and so has its own share, else ``others``."""
    stays = 1 - step_dropout(q_total)
    return stays**4 * own + (stays**2 - stays**4) * others


def log_privacy_error(n: int, p: float, q_total: float) -> float:
    """ln of Theorem 6's bound: the survivors' graph is disconnected, by a union over all cuts.

    Summed in logarithms: with survivors m ~ B(n, (1 - q)^3), sum_k C(m, k) (1 - p)^(k (m - k)).
    """
    check_clients(n)
    alive = (1 - step_dropout(q_total)) ** 3
    m = np.arange(2, n + 1)
    weights = log_choose(n, m) + xlogy(m, alive) + xlogy(n - m, 1 - alive)
    cuts = np.minimum(0.0, [log_cuts(int(size), p) for size in m])  # a probability is at most 1
    return min(0.0, float(logsumexp(weights + cuts)))


def client_bandwidth(degree: float, key_bits: int, share_bits: int) -> float:
    """B_CCESA: bits per client beside its vector, 2 (d + 1) a_K + (5 d + 1) a_S (appendix C)."""
    return 2 * (degree + 1) * key_bits + (5 * degree + 1) * share_bits


def client_bandwidth_sa(n: int, key_bits: int, share_bits: int) -> float:
    """B_SA = 2 n a_K + (5 n - 4) a_S: the same with n - 1 neighbours."""
    return client_bandwidth(n - 1, key_bits, share_bits)


def server_bandwidth(n: int, degree: float, key_bits: int, share_bits: int, vector_bits: int) -> float:
    """Everything that passes the server: what every client moves, vectors included (Table 1)."""
    return n * (client_bandwidth(degree, key_bits, share_bits) + vector_bits)


def turbo_aggregate_bandwidth(n: int, length: int, bits: int, groups: int) -> float:
    """At least 4 m n R / L bits per client in Turbo-aggregate (section "Related work")."""
    return 4 * length * n * bits / groups


def paper_bandwidth(n: int, length: int, bits: int, key_bits: int, share_bits: int) -> float:
    """sqrt(n log n) (2 a_K + 5 a_S) + m R: what the paper sets against Turbo-aggregate."""
    return math.sqrt(n * math.log(n)) * (2 * key_bits + 5 * share_bits) + length * bits


def client_operations(degree: float, length: int) -> dict[str, float]:
    """Appendix C: key agreements, field operations of sharing, and mask words of one client."""
    return {"agreements": 2 * degree, "sharing": degree**2, "mask_words": length * degree}


def server_operations(n: int, degree: float, length: int) -> dict[str, float]:
    """Appendix C: field operations of rebuilding, and mask words in the worst case, of the server."""
    return {"rebuilding": n * degree**2, "mask_words": length * degree**2}


def log_choose(n: int, k: int | NDArray[np.int64]) -> NDArray[np.float64]:
    """ln C(n, k)."""
    return np.asarray(gammaln(n + 1) - gammaln(k + 1) - gammaln(n - k + 1))


def log_cuts(m: int, p: float) -> float:
    """ln of the union over all cuts that G(m, p) is disconnected, as printed (b_m): it may exceed 0."""
    k = np.arange(1, m // 2 + 1)
    return float(logsumexp(log_choose(m, k) + xlog1py(k * (m - k), -p)))
