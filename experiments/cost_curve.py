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


def picture(made: list[Plan], rates: Rates) -> Figure:
    figure = Figure(figsize=(10, 4.2), layout="constrained")
    panels = figure.subplots(1, 2)
    vector = made[0].shape.vector_bytes
    bills = {one.clients: bill(one, rates) for one in made}
    _lines(panels[0], bills, lambda cost: cost.sent_bytes + cost.received_bytes - vector)
    _lines(panels[1], bills, lambda cost: cost.client_seconds)
    panels[0].set_ylabel("bytes per client beside its vector")
    panels[1].set_ylabel("seconds a client works (estimated)")
    figure.suptitle(_title(made[0]), fontsize=10)
    return figure


def _lines(panel: Any, bills: dict[int, Bill], measure: Callable[[Cost], float | None]) -> None:
    for name, of in LINES.items():
        priced = [(clients, of(one)) for clients, one in bills.items()]
        points = [(clients, measure(cost)) for clients, cost in priced if cost is not None]
        panel.plot(*zip(*points, strict=True), label=name) if points else None
    panel.set(xscale="log", yscale="log", xlabel="clients")
    panel.grid(alpha=0.3)
    panel.legend()


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
