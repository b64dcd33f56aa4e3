"""The paper's bounds on both error probabilities, the exact values beside them, and rounds that were run.

Three panels: unreliability and privacy error against n at p = p*, and unreliability against p for few
clients, where it is large enough to be seen in real rounds. Every round without a sum counts as lost,
whatever the reason. Writes results.json and error_bounds.png.
"""

import math
import time
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
from matplotlib.figure import Figure

from ccesa.agreement.config import RoundConfig
from ccesa.graphs import ErdosRenyi
from ccesa.graphs.assumptions import Assumptions
from ccesa.graphs.thresholds import Fixed
from ccesa.plan import paper
from ccesa.simulate import Independent, simulate
from experiments import bounds, chart
from experiments.arguments import parse, run
from experiments.error_bounds.exact import log_not_private
from experiments.montecarlo import estimate
from experiments.one_client import Degrees, unreliable
from experiments.record import Key, save

HERE = Path(__file__).parent
DROPOUTS = (0.0, 0.01, 0.05, 0.1)
SIZES = tuple(range(100, 1001, 100))
#: The third panel: few clients and a t that leaves nobody out for having too many neighbours.
FEW, FEW_T, FEW_DROPOUT = 24, 13, 0.1
CONNECTIONS = (0.7, 0.75, 0.8, 0.85, 0.9)
#: Real rounds for each p, and graphs that are drawn.
ROUNDS, QUICK_ROUNDS, GRAPHS = 1000, 60, 100_000
_LN10 = math.log(10.0)


def settings(quick: bool) -> dict[str, Any]:
    return {
        "dropouts": DROPOUTS,
        "sizes": SIZES,
        "few": (FEW, FEW_T, FEW_DROPOUT, CONNECTIONS),
        "rounds": QUICK_ROUNDS if quick else ROUNDS,
        "graphs": GRAPHS,
    }


def at_p_star(n: int, q_total: float) -> dict[str, float]:
    """log10 of the paper's bounds and of the exact values, with the paper's p and t.

    Unreliable: a union over clients of exact tails, with a client's own share as in a round, and without it
    (``unreliable_others``), which is what the theorem bounds. Not private: G3 falls apart, exactly. Beside it
    the planner's certificate, which takes everyone who drops out in any of the four steps for gone before V3,
    and so lies above the paper's bound.
    """
    p = paper.p_star(n, q_total)
    t = paper.threshold(n, p)
    assumptions, degrees = Assumptions(clients=n, dropout=q_total), Degrees.of(ErdosRenyi(p=p), n)
    exact, others = (
        math.log(n) + unreliable(degrees, lambda _: t, assumptions, own_share=own) for own in (True, False)
    )
    return {
        "n": n,
        "q_total": q_total,
        "p_star": p,
        "t": t,
        "unreliable_bound": bounds.log_unreliability(n, p, q_total, t) / _LN10,
        "unreliable_exact": exact / _LN10,
        "unreliable_others": others / _LN10,
        "private_bound": bounds.log_privacy_error(n, p, q_total) / _LN10,
        "private_exact": log_not_private(n, p, q_total) / _LN10,
        "private_certificate": ErdosRenyi(p=p).masks(n).log_apart(assumptions) / _LN10,
    }


def few_clients(p: float, rounds: int, graphs: int, seed: int) -> dict[str, Any]:
    """Unreliability with few clients: bound, exact, drawn, and lost in real rounds."""
    graph, rule = ErdosRenyi(p=p), Fixed(t=FEW_T)
    assumptions = Assumptions(clients=FEW, dropout=FEW_DROPOUT)
    exact = FEW * math.exp(unreliable(Degrees.of(graph, FEW), lambda _: FEW_T, assumptions, own_share=True))
    drawn = estimate(graph, rule, assumptions, graphs, np.random.default_rng(seed), own_share=True)
    ends = outcomes(p, rounds, seed)
    return {
        "p": p,
        "bound": math.exp(bounds.log_unreliability(FEW, p, FEW_DROPOUT, FEW_T)),
        "exact": min(1.0, exact),
        "drawn": drawn.unreliable,
        "rounds": rounds,
        "lost": rounds - ends["aggregate"],
        "outcomes": dict(ends),
    }


def outcomes(p: float, rounds: int, seed: int) -> Counter[str]:
    """How so many real rounds ended."""
    config = RoundConfig(clients=FEW, length=1, graph=ErdosRenyi(p=p), threshold=Fixed(t=FEW_T))
    dropout = Independent(FEW_DROPOUT)
    return Counter(simulate(config, dropout=dropout, seed=seed + k).outcome for k in range(rounds))


def picture(curves: list[dict[str, float]], few: list[dict[str, Any]]) -> Figure:
    figure = Figure(figsize=(14, 5), layout="constrained")
    panels = figure.subplots(1, 3)
    for panel, event in zip(panels, ("unreliable", "private"), strict=False):
        for number, q_total in enumerate(DROPOUTS):
            _curves(panel, number, [row for row in curves if row["q_total"] == q_total], event)
        panel.set(xlabel="clients n, p = p*", ylabel="probability", yscale="log")
        panel.grid(color="0.9")
    panels[0].set_title("the sum cannot be unmasked (exact: union over clients)", fontsize=10)
    panels[1].set_title("the survivors' graph falls apart", fontsize=10)
    _few(panels[2], few)
    handles, labels = panels[0].get_legend_handles_labels()
    figure.legend(handles, labels, loc="outside lower left", ncols=4, fontsize=8)
    return figure


def _curves(panel: Any, number: int, rows: list[dict[str, float]], event: str) -> None:
    """Solid and filled: exact. Dashed and hollow: the paper's bound."""
    look = chart.style(number) | {"ls": "-", "ms": 5, "lw": 1}
    n, q_total = [row["n"] for row in rows], rows[0]["q_total"]
    exact, bound = ([10.0 ** row[f"{event}_{kind}"] for row in rows] for kind in ("exact", "bound"))
    panel.plot(n, exact, label=f"q_total = {q_total:g}: exact", **look)
    # Larger hollow markers, so that both are seen where the two coincide.
    dashed = look | {"ls": "--", "mfc": "none", "ms": 9}
    panel.plot(n, bound, label=f"q_total = {q_total:g}: the paper's bound", **dashed)


def _few(panel: Any, few: list[dict[str, Any]]) -> None:
    p = [row["p"] for row in few]
    rate = np.array([row["lost"] / row["rounds"] for row in few])
    error = 2 * np.sqrt(rate * (1 - rate) / [row["rounds"] for row in few])
    for number, (name, label) in enumerate(
        {
            "bound": "the paper's bound",
            "exact": "exact, union over clients",
            "drawn": "drawn graphs: one who stays is short of holders",
        }.items()
    ):
        panel.plot(p, [row[name] for row in few], label=label, ms=5, lw=1, **chart.style(number))
    label = f"real rounds lost, of {few[0]['rounds']} each (± 2 σ)"
    panel.errorbar(p, rate, error, fmt="D", color="black", mfc="white", capsize=4, label=label)
    panel.set(
        xlabel=f"connection probability p (n = {FEW}, t = {FEW_T}, q_total = {FEW_DROPOUT:g})",
        ylabel="probability",
        yscale="log",
        xticks=p,
    )
    chart.finish(panel, "few clients, real rounds")


def main(arguments: Sequence[str] | None = None) -> None:
    wanted = parse(__doc__, HERE, "fewer real rounds: a minute", arguments)
    started, key = time.time(), Key(seed=wanted.seed, quick=wanted.quick, settings=settings(wanted.quick))
    curves = [at_p_star(n, q_total) for q_total in DROPOUTS for n in SIZES]
    few = []
    for p in CONNECTIONS:
        few.append(few_clients(p, key.settings["rounds"], GRAPHS, wanted.seed))
        print(f"p = {p}: exact {few[-1]['exact']:.3g}, rounds {few[-1]['outcomes']}", flush=True)
    picture(curves, few).savefig(wanted.output / "error_bounds.png", dpi=150)
    save(wanted.output / "results.json", {"at_p_star": curves, "few_clients": few}, key, started=started)


if __name__ == "__main__":
    run(main)
