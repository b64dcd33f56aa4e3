"""Who is left out after *share*: before anyone is asked for a vector what is left is one part."""

import math
import os
from types import SimpleNamespace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from attacks.stage import Stage, inputs
from ccesa.agreement.config import RoundConfig
from ccesa.crypto.keys import AGREEMENTS
from ccesa.errors import TooFewClients
from ccesa.graphs import Complete, ErdosRenyi, Harary
from ccesa.graphs.assignment import draw, extended, flags, informative
from ccesa.graphs.assumptions import Assumptions
from ccesa.graphs.tails import LN2
from ccesa.graphs.thresholds import Fixed, Linear, Majority
from ccesa.plan import plan
from ccesa.plan.certificate import certify
from ccesa.protocol import active_server, curious_server
from ccesa.protocol.client import Client
from ccesa.protocol.drawing import hold_together
from ccesa.protocol.messages import NO_TASK
from ccesa.protocol.server import Server
from ccesa.protocol.server_states import Drawn, ServerRound, Sharing
from ccesa.protocol.summing import check_connected


def sharing(config, graph):
    """What a server of this round knows while *share* is open, but for what was sealed."""
    agreement = AGREEMENTS[config.agreement]
    return Sharing(
        graph=graph,
        thresholds=config.threshold.of(graph.degrees),
        mask_keys=[],
        commitments=np.zeros((graph.size, 32), np.uint8),
        sealed=np.zeros((graph.columns.size, agreement.text_bytes), np.uint8),
    )


def closing(config):
    """Return what closes *share* as the server does, and says who is in V2."""
    round = ServerRound(
        config=config,
        context=config.context,
        own=None,
        random=os.urandom,
        threads=1,
        executor=None,
        now=None,
        task=NO_TASK,
        dropout=0.1,
    )

    def close(state, stays):
        kept = dict.fromkeys(state.graph.ids[stays].tolist())
        return curious_server.close_share(round, state, kept)[0].v2

    return close


def counted(config, early, dropout, graphs, rng):
    """How often V3 falls apart where clients leave until *share* closes, and others before they mask."""
    close, fell, left_out, each = closing(config), 0, 0, 20
    for _ in range(graphs):
        graph = draw(config.graph, rng.bytes(32), np.arange(config.clients))
        state = sharing(config, graph)
        for _ in range(each):
            fate = rng.random(graph.size)
            v2 = close(state, fate >= early)
            left_out += bool((v2 != (fate >= early)).any())
            fell += len(graph.mask_components(v2 & (fate >= dropout))) > 1
    return fell / (graphs * each), left_out / (graphs * each)


@pytest.mark.parametrize(
    ("graph", "clients", "dropout", "early"),
    [
        (Harary(degree=10), 100, 0.2, 0.19),
        (Harary(degree=12), 60, 0.25, 0.23),
        (Harary(degree=14, mask_degree=12), 100, 0.2, 0.19),
        (ErdosRenyi(p=0.25, mask_p=0.2), 60, 0.2, 0.16),
    ],
    ids=repr,
)
def test_masks_fall_apart_no_oftener_than_certified_though_clients_are_left_out(graph, clients, dropout, early):
    """On a circle, without the largest part, up to fifty times as often as dropouts alone explain."""
    config = RoundConfig(clients=clients, length=1, graph=graph)
    fell, left_out = counted(config, early, dropout, 150, np.random.default_rng(1))
    assert left_out > 0.03
    bound = 2 ** certify(graph, Majority(), Assumptions(clients=clients, dropout=dropout)).disconnected
    assert fell <= bound + 3 * math.sqrt(bound / 3000)


@pytest.mark.slow
def test_the_certificate_counts_a_stretch_that_was_left_out_and_a_later_gap():
    """They part masks more often than two gaps of dropouts do: the one bound is too small, the other not."""
    graph, assumptions = Harary(degree=10), Assumptions(clients=100, dropout=0.2)
    config = RoundConfig(clients=100, length=1, graph=graph)
    fell, _ = counted(config, 0.16, 0.2, 1000, np.random.default_rng(2))
    alone = math.exp(graph.masks(100).log_apart(assumptions))
    assert alone + 3 * math.sqrt(alone / 20_000) < fell
    assert fell < 2 ** certify(graph, Majority(), assumptions).disconnected


def exactly(n, degree, mask_degree, t, early, dropout):
    """P(V3 falls apart), over every fate of n clients on a circle: left in time, left later, stayed."""
    fates = np.indices((3,) * n).reshape(n, -1).T
    weights = np.prod(np.array([early, dropout - early, 1 - dropout])[fates], axis=1)
    v2, stays = fates > 0, fates == 2

    def pruned(alive):
        while True:
            live = sum(
                np.roll(alive, step, axis=1).astype(int) for step in range(-degree // 2, degree // 2 + 1) if step
            )
            kept = alive & (live + 1 >= t)
            if (kept == alive).all():
                return kept
            alive = kept

    def gaps(alive):
        near = np.array([np.roll(alive, -step, axis=1) for step in range(1, mask_degree // 2 + 1)])
        return (alive & ~near.any(axis=0)).sum(axis=1)

    v2 = pruned(v2)
    apart = np.flatnonzero(gaps(v2) >= 2)
    for row in apart.tolist():
        v2[row] = largest(v2[row], mask_degree // 2, pruned)
    return float(weights[gaps(v2 & stays) >= 2].sum())


def largest(alive, reach, pruned):
    """Of what has fallen apart keep the largest part, and prune, until nothing changes."""
    while True:
        parts = []
        for node in np.flatnonzero(alive).tolist():
            if not any(node in part for part in parts):
                part, ends = {node}, {node}
                while ends:
                    near = {(one + step) % alive.size for one in ends for step in range(-reach, reach + 1)}
                    ends = {one for one in near if alive[one]} - part
                    part |= ends
                parts.append(part)
        if len(parts) < 2:
            return alive
        kept = np.zeros_like(alive)
        kept[list(max(parts, key=lambda part: (len(part), -min(part))))] = True
        alive = pruned(kept[None])[0]


@pytest.mark.parametrize(
    ("n", "degree", "mask_degree", "t"), [(9, 4, 4, 3), (9, 4, 2, 3), (10, 6, 4, 4), (10, 6, 6, 5), (11, 4, 4, 4)]
)
@pytest.mark.parametrize("dropout", [0.01, 0.1, 0.3])
def test_every_fate_of_small_circles_is_within_the_certificate(n, degree, mask_degree, t, dropout):
    graph = Harary(degree=degree, mask_degree=mask_degree)
    bound = 2 ** certify(graph, Fixed(t=t), Assumptions(clients=n, dropout=dropout)).disconnected
    for part in (0.0, 0.5, 0.8, 0.95):
        assert exactly(n, degree, mask_degree, t, part * dropout, dropout) <= bound


def test_where_all_have_the_same_holders_nobody_is_left_out():
    """Then two gaps of dropouts are all there is."""
    for graph in (Complete(mask_degree=6), Complete(mask_p=0.5)):
        assumptions = Assumptions(clients=30, dropout=0.2)
        made, masks = certify(graph, Majority(), assumptions), graph.masks(30)
        assert made.disconnected == pytest.approx(masks.log_apart(assumptions) / LN2, abs=1e-4)


def test_thinned_masks_keep_the_budget_with_those_left_out():
    for clients in (30, 100, 1000):
        made = plan(clients, 0.1)
        assert made.certificate.disconnected <= -40


def two_parts(config):
    """Play *advertise*; say who has to be missing so that masks over next neighbours fall into two parts."""
    vectors = inputs(config)
    stage = Stage(Server(config), {i: Client(config, i, vectors[i]) for i in range(config.clients)}, vectors, len)
    stage.step()
    graph, around = stage.server.graph, [0]
    while len(around) < config.clients:
        near = set(graph.mask_neighbours(around[-1]).tolist()) - set(around)
        around.append(min(near))
    return stage, around


@pytest.mark.parametrize("accept", [False, True])
def test_a_part_that_is_cut_off_is_left_out_before_it_masks(accept):
    """The largest part goes on; without it everyone would mask, and the round be lost."""
    config = RoundConfig(clients=16, length=4, graph=Harary(degree=6, mask_degree=2), accept=accept)
    stage, around = two_parts(config)
    stage.step(gone={around[2], around[7]})
    small = set(around[3:7])
    assert not small & set(stage.requests)
    aggregate = stage.finish()
    assert set(aggregate.survivors) == set(around) - small - {around[2], around[7]}
    assert np.array_equal(aggregate.vector, stage.expected(aggregate.survivors))
    assert not (aggregate.evolution.v2 & ~stage.server.graph.flags(aggregate.survivors)).any()


def test_of_two_parts_of_one_size_that_with_the_lowest_id_goes_on():
    config = RoundConfig(clients=14, length=4, graph=Harary(degree=6, mask_degree=2))
    stage, around = two_parts(config)
    stage.step(gone={around[3], around[10]})
    assert set(stage.requests) == {*around[:3], *around[11:]}
    assert min(stage.requests) == around[0] == 0


def test_a_largest_part_that_is_too_small_is_refused_before_anyone_masks():
    config = RoundConfig(clients=16, length=4, graph=Harary(degree=6, mask_degree=2), min_survivors=12)
    stage, around = two_parts(config)
    stage.step(gone={around[2], around[7]})
    assert isinstance(stage.failure, TooFewClients)
    assert "10 of 14 have enough neighbours left, in one part" in str(stage.failure)


@settings(deadline=None, max_examples=40)
@given(
    st.sampled_from([Harary(degree=4), Harary(degree=6), ErdosRenyi(p=0.6), Complete()]),
    st.sampled_from([Majority(), Fixed(t=4), Linear(slope=512, base=2)]),
    st.integers(1, 4),
    st.integers(0, 1000),
)
def test_s42_whoever_withholds_what_opens_has_the_honest_members_that_are_promised(kind, rule, colluders, seed):
    """Colluders keep what they were dealt, also those that are left out themselves."""
    clients, rng = 12 + colluders, np.random.default_rng(seed)
    graph, colludes = draw(kind, rng.bytes(32), np.arange(clients)), np.arange(clients) < colluders
    t = rule.of(graph.degrees)
    promised = t - graph.live_neighbours(colludes)
    state = Drawn(graph=graph, thresholds=t, mask_keys=[])
    config = RoundConfig(clients=clients, length=1, graph=kind, threshold=Majority())
    for _ in range(40):
        v2 = hold_together(config, state, ~colludes | (rng.random(clients) < 0.5))
        assert len(graph.mask_components(v2)) < 2
        v3 = v2 & (colludes | (rng.random(clients) < rng.random()))
        known = informative(graph, t, v3 | colludes)
        for part in graph.mask_components(v3 & ~colludes):
            members = flags(clients, part)
            if known[extended(graph, members, v2) & ~colludes].all():
                assert members.sum() >= promised[members].max()


def test_under_the_active_guard_v2_is_one_part_too():
    config = RoundConfig(clients=60, length=1, graph=ErdosRenyi(p=0.2, mask_p=0.05))
    rng, parted = np.random.default_rng(3), 0
    active = SimpleNamespace(config=config, requests=lambda *_: {}, task=NO_TASK)
    for _ in range(40):
        graph = draw(config.graph, rng.bytes(32), np.arange(60))
        state, stays = sharing(config, graph), rng.random(60) >= 0.3
        named = SimpleNamespace(**{**vars(state), "root": bytes(32)})
        parted += len(graph.mask_components(stays)) > 1
        among, _ = active_server.close_share(active, named, dict.fromkeys(graph.ids[stays].tolist()))
        check_connected(graph, among.v2)
    assert parted > 10
