"""An audit of noisy sums: does any test on them beat the certificate, and is wrong code caught?

For each epsilon 802 clients send one vector each that spends all of it; every client is a canary, in or out
by a coin (see ``canaries``). The first sum only gives the threshold. The second one, the first that counts,
comes from a real round over a planned graph if the clients are right; of the others the words are added up.
Bounds on epsilon grow with the number of sums. Beside the right clients the same audit hears wrong ones (see
``clients``). Writes results.json, after each epsilon, and audit.png. The next call goes on with what is
missing.
"""

import json
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
from matplotlib.figure import Figure
from scipy.special import ndtr

from ccesa.agreement.config import RoundConfig
from ccesa.plan import plan
from ccesa.privacy import DifferentialPrivacy, Mechanism, choose_mechanism
from ccesa.privacy.accounting import gaussian_mu
from experiments import chart, record, rounds
from experiments.arguments import parse, run
from experiments.privacy.audit import canaries
from experiments.privacy.audit.clients import CLIENTS

HERE = Path(__file__).parent
CANARIES, DIMENSION, DELTA = 802, 1024, 1e-5
EPSILONS, QUICK_EPSILONS = (1.0, 3.0, 8.0), (8.0,)
#: Sums that are counted, beside the one that gives the threshold.
SUMS, QUICK_SUMS = 10, 2
_BINS = 40


def settings(quick: bool) -> dict[str, Any]:
    return {
        "canaries": CANARIES,
        "dimension": DIMENSION,
        "delta": DELTA,
        "epsilons": QUICK_EPSILONS if quick else EPSILONS,
        "sums": QUICK_SUMS if quick else SUMS,
        "clients": list(CLIENTS),
        "confidence": canaries.CONFIDENCE,
    }


def mechanism(epsilon: float) -> Mechanism:
    """One sum spends all, and nobody is in it whose noise does not count: an audit cannot be sharper."""
    demand = DifferentialPrivacy(epsilon=epsilon, delta=DELTA, rounds=1, norm=1.0)
    return choose_mechanism(demand, clients=CANARIES, honest=CANARIES, dimension=DIMENSION)


def a_round(made: Mechanism, seed: list[int]) -> RoundConfig:
    """A round of these clients over the graph that is planned for them."""
    planned = plan(CANARIES, 0.1)
    return rounds.configured(seed, CANARIES, made.length, planned.graph, planned.threshold, bits=64)


def audited(epsilon: float, name: str, sums: int, seed: int) -> dict[str, Any]:
    made = mechanism(epsilon)
    encode, tags = CLIENTS[name](made), [[seed, round(10 * epsilon), number] for number in range(sums + 1)]
    real = a_round(made, tags[1]) if name == "right" else None
    heard = [canaries.listen(made, encode, tag, real if tag == tags[1] else None) for tag in tags]
    bounds = [canaries.audit(heard[0], canaries.Heard.of(heard[1 : 1 + some]), DELTA) for some in range(1, sums + 1)]
    return {"bounds": bounds, "scores": _histogram(canaries.Heard.of(heard[1:]))}


def _histogram(heard: canaries.Heard) -> dict[str, list[float]]:
    edges = np.histogram_bin_edges(heard.scores, _BINS)
    counts = {
        name: np.histogram(heard.scores[who], edges, density=True)[0].round(5).tolist()
        for name, who in (("in", heard.inside), ("out", ~heard.inside))
    }
    return {"edges": edges.round(5).tolist(), **counts}


def one(epsilon: float, sums: int, seed: int) -> dict[str, Any]:
    made = mechanism(epsilon)
    found = {name: audited(epsilon, name, sums, seed) for name in CLIENTS}
    for name, what in found.items():
        last = what["bounds"][-1]
        print(f"epsilon {epsilon:g}, {name}: at least {last['epsilon']:.2f} ({last['canaries']} canaries)")
    return {
        "epsilon": epsilon,
        "certified": made.certify(),
        "mu": gaussian_mu(epsilon, DELTA),
        "noise": made.noise(CANARIES),
        "found": found,
    }


def picture(rows: list[dict[str, Any]]) -> Figure:
    figure = Figure(figsize=(5 * (len(rows) + 1), 4.6), layout="constrained")
    panels = figure.subplots(1, len(rows) + 1)
    for panel, row in zip(panels, rows, strict=False):
        for number, (name, what) in enumerate(row["found"].items()):
            bounds = what["bounds"]
            look = chart.style(number) | {"ms": 5, "lw": 1}
            panel.plot([b["canaries"] for b in bounds], [b["epsilon"] for b in bounds], label=name, **look)
        panel.axhline(row["epsilon"], color="black", lw=1.6, label="the certificate")
        panel.set(xlabel="canaries", ylabel="lower bound on ε, 99 % confidence", ylim=(0, None))
        panel.set_title(f"ε = {row['epsilon']:g}: above the line is wrong", fontsize=10)
        panel.grid(color="0.9")
    figure.legend(*panels[0].get_legend_handles_labels(), loc="outside lower center", ncols=5, fontsize=9)
    _scores(panels[-1], rows[-1])
    figure.suptitle("python -m experiments.privacy.audit.run", fontsize=8, x=0.99, ha="right")
    return figure


def _scores(panel: Any, row: dict[str, Any]) -> None:
    """What the right clients' sums say about canaries in and out, and what the mathematics says."""
    scores, noise = row["found"]["right"]["scores"], row["noise"]
    edges = np.array(scores["edges"])
    for number, name in enumerate(("out", "in")):
        look = {"color": ("0.25", "0.65")[number], "ls": ("-", "--")[number]}
        panel.stairs(scores[name], edges, label=f"canaries {name}", **look)
        expected = np.diff(ndtr((edges - number) / noise)) / np.diff(edges)
        panel.plot((edges[1:] + edges[:-1]) / 2, expected, ".", ms=4, color=look["color"])
    panel.set(xlabel="projection of the sum / norm", ylabel="density (dots: normal)")
    chart.finish(panel, f"ε = {row['epsilon']:g}, right clients")


def main(arguments: Sequence[str] | None = None) -> None:
    wanted = parse(__doc__, HERE, "epsilon = 8 and two sums: half a minute", arguments)
    started = time.time()
    key = record.Key(seed=wanted.seed, quick=wanted.quick, settings=settings(wanted.quick))
    file = wanted.output / "results.json"
    stored = None if wanted.again else record.earlier(file, key)
    rows: list[dict[str, Any]] = stored["rows"] if stored else []
    for epsilon in key.settings["epsilons"][len(rows) :]:
        rows.append(one(epsilon, key.settings["sums"], wanted.seed))
        complete = len(rows) == len(key.settings["epsilons"])
        spent = record.seconds(stored)
        record.save(file, {"rows": rows}, key, started=started, complete=complete, spent=spent)
    picture(json.loads(file.read_text(encoding="utf-8"))["rows"]).savefig(wanted.output / "audit.png", dpi=150)


if __name__ == "__main__":
    run(main)
