"""The planner: known good values, promises kept, monotone, and demands that cannot be met."""

import math

import msgspec
import numpy as np
import pytest
from scipy.stats import binom

from ccesa.agreement.config import RoundConfig
from ccesa.crypto.shamir import MAX_HOLDERS
from ccesa.errors import ConfigError, ImpossiblePlan
from ccesa.graphs import Complete, ErdosRenyi, Harary, complete, harary
from ccesa.graphs import erdos_renyi_risks as erdos_renyi
from ccesa.graphs.assumptions import Assumptions, Demand
from ccesa.graphs.harary_risks import CircleMasks
from ccesa.graphs.tails import LN2, log_at_least, log_below
from ccesa.graphs.thresholds import Fixed, Linear, Majority
from ccesa.guards import CURIOUS
from ccesa.plan import check, plan, search
from ccesa.plan.planner import plan_or_complete
from ccesa.simulate import Independent, simulate

#: clients, collusion, guard, reliability and privacy bits, Erdős-Rényi mean degree, Harary degree and t.
REFERENCE = [
    (100, 0.0, "curious", 41, 41, 68, 62, 32),
    (1000, 0.0, "curious", 41, 41, 83.5, 66, 34),
    (100_000, 0.0, "curious", 41, 41, 96.5, 74, 38),
    (1000, 0.0, "curious", 20, 40, 49, 38, 20),
    (1000, 0.1, "curious", 20, 40, 70, 54, 31),
    (1000, 0.1, "active", 20, 40, 121, 106, 73),
]
#: By default under active, a tenth drops out: clients, neighbours and t, F, C, colluders around anyone,
#: honest clients in every sum, bits of reliability. docs/planning.md has this table.
ACTIVE = [
    (10, 9, 6, 4, 1, 1, 5, 6.3),
    (15, 14, 9, 6, 2, 2, 7, 8.8),
    (20, 19, 12, 9, 2, 2, 10, 11.2),
    (30, 29, 17, 14, 3, 3, 14, 18.7),
    (50, 46, 27, 29, 5, 5, 22, 20),
    (100, 52, 32, 68, 10, 10, 22, 20),
    (300, 90, 61, 235, 30, 30, 31, 20),
    (500, 122, 87, 405, 50, 50, 37, 20),
    (1000, 158, 116, 839, 83, 72, 44, 20),
    (10_000, 198, 147, 8815, 881, 94, 53, 20),
    (100_000, 212, 157, 89_425, 8942, 100, 57, 20),
    (1_000_000, 228, 168, 898_193, 89_819, 106, 62, 20),
]
#: Exactly a fraction drops out: clients, collusion, dropout, unmaskable, degree, t of Google's planner.
GOOGLE = [
    (1000, 0.33, 0.33, False, 286, 150),
    (1000, 0.05, 0.33, False, 72, 24),
    (100_000, 0.05, 0.05, False, 36, 21),
    (1000, 0.33, 0.05, True, 132, 109),
    (1000, 0.05, 0.05, True, 52, 37),
]


@pytest.mark.parametrize(("clients", "collusion", "guard", "reliable", "private", "edges", "circle", "t"), REFERENCE)
def test_degrees_match_the_reference(clients, collusion, guard, reliable, private, edges, circle, t):
    demands = {"collusion": collusion, "guard": guard, "reliability_bits": reliable, "privacy_bits": private}
    harary = plan(clients, 0.1, graph="harary", **demands)
    assert (harary.degree, harary.t) == (circle, t)
    assert plan(clients, 0.1, **demands).graph == harary.graph
    assert plan(clients, 0.1, graph="erdos-renyi", **demands).degree <= edges


@pytest.mark.parametrize(("clients", "degree", "t", "least", "colluders", "around", "honest", "bits"), ACTIVE)
def test_the_default_against_a_lying_server(clients, degree, t, least, colluders, around, honest, bits):
    made = plan(clients, 0.1, guard="active")
    assert (made.degree, made.t, made.privacy_bits, made.assumptions.collusion) == (degree, t, 128, 0.1)
    assert (made.least_roster, made.colluders, made.around) == (least, colluders, around)
    assert made.least_honest == made.min_survivors == honest == t - around
    assert made.reliability_bits == pytest.approx(bits, abs=0.05)
    assert made.shortfalls == ()
    assert bool(made.notes) == (bits < 20) == isinstance(made.graph, Complete)


def test_what_128_bits_cost():
    """Each roster that is tried offline counts: 80 bits are within reach of somebody."""
    degrees = {n: (plan(n, 0.1, guard="active", privacy_bits=80).degree, ours(n)) for n in (50, 100, 300, 1000)}
    assert degrees == {50: (44, 46), 100: (52, 52), 300: (90, 90), 1000: (134, 158)}


def ours(clients):
    return plan(clients, 0.1, guard="active").degree


def test_one_colluder_at_least_is_planned_for_against_a_lying_server():
    for said in (0, 0.0, 1e-9):
        made = plan(1000, 0.1, said, "active")
        assert (made.colluders, made.around, made.threshold) == (1, 1, Fixed(t=25))
        assert made.least_honest == 24
        assert made.least_honest_fails == -math.inf
    assert plan(1000, 0.1, 0.0).colluders == 0


def googles_way(assumptions, unmaskable):
    """Degree and t by the rules of Google's planner, on our tails.

    Thresholds go below the majority, a client's own share is left out, every event has its own budget in the
    union over all clients; the honest survivors' graph has to be connected.
    """
    reliable, private = -20 * LN2, -40 * LN2
    for degree in range(2, assumptions.clients, 2):
        live = log_below(assumptions.live, degree) + math.log(assumptions.clients)
        bad = log_at_least(assumptions.colluding, degree)
        bad = bad + math.log(assumptions.clients - assumptions.colluders)
        t = np.flatnonzero(live <= reliable)[-1]
        place = max(2 * t - degree, 0) if unmaskable else t
        privacy = np.logaddexp.reduce([bad[t], bad[place], CircleMasks(degree).log_apart(assumptions)])
        if privacy <= private:
            half = [x for x in range(2, t) if bad[max(2 * x - degree, 0) if unmaskable else x] <= private - LN2]
            return degree, min([*half, t])
    return None


@pytest.mark.parametrize(("clients", "collusion", "dropout", "unmaskable", "degree", "t"), GOOGLE)
def test_degrees_match_or_beat_googles_planner(clients, collusion, dropout, unmaskable, degree, t):
    assumptions = Assumptions(clients=clients, dropout=dropout, collusion=collusion, exact=True)
    found = googles_way(assumptions, unmaskable)
    assert found is not None
    assert found == (degree, t) if degree != 286 else found[0] <= degree


@pytest.mark.parametrize(
    ("clients", "collusion", "guard", "degree", "t"),
    [(1000, 0.05, "active", 52, 37), (100_000, 0.05, "curious", 40, 23)],
)
def test_ours_costs_neighbours_where_a_client_must_not_be_left_alone_and_colluders_stay(
    clients, collusion, guard, degree, t
):
    made = plan(clients, 0.05, collusion, guard, privacy_bits=40, exact_dropout=True)
    assert (made.degree, made.t) == (degree, t)


@pytest.mark.parametrize(
    ("clients", "collusion", "circle", "edges"), [(1000, 0, 18, 38.5), (1000, 0.1, 26, 42.7), (100_000, 0, 22, 44.9)]
)
def test_thinnest_masks(clients, collusion, circle, edges):
    assumptions = Assumptions(clients=clients, dropout=0.1, collusion=collusion)
    demand = Demand.of(assumptions, CURIOUS, privacy_bits=41)
    rule = Majority()
    assert search.thin_masks(demand, search.Found(Harary(degree=60), rule)).graph.mask_degree == circle
    thin = search.thin_masks(demand, search.Found(ErdosRenyi(p=60 / (clients - 1)), rule))
    assert thin.graph.mean_mask_degree(clients) <= edges


def test_a_million_clients_are_planned_at_once():
    made = plan(1_000_000, 0.1, 0.1, guard="active", graph="erdos-renyi")
    assert isinstance(made.threshold, Linear)
    assert plan(1_000_000, 0.1).degree == 52


def test_too_few_clients_for_a_sparse_graph():
    made = plan(33, 0.1)
    assert isinstance(made.graph, Complete)
    assert "too few for a sparse graph" in made.notes[0]


def test_the_default_reliability_gives_way_where_it_cannot_be_had():
    made = plan(10, 0.1)
    assert isinstance(made.graph, Complete)
    assert "20 bits is out of reach" in made.notes[0]
    assert "--clients 27" in made.notes[0]
    assert "planned with 6.29 bits" in made.notes[0]
    assert made.reliability_bits == pytest.approx(-made.certificate.unreliable)
    assert 6 < made.reliability_bits < 7
    assert plan(27, 0.1, reliability_bits=20).shortfalls == ()


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ({"clients": 10, "dropout": 0.1, "reliability_bits": 20}, "reliability of 20 bits"),
        ({"clients": 100, "dropout": 0.6}, "it is less than one bit; .* --dropout 0.484; or name helpers"),
        ({"clients": 100, "dropout": 0.1, "collusion": 0.9}, "40 bits of privacy, it is less than one bit"),
        ({"clients": 3, "dropout": 0.1, "guard": "active"}, "privacy of 128 bits .* no threshold gives it"),
        (
            {"clients": 30, "dropout": 0.1, "guard": "active", "reliability_bits": 20},
            "--reliability-bits 18, --dropout 0.092, --collusion 0.033 or --clients 35; or name helpers",
        ),
        (
            {"clients": 34, "dropout": 0.1, "guard": "active", "reliability_bits": 20},
            "--reliability-bits 18, --dropout 0.094, --collusion 0.088 or --clients 35; or name helpers",
        ),
        ({"clients": 100_000, "dropout": 0.1, "graph": "complete"}, "at most 65520 holders"),
        ({"clients": 3, "dropout": 0.3}, "reliability"),
        ({"clients": 3, "dropout": 0.99, "collusion": 0.99}, "no single change is enough"),
        ({"clients": 1_000_000, "dropout": 0.45, "graph": "erdos-renyi"}, "4096 .* --graph best$"),
    ],
)
def test_impossible_demands_say_which_and_what_would_work(arguments, words):
    with pytest.raises(ImpossiblePlan, match=words):
        plan(**arguments)


#: By how many can hold shares, more clients than that and how many of them drop out.
CROWDS = [(4500, 5000, 0.47), pytest.param(MAX_HOLDERS, 1_000_000, 0.49, marks=pytest.mark.slow)]


@pytest.mark.parametrize(("holders", "clients", "dropout"), CROWDS)
@pytest.mark.parametrize(
    ("asked", "words"),
    [
        ({}, "try --reliability-bits 2 or --dropout 0.4[58].; or name helpers"),
        ({"collusion": 0.3, "guard": "active"}, "128 bits of privacy, .* try --dropout 0.[23]"),
        (
            {"graph": "erdos-renyi"},
            "--graph best --reliability-bits 2 or --graph best --dropout 0.4[58].; or name helpers",
        ),
        ({"graph": "complete"}, "need a sparse graph; try --graph best --reliability-bits 2"),
    ],
)
def test_demands_that_not_even_the_densest_graph_keeps(holders, clients, dropout, asked, words, monkeypatch):
    """A client has as many neighbours as can hold shares. With fewer of these the search takes less long."""
    for module in (search, harary, complete):
        monkeypatch.setattr(module, "MAX_HOLDERS", holders)
    with pytest.raises(ImpossiblePlan, match=words):
        plan(clients, dropout, **asked)


@pytest.mark.parametrize(
    "arguments",
    [
        {"clients": 2, "dropout": 0.1},
        {"clients": 100.5, "dropout": 0.1},
        {"clients": 100, "dropout": 1.0},
        {"clients": 100, "dropout": -0.1},
        {"clients": 100, "dropout": math.nan},
        {"clients": 100, "dropout": 0.1, "collusion": 1},
        {"clients": 100, "dropout": 0.1, "guard": "lazy"},
        {"clients": 100, "dropout": 0.1, "graph": "star"},
        {"clients": 100, "dropout": 0.1, "privacy_bits": 0},
        {"clients": 100, "dropout": 0.1, "reliability_bits": 1000},
        {"clients": 100, "dropout": 0.1, "privacy_bits": 160.5, "guard": "active"},
        {"clients": 100, "dropout": 0.1, "collusion": -0.1, "guard": "active"},
        {"clients": 100, "dropout": 0.1, "bits": 12},
        {"clients": 100, "dropout": 0.1, "length": 0},
    ],
)
def test_nonsense_is_refused(arguments):
    with pytest.raises(ConfigError):
        plan(**arguments)


def test_more_and_fewer_bits_than_the_default_can_be_asked_for():
    made = plan(1000, 0.1, guard="active", privacy_bits=40)
    assert (made.privacy_bits, made.t, made.least_honest) == (40, 73, 106 + 2 - 73)
    assert plan(1000, 0.1, guard="active", privacy_bits=160).degree > 158


def test_a_configuration_of_somebody_else_is_checked():
    weak = RoundConfig(clients=1000, length=10, graph=Harary(degree=20, mask_degree=8))
    found = check(weak, 0.1)
    assert [line.split(":")[0] for line in found.shortfalls] == ["reliability", "privacy"]
    assert check(plan(1000, 0.1, 0.1).config(), 0.1, 0.1).shortfalls == ()
    assert check(plan(1000, 0.1).config(), 0.1, 0.1).shortfalls != ()  # planned without colluders


@pytest.mark.parametrize(
    ("leaving", "answers"),
    [
        ({"dropout": 0.1}, 0.9),
        ({"dropout_per_step": {"share": 0.05, "mask": 0.05, "unmask": 0.05}}, 0.95**2),
        ({"dropout": 0.0}, 1.0),
    ],
)
def test_survivors_that_a_round_does_not_have_are_lost_rounds(leaving, answers):
    """Who demands more of them than a plan loses rounds of which every secret could be rebuilt."""
    made = plan(100, 0.1)
    for least in (made.min_survivors, 80, 95, 100):
        found = check(made.config(min_survivors=least), **leaving).certificate.unreliable
        before = check(made.config(), **leaving).certificate.unreliable
        few = float(binom.cdf(least - 1, 100, answers)) if least > made.min_survivors else 0.0
        assert 2.0**found == pytest.approx(min(1.0, 2.0**before + few), rel=1e-5)


@pytest.mark.parametrize(("least", "lost"), [(90, False), (91, True)])
def test_survivors_of_an_exact_dropout(least, lost):
    config = plan(100, 0.1).config(min_survivors=least)
    assert (check(config, 0.1, exact_dropout=True).certificate.unreliable == 0) is lost


def test_nothing_is_promised_where_a_client_is_unmaskable():
    """t_i - c_i is large there, but the argument for it needs two sets of holders that meet."""
    config = RoundConfig(clients=100, length=1, graph=Harary(degree=60), guard="active", charter=bytes(32))
    found = check(config, 0.1, 0.1)
    assert (found.least_honest, found.is_private) == (1, False)
    assert found.certificate.unmaskable == 0
    follows = msgspec.structs.replace(config, guard="curious", charter=msgspec.UNSET, min_survivors=68)
    assert check(follows, 0.1, 0.1).least_honest == 31 - 10


def test_what_a_round_insists_on_is_what_its_certificate_is_about():
    """With colluders nothing else keeps V1 from being small: then all neighbours of someone may collude."""
    made = plan(1000, 0.1, 0.1)
    assert made.min_survivors == made.least_roster == made.floor.survivors == 839
    assert check(made.config(), 0.1, 0.1) == made
    bare = made.config(min_survivors=3)
    found = check(bare, 0.1, 0.1)
    assert (found.certificate.exposed, found.least_roster, found.is_private) == (0, 3, False)
    assert "covers rounds of at least min_survivors = 3 clients; an honest round has 839" in found.notes[0]
    with pytest.raises(ConfigError, match="survivors = 3, this client's floor is 839"):
        made.floor.check(bare)
    bits = [check(made.config(min_survivors=m), 0.1, 0.1).certificate.exposed for m in range(700, 1000, 20)]
    assert bits == sorted(bits, reverse=True)
    assert check(bare, 0.1).certificate.exposed == -math.inf  # nobody colludes


@pytest.mark.parametrize("graph", [Harary(degree=60, mask_degree=40), ErdosRenyi(p=0.09, mask_p=0.08)], ids=repr)
def test_thin_masks_do_not_go_with_colluders(graph):
    """They choose who drops out, and cut a client off."""
    rule = Linear(slope=520, base=6)
    config = RoundConfig(clients=1000, length=1, graph=graph, threshold=rule, min_survivors=850)
    found = check(config, 0.1, 0.1, privacy_bits=30, reliability_bits=10)
    (line,) = found.shortfalls
    assert "drop out and open its vector; leave out mask_degree and mask_p" in line
    assert (found.least_honest, found.is_private) == (1, False)
    masks = {"mask_degree" if isinstance(graph, Harary) else "mask_p": None}
    everywhere = msgspec.structs.replace(config, graph=msgspec.structs.replace(graph, **masks))
    assert check(everywhere, 0.1, 0.1, privacy_bits=30, reliability_bits=10).shortfalls == ()
    assert check(config, 0.1, privacy_bits=30, reliability_bits=10).shortfalls == ()


def test_the_papers_row_is_certified_beside_its_bounds():
    config = RoundConfig(clients=300, length=10, graph=ErdosRenyi(p=0.5136), threshold=Fixed(t=98))
    found = check(config, 0.1)
    assert 2**found.certificate.unmaskable == pytest.approx(2.7e-4, rel=0.02)
    # Own shares are not counted, and whoever has too many neighbours for t is left out: 2.6e-4 each.
    assert 2**found.certificate.unreliable == pytest.approx(5.2e-4, rel=0.02)


@pytest.mark.parametrize("graph", ["best", "erdos-renyi", "complete"])
@pytest.mark.parametrize("collusion", [0.0, 0.1])
def test_a_planned_round_runs(graph, collusion):
    made = plan(120, 0.1, collusion, length=50, graph=graph)
    report = simulate(made.config(), dropout=Independent(0.1), seed=5)
    assert report.outcome == "aggregate"
    assert report.exact
    assert report.degree_mean == pytest.approx(made.degree, rel=0.2)


def test_without_colluders_the_rule_is_the_majority():
    for graph in ("harary", "erdos-renyi", "complete"):
        assert plan(500, 0.1, graph=graph).threshold == Majority()


def test_where_nothing_can_be_promised_everyone_is_a_neighbour():
    made = plan_or_complete(4, 0.4, length=7, bits=16)
    assert made.graph == Complete()
    assert made.notes
    assert (made.length, made.bits) == (7, 16)


@pytest.mark.parametrize(
    ("clients", "collusion", "guard"), [(20, 0.95, "curious"), (4, 0.3, "active"), (60, 0.98, "active")]
)
def test_privacy_never_gives_way(clients, collusion, guard):
    with pytest.raises(ImpossiblePlan, match="no threshold gives it"):
        plan_or_complete(clients, 0.1, collusion=collusion, guard=guard)


@pytest.mark.parametrize(("clients", "guard", "t"), [(4, "curious", 3), (4, "active", 3), (5, "active", 4)])
def test_where_most_rounds_are_lost_the_threshold_is_still_private(clients, guard, t):
    made = plan_or_complete(clients, 0.4, guard=guard)
    assert made.graph == Complete()
    assert (made.t, made.is_private) == (t, True)
    assert [line.split(":")[0] for line in made.shortfalls] == ["reliability"]


def test_the_linear_rule_saves_a_fifth_of_the_neighbours(monkeypatch):
    with_it = plan(1000, 0.1, 0.1, graph="erdos-renyi").degree
    monkeypatch.setattr(erdos_renyi, "_SLOPES", ())
    without = plan(1000, 0.1, 0.1, graph="erdos-renyi").degree
    assert (round(with_it), round(without)) == (69, 98)  # as docs/planning.md says
