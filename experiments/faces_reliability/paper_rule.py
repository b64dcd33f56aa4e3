"""The paper's rule, counted: everyone stays in, so each client of V2 needs t live holders of its shares."""

from typing import Any

import numpy as np

from ccesa.simulate.simulation import Dropouts
from experiments import drawn, softmax
from experiments.drawn import Flags
from experiments.faces_reliability.series import CONNECTIONS, common_threshold, history, named
from experiments.softmax import Federation


def by_the_paper(data: Federation, gone: list[Dropouts], seed: int) -> list[dict[str, Any]]:
    """Train by the paper's rule for each p; a round that is not lost gives the plain mean over V3."""
    return [_one(data, p, gone, seed) for p in CONNECTIONS]


def _one(data: Federation, p: float, gone: list[Dropouts], seed: int) -> dict[str, Any]:
    model, t = softmax.new_model(data), common_threshold(data.clients)
    rng = np.random.default_rng([seed, 3, round(1000 * p)])
    accuracy, outcomes = [], []
    for dropouts in gone:
        stays = _stays(dropouts, data.clients)
        lost = bool(lost_by_rule(stays[:, None], p, t, rng)[0])
        if not lost:
            model = softmax.add(model, softmax.mean_update(model, data, np.flatnonzero(stays[2]).tolist()))
        accuracy.append(softmax.accuracy(model, data))
        outcomes.append("lost" if lost else "aggregate")
    return history(named(p, data.clients), accuracy, outcomes)


def _stays(dropouts: Dropouts, clients: int) -> Flags:
    """V1 to V4 as flags."""
    here = [[client not in members for client in range(clients)] for members in dropouts.values()]
    return np.logical_and.accumulate(np.array(here))


def lost_by_rule(stays: Flags, p: float, t: int, rng: np.random.Generator) -> Flags:
    """For many rounds at once, V1 to V4 by rounds by clients: is a client of V2 short of holders in V4?"""
    (_, v2, _, v4), (_, count, clients) = stays, stays.shape
    edges = drawn.graphs(count, clients, p, rng)
    return np.asarray((v2 & drawn.short(edges, v4, t)).any(axis=1))


def lost_rate(clients: int, p: float, q_total: float, count: int, seed: int) -> float:
    """How often the paper's rule loses a round, from many drawn ones."""
    rng, lost = np.random.default_rng([seed, 4]), 0
    for _ in range(count // drawn.BATCH):
        stays = drawn.stays(drawn.BATCH, clients, q_total, rng)
        lost += int(lost_by_rule(stays, p, common_threshold(clients), rng).sum())
    return lost / count
