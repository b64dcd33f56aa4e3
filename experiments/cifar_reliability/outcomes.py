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
from ccesa.agreement.config import RoundConfig
from ccesa.crypto.shamir import MAX_HOLDERS
from ccesa.graphs import Complete, ErdosRenyi
from ccesa.graphs.assignment import AssignmentGraph, Flags, Nodes, draw, extended, flags, informative
from ccesa.graphs.thresholds import Fixed
from ccesa.plan import paper, plan
from ccesa.protocol import messages as m
from ccesa.protocol.server import Aggregate
from ccesa.simulate.simulation import Dropouts
from ccesa.words import Vector
from experiments import rounds
from experiments.cifar_reliability.setup import DROPOUT, Effort
from experiments.record import Key, earlier, finished, save, seconds
from experiments.schemes import Scheme

LENGTH, BITS = 16, 32
#: Every so many rounds the file is written, so that little is lost if the stage is stopped.
_EVERY = 10

Entry = dict[str, Any]


@dataclass(frozen=True, kw_only=True)
class Outcome:
    """``aggregate`` and the survivors, or the name of the failure and nobody."""

    name: str
    survivors: tuple[int, ...]

    @property
    def digest(self) -> str:
        return hashlib.sha256(np.array(self.survivors, "<u4").tobytes()).hexdigest()[:16]


def all_schemes(clients: int) -> list[Scheme]:
    """SA, the paper's p* and less, and what the planner chooses."""
    half = Fixed(t=clients // 2 + 1)
    star = round(paper.p_star(clients, DROPOUT), 4)
    return [
        Scheme(key="sa", name=f"SA (p = 1, t = {half.t})", graph=Complete(), threshold=half),
        *(_paper(clients, p) for p in (star, *(p for p in (0.25, 0.2) if p < star))),
        _ours(clients),
    ]


def _paper(clients: int, p: float) -> Scheme:
    t = paper.threshold(clients, p)
    name = f"CCESA (p = {p:g}, t = {t})"
    return Scheme(key=f"p{p:g}", name=name, graph=ErdosRenyi(p=p), threshold=Fixed(t=t))


def _ours(clients: int) -> Scheme:
    made = plan(clients, DROPOUT)
    masks = f"masks with {made.mask_degree:g}, " if made.mask_degree < made.degree else ""
    name = f"ours ({type(made.graph).__name__}, {made.degree:g} neighbours, {masks}t = {made.t})"
    return Scheme(key="ours", name=name, graph=made.graph, threshold=made.threshold)


def real_rounds(schemes: Sequence[Scheme], reals: tuple[int, int, int]) -> dict[str, int]:
    """How many of a scheme's first rounds are real: of SA, of each CCESA, of ours."""
    places = {"sa": 0, "ours": 2}
    return {scheme.key: reals[places.get(scheme.key, 1)] for scheme in schemes}


def key_of(effort: Effort, schemes: Sequence[Scheme], seed: int) -> Key:
    """What the rounds hang on: not the training."""
    settings = {
        "clients": effort.clients,
        "rounds": effort.rounds,
        "real": real_rounds(schemes, effort.reals),
        "q_total": DROPOUT,
        "length": LENGTH,
        "bits": BITS,
        "schemes": {one.key: [repr(one.graph), repr(one.threshold)] for one in schemes},
    }
    return Key(seed=seed, quick=effort.quick, settings=settings)


def real(config: RoundConfig, gone: Dropouts, seed: list[int]) -> tuple[Outcome, bytes]:
    """A whole round of the protocol, and the seed of its graph, computed from the keys that were sent.

    The sum is held against the plain one: a round that gives a wrong sum ends the stage.
    """
    bundles: dict[int, m.AdvertiseReply] = {}

    def overhear(client: int, reply: bytes) -> None:
        message = m.decode(reply, len(reply))
        if isinstance(message, m.AdvertiseReply):
            bundles[client] = message

    result = rounds.ran(config, lambda client: _input(config, client), gone, seed, overhear).result
    seed_of_graph = graph_seed(config, [bundles[client] for client in sorted(bundles)])
    if not isinstance(result, Aggregate):
        return Outcome(name=type(result).__name__, survivors=()), seed_of_graph
    plain = np.add.reduce([_input(config, client) for client in result.survivors], dtype="<u4")
    if not np.array_equal(plain, result.vector):
        raise ArithmeticError(f"the round {seed} gives a sum that is not its survivors'")
    return Outcome(name="aggregate", survivors=result.survivors), seed_of_graph


def _input(config: RoundConfig, client: int) -> Vector:
    words = np.random.default_rng(client).integers(2**BITS, size=config.length, dtype=np.uint64)
    return words.astype("<u4")


def graph_seed(config: RoundConfig, bundles: list[m.AdvertiseReply]) -> bytes:
    """As docs/protocol.md has it: a digest of all keys of V1."""
    roster = [labels.client_bytes(one.client) + one.keys for one in bundles]
    root = labels.digest(labels.ROSTER, config.context, b"".join(roster))
    return labels.digest(labels.GRAPH_SEED, config.context, root)


def ruled(config: RoundConfig, gone: Dropouts, seed_of_graph: bytes) -> Outcome:
    """The same by the server's rules alone: the graph, the thresholds, who is left out, both theorems."""
    v1 = np.array([client for client in range(config.clients) if client not in gone["advertise"]], np.int64)
    if v1.size < config.min_survivors:
        return Outcome(name="TooFewClients", survivors=())
    graph = draw(config.graph, seed_of_graph, v1)
    thresholds = np.array([config.threshold.of(degree) for degree in graph.degrees.tolist()])
    sharing = _able(graph, thresholds) & ~_among(graph, gone["share"])
    v2 = _held_together(graph, thresholds, sharing)
    v3 = v2 & ~_among(graph, gone["mask"])
    v4 = v3 & ~_among(graph, gone["unmask"])
    if min(np.count_nonzero(sharing), np.count_nonzero(v2), np.count_nonzero(v3)) < config.min_survivors:
        return Outcome(name="TooFewClients", survivors=())
    if len(graph.mask_components(v3)) > 1:
        return Outcome(name="Disconnected", survivors=())
    if not (_opens(graph, thresholds, v2, v3, v3) and _opens(graph, thresholds, v2, v3, v4)):
        return Outcome(name="Unreliable", survivors=())
    return Outcome(name="aggregate", survivors=tuple(graph.ids[v3].tolist()))


def _able(graph: AssignmentGraph, thresholds: Nodes) -> Flags:
    """docs/protocol.md, 4.1: one to mask with, enough to share with, not so many that two sets of t exist."""
    closed = graph.degrees + 1
    masks = graph.live_mask_neighbours(np.ones(graph.size, bool))
    return (masks >= 1) & (closed <= MAX_HOLDERS) & (thresholds <= closed) & (closed < 2 * thresholds)


def _held_together(graph: AssignmentGraph, thresholds: Nodes, alive: Flags) -> Flags:
    """V2: pruned, and of masks that have fallen apart the largest part, until nobody is left out."""
    while len(parts := graph.mask_components(kept := _pruned(graph, thresholds, alive))) > 1:
        alive = flags(graph.size, min(parts, key=lambda part: (-part.size, part[0])))
    return kept


def _pruned(graph: AssignmentGraph, thresholds: Nodes, alive: Flags) -> Flags:
    """Leave out those who have too few live neighbours, until nobody has."""
    while True:
        kept = alive & informative(graph, thresholds, alive) & (graph.live_mask_neighbours(alive) > 0)
        if (kept == alive).all():
            return kept
        alive = kept


def _among(graph: AssignmentGraph, members: frozenset[int]) -> Flags:
    return flags(graph.size, np.flatnonzero(np.isin(graph.ids, list(members))))


def _opens(graph: AssignmentGraph, thresholds: Nodes, v2: Flags, v3: Flags, holders: Flags) -> bool:
    """Theorem 1: everyone whose masks are in the sum has enough live holders."""
    return bool(informative(graph, thresholds, holders)[extended(graph, v3, v2)].all())


def run(path: Path, effort: Effort, seed: int, *, again: bool = False) -> None:
    """All rounds of all schemes, with the same dropouts for all; goes on from what is in the file."""
    started, schemes = time.time(), all_schemes(effort.clients)
    key = key_of(effort, schemes, seed)
    stored = None if again else earlier(path, key)
    found, gone = _stored(stored, schemes)
    for number in range(len(gone), effort.rounds):
        away = rounds.dropouts(DROPOUT, effort.clients, [seed, 0, number])
        before = frozenset().union(*(away[step] for step in ("advertise", "share", "mask")))
        gone.append(sorted(before))
        for scheme in schemes:
            whole = number < key.settings["real"][scheme.key]
            found[scheme.key].append(_one(scheme, effort.clients, away, before, [seed, 1, number], whole))
        if (number + 1) % _EVERY == 0 or number + 1 == effort.rounds or number < max(effort.reals):
            print(f"round {number + 1} of {effort.rounds}, {time.time() - started:.0f} s", flush=True)
            result, complete = _as_json(schemes, found, gone, effort.clients), number + 1 == effort.rounds
            save(path, result, key, started=started, complete=complete, spent=seconds(stored))


def is_complete(path: Path, effort: Effort, seed: int) -> bool:
    return finished(path, key_of(effort, all_schemes(effort.clients), seed))


def _stored(stored: dict[str, Any] | None, schemes: Sequence[Scheme]) -> tuple[dict[str, list[Entry]], list[list[int]]]:
    if stored is None:
        return {scheme.key: [] for scheme in schemes}, []
    lines = {scheme.key: stored["schemes"][scheme.key]["rounds"] for scheme in schemes}
    found = {key: [json.loads(line) for line in mine] for key, mine in lines.items()}
    return found, [json.loads(line) for line in stored["gone"]]


def _one(scheme: Scheme, clients: int, gone: Dropouts, before: frozenset[int], seed: list[int], whole: bool) -> Entry:
    """One round of one scheme, by the ``whole`` protocol or by the rules."""
    config = rounds.configured(seed, clients, LENGTH, scheme.graph, scheme.threshold, BITS)
    if whole:
        outcome, seed_of_graph = real(config, gone, seed)
        if ruled(config, gone, seed_of_graph) != outcome:
            raise ArithmeticError(f"round {seed} of {scheme.key}: protocol and rules disagree")
    else:
        outcome = ruled(config, gone, hashlib.sha256(repr([scheme.key, *seed]).encode()).digest())
    entry: Entry = {"outcome": outcome.name, "real": whole}
    if outcome.survivors:
        kept_out = sorted(set(range(clients)) - before - set(outcome.survivors))
        entry |= {"survivors": len(outcome.survivors), "hash": outcome.digest, "left_out": kept_out}
    return entry


def _as_json(
    schemes: Sequence[Scheme], found: dict[str, list[Entry]], gone: list[list[int]], clients: int
) -> dict[str, Any]:
    return {
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
    schemes = {key: [json.loads(entry) for entry in scheme["rounds"]] for key, scheme in stored["schemes"].items()}

    def members(entry: Entry, missing: set[int]) -> tuple[int, ...] | None:
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
