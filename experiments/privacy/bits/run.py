"""Bits per parameter: how much more noise narrow fields cost, ours and the known way beside it.

A thousand clients, of whom the noise of those counts who survive for certain, by the plan. The table has the
standard deviation of a sum over what a trusted curator adds for the same epsilon and delta, both on sums of
as many clients as count: so 1 is the best there is, and all that is seen is the price of whole numbers, of
narrow fields, and of the accounting. Then some cells are measured on sums of 900 clients' real vectors, in
which the price of not knowing who survives is seen too. Writes results.json, after each measured cell, and
bits.png. The next call goes on with what is missing.
"""

import json
import math
import time
from collections.abc import Sequence
from itertools import product
from pathlib import Path
from statistics import fmean
from typing import Any

from matplotlib.figure import Figure

from bench.protocol.privacy import kept, noise_of, ratios
from ccesa.errors import ConfigError
from ccesa.plan import plan
from ccesa.privacy import DifferentialPrivacy, Mechanism, choose_mechanism
from experiments import chart, record
from experiments.arguments import parse, run
from experiments.privacy import known_way

HERE = Path(__file__).parent
CLIENTS, SURVIVORS, DROPOUT, COLLUSION = 1000, 900, 0.1, 0.05
NORM, DELTA = 1.0, 1e-6
DIMENSIONS = (2**10, 2**16, 2**20, 2**24)
EPSILONS, ROUNDS = (1.0, 3.0, 8.0), (1, 100, 1000)
BITS = tuple(range(8, 21))
#: Dimension, epsilon and rounds of what is measured, with the bits that are chosen.
MEASURED = ((2**10, 8.0, 100), (2**16, 8.0, 100), (2**20, 8.0, 100))
QUICK_MEASURED = MEASURED[:1]
#: So many coordinates at least.
LEAST = 2**14


def settings(quick: bool) -> dict[str, Any]:
    return {
        "clients": (CLIENTS, SURVIVORS, DROPOUT, COLLUSION),
        "norm": NORM,
        "delta": DELTA,
        "table": (DIMENSIONS, EPSILONS, ROUNDS, BITS),
        "measured": QUICK_MEASURED if quick else MEASURED,
        "least": LEAST,
    }


def demand(epsilon: float, rounds: int) -> DifferentialPrivacy:
    return DifferentialPrivacy(epsilon=epsilon, delta=DELTA, rounds=rounds, norm=NORM)


def ours(asked: DifferentialPrivacy, honest: int, dimension: int, bits: int) -> Mechanism | None:
    """Return the mechanism with fields of so many bits; None where they are too few."""
    try:
        return choose_mechanism(asked, clients=CLIENTS, honest=honest, dimension=dimension, field_bits=bits)
    except ConfigError:
        return None


def inflation(made: Mechanism | None, honest: int) -> float | None:
    """Return the noise of such a sum over that of a curator who keeps as much of the vectors."""
    return made.noise(honest) / (kept(made) * made.curator) if made else None


def row(honest: int, dimension: int, epsilon: float, rounds: int) -> dict[str, Any]:
    """Return one row of the table: by bits, what ours and the known way cost."""
    asked = demand(epsilon, rounds)
    best = choose_mechanism(asked, clients=CLIENTS, honest=honest, dimension=dimension)
    sums = known_way.Sums(demand=asked, clients=CLIENTS, honest=honest, dimension=dimension)
    return {
        "dimension": dimension,
        "epsilon": epsilon,
        "rounds": rounds,
        "chosen": best.field_bits,
        "ours": [inflation(ours(asked, honest, dimension, bits), honest) for bits in BITS],
        "known": [known_way.inflation(sums, bits) for bits in BITS],
    }


def measured(honest: int, cell: Sequence[Any], seed: int) -> dict[str, Any]:
    """Return the noise in sums of 900 real vectors; over few parameters in many sums, to see enough of it."""
    dimension, epsilon, rounds = cell
    made = choose_mechanism(demand(epsilon, rounds), clients=CLIENTS, honest=honest, dimension=dimension)
    sums = [next(ratios(made, [SURVIVORS], seed + number)) for number in range(max(1, LEAST // dimension))]
    return {
        "dimension": dimension,
        "epsilon": epsilon,
        "rounds": rounds,
        "bits": made.field_bits,
        "bytes": 8 * made.length / dimension,
        "sums": len(sums),
        "kept": kept(made),
        "expected": made.noise(SURVIVORS) / made.curator,
        "measured": math.sqrt(fmean(found**2 for found in sums)),
    }


def picture(result: dict[str, Any]) -> Figure:
    figure = Figure(figsize=(14, 4.6), layout="constrained")
    for panel, epsilon in zip(figure.subplots(1, len(EPSILONS)), EPSILONS, strict=True):
        rows = [row for row in result["table"] if (row["epsilon"], row["rounds"]) == (epsilon, 100)]
        for number, row in enumerate(rows):
            for name, filled in (("ours", True), ("known", False)):
                look = chart.style(number) | {"ls": "-" if filled else "--", "ms": 5, "lw": 1}
                look |= {} if filled else {"mfc": "none"}
                label = f"{name}, d = 2^{round(math.log2(row['dimension']))}"
                panel.plot(BITS, [v if v else math.nan for v in row[name]], label=label, **look)
        panel.set(xlabel="bits of a field", ylabel="noise over a trusted curator's", ylim=(0.98, 1.6))
        panel.set_xlim(BITS[0] - 0.5, BITS[-1] + 0.5)
        chart.finish(panel, f"ε = {epsilon:g}, 100 rounds, {result['honest']} honest of {CLIENTS:,}")
    figure.suptitle("python -m experiments.privacy.bits.run", fontsize=8, x=0.99, ha="right")
    return figure


def main(arguments: Sequence[str] | None = None) -> None:
    wanted = parse(__doc__, HERE, "one measured cell, of 1,024 parameters: ten seconds", arguments)
    started = time.time()
    key = record.Key(seed=wanted.seed, quick=wanted.quick, settings=settings(wanted.quick))
    file = wanted.output / "results.json"
    stored = None if wanted.again else record.earlier(file, key)
    rows: list[dict[str, Any]] = stored["measured"] if stored else []
    cells = key.settings["measured"]
    honest = noise_of(plan(CLIENTS, DROPOUT, COLLUSION, privacy=demand(8.0, 100), length=2**20)).honest
    table = [row(honest, *cell) for cell in product(DIMENSIONS, EPSILONS, ROUNDS)]
    result = {"honest": honest, "bits": BITS, "table": table, "measured": rows}
    for cell in cells[len(rows) :]:
        rows.append(measured(honest, cell, wanted.seed))
        said = "d = {dimension:,}, {bits} bits: {measured:.3f} times a curator's noise, {expected:.3f} expected"
        print(said.format(**rows[-1]), flush=True)
        complete = len(rows) == len(cells)
        record.save(file, result, key, started=started, complete=complete, spent=record.seconds(stored))
    picture(json.loads(file.read_text(encoding="utf-8"))).savefig(wanted.output / "bits.png", dpi=150)


if __name__ == "__main__":
    run(main)
