"""graphs.json: assignment graphs from a seed."""

import msgspec
import numpy as np

from cases.common import Case, sample
from ccesa.graphs import Complete, ErdosRenyi, Graph, Harary
from ccesa.graphs.assignment import draw

DESCRIPTION = (
    "Assignment graphs drawn from a 32-byte seed over sorted ids. neighbours and masked go with ids, in "
    "their order: the neighbours' ids, and for each of them 1 if masks run on the edge, else 0. A pair's "
    "draw is AES-128 under seed[:16] of both ids (smaller first, eight little-endian bytes each), its first "
    "eight bytes as a little-endian number, compared with floor(p 2^64). A node's place on the ring is the "
    "rank of the same function under seed[16:] of its position in ids, given twice."
)
IDS = (0, 1, 4, 6, 7, 11, 12, 19, 23, 40, 255, 256, 65536, 4294967294)


def make() -> Case:
    return {"description": DESCRIPTION, "graphs": [_graph(*case) for case in _cases()]}


def _cases() -> list[tuple[str, Graph, tuple[int, ...]]]:
    return [
        ("erdos-renyi", ErdosRenyi(p=0.4), IDS),
        ("erdos-renyi, mask_p", ErdosRenyi(p=0.6, mask_p=0.25), IDS),
        ("erdos-renyi, mask_p is p", ErdosRenyi(p=0.6, mask_p=0.6), IDS),
        ("erdos-renyi, p = 1", ErdosRenyi(p=1.0, mask_p=0.5), IDS),
        ("erdos-renyi, with isolated nodes", ErdosRenyi(p=0.05), IDS),
        ("erdos-renyi, no edge at all", ErdosRenyi(p=2.0**-70), IDS),
        ("harary", Harary(degree=6), IDS),
        ("harary, mask_degree", Harary(degree=8, mask_degree=4), IDS),
        ("harary, a plain ring of an odd number", Harary(degree=2), IDS[:13]),
        ("harary, one id too few for a full ring", Harary(degree=6, mask_degree=2), IDS[:7]),
        ("harary, fewer ids than the degree", Harary(degree=12, mask_degree=4), IDS[3:9]),
        ("complete", Complete(), IDS[:6]),
        ("complete, mask_p", Complete(mask_p=0.5), IDS),
        ("complete, mask_degree", Complete(mask_degree=4), IDS),
        ("complete, three ids", Complete(mask_degree=2), IDS[-3:]),
    ]


def _graph(name: str, kind: Graph, ids: tuple[int, ...]) -> Case:
    seed = sample(f"graph {name}")
    graph = draw(kind, seed, np.array(ids))
    nodes = range(len(ids))
    return {
        "name": name,
        "graph": msgspec.to_builtins(kind),
        "seed": seed,
        "ids": list(ids),
        "neighbours": [graph.ids[graph.neighbours(node)].tolist() for node in nodes],
        "masked": [graph.carries_masks[graph.edges(node)].astype(int).tolist() for node in nodes],
    }
