"""Counted frequencies against certificates, against every case of a few clients, and against real graphs."""

import math

import numpy as np
import pytest
from experiments.montecarlo import estimate

import enumeration
from ccesa.errors import ConfigError
from ccesa.graphs import Complete, ErdosRenyi, Harary
from ccesa.graphs.assignment import draw
from ccesa.graphs.assumptions import Assumptions
from ccesa.graphs.thresholds import Fixed, Linear, Majority
from ccesa.plan.certificate import certify
from experiments import montecarlo

EVENTS = ("unreliable", "disconnected", "exposed", "unmaskable")


def people(clients, dropout, collusion=0.0, exact=False):
    return Assumptions(clients=clients, dropout=dropout, collusion=collusion, exact=exact)


#: Each event that is named is rare but visible, and happens at least this fraction of its bound. Clients of
#: a random graph fail almost independently, neighbours on a circle often together, in a complete graph all
#: at once: then the union over n clients costs a factor n.
CASES = [
    (ErdosRenyi(p=0.2, mask_p=0.075), Majority(), people(100, 0.1), {"unreliable": 0.5, "disconnected": 0.7}),
    (
        ErdosRenyi(p=0.2, mask_p=0.075),
        Majority(),
        people(100, 0.1, exact=True),
        {"unreliable": 0.4, "disconnected": 0.7},
    ),
    (ErdosRenyi(p=0.13), Majority(), people(60, 0.05), {"disconnected": 0.7}),
    (
        ErdosRenyi(p=0.4, mask_p=0.13),
        Linear(slope=650, base=1),
        people(80, 0.1, 0.1),
        {"disconnected": 0.5, "unmaskable": 0.3},
    ),
    (ErdosRenyi(p=0.3, mask_p=0.15), Fixed(t=15), people(60, 0.05, 0.4, exact=True), {"exposed": 0.5}),
    (
        ErdosRenyi(p=0.2, mask_p=0.13),
        Majority(),
        people(80, 0.02, 0.2, exact=True),
        {"disconnected": 0.5, "exposed": 0.6},
    ),
    (Harary(degree=20, mask_degree=6), Majority(), people(100, 0.15), {"unreliable": 0.25, "disconnected": 0.7}),
    (
        Harary(degree=20, mask_degree=6),
        Majority(),
        people(100, 0.2, exact=True),
        {"unreliable": 0.25, "disconnected": 0.6},
    ),
    (Harary(degree=20, mask_degree=10), Fixed(t=14), people(100, 0.1, 0.1), {"unreliable": 0.15, "unmaskable": 0.25}),
    (
        Harary(degree=20, mask_degree=8),
        Linear(slope=500, base=4),
        people(100, 0.12, 0.1, exact=True),
        {"unreliable": 0.2, "disconnected": 0.6},
    ),
    (
        Harary(degree=12, mask_degree=8),
        Fixed(t=8),
        people(60, 0.1, 0.2),
        {"unreliable": 0.2, "disconnected": 0.6, "exposed": 0.5},
    ),
    (Harary(degree=6), Fixed(t=4), people(60, 0.05, 0.2, exact=True), {"disconnected": 0.6}),
    (Complete(mask_p=0.15), Fixed(t=42), people(60, 0.2, 0.1), {"unreliable": 0.5 / 60, "disconnected": 0.6}),
    (Complete(mask_degree=6), Majority(), people(31, 0.25, 0.1), {"unreliable": 0.5 / 31, "disconnected": 0.6}),
    (Complete(mask_degree=8), Majority(), people(31, 0.25, 0.1, exact=True), {"disconnected": 0.6}),
    (Complete(), Majority(), people(21, 0.3), {"unreliable": 0.5 / 21}),
]


@pytest.mark.parametrize(("graph", "threshold", "assumptions", "visible"), CASES, ids=str)
def test_frequencies_are_below_the_certificate_and_not_far_below(graph, threshold, assumptions, visible):
    compare(graph, threshold, assumptions, visible, 8000)


def compare(graph, threshold, assumptions, visible, graphs):
    counted = estimate(graph, threshold, assumptions, graphs, np.random.default_rng(1))
    bounds = {name: 2**log2 for name, log2 in certify(graph, threshold, assumptions).as_dict().items()}
    alone = math.exp(graph.masks(assumptions.clients).log_apart(assumptions))
    assert alone <= bounds["disconnected"]
    bounds["disconnected"] = alone  # nobody is left out here
    for name in EVENTS:
        frequency, bound = getattr(counted, name), bounds[name]
        assert frequency <= bound + 4 * math.sqrt(bound / graphs)
        if name in visible:
            assert 1e-3 < frequency < 0.3
            assert frequency >= visible[name] * bound


#: The same at the size that plans are made for: circles are arithmetic, edges are drawn.
THOUSAND = [
    (Harary(degree=22, mask_degree=8), Majority(), people(1000, 0.1), {"unreliable": 0.2, "disconnected": 0.6}, 8000),
    (Harary(degree=36, mask_degree=12), Fixed(t=25), people(1000, 0.05, 0.1), {"unmaskable": 0.3}, 8000),
    (
        Harary(degree=16, mask_degree=8),
        Fixed(t=9),
        people(1000, 0.05, 0.1, exact=True),
        {"exposed": 0.4, "disconnected": 0.5},
        8000,
    ),
    (ErdosRenyi(p=0.012), Majority(), people(1000, 0.1), {"disconnected": 0.5}, 3000),
]
#: Seconds each, and in the slow suite.
MANY = [
    (ErdosRenyi(p=0.027, mask_p=0.0115), Majority(), people(1000, 0.1), {"unreliable": 0.3, "disconnected": 0.5}),
    (ErdosRenyi(p=0.05, mask_p=0.02), Linear(slope=600, base=4), people(1000, 0.05, 0.1), {"unmaskable": 0.2}),
    (ErdosRenyi(p=0.02), Linear(slope=400, base=5), people(1000, 0.05, 0.15, exact=True), {"exposed": 0.2}),
]


@pytest.mark.parametrize(("graph", "threshold", "assumptions", "visible", "graphs"), THOUSAND, ids=str)
def test_a_thousand_clients_agree_with_the_certificate(graph, threshold, assumptions, visible, graphs):
    compare(graph, threshold, assumptions, visible, graphs)


@pytest.mark.slow
@pytest.mark.parametrize(("graph", "threshold", "assumptions", "visible"), MANY, ids=str)
def test_many_graphs_of_a_thousand_clients_agree_with_the_certificate(graph, threshold, assumptions, visible):
    compare(graph, threshold, assumptions, visible, 8000)


def test_nobody_colludes_and_nobody_vanishes():
    counted = estimate(Harary(degree=4), Majority(), people(20, 0.0), 100, np.random.default_rng(1))
    assert [getattr(counted, name) for name in EVENTS] == [0, 0, 0, 0]
    assert counted.graphs == 100


#: Small enough to enumerate, and for each kind of graph and fate.
TINY = [
    (ErdosRenyi(p=0.8), 5),
    (ErdosRenyi(p=0.7, mask_p=0.4), 5),
    (Harary(degree=2), 6),
    (Harary(degree=4, mask_degree=2), 8),
    (Harary(degree=6, mask_degree=4), 7),
    (Complete(mask_degree=4), 7),
    (Complete(mask_p=0.5), 5),
]


@pytest.mark.parametrize("exact", [False, True])
@pytest.mark.parametrize("threshold", [Majority(), Fixed(t=3)], ids=repr)
@pytest.mark.parametrize(("graph", "n"), TINY, ids=repr)
def test_frequencies_are_those_of_all_cases_together(graph, n, threshold, exact):
    assumptions, graphs = people(n, 0.2, 0.3, exact=exact), 10_000
    truth = {name: anyone for name, (_, anyone) in enumeration.p_opened(graph, threshold, assumptions).items()}
    truth["disconnected"] = enumeration.p_disconnected(graph, assumptions)
    rng = np.random.default_rng(2)
    for own_share in (False, True):
        truth["unreliable"] = enumeration.p_unreliable(graph, threshold, assumptions, own_share)[1]
        counted = estimate(graph, threshold, assumptions, graphs, rng, own_share)
        for name, p in truth.items():
            error = math.sqrt(max(p * (1 - p), 0.0) / graphs)
            assert getattr(counted, name) == pytest.approx(p, abs=4.5 * error + 1e-9)


def frequencies_of_real_graphs(graph, threshold, assumptions, graphs, rng):
    """The events as the protocol's own graphs show them."""
    n, happened = assumptions.clients, np.zeros(4)
    for _ in range(graphs):
        drawn = draw(graph, rng.bytes(32), np.arange(n))
        stays, colludes = rng.random(n) >= assumptions.dropout, np.zeros(n, bool)
        colludes[rng.choice(n, assumptions.colluders, replace=False)] = True
        t = np.array([threshold.of(d) for d in drawn.degrees.tolist()])
        held = drawn.live_neighbours(colludes)
        happened += [
            (stays & (drawn.live_neighbours(stays) < t)).any(),
            len(drawn.mask_components(stays & ~colludes)) > 1,
            (~colludes & (held >= np.maximum(t - 1, 1))).any(),
            (~colludes & (drawn.degrees + held + 1 >= 2 * t)).any(),
        ]
    return happened / graphs


@pytest.mark.parametrize(
    ("graph", "threshold"),
    [
        (ErdosRenyi(p=0.5), Majority()),
        (ErdosRenyi(p=0.7, mask_p=0.35), Fixed(t=6)),
        (ErdosRenyi(p=1.0, mask_p=0.3), Linear(slope=600, base=2)),
        (Harary(degree=8, mask_degree=4), Fixed(t=5)),
        (Harary(degree=14, mask_degree=4), Fixed(t=9)),  # joins everyone
        (Complete(mask_degree=6), Fixed(t=9)),
        (Complete(mask_p=0.3), Majority()),
    ],
    ids=repr,
)
def test_real_graphs_follow_the_same_law(graph, threshold):
    assumptions, graphs = people(15, 0.25, 0.2), 400
    rng = np.random.default_rng(3)
    real = frequencies_of_real_graphs(graph, threshold, assumptions, graphs, rng)
    counted = estimate(graph, threshold, assumptions, 20_000, rng)
    for name, frequency in zip(EVENTS, real, strict=True):
        p = getattr(counted, name)
        error = math.sqrt(max(p * (1 - p), 1e-3) / graphs)
        assert frequency == pytest.approx(p, abs=4 * error)


def test_batches_change_nothing_but_the_order_of_draws(monkeypatch):
    case = ErdosRenyi(p=0.3, mask_p=0.15), Majority(), people(40, 0.1, 0.1)
    whole = estimate(*case, 4000, np.random.default_rng(4))
    assert whole == estimate(*case, 4000, np.random.default_rng(4))
    monkeypatch.setattr(montecarlo, "_BATCH", 5000)  # 21 graphs
    parts = estimate(*case, 4000, np.random.default_rng(5))
    assert parts.graphs == 4000
    assert parts.disconnected == pytest.approx(whole.disconnected, abs=0.05)
    assert list(montecarlo._batches(case[0], 40, 50)) == [21, 21, 8]
    assert list(montecarlo._batches(Harary(degree=4), 10_000, 2)) == [1, 1]


@pytest.mark.parametrize("graphs", [0, -1, 2.5])
def test_a_number_of_graphs_that_is_none_is_refused(graphs):
    with pytest.raises(ConfigError):
        estimate(Complete(), Majority(), people(5, 0.1), graphs, np.random.default_rng(6))
