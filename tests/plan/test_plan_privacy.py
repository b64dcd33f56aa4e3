"""Plans of rounds with noise: survivors, honest clients, thresholds, offers, advice, and charters."""

import itertools
import json
import math
from dataclasses import replace
from fractions import Fraction

import msgspec
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.stats import binom

from ccesa.agreement.charter import Charter
from ccesa.agreement.identity import Admission, Member
from ccesa.errors import ConfigError, ImpossiblePlan
from ccesa.evidence import Accusation
from ccesa.graphs import Complete, ErdosRenyi, Harary
from ccesa.graphs.assignment import draw
from ccesa.graphs.assumptions import Assumptions
from ccesa.graphs.reliability import log_fewer, log_left_out
from ccesa.graphs.thresholds import Fixed
from ccesa.plan import charter, charters, check, plan
from ccesa.plan.certificate import certify, left_out
from ccesa.plan.planner import PlanRequest, advise
from ccesa.plan.report import compute_figures
from ccesa.plan.result import noise_ratio
from ccesa.privacy import DifferentialPrivacy, choose_mechanism
from ccesa.protocol.curious_server import spare_holders
from ccesa.protocol.drawing import accused_edges, prune
from ccesa.protocol.server_states import Drawn
from commands import run
from rounds import identity
from test_planner_cuts import drawn, every_v3, opened_parts

DEMAND = DifferentialPrivacy(epsilon=8.0, delta=1e-6, rounds=100, norm=1.0)
LIES = msgspec.structs.replace(DEMAND, against="lies")
D = 10_000


def noisy(clients, collusion=0.05, *, privacy=DEMAND, **others):
    return plan(clients, 0.1, collusion, length=D, privacy=privacy, **others)


def price(made):
    """What distributing the noise costs beside a trusted curator, with nine tenths surviving."""
    return noise_ratio(made.mechanism, made.assumptions.staying)


# How much noise

LOSSY = {"reliability_bits": 7}
THIN, ALL = ({"guard": "active", "privacy": LIES, "graph": graph} for graph in ("best", "complete"))


@pytest.mark.parametrize(
    ("clients", "asked", "most"),
    [
        (20, LOSSY, 1.18),
        (50, {}, 1.23),
        (50, LOSSY, 1.125),
        (50, THIN, 1.41),
        (50, ALL, 1.25),
        (100, {}, 1.155),
        (100, LOSSY, 1.085),
        (100, THIN, 2.03),
        (100, ALL, 1.165),
        (1000, {}, 1.062),
        (1000, LOSSY, 1.047),
        (1000, THIN, 5.14),
        (1000, THIN | {"degree": 300}, 2.22),
        (1000, THIN | {"degree": 500}, 1.6),
        (1000, ALL, 1.062),
    ],
)
def test_what_distributing_the_noise_costs(clients, asked, most):
    """A tenth drops out, a twentieth colludes; docs/planning.md has the table."""
    made = noisy(clients, **asked)
    assert made.shortfalls == ()
    assert 0.95 * most < price(made) <= most
    ideal = math.sqrt(made.assumptions.staying / made.mechanism.honest)
    assert ideal < price(made) < 1.005 * ideal  # the grid and the integers cost hardly anything


def test_nobody_vanishing_costs_little_more():
    made = noisy(1000)
    found = compute_figures(made, made.mechanism)
    assert found.ratio <= 1.08
    assert found.ratio_if_all_stay <= 1.14
    assert found.ratio_if_all_stay == pytest.approx(found.ratio * math.sqrt(1000 / 900))


@settings(deadline=None, max_examples=8)
@given(st.floats(0.2, 8.0), st.floats(1.01, 3.0), st.sampled_from([30, 200]), st.sampled_from(["follows", "lies"]))
def test_a_larger_epsilon_never_takes_more_noise(epsilon, more, clients, against):
    asked = msgspec.structs.replace(DEMAND, epsilon=epsilon, against=against)
    wider = msgspec.structs.replace(asked, epsilon=epsilon * more)
    little, much = (noisy(clients, guard="active", privacy=one, graph="complete").mechanism for one in (wider, asked))
    assert little.honest == much.honest
    assert little.noise(1) <= much.noise(1) * 1.005  # variances are whole numbers
    assert much.certify() <= epsilon


def test_the_narrowest_fields_can_be_asked_for():
    made = noisy(1000, field_bits=16)
    assert (made.mechanism.field_bits, made.bits, made.length) == (16, 64, D // 4)
    assert made.mechanism.dimension == D


# Survivors


@pytest.mark.parametrize("bits", [7, 20])
@pytest.mark.parametrize("clients", [50, 300, 3000])
@pytest.mark.parametrize("collusion", [0.0, 0.05])
def test_as_many_survivors_as_reliability_allows(clients, bits, collusion):
    made = noisy(clients, collusion, reliability_bits=bits)
    least = made.min_survivors
    assert made.config().min_survivors == made.floor.survivors == least
    graph = 2.0 ** certify(made.graph, made.threshold, made.assumptions, made.roster).unreliable
    assert graph + binom.cdf(least - 1, clients, 0.9) <= 2.0**-bits * 1.00001
    assert graph + binom.cdf(least, clients, 0.9) > 2.0**-bits
    assert 2.0**made.certificate.unreliable == pytest.approx(graph + binom.cdf(least - 1, clients, 0.9), rel=1e-4)
    assert graph <= 2.0**-bits / 2  # most of it is for the survivors


def test_an_exact_dropout_leaves_no_doubt_about_survivors():
    assert noisy(200, exact_dropout=True).min_survivors == 180
    assert plan(100, 0.0, length=D, privacy=DEMAND).min_survivors == 100


@pytest.mark.parametrize(("clients", "dropout"), [(40, 0.1), (1000, 0.3), (5000, 0.1), (10**6, 0.02)])
def test_few_survivors_are_bounded_tightly(clients, dropout):
    assumptions = Assumptions(clients=clients, dropout=dropout)
    mean, spread = clients * (1 - dropout), math.sqrt(clients * dropout * (1 - dropout))
    for least in {int(mean - far * spread) for far in (0.5, 2, 5)}:
        truth = binom.logcdf(least - 1, clients, 1 - dropout)
        assert truth - 1e-6 <= log_fewer(assumptions, least) <= truth + 0.02
    assert log_fewer(assumptions, clients + 1) >= -1e-9


def test_a_hundred_million_clients_are_planned_in_time():
    made = plan(10**8, 0.1, length=D, privacy=DEMAND)
    assert 89_900_000 < made.min_survivors < 90_000_000


def test_clients_insist_on_the_survivors():
    made = noisy(100)
    made.floor.check(made.config())
    with pytest.raises(ConfigError, match=f"survivors = 5, this client's floor is {made.min_survivors}"):
        made.floor.check(made.config(min_survivors=5))


# Honest clients


def test_without_colluders_all_survivors_are_honest():
    made = noisy(500, 0.0)
    assert made.mechanism.honest == made.min_survivors
    assert made.mechanism.fails == made.certificate.privacy("curious") <= -40
    assert not made.accept
    assert made.promise("lies") is None


def test_colluders_who_cannot_choose_dropouts_cost_themselves():
    made = noisy(1000)
    assert isinstance(made.graph, Harary)
    assert made.accept
    denser, accepts = made.notes
    assert denser.startswith("276 neighbours instead of 56: ")
    assert accepts.startswith("rounds have the step accept")
    assert made.mechanism.honest == made.min_survivors - 50 == made.promise("follows").honest
    assert made.mechanism.fails == pytest.approx(np.logaddexp2(made.certificate.privacy(), made.parted))
    assert made.mechanism.fails <= -39
    # Without the step they choose: then a part has as few honest clients as its thresholds leave.
    assert replace(made, accept=False).promise("follows").honest == made.least_honest < 100
    thin = noisy(1000, degree=made.graph.degree - 20)
    assert thin.parted > -40
    assert thin.mechanism.honest == thin.least_honest


def test_a_lying_server_leaves_the_least_number_of_honest_clients():
    made = noisy(1000, guard="active", privacy=LIES)
    assert made.mechanism.honest == made.least_honest == made.promise("follows").honest
    assert made.mechanism.fails >= max(made.least_honest_fails, made.certificate.privacy("active"))
    everyone = noisy(1000, guard="active", graph="complete")
    assert everyone.mechanism.honest == everyone.min_survivors - everyone.colluders
    assert everyone.promise("lies").honest == everyone.least_honest < everyone.mechanism.honest


def test_a_plan_against_lies_takes_the_guard_for_it():
    with pytest.raises(ConfigError, match="use guard = active"):
        noisy(100, privacy=LIES)


@pytest.mark.parametrize("graph", ["harary", "complete", "erdos-renyi"])
@pytest.mark.parametrize("clients", [40, 300])
def test_the_threshold_is_the_highest_that_is_reliable(clients, graph):
    made = noisy(clients, guard="active", privacy=LIES, graph=graph)
    lowest = plan(clients, 0.1, 0.05, guard="active", graph=graph)
    assert made.graph == lowest.graph
    assert made.least_honest >= lowest.least_honest
    for name in ("exposed", "unmaskable"):
        assert getattr(made.certificate, name) <= getattr(lowest.certificate, name) + 1e-9
    rule = made.threshold
    higher = Fixed(t=rule.t + 1) if isinstance(rule, Fixed) else msgspec.structs.replace(rule, base=rule.base + 1)
    found = certify(made.graph, higher, made.assumptions, made.roster)
    assert found.unreliable > -made.reliability_bits


def test_every_roster_keeps_the_number_of_honest_clients():
    """A fixed threshold does not fall with a small roster: t - C is left in each."""
    made = noisy(50, guard="active", privacy=LIES, graph="complete")
    for size in range(made.least_roster, 51):
        t = made.threshold.of(size - 1)
        assert t - made.colluders >= made.mechanism.honest


def test_without_a_union_everyone_with_everyone_is_as_reliable_as_it_is():
    """All clients have the same holders but for themselves: counted over every set that stays."""
    n, t, q = 9, 5, 0.2
    lost = sum(
        math.prod(1 - q if one else q for one in stays)
        for stays in itertools.product([False, True], repeat=n)
        if any(sum(stays) - stays[i] < t for i in range(n))
    )
    bound = certify(Complete(), Fixed(t=t), Assumptions(clients=n, dropout=q)).unreliable
    assert 2.0**bound == pytest.approx(lost, rel=1e-5)


# Accusations


@pytest.mark.parametrize("exact", [False, True])
def test_who_is_left_out_is_counted_exactly(exact):
    """One honest client of eight, all neighbourhoods, all colluders, all dropouts."""
    n, colluders, degree, q, least = 8, 2, 4, Fraction(1, 4), 3
    few = Fraction(0)
    others = range(1, n)
    for near in itertools.combinations(others, degree):
        for stays in itertools.product([False, True], repeat=n - 1):
            gone = (n - 1) - sum(stays)
            chance = q**gone * (1 - q) ** sum(stays)
            count = sum(stays[i - 1] for i in near if i > colluders)  # clients 1 and 2 collude
            few += chance * (count < least)
    few /= math.comb(n - 1, degree)
    assumptions = Assumptions(clients=n, dropout=0.25, collusion=0.25, exact=exact)
    bound = math.exp(log_left_out(assumptions, degree, least + 1))
    if exact:  # two of eight drop out, at worst both honest
        hit = sum(math.comb(4, gone) * math.comb(3, 4 - gone) for gone in (2, 3, 4)) / math.comb(7, 4)
        assert bound == pytest.approx(min(1.0, 6 * hit))
    else:
        assert bound == pytest.approx(min(1.0, 6 * float(few)))


def all_accuse(graph, t, colludes, alive):
    """Who is left, by the server's own rules, when colluders and all their neighbours accuse each other."""
    ids = graph.ids
    pairs = {(int(i), int(j)) for i in np.flatnonzero(colludes) for j in graph.neighbours(i)}
    cut = graph.edge_flags(accused_edges(graph, frozenset(Accusation(int(ids[i]), int(ids[j])) for i, j in pairs)))
    left = Drawn(graph=graph.without(cut), thresholds=t, mask_keys=[])
    config = plan(graph.size, 0.1).config()
    return prune(config, left, alive, spare_holders(graph, cut, 0.1))


@pytest.mark.parametrize("seed", range(40))
def test_accusations_leave_nobody_out_who_has_enough_honest_neighbours(seed):
    """And where somebody has not, they do: then colluders choose a dropout after all."""
    random = np.random.default_rng(seed)
    graph = draw(Harary(degree=20), random.bytes(32), np.arange(60))
    colludes, alive = np.zeros(60, bool), random.random(60) < 0.93
    colludes[random.choice(60, 6 + seed % 7, replace=False)] = True
    t, needed = Fixed(t=11).of(graph.degrees), 11 + 2 - 1
    honest = alive & ~colludes
    kept = all_accuse(graph, t, colludes, alive)
    accused = graph.live_neighbours(colludes) > 0
    enough = graph.live_neighbours(honest) >= np.where(accused, needed, 10)
    if enough[honest].all():
        assert (kept[honest]).all()
    else:
        assert not kept[honest & ~enough].any()


def test_everyone_with_everyone_cannot_be_parted():
    assumptions = Assumptions(clients=30, dropout=0.1, collusion=0.1)
    assert left_out(Complete(), Fixed(t=16), assumptions) == -math.inf
    assert left_out(Harary(degree=20), Fixed(t=11), assumptions) > -20
    assert left_out(ErdosRenyi(p=0.9), Fixed(t=16), assumptions) == 0  # not bounded, nothing promised


# Offers


def test_denser_graphs_are_offered_with_their_price():
    made = noisy(1000, guard="active", privacy=LIES)
    assert [one.degree for one in made.offers] == [300, 500, 999]
    assert [one.graph.name for one in made.offers] == ["harary", "harary", "complete"]
    ratios = [price(made), *(one.ratio for one in made.offers)]
    assert ratios == sorted(ratios, reverse=True)
    for name in ("sent_bytes", "agreements"):
        prices = [getattr(made.cost, name), *(getattr(one, name) for one in made.offers)]
        assert prices == sorted(prices)
    taken = noisy(1000, guard="active", privacy=LIES, degree=300)
    assert taken.graph == Harary(degree=300)
    assert (taken.mechanism.honest, price(taken)) == (made.offers[0].honest, made.offers[0].ratio)
    assert [one.degree for one in taken.offers] == [500, 999]


def test_no_offers_where_survivors_count():
    assert noisy(1000).offers == ()
    assert noisy(1000, guard="active", graph="complete").offers == ()
    assert plan(1000, 0.1, guard="active").offers == ()


def test_the_degree_is_taken_or_refused_with_one_that_would_do():
    assert plan(500, 0.1, degree=100).degree == 100
    with pytest.raises(ImpossiblePlan, match="no threshold keeps the demand; try --degree") as caught:
        plan(500, 0.1, 0.05, guard="active", degree=20)
    (option,) = caught.value.options
    assert plan(500, 0.1, 0.05, guard="active", **option).shortfalls == ()
    impossible = r"out of reach with 20 clients, .* try --rel"
    with pytest.raises(ImpossiblePlan, match=impossible) as caught:
        plan(20, 0.1, degree=18, reliability_bits=100)
    for option in caught.value.options:
        asked = {"clients": 20, "dropout": 0.1, "degree": 18, "reliability_bits": 100, **option}
        assert plan(**asked).shortfalls == ()


@pytest.mark.parametrize(
    ("asked", "says"),
    [
        ({"degree": 7}, "even number"),
        ({"degree": 500}, "needs more than 500 clients"),
        ({"degree": 10, "graph": "complete"}, "degree needs graph = harary"),
        ({"degree": 10, "graph": "erdos-renyi"}, "degree needs graph = harary"),
        ({"field_bits": 12}, "needs privacy"),
        ({"privacy": {"epsilon": 3}}, "privacy: expected DifferentialPrivacy, got dict"),
        ({"privacy": DEMAND, "field_bits": 2}, "too narrow"),
        ({"privacy": DEMAND, "length": 0}, "length must lie in"),
        ({"privacy": msgspec.structs.replace(DEMAND, rounds=10**9, delta=1e-9)}, "privacy_bits"),
    ],
)
def test_what_cannot_be_is_refused(asked, says):
    with pytest.raises(ConfigError, match=says):
        plan(100, 0.1, **asked)


# Small federations


@pytest.mark.parametrize("clients", [20, 30, 50])
def test_a_small_federation_is_told_what_lost_rounds_would_save(clients):
    made = noisy(clients)
    (note,) = (note for note in made.notes if "--reliability-bits 7" in note and "one round in 128" in note)
    assert f"{price(noisy(clients, reliability_bits=7)):.2f} times that of a trusted curator" in note
    assert not any("one round in 128" in note for note in noisy(clients, reliability_bits=7).notes)
    assert not any("one round in 128" in note for note in noisy(60).notes)


# Both epsilons, and advice


def test_both_servers_have_their_epsilon():
    made = noisy(1000, guard="active", graph="complete")
    found = compute_figures(made, made.mechanism)
    assert found.follows.epsilon <= 8 < found.lies.epsilon < 8.1
    assert found.lies.honest == made.least_honest
    assert compute_figures(noisy(100), noisy(100).mechanism).lies is None
    assert found.in_mean == pytest.approx(found.in_sum / 900)
    assert found.per_client == pytest.approx(found.in_sum / 30)
    assert found.drowning == pytest.approx(100 * found.in_mean)


def test_the_graph_says_how_often_it_fails_whatever_the_noise_says():
    made = noisy(1000, collusion=0.05, privacy_bits=40)
    flattering = msgspec.structs.replace(made.mechanism, fails=-math.inf)
    assert compute_figures(made, flattering).follows.epsilon == made.mechanism.certify() > flattering.certify()


def test_the_other_servers_epsilon_counts_the_draws_as_often_as_it_says():
    """The distance of the draws counts e^epsilon times, and the epsilon that is printed may be larger."""
    asked = msgspec.structs.replace(DEMAND, epsilon=50.0, delta=1e-5, rounds=1)
    made = plan(20, 0.1, 0.2, guard="active", graph="complete", length=10**6, privacy=asked)
    found, honest = compute_figures(made, made.mechanism), made.promise("lies").honest
    one = made.mechanism.release_at(honest, found.lies.epsilon)
    assert one.epsilon(asked.delta) <= found.lies.epsilon
    smaller = msgspec.structs.replace(asked, delta=1e-6)
    made = plan(20, 0.1, 0.2, guard="active", graph="complete", length=10**6, privacy=smaller)
    assert compute_figures(made, made.mechanism).lies is None  # all of delta is spent on draws


def test_a_graph_that_fails_more_often_costs_epsilon():
    mechanism = noisy(20, 0.2, guard="active", graph="complete").mechanism
    one = mechanism.release_at(9, fails=-21.0)
    assert one.delta == pytest.approx(2.0**-21)
    assert mechanism.certify(9) < mechanism.certify(9, -40.0) < mechanism.certify(9, -30.0) < math.inf
    assert mechanism.certify(9, -1.0) == math.inf


@pytest.mark.parametrize(
    "asked",
    [
        {"clients": 200, "dropout": 0.1, "length": 4096},
        {"clients": 40, "dropout": 0.1, "length": 100, "collusion": 0.1},
        {"clients": 100, "dropout": 0.1, "length": 200, "guard": "active", "privacy": LIES},
        {"clients": 100, "dropout": 0.1, "length": 2000, "guard": "active", "graph": "complete"},
    ],
)
def test_advice_works_when_it_is_followed(asked):
    asked = PlanRequest(**{"privacy": DEMAND, **asked})
    made = asked.plan()
    assert compute_figures(made, made.mechanism).drowns
    options = advise(made, asked)
    names = [name for option in options for name in option]
    assert names[-3:] == ["clients", "epsilon", "length"]
    assert set(names[:-3]) <= {"degree", "graph"}  # a denser graph comes first
    for option in options:
        better = asked.change(option).plan()
        assert not compute_figures(better, better.mechanism).drowns
        assert advise(better, asked.change(option)) == ()


def test_the_first_advice_is_a_denser_graph():
    asked = PlanRequest(3000, 0.1, 0.2, length=10_000, privacy=DEMAND, degree=200)
    made = asked.plan()
    option, *_ = advise(made, asked)
    assert option == {"degree": 500}
    better = asked.change(option).plan()
    assert not compute_figures(better, better.mechanism).drowns


def test_no_cliff_where_there_are_more_clients_than_neighbours_are_taken():
    """The densest graph within the limit comes before a raised threshold in the thinnest."""
    ratios = {}
    for clients in (1000, 1001, 1002, 1200, 20_000):
        made = plan(clients, 0.1, 0.3, length=1000, privacy=DEMAND)
        assert made.degree <= 1000
        ratios[clients] = compute_figures(made, made.mechanism).ratio
    assert ratios[1001] < 1.01 * ratios[1000]
    assert ratios[1200] < 2
    assert ratios[20_000] < 8
    thin = plan(20_000, 0.1, 0.3, length=1000, privacy=DEMAND, degree=200)
    assert compute_figures(thin, thin.mechanism).ratio > 15  # who wants it can have it


def test_noise_that_no_mechanism_has_says_that_rounding_is_why():
    tiny = DifferentialPrivacy(epsilon=0.01, delta=1e-8, rounds=10_000, norm=1.0)
    with pytest.raises(ConfigError, match=r"rounding 1000000 parameters would cost more than .* 20 honest clients"):
        choose_mechanism(tiny, clients=30, honest=20, dimension=10**6)
    with pytest.raises(ConfigError, match="fields of 6 bits are too narrow"):
        choose_mechanism(tiny, clients=30, honest=20, dimension=10, field_bits=6)


def test_no_advice_where_none_is_needed_or_helps():
    assert advise(noisy(1000), PlanRequest(1000, 0.1, 0.05, privacy=DEMAND)) == ()
    assert advise(plan(100, 0.1), PlanRequest(100, 0.1)) == ()
    asked = PlanRequest(100, 0.1, length=10**8, privacy=DEMAND, graph="complete")
    assert [*map(dict.keys, advise(asked.plan(), asked))] == [{"length"}]
    asked = replace(asked, length=1, privacy=msgspec.structs.replace(DEMAND, epsilon=0.1))
    assert not any("length" in option for option in advise(asked.plan(), asked))  # 1 is the fewest


@pytest.mark.parametrize(("delta", "says"), [(0.01, True), (0.009, False)])
def test_a_delta_that_promises_little_is_named(delta, says):
    made = plan(100, 0.1, length=10, privacy=msgspec.structs.replace(DEMAND, delta=delta))
    assert any("not below 1 / 100 clients" in note for note in made.notes) == says


# The charter


def members(clients):
    return Admission(Member(f"site-{i}", identity(i).public) for i in range(clients))


@pytest.mark.parametrize(("against", "graph"), [("lies", "best"), ("lies", "complete"), ("follows", "complete")])
def test_a_charter_has_the_noise_of_its_plan(against, graph):
    asked = msgspec.structs.replace(DEMAND, against=against)
    made = noisy(40, guard="active", privacy=asked, graph=graph)
    agreed = charter(made, members(40), expires=4_000_000_000)
    assert agreed.privacy == made.mechanism
    assert (agreed.bits, agreed.min_survivors) == (64, made.min_survivors)
    assert Charter.parse(str(agreed)) == agreed
    assert charters.shortfalls(agreed) == ()
    assert agreed.config(length=made.length).length == made.mechanism.length


def test_a_flattering_charter_is_found_out():
    made = noisy(40, guard="active", privacy=LIES)
    agreed = charter(made, members(40), expires=4_000_000_000)
    noise = agreed.privacy
    more = msgspec.structs.replace(noise, honest=noise.honest + 2)
    stated = msgspec.structs.replace(agreed.certificate, least_honest=noise.honest + 2)
    flattering = msgspec.structs.replace(agreed, privacy=more, certificate=stated)
    assert (
        f"counts on {noise.honest + 2} honest clients in every sum, but the computed number is {noise.honest}"
        in str(charters.shortfalls(flattering))
    )
    sparse = noisy(1000, guard="active", privacy=LIES)
    bold = msgspec.structs.replace(sparse.mechanism, fails=-math.inf)
    found = check(sparse.config(guard="active", charter=bytes(32)), 0.1, 0.05)
    (line,) = charters._flattering(bold, found)
    assert "its noise counts on fails = -inf, but the computed value is" in line


# The command

ASKED = ("plan", "--clients", "1000", "--dropout", "0.1", "--epsilon", "3", "--delta", "1e-6", "--rounds", "100")
NOISE = {
    *("follows", "lies", "per_client", "in_sum", "in_mean", "curator", "ratio", "ratio_if_all_stay", "drowning"),
    *("field_bits", "bytes_each", "mechanism", "offers"),
}


def as_json(*arguments):
    done = run(*ASKED, "--norm", "1.0", "--json", *arguments)
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout, parse_constant=lambda name: pytest.fail(f"{name} is no JSON"))


def test_the_noise_as_json():
    made = as_json()
    noise = made["noise"]
    assert noise.keys() == NOISE
    assert noise["lies"] is None
    assert noise["follows"]["epsilon"] <= 3
    assert noise["follows"]["honest"] == made["min_survivors"] == 852
    assert noise["mechanism"]["dimension"] == 1_000_000
    assert made["bits"] == 64
    assert noise["drowning"] > 1
    assert made["advice"][0].keys() == {"clients"}
    lies = as_json("--guard", "active", "--against", "lies", "--length", "100")
    assert [one["degree"] for one in lies["noise"]["offers"]] == [300, 500, 999]
    assert lies["noise"]["offers"][0].keys() == {*("graph", "degree", "honest", "ratio", "sent_bytes", "agreements")}
    assert as_json("--graph", "complete", "--guard", "active")["noise"]["mechanism"]["fails"] == -1e9


def test_the_noise_in_words():
    said = " ".join(run(*ASKED, "--norm", "1.0", "--degree", "60").stdout.split())
    assert "harary, 60 neighbours" in said
    for line in (
        "server follows epsilon = 3, by the noise of 852 honest clients",
        "server lies no promise",
        "times the noise of a trusted curator",
        "a parameter takes 10 bits, 1.33 bytes on the wire",
        "too much noise",
        "try --clients",
    ):
        assert line in said
    said = " ".join(run(*ASKED, "--norm", "1", "--guard", "active", "--against", "lies").stdout.split())
    assert "denser graphs have less noise" in said
    assert "server lies epsilon = 3" in said


@pytest.mark.parametrize(
    ("more", "says"),
    [
        ((), "add --norm"),
        (("--norm", "1", "--against", "lies"), "use guard = active"),
        (("--norm", "1", "--against", "him"), "against must be one of follows, lies"),
        (("--norm", "0"), "norm must be a positive number"),
        (("--norm", "1", "--value-bits", "8"), "leave out --value-bits"),
        (("--norm", "1", "--degree", "7"), "even number"),
        (("--norm", "1", "--field-bits", "70"), "bits"),
    ],
)
def test_what_the_command_refuses(more, says):
    done = run(*ASKED, *more)
    assert done.returncode == 2
    assert says in " ".join(done.stderr.split())
    assert "Traceback" not in done.stderr


def test_against_alone_is_no_noise():
    done = run("plan", "--clients", "100", "--against", "lies")
    assert done.returncode == 2
    assert "add --epsilon, --delta, --rounds, --norm" in " ".join(done.stderr.split())


def test_a_charter_with_noise_is_written_and_checked(tmp_path):
    (tmp_path / "admitted.txt").write_text(str(members(20)))
    path = tmp_path / "charter.toml"
    asked = ("--members", str(tmp_path / "admitted.txt"), "--guard", "active", "--against", "lies", "--length", "50")
    noise = ("--epsilon", "8", "--delta", "1e-5", "--rounds", "3", "--norm", "1")
    done = run("plan", *asked, *noise, "--charter", str(path))
    assert done.returncode == 0, done.stderr
    agreed = Charter.load(path)
    assert (agreed.privacy.against, agreed.privacy.rounds, agreed.privacy.dimension) == ("lies", 3, 50)
    assert run("charter", "check", str(path)).returncode == 0
    shown = " ".join(run("charter", "show", str(path)).stdout.split())
    assert "noise epsilon = 8 at delta = 1e-05 if the server lies, for 3 vectors of a client" in shown
    assert f"counts on {agreed.privacy.honest} honest members in every sum" in shown
    told = json.loads(run("charter", "show", str(path), "--json").stdout, parse_constant=pytest.fail)
    assert (told["privacy"]["honest"], told["privacy"]["fails"]) == (agreed.privacy.honest, -1e9)
    honest = f"honest = {agreed.privacy.honest}"
    for before in (f"least_honest = {agreed.certificate.least_honest}", f"\n{honest}"):
        text = path.read_text()
        assert before in text
        path.write_text(text.replace(before, before.rpartition(" ")[0] + f" {agreed.privacy.honest + 1}"))
    done = run("charter", "check", str(path))
    assert done.returncode == 1
    assert f"counts on {agreed.privacy.honest + 1} honest clients in every sum" in done.stderr


# Every sum that can be opened


def least_opened(kind, t, colluders, survivors, clients=10):
    """The fewest honest clients in a part that can be opened, over all V3 of so many or more."""
    graph, colludes = drawn(kind, clients, 3), np.arange(clients) < colluders
    thresholds = Fixed(t=t).of(graph.degrees)
    chosen = (v3 for v3 in every_v3(colludes) if v3.sum() >= survivors)
    return min(int(part.sum()) for v3 in chosen for part in opened_parts(graph, thresholds, colludes, v3))


@pytest.mark.parametrize(("colluders", "survivors"), [(1, 7), (2, 7), (2, 8)])
def test_everyone_with_everyone_has_the_noise_of_all_honest_survivors(colluders, survivors):
    """Whoever chooses the dropouts; the server follows the protocol and opens no sum over fewer."""
    assert least_opened(Complete(), 6, colluders, survivors) == survivors - colluders


def test_in_a_sparse_graph_chosen_dropouts_leave_less():
    assert least_opened(Harary(degree=4), 3, 2, 5) < 5 - 2
