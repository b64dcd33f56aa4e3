"""Claims of the paper's text, one by one: what is claimed and where, a verdict, and the numbers behind it.

Everything is exact or counted but the rounds on 40 faces, which are drawn and run from the seed, with
intervals beside their rates, and the times of two curves. Writes results.json and claims.png.
"""

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from experiments.arguments import parse, run
from experiments.claims import arbitrary, curves, figure_1, forty, picture, proof, rates, recall, resources, running
from experiments.record import Key, save

HERE = Path(__file__).parent
Found = dict[str, Any]


@dataclass(frozen=True)
class Claim:
    """Words of the paper, where they stand, which numbers decide on them, and how."""

    words: str
    where: str
    numbers: str
    judge: Callable[[Found], str]


CLAIMS = {
    "forty": Claim("only 40 % of the resources of SA", "figure 2, caption", "forty", forty.verdict),
    "share": Claim("20 to 30 % of the resources", "abstract, conclusion", "resources", resources.verdict),
    "factor": Claim(
        "resources reduced at least by a factor of √(n / log n)", "conclusion", "resources", resources.verdict_factor
    ),
    "falls": Claim("p* is a decreasing function of n", "Remark 1", "resources", resources.verdict_falls),
    "minimum": Claim(
        "p* is the provably minimum connection probability",
        "experiments, Reliability",
        "resources",
        resources.verdict_minimum,
    ),
    "arbitrary": Claim(
        "bounds for arbitrary n, p, q and t, that fall with p",
        "Theorem 5, figure of the bounds",
        "arbitrary",
        arbitrary.verdict,
    ),
    "rates": Claim("reliable except with O(n exp(−√(n log n)))", "appendix D", "rates", rates.verdict),
    "private rates": Claim("private except with O(n^−C), any C", "appendix D", "rates", rates.verdict_private),
    "theorem 4": Claim("almost surely private above ln(l) / l", "Theorem 4", "rates", rates.verdict_theorem_4),
    "recall": Claim("recall is close to 1 for all schemes", "appendix A", "recall", recall.verdict),
    "theorem 2": Claim("private if and only if …", "Theorem 2", "proof", proof.verdict),
    "half": Claim("only half of the bandwidth", "figure 1", "figure_1", figure_1.verdict),
    "times": Claim(
        "for every n, q_total p times less running time", "experiments, Running time", "running", running.verdict
    ),
    "curve": Claim("key agreement over the NIST SP800-56 curve", "appendix, set-up", "curves", curves.verdict),
}

#: How much of everything: in full, and with --quick.
FULL = {
    "dropouts": [0.0, 0.01, 0.05, 0.1],
    "sizes": [*range(100, 1001, 100), 2000, 5000, 10_000],
    "bound_sizes": [100, 200, 300, 500, 1000],
    "points": 100,
    "rate_sizes": [10**k for k in range(2, 8)],
    "private_sizes": [100, 300, 1000, 3000, 10_000],
    "graphs": 20_000,
    "rounds": 100,
    "clients": 5,
    "repeats": 300,
}
QUICK = FULL | {
    "dropouts": [0.0, 0.1],
    "sizes": [100, 1000],
    "bound_sizes": [100, 120],
    "points": 20,
    "rate_sizes": [100, 1000],
    "private_sizes": [100, 300],
    "graphs": 1000,
    "rounds": 2,
    "clients": 3,
    "repeats": 5,
}


def settings(quick: bool) -> dict[str, Any]:
    return QUICK if quick else FULL


def numbers(of: dict[str, Any], seed: int) -> dict[str, Callable[[], Found]]:
    """What each module finds, in the order in which they are asked."""
    ends = [min(of["dropouts"]), max(of["dropouts"])]
    return {
        "curves": lambda: curves.find(of["repeats"]),
        "recall": recall.find,
        "running": running.find,
        "figure_1": lambda: figure_1.find(seed),
        "resources": lambda: resources.find(of["sizes"], of["dropouts"]),
        "arbitrary": lambda: arbitrary.find(of["bound_sizes"], of["dropouts"], of["points"]),
        "rates": lambda: rates.find(of["rate_sizes"], of["private_sizes"], ends),
        "forty": lambda: forty.find(ends, of["graphs"], of["rounds"], seed),
        "proof": lambda: proof.find(of["clients"]),
    }


def judged(found: dict[str, Found]) -> list[dict[str, str]]:
    return [
        {"name": name, "claim": one.words, "where": one.where, "verdict": one.judge(found[one.numbers])}
        for name, one in CLAIMS.items()
    ]


def main(arguments: Sequence[str] | None = None) -> None:
    wanted = parse(__doc__, HERE, "fewer sizes, graphs and rounds: seconds", arguments)
    started, key = time.time(), Key(seed=wanted.seed, quick=wanted.quick, settings=settings(wanted.quick))
    found: dict[str, Found] = {}
    for name, find in numbers(key.settings, wanted.seed).items():
        began = time.time()
        found[name] = find()
        print(f"{name}: {time.time() - began:.0f} s", flush=True)
    claims = judged(found)
    for one in claims:
        print(f"{one['where']}: {one['claim']}: {one['verdict']}")
    picture.draw(found).savefig(wanted.output / "claims.png", dpi=130)
    save(wanted.output / "results.json", {"claims": claims, **found}, key, started=started)


if __name__ == "__main__":
    run(main)
