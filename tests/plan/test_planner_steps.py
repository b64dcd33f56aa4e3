"""Dropouts per step: certificates against every case, counted rounds and real ones, and plans with them."""

import itertools
import math

import msgspec
import numpy as np
import pytest
from experiments.montecarlo import lost
from hypothesis import example, given, settings
from hypothesis import strategies as st
from scipy.stats import binom

import enumeration
from ccesa.agreement.charter import Charter
from ccesa.agreement.identity import Admission, Member
from ccesa.errors import ConfigError, ImpossiblePlan
from ccesa.graphs import Complete, ErdosRenyi, Harary
from ccesa.graphs.assumptions import Assumptions
from ccesa.graphs.harary_risks import fit_thresholds
from ccesa.graphs.per_step import ORDER, PerStep
from ccesa.graphs.reliability import log_few, log_lost, log_lost_at
from ccesa.graphs.tails import at
from ccesa.graphs.thresholds import Fixed, Linear, Majority
from ccesa.guards import guard_named
from ccesa.plan import charter, charters, check, plan, report
from ccesa.plan.certificate import certify
from ccesa.plan.planner import plan_or_complete
from ccesa.simulate import StepProbabilities, enrol, simulate
from rounds import CONFIGURE, federation_of, steps_under
from strategies import examples

#: Of the truth, where it is a sum of many floats, and of the certificate.
ROUNDING = 1e-9


def people(clients, said, guard="curious", collusion=0.0):
    steps = tuple(step.name for step in steps_under(guard))
    per_step = PerStep.of(said, steps, confirms=not guard_named(guard).dealer_counts)
    return Assumptions(clients=clients, dropout=per_step.total, collusion=collusion, per_step=per_step)


def bound(graph, threshold, assumptions):
    return 2.0 ** certify(graph, threshold, assumptions).unreliable


# Against the truth

#: Graphs that can be enumerated, and for how many clients.
SMALL = [(ErdosRenyi(p=0.7), 4), (Harary(degree=2), 6), (Harary(degree=4), 6), (Complete(), 5), (Complete(), 6)]
SPLITS = [
    0.0,
    0.05,
    {"advertise": 0.2},
    {"share": 0.1, "accept": 0.1},
    {"mask": 0.15, "unmask": 0.01},
    {"advertise": 0.02, "share": 0.01, "accept": 0.03, "mask": 0.1, "unmask": 0.04},
]


@pytest.mark.parametrize("guard", ["curious", "active"])
@pytest.mark.parametrize("threshold", [Majority(), Fixed(t=3), Fixed(t=4), Linear(slope=512, base=2)], ids=repr)
@pytest.mark.parametrize(("graph", "n"), SMALL, ids=repr)
def test_every_case_of_a_few_clients(graph, n, threshold, guard):
    """The union over the clients is exact, and whatever loses a round is in it.

    Where all are neighbours the chance that at most t stay is another bound, and the smaller one counts.
    """
    for said in [*SPLITS, {"confirm": 0.1, "unmask": 0.1}][: None if guard == "active" else -1]:
        assumptions = people(n, said, guard)
        truth, in_vain = enumeration.p_lost(graph, threshold, assumptions)
        certified = bound(graph, threshold, assumptions)
        assert truth <= certified + ROUNDING
        few = math.exp(log_few(assumptions))
        if graph == Complete():
            t = int(fit_thresholds(threshold, np.array([n - 1]))[0])
            in_vain = min(in_vain, float(binom.cdf(t, n, 1 - assumptions.dropout)))
        assert certified == pytest.approx(min(1.0, in_vain + few), rel=1e-5, abs=ROUNDING)


#: The bound is rare but visible, and rounds are lost at least at this fraction of it: neighbours on a circle
#: often fail together, and in a complete graph all do.
VISIBLE = [
    (Harary(degree=14), Majority(), people(1000, 0.03), 0.2),
    (Harary(degree=14, mask_degree=12), Majority(), people(100, 0.04), 0.2),
    (Harary(degree=16), Fixed(t=11), people(100, 0.03), 0.2),
    (Harary(degree=16), Majority(), people(100, {"share": 0.01, "accept": 0.03, "mask": 0.12}), 0.2),
    (Harary(degree=14), Majority(), people(100, 0.035, "active"), 0.25),
    (Harary(degree=16), Fixed(t=11), people(100, 0.025, "active"), 0.2),
    (Harary(degree=18), Majority(), people(22, 0.08), 0.05),
    (ErdosRenyi(p=0.15), Majority(), people(100, 0.026), 0.7),
    (ErdosRenyi(p=0.25), Linear(slope=600, base=2), people(100, 0.026, "active"), 0.7),
    (Complete(), Majority(), people(21, 0.1), 0.03),
    (Complete(), Fixed(t=18), people(30, 0.06, "active"), 0.03),
]


@pytest.mark.parametrize(("graph", "threshold", "assumptions", "fraction"), VISIBLE, ids=str)
def test_rounds_are_lost_below_the_certificate_and_not_far_below(graph, threshold, assumptions, fraction):
    rounds = 8000
    frequency = lost(graph, threshold, assumptions, rounds, np.random.default_rng(1))
    certified = bound(graph, threshold, assumptions)
    assert frequency <= certified + 4 * math.sqrt(certified / rounds)
    assert 1e-3 < frequency < 0.3
    assert frequency >= fraction * certified


@pytest.mark.parametrize(("guard", "accept"), [("curious", False), ("curious", True), ("active", True)])
def test_real_rounds_are_lost_as_often_as_counted_ones(guard, accept):
    n, rounds, said = 12, 80, dict.fromkeys([step.name for step in steps_under(guard, accept)], 0.09)
    graph, threshold = Harary(degree=8), Majority()
    config = CONFIGURE[guard](n, length=1, graph=graph, threshold=threshold, accept=accept)
    outcomes = [
        simulate(config, dropout=StepProbabilities(said), seed=seed, federation=federation_of(config)).outcome
        for seed in range(rounds)
    ]
    counted = lost(graph, threshold, people(n, said, guard), 20_000, np.random.default_rng(2))
    real = sum(outcome not in ("aggregate", "Disconnected") for outcome in outcomes) / rounds
    assert 0.05 < counted < 0.95
    assert real == pytest.approx(counted, abs=4 * math.sqrt(counted * (1 - counted) / rounds))


def test_a_group_of_rosters_counts_as_its_worst(monkeypatch):
    """Fewer groups are never below one for each size."""
    from ccesa.graphs import reliability

    cases = itertools.product([Complete(), Harary(degree=30)], [Majority(), Fixed(t=20)], ["curious", "active"])
    for graph, threshold, guard in cases:
        assumptions = people(40, 0.06, guard)
        fine = bound(graph, threshold, assumptions)
        with monkeypatch.context() as patch:
            patch.setattr(reliability, "_GROUPS", 3)
            assert fine <= bound(graph, threshold, assumptions)


@given(st.integers(1, 3000), st.floats(0, 1), st.sampled_from(["curious", "active"]), st.floats(0.001, 0.1))
def test_one_tail_is_that_of_the_table_or_just_above(degree, part, guard, q):
    """Terms that are not summed are bounded; beyond the mean nothing is promised."""
    assumptions, t = people(3001, q, guard), 1 + round(part * degree)
    table, one = at(log_lost(assumptions, degree), t), log_lost_at(assumptions, degree, t)
    assert one >= table - ROUNDING
    assert one <= table + 1e-6 or t > 0.9 * degree * assumptions.live.mean_fraction


# What is planned


@pytest.mark.parametrize(
    ("said", "demand", "degree", "t"),
    [
        (0.026, {}, 28, 15),
        (0.026, {"collusion": 0.1}, 46, 29),
        (0.026, {"guard": "active"}, 152, 112),
        (0.0209, {"guard": "active"}, 136, 103),
        ({"share": 0.01, "accept": 0.01, "mask": 0.07, "unmask": 0.012}, {}, 34, 18),
        ({"advertise": 0.1}, {}, 24, 13),  # masks stay connected also if they leave later than was said
    ],
)
def test_reference_points(said, demand, degree, t):
    """docs/planning.md has this table; with a tenth in the worst step it is 38, 54 and 158."""
    made = plan(1000, dropout_per_step=said, **demand)
    assert (made.degree, made.t, made.shortfalls) == (degree, t, ())


def test_random_graphs_need_fewer_neighbours_too():
    assert plan(1000, dropout_per_step=0.026, graph="erdos-renyi").degree == pytest.approx(38.5, abs=0.1)


each_step = st.dictionaries(
    st.sampled_from([name for name in ORDER if name != "confirm"]), st.floats(0, 0.15), min_size=1
)


@given(
    st.sampled_from(["curious", "active"]),
    st.sampled_from(["harary", "erdos-renyi"]),
    st.floats(0, 0.2),
    st.one_of(st.floats(0, 0.08), each_step),
)
@settings(deadline=None, max_examples=examples(12, 40))
def test_privacy_rests_on_the_total_alone(guard, graph, collusion, said):
    """Whoever leaves when: the certificate is that of the simple model, in the same roster."""
    assumptions = people(200, said, guard, collusion)
    kind = Harary(degree=40) if graph == "harary" else ErdosRenyi(p=0.2)
    finer = certify(kind, Linear(slope=600, base=2), assumptions)
    simple = certify(
        kind, Linear(slope=600, base=2), Assumptions(clients=200, dropout=assumptions.dropout, collusion=collusion)
    )
    for name in ("disconnected", "exposed", "unmaskable"):
        assert getattr(finer, name) == getattr(simple, name)
    assert finer.unreliable <= max(simple.unreliable + ROUNDING, -200)  # what is left out counts as failure


@given(st.sampled_from([name for name in ORDER if name != "confirm"]), st.floats(0.001, 0.1))
@settings(deadline=None, max_examples=examples(12, 40))
def test_who_leaves_earlier_costs_no_more(name, q):
    """Its neighbours do without its share in any case, and it is unmasked less often."""
    graph, threshold = Harary(degree=20), Majority()
    later = bound(graph, threshold, people(300, {name: q}))
    for earlier in ORDER[: ORDER.index(name)]:
        if earlier != "confirm":
            assert bound(graph, threshold, people(300, {earlier: q})) <= later + ROUNDING


def test_the_least_roster_follows_who_advertises():
    everyone = plan(1000, dropout_per_step={"mask": 0.1}, guard="active")
    assert everyone.notes == ("no dropout is given for advertise, so a round needs all 1,000 clients to start",)
    assert plan(1000, dropout_per_step=0.026, guard="active").notes == ()
    assert plan(1000, dropout_per_step={"mask": 0.1}).least_roster == 1000
    assert plan(1000, dropout_per_step={"advertise": 0.1}).least_roster == plan(1000, 0.1).least_roster


def test_with_colluders_the_least_roster_counts_the_vectors_that_come():
    """What a round insists on is ``min_survivors``: fewer in V3 are lost, as fewer in V1 are."""
    made = plan(1000, dropout_per_step={"mask": 0.1, "unmask": 0.1}, collusion=0.1)
    assert made.least_roster == made.config().min_survivors == 839
    assert binom.cdf(838, 1000, 0.9) <= 2.0**-30 <= binom.cdf(839, 1000, 0.9)
    everyone = plan(1000, dropout_per_step={"unmask": 0.1}, collusion=0.1)
    assert everyone.notes == ("no dropout is given before unmask, so a round needs the vectors of all 1,000 clients",)


demands = st.fixed_dictionaries(
    {
        "clients": st.one_of(st.integers(3, 40), st.integers(3, 400)),
        "dropout_per_step": st.one_of(st.sampled_from([0.0, 0.026, 0.1]), each_step),
        "guard": st.sampled_from(["curious", "active"]),
        "graph": st.sampled_from(["best", "harary", "complete"]),
        "reliability_bits": st.one_of(st.none(), st.sampled_from([10, 20, 40])),
    }
)


@example({"clients": 10, "dropout_per_step": 0.026})
@example({"clients": 30, "dropout_per_step": 0.026, "guard": "active", "reliability_bits": 20})
@example({"clients": 100, "dropout_per_step": {"mask": 0.6}})
@settings(deadline=None, max_examples=examples(8, 20))
@given(demands)
def test_every_demand_has_a_plan_or_options_that_work(demand):
    made, error = attempt(demand)
    if made is not None:
        assert made.shortfalls == ()
        return
    for option in error.options:
        tried, refused = attempt(demand | option)
        assert refused is None
        assert tried.shortfalls == ()


def attempt(demand):
    try:
        return plan(length=1, **demand), None
    except ImpossiblePlan as error:
        return None, error


def test_what_would_work_is_said_as_it_was_asked():
    with pytest.raises(ImpossiblePlan, match=r"dropout .* \(given per step\)") as failure:
        plan(20, dropout_per_step={"mask": 0.1, "unmask": 0.02}, reliability_bits=30)
    (less,) = [option["dropout_per_step"] for option in failure.value.options if "dropout_per_step" in option]
    assert less.keys() == {"mask", "unmask"}
    assert less["mask"] < 0.1
    assert f"--dropout-per-step mask={less['mask']:g},unmask={less['unmask']:g}" in str(failure.value)


def test_the_complete_graph_stands_in_where_nothing_can_be_promised():
    made = plan_or_complete(4, dropout_per_step=0.2)
    assert made.graph == Complete()
    assert made.assumptions.per_step is not None


# What is refused


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ({}, "either dropout"),
        ({"dropout": 0.1, "dropout_per_step": 0.026}, "either dropout"),
        ({"dropout_per_step": 0.026, "exact_dropout": True}, "one fraction for the whole round, not"),
        ({"dropout_per_step": {}}, "it names none"),
        ({"dropout_per_step": {"nap": 0.1}}, "'nap' is not one of them"),
        ({"dropout_per_step": {"confirm": 0.1}}, "no step confirm"),
        *(
            ({"dropout_per_step": said}, r"must be a probability in \[0, 1\)")
            for said in (1, -0.1, math.nan, True, "0.1", {"mask": 1.0}, {"mask": None})
        ),
    ],
)
def test_what_cannot_be_is_refused(arguments, words):
    with pytest.raises(ConfigError, match=words):
        plan(1000, **arguments)


def test_numbers_and_totals_have_to_fit():
    with pytest.raises(ConfigError, match="a number for each of advertise"):
        PerStep(each=(0.1,))
    with pytest.raises(ConfigError, match="the steps add up to"):
        Assumptions(clients=10, dropout=0.1, per_step=PerStep(each=(0.0, 0.0, 0.0, 0.2, 0.0, 0.0)))


@example({"advertise": 5.648762460485742e-15}, 0.5)
@given(each_step, st.floats(0.01, 0.99))
def test_scaled_steps_come_to_the_new_total_or_a_little_less(said, total):
    steps = PerStep.of(said, (), confirms=False)
    if steps.total:
        scaled = steps.scaled(total)
        assert total - 1e-5 <= scaled.total <= total + ROUNDING


def test_every_step_of_a_guard_has_its_place():
    for guard, accept in itertools.product(("curious", "active"), (False, True)):
        names = [step.name for step in steps_under(guard, accept)]
        assert names == [name for name in ORDER if name in names]


# What is told


def test_json_and_words_carry_the_assumption():
    made = plan(1000, dropout_per_step={"share": 0.01, "mask": 0.05})
    told = report.as_json(made)
    assert told["dropout_per_step"] == dict(zip(ORDER, (0.0, 0.01, 0.0, 0.05, 0.0, 0.0), strict=True))
    assert told["dropout"] == pytest.approx(1 - 0.99 * 0.95)
    assert report.as_json(plan(1000, 0.1))["dropout_per_step"] is None
    words = report.dropout_in_words(made.assumptions.dropout, made.assumptions.per_step.each)
    assert words == "0.0595 drop out, step by step (0.01 in share, 0.05 in mask)"


def test_the_price_is_of_those_steps():
    """The server opens masks of those who left in *mask*, and only of them."""
    assert plan(1000, dropout_per_step={"share": 0.1}).cost.server_agreements == 0
    early, late = (plan(1000, dropout_per_step={"mask": q}).cost.server_agreements for q in (0.01, 0.1))
    assert 0 < early < late


def members(count):
    return Admission(Member(f"site-{i}", one.public) for i, one in enumerate(enrol(count)))


def test_a_charter_states_the_steps_and_is_computed_from_them():
    made = plan(60, dropout_per_step=0.02, guard="active")
    agreed = charter(made, members(60), expires=2**40)
    assert agreed.certificate.dropout_per_step == (0.02, 0.02, 0.0, 0.02, 0.02, 0.02)
    assert Charter.parse(str(agreed)) == agreed
    assert charters.shortfalls(agreed) == ()
    total = msgspec.structs.replace(agreed.certificate, dropout_per_step=msgspec.UNSET)
    assert any("unreliable" in line for line in charters.shortfalls(msgspec.structs.replace(agreed, certificate=total)))
    less = msgspec.structs.replace(agreed.certificate, dropout=0.01)
    assert any("dropout" in line for line in charters.shortfalls(msgspec.structs.replace(agreed, certificate=less)))
    simple = charter(plan(60, 0.1, guard="active"), members(60), expires=2**40)
    assert b"dropout_per_step" not in simple.encode()
    assert b"dropout_per_step" in agreed.encode()


@pytest.mark.parametrize("each", [(0.1,), (0.1,) * 7, (0.0,) * 5 + (1.0,), (0.0,) * 5 + (-0.1,), "abcdef"])
def test_a_charter_with_other_steps_is_refused(each):
    stated = charters.state(plan(60, 0.1, guard="active"))
    with pytest.raises(ConfigError, match="dropout_per_step"):
        msgspec.structs.replace(stated, dropout_per_step=each)


def test_a_configuration_is_checked_with_steps():
    config = plan(1000, dropout_per_step=0.026).config()
    assert check(config, dropout_per_step=0.026).shortfalls == ()
    assert [line.split(":")[0] for line in check(config, 0.1).shortfalls] == ["reliability"]
    with_accept = msgspec.structs.replace(config, accept=True)
    assert check(with_accept, dropout_per_step=0.026).assumptions.per_step.each == (*(0.026,) * 4, 0.0, 0.026)
