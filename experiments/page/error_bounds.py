"""The section on both error probabilities: the paper's bounds, exact values, rounds that were run."""

import math
from typing import Any

from bench.paper import P_STAR
from experiments.page.held import Results, Said, Section
from experiments.page.markdown import ends, power, scientific, table, word

Row = dict[str, Any]


def _stars(found: Results) -> list[Row]:
    return found["error_bounds"]["at_p_star"]


def _star(found: Results, n: int, q_total: float) -> Row:
    (row,) = (row for row in _stars(found) if (row["n"], row["q_total"]) == (n, q_total))
    return row


def _few(found: Results) -> list[Row]:
    return found["error_bounds"]["few_clients"]


def _lost(found: Results) -> str:
    head = ["p", "the theorem's bound", "exact, union over clients", "drawn graphs"]
    head += ["rounds lost", "unmasking failed", "too few clients left"]
    return table(head, [_cells(row) for row in _few(found)], left=0)


def _cells(row: Row) -> list[object]:
    chances = [f"{row[key]:.3g}" for key in ("p", "bound", "exact", "drawn")]
    reasons = [row["outcomes"].get(reason, 0) for reason in ("Unreliable", "TooFewClients")]
    if sum(reasons) != row["lost"]:
        raise ValueError(f"rounds at p = {row['p']} were lost for a reason that the table has no column for")
    return [*chances, f"{row['lost']:,} of {row['rounds']:,}", *reasons]


def _printed(found: Results) -> list[object]:
    """Count the printed values of p* that are right, and that are off by one in the last digit."""
    off = [round(abs(p - round(_star(found, *key)["p_star"], 3)) * 1000) for key, p in P_STAR.items()]
    if max(off) > 1:
        raise ValueError(f"a printed p* is off by {max(off)} in the last digit")
    return [len(off), off.count(0), word(off.count(1)), P_STAR[600, 0.05], _star(found, 600, 0.05)["p_star"]]


def _digits(found: Results) -> int:
    """Count the digits in which the exact privacy error and its bound agree everywhere."""
    apart = max(abs(1 - 10 ** (row["private_exact"] - row["private_bound"])) for row in _stars(found))
    return math.floor(-math.log10(apart))


def _private(found: Results) -> list[str]:
    most = max(row["private_bound"] for row in _stars(found))
    return [power(10, round(most, 1)), word(_digits(found))]


def above_the_claim(found: Results) -> list[Row]:
    """Return the rows whose bound on unreliability is not below the paper's 10⁻²."""
    return [row for row in _stars(found) if row["unreliable_bound"] >= -2]


def _unreliable(found: Results) -> list[object]:
    rows = above_the_claim(found)
    most = max(10 ** row["unreliable_exact"] for row in _stars(found))
    (n,) = {row["n"] for row in rows}
    bounds = [10 ** row["unreliable_bound"] for row in rows]
    return [*bounds, n, *(row["q_total"] for row in rows), scientific(most)]


def looseness(found: Results, exact: str = "others") -> list[float]:
    """Return how many times too large the bound on unreliability is at p*, at least and at most."""
    return ends(10 ** (row["unreliable_bound"] - row[f"unreliable_{exact}"]) for row in _stars(found))


def _certificate(found: Results) -> list[str]:
    row = _star(found, 1000, 0.1)
    return [power(10, round(row[key])) for key in ("private_certificate", "private_bound")]


def _at(found: Results, p: float) -> list[float]:
    (row,) = (row for row in _few(found) if row["p"] == p)
    return [row[key] for key in ("bound", "exact", "lost", "rounds")]


def _saved(found: Results) -> list[float]:
    """Return up to which p fewer rounds were lost than drawn graphs say, in which nobody is left out."""
    return [max(row["p"] for row in _few(found) if row["lost"] / row["rounds"] < row["drawn"])]


def _settings(found: Results) -> list[float]:
    (n, t, q_total, _), rounds = found.settings("error_bounds", "few", "rounds")
    return [n, t, q_total, rounds]


SECTION = Section(
    title="Error probabilities",
    tables=[_lost],
    said=[
        Said(
            "p* for n = {} … {}, {} q_total",
            lambda found: [
                *ends(row["n"] for row in _stars(found)),
                word(len({row["q_total"] for row in _stars(found)})),
            ],
        ),
        Said(
            "{} values | {} agree in all three digits; {} printed ones are off by one in the last"
            " (n = 600, q_total = 0.05: {:.3f}, right is {:.3f})",
            _printed,
        ),
        Said("at most {}, and the bound is exact: it agrees with the exact probability in {} digits", _private),
        Said(
            "the bound is {:.4f}, {:.4f} and {:.4f} at n = {} for q_total = {:g}, {:g} and {:g}, below"
            " elsewhere; the exact union bound is at most {}",
            _unreliable,
        ),
        Said("n = {}, t = {}, q_total = {}; {:,} real rounds", _settings),
        Said("(n = 1,000, q_total = 0.1: {} where the bound has {})", _certificate),
        Said("is {:.0f} to {:.0f} times too large at p*", looseness),
        Said("that saves rounds up to p = {:g}, and", _saved),
        Said("which count it, {:.0f} to {:.0f} times", lambda found: looseness(found, "exact")),
        Said(
            "at p = 0.85 it is {:.2g}, the exact union bound {:.2g}, and {} of {:,} real rounds were lost",
            lambda found: _at(found, 0.85),
        ),
    ],
    fixed=[
        "in all three digits",
        "below 10⁻⁴⁰",
        "below 10⁻²",
        "Theorem 6 is that G3 falls apart, where each client is in V3 with probability (1 − q)³",
        "in any of the four steps for gone, (1 − q)⁴",
        "*two disjoint sets*",
    ],
)
