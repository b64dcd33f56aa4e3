"""What CCESA at p* costs, over SA: "20 to 30 %" of the abstract, and other words on cost and on p*.

Ratios of a client's work and bytes, by the formulas of appendix C and by the library's own messages, over n
and q_total; the same with the vector, which both schemes send; and the factor that the conclusion names. Then
p* itself: whether it falls with n, and whether it is "the provably minimum connection probability".
"""

import itertools
import math
from typing import Any

from ccesa.plan import paper, plan, price
from ccesa.plan.price import Shape
from experiments import bounds

#: Vectors of the paper, in bytes: its running times (10,000 of 16 bits), and VGG-11 on CIFAR-10.
VECTORS = {"running time": 20_000, "VGG-11": 4 * 9_225_610}
_BITS = 256
#: What the paper calls reliable, in the text on its figure of the bounds.
_RELIABLE = 1e-2
#: p* is computed for every n up to this one.
_MOST = 10_000


def row(n: int, q_total: float) -> dict[str, Any]:
    """CCESA over SA for one n and q_total."""
    p = paper.p_star(n, q_total)
    t, degree = paper.threshold(n, p), (n - 1) * p
    ours, theirs = (_bytes(n, d, own, q_total) for d, own in ((degree, t), (n - 1, n // 2 + 1)))
    extra, sa = (bounds.client_bandwidth(d, _BITS, _BITS) / 8 for d in (degree, n - 1))
    return {
        "n": n,
        "q_total": q_total,
        "p": p,
        "agreements": p,
        "masks": (degree + 1) / n,
        "bytes_formula": extra / sa,
        "bytes": ours / theirs,
        "sharing": t * (degree + 1) / ((n // 2 + 1) * n),
        "with_vector": {name: (ours + size) / (theirs + size) for name, size in VECTORS.items()},
        "factor": 1 / p,
        "factor_claimed": math.sqrt(n / math.log(n)),
    }


def _bytes(n: int, degree: float, t: int, q_total: float) -> float:
    """Bytes of one client beside its vector, in the library's messages."""
    shape = Shape(clients=n, degree=degree, mask_degree=degree, threshold=t, length=1, bits=32, dropout=q_total)
    cost = price(shape)
    return cost.sent_bytes + cost.received_bytes - shape.vector_bytes


def reached(q_total: float) -> dict[str, Any]:
    """From which n on p* is at most three tenths, and one fifth; and whether it falls with every n."""
    rules = ((n, paper.rule(n, q_total)) for n in range(3, _MOST + 1))
    known = [(n, rule.p_star) for n, rule in rules if rule is not None]
    rises = [after[0] for before, after in itertools.pairwise(known) if after[1] >= before[1]]
    first = {f"at_most_{level}": next(n for n, p in known if p <= level) for level in (0.3, 0.2)}
    return {"q_total": q_total, "from": known[0][0], "to": _MOST, "rises": len(rises), **first}


def smallest(n: int, q_total: float, step: float = 1e-4) -> dict[str, float]:
    """The smallest p from which on a round is lost with at most 0.01, t by the rule.

    And the mean degree over n - 1 of the Erdős-Rényi graph that the planner takes, with t_i a majority.
    """
    p = paper.p_star(n, q_total)
    while p > step and lost(n, p - step, q_total) <= _RELIABLE:
        p -= step
    planned = plan(n, q_total, graph="erdos-renyi")
    return {
        "n": n,
        "q_total": q_total,
        "p_star": paper.p_star(n, q_total),
        "smallest": p,
        "lost_there": lost(n, p, q_total),
        "planned": planned.graph.mean_degree(n) / (n - 1),
        "planned_log2_lost": planned.certificate.unreliable,
    }


def lost(n: int, p: float, q_total: float) -> float:
    """The exact union over clients, t by the paper's rule."""
    return bounds.not_informative(n, p, q_total, paper.threshold(n, p))


def find(sizes: list[int], dropouts: list[float]) -> dict[str, Any]:
    return {
        "rows": [row(n, q_total) for q_total in dropouts for n in sizes],
        "p_star": [reached(q_total) for q_total in dropouts],
        "smallest": [smallest(n, q_total) for q_total in dropouts for n in (1000,)],
    }


def verdict(found: dict[str, Any]) -> str:
    """Three tenths at most, whatever q_total."""
    first = max(one["at_most_0.3"] for one in found["p_star"])
    return "true" if first <= min(one["n"] for one in found["rows"]) else f"true where n ≥ {first:,}"


def verdict_factor(found: dict[str, Any]) -> str:
    reaches = all(one["factor"] >= one["factor_claimed"] for one in found["rows"])
    return "true" if reaches else "false as printed"


def verdict_falls(found: dict[str, Any]) -> str:
    return "false as printed" if any(one["rises"] for one in found["p_star"]) else "true"


def verdict_minimum(found: dict[str, Any]) -> str:
    return "false as printed" if any(one["smallest"] < one["p_star"] for one in found["smallest"]) else "true"
