"""Helpers beside graphs for the same demand, and the noise under each guard beside a trusted curator's.

Makes two tables: of docs/planning.md, for a hub that lies where a tenth drops out and a tenth colludes, and of
docs/privacy.md, where a twentieth colludes. There are three helpers, and the planner chooses everything else.
"""

import argparse
from collections.abc import Sequence
from typing import NamedTuple

from ccesa.errors import ImpossiblePlan
from ccesa.plan import AssistedPlan, Plan, plan, plan_helpers
from ccesa.plan.report import bytes_in_words, compute_figures, probability_in_words
from ccesa.privacy import DifferentialPrivacy
from experiments.arguments import run

CLIENTS = (3, 8, 20, 100, 1_000)
#: Words of a vector, 32 bits each.
LENGTH, DROPOUT, COLLUSION = 100_000, 0.1, 0.1

NOISY = (20, 50, 100, 200, 1_000)
FEWER_COLLUDE = 0.05
PARAMETERS = 10_000


def demand(against: str) -> DifferentialPrivacy:
    """Return the demand of the table of noise."""
    return DifferentialPrivacy(epsilon=8, delta=1e-6, rounds=100, norm=1.0, against=against)  # type: ignore[arg-type]


def along_graph(clients: int) -> Plan | None:
    """Return the plan with a graph against a hub that lies, if there is one."""
    try:
        return plan(clients, DROPOUT, COLLUSION, "active", LENGTH)
    except ImpossiblePlan:
        return None


def with_helpers(clients: int) -> AssistedPlan:
    """Return the plan with helpers for the same demand."""
    return plan_helpers(clients, DROPOUT, COLLUSION, length=LENGTH)


def row(clients: int) -> str:
    """Return a row of the first table."""
    graph, helped = along_graph(clients), with_helpers(clients)
    member, helper, _ = helped.cost
    along = "none" + " | " * 4
    if graph is not None:
        lost = probability_in_words(graph.certificate.unreliable)
        beside = graph.cost.sent_bytes + graph.cost.received_bytes - LENGTH * 4
        agreed = f"{graph.cost.agreements:,.0f}"
        along = f"{graph.degree:.0f} ({graph.t}) | {graph.least_honest} | {lost} | {bytes_in_words(beside)} | {agreed}"
    few = probability_in_words(helped.unreliable)
    beside = member.sent_bytes + member.received_bytes - LENGTH * 4
    moved = f"{bytes_in_words(beside)} | {member.agreements} | {helper.agreements:,}"
    return f"| {clients:,} | {along} | {helped.min_survivors} | {helped.least_honest} | {few} | {moved} |"


class Noise(NamedTuple):
    """How much noise the expected sum has, beside a curator's, and the honest clients that are counted on."""

    ratio: float
    honest: int
    neighbours: float

    @classmethod
    def of(cls, made: Plan | AssistedPlan) -> "Noise":
        if made.mechanism is None:
            raise ValueError("a plan without noise")
        neighbours = made.degree if isinstance(made, Plan) else 0
        return cls(compute_figures(made, made.mechanism).ratio, made.mechanism.honest, neighbours)


def noises(clients: int) -> tuple[Noise, ...]:
    """Return the noise of ``curious`` where the server follows, and where it lies ``active`` twice and ``assisted``."""
    follows, lies = demand("follows"), demand("lies")
    shared = {"length": PARAMETERS, "collusion": FEWER_COLLUDE}
    asked = (
        lambda: plan(clients, DROPOUT, privacy=follows, **shared),  # type: ignore[arg-type]
        lambda: plan(clients, DROPOUT, guard="active", privacy=lies, **shared),  # type: ignore[arg-type]
        lambda: plan(clients, DROPOUT, guard="active", graph="complete", privacy=lies, **shared),  # type: ignore[arg-type]
        lambda: plan_helpers(clients, DROPOUT, privacy=lies, **shared),  # type: ignore[arg-type]
    )
    return tuple(Noise.of(one()) for one in asked)


def noise_row(clients: int) -> str:
    """Return a row of the second table."""
    cells = []
    for one in noises(clients):
        near = f"{one.neighbours:.0f} neighbours, " if one.neighbours else ""
        cells.append(f"**{one.ratio:.3f}** ({near}H = {one.honest})")
    return f"| {clients:,} | {' | '.join(cells)} |"


def main(arguments: Sequence[str] | None = None) -> None:
    argparse.ArgumentParser(prog="python -m experiments.helpers", description=__doc__).parse_args(arguments)
    graph = "graph: neighbours (t) | honest | lost | bytes | agreements"
    print(f"| n | {graph} | helpers: minimum | honest | lost | bytes | agreements | of a helper |")
    print("|--:" * 12 + "|")
    for clients in CLIENTS:
        print(row(clients), flush=True)
    print()
    print("| n | `curious`, follows | `active`, lies: thinnest | complete | `assisted`, lies |")
    print("|--:" * 5 + "|")
    for clients in NOISY:
        print(noise_row(clients), flush=True)


if __name__ == "__main__":
    run(main)
