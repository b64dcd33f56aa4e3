"""What it changes that colluders need not leave when others do: plans under ``curious``, before and after.

Before, everyone counted as being in V1, so colluders left as often as honest clients. Now V1 has F clients,
all colluders among them. Makes a table of docs/planning.md: for every demand the circle as it was planned
(neighbours, t, N, and the probability that was printed with N), what that probability is, and the circle that
is planned now.
"""

import argparse
import math
from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from ccesa.graphs.assumptions import Demand, fewer_honest
from ccesa.graphs.tails import log2_upwards
from ccesa.guards import CURIOUS
from ccesa.plan import Assumptions, Plan, plan
from ccesa.plan.result import make_plan
from ccesa.plan.search import find_cheapest
from experiments import samples
from experiments.arguments import run

#: Clients, the fraction that drops out, the fraction that colludes.
CASES = (
    *((n, 0.1, 0.1) for n in (100, 300, 1_000, 10_000, 100_000, 1_000_000)),
    *((n, 0.1, 0.05) for n in (300, 1_000, 10_000, 100_000, 1_000_000)),
    *((n, 0.3, 0.1) for n in (300, 1_000, 10_000)),
    (1_000, 0.1, 0.2),
)
#: A demand of few bits, whose failures can be counted.
COUNTED, BITS, GRAPHS = (1_000, 0.3, 0.1), 8.0, 300


def before(clients: int, dropout: float, collusion: float, privacy_bits: float = 40.0) -> tuple[Plan, Plan]:
    """Return the circle as it was planned, with its certificate of then and that of now."""
    assumptions = Assumptions(clients=clients, dropout=dropout, collusion=collusion)
    now = Demand.of(assumptions, CURIOUS, privacy_bits)
    then = replace(now, roster=replace(now.roster, least=clients))
    found = find_cheapest(then, "harary")
    if found is None:
        raise ValueError(f"no circle for {clients} clients")
    return make_plan(then, found, length=1, bits=32), make_plan(now, found, length=1, bits=32)


def fails(made: Plan, honest: int) -> float:
    """Return log2 of the bound on P(some honest client has t - c < ``honest``)."""
    degrees = made.graph.degrees(made.clients)
    return log2_upwards(degrees.around(fewer_honest(honest), made.threshold, made.roster))


def counted(made: Plan, honest: int, size: int, rng: np.random.Generator) -> int:
    """Return in how many graphs over ``size`` clients, all colluders among them, t - c < ``honest``."""
    shape = (GRAPHS, size)
    shares, _ = samples.draw(made.graph, shape, rng)
    colludes = rng.permuted(np.broadcast_to(np.arange(size) < made.colluders, shape), axis=1)
    few = ~colludes & (made.t - shares.neighbours(colludes) < honest)
    return int(np.count_nonzero(few.any(axis=1)))


def row(clients: int, dropout: float, collusion: float) -> str:
    """Return a row of the table."""
    then, anew = before(clients, dropout, collusion)
    now, honest = plan(clients, dropout, collusion), then.least_honest or 0
    printed, real = (_power(fails(one, honest)) for one in (then, anew))
    was, is_now = (f"{one.degree:.0f} ({one.t}) | {one.least_honest}" for one in (then, now))
    return f"| {clients:,} | {dropout} | {collusion} | {was} | {printed} | {real} | {is_now} |"


def _power(log2: float) -> str:
    return "impossible" if log2 == -math.inf else f"2^−{-log2:.1f}"


def count() -> str:
    """Say how often the promise of a plan for few bits breaks, as it was printed and as it is now."""
    clients, dropout, collusion = COUNTED
    then, now = before(*COUNTED, BITS)[0], plan(*COUNTED, privacy_bits=BITS)
    mean = round((clients - then.colluders) * (1 - dropout)) + then.colluders
    said = [f"n = {clients:,}, q = {dropout}, γ = {collusion}, {BITS:g} bits of privacy:"]
    for made, size in ((then, mean), (then, now.least_roster), (now, now.least_roster)):
        honest = made.least_honest or 0
        broken = counted(made, honest, size, np.random.default_rng(1))
        printed = f"N = {honest} except with {2 ** fails(made, honest):.4f}"
        said.append(f"{printed}, broken in {broken} of {GRAPHS} graphs over {size} clients")
    return "\n".join(said)


def main(arguments: Sequence[str] | None = None) -> None:
    argparse.ArgumentParser(prog="python -m experiments.staying", description=__doc__).parse_args(arguments)
    print("| n | q | γ | neighbours (t) | N | printed | is | neighbours (t) | N |")
    print("|--:|--:|--:|--:|--:|--:|--:|--:|--:|")
    for case in CASES:
        print(row(*case), flush=True)
    print(count())


if __name__ == "__main__":
    run(main)
