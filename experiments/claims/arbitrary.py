"""The bounds "for arbitrary p > p*", "for arbitrary n, p, q and t": what rounding t up does to them.

Theorem 5 bounds the unreliability for one t. Where t follows the paper's rule it jumps with p, and the bound
with it: it falls between two jumps and rises at each of them. So the worst place of all p from p* on is p*
itself or just after a jump, and no grid is needed to find it.
"""

import math
from collections.abc import Iterator
from typing import Any

import numpy as np
from scipy.stats import binom

from ccesa.plan import paper
from experiments import bounds

#: The smallest step to the right of a jump.
_NEXT = 1e-12


def unrounded(n: int, p: float) -> float:
    """The paper's t before it is rounded up, by the rule of the appendix on t."""
    return ((n - 1) * p + bounds.spread(n) + 1) / 2


def jumps(n: int, q_total: float) -> Iterator[float]:
    """p*, and every p above it just after which t is one more."""
    yield (start := paper.p_star(n, q_total))
    t = paper.threshold(n, start)
    while (p := (2 * t - bounds.spread(n) - 1) / (n - 1) + _NEXT) < 1:
        yield p
        t += 1


def log_corrected(n: int, q_total: float) -> float:
    """ln of a bound for every p from p* on: at p*, and with t as it is before rounding instead of t - 1."""
    p = paper.p_star(n, q_total)
    share, alive = unrounded(n, p) / (n - 1), p * (1 - q_total)
    return math.log(n) - (n - 1) * bounds.divergence(share, alive)


def as_printed(n: int, p: float, q_total: float, t: int) -> float:
    """Theorem 5's right-hand side as it stands, whether t lies below the mean or not."""
    return n * math.exp(-(n - 1) * bounds.divergence((t - 1) / (n - 1), p * (1 - q_total)))


def log_exact(n: int, p: Any, q_total: float, t: Any) -> Any:
    """ln of the exact union over clients, without their own share: what the theorem bounds."""
    return math.log(n) + binom.logcdf(np.asarray(t) - 1, n - 1, np.asarray(p) * (1 - q_total))


def along(n: int, q_total: float, places: list[float]) -> list[dict[str, float]]:
    """The bound, and the exact value, at each p over the bound at p*; t by the rule."""
    start = paper.p_star(n, q_total)
    plotted = bounds.log_unreliability(n, start, q_total, paper.threshold(n, start))
    t = [paper.threshold(n, p) for p in places]
    exact = np.exp(log_exact(n, places, q_total, t) - plotted)
    bound = [math.exp(bounds.log_unreliability(n, *one) - plotted) for one in _with(places, q_total, t)]
    rows = zip(places, t, bound, exact.tolist(), strict=True)
    return [dict(zip(("p", "t", "bound", "exact"), row, strict=True)) for row in rows]


def _with(places: list[float], q_total: float, t: list[int]) -> Iterator[tuple[float, float, int]]:
    return ((p, q_total, own) for p, own in zip(places, t, strict=True))


def worst(n: int, q_total: float) -> dict[str, float]:
    """Where above p* the bound is largest, and how far the corrected one lies above what is plotted.

    ``proof_needs`` is the p from which on the hypothesis in the proof of Theorem 3 holds, t being less than
    one above what it is before rounding.
    """
    start, *after = along(n, q_total, list(jumps(n, q_total)))
    plotted = bounds.log_unreliability(n, start["p"], q_total, int(start["t"]))
    return {
        "n": n,
        "q_total": q_total,
        "p_star": start["p"],
        **max(after, key=lambda one: one["bound"]),
        "exact": max(one["exact"] for one in (start, *after)),
        "proof_needs": (3 * bounds.spread(n) + 3) / ((n - 1) * (1 - 2 * q_total)),
        "corrected": math.exp(log_corrected(n, q_total) - plotted),
    }


def curve(n: int, q_total: float, points: int) -> list[dict[str, float]]:
    """From p* to a tenth above it, with both sides of every jump."""
    start = paper.p_star(n, q_total)
    end = min(1.0, 1.1 * start)
    grid = [start + (end - start) * k / points for k in range(points + 1)]
    sides = [p + side for p in list(jumps(n, q_total))[1:] if p < end for side in (0.0, -2 * _NEXT)]
    return along(n, q_total, sorted(grid + sides))


def find(sizes: list[int], dropouts: list[float], points: int) -> dict[str, Any]:
    every = [worst(n, q_total) for q_total in dropouts for n in range(min(sizes), max(sizes) + 1)]
    rows = [row for row in every if row["n"] in sizes]
    # The paper's own figure on the faces: t = 21 above the mean of the live neighbours.
    above: dict[str, Any] = {"n": 40, "q_total": 0.1, "p": 0.3, "t": 21}
    return {
        "rows": rows,
        "scanned": len(every),
        "rises": sum(row["bound"] > 1 for row in every),
        "worst": max(every, key=lambda row: row["bound"]),
        "most_exact": max(row["exact"] for row in every),
        "most_corrected": max(row["corrected"] for row in every),
        "curves": [{"n": n, "q_total": max(dropouts), "points": curve(n, max(dropouts), points)} for n in sizes[::2]],
        "t_above_the_mean": {
            **above,
            "printed": as_printed(**above),
            "exact_one_client": math.exp(log_exact(**above)) / above["n"],
        },
    }


def verdict(found: dict[str, Any]) -> str:
    broken = found["worst"]["bound"] > 1 or found["t_above_the_mean"]["printed"] < 0.5
    return "false as printed" if broken else "true"
