"""How what was counted grows with the number of clients: a straight line through the logarithms."""

from typing import Any

import numpy as np

from ccesa.plan import plan
from experiments.costs import bell
from experiments.costs.counting import BITS, COUNTED, GAMMA, Q_TOTAL, SCHEMES


def exponent(points: list[tuple[float, float]]) -> float | None:
    """The slope of a line through the logarithms; a zero has none."""
    points = [(n, value) for n, value in points if value > 0]
    if len(points) < 2:
        return None
    n, values = np.log(np.array(points)).T
    return float(np.polyfit(n, values, 1)[0])


def exponents(rows: list[dict[str, Any]]) -> dict[str, dict[str, dict[str, float | None]]]:
    """Of each scheme and quantity: from real rounds only, from all points, and from the paper's formulas."""
    found: dict[str, dict[str, dict[str, float | None]]] = {}
    for scheme in SCHEMES:
        mine = [row for row in rows if row["scheme"] == scheme]
        found[scheme] = {
            name: {
                "rounds": exponent([(r["n"], r[name]) for r in mine if r["source"] == "rounds"]),
                "all": exponent([(r["n"], r[name]) for r in mine]),
                "paper": exponent([(r["n"], r["paper"][name]) for r in mine if name in r["paper"]]),
            }
            for name in COUNTED
        }
    return found


def farthest(rows: list[dict[str, Any]]) -> dict[str, float]:
    """How far the model is from the rounds at most, relative to them."""
    real = [row for row in rows if row["source"] == "rounds"]
    return {
        name: max((abs(row["model"][name] / row[name] - 1) for row in real if row[name]), default=0.0)
        for name in COUNTED
    }


def same_demands(sizes: tuple[int, ...]) -> list[dict[str, Any]]:
    """Neighbours and threshold of Bell et al., beside what the planner chooses for their demands."""
    found = []
    for n in sizes:
        made = plan(
            n,
            Q_TOTAL,
            GAMMA,
            length=1,
            bits=BITS,
            privacy_bits=bell.SIGMA,
            reliability_bits=bell.ETA,
            exact_dropout=True,
        )
        degree = made.graph.max_degree(n)
        theirs = bell.choice(n, GAMMA, Q_TOTAL)
        ours = {"degree": degree, "t": made.threshold.of(degree)}
        found.append({"n": n, "bell": theirs._asdict(), "planned": ours})
    return found
