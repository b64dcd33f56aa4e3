"""Stage ``rounds``: who is in the sum of each round, or why there is none, for every scheme.

Masks cancel, so training needs no more of a round than its survivors V3. Two ways lead there and agree:
``real`` runs the whole protocol (keys, shares, masks, reconstruction) on a short vector, ``ruled`` applies
the server's own rules to the graph and the dropouts, without keys. A real round of a thousand clients
takes minutes, so a sample of the rounds is real, and the rest is ruled.
"""

import hashlib
import json
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from ccesa import labels
from ccesa.config import Complete, ErdosRenyi, Fixed, Graph, RoundConfig, Threshold
from ccesa.graphs.assignment import AssignmentGraph, Flags, Nodes, draw
from ccesa.graphs.evolution import extended, flags, informative
from ccesa.plan import bounds, plan
from ccesa.protocol import messages as m
from ccesa.protocol.server import Aggregate, _fit, _prune
from ccesa.ring import Vector
from ccesa.simulate.dropout import Vanishing
from experiments import rounds
from experiments.record import save

DROPOUT = 0.1
LENGTH, BITS = 16, 32
#: Every so many rounds the file is written, so that nothing is lost if the stage is stopped.
_EVERY = 10


@dataclass(frozen=True, kw_only=True)
class Scheme:
    key: str
    name: str
    graph: Graph
    threshold: Threshold
    #: How many of its first rounds are real.
    real: int


@dataclass(frozen=True, kw_only=True)
class Outcome:
    """``aggregate`` and the survivors, or the name of the failure and nobody."""

    name: str
    survivors: tuple[int, ...]

    @property
    def digest(self) -> str:
        return hashlib.sha256(np.array(self.survivors, "<u4").tobytes()).hexdigest()[:16]


def all_schemes(clients: int, real: Sequence[int]) -> list[Scheme]:
    """SA, the paper's p* and less, and what the planner chooses; ``real`` rounds of SA, of CCESA, of ours."""
    made = plan(clients, DROPOUT)
    star = round(bounds.p_star(clients, DROPOUT), 4)
    return [
        Scheme(
            key="sa",
            name=f"SA (p = 1, t = {clients // 2 + 1})",
            graph=Complete(),
            threshold=Fixed(t=clients // 2 + 1),
            real=real[0],
        ),
        *(_paper(clients, p, real[1]) for p in (star, *(p for p in (0.25, 0.2) if p < star))),
        Scheme(key="ours", name=_ours(made), graph=made.graph, threshold=made.threshold, real=real[2]),
    ]


def _paper(clients: int, p: float, real: int) -> Scheme:
    t = bounds.threshold(clients, p)
    name = f"CCESA (p = {p:g}, t = {t})"
    return Scheme(key=f"p{p:g}", name=name, graph=ErdosRenyi(p=p), threshold=Fixed(t=t), real=real)


def _ours(made: Any) -> str:
    return f"ours ({type(made.graph).__name__}, {made.degree:g} neighbours, t = {made.t})"


def real(config: RoundConfig, gone: Vanishing, seed: list[int]) -> tuple[Outcome, bytes]:
    """A whole round of the protocol, and the seed of its graph, computed from the keys that were sent.

    The sum is held against the plain one: a round that gives a wrong sum ends the stage.
    """
    bundles: dict[int, m.AdvertiseReply] = {}

    def overhear(client: int, reply: bytes) -> None:
        message = m.decode(reply, len(reply))
        if isinstance(message, m.AdvertiseReply):
            bundles[client] = message

    result = rounds.ran(config, lambda client: _input(config, client), gone, seed, overhear).result
    graph_seed = _graph_seed(config, [bundles[client] for client in sorted(bundles)])
    if not isinstance(result, Aggregate):
        return Outcome(name=type(result).__name__, survivors=()), graph_seed
    plain = np.add.reduce([_input(config, client) for client in result.survivors], dtype="<u4")
    if not np.array_equal(plain, result.vector):
        raise ArithmeticError(f"the round {seed} gives a sum that is not its survivors'")
    return Outcome(name="aggregate", survivors=result.survivors), graph_seed


def _input(config: RoundConfig, client: int) -> Vector:
    words = np.random.default_rng(client).integers(2**BITS, size=config.length, dtype=np.uint64)
    return words.astype("<u4")


def _graph_seed(config: RoundConfig, bundles: list[m.AdvertiseReply]) -> bytes:
    """As docs/protocol.md has it: a digest of all keys of V1."""
    roster = [labels.client_bytes(one.client) + one.sealing_key + one.mask_key for one in bundles]
    root = labels.digest(labels.ROSTER, config.context, b"".join(roster))
    return labels.digest(labels.GRAPH_SEED, config.context, root)


def ruled(config: RoundConfig, gone: Vanishing, graph_seed: bytes) -> Outcome:
    """The same by the server's rules alone: the graph, the thresholds, who is left out, both theorems."""
    v1 = np.array([client for client in range(config.clients) if client not in gone["advertise"]], np.int64)
    if v1.size < config.min_survivors:
        return Outcome(name="TooFewClients", survivors=())
    graph = draw(config.graph, graph_seed, v1)
    thresholds = np.array([config.threshold.of(degree) for degree in graph.degrees.tolist()])
    sharing = _fit(graph, thresholds) & ~_among(graph, gone["share"])
    v2 = _prune(graph, thresholds, sharing)
    v3 = v2 & ~_among(graph, gone["mask"])
    v4 = v3 & ~_among(graph, gone["unmask"])
    if min(np.count_nonzero(sharing), np.count_nonzero(v2), np.count_nonzero(v3)) < config.min_survivors:
        return Outcome(name="TooFewClients", survivors=())
    if len(graph.mask_components(v3)) > 1:
        return Outcome(name="Disconnected", survivors=())
    if not (_opens(graph, thresholds, v2, v3, v3) and _opens(graph, thresholds, v2, v3, v4)):
        return Outcome(name="Unreliable", survivors=())
    return Outcome(name="aggregate", survivors=tuple(graph.ids[v3].tolist()))


def _among(graph: AssignmentGraph, members: frozenset[int]) -> Flags:
    return flags(graph.size, np.flatnonzero(np.isin(graph.ids, list(members))))


def _opens(graph: AssignmentGraph, thresholds: Nodes, v2: Flags, v3: Flags, holders: Flags) -> bool:
    """Theorem 1: everyone whose masks are in the sum has enough live holders."""
    return bool(informative(graph, thresholds, holders)[extended(graph, v3, v2)].all())


def run(path: Path, *, clients: int, count: int, reals: Sequence[int], seed: int, quick: bool) -> None:
    """All rounds of all schemes, with the same dropouts for all of them."""
    started = time.time()
    schemes = all_schemes(clients, reals)
    found: dict[str, list[dict[str, Any]]] = {scheme.key: [] for scheme in schemes}
    gone_before_v3: list[list[int]] = []
    for number in range(count):
        gone = rounds.vanishing(DROPOUT, clients, [seed, 0, number])
        before = frozenset().union(*(gone[step] for step in ("advertise", "share", "mask")))
        gone_before_v3.append(sorted(before))
        for scheme in schemes:
            found[scheme.key].append(_one(scheme, clients, gone, before, [seed, 1, number], number))
        if (number + 1) % _EVERY == 0 or number + 1 == count or number < max(reals):
            print(f"round {number + 1} of {count}, {time.time() - started:.0f} s", flush=True)
            _write(path, schemes, found, gone_before_v3, clients, seed, quick, started)


def _one(
    scheme: Scheme, clients: int, gone: Vanishing, before: frozenset[int], seed: list[int], number: int
) -> dict[str, Any]:
    config = rounds.configured(seed, clients, LENGTH, scheme.graph, scheme.threshold, BITS)
    if number < scheme.real:
        outcome, graph_seed = real(config, gone, seed)
        if ruled(config, gone, graph_seed) != outcome:
            raise ArithmeticError(f"round {number} of {scheme.key}: protocol and rules disagree")
    else:
        outcome = ruled(config, gone, hashlib.sha256(repr([scheme.key, *seed]).encode()).digest())
    entry: dict[str, Any] = {"outcome": outcome.name, "real": number < scheme.real}
    if outcome.survivors:
        kept_out = sorted(set(range(clients)) - before - set(outcome.survivors))
        entry |= {"survivors": len(outcome.survivors), "hash": outcome.digest, "left_out": kept_out}
    return entry


def _write(
    path: Path,
    schemes: list[Scheme],
    found: dict[str, list[dict[str, Any]]],
    gone: list[list[int]],
    clients: int,
    seed: int,
    quick: bool,
    started: float,
) -> None:
    result = {
        "what": "survivors of each round: everyone but `gone` and the scheme's `left_out`; real: the whole "
        "protocol was run and the rules agreed; otherwise the server's rules without keys",
        "clients": clients,
        "dropout": DROPOUT,
        "schemes": {
            scheme.key: {
                "name": scheme.name,
                "graph": repr(scheme.graph),
                "threshold": repr(scheme.threshold),
                "rounds": [json.dumps(entry) for entry in found[scheme.key]],
            }
            for scheme in schemes
        },
        "gone": [json.dumps(ids) for ids in gone],
    }
    path.parent.mkdir(parents=True, exist_ok=True)
    save(path, result, seed=seed, quick=quick, started=started)


@dataclass(frozen=True, kw_only=True)
class Rounds:
    """What the file says: for every scheme its name and, for each round, the survivors or None."""

    clients: int
    names: dict[str, str]
    survivors: dict[str, list[tuple[int, ...] | None]]
    real: dict[str, int]
    outcomes: dict[str, list[str]]


def read(path: Path) -> Rounds:
    stored = json.loads(path.read_text(encoding="utf-8"))
    everyone = range(stored["clients"])
    gone = [set(json.loads(ids)) for ids in stored["gone"]]
    schemes = {
        key: [json.loads(entry) for entry in scheme["rounds"]] for key, scheme in stored["schemes"].items()
    }

    def members(entry: dict[str, Any], missing: set[int]) -> tuple[int, ...] | None:
        if entry["outcome"] != "aggregate":
            return None
        found = tuple(sorted(set(everyone) - missing - set(entry["left_out"])))
        if Outcome(name="aggregate", survivors=found).digest != entry["hash"]:
            raise ValueError(f"{path}: the survivors of a round do not have the hash that is given")
        return found

    return Rounds(
        clients=stored["clients"],
        names={key: scheme["name"] for key, scheme in stored["schemes"].items()},
        survivors={
            key: [members(entry, missing) for entry, missing in zip(entries, gone, strict=True)]
            for key, entries in schemes.items()
        },
        real={key: sum(entry["real"] for entry in entries) for key, entries in schemes.items()},
        outcomes={key: [entry["outcome"] for entry in entries] for key, entries in schemes.items()},
    )
