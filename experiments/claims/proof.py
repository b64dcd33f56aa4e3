"""Theorem 2 by looking at every case of up to five clients, and the two steps of its proof that are missing.

A case is a graph, V3 within V2, and who is informative; V4 is V3, since with fewer holders nobody becomes
informative who could not be with these and a higher t_i. Whether it is private is found from the masks alone:
for every T within V3, whether the sum of T's masked vectors still has one that an eavesdropper does not know.

The proof says of each T that is no component that an edge leads out of it: not if T is made of several. Of a
component it says that masks with clients outside V3 are not in its sum: they are, until taken off.
"""

import itertools
from collections import Counter
from collections.abc import Iterator
from functools import lru_cache, partial
from typing import Any

import numpy as np

from ccesa.graphs.assignment import AssignmentGraph, Evolution, Flags, Nodes, extended, flags, from_edges, informative
from experiments.theorems import private

Pairs = tuple[tuple[int, int], ...]


def graphs(n: int) -> Iterator[AssignmentGraph]:
    """One graph of each shape: fates do not ask who it is."""
    every = list(itertools.combinations(range(n), 2))
    seen: set[Pairs] = set()
    for chosen in itertools.product((False, True), repeat=len(every)):
        pairs = tuple(itertools.compress(every, chosen))
        if pairs in seen:
            continue
        seen |= {_renamed(pairs, names) for names in itertools.permutations(range(n))}
        low, high = (np.array([pair[side] for pair in pairs], np.int64) for side in (0, 1))
        yield from_edges(np.arange(n), low, high, np.ones(len(pairs), bool))


def _renamed(pairs: Pairs, names: tuple[int, ...]) -> Pairs:
    return tuple(sorted((min(names[i], names[j]), max(names[i], names[j])) for i, j in pairs))


def cases(graph: AssignmentGraph) -> Iterator[Evolution]:
    """Every V3 within V2, and every set of clients of V2 that may be informative."""
    for fates in itertools.product((0, 1, 2), repeat=graph.size):
        v2, v3 = np.array(fates) > 0, np.array(fates) == 2
        holders = graph.live_neighbours(v3) + v3
        able = np.flatnonzero(v2 & (holders > 0))
        for known in itertools.product((False, True), repeat=able.size):
            thresholds = holders + 1  # nobody is informative with one holder too few
            thresholds[able] -= np.array(known, np.int64)
            yield Evolution(graph, thresholds, v2, v3, v3)


def opened(evolution: Evolution) -> list[int]:
    """Every T whose sum can be opened, as bits, the empty one and V3 left out: by what masks are in it."""
    graph = evolution.graph
    known = informative(graph, evolution.thresholds, evolution.v4)
    v2, v3, informed = (_bits(np.flatnonzero(one)) for one in (evolution.v2, evolution.v3, known))
    near = [_bits(graph.mask_neighbours(node)) for node in range(graph.size)]
    # A pair mask between two of V3 is never known; one with who dropped out is, if that is informed.
    hidden = v2 & (v3 | ~informed)
    return [
        inside
        for inside in range(1, v3)
        if not inside & ~(v3 & informed)
        and not any(inside >> node & 1 and near[node] & hidden & ~inside for node in range(graph.size))
    ]


def _bits(nodes: Nodes) -> int:
    return sum(1 << node for node in nodes.tolist())


def gaps(evolution: Evolution, components: list[Flags]) -> dict[str, bool]:
    """Which step of the printed proof this case is out of reach of, for a theorem that is true of it."""
    if len(components) < 2:
        return {}
    graph = evolution.graph
    known = informative(graph, evolution.thresholds, evolution.v4)
    whole = [bool(known[extended(graph, one, evolution.v2)].all()) for one in components]
    inner = [bool(known[one].all()) for one in components]
    dropped = [bool((extended(graph, one, evolution.v2) & ~one).any()) for one in components]
    return {
        "no edge leads out": not any(whole) and len(components) > 2,
        "masks of dropped neighbours": any(map(all, zip(whole, dropped, strict=True))),
        "members alone do not suffice": any(inner) and not any(whole),
    }


def find(most: int) -> dict[str, Any]:
    rows = []
    for n in range(2, most + 1):
        counted: Counter[str] = Counter()
        for graph in graphs(n):
            counted["graphs"] += 1
            components = lru_cache(partial(_components, graph))
            for evolution in cases(graph):
                says, is_so = private(evolution).holds, not opened(evolution)
                counted["cases"] += 1
                counted["private"] += is_so
                counted["wrong"] += says != is_so
                counted.update(
                    name for name, true in gaps(evolution, components(tuple(evolution.v3.tolist()))).items() if true
                )
        rows.append({"n": n, **{name: counted[name] for name in _COUNTED}})
    return {"rows": rows}


def _components(graph: AssignmentGraph, v3: tuple[bool, ...]) -> list[Flags]:
    return [flags(graph.size, one) for one in graph.mask_components(np.array(v3))]


_COUNTED = (
    "graphs",
    "cases",
    "private",
    "wrong",
    "no edge leads out",
    "masks of dropped neighbours",
    "members alone do not suffice",
)


def verdict(found: dict[str, Any]) -> str:
    return "false as printed" if any(row["wrong"] for row in found["rows"]) else "true"
