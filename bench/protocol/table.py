"""The paper's running-time table, with our times and the floor beside the paper's own."""

from statistics import median
from typing import Any

from bench.paper import PAPER
from bench.progress import say
from bench.protocol import rounds
from bench.protocol.rounds import Measured
from ccesa.graphs import Complete, ErdosRenyi
from ccesa.graphs.thresholds import Fixed

_INTRODUCTION = """\
10,000 elements of 16 bits, one thread. Client steps are medians over the clients; the server is its whole
work in the round. In brackets the paper's own milliseconds, from another machine (its table of running
times); its generator is `numpy.random`, ours is AES-CTR."""

#: The row whose ratios have targets is run more often.
WATCHED = PAPER[-1]


def compare() -> list[dict[str, Any]]:
    """Measure every row."""
    return [_measured(row) for row in PAPER]


def _measured(row: tuple[Any, ...]) -> dict[str, Any]:
    scheme, n, q, t, p, paper = row
    say(f"table: {scheme} n={n} q={q}")
    graph = Complete() if scheme == "SA" else ErdosRenyi(p=p)
    config = rounds.paper_config(n, graph, Fixed(t=t))
    runs = rounds.median_of(4 if row == WATCHED else 1, config, q)
    best = sorted(runs, key=lambda run: run.server_ratio)[len(runs) // 2]
    return {"scheme": scheme, "n": n, "q": q, "t": t, "p": p, "paper": paper, **_ratios(best, runs)}


def _ratios(chosen: Measured, runs: list[Measured]) -> dict[str, Any]:
    return {
        "client": chosen.client,
        "server": chosen.server,
        "client_floor": chosen.client_floor,
        "server_floor": chosen.server_floor,
        "client_ratio": median(run.client_ratio for run in runs),
        "server_ratio": median(run.server_ratio for run in runs),
        "work": chosen.exact_work,
    }


def text(rows: list[dict[str, Any]]) -> str:
    """Return the section of the page."""
    lines = [
        f"{_INTRODUCTION}\n",
        "| | n | q | t | p | step 0 | step 1 | step 2 | step 3 | server | client / floor | server / floor |",
        "|---|--:|--:|--:|--:|--:|--:|--:|--:|--:|--:|--:|",
    ]
    for row in rows:
        ours = [row["client"][step] for step in ("advertise", "share", "mask", "unmask")] + [row["server"]]
        cells = [f"{mine:.1f} ({theirs:,})" for mine, theirs in zip(ours, row["paper"], strict=True)]
        head = [row["scheme"], str(row["n"]), f"{row['q']:g}", str(row["t"]), f"{row['p']:g}"]
        ratios = [f"{row['client_ratio']:.2f}", f"{row['server_ratio']:.2f}"]
        lines.append(f"| {' | '.join(head + cells + ratios)} |")
    lines.append(f"\nWork behind the last row: {rows[-1]['work']}.")
    return "\n".join(lines)
