"""The rates of appendix D, and Theorem 4: what the exact probabilities do as n grows.

Appendix D concludes that at p* a round is unreliable with O(n exp(-sqrt(n log n))) and not private with
O(n^-C). Here every probability P is given as its rate, -ln(P / n) / sqrt((n - 1) log(n - 1)): the claim is
that the first is at least 1 in the end, and the second anything at all.
"""

import math
from typing import Any

import numpy as np
from scipy.special import logsumexp, xlog1py, xlogy

from ccesa.plan import paper
from experiments import bounds
from experiments.error_bounds.exact import log_disconnected, log_not_private

#: Terms of a tail below t that are summed: each is smaller than the next by a constant factor.
_TERMS = 20_000


def log_tail(draws: int, p: float, t: int) -> float:
    """ln P(Bin(draws, p) < t), for t below the mean, however small."""
    k = np.arange(max(0, t - _TERMS), t)
    return float(logsumexp(bounds.log_choose(draws, k) + xlogy(k, p) + xlog1py(draws - k, -p)))


def limit(q_total: float) -> float:
    """Where the unreliability's rate goes: 1 + s ln((1 + a) / 3 a), s = (1 + a) / (2 a - 1), a = 1 - q_total.

    At p* the live neighbours are 3 a / (2 a - 1) times sqrt(n log n), and t is s times as much.
    """
    a = 1 - q_total
    return 1 + (1 + a) / (2 * a - 1) * math.log((1 + a) / (3 * a))


def private_limit(q_total: float) -> float:
    """Where the privacy error's rate goes: somebody in V3 has no neighbour there."""
    return 3 * (1 - q_total) ** 0.75 / (1 - 2 * q_total)


def unreliable(n: int, q_total: float) -> dict[str, float]:
    """The exact union over clients at p*, without their own share, the bound, and the rates of both."""
    p = paper.p_star(n, q_total)
    t = paper.threshold(n, p)
    exact = log_tail(n - 1, p * (1 - q_total), t)
    bound = bounds.log_unreliability(n, p, q_total, t) - math.log(n)
    scale = bounds.spread(n)
    return {
        "n": n,
        "q_total": q_total,
        "log10_exact": (exact + math.log(n)) / math.log(10),
        "log10_claimed": (math.log(n) - math.sqrt(n * math.log(n))) / math.log(10),
        "rate": -exact / scale,
        "bound_rate": -bound / scale,
    }


def not_private(n: int, q_total: float) -> dict[str, float]:
    """The exact probability at p* that G3 falls apart, its rate, and the C of n^-C that it comes to."""
    exact = log_not_private(n, paper.p_star(n, q_total), q_total)
    return {
        "n": n,
        "q_total": q_total,
        "log10_exact": exact / math.log(10),
        "rate": -(exact - math.log(n)) / bounds.spread(n),
        "C": -exact / math.log(n),
    }


def lemmas(n: int, q_total: float) -> dict[str, Any]:
    """What the two lemmas of appendix D use: b_m <= 1, b_m falls with m, and a first half of O(e^-n)."""
    p, alive = paper.p_star(n, q_total), (1 - q_total) ** 0.75
    m = np.arange(2, n + 1)
    b = np.array([bounds.log_cuts(int(size), p) for size in m])
    falls_from = int(m[np.flatnonzero(np.diff(b) > 0)[-1] + 1]) if (np.diff(b) > 0).any() else 2
    half = alive / 2
    return {
        "n": n,
        "q_total": q_total,
        "largest_b": math.exp(b.max()),
        "at_m": int(m[b.argmax()]),
        "falls_from": falls_from,
        "m_th": int(n * half),
        "first_half_rate": None if alive == 1 else bounds.divergence(half, alive),
    }


def theorem_4(n: int) -> dict[str, float]:
    """P(G3 is connected) just at Theorem 4's p, nobody dropping out; it should go to 1.

    (With any t of 1 or 2 a part of a graph that falls apart is opened: its members have a neighbour each.)
    """
    p = paper.privacy_term(n, 0.0)
    return {"n": n, "p": p, "connected": -math.expm1(float(log_disconnected(n, p)[n]))}


def find(sizes: list[int], private_sizes: list[int], dropouts: list[float]) -> dict[str, Any]:
    return {
        "unreliable": [unreliable(n, q_total) for q_total in dropouts for n in sizes],
        "not_private": [not_private(n, q_total) for q_total in dropouts for n in private_sizes],
        "lemmas": [lemmas(n, q_total) for q_total in dropouts for n in (min(private_sizes), 1000)],
        "limits": [{"q_total": q, "unreliable": limit(q), "not_private": private_limit(q)} for q in dropouts],
        "theorem_4": [theorem_4(n) for n in private_sizes],
    }


def verdict(found: dict[str, Any]) -> str:
    """The rate of reliability has to reach 1; that of privacy is anything above 0."""
    return "true" if all(row["unreliable"] >= 1 for row in found["limits"]) else "false as printed"


def verdict_private(found: dict[str, Any]) -> str:
    """The C that the exact probability comes to grows with n, without end as far as it is followed."""
    for q_total in {row["q_total"] for row in found["not_private"]}:
        reached = [row["C"] for row in found["not_private"] if row["q_total"] == q_total]
        if sorted(set(reached)) != reached:
            return "false as printed"
    return "true"


def verdict_theorem_4(found: dict[str, Any]) -> str:
    connected = [row["connected"] for row in found["theorem_4"]]
    return "false as printed" if connected[-1] < connected[0] else "true"
