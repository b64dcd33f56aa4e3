"""Rounds of the paper's protocol that are only drawn: graphs and dropouts, many at a time, without keys.

Nobody is left out there, so a round is lost if any client of V2 has fewer than t holders in V4.
"""

import numpy as np
from numpy.typing import NDArray

from ccesa.plan.paper import STEPS, step_dropout

#: Rounds that are drawn at a time.
BATCH = 1000

Edges = NDArray[np.float32]
Flags = NDArray[np.bool_]


def graphs(count: int, clients: int, p: float, rng: np.random.Generator) -> Edges:
    """Draw Erdős-Rényi graphs, as matrices."""
    upper = np.triu(rng.random((count, clients, clients)) < p, 1)
    return (upper | upper.transpose(0, 2, 1)).astype(np.float32)


def stays(count: int, clients: int, q_total: float, rng: np.random.Generator) -> Flags:
    """Draw who is in V1 to V4, by step, round and client."""
    return np.logical_and.accumulate(rng.random((STEPS, count, clients)) >= step_dropout(q_total))


def short(edges: Edges, v4: Flags, t: int) -> Flags:
    """Say which clients of each round have fewer than t holders; a survivor's own share arrives."""
    holders = (edges @ v4[:, :, None].astype(np.float32))[:, :, 0] + v4
    return np.asarray(holders < t)
