"""V1: the smallest roster, how many colluders it allows, and that certificates cover all rosters."""

import math
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from scipy.stats import binom

from ccesa.agreement.config import RoundConfig
from ccesa.errors import TooFewClients
from ccesa.graphs import Complete, ErdosRenyi, Harary
from ccesa.graphs.assignment import draw
from ccesa.graphs.assumptions import Assumptions, Roster, exposed, fewer_honest, more_colluders, unmaskable
from ccesa.graphs.harary_risks import CircleMasks, EqualDegrees
from ccesa.graphs.tails import Binomial, Hypergeometric, log_at_least
from ccesa.graphs.thresholds import Fixed, Linear, Majority
from ccesa.plan import check, plan
from ccesa.plan.certificate import certify
from ccesa.simulate import Exactly, federate, simulate

GRAPHS = ["harary", "erdos-renyi", "complete"]


def active(graph, collusion=0.05, clients=48):
    return plan(clients, 0.1, collusion, "active", length=4, privacy_bits=20, reliability_bits=10, graph=graph)


def played(made, gone):
    """A real round on the plan's terms, in which these leave."""
    federation = federate(
        made.clients,
        graph=made.graph,
        threshold=made.threshold,
        least_roster=made.least_roster,
        min_survivors=made.min_survivors,
    )
    config = federation.charter.config(length=made.length)
    return simulate(config, dropout=Exactly(gone), federation=federation, seed=3)


# What a plan's own clients accept


@pytest.mark.parametrize("collusion", [0.0, 0.05])
@pytest.mark.parametrize("graph", GRAPHS)
def test_a_planned_round_has_as_many_in_its_roster_as_the_plan_asks_for(graph, collusion):
    """Even if as many leave in step 0 as the plan allows."""
    made = active(graph, collusion)
    assert type(made.graph).__name__.lower() == graph.replace("erdos-renyi", "erdosrenyi")
    report = played(made, {"advertise": range(made.clients - made.least_roster)})
    assert report.exact
    assert report.survivors == made.least_roster


@pytest.mark.parametrize("graph", GRAPHS)
def test_leaving_at_any_step_does_not_fall_below_the_planned_survivors(graph):
    made = active(graph)
    report = played(made, {"advertise": [0], "share": [1], "mask": [2], "confirm": [3], "unmask": [4]})
    assert report.exact
    assert set(report.result.survivors) == set(range(3, made.clients))


@pytest.mark.parametrize("graph", GRAPHS)
def test_one_client_fewer_is_refused(graph):
    made = active(graph)
    with pytest.raises(TooFewClients, match=f"{made.least_roster - 1} answered, the charter demands"):
        raise played(made, {"advertise": range(made.clients - made.least_roster + 1)}).result


def test_a_threshold_that_hardly_anyone_reaches_has_a_floor_too():
    config = RoundConfig(clients=100, length=1, graph=ErdosRenyi(p=0.1), threshold=Fixed(t=60))
    assert check(config, 0.1).floor.threshold == 60


@pytest.mark.parametrize("graph", GRAPHS)
def test_with_colluders_a_server_that_is_trusted_refuses_a_small_roster_too(graph):
    """The certificate is about F clients with all colluders among them."""
    made = plan(48, 0.1, 0.1, length=4, privacy_bits=20, reliability_bits=10, graph=graph)
    honest = range(made.colluders, made.clients)
    for missing in (made.clients - made.least_roster, made.clients - made.least_roster + 1):
        gone = Exactly({"advertise": honest[:missing]})
        report = simulate(made.config(), dropout=gone, seed=3)
        assert (report.survivors, report.exact) == (made.clients - missing, True) or missing > 12
    assert isinstance(report.result, TooFewClients)
    assert f"{made.least_roster - 1} answered, the round needs {made.least_roster}" in str(report.result)


def test_survivors_can_be_asked_for():
    made = plan(100, 0.1, 0.1)
    assert made.config().min_survivors == made.min_survivors == made.least_roster > made.least_honest
    assert made.config(min_survivors=40).min_survivors == 40
    assert plan(100, 0.1).config().min_survivors == 3


@pytest.mark.parametrize("graph", GRAPHS)
def test_a_floor_is_about_every_degree_that_a_plan_can_meet(graph):
    made = plan(200, 0.1, 0.05, graph=graph, reliability_bits=10, privacy_bits=20)
    floor, most = made.floor, max(made.degrees)
    assert floor.threshold_ratio == min(made.threshold.of(d) / d for d in made.degrees)
    assert floor.threshold_ratio > 0.5
    assert floor.degree >= min(int(made.degree), floor.clients - 1)
    assert most >= made.degree
    if graph == "complete":
        assert made.degrees == tuple(range(floor.clients - 1, 200))


# F


@given(st.integers(3, 2000), st.floats(0.001, 0.6), st.floats(1, 60))
def test_honest_rounds_have_the_roster_that_is_insisted_on(clients, dropout, bits):
    """All dropouts may happen in step 0. F is as large as a thousandth of the reliability budget allows."""
    assumptions = Assumptions(clients=clients, dropout=dropout)
    found = Roster.expected(assumptions, bits, chosen=True)
    budget = 2.0 ** -(bits + 10)
    assert math.exp(found.log_short) == pytest.approx(budget)
    if found.least > 3:
        assert binom.cdf(found.least - 1, clients, 1 - dropout) <= budget * (1 + 1e-9)
    assert binom.cdf(found.least, clients, 1 - dropout) >= budget * (1 - 1e-9)


def test_where_exactly_a_fraction_drops_out_so_many_are_left():
    found = Roster.expected(Assumptions(clients=1000, dropout=0.1, exact=True), 20, chosen=True)
    assert (found.least, found.log_short) == (900, -math.inf)


def test_a_roster_that_is_too_small_counts_as_unreliable():
    assumptions = Assumptions(clients=1000, dropout=0.1)
    case = Harary(degree=38), Majority(), assumptions
    alone = certify(*case)
    for chosen in (False, True):
        counted = certify(*case, Roster.expected(assumptions, 20, chosen=chosen))
        assert 2**counted.unreliable == pytest.approx(2**alone.unreliable + 2**-30, rel=1e-4)


# How many may collude


def test_colluders_are_a_fraction_of_the_smallest_roster():
    made = plan(1000, 0.1, 0.1, "active")
    assert (made.least_roster, made.colluders) == (839, 83)
    assert plan(1000, 0.1, 0.1).colluders == 100  # the server follows the protocol
    assert plan(60, 0.1, 0.01, "active", privacy_bits=20).colluders == 1


@pytest.mark.parametrize("clients", [30, 50, 100, 300, 600])
def test_where_they_are_too_few_for_certain_they_are_a_fraction_of_all(clients):
    """Not of the smallest roster: with 30 hospitals that would be one in place of three."""
    made = plan(clients, 0.1, 0.1, "active")
    fraction = Roster.expected(made.assumptions, made.reliability_bits, chosen=True).colluders
    assert fraction < made.colluders == made.around <= made.assumptions.colluders
    assert made.certificate.exposed == made.certificate.unmaskable == made.least_honest_fails == -math.inf
    for size in range(made.least_roster, clients + 1):
        d = made.graph.max_degree(size)
        assert d + made.colluders + 1 < 2 * made.threshold.of(d)
    assert (made.colluders == made.assumptions.colluders) == (clients != 600)
    d = made.graph.max_degree(clients)
    assert clients != 600 or d + made.colluders + 2 >= 2 * made.threshold.of(d)  # one more would do


cases = st.fixed_dictionaries(
    {
        "clients": st.sampled_from([6, 9, 20, 40, 80, 150]),
        "dropout": st.sampled_from([0.0, 0.01, 0.05, 0.1, 0.2, 0.3, 0.4]),
        "collusion": st.sampled_from([0.003, 0.01, 0.05, 0.1, 0.15, 0.2, 0.3, 0.4, 0.45]),
        "exact": st.booleans(),
    }
)
rules = st.one_of(
    st.just(Majority()),
    st.builds(Fixed, t=st.integers(2, 100)),
    st.builds(Linear, slope=st.sampled_from([0, 300, 448, 512, 600, 700]), base=st.integers(1, 9)),
)


def few_or_unmaskable(honest):
    few = fewer_honest(honest)
    return lambda t, degrees: np.minimum(few(t, degrees), unmaskable(t, degrees))


events_of_all_kinds = st.one_of(
    st.sampled_from([exposed, unmaskable]),
    st.builds(fewer_honest, st.integers(1, 30)),
    st.builds(more_colluders, st.integers(0, 30)),
    st.builds(few_or_unmaskable, st.integers(1, 30)),
)


def union_over_a_circle(degree, rule, size, colluders, event):
    """The mean number of honest clients with enough colluding neighbours, in a roster of this size."""
    d = min(degree, size - 1)
    place = int(event(np.array(rule.of(d)), np.array(d)))
    tail = log_at_least(Hypergeometric(size - 1, colluders), d)[min(max(place, 0), d + 1)]
    return (size - colluders) * math.exp(tail)


@settings(deadline=None, max_examples=200)
@given(cases, st.integers(1, 70), rules, events_of_all_kinds, st.sampled_from([3, 10, 20, 40]))
def test_circles_are_certified_for_every_roster_that_a_server_may_choose(case, half, rule, event, bits):
    """By all sizes from F on, with as many colluders as the fraction allows, and with the number promised."""
    found = Roster.expected(Assumptions(**case), bits, chosen=True)
    degree = min(2 * half, case["clients"] - 1)
    bound = math.exp(EqualDegrees(degree).around(event, rule, found))
    for size in range(found.least, case["clients"] + 1):
        for colluders in {found.colluders, found.of(size)}:
            if colluders < size:
                truth = union_over_a_circle(degree, rule, size, colluders, event)
                assert min(truth, 1.0) <= bound * (1 + 1e-9)


def staying(case, part):
    """Rosters under ``curious`` of at least such a part of all clients: every colluder may be in it."""
    return Roster(assumptions=Assumptions(**case), least=max(3, round(part * case["clients"])))


def with_some_colluders(found):
    """Every size with some of the colluders in it, and no more honest clients than there are."""
    n, most = found.assumptions.clients, found.colluders
    for size in range(found.least, n + 1):
        for colluders in {0, most // 2, max(most - 1, 0), most}:
            if 0 < size - colluders <= n - most:
                yield size, colluders


#: Where few colluding neighbours are enough, honest clients count for more than small rosters do.
CROWDED = {"clients": 40, "dropout": 0.1, "collusion": 0.3, "exact": False}


@example(case=CROWDED, half=4, rule=Fixed(t=4), event=exposed, part=0.5)
@settings(deadline=None, max_examples=200)
@given(cases, st.integers(1, 70), rules, events_of_all_kinds, st.floats(0.05, 1.0))
def test_circles_are_certified_for_colluders_that_stay(case, half, rule, event, part):
    """By all sizes from F on, whoever of the colluders is there; and by no more than the worst of them."""
    found, n = staying(case, part), case["clients"]
    degree = min(2 * half, n - 1)
    bound, worst = math.exp(EqualDegrees(degree).around(event, rule, found)), 0.0
    for size, colluders in with_some_colluders(found):
        truth = union_over_a_circle(degree, rule, size, colluders, event)
        assert min(truth, 1.0) <= bound * (1 + 1e-9)
        worst = max(worst, truth)
    assert bound <= worst * (n - found.colluders) / found.honest * (1 + 1e-9)


#: In a roster of half of the clients twice as many neighbours collude as among all of them.
HALF = {"clients": 150, "dropout": 0.3, "collusion": 0.1, "exact": False}


@example(case=HALF, half=20, rule=Fixed(t=30), event=more_colluders(10), anywhere=15)
@settings(deadline=None, max_examples=100)
@given(cases, st.integers(1, 70), rules, events_of_all_kinds, st.integers(1, 20))
def test_circles_are_certified_for_so_many_colluders_anywhere(case, half, rule, event, anywhere):
    found = replace(Roster.expected(Assumptions(**case), 10, chosen=True), anywhere=anywhere)
    degree = min(2 * half, case["clients"] - 1)
    bound = math.exp(EqualDegrees(degree).around(event, rule, found))
    for size in range(found.least, case["clients"] + 1):
        if anywhere < size:
            assert min(union_over_a_circle(degree, rule, size, anywhere, event), 1.0) <= bound


def union_over_edges(p, rule, size, colluders, event):
    h, c = np.arange(size - colluders)[:, None], np.arange(colluders + 1)
    logs = Binomial(p).log_pmf(size - 1 - colluders, h) + Binomial(p).log_pmf(colluders, c)
    bad = c >= event(rule.of(h + c), h + c)
    return (size - colluders) * float(np.exp(logs).sum(where=bad))


def around(p, rule, found, event):
    return ErdosRenyi(p=p).degrees(found.assumptions.clients).around(event, rule, found)


@settings(deadline=None, max_examples=60)
@given(cases, st.floats(0.05, 0.97), rules, events_of_all_kinds, st.sampled_from([3, 10, 20]))
def test_edges_are_certified_for_every_roster_that_a_server_may_choose(case, p, rule, event, bits):
    found = Roster.expected(Assumptions(**case), bits, chosen=True)
    bound = math.exp(around(p, rule, found, event))
    for size in range(found.least, case["clients"] + 1):
        for colluders in {found.colluders, found.of(size)}:
            if colluders < size:
                truth = union_over_edges(p, rule, size, colluders, event)
                assert min(truth, 1.0) <= bound * (1 + 1e-9)


@settings(deadline=None, max_examples=60)
@given(cases, st.floats(0.05, 0.97), rules, events_of_all_kinds, st.floats(0.05, 1.0))
def test_edges_are_certified_for_colluders_that_stay(case, p, rule, event, part):
    found = staying(case, part)
    bound = math.exp(around(p, rule, found, event))
    for size, colluders in with_some_colluders(found):
        assert min(union_over_edges(p, rule, size, colluders, event), 1.0) <= bound * (1 + 1e-9)


def test_nothing_is_shown_for_colluders_anywhere_where_degrees_are_random():
    assumptions = Assumptions(clients=100, dropout=0.1, collusion=0.1)
    found = replace(Roster.expected(assumptions, 10, chosen=True), anywhere=3)
    assert around(0.9, Majority(), found, more_colluders(50)) == 0


def test_the_bound_over_all_rosters_is_hardly_above_the_worst_of_them():
    found = Roster.expected(Assumptions(clients=1000, dropout=0.1, collusion=0.1), 20, chosen=True)
    p, rule = 120 / 999, Linear(slope=672, base=5)
    worst = max(union_over_edges(p, rule, size, found.of(size), unmaskable) for size in range(found.least, 1001))
    assert 1 <= math.exp(around(p, rule, found, unmaskable)) / worst < 2


@settings(deadline=None, max_examples=40)
@given(cases, st.integers(1, 40))
def test_masks_on_a_circle_are_certified_for_every_roster(case, half):
    assumptions = Assumptions(**case)
    if assumptions.dropout >= 0.5:
        return
    found = Roster.expected(assumptions, 10, chosen=True)
    bound = Harary(degree=2 * half).masks(case["clients"]).log_apart(assumptions, found)
    for size in range(max(found.least, 2 * half + 2), case["clients"] + 1):
        fraction = found.of(size) / size
        if found.of(size) > case["collusion"] * size:
            continue  # the one colluder of a list that has less than one
        smaller = Assumptions(clients=size, dropout=case["dropout"], collusion=fraction)
        if not case["exact"]:
            assert CircleMasks(2 * half).log_apart(smaller) <= bound + 1e-9


@pytest.mark.parametrize(
    ("graph", "threshold"),
    [(Harary(degree=20), Fixed(t=15)), (ErdosRenyi(p=0.4), Linear(slope=600, base=6)), (Complete(), Fixed(t=36))],
    ids=str,
)
def test_a_server_that_keeps_every_colluder_stays_below_the_certificate(graph, threshold):
    """Real graphs over the rosters that it would choose: the smallest, and all of the list."""
    assumptions, rng = Assumptions(clients=60, dropout=0.1, collusion=0.15), np.random.default_rng(7)
    found = Roster.expected(assumptions, 10, chosen=True)
    bound, graphs = 2 ** certify(graph, threshold, assumptions, found).unmaskable, 600
    for size in (found.least, 60):
        happened = 0
        for _ in range(graphs):
            drawn = draw(graph, rng.bytes(32), np.arange(size))
            colludes = np.arange(size) < found.colluders
            held = drawn.live_neighbours(colludes)
            t = threshold.of(drawn.degrees)
            happened += bool((~colludes & (drawn.degrees + held + 1 >= 2 * t)).any())
        assert happened / graphs <= bound + 4 * math.sqrt(bound / graphs)
    assert bound < 0.7
