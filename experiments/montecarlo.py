"""The four events counted over many random graphs: what the certificates bound.

Nothing is shared with the certificates but the assumptions, so that one can be held against the other.
"""

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from ccesa.errors import ConfigError
from ccesa.graphs import Graph
from ccesa.graphs.assumptions import Assumptions
from ccesa.graphs.per_step import PerStep
from ccesa.graphs.tails import Counts
from ccesa.graphs.thresholds import Threshold
from ccesa.parts import whole_number
from experiments import samples
from experiments.samples import Flags, Sample, Shape

#: Edges, or clients, that are in memory at a time; one graph alone may have more.
_BATCH = 1 << 20
#: Fewer clients are no sum.
_LEAST = 3


@dataclass(frozen=True, kw_only=True)
class Frequencies:
    """In which fraction of so many ``graphs`` each event happened, to one client at least."""

    unreliable: float
    disconnected: float
    exposed: float
    unmaskable: float
    graphs: int


def estimate(
    graph: Graph,
    threshold: Threshold,
    assumptions: Assumptions,
    graphs: int,
    rng: np.random.Generator,
    own_share: bool = False,
) -> Frequencies:
    """Draw so many graphs, each with dropouts and colluders of its own, and count the events."""
    if whole_number("graphs", graphs) < 1:
        raise ConfigError(f"at least one graph has to be drawn, not {graphs}")
    n = assumptions.clients
    thresholds = np.array([threshold.of(degree) for degree in range(graph.max_degree(n) + 1)])
    happened = np.zeros(4, np.int64)
    for rows in _batches(graph, n, graphs):
        shares, masks = samples.draw(graph, (rows, n), rng)
        stays, colludes = _fates(assumptions, (rows, n), rng)
        degrees = shares.neighbours(np.ones((rows, n), bool))
        t = thresholds[degrees]
        happened += [
            np.count_nonzero(_unreliable(shares, t, stays, own_share)),
            np.count_nonzero(masks.falls_apart(stays & ~colludes)),
            *np.count_nonzero(_opened(shares, degrees, t, colludes), axis=1),
        ]
    unreliable, disconnected, exposed, unmaskable = (happened / graphs).tolist()
    return Frequencies(
        unreliable=unreliable, disconnected=disconnected, exposed=exposed, unmaskable=unmaskable, graphs=graphs
    )


def lost(graph: Graph, threshold: Threshold, assumptions: Assumptions, rounds: int, rng: np.random.Generator) -> float:
    """Play so many rounds with dropouts per step, as a server plays them; return the fraction that is lost.

    For want of share holders, or of clients: a round whose masks fall apart does not count.
    """
    steps = assumptions.per_step
    if steps is None:
        raise ConfigError("rounds are played with dropouts per step")
    failed = 0
    sizes, counts = np.unique(rng.binomial(assumptions.clients, steps.advertises, rounds), return_counts=True)
    for size, count in zip(sizes.tolist(), counts.tolist(), strict=True):
        for rows in _batches(graph, size, count):
            failed += rows if size < _LEAST else _play(graph, threshold, steps, (rows, size), rng)
    return failed / rounds


def _play(graph: Graph, threshold: Threshold, steps: PerStep, shape: Shape, rng: np.random.Generator) -> int:
    """Return in how many rounds with so many in V1 a secret that is needed cannot be rebuilt."""
    shares, masks = samples.draw(graph, shape, rng)
    answered = [rng.random(shape) >= q for q in steps.each[1:]]
    share, accept, mask, confirm, unmask = answered
    everyone = np.ones(shape, bool)
    degrees = shares.neighbours(everyone)
    t = np.array([threshold.of(degree) for degree in range(int(degrees.max()) + 1)])[degrees]

    def releasing(alive: Flags) -> Flags:
        return alive & (shares.neighbours(alive) >= t) if steps.confirms else alive

    def informative(holders: Flags) -> Flags:
        return np.asarray(shares.neighbours(holders) + holders >= t)

    fit = (t <= degrees + (not steps.confirms)) & (degrees + 1 < 2 * t) & (masks.neighbours(everyone) > 0)
    v2, before = share & accept & fit, everyone
    while (v2 != before).any():
        before, v2 = v2, v2 & informative(releasing(v2)) & (masks.neighbours(v2) > 0)
    v3 = v2 & mask
    v4 = releasing(v3 & confirm) & unmask
    needed = v3 | (v2 & (masks.neighbours(v3) > 0))
    few = np.count_nonzero(releasing(v3 & confirm), axis=1) < _LEAST
    return int(np.count_nonzero(few | (needed & ~informative(v4)).any(axis=1)))


def _batches(graph: Graph, n: int, graphs: int) -> Iterator[int]:
    """How many graphs to draw at a time."""
    rows = max(1, int(_BATCH / max(n, samples.mean_edges(graph, n))))
    for done in range(0, graphs, rows):
        yield min(rows, graphs - done)


def _fates(assumptions: Assumptions, shape: Shape, rng: np.random.Generator) -> tuple[Flags, Flags]:
    """Who stays and who colludes. Neither knows of the other: a colluder may drop out, and still tells."""
    if assumptions.exact:
        vanishes = _exactly(assumptions.dropped, shape, rng)
    else:
        vanishes = rng.random(shape) < assumptions.dropout
    return ~vanishes, _exactly(assumptions.colluders, shape, rng)


def _exactly(marked: int, shape: Shape, rng: np.random.Generator) -> Flags:
    """In every row this many, at random."""
    row = np.broadcast_to(np.arange(shape[1]) < marked, shape)
    return row if marked in (0, shape[1]) else rng.permuted(row, axis=1)


def _unreliable(shares: Sample, t: Counts, stays: Flags, own_share: bool) -> Flags:
    """For each graph: has someone who stays fewer than t_i live holders?

    Who stays is unmasked for certain, and its own share arrives if anybody's does. Whether someone who
    vanishes has to be unmasked depends on the step it vanishes in, which a assumptions does not say; the
    certificate counts everyone. Who has too few neighbours for t_i at all counts, here as there.
    """
    return np.asarray((stays & (shares.neighbours(stays) + own_share < t)).any(axis=1))


def _opened(shares: Sample, degrees: Counts, t: Counts, colludes: Flags) -> Flags:
    """For each graph: is someone honest exposed (first row), is someone honest unmaskable (second row)?

    Whether it stays is not asked: who vanishes late has sent its vector. Colluders have nothing to hide.
    """
    colluding = shares.neighbours(colludes)
    exposed = ~colludes & (colluding >= np.maximum(t - 1, 1))  # with its own share, if it has neighbours
    # Colluders answer on both sides, all other holders on one, the client itself among them.
    unmaskable = ~colludes & (degrees + colluding + 1 >= 2 * t)
    return np.stack([exposed.any(axis=1), unmaskable.any(axis=1)])
