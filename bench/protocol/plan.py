"""Does the planner estimate well, and how long does it take? ``python -m bench.protocol.plan``.

Estimated over measured time of whole rounds, then the processor time of plans for a million clients.

The machine is calibrated all through each round and the median counts: its speed changes from minute to
minute, and that is not what is looked for here.
"""

import time
from dataclasses import dataclass
from statistics import median
from typing import NamedTuple

import numpy as np

from ccesa import words
from ccesa.agreement.config import RoundConfig
from ccesa.errors import ImpossiblePlan
from ccesa.graphs import Complete, ErdosRenyi, Graph, Harary
from ccesa.plan import plan
from ccesa.plan.calibration import calibrate
from ccesa.plan.paper import step_dropout
from ccesa.plan.price import AssistedShape, Rates, Shape, price, price_helpers
from ccesa.protocol.steps import steps_under
from ccesa.simulate import Exactly, federate, simulate

SPARSE = Harary(degree=38, mask_degree=18)


class Case(NamedTuple):
    name: str
    clients: int
    graph: Graph
    length: int
    dropout: float = 0.1
    bits: int = 32


CASES = [
    Case("Harary 38 / 18", 100, SPARSE, 1_000),
    Case("Harary 38 / 18", 1000, SPARSE, 1_000),
    Case("Harary 38 / 18", 1000, SPARSE, 10_000, dropout=0.0),
    Case("Harary 38 / 18", 1000, SPARSE, 100_000),
    Case("Harary 38 / 18", 100, SPARSE, 1_000_000),
    Case("complete", 100, Complete(), 1_000),
    Case("complete", 200, Complete(), 100_000, bits=16),
    Case("Erdős–Rényi 0.51", 300, ErdosRenyi(p=0.5136), 10_000),
    Case("Erdős–Rényi 0.2 / 0.1", 300, ErdosRenyi(p=0.2, mask_p=0.1), 10_000),
]


@dataclass(frozen=True)
class Compared:
    """Milliseconds."""

    estimated: float
    measured: float

    def __str__(self) -> str:
        return f"{self.estimated:10,.1f} {self.measured:10,.1f} {self.estimated / self.measured:6.2f}"


def compare(case: Case) -> tuple[Compared, Compared]:
    """One client and the server, in one round."""
    config = RoundConfig(
        clients=case.clients,
        length=case.length,
        bits=case.bits,  # type: ignore[arg-type]  # checked by the configuration itself
        graph=case.graph,
    )
    # Made beforehand and the same for all: making one would count as the client's work.
    vector = np.frombuffer(np.random.default_rng(0).bytes(config.vector_bytes), words.dtype(case.bits))
    rates: list[Rates] = []

    def sample(step: str, done: int, of: int) -> None:
        if done % (of // 2) == 0:
            rates.append(calibrate())

    report = simulate(config, lambda number: vector, dropout=_expected_dropout(case), progress=sample)
    shape = Shape(
        clients=case.clients,
        degree=report.degree_mean,
        mask_degree=report.mask_degree_mean,
        threshold=config.threshold.of(int(report.degree_mean)),
        length=case.length,
        bits=case.bits,
        dropout=case.dropout,
    )
    client, server = _estimated(shape, rates)
    return Compared(client, sum(report.client_ms.values())), Compared(server, report.server_ms)


def _expected_dropout(case: Case) -> Exactly:
    """In each step as many as are expected: chance would decide how much the server has to unmask."""
    left, gone, q = float(case.clients), {}, step_dropout(case.dropout)
    for step in steps_under("curious"):
        stay = round(left * (1 - q))
        gone[step.name] = range(stay, round(left))
        left *= 1 - q
    return Exactly(gone)


def _estimated(shape: Shape, rates: list[Rates]) -> tuple[float, float]:
    """Milliseconds of one client and of the server."""
    costs = [price(shape, one) for one in rates]
    client = median(one.client_seconds or 0.0 for one in costs)
    server = median(one.server_seconds or 0.0 for one in costs)
    return 1e3 * client, 1e3 * server


#: Members, helpers and words of rounds with helpers.
HELPED = [(20, 3, 1_000), (20, 3, 1_000_000), (100, 3, 100_000), (100, 8, 10_000), (1000, 3, 1_000)]


def compare_assisted(clients: int, helpers: int, length: int) -> tuple[Compared, Compared, Compared]:
    """One member, one helper and the hub, in one round in which nobody drops out."""
    federation = federate(clients, helpers=helpers)
    config = federation.charter.config(length=length)
    vector = np.frombuffer(np.random.default_rng(0).bytes(config.vector_bytes), words.dtype(config.bits))
    rates = [calibrate()]
    report = simulate(config, lambda number: vector, federation=federation)
    rates.append(calibrate())
    shape = AssistedShape(clients=clients, helpers=helpers, length=length, bits=config.bits)
    each = zip(*(price_helpers(shape, one) for one in rates), strict=True)
    estimated = [1e3 * median(work.seconds or 0.0 for work in works) for works in each]
    measured = (sum(report.client_ms.values()), sum(report.helper_ms.values()), report.server_ms)
    member, helper, hub = map(Compared, estimated, measured)
    return member, helper, hub


def with_helpers() -> None:
    one = f"{'estimated':>10} {'measured':>10} {'ratio':>6}"
    print(f"\nwith helpers, milliseconds{'one member':^31}{'one helper':^31}{'hub':^30}")
    print(f"{'n':>5} {'A':>3} {'length':>9}       {one}   {one}   {one}")
    for clients, helpers, length in HELPED:
        costs = compare_assisted(clients, helpers, length)
        print(f"{clients:5} {helpers:3} {length:9,}       {'   '.join(map(str, costs))}", flush=True)


MILLION = 1_000_000
#: Dropout and collusion of the plans that are timed.
DEMANDS = [(0.1, 0.0), (0.1, 0.1), (0.3, 0.1), (0.3, 0.3), (0.49, 0.0)]


def planning_seconds(graph: str, guard: str, dropout: float, collusion: float) -> tuple[float, str]:
    """Processor time of one plan, and how many neighbours it has."""
    start = time.process_time()
    try:
        found = f"{plan(MILLION, dropout, collusion, guard, graph=graph).degree:,.1f}"
    except ImpossiblePlan:
        found = "impossible"
    return time.process_time() - start, found


def planning() -> None:
    print(f"\nplanning {MILLION:,} clients, seconds of processor time")
    print(f"{'graph':12} {'guard':8} {'q':>5} {'γ':>5} {'seconds':>8} {'neighbours':>11}")
    for graph in ("harary", "erdos-renyi"):
        for guard in ("curious", "active"):
            for dropout, collusion in DEMANDS:
                seconds, found = planning_seconds(graph, guard, dropout, collusion)
                print(f"{graph:12} {guard:8} {dropout:5} {collusion:5} {seconds:8.2f} {found:>11}", flush=True)


def main() -> None:
    one = f"{'estimated':>10} {'measured':>10} {'ratio':>6}"
    print(f"milliseconds{'':38}{'one client':^30}{'server':^30}")
    print(f"{'graph':22} {'n':>5} {'length':>9} {'bits':>4} {'q':>4} {one} {one}")
    for case in CASES:
        client, server = compare(case)
        head = f"{case.name:22} {case.clients:5} {case.length:9,} {case.bits:4} {case.dropout:4}"
        print(head, client, server, flush=True)
    with_helpers()
    planning()


if __name__ == "__main__":
    main()
