"""A server comes to the exact sum with the bench's stand-ins, which it does not if a mask is left on."""

import numpy as np
import pytest

from bench.protocol.stand_ins import StandIns
from ccesa.agreement.config import RoundConfig
from ccesa.graphs import ErdosRenyi, Harary
from ccesa.graphs.thresholds import Majority
from ccesa.protocol.server import Server


def played(config, dropout):
    stand_ins, server = StandIns(config, dropout, seed=7), Server(config)
    requests = server.open()
    while requests:
        asked = np.fromiter(requests, np.int64)
        for client, reply in stand_ins.replies(server.step.name, asked):
            server.receive(client, reply)
        requests = server.close()
    return stand_ins, server.result()


@pytest.mark.parametrize("graph", [Harary(degree=16, mask_degree=8), ErdosRenyi(p=0.4)], ids=["circle", "paper"])
def test_a_server_among_stand_ins_comes_to_the_sum(graph):
    config = RoundConfig(clients=60, length=20, graph=graph, threshold=Majority())
    stand_ins, result = played(config, 0.1)
    evolution = result.evolution
    assert (evolution.v2 & ~evolution.v3).any()  # some drop out after they have shared
    assert len(result.survivors) < 60
    assert np.array_equal(result.vector, stand_ins.sum_of(result.survivors))
    assert not np.array_equal(result.vector, stand_ins.sum_of(result.survivors[1:]))


@pytest.mark.slow
def test_a_server_among_a_hundred_thousand_stand_ins_comes_to_the_sum():
    graph = Harary(degree=46, mask_degree=22)
    stand_ins, result = played(RoundConfig(clients=100_000, length=100, graph=graph), 0.1)
    assert np.array_equal(result.vector, stand_ins.sum_of(result.survivors))
