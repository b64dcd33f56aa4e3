"""The paper's bounds on both error probabilities, the exact values beside them, and rounds that were run.

Three panels: unreliability and privacy error against n at p = p*, and unreliability against p for few
clients, where it is large enough to be seen in real rounds. Writes results.json and error_bounds.png.
"""

import math
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
from matplotlib.figure import Figure

from ccesa.config import ErdosRenyi, Fixed, RoundConfig
from ccesa.errors import Unreliable
from ccesa.plan import bounds
from ccesa.plan.certify import Degrees, disconnected, unreliable
from ccesa.plan.montecarlo import estimate
from ccesa.plan.population import Population
from ccesa.simulate import Independent, simulate
from experiments.arguments import parse
from experiments.record import save

HERE = Path(__file__).parent
DROPOUTS = (0.0, 0.01, 0.05, 0.1)
SIZES = tuple(range(100, 1001, 100))
#: The third panel: few clients and a t that leaves nobody out for having too many neighbours.
FEW, FEW_T, FEW_DROPOUT = 24, 13, 0.1
CONNECTIONS = (0.7, 0.75, 0.8, 0.85, 0.9)
_LN10 = math.log(10.0)


def at_p_star(n: int, q_total: float) -> dict[str, float]:
    """log10 of the paper's bounds and of the exact union bounds, with the paper's p and t."""
    p = bounds.p_star(n, q_total)
    t = bounds.threshold(n, p)
    population, degrees = Population(clients=n, dropout=q_total), Degrees.of(ErdosRenyi(p=p), n)
    exact = math.log(n) + unreliable(degrees, lambda _: t, population, own_share=True)
    return {
        "n": n,
        "q_total": q_total,
        "p_star": p,
        "t": t,
        "unreliable_bound": bounds.log_unreliability(n, p, q_total, t) / _LN10,
        "unreliable_exact": exact / _LN10,
        "private_bound": bounds.log_privacy_error(n, p, q_total) / _LN10,
        "private_exact": disconnected(ErdosRenyi(p=p), population) / _LN10,
    }


def few_clients(p: float, rounds: int, graphs: int, seed: int) -> dict[str, Any]:
    """Unreliability with few clients: bound, exact, drawn, and lost in real rounds."""
    graph, rule = ErdosRenyi(p=p), Fixed(t=FEW_T)
    population = Population(clients=FEW, dropout=FEW_DROPOUT)
    exact = FEW * math.exp(unreliable(Degrees.of(graph, FEW), lambda _: FEW_T, population, own_share=True))
    drawn = estimate(graph, rule, population, graphs, np.random.default_rng(seed), own_share=True)
    config = RoundConfig(clients=FEW, length=1, graph=graph, threshold=rule)
    lost = sum(
        isinstance(simulate(config, dropout=Independent(FEW_DROPOUT), seed=seed + k).result, Unreliable)
        for k in range(rounds)
    )
    return {
        "p": p,
        "bound": math.exp(bounds.log_unreliability(FEW, p, FEW_DROPOUT, FEW_T)),
        "exact": min(1.0, exact),
        "drawn": drawn.unreliable,
        "rounds": rounds,
        "lost": lost,
    }


def picture(curves: list[dict[str, float]], few: list[dict[str, Any]]) -> Figure:
    figure = Figure(figsize=(13, 4), layout="constrained")
    panels = figure.subplots(1, 3)
    for panel, event in zip(panels, ("unreliable", "private"), strict=False):
        for number, q_total in enumerate(DROPOUTS):
            rows = [row for row in curves if row["q_total"] == q_total]
            n = [row["n"] for row in rows]
            colour = f"C{number}"
            panel.plot(n, [row[f"{event}_bound"] for row in rows], colour, ls="--")
            panel.plot(n, [row[f"{event}_exact"] for row in rows], colour, label=f"q_total = {q_total}")
        panel.set(xlabel="clients n, p = p*", ylabel="log10 of the probability")
        panel.legend()
    panels[0].set_title("unreliable (dashed: the paper's bound)")
    panels[1].set_title("not private (dashed: the paper's bound)")
    _few(panels[2], few)
    return figure


def _few(panel: Any, few: list[dict[str, Any]]) -> None:
    p = [row["p"] for row in few]
    rate = np.array([row["lost"] / row["rounds"] for row in few])
    error = 2 * np.sqrt(rate * (1 - rate) / [row["rounds"] for row in few])
    panel.plot(p, [row["bound"] for row in few], "C0--", label="the paper's bound")
    panel.plot(p, [row["exact"] for row in few], "C0", label="exact, union over clients")
    panel.plot(p, [row["drawn"] for row in few], "C1:", label="drawn graphs")
    panel.errorbar(p, rate, error, fmt="C2o", capsize=3, label=f"real rounds lost ({few[0]['rounds']} each)")
    panel.set(xlabel=f"p, n = {FEW}, t = {FEW_T}, q_total = {FEW_DROPOUT}", yscale="log")
    panel.set_title("few clients, real rounds")
    panel.legend()


def main(arguments: Sequence[str] | None = None) -> None:
    wanted = parse(__doc__, HERE, "fewer real rounds: a minute", arguments)
    started = time.time()
    curves = [at_p_star(n, q_total) for q_total in DROPOUTS for n in SIZES]
    few = []
    for p in CONNECTIONS:
        few.append(few_clients(p, 60 if wanted.quick else 1000, 100_000, wanted.seed))
        print(f"p = {p}: exact {few[-1]['exact']:.3g}, {few[-1]['lost']} of {few[-1]['rounds']} rounds lost")
    picture(curves, few).savefig(wanted.output / "error_bounds.png", dpi=150)
    result = {"at_p_star": curves, "few_clients": few}
    save(wanted.output / "results.json", result, seed=wanted.seed, quick=wanted.quick, started=started)


if __name__ == "__main__":
    main()
