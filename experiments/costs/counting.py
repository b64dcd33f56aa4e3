"""Bytes and operations of one scheme at one number of clients: from real rounds, by the model, on paper."""

import itertools
from typing import Any

import numpy as np

from bench.protocol.rounds import client_work, server_work
from ccesa import words
from ccesa.crypto.primitives import PUBLIC_KEY_BYTES
from ccesa.crypto.shamir import SHARE_BYTES
from ccesa.errors import RoundFailed
from ccesa.graphs import Complete, ErdosRenyi, Graph, Harary
from ccesa.graphs.assignment import extended
from ccesa.graphs.thresholds import Fixed, Threshold
from ccesa.plan import paper, plan
from ccesa.plan.price import Shape, price
from ccesa.protocol.server import Aggregate
from ccesa.protocol.steps import steps_under
from ccesa.simulate.simulation import Dropouts
from experiments import bounds, rounds
from experiments.costs import bell

Q_TOTAL = 0.1
#: The fraction of colluders that Bell et al. are asked to withstand: as many as drop out.
GAMMA = Q_TOTAL
BITS = 32
SCHEMES = ("SA", "CCESA", "Bell et al.", "planned")
#: The most clients of a real round; beyond, the cost model.
AFFORDABLE = {"SA": 300, "CCESA": 500, "Bell et al.": 2000, "planned": 2000}
KEY_BITS, SHARE_BITS = 8 * PUBLIC_KEY_BYTES, 8 * SHARE_BYTES
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


def chosen(scheme: str, n: int) -> tuple[Graph, Threshold] | None:
    """Graph and threshold; None where the paper's rule has no p*."""
    if scheme == "SA":
        return Complete(), Fixed(t=n // 2 + 1)
    if scheme == "planned":
        made = plan(n, Q_TOTAL, length=1, bits=BITS)
        return made.graph, made.threshold
    if scheme == "Bell et al.":
        degree, t = bell.choice(n, GAMMA, Q_TOTAL)
        return (Complete() if degree == n - 1 else Harary(degree=degree)), Fixed(t=t)
    rule = paper.rule(n, Q_TOTAL)
    return rule and (ErdosRenyi(p=rule.p_star), Fixed(t=rule.t))


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
        "server_rebuilding": shape.clients * (1 - paper.step_dropout(shape.dropout)) ** 2 * shape.threshold**2,
    }


def measured(n: int, graph: Graph, threshold: Threshold, seed: int) -> dict[str, float]:
    """The same from two real rounds: one in which nobody drops out, one in which a tenth does."""
    calm, rough = (ran(n, graph, threshold, q_total, seed) for q_total in (0.0, Q_TOTAL))
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


def ran(n: int, graph: Graph, threshold: Threshold, q_total: float, seed: int, length: int = 1) -> rounds.Ran:
    """A round that succeeds; a lost one is run again with other dropouts."""
    zeros = words.zeros(length, BITS)
    for attempt in range(5):
        seeds = [seed, n, attempt]
        config = rounds.configured(seeds, n, length, graph, threshold, BITS)
        found = rounds.ran(config, lambda _: zeros, _dropouts(n, q_total, seeds), seeds)
        if isinstance(found.result, Aggregate):
            return found
    raise RoundFailed(f"five rounds with n = {n} were lost, one after the other")


def _dropouts(n: int, q_total: float, seeds: list[int]) -> Dropouts:
    """In each step as many as are expected to drop out: growth should show, not luck."""
    order = np.random.default_rng(seeds).permutation(n)
    ends = np.rint(n * -np.expm1(np.log1p(-q_total) * np.arange(5) / 4)).astype(int)
    groups = [order[first:last] for first, last in itertools.pairwise(ends.tolist())]
    return {step.name: frozenset(gone.tolist()) for step, gone in zip(steps_under("curious"), groups, strict=True)}


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
