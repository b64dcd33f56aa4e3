"""The section on communication and computation: Table 1 and appendix C."""

import itertools
from collections.abc import Callable
from typing import Any

from ccesa.crypto.primitives import PUBLIC_KEY_BYTES
from ccesa.crypto.shamir import SECRET_ELEMENTS
from ccesa.plan import paper
from experiments.page.held import Results, Said, Section
from experiments.page.markdown import ends, table

Row = dict[str, Any]
#: What Table 1 and appendix C say of each quantity: for SA, for CCESA, and for Bell et al.
GROWTH = {
    "client_bytes": ("client, bytes beside the vector", "O(n)", "O(√(n log n))", "O(log n)"),
    "client_agreements": ("client, agreements", "O(n)", "O(√(n log n))", "O(log n)"),
    "server_bytes": ("server, bytes beside the vectors", "O(n²)", "O(n √(n log n))", "O(n log n)"),
    "server_keystreams": ("server, masks", "O(m n²)", "O(m n log n)", "O(m n log n)"),
    "client_sharing": ("client, sharing", "O(n²)", "O(n log n)", "O(log² n)"),
    "server_rebuilding": ("server, rebuilding", "O(n³)", "O(n² log n)", "O(n log² n)"),
}
SCHEMES = {"SA": "SA", "CCESA": "CCESA", "planned": "planned (Bell et al.)"}


def _rows(found: Results, *schemes: str) -> list[Row]:
    """Return the rows of these schemes, all of one scheme together."""
    rows = found["costs"]["rows"]
    return [row for scheme in schemes or SCHEMES for row in rows if row["scheme"] == scheme]


def _about(row: Row) -> list[object]:
    return [row["scheme"], f"{row['n']:,}" + (" *m*" if row["source"] == "model" else "")]


def _counted(row: Row, key: str) -> str:
    return f"{row[key]:,.0f} ({row['paper'][key]:,.0f})"


def _bytes(found: Results) -> str:
    keys = ("client_bytes", "client_agreements", "client_keystreams", "server_keystreams")
    head = ["", "n", "degree", "client, bytes", "client, agreements", "client, masks", "server, masks"]
    return table(
        head,
        [
            [*_about(row), f"{row['degree']:,.0f}", *(_counted(row, key) for key in keys)]
            for row in _rows(found)
        ],
    )


def _secrets(found: Results) -> str:
    keys = ("client_sharing", "server_rebuilding")
    head = ["", "n", "t", "client, sharing", "server, rebuilding"]
    return table(
        head, [[*_about(row), f"{row['t']:,}", *(_counted(row, key) for key in keys)] for row in _rows(found)]
    )


def _growth(found: Results) -> str:
    rows = [
        [name, quantity, orders[number], *_fitted(found["costs"]["exponents"][scheme][key])]
        for number, (scheme, name) in enumerate(SCHEMES.items())
        for key, (quantity, *orders) in GROWTH.items()
    ]
    head = ["", "quantity", "Table 1 and appendix C", "the formula, fitted", "counted"]
    return table(head, rows, left=3)


def _fitted(exponents: dict[str, float]) -> list[str]:
    return [f"{exponents['paper']:.2f}", f"{exponents['all']:.2f} ({exponents['rounds']:.2f})"]


def _exponent(found: Results, scheme: str, key: str, kind: str = "all") -> float:
    return found["costs"]["exponents"][scheme][key][kind]


def _over(found: Results, key: str, *schemes: str) -> list[float]:
    """Return what is counted in per cent of what the formula says, at least and at most."""
    return ends(100 * row[key] / row["paper"][key] for row in _rows(found, *schemes))


def _above(found: Results, key: str, *schemes: str) -> list[float]:
    """Return by how many per cent the counts are above the formula."""
    return [ratio - 100 for ratio in _over(found, key, *schemes)]


def _real(found: Results) -> list[float]:
    return [max(row["n"] for row in _rows(found, scheme) if row["source"] == "rounds") for scheme in SCHEMES]


def _least(found: Results) -> int:
    """Return the fewest clients for which there is a p*."""
    return next(n for n in itertools.count(3) if paper.rule(n, found["costs"]["q_total"]))


def _degrees(found: Results) -> list[float]:
    return [
        end for scheme in ("planned", "CCESA") for end in ends(row["degree"] for row in _rows(found, scheme))
    ]


def _passed(found: Results) -> list[float]:
    """Return the only n at which the planned circle's server has more masks than the formula."""
    (row,) = (
        row for row in _rows(found, "planned") if row["server_keystreams"] > row["paper"]["server_keystreams"]
    )
    return [row["n"]]


def _turbo(key: str) -> Callable[[Results], list[float]]:
    return lambda found: [found["costs"]["turbo_aggregate"][key]]


SECTION = Section(
    title="Communication and computation",
    tables=[_bytes, _secrets, _growth],
    said=[
        Said("Graphs for q_total = {:g}", lambda found: [found["costs"]["q_total"]]),
        Said("Real rounds up to n = {:,} (SA), {:,} (CCESA), {:,} (planned)", _real),
        Said("with {} bits for a key and for a share", lambda _: [8 * PUBLIC_KEY_BYTES]),
        Said("(a secret has {})", lambda _: [SECRET_ELEMENTS]),
        Said("fitted over n = {:,} … {:,}", lambda found: ends(row["n"] for row in _rows(found))),
        Said(
            "over this range is n^{:.2f}", lambda found: [_exponent(found, "CCESA", "client_bytes", "paper")]
        ),
        Said("bytes are {:.0f} to {:.0f} % above the formula", lambda found: _above(found, "client_bytes")),
        Said(
            "A client's products are {:.0f} to {:.0f} % above",
            lambda found: _above(found, "client_sharing", "SA", "planned"),
        ),
        Said(
            "and {:.0f} to {:.0f} % above for CCESA", lambda found: _above(found, "client_sharing", "CCESA")
        ),
        Said(
            "the server's are {:.0f} to {:.0f} % of n·d²",
            lambda found: _over(found, "server_rebuilding", "SA", "planned"),
        ),
        Said("(CCESA: {:.0f} to {:.0f} %)", lambda found: _over(found, "server_rebuilding", "CCESA")),
        Said("needs {:.0f} to {:.0f} neighbours where p* needs {:.0f} to {:.0f}", _degrees),
        Said("Counted: n^{:.2f}", lambda found: [_exponent(found, "CCESA", "server_keystreams")]),
        Said("the pair masks n^{:.2f}", lambda found: [_exponent(found, "CCESA", "server_agreements")]),
        Said(
            "the formula has n^{:.2f}",
            lambda found: [_exponent(found, "CCESA", "server_keystreams", "paper")],
        ),
        Said(
            "since only {:.1%} drop out in the step that matters",
            lambda found: [paper.step_dropout(found["costs"]["q_total"])],
        ),
        Said("they have passed it at n = {:,}", _passed),
        Said("its formula is {:.1%} of Turbo-aggregate's", _turbo("ccesa_formula_share")),
        Said("SA is at {:.2%}, too", _turbo("SA_share")),
        Said("below n = {})", lambda found: [_least(found)]),
    ],
    fixed=[
        "a tenth drops out",
        "for each share of two secrets",
        "t² for each secret",
        "The formulas d² and n·d² are",
        "above d² for SA",
        "where t is half the neighbourhood",
        "of n·d² (CCESA",
        "t² counts and not d²",
        "gives n³",
        "total of O(m n²)",
        "as Table 1 says",
        "has m·d²",
        "where d² hardly",
        "(m = 10⁶, R = 32, n = 100, L = 10)",
        "printed as 3 %",
        "no p* at n = 50 (it exceeds 1 below",
    ],
)
