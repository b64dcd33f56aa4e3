"""Accuracy against epsilon: noise that clients add, beside that of a trusted server, on the same survivors.

Softmax regression on scikit-learn's digits (see ``digits``; clients share images), by federated gradient
descent: in each round a tenth of the clients drop out, the others send a gradient over their ten images,
clipped. Epsilon is for a client and for all rounds together. Graph, survivors and noise are planned for a
server that follows the protocol, a twentieth of the clients collude. The trusted server adds the noise that
tight accounting asks for to the sum of the same clients' vectors. Without noise epsilon is infinite.

In some rounds (the first few of the first seed, for each epsilon) the sum comes from a real round, every
byte of it; in others the same vectors are added up, which is the same (see ``noisy``). Beside
the accuracy stands the noise that was measured in the sums, over the trusted server's: where noise hardly
matters for the accuracy, this shows what distributing it costs. Rate and rounds are the same for every
epsilon: chosen among nine pairs on three other draws of the same images, then fewer rounds than were best at
n = 1,000, for the sake of running time. That choice is not paid for by any epsilon. Writes results.json,
after each seed, and accuracy.png. The next call goes on with what is missing.
"""

import json
import math
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from statistics import fmean, stdev
from typing import Any

import numpy as np
from matplotlib.figure import Figure
from numpy.typing import NDArray

from bench.protocol.privacy import noise_of
from ccesa.agreement.config import RoundConfig
from ccesa.plan import Plan, plan
from ccesa.privacy import DifferentialPrivacy, NoisyQuantizer
from ccesa.words import Vector
from experiments import chart, record
from experiments.arguments import parse, run
from experiments.privacy import noisy
from experiments.privacy.accuracy.digits import PARAMETERS, Federation, Floats, federation

HERE = Path(__file__).parent
SIZES, EPSILONS, DELTA = (100, 1000), (1.0, 3.0, 8.0), 1e-5
DROPOUT, COLLUSION = 0.1, 0.05
ROUNDS, NORM, RATE = 20, 0.5, 2.0
SEEDS = 10
#: Rounds of the first seed that are real, for each epsilon.
REAL = {100: 4, 1000: 1}
QUICK = {"sizes": (100,), "seeds": 2, "real": {100: 1}}

Clients = NDArray[np.int64]


def settings(quick: bool) -> dict[str, Any]:
    usual = {
        "sizes": SIZES,
        "epsilons": EPSILONS,
        "delta": DELTA,
        "plan": (DROPOUT, COLLUSION),
        "training": (ROUNDS, NORM, RATE),
        "seeds": SEEDS,
        "real": REAL,
    }
    return usual | (QUICK if quick else {})


def planned(clients: int, epsilon: float) -> Plan:
    demand = DifferentialPrivacy(epsilon=epsilon, delta=DELTA, rounds=ROUNDS, norm=NORM)
    return plan(clients, DROPOUT, COLLUSION, length=PARAMETERS, privacy=demand)


@dataclass(kw_only=True, eq=False)
class Distributed:
    """Sums with the clients' own noise; the first ``real`` rounds are real."""

    made: Plan
    seed: list[int]
    real: int
    #: The squares of what was added to each coordinate of each sum.
    squares: list[Floats] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.mechanism = noise_of(self.made)
        self.quantizer = NoisyQuantizer.for_model([np.zeros(PARAMETERS)], self.mechanism)

    def mean(self, number: int, survivors: Clients, sent: Floats) -> Floats:
        config, rows = self.config(number), dict(zip(survivors.tolist(), sent, strict=True))

        def vector(client: int) -> Vector:
            random = noisy.seeded([*self.seed, number, client])
            return self.quantizer.encode([rows[client]], config.context, random).vector

        if number < self.real:
            gone = {"mask": frozenset(range(self.made.clients)).difference(rows)}
            result = noisy.real(config, vector, gone, [*self.seed, number])
            if result.survivors != tuple(rows):
                raise RuntimeError(f"{len(result.survivors)} of {len(rows)} clients are in the sum")
            total = result.vector
        else:
            total = noisy.added(vector, rows, config.length)
        found = self.quantizer.decode(total, len(rows), config.context).arrays[0]
        self.squares.append((len(rows) * found - sent.sum(axis=0)) ** 2)
        return np.asarray(found)

    def config(self, number: int) -> RoundConfig:
        return noisy.configured(self.made, [*self.seed, number])

    @property
    def ratio(self) -> float:
        """The measured noise over a trusted server's."""
        return math.sqrt(np.mean(self.squares)) / self.mechanism.curator


def trusted(deviation: float, seed: list[int]) -> Callable[[int, Clients, Floats], Floats]:
    """Return means with this noise in the sum; with none for 0."""
    rng = np.random.default_rng(seed)
    return lambda number, survivors, sent: np.asarray(
        (sent.sum(axis=0) + rng.normal(0, deviation, PARAMETERS)) / len(survivors)
    )


def trained(data: Federation, mean: Callable[[int, Clients, Floats], Floats], clients: int, seed: list[int]) -> float:
    """Return the accuracy after all rounds; who survives hangs on the seed alone."""
    rng, model = np.random.default_rng(seed), np.zeros(PARAMETERS)
    for number in range(ROUNDS):
        survivors = np.flatnonzero(rng.random(clients) >= DROPOUT)
        model = model + RATE * mean(number, survivors, data.gradients(model, survivors, NORM))
    return data.accuracy(model)


def one_seed(clients: int, seed: int, number: int, real: int) -> dict[str, Any]:
    """Train without noise, with a trusted server's, and with the clients' own, on the same clients."""
    tag = [seed, clients, number]
    data, gone = federation(clients, [*tag, 0]), [*tag, 1]
    row: dict[str, Any] = {"inf": trained(data, trusted(0.0, tag), clients, gone)}
    for place, epsilon in enumerate(EPSILONS):
        made = planned(clients, epsilon)
        own = Distributed(made=made, seed=[*tag, 2, place], real=real)
        central = trusted(own.mechanism.curator, [*tag, 3, place])
        row[f"{epsilon:g}"] = {
            "distributed": trained(data, own.mean, clients, gone),
            "trusted": trained(data, central, clients, gone),
            "ratio": own.ratio,
            "real_rounds": real,
        }
    return row


def summary(clients: int, rows: list[dict[str, Any]]) -> dict[str, Any]:
    """Return means over the seeds, and twice the standard error of the paired difference."""
    found: dict[str, Any] = {"inf": {"accuracy": fmean(row["inf"] for row in rows)}}
    for epsilon in EPSILONS:
        made, each = noise_of(planned(clients, epsilon)), [row[f"{epsilon:g}"] for row in rows]
        price = [one["trusted"] - one["distributed"] for one in each]
        found[f"{epsilon:g}"] = {
            "distributed": fmean(one["distributed"] for one in each),
            "trusted": fmean(one["trusted"] for one in each),
            "price": fmean(price),
            "price_two_sigma": 2 * stdev(price) / math.sqrt(len(price)),
            "ratio": fmean(one["ratio"] for one in each),
            "ratio_expected": made.noise(round((1 - DROPOUT) * clients)) / made.curator,
            "honest": made.honest,
            "field_bits": made.field_bits,
        }
    return found


def picture(result: dict[str, Any]) -> Figure:
    figure = Figure(figsize=(11, 4.4), layout="constrained")
    accuracy, noise = figure.subplots(1, 2)
    places = range(len(EPSILONS) + 1)
    for number, (clients, rows) in enumerate(result["seeds"].items()):
        for shift, kind, label in ((-0.08, "distributed", "clients' own noise"), (0.08, "trusted", "trusted")):
            values = [[row[f"{e:g}"][kind] for row in rows] for e in EPSILONS] + [[row["inf"] for row in rows]]
            middle, spread = np.mean(values, axis=1), 2 * np.std(values, axis=1, ddof=1)
            look = chart.style(2 * number + (kind == "trusted")) | {"ms": 5, "lw": 1, "capsize": 3}
            at = np.array(places) + shift
            accuracy.errorbar(at, middle, spread, label=f"n = {int(clients):,}, {label}", **look)
        found = result["summary"][clients]
        look = chart.style(2 * number) | {"ms": 6, "lw": 1}
        noise.plot(places[:-1], [found[f"{e:g}"]["ratio"] for e in EPSILONS], label=f"n = {clients}", **look)
    accuracy.set_xticks(places, [*(f"{e:g}" for e in EPSILONS), "∞"])
    accuracy.set(xlabel="ε", ylabel="accuracy on test images (± 2 σ over seeds)")
    noise.set_xticks(places[:-1], [f"{e:g}" for e in EPSILONS])
    noise.set(xlabel="ε", ylabel="noise in the sum over a trusted server's", ylim=(1, 1.3))
    chart.finish(accuracy, f"digits, {ROUNDS} rounds, δ = {DELTA:g}", loc="lower right")
    chart.finish(noise, "what distributing the noise costs")
    figure.suptitle("python -m experiments.privacy.accuracy.run", fontsize=8, x=0.99, ha="right")
    return figure


def _in_words(row: dict[str, Any]) -> str:
    with_noise = (
        f"epsilon {name}: {one['distributed']:.1%} (trusted server {one['trusted']:.1%})"
        for name, one in row.items()
        if name != "inf"
    )
    return ", ".join((*with_noise, f"without noise {row['inf']:.1%}"))


def main(arguments: Sequence[str] | None = None) -> None:
    wanted = parse(__doc__, HERE, "100 clients and two seeds: half a minute", arguments)
    started, asked = time.time(), settings(wanted.quick)
    key = record.Key(seed=wanted.seed, quick=wanted.quick, settings=asked)
    file = wanted.output / "results.json"
    stored = None if wanted.again else record.earlier(file, key)
    rows = stored["seeds"] if stored else {str(clients): [] for clients in asked["sizes"]}
    for clients in asked["sizes"]:
        for number in range(len(rows[str(clients)]), asked["seeds"]):
            real = asked["real"][clients] if number == 0 else 0
            rows[str(clients)].append(one_seed(clients, wanted.seed, number, real))
            print(f"n = {clients}, seed {number}: {_in_words(rows[str(clients)][-1])}", flush=True)
            complete = all(len(some) == asked["seeds"] for some in rows.values())
            found = {n: summary(int(n), some) for n, some in rows.items() if len(some) > 1}
            result = {"summary": found, "seeds": rows}
            record.save(file, result, key, started=started, complete=complete, spent=record.seconds(stored))
    result = json.loads(file.read_text(encoding="utf-8"))
    picture(result).savefig(wanted.output / "accuracy.png", dpi=150)


if __name__ == "__main__":
    run(main)
