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
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from matplotlib.figure import Figure

from ccesa.errors import ConfigError
from ccesa.plan import plan
from ccesa.privacy import DifferentialPrivacy, Mechanism, NoisyQuantizer, chosen
from ccesa.words import Vector
from experiments import chart, record
from experiments.arguments import parse, run
from experiments.privacy import known_way
from experiments.privacy.noisy import added, seeded

HERE = Path(__file__).parent
CLIENTS, SURVIVORS, DROPOUT, COLLUSION = 1000, 900, 0.1, 0.05
NORM, DELTA = 1.0, 1e-6
DIMENSIONS = (2**10, 2**16, 2**20, 2**24)
EPSILONS, ROUNDS = (1.0, 3.0, 8.0), (1, 100, 1000)
BITS = tuple(range(8, 21))
#: Dimension, epsilon, rounds and bits (0: those that are chosen) of what is measured.
MEASURED = ((2**10, 8.0, 100, 0), (2**16, 8.0, 100, 0), (2**20, 8.0, 100, 0), (2**20, 8.0, 100, 10))
QUICK_MEASURED = MEASURED[:1]


def settings(quick: bool) -> dict[str, Any]:
    return {
        "clients": (CLIENTS, SURVIVORS, DROPOUT, COLLUSION),
        "norm": NORM,
        "delta": DELTA,
        "table": (DIMENSIONS, EPSILONS, ROUNDS, BITS),
        "measured": QUICK_MEASURED if quick else MEASURED,
    }


def demand(epsilon: float, rounds: int) -> DifferentialPrivacy:
    return DifferentialPrivacy(epsilon=epsilon, delta=DELTA, rounds=rounds, norm=NORM)


def ours(asked: DifferentialPrivacy, honest: int, dimension: int, bits: int) -> Mechanism | None:
    """Return the mechanism with fields of so many bits, or the chosen ones for 0; None where none will do."""
    try:
        return chosen(
            asked, clients=CLIENTS, honest=honest, dimension=dimension, field_bits=bits if bits else None
        )
    except ConfigError:
        return None


def kept(made: Mechanism) -> float:
    """Return how much of the norm is left: clipping leaves room for rounding to the fine grid."""
    return math.sqrt(1 - made.dimension / (12 * made.bound**2))


def inflation(made: Mechanism | None, survivors: int) -> float | None:
    """Return the noise of such a sum over a curator's who keeps as much of the vectors."""
    return made and made.noise(survivors) / (kept(made) * made.curator)


def table(honest: int) -> Iterator[dict[str, Any]]:
    for dimension in DIMENSIONS:
        for epsilon in EPSILONS:
            for rounds in ROUNDS:
                asked = demand(epsilon, rounds)
                sums = known_way.Sums(demand=asked, clients=CLIENTS, honest=honest, dimension=dimension)
                best = ours(asked, honest, dimension, 0)
                yield {
                    "dimension": dimension,
                    "epsilon": epsilon,
                    "rounds": rounds,
                    "chosen": best and best.field_bits,
                    "ours": [inflation(ours(asked, honest, dimension, bits), honest) for bits in BITS],
                    "known": [known_way.inflation(sums, bits) for bits in BITS],
                }


def measured(honest: int, cell: Sequence[Any], seed: int) -> dict[str, Any]:
    """Return the noise in a sum of 900 real vectors: what is decoded, less the sum of what went in.

    All clients send the same unit vector: as long as allowed, and as hard on the fields as it gets.
    """
    dimension, epsilon, rounds, bits = cell
    made = ours(demand(epsilon, rounds), honest, dimension, bits)
    if made is None:
        raise ConfigError(f"no noise for {cell}")
    rng = np.random.default_rng([seed, dimension, bits])
    model, context = rng.normal(size=dimension), rng.bytes(32)
    model *= made.norm / np.linalg.norm(model)
    quantizer = NoisyQuantizer.for_model([model], made)

    def vector(client: int) -> Vector:
        return quantizer.encode([model], context, seeded([seed, dimension, bits, client])).vector

    total = added(vector, range(SURVIVORS), made.length)
    mean = quantizer.decode(total, SURVIVORS, context).arrays[0]
    noise = SURVIVORS * (mean - kept(made) * model)
    return {
        "dimension": dimension,
        "epsilon": epsilon,
        "rounds": rounds,
        "bits": made.field_bits,
        "bytes": 8 * made.length / dimension,
        "expected": inflation(made, SURVIVORS),
        "measured": float(np.sqrt(np.mean(noise**2))) / (kept(made) * made.curator),
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
    result: dict[str, Any] = {"measured": stored["measured"] if stored else []}
    honest = plan(CLIENTS, DROPOUT, COLLUSION, privacy=demand(8.0, 100), length=2**20).mechanism.honest
    result = {"honest": honest, "table": list(table(honest))} | result
    for cell in [None, *key.settings["measured"][len(result["measured"]) :]]:
        if cell:
            result["measured"].append(measured(honest, cell, wanted.seed))
            print(result["measured"][-1], flush=True)
        complete = len(result["measured"]) == len(key.settings["measured"])
        record.save(file, result, key, started=started, complete=complete, spent=record.seconds(stored))
    picture(json.loads(file.read_text(encoding="utf-8"))).savefig(wanted.output / "bits.png", dpi=150)


if __name__ == "__main__":
    run(main)
