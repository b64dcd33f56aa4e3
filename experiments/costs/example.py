"""Turbo-aggregate beside the other schemes, in bytes that were sent: the paper's example, and around it."""

from typing import Any, NamedTuple

import numpy as np
from scipy.stats import binom

from ccesa.guards import CURIOUS
from ccesa.protocol.steps import steps_under
from experiments import bounds
from experiments.costs import turbo
from experiments.costs.counting import BITS, KEY_BITS, Q_TOTAL, SCHEMES, SHARE_BITS, chosen, ran
from experiments.costs.field import Vector, drawn, total


class Example(NamedTuple):
    """The numbers of the paper's section "Related work": n, L, and vectors up to its m."""

    n: int
    groups: int
    lengths: tuple[int, ...]


#: Of a round of ours: its steps, or the stride of a series, in which rounds follow one another.
EXCHANGES, EXCHANGES_IN_A_SERIES = len(steps_under("curious")), CURIOUS.stride


def at_length(example: Example, length: int, seed: int) -> dict[str, Any]:
    """What a client sends and receives for a vector of this length, in every scheme."""
    found = {"length": length, "Turbo-aggregate": turbo_bytes(example.n, example.groups, length, seed)}
    for scheme in SCHEMES:
        choice = chosen(scheme, example.n)
        if choice is not None:
            round_ = ran(example.n, *choice, 0.0, seed, length)
            found[scheme] = {"sent": round_.sent, "received": round_.received}
    return found


def turbo_bytes(n: int, groups: int, length: int, seed: int) -> dict[str, Any]:
    """A round of Turbo-aggregate in which nobody drops out, and whether its sum is the plain one."""

    def vector(number: int) -> Vector:
        return drawn(np.random.default_rng([seed, n, number, length]), length)

    found = turbo.Round(n, groups, vector, length, seed).ran()
    plain = np.zeros(length, np.uint32)
    for number in found.included:
        plain = total(np.stack([plain, vector(number)]))
    formula = bounds.turbo_aggregate_bandwidth(n, length, BITS, groups) / 8
    sent = float(np.mean(found.sent))
    return {
        "n": n,
        "groups": groups,
        "length": length,
        "sent": sent,
        "received": float(np.mean(found.received)),
        "most_sent": max(found.sent),
        "server": found.server,
        "relayed": found.relayed,
        "exchanges": found.exchanges,
        "formula": formula,
        "sent_to_formula": sent / formula,
        "lost": lost(n, groups, Q_TOTAL),
        "exact": bool((found.vector == plain).all()),
    }


def lost(n: int, groups: int, q: float) -> float:
    """The probability that a group with a partial sum loses more than half, everyone with probability q."""
    sizes = [len(part) for part in np.array_split(np.arange(n), groups)]
    kept = [float(binom.cdf(size // 2, size, q)) for size in [*sizes[1:], sizes[-1]]]
    return 1 - float(np.prod(kept))


def compared(rows: list[dict[str, Any]], example: Example) -> dict[str, Any]:
    """The paper's example: bytes of a client beside those of Turbo-aggregate, counted and by its formulas."""
    longest = rows[-1]
    turbo_sent = longest["Turbo-aggregate"]["sent"]
    turbo_both = turbo_sent + longest["Turbo-aggregate"]["received"]
    theirs = bounds.turbo_aggregate_bandwidth(example.n, longest["length"], BITS, example.groups)
    printed = bounds.paper_bandwidth(example.n, longest["length"], BITS, KEY_BITS, SHARE_BITS)
    found: dict[str, Any] = {"formula": {"turbo": theirs / 8, "ccesa": printed / 8, "share": printed / theirs}}
    for scheme in SCHEMES:
        if scheme in longest:
            sent, received = longest[scheme]["sent"], longest[scheme]["received"]
            found[scheme] = {"sent_share": sent / turbo_sent, "share": (sent + received) / turbo_both}
    return found
