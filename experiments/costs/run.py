"""Table 1 and appendix C of the paper: how bytes and operations grow with the number of clients.

Real rounds where they are affordable, the cost model of the planner beyond (every point says which), and the
paper's formulas beside both; from all of them the exponent of growth, a straight line through the logarithms.
Graphs are those for q_total = 0.1. A client's bytes and operations are counted while nobody drops out, the
server's operations while a tenth does. Vectors have one element: the figures are what comes on top of the
vector. Secret sharing is counted in products of field elements for one element of a secret: a share takes t
of them, and a secret that is rebuilt t squared, for its Lagrange weights.

Then the paper's example beside Turbo-aggregate, n = 100 with vectors of up to 10^6 elements: real rounds of
all schemes, bytes sent and received. Writes results.json and costs.png.
"""

import itertools
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from experiments.arguments import parse, run
from experiments.costs import bell, counting, example, growth
from experiments.costs.example import Example
from experiments.costs.picture import picture
from experiments.record import Key, save

HERE = Path(__file__).parent
SIZES, QUICK_SIZES = (50, 100, 200, 300, 500, 1000, 2000), (60, 120)
EXAMPLE = Example(n=100, groups=10, lengths=tuple(10**power for power in range(7)))
QUICK_EXAMPLE = Example(n=60, groups=6, lengths=(1, 1000))
#: Rounds of Turbo-aggregate around the example: clients, groups, elements.
AROUND = tuple(itertools.product((50, 100, 200), (5, 10, 20), (1000,)))
QUICK_AROUND = AROUND[:1]


def settings(quick: bool) -> dict[str, Any]:
    return {
        "sizes": QUICK_SIZES if quick else SIZES,
        "q_total": counting.Q_TOTAL,
        "bits": counting.BITS,
        "affordable": counting.AFFORDABLE,
        "counted": counting.COUNTED,
        "bell": {"gamma": counting.GAMMA, "sigma": bell.SIGMA, "eta": bell.ETA},
        "example": (QUICK_EXAMPLE if quick else EXAMPLE)._asdict(),
        "around": QUICK_AROUND if quick else AROUND,
    }


def told(row: dict[str, Any] | None, scheme: str, n: int) -> str:
    if row is None:
        return f"{scheme:11} n = {n}: the paper's p* exceeds 1"
    return (
        f"{scheme:11} n = {n} ({row['source']}): degree {row['degree']:.1f}, client "
        f"{row['client_bytes']:,.0f} bytes (formula {row['paper']['client_bytes']:,.0f}), "
        f"{row['client_agreements']:.0f} agreements, server {row['server_keystreams']:,.0f} keystreams"
    )


def grown(sizes: Sequence[int], seed: int) -> list[dict[str, Any]]:
    """Every scheme at every number of clients."""
    rows = []
    for n, scheme in itertools.product(sizes, counting.SCHEMES):
        row = counting.counted(scheme, n, seed)
        print(told(row, scheme, n), flush=True)
        if row is not None:
            rows.append(row)
    return rows


def beside_turbo(wanted: Example, around: Sequence[tuple[int, int, int]], seed: int) -> dict[str, Any]:
    """The paper's example at every length, what follows from it, and Turbo-aggregate around it."""
    lengths = []
    for length in wanted.lengths:
        lengths.append(example.at_length(wanted, length, seed))
        print(f"n = {wanted.n}, {length:,} elements, beside Turbo-aggregate", flush=True)
    return {
        "lengths": lengths,
        "compared": example.compared(lengths, wanted),
        "around": [example.turbo_bytes(*each, seed) for each in around],
        "exchanges": {"ours": example.EXCHANGES, "ours_in_a_series": example.EXCHANGES_IN_A_SERIES},
    }


def main(arguments: Sequence[str] | None = None) -> None:
    wanted = parse(__doc__, HERE, "two small sizes only", arguments)
    started, key = time.time(), Key(seed=wanted.seed, quick=wanted.quick, settings=settings(wanted.quick))
    beside = QUICK_EXAMPLE if wanted.quick else EXAMPLE
    rows = grown(key.settings["sizes"], wanted.seed)
    turbo = beside_turbo(beside, key.settings["around"], wanted.seed)
    drawn = picture(rows, turbo["lengths"], beside.n, beside.groups)
    drawn.savefig(wanted.output / "costs.png", dpi=85)
    result = {
        "q_total": counting.Q_TOTAL,
        "rows": rows,
        "exponents": growth.exponents(rows),
        "model_off_by_at_most": growth.farthest(rows),
        "same_demands": growth.same_demands(key.settings["sizes"]),
        "turbo_aggregate": turbo,
    }
    save(wanted.output / "results.json", result, key, started=started)


if __name__ == "__main__":
    run(main)
