"""A picture of cost against the number of clients: conventional, the paper's rule, ours.

Two panels: bytes per client beside its vector, and a client's working time on this machine.
"""

import argparse
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from matplotlib.figure import Figure

from ccesa.errors import ImpossiblePlan
from ccesa.plan import Cost, Plan, Rates, calibrate, plan
from ccesa.plan.report import Bill, bill
from experiments.arguments import run

CLIENTS = tuple(round(10 ** (power / 8)) for power in range(13, 41))  # 42 to 100,000
LINES: dict[str, Callable[[Bill], Cost | None]] = {
    "conventional (SA)": lambda one: one.conventional,
    "the paper's rule": lambda one: one.paper,
    "ccesa": lambda one: one.plan,
}


def plans(demands: dict[str, Any]) -> list[Plan]:
    """Plan for every number of clients; what is impossible for all of them raises ImpossiblePlan."""
    found, last = [], None
    for clients in CLIENTS:
        print(f"{clients:,} clients", flush=True)
        try:
            found.append(plan(clients, **demands))
        except ImpossiblePlan as error:
            last = error
    if last is not None and not found:
        raise last
    return found


def curves(made: list[Plan], rates: Rates) -> dict[str, dict[str, tuple[list[int], list[float]]]]:
    """Return by what a client pays, and by who names the price, the numbers of clients and the prices."""
    vector = made[0].shape.vector_bytes
    measures: dict[str, Callable[[Cost], float]] = {
        "bytes per client beside its vector": lambda cost: cost.sent_bytes + cost.received_bytes - vector,
        "seconds a client works (estimated)": lambda cost: cost.client_seconds or 0.0,
    }
    bills = {one.clients: bill(one, rates) for one in made}

    def curve(of: Callable[[Bill], Cost | None], measure: Callable[[Cost], float]) -> Any:
        priced = {clients: cost for clients, one in bills.items() if (cost := of(one)) is not None}
        return list(priced), [measure(cost) for cost in priced.values()]

    return {name: {line: curve(of, measure) for line, of in LINES.items()} for name, measure in measures.items()}


def picture(made: list[Plan], rates: Rates) -> Figure:
    figure = Figure(figsize=(10, 4.2), layout="constrained")
    panels = figure.subplots(1, 2)
    for panel, (measure, lines) in zip(panels, curves(made, rates).items(), strict=True):
        for name, points in lines.items():
            panel.plot(*points, label=name) if points[0] else None
        panel.set(xscale="log", yscale="log", xlabel="clients", ylabel=measure)
        panel.grid(alpha=0.3)
        panel.legend()
    figure.suptitle(_title(made[0]), fontsize=10)
    return figure


def _title(one: Plan) -> str:
    who = one.assumptions
    return (
        f"{who.dropout:.3g} drop out, {who.collusion:.3g} collude, guard {one.guard}, "
        f"{one.length:,} elements of {one.bits} bits; reliable except 2^-{one.reliability_bits:g}, "
        f"private except 2^-{one.privacy_bits:g}"
    )


def main(arguments: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(prog="python -m experiments.cost_curve", description=__doc__)
    parser.add_argument("--dropout", type=float, default=0.1)
    parser.add_argument("--collusion", type=float)
    parser.add_argument("--guard", default="curious")
    parser.add_argument("--length", type=int, default=1_000_000)
    parser.add_argument("--output", type=Path, default=Path("cost_curve.png"), help=".png, .svg or .pdf")
    wanted = vars(parser.parse_args(arguments))
    output: Path = wanted.pop("output")
    picture(plans(wanted), calibrate()).savefig(output, dpi=150)
    print(output.resolve())


if __name__ == "__main__":
    run(main)
