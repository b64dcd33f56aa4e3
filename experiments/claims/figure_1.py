"""Figure 1: with 2 neighbours instead of 4 "the proposed CCESA requires only half of the bandwidth".

Five clients, in the complete graph and in a circle: by the formula of appendix C, and in the bytes of real
rounds, beside the vector and with vectors of several lengths.
"""

from typing import Any

from ccesa import words
from ccesa.graphs import Complete, Graph, Harary
from ccesa.graphs.thresholds import Majority
from experiments import bounds, rounds

N, FEW = 5, 2
_BITS = 256
#: Elements of 32 bits: none to speak of, and softmax regression on the faces.
LENGTHS = (1, 1_000, 412_200)


def _bytes(graph: Graph, length: int, seed: int) -> float:
    config = rounds.configured([seed], N, length, graph, Majority())
    found = rounds.ran(config, lambda _: words.zeros(length, 32), {}, [seed])
    return found.sent + found.received


def find(seed: int) -> dict[str, Any]:
    formula = [bounds.client_bandwidth(degree, _BITS, _BITS) / 8 for degree in (FEW, N - 1)]
    real = []
    for length in LENGTHS:
        few, all_others = (_bytes(graph, length, seed) for graph in (Harary(degree=FEW), Complete()))
        beside = [total - 4 * length for total in (few, all_others)]
        row = {"length": length, "few": few, "all": all_others, "ratio": few / all_others}
        real.append({**row, "beside_the_vector": beside[0] / beside[1]})
    return {
        "formula": {"few": formula[0], "all": formula[1], "ratio": formula[0] / formula[1]},
        "agreements": {"few": 2 * FEW, "all": 2 * (N - 1)},
        "masks": {"few": FEW + 1, "all": N},
        "real": real,
    }


def verdict(found: dict[str, Any]) -> str:
    return "true" if found["real"][0]["beside_the_vector"] <= 0.5 else "too strong"
