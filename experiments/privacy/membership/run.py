"""Was this client in the federation? Attacks on what is published, with noise and without.

Softmax regression on scikit-learn's digits, as in ``experiments.privacy.accuracy`` (clients share images):

- *training*: ten rounds of federated gradient descent, within epsilon together. The attacks of ``attacks``
  are asked about all clients and about people outside who drew their images alike: on the first sum, on all
  sums, and on the last model.
- *informed*: one round that spends all of epsilon, and an attacker who knows all clients' vectors but one.
  The scores of many rounds are pooled, so that no threshold knows the noise of the very round.
- *difference*: two rounds on the same task, one of them without the victim, within epsilon together: how the
  difference of the sums correlates with the victim's vector.

All rounds of *difference* are real, of *training* and *informed* the first ones of the first seed. For others
the same vectors are added up without masks, which gives the same sums.
Writes results.json, after each seed, and membership.png. The next call goes on with what is missing.
"""

import json
import math
import time
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from functools import cache
from pathlib import Path
from statistics import NormalDist, fmean, stdev
from typing import Any

import numpy as np

from ccesa.privacy.accounting import gaussian_mu
from experiments import record
from experiments.arguments import parse, run
from experiments.privacy.accuracy.digits import PARAMETERS, federation
from experiments.privacy.membership import attacks
from experiments.privacy.membership.picture import draw
from experiments.privacy.published import DELTA, Floats, Setting

HERE = Path(__file__).parent
EPSILONS = ("1", "3", "8", "inf")
#: The published sum of ten rounds trains well with these; they were chosen on other seeds.
ROUNDS, NORM, RATE = 10, 0.5, 3.0


@dataclass(frozen=True, kw_only=True)
class Effort:
    sizes: tuple[int, ...]
    seeds: int
    #: People who are not in the federation: those asked about, and those the attacker knows.
    outside: int
    others: int
    #: Real rounds of the first seed.
    real: dict[int, int]
    #: Rounds of *informed* and pairs of rounds of *difference*, at the first size.
    informed: int
    pairs: int


FULL = Effort(
    sizes=(100, 1000), seeds=10, outside=1000, others=1000, real={100: ROUNDS, 1000: 1}, informed=100, pairs=10
)
QUICK = Effort(sizes=(50,), seeds=2, outside=100, others=100, real={50: 1}, informed=4, pairs=2)


def settings(quick: bool) -> dict[str, Any]:
    return asdict(QUICK if quick else FULL) | {"epsilons": EPSILONS, "delta": DELTA, "training": (ROUNDS, NORM, RATE)}


@cache
def setting(clients: int, epsilon: str, rounds: int, least: int) -> Setting:
    return Setting(clients=clients, dimension=PARAMETERS, norm=NORM, epsilon=float(epsilon), rounds=rounds, least=least)


def trained(effort: Effort, clients: int, epsilon: str, tag: list[int], real: int) -> dict[str, Any]:
    """Train once; return the accuracy, and how well each attack tells members from others."""
    data = federation(clients + effort.outside + effort.others, [*tag, 0])
    everyone = np.arange(len(data.images))
    asked = everyone[: clients + effort.outside]
    made = setting(clients, epsilon, ROUNDS, clients)
    model, scores = np.zeros(PARAMETERS), {name: np.zeros(asked.size) for name in ("projection", "weighed")}
    found: dict[str, dict[str, float]] = {}
    for number in range(ROUNDS):
        sent = data.gradients(model, everyone, NORM)
        total = made.total(sent[:clients], [*tag, 1, number], real=number < real)
        scores["projection"] += sent[asked] @ total
        scores["weighed"] += attacks.weighed(total, sent[asked], sent[asked.size :], clients, made.noise)
        model = model + RATE * total / clients
        if number in (0, ROUNDS - 1):
            sums = "one sum" if number == 0 else "all sums"
            found |= {f"{name}, {sums}": _judged(values, clients) for name, values in scores.items()}
    found["loss"] = _judged(attacks.loss(data, model, asked), clients)
    return {"accuracy": data.accuracy(model), "real_rounds": real, "attacks": found}


def informed(effort: Effort, epsilon: str, tag: list[int]) -> dict[str, Any]:
    """Pool the scores of many rounds, in each of which all clients but one are known."""
    clients = effort.sizes[0]
    made = setting(clients, epsilon, 1, clients)
    scores = []
    for number in range(effort.informed):
        data = federation(2 * clients, [*tag, number, 0])
        sent = data.gradients(np.zeros(PARAMETERS), np.arange(2 * clients), NORM)
        total = made.total(sent[:clients], [*tag, number, 1], real=number == 0)
        scores.append(attacks.informed(total, sent, clients))
    pooled = np.concatenate([*(one[:clients] for one in scores), *(one[clients:] for one in scores)])
    return {"clients": clients, "rounds": len(scores), **_judged(pooled, clients * len(scores))}


def _judged(values: Floats, members: int) -> dict[str, float]:
    inside, outside = values[:members], values[members:]
    return {"area": attacks.area(inside, outside), "caught": attacks.caught(inside, outside)}


def difference(clients: int, epsilon: str, tag: list[int]) -> dict[str, float]:
    """Play two rounds, the second without client 0, and hold their difference against its vector."""
    data = federation(clients, [*tag, 0])
    sent = data.gradients(np.zeros(PARAMETERS), np.arange(clients), NORM)
    made = setting(clients, epsilon, 2, clients - 1)
    with_it = made.total(sent, [*tag, 1])
    found = with_it - made.total(sent, [*tag, 2], gone=[0])
    likeness = sent @ found / np.linalg.norm(sent, axis=1)
    return {"correlation": float(likeness[0] / np.linalg.norm(found)), "identified": float(np.argmax(likeness) == 0)}


def summary(clients: int, epsilon: str, rows: list[dict[str, Any]]) -> dict[str, Any]:
    """Return means over the seeds with twice their standard errors, and the most that epsilon allows."""
    names = rows[0]["attacks"]
    found = {name: {of: _mean([row["attacks"][name][of] for row in rows]) for of in names[name]} for name in names}
    made = setting(clients, epsilon, ROUNDS, clients)
    return {
        "clients": clients,
        "epsilon": epsilon,
        "accuracy": _mean([row["accuracy"] for row in rows]),
        "noise": made.noise,
        "attacks": found,
        "limit": limit(float(epsilon)),
    }


def _mean(values: list[float]) -> tuple[float, float]:
    return fmean(values), 2 * stdev(values) / math.sqrt(len(values))


def limit(epsilon: float) -> dict[str, float]:
    """Return the largest area, and the most members caught, that the Gaussian of this epsilon allows."""
    if math.isinf(epsilon):
        return {"area": 1.0, "caught": 1.0}
    mu, normal = gaussian_mu(epsilon, DELTA), NormalDist()
    return {"area": normal.cdf(mu / math.sqrt(2)), "caught": normal.cdf(normal.inv_cdf(attacks.FALSE_ALARMS) + mu)}


def one_seed(effort: Effort, clients: int, seed: int, number: int) -> dict[str, Any]:
    """Train with every epsilon, on the same clients."""
    real = 0 if number else effort.real[clients]
    return {epsilon: trained(effort, clients, epsilon, [seed, 50, clients, number], real) for epsilon in EPSILONS}


def differences(effort: Effort, epsilon: str, tag: list[int]) -> dict[str, Any]:
    """Return what all pairs of rounds come to."""
    clients = effort.sizes[0]
    rows = [difference(clients, epsilon, [*tag, number]) for number in range(effort.pairs)]
    return {
        "clients": clients,
        "pairs": len(rows),
        "correlation": _mean([row["correlation"] for row in rows]),
        "identified": round(sum(row["identified"] for row in rows)),
    }


def _say(row: dict[str, Any]) -> None:
    print(f"n = {row['clients']}, epsilon {row['epsilon']}: accuracy {row['accuracy'][0]:.3f}")
    for name, found in row["attacks"].items():
        print(f"  {name:17} area {found['area'][0]:.3f}, caught {found['caught'][0]:.3f}")
    print(f"  {'the most':17} area {row['limit']['area']:.3f}, caught {row['limit']['caught']:.3f}", flush=True)


def main(arguments: Sequence[str] | None = None) -> None:
    wanted = parse(__doc__, HERE, "50 clients, two seeds", arguments)
    started = time.time()
    key = record.Key(seed=wanted.seed, quick=wanted.quick, settings=settings(wanted.quick))
    effort, file = QUICK if wanted.quick else FULL, wanted.output / "results.json"
    stored = None if wanted.again else record.earlier(file, key)
    result: dict[str, Any] = {"seeds": {}, "rows": [], "informed": {}, "difference": {}}
    result |= {name: (stored or {}).get(name, value) for name, value in result.items()}

    def save(complete: bool) -> None:
        record.save(file, result, key, started=started, complete=complete, spent=record.seconds(stored))

    for clients in effort.sizes:
        rows = result["seeds"].setdefault(str(clients), [])
        for number in range(len(rows), effort.seeds):
            rows.append(one_seed(effort, clients, wanted.seed, number))
            print(f"n = {clients}: seed {number + 1} of {effort.seeds}", flush=True)
            save(complete=False)
    for place, epsilon in enumerate(EPSILONS):
        for name, part in (("informed", informed), ("difference", differences)):
            if epsilon not in result[name]:
                result[name][epsilon] = part(effort, epsilon, [wanted.seed, 51, place])
                print(f"{name}, epsilon {epsilon}: {result[name][epsilon]}", flush=True)
                save(complete=False)
    result["rows"] = [
        summary(clients, epsilon, [row[epsilon] for row in result["seeds"][str(clients)]])
        for clients in effort.sizes
        for epsilon in EPSILONS
    ]
    for row in result["rows"]:
        _say(row)
    save(complete=True)
    draw(json.loads(file.read_text(encoding="utf-8"))).savefig(wanted.output / "membership.png", dpi=150)


if __name__ == "__main__":
    run(main)
