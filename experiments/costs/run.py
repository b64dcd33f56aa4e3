"""Table 1 and appendix C of the paper: how bytes and operations grow with the number of clients.

Real rounds where they are affordable, the cost model of the planner beyond (every point says which), and the
paper's formulas beside both; from all of them the exponent of growth, a straight line through the logarithms.
Graphs are those for q_total = 0.1. A client's bytes and operations are counted while nobody drops out, the
server's operations while a tenth does. Vectors have one element: the figures are what comes on top of the
vector. Secret sharing is counted in products of field elements for one element of a secret: a share takes t
of them, and a secret that is rebuilt t squared, for its Lagrange weights. Writes results.json and costs.png.
"""

import itertools
import math
import time
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
from matplotlib.figure import Figure

from bench.rounds import client_work, server_work
from ccesa import words
from ccesa.crypto.primitives import PUBLIC_KEY_BYTES
from ccesa.crypto.shamir import SHARE_BYTES
from ccesa.errors import ConfigError, RoundFailed
from ccesa.graphs import Complete, ErdosRenyi, Graph
from ccesa.graphs.evolution import extended
from ccesa.plan import paper, plan
from ccesa.plan.price import Shape, price
from ccesa.protocol.curious import STEPS
from ccesa.protocol.server import Aggregate
from ccesa.simulate.dropout import Dropouts
from ccesa.thresholds import Fixed, Threshold
from experiments import bounds, chart, rounds
from experiments.arguments import parse, run
from experiments.record import Key, save

HERE = Path(__file__).parent
SIZES, QUICK_SIZES = (50, 100, 200, 300, 500, 1000, 2000), (60, 120)
Q_TOTAL = 0.1
BITS = 32
SCHEMES = ("SA", "CCESA", "planned")
#: The most clients of a real round; beyond, the cost model.
AFFORDABLE = {"SA": 300, "CCESA": 500, "planned": 2000}
KEY_BITS, SHARE_BITS = 8 * PUBLIC_KEY_BYTES, 8 * SHARE_BYTES
#: The example of the paper's section "Related work": m, R, n, L.
EXAMPLE = {"length": 10**6, "bits": 32, "n": 100, "groups": 10}
COUNTED = (
    "client_bytes",
    "client_agreements",
    "client_keystreams",
    "client_sharing",
    "server_bytes",
    "server_agreements",
    "server_keystreams",
    "server_rebuilding",
)
#: b_i and the secret key s_i.
SECRETS = 2


def settings(quick: bool) -> dict[str, Any]:
    return {
        "sizes": QUICK_SIZES if quick else SIZES,
        "q_total": Q_TOTAL,
        "bits": BITS,
        "affordable": AFFORDABLE,
        "counted": COUNTED,
    }


def chosen(scheme: str, n: int) -> tuple[Graph, Threshold] | None:
    """Graph and threshold; None where the paper's rule has no p*."""
    if scheme == "SA":
        return Complete(), Fixed(t=n // 2 + 1)
    if scheme == "planned":
        made = plan(n, Q_TOTAL, length=1, bits=BITS)
        return made.graph, made.threshold
    try:
        p = paper.p_star(n, Q_TOTAL)
    except ConfigError:
        return None
    return ErdosRenyi(p=p), Fixed(t=paper.threshold(n, p))


def counted(scheme: str, n: int, seed: int) -> dict[str, Any] | None:
    """One point: from rounds if they are affordable, and from the model in any case."""
    choice = chosen(scheme, n)
    if choice is None:
        return None
    shape = _shape(n, *choice)
    modelled = model(shape)
    found = measured(n, *choice, seed) if n <= AFFORDABLE[scheme] else None
    return {
        "scheme": scheme,
        "n": n,
        "degree": shape.degree,
        "mask_degree": shape.mask_degree,
        "t": shape.threshold,
        "source": "rounds" if found else "model",
        **(found or modelled),
        "model": modelled,
        "paper": formulas(n, shape.degree),
    }


def _shape(n: int, graph: Graph, threshold: Threshold) -> Shape:
    degree = graph.mean_degree(n)
    masks = graph.mean_mask_degree(n)
    return Shape(
        clients=n,
        degree=degree,
        mask_degree=degree if masks is None else masks,
        threshold=threshold.of(int(degree)),
        length=1,
        bits=BITS,
        dropout=Q_TOTAL,
    )


def model(shape: Shape) -> dict[str, float]:
    """What the planner expects. The vector's own bytes are taken off."""
    priced = price(shape)
    extra = priced.sent_bytes + priced.received_bytes - shape.vector_bytes
    return {
        "client_bytes": extra,
        "client_agreements": priced.agreements,
        "client_keystreams": priced.keystream_bytes / shape.vector_bytes,
        "client_sharing": SECRETS * shape.threshold * (shape.degree + 1),
        "server_bytes": shape.clients * extra,
        "server_agreements": priced.server_agreements,
        "server_keystreams": priced.server_keystream_bytes / shape.vector_bytes,
        # One secret for everyone in V2: b_i of the survivors, s_i of the others.
        "server_rebuilding": shape.clients
        * (1 - paper.step_dropout(shape.dropout)) ** 2
        * shape.threshold**2,
    }


def measured(n: int, graph: Graph, threshold: Threshold, seed: int) -> dict[str, float]:
    """The same from two real rounds: one in which nobody drops out, one in which a tenth does."""
    calm, rough = _ran(n, graph, threshold, 0.0, seed), _ran(n, graph, threshold, Q_TOTAL, seed)
    agreements, keystreams = client_work(_sum(calm))
    server_agreements, server_keystreams = server_work(_sum(rough))
    extra = calm.sent + calm.received - BITS / 8
    return {
        "client_bytes": extra,
        "client_agreements": agreements,
        "client_keystreams": keystreams,
        "client_sharing": sharing(_sum(calm)),
        "server_bytes": n * extra,
        "server_agreements": server_agreements,
        "server_keystreams": server_keystreams,
        "server_rebuilding": rebuilding(_sum(rough)),
    }


def sharing(aggregate: Aggregate) -> float:
    """Products that a surviving client's shares take, in the mean: t for each of its holders and secrets."""
    evolution = aggregate.evolution
    each = SECRETS * evolution.thresholds * (evolution.graph.degrees + 1)
    return float(each[evolution.v3].mean())


def rebuilding(aggregate: Aggregate) -> int:
    """Products of the server: t squared for every secret that it opens."""
    evolution = aggregate.evolution
    opened = extended(evolution.graph, evolution.v3, evolution.v2)
    return int((evolution.thresholds[opened].astype(np.int64) ** 2).sum())


def _ran(n: int, graph: Graph, threshold: Threshold, q_total: float, seed: int) -> rounds.Ran:
    """A round that succeeds; a lost one is run again with other dropouts."""
    zeros = words.zeros(1, BITS)
    for attempt in range(5):
        seeds = [seed, n, attempt]
        config = rounds.configured(seeds, n, 1, graph, threshold, BITS)
        found = rounds.ran(config, lambda _: zeros, _dropouts(n, q_total, seeds), seeds)
        if isinstance(found.result, Aggregate):
            return found
    raise RoundFailed(f"five rounds with n = {n} were lost, one after the other")


def _dropouts(n: int, q_total: float, seeds: list[int]) -> Dropouts:
    """In each step as many as are expected to drop out: growth should show, not luck."""
    order = np.random.default_rng(seeds).permutation(n)
    ends = np.rint(n * -np.expm1(np.log1p(-q_total) * np.arange(5) / 4)).astype(int)
    groups = [order[first:last] for first, last in itertools.pairwise(ends.tolist())]
    return {step.name: frozenset(gone.tolist()) for step, gone in zip(STEPS[False], groups, strict=True)}


def _sum(found: rounds.Ran) -> Aggregate:
    if isinstance(found.result, RoundFailed):
        raise found.result
    return found.result


def formulas(n: int, degree: float) -> dict[str, float]:
    """Appendix C for this degree: bytes beside the vector, and operations."""
    client = bounds.client_bandwidth(degree, KEY_BITS, SHARE_BITS) / 8
    operations = bounds.client_operations(degree, 1)
    server = bounds.server_operations(n, degree, 1)
    return {
        "client_bytes": client,
        "client_agreements": operations["agreements"],
        "client_keystreams": operations["mask_words"],
        "server_bytes": n * client,
        "server_keystreams": server["mask_words"],
        "client_sharing": operations["sharing"],
        "server_rebuilding": server["rebuilding"],
    }


def exponent(points: list[tuple[float, float]]) -> float | None:
    """The slope of a line through the logarithms; a zero has none."""
    points = [(n, value) for n, value in points if value > 0]
    if len(points) < 2:
        return None
    n, values = np.log(np.array(points)).T
    return float(np.polyfit(n, values, 1)[0])


def exponents(rows: list[dict[str, Any]]) -> dict[str, dict[str, dict[str, float | None]]]:
    """Of each scheme and quantity: from real rounds only, from all points, and from the paper's formulas."""
    found: dict[str, dict[str, dict[str, float | None]]] = {}
    for scheme in SCHEMES:
        mine = [row for row in rows if row["scheme"] == scheme]
        found[scheme] = {
            name: {
                "rounds": exponent([(r["n"], r[name]) for r in mine if r["source"] == "rounds"]),
                "all": exponent([(r["n"], r[name]) for r in mine]),
                "paper": exponent([(r["n"], r["paper"][name]) for r in mine if name in r["paper"]]),
            }
            for name in COUNTED
        }
    return found


def farthest(rows: list[dict[str, Any]]) -> dict[str, float]:
    """How far the model is from the rounds at most, relative to them."""
    real = [row for row in rows if row["source"] == "rounds"]
    return {
        name: max((abs(row["model"][name] / row[name] - 1) for row in real if row[name]), default=0.0)
        for name in COUNTED
    }


def turbo() -> dict[str, float]:
    """The paper's example beside Turbo-aggregate, in bytes of a client, vector included."""
    n, length, bits, groups = (EXAMPLE[name] for name in ("n", "length", "bits", "groups"))
    theirs = bounds.turbo_aggregate_bandwidth(n, length, bits, groups) / 8
    printed = bounds.paper_bandwidth(n, length, bits, KEY_BITS, SHARE_BITS) / 8
    found = {"turbo_aggregate": theirs, "ccesa_formula": printed, "ccesa_formula_share": printed / theirs}
    for scheme in SCHEMES:
        choice = chosen(scheme, n)
        if choice is None:
            continue
        priced = price(replace(_shape(n, *choice), length=length, bits=bits))
        found[scheme] = priced.sent_bytes + priced.received_bytes
        found[f"{scheme}_share"] = found[scheme] / theirs
    return found


def picture(rows: list[dict[str, Any]]) -> Figure:
    figure = Figure(figsize=(11, 11.5), layout="constrained")
    panels = {
        "client_bytes": ("bytes beside the vector", "a client's communication"),
        "client_agreements": ("key agreements", "a client's key agreements"),
        "client_keystreams": ("keystreams of vector length", "a client's masks"),
        "server_keystreams": ("keystreams of vector length", "the server's masks, a tenth vanishes"),
        "client_sharing": ("field products", "a client's secret sharing"),
        "server_rebuilding": ("field products", "the server's secrets rebuilt, a tenth vanishes"),
    }
    shown: dict[str, Any] = {}
    for panel, (name, (unit, title)) in zip(figure.subplots(3, 2).ravel(), panels.items(), strict=True):
        _panel(panel, rows, name)
        ticks = sorted({row["n"] for row in rows})
        panel.set(xscale="log", yscale="log", xlabel="clients n", ylabel=unit)
        panel.set_xticks(ticks, [f"{n:,}" for n in ticks])
        panel.minorticks_off()
        panel.set_title(title, fontsize=10)
        panel.grid(color="0.9")
        handles, labels = panel.get_legend_handles_labels()
        shown |= dict(zip(labels, handles, strict=True))
    figure.legend(shown.values(), shown.keys(), loc="outside lower center", ncols=3, fontsize=9)
    return figure


def _panel(panel: Any, rows: list[dict[str, Any]], name: str) -> None:
    """Filled: real rounds. Hollow: the cost model. Lines without points: the paper's formulas."""
    dashes = ((0, (6, 2)), (0, (3, 1, 1, 1)), (0, (1, 1.5)))
    for number, scheme in enumerate(SCHEMES):
        mine = [row for row in rows if row["scheme"] == scheme]
        if not mine:
            continue
        look = chart.style(number)
        printed = [row["paper"].get(name, math.nan) for row in mine]
        panel.plot(
            [row["n"] for row in mine],
            printed,
            color=look["color"],
            ls=dashes[number],
            lw=1.8,
            label=f"{scheme}: the paper's formula",
        )
        for source, fill in (("rounds", look["color"]), ("model", "white")):
            points = [(row["n"], row[name]) for row in mine if row["source"] == source]
            if points:  # a label without a point would say nothing
                words = "real rounds" if source == "rounds" else "cost model"
                look |= {"ls": "none", "mfc": fill, "label": f"{scheme}: {words}"}
                panel.plot(*zip(*points, strict=True), **look)


def told(row: dict[str, Any] | None, scheme: str, n: int) -> str:
    if row is None:
        return f"{scheme:8} n = {n}: the paper's p* exceeds 1"
    return (
        f"{scheme:8} n = {n} ({row['source']}): degree {row['degree']:.1f}, client "
        f"{row['client_bytes']:,.0f} bytes (formula {row['paper']['client_bytes']:,.0f}), "
        f"{row['client_agreements']:.0f} agreements, server {row['server_keystreams']:,.0f} keystreams"
    )


def main(arguments: Sequence[str] | None = None) -> None:
    wanted = parse(__doc__, HERE, "two small sizes only", arguments)
    started, key = time.time(), Key(seed=wanted.seed, quick=wanted.quick, settings=settings(wanted.quick))
    rows = []
    for n, scheme in itertools.product(key.settings["sizes"], SCHEMES):
        row = counted(scheme, n, wanted.seed)
        print(told(row, scheme, n), flush=True)
        if row is not None:
            rows.append(row)
    picture(rows).savefig(wanted.output / "costs.png", dpi=150)
    result = {
        "q_total": Q_TOTAL,
        "rows": rows,
        "exponents": exponents(rows),
        "model_off_by_at_most": farthest(rows),
        "turbo_aggregate": turbo(),
    }
    save(wanted.output / "results.json", result, key, started=started)


if __name__ == "__main__":
    run(main)
