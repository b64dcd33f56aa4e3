"""Everything that can happen in a round of a few clients, with its probability: the truth, by counting.

Graphs, dropouts and colluders are lists of all cases with weights; nothing here knows a formula.
"""

import itertools
import math

import numpy as np

from ccesa.graphs import Complete, ErdosRenyi
from ccesa.graphs.assignment import draw


def subsets(n):
    """All sets of clients, one row each."""
    return np.array(list(itertools.product([False, True], repeat=n)))


def of_size(n, k):
    return np.array([[i in chosen for i in range(n)] for chosen in itertools.combinations(range(n), k)])


def vanishing(assumptions):
    """Every set that may vanish, and how likely it is."""
    n = assumptions.clients
    if assumptions.exact:
        sets = of_size(n, assumptions.dropped)
        return sets, np.full(len(sets), 1 / len(sets))
    sets = subsets(n)
    q, lost = assumptions.dropout, sets.sum(axis=1)
    return sets, q**lost * (1 - q) ** (n - lost)


def colluding(assumptions):
    sets = of_size(assumptions.clients, assumptions.colluders)
    return sets, np.full(len(sets), 1 / len(sets))


def share_graphs(graph, n):
    """All share graphs as matrices, and how likely each is."""
    return _random(graph.p, n) if isinstance(graph, ErdosRenyi) else _drawn(graph, n, masks=False)


def mask_graphs(graph, n):
    if isinstance(graph, ErdosRenyi):
        return _random(graph.mask_p or graph.p, n)
    if isinstance(graph, Complete) and graph.mask_p is not None:
        return _random(graph.mask_p, n)
    return _drawn(graph, n, masks=True)


def _random(p, n):
    one, other = np.triu_indices(n, 1)
    chosen = subsets(one.size)
    matrices = np.zeros((len(chosen), n, n), bool)
    matrices[:, one, other] = matrices[:, other, one] = chosen
    edges = chosen.sum(axis=1)
    return matrices, p**edges * (1 - p) ** (one.size - edges)


def _drawn(graph, n, *, masks):
    """One real graph stands for all: they differ in who sits where, and fates do not ask who it is."""
    drawn = draw(graph, bytes(range(32)), np.arange(n))
    kept = drawn.carries_masks if masks else np.ones(drawn.carries_masks.size, bool)
    matrix = np.zeros((1, n, n), bool)
    matrix[0, drawn.rows[kept], drawn.columns[kept]] = True
    return matrix, np.ones(1)


def survivors(assumptions):
    """Every set of honest clients that stay, and how likely it is."""
    gone, gone_weights = vanishing(assumptions)
    bad, bad_weights = colluding(assumptions)
    alive = ~(gone[:, None] | bad[None, :])
    places = alive.reshape(-1, assumptions.clients) @ (1 << np.arange(assumptions.clients))
    weights = np.bincount(places, np.outer(gone_weights, bad_weights).ravel(), 1 << assumptions.clients)
    sets = (np.arange(weights.size)[:, None] >> np.arange(assumptions.clients)) & 1 == 1
    return sets[weights > 0], weights[weights > 0]


def falls_apart(matrices, alive):
    """For each graph and each set alive: is there someone that someone else alive cannot reach?"""
    joined = (matrices[:, None] & alive[:, :, None] & alive[:, None, :]).astype(np.uint8)
    reached = joined | np.eye(alive.shape[1], dtype=np.uint8)
    for _ in range(3):  # paths of up to eight edges
        reached = np.minimum(reached @ reached, 1)
    both = alive[:, :, None] & alive[:, None, :]
    return (both & (reached == 0)).any(axis=(2, 3))


def p_disconnected(graph, assumptions):
    matrices, likely = mask_graphs(graph, assumptions.clients)
    alive, weights = survivors(assumptions)
    return float(likely @ falls_apart(matrices, alive) @ weights)


def p_unreliable(graph, threshold, assumptions, own_share=False):
    """(for a given client that stays, for anyone who stays)"""
    matrices, likely = share_graphs(graph, assumptions.clients)
    gone, weights = vanishing(assumptions)
    live = np.einsum("gij,sj->gsi", matrices.astype(int), (~gone).astype(int))
    few = live + own_share < _thresholds(matrices, threshold)[:, None]
    one = likely @ few[:, :, 0] @ (weights * ~gone[:, 0]) / (weights @ ~gone[:, 0])
    return float(one), float(likely @ (few & ~gone).any(axis=2) @ weights)


def p_opened(graph, threshold, assumptions):
    """(for a given honest client, for anyone honest), each of "exposed" and of "unmaskable"."""
    matrices, likely = share_graphs(graph, assumptions.clients)
    bad, weights = colluding(assumptions)
    held = np.einsum("gij,sj->gsi", matrices.astype(int), bad.astype(int))
    t, degrees = _thresholds(matrices, threshold)[:, None], matrices.sum(axis=2)[:, None]
    honest = weights * ~bad[:, 0] / (weights @ ~bad[:, 0])
    events = {"exposed": held >= np.maximum(t - 1, 1), "unmaskable": degrees + held + 1 >= 2 * t}
    return {
        name: (float(likely @ event[:, :, 0] @ honest), float(likely @ (event & ~bad).any(axis=2) @ weights))
        for name, event in events.items()
    }


def _thresholds(matrices, threshold):
    degrees = matrices.sum(axis=2)
    return np.array([threshold.of(d) for d in range(degrees.shape[1])])[degrees]


def fates(per_step, n1):
    """Every way how far each of V1 gets: 1 is V2, 2 is V3, 3 has confirmed, 4 stays; and how likely it is."""
    _, share, accept, mask, confirm, unmask = per_step.each
    stays = np.cumprod([1.0, (1 - share) * (1 - accept), 1 - mask, 1 - confirm, 1 - unmask])
    each = np.append(stays[:-1] - stays[1:], stays[-1])
    ways = np.array(list(itertools.product(range(5), repeat=n1))).reshape(-1, n1)
    return ways, each[ways].prod(axis=1)


def p_lost(graph, threshold, assumptions):
    """P(a round with dropouts per step is lost), and the mean number of clients that are unmasked in vain."""
    n, per_step = assumptions.clients, assumptions.per_step
    lost = in_vain = 0.0
    for n1 in range(n + 1):
        here = math.comb(n, n1) * per_step.advertises**n1 * (1 - per_step.advertises) ** (n - n1)
        if n1 < 2:  # nobody has a neighbour
            lost += here
            in_vain += here * n1 * per_step.shares / per_step.advertises
            continue
        ways, weights = fates(per_step, n1)
        for matrix, likely in zip(*share_graphs(graph, n1), strict=True):
            failed, vain = _played(matrix.astype(int), threshold, per_step.confirms, ways)
            lost += here * likely * float(weights @ failed)
            in_vain += here * likely * float(weights @ vain)
    return lost, in_vain


def _played(matrix, threshold, confirms, ways):
    """For each way: whether the round is lost, as a server plays it, and how many are unmasked in vain."""
    degrees = matrix.sum(axis=1)
    t = np.array([threshold.of(d) for d in range(len(matrix))])[degrees]
    impossible = (t > degrees + (not confirms)) | (degrees + 1 >= 2 * t) | (degrees == 0)
    shared, masked, confirmed, stays = (ways >= level for level in (1, 2, 3, 4))

    def near(flags):
        return flags.astype(int) @ matrix

    def ready(flags):
        return flags & (near(flags) >= t) if confirms else flags

    unconfirmed = stays & (near(confirmed) < t) if confirms else np.zeros_like(stays)
    vain = shared & (impossible | unconfirmed | (near(stays) + stays < t))
    v2 = shared & ~impossible
    while True:
        holders = ready(v2)
        kept = v2 & (near(holders) + holders >= t) & (near(v2) > 0)
        if (kept == v2).all():
            break
        v2 = kept
    v3 = v2 & masked
    asked = ready(v3 & confirmed)
    v4 = asked & stays
    needed = v3 | (v2 & (near(v3) > 0))
    lost = (needed & (near(v4) + v4 < t)).any(axis=1) | ((v3 & confirmed if confirms else v3).sum(axis=1) < 3)
    return lost | (asked.sum(axis=1) < 3) & confirms, vain.sum(axis=1)
