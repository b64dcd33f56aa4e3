"""The paper's running-time table: milliseconds of a client's four steps and of the server.

All twelve rows of the paper with its own figures beside ours, and as a third block the graph that the
planner chooses for the same n and q_total. Ours are milliseconds of processor time: other work on the machine
does not count. Writes results.json and running_time.png.
"""

import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import median
from typing import Any, Literal

import numpy as np
from matplotlib.figure import Figure

from bench.paper import PAPER
from ccesa.agreement.config import RoundConfig
from ccesa.errors import RoundFailed
from ccesa.graphs import Complete, ErdosRenyi, Graph
from ccesa.graphs.thresholds import Fixed, Threshold
from ccesa.plan import plan
from ccesa.protocol.server import Aggregate
from ccesa.simulate import Independent, SimulatedRound, simulate
from experiments.arguments import parse, run
from experiments.record import Key, save

HERE = Path(__file__).parent
LENGTH = 10_000
BITS: Literal[16] = 16
QUICK_SIZE = 100
STEPS = ("advertise", "share", "mask", "unmask")
#: How many rounds of each n are run; the median counts.
REPEATS = {100: 5, 300: 5, 500: 5}
SCHEMES = ("SA", "CCESA", "planned")
#: A round that is lost has no running time: it is run again, with other dropouts, this often.
ATTEMPTS = 5


def settings(quick: bool) -> dict[str, Any]:
    sizes = [QUICK_SIZE] if quick else list(REPEATS)
    return {"sizes": sizes, "repeats": REPEATS, "length": LENGTH, "bits": BITS}


@dataclass(frozen=True, kw_only=True)
class Row:
    """One row of the table before it is measured; the paper has nothing to compare a planned graph with."""

    scheme: str
    n: int
    q_total: float
    t: int
    p: float | None
    paper_ms: list[int] | None
    graph: Graph
    threshold: Threshold


def paper_row(scheme: str, n: int, q_total: float, t: int, p: float, paper: Sequence[int]) -> Row:
    return Row(
        scheme=scheme,
        n=n,
        q_total=q_total,
        t=t,
        p=p,
        paper_ms=list(paper),
        graph=Complete() if scheme == "SA" else ErdosRenyi(p=p),
        threshold=Fixed(t=t),
    )


def planned_row(n: int, q_total: float) -> Row:
    made = plan(n, q_total, length=LENGTH, bits=BITS)
    return Row(
        scheme="planned",
        n=n,
        q_total=q_total,
        t=made.t,
        p=None,
        paper_ms=None,
        graph=made.graph,
        threshold=made.threshold,
    )


def measured(rows: list[Row], seed: int) -> list[dict[str, Any]]:
    """Rows of one n and q_total in turns: whatever mood the machine is in, they share it."""
    repeats = REPEATS.get(rows[0].n, 1)
    reports = [[_a_round(row, seed + 100 * number) for row in rows] for number in range(repeats)]
    return [_medians(row, list(mine)) for row, mine in zip(rows, zip(*reports, strict=True), strict=True)]


def _medians(row: Row, reports: list[SimulatedRound]) -> dict[str, Any]:
    about = {name: getattr(row, name) for name in ("scheme", "n", "q_total", "t", "p", "paper_ms")}
    return about | {
        "client_ms": [median(report.client_ms[step] for report in reports) for step in STEPS],
        "server_ms": median(report.server_ms for report in reports),
        "degree": median(report.degree_mean for report in reports),
        "mask_degree": median(report.mask_degree_mean for report in reports),
        "rounds": len(reports),
        "exact": all(report.exact for report in reports),
    }


def _a_round(row: Row, seed: int) -> SimulatedRound:
    for attempt in range(ATTEMPTS):
        config = RoundConfig(clients=row.n, length=LENGTH, bits=BITS, graph=row.graph, threshold=row.threshold)
        report = simulate(config, dropout=Independent(row.q_total), seed=seed + attempt, threads=1)
        if isinstance(report.result, Aggregate):
            return report
        print(f"  lost ({report.outcome}), once more", flush=True)
    raise RoundFailed(f"{ATTEMPTS} rounds with n = {row.n} were lost, one after the other")


def ratios(rows: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """A client's steps 1 and 2 over those of SA with the same n and q_total; the paper says: p."""
    found = []
    for row in rows:
        base = _same(rows, row, "SA")
        if row is base:
            continue
        paper = sum(row["paper_ms"][1:3]) / sum(base["paper_ms"][1:3]) if row["paper_ms"] else None
        found.append(
            {
                "scheme": row["scheme"],
                "n": row["n"],
                "q_total": row["q_total"],
                "p": row["p"],
                "paper": paper,
                "ours": sum(row["client_ms"][1:3]) / sum(base["client_ms"][1:3]),
                "ours_server": row["server_ms"] / base["server_ms"],
            }
        )
    return found


def _same(rows: list[dict[str, Any]], like: dict[str, Any], scheme: str) -> dict[str, Any]:
    found = (row for row in rows if (row["n"], row["q_total"]) == (like["n"], like["q_total"]))
    return next(row for row in found if row["scheme"] == scheme)


def picture(rows: list[dict[str, Any]]) -> Figure:
    """Bars for client (steps 1 and 2) and server; the paper's own times as marks above them."""
    counts = {n: next(row["rounds"] for row in rows if row["n"] == n) for n in {row["n"] for row in rows}}
    figure = Figure(figsize=(12, 4.5), layout="constrained")
    cases = sorted({(row["n"], row["q_total"]) for row in rows})
    places = np.arange(len(cases))
    for panel, party in zip(figure.subplots(1, 2), ("client, steps 1 and 2", "server"), strict=True):
        for number, scheme in enumerate(SCHEMES):
            chosen = [next(r for r in rows if (r["n"], r["q_total"], r["scheme"]) == (*c, scheme)) for c in cases]
            at = places + 0.27 * (number - 1)
            ours, paper = zip(*(_times(row, party) for row in chosen), strict=True)
            look = {"color": ("0.15", "0.55", "0.9")[number], "edgecolor": "black"}
            panel.bar(at, ours, 0.25, label=f"{scheme}, ours", hatch=("", "//", "..")[number], **look)
            if scheme != "planned":
                mark = {"marker": "o" if scheme == "SA" else "^", "ls": "none", "mfc": "white", "mec": "black"}
                panel.plot(at, paper, label=f"{scheme}, the paper", **mark)
        panel.set_xticks(places, [f"n = {n}\nq_total = {q:g}" for n, q in cases], fontsize=8)
        panel.set(yscale="log", ylabel="milliseconds (ours: processor time)")
        panel.set_title(party, fontsize=10)
        panel.grid(axis="y", color="0.9")
        panel.set_axisbelow(True)
    figure.legend(*panel.get_legend_handles_labels(), loc="outside lower center", ncols=5, fontsize=9)
    said = ", ".join(f"{_rounds(count)} at n = {n}" for n, count in sorted(counts.items()))
    figure.suptitle(f"running time; ours: {said}", fontsize=10)
    return figure


def _rounds(count: int) -> str:
    return "a single round" if count == 1 else f"median of {count} rounds"


def _times(row: dict[str, Any], party: str) -> tuple[float, float]:
    """Ours and the paper's, in milliseconds."""
    paper = row["paper_ms"] or [float("nan")] * 5
    if party == "server":
        return row["server_ms"], paper[4]
    return sum(row["client_ms"][1:3]), sum(paper[1:3])


def line(row: dict[str, Any]) -> str:
    ours = [*row["client_ms"], row["server_ms"]]
    paper = row["paper_ms"] or [None] * len(ours)
    cells = [f"{a:.1f}" + (f" ({b:,})" if b is not None else "") for a, b in zip(ours, paper, strict=True)]
    return f"{row['scheme']:8} n = {row['n']}, q_total = {row['q_total']:g}: {', '.join(cells)}"


def main(arguments: Sequence[str] | None = None) -> None:
    wanted = parse(__doc__, HERE, "the rows of n = 100 only", arguments)
    started, key = time.time(), Key(seed=wanted.seed, quick=wanted.quick, settings=settings(wanted.quick))
    asked = [paper_row(*row) for row in PAPER if row[1] == QUICK_SIZE or not wanted.quick]
    cases = [(row.n, row.q_total) for row in asked if row.scheme == "SA"]
    print("milliseconds of steps 0 to 3 and of the server; in brackets the paper's")
    rows = []
    for n, q_total in cases:
        mine = [row for row in asked if (row.n, row.q_total) == (n, q_total)]
        for found in measured([*mine, planned_row(n, q_total)], wanted.seed):
            rows.append(found)
            print(line(found), flush=True)
    rows.sort(key=lambda row: SCHEMES.index(row["scheme"]))
    picture(rows).savefig(wanted.output / "running_time.png", dpi=150)
    result = {"unit": "ms of processor time", "rows": rows, "to_sa": ratios(rows)}
    save(wanted.output / "results.json", result, key, started=started)


if __name__ == "__main__":
    run(main)
