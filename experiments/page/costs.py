"""The section on communication and computation: growth with n, and the graph of Bell et al."""

import math
from typing import Any

from ccesa.crypto.shamir import SECRET_ELEMENTS
from ccesa.plan import paper
from experiments.costs import bell, counting
from experiments.page.held import Results, Said, Section
from experiments.page.markdown import ends, table, word

Row = dict[str, Any]
#: What Table 1 and appendix C say of each quantity; of the planned graph they say nothing.
ORDERS = {
    "client_bytes": ("client, bytes beside the vector", "O(n)", "O(√(n log n))", "O(log n)"),
    "client_agreements": ("client, agreements", "O(n)", "O(√(n log n))", "O(log n)"),
    "server_bytes": ("server, bytes beside the vectors", "O(n²)", "O(n √(n log n))", "O(n log n)"),
    "server_keystreams": ("server, masks", "O(m n²)", "O(m n log n)", "O(m n log n)"),
    "client_sharing": ("client, sharing", "O(n²)", "O(n log n)", "O(log² n)"),
    "server_rebuilding": ("server, rebuilding", "O(n³)", "O(n² log n)", "O(n log² n)"),
}
BELL = "Bell et al."
#: The graphs whose t is about half of a neighbourhood.
HALVES = ("SA", BELL, "planned")


def _rows(found: Results, *schemes: str) -> list[Row]:
    rows = [row for scheme in counting.SCHEMES for row in found["costs"]["rows"] if row["scheme"] == scheme]
    return [row for row in rows if not schemes or row["scheme"] in schemes]


def _cells(row: Row, *names: str) -> list[str]:
    return [f"{row[name]:,.0f} ({row['paper'][name]:,.0f})" for name in names]


def _size(row: Row) -> str:
    return f"{row['n']:,}" + (" *m*" if row["source"] == "model" else "")


def _moved(found: Results) -> str:
    head = ["", "n", "degree", "client, bytes", "client, agreements", "client, masks", "server, masks"]
    names = ("client_bytes", "client_agreements", "client_keystreams", "server_keystreams")
    rows = [[r["scheme"], _size(r), f"{r['degree']:,.0f}", *_cells(r, *names)] for r in _rows(found)]
    return table(head, rows)


def _shared(found: Results) -> str:
    head = ["", "n", "t", "client, sharing", "server, rebuilding"]
    names = ("client_sharing", "server_rebuilding")
    return table(head, [[r["scheme"], _size(r), f"{r['t']:,}", *_cells(r, *names)] for r in _rows(found)])


def _growth(found: Results) -> str:
    head = ["", "quantity", "Table 1 and appendix C", "the formula, fitted", "counted"]
    rows = []
    for place, scheme in enumerate(counting.SCHEMES, 1):
        for name, said in ORDERS.items():
            fits = found["costs"]["exponents"][scheme][name]
            order = said[place] if place < len(said) else "—"
            counted = f"{fits['all']:.2f} ({fits['rounds']:.2f})"
            rows.append([scheme, said[0], order, f"{fits['paper']:.2f}", counted])
    return table(head, rows, left=3)


def _same_demands(found: Results) -> str:
    rows = found["costs"]["same_demands"]
    lines = [
        [who, *(f"{row[key]['degree']}, {row[key]['t']}" for row in rows)]
        for who, key in ((BELL, "bell"), ("the planner", "planned"))
    ]
    return table(["degree, t", *(f"n = {row['n']:,}" for row in rows)], lines)


def _affordable(found: Results) -> list[object]:
    (most,) = found.settings("costs", "affordable")
    return [most[scheme] for scheme in ("SA", "CCESA", "planned")]


def _fit(found: Results, name: str, source: str) -> list[float]:
    """The exponent of CCESA."""
    return [found["costs"]["exponents"]["CCESA"][name][source]]


def _of_formula(row: Row, name: str) -> float:
    return float(row[name] / row["paper"][name])


def _percent(found: Results, name: str, *schemes: str, off: int = 0) -> list[float]:
    """Counted, as a part of the formula, at least and at most; as in "33 to 51 %", where the sign is once."""
    least, most = ends(_of_formula(row, name) - off for row in _rows(found, *schemes))
    return [100 * least, most]


def _bell(found: Results) -> list[object]:
    degrees = [row["degree"] for row in _rows(found, BELL) if row["n"] in (500, 2000)]
    return [*degrees, bell.choice(10**8, counting.GAMMA, counting.Q_TOTAL).degree]


def _few(found: Results) -> list[object]:
    """At the smallest n: who drops out at most, and what that leaves of a neighbourhood."""
    row = _rows(found, BELL)[0]
    gone = math.floor(row["n"] * counting.Q_TOTAL)
    return [row["degree"], row["n"], word(gone), word(row["degree"] - gone)]


def _degrees(found: Results) -> list[float]:
    return [end for scheme in ("planned", "CCESA") for end in ends(r["degree"] for r in _rows(found, scheme))]


def _apart(found: Results) -> list[object]:
    rows = found["costs"]["same_demands"]
    return [word(max(row["planned"]["degree"] - row["bell"]["degree"] for row in rows))]


def _passed(found: Results) -> list[object]:
    """From which n on the planned circle's server has more masks than the formula."""
    return [min(r["n"] for r in _rows(found, "planned") if _of_formula(r, "server_keystreams") > 1)]


def _without_p_star(found: Results) -> list[object]:
    return [1 + max(n for n in range(3, 200) if paper.rule(n, found["costs"]["q_total"]) is None)]


SECTION = Section(
    title="Communication and computation",
    tables=[_moved, _shared, _growth, _same_demands],
    said=[
        Said("Graphs for q_total = {}", lambda found: [found["costs"]["q_total"]]),
        Said("Real rounds up to n = {} (SA), {} (CCESA), {:,} (Bell et al. and planned)", _affordable),
        Said("with {} bits for a key and for a share", lambda _: [counting.KEY_BITS]),
        Said("(a secret has {})", lambda _: [SECRET_ELEMENTS]),
        Said(
            "σ = {} and η = {} bits, and at most a fraction of {} each",
            lambda found: [found.settings("costs", "bell")[0][key] for key in ("sigma", "eta", "gamma")],
        ),
        Said("drops out with probability {}", lambda found: [found["costs"]["q_total"]]),
        Said("fitted over n = {} … {:,}", lambda found: ends(row["n"] for row in _rows(found))),
        Said("over this range is n^{:.2f}", lambda found: _fit(found, "client_bytes", "paper")),
        Said("Our bytes are {:.0f} to {:.0%} above", lambda found: _percent(found, "client_bytes", off=1)),
        Said("products are {:.0f} to {:.0%} above d²", lambda found: _percent(found, "client_sharing", *HALVES, off=1)),
        Said("{:.0f} to {:.0%} above for CCESA", lambda found: _percent(found, "client_sharing", "CCESA", off=1)),
        Said("the server's are {:.0f} to {:.0%} of n·d²", lambda found: _percent(found, "server_rebuilding", *HALVES)),
        Said("(CCESA: {:.0f} to {:.0%})", lambda found: _percent(found, "server_rebuilding", "CCESA")),
        Said("{} neighbours at n = 500, {} at n = 2,000, and {} at n = 10⁸", _bell),
        Said("of {} neighbours at n = {}, where that is {} clients, {} stay for certain", _few),
        Said("circle needs {} to {} neighbours where p* needs {:.0f} to {:.0f}:", _degrees),
        Said("larger by at most {}:", _apart),
        Said("Counted: n^{:.2f}", lambda found: _fit(found, "server_keystreams", "all")),
        Said("the pair masks n^{:.2f})", lambda found: _fit(found, "server_agreements", "all")),
        Said("the formula has n^{:.2f}", lambda found: _fit(found, "server_keystreams", "paper")),
        Said("since only {:.1%} drop out", lambda found: [paper.step_dropout(found["costs"]["q_total"])]),
        Said("they have passed it at n = {:,}", _passed),
        Said("no p* at n = 50 (it exceeds one below n = {})", _without_p_star),
    ],
    fixed=[
        "while a tenth drops out.",
        "its own two secrets, t² for each",
        "The formulas d² and n·d² are",
        "above d² for SA",
        "about half the neighbourhood",
        "of n·d²",
        "since t² counts and not d²",
        "gives n³, which",
        "O(m n²) leaves out",
        "Table 1 gives log n",
        "Appendix C has m·d²",
        "where d² hardly grows",
    ],
)
