"""Plans with helpers: a minimum of members, a promise without a probability, and exact bytes."""

import math
from math import comb
from pathlib import Path

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from ccesa.agreement.identity import Admission, Member
from ccesa.errors import ConfigError, ImpossiblePlan
from ccesa.plan import charter, check, plan, plan_helpers
from ccesa.plan.charters import shortfalls
from ccesa.plan.helpers import HelpersRequest
from ccesa.plan.planner import advise
from ccesa.plan.price import Rates, Timing, price_helpers
from ccesa.plan.report import assumed_in_words, compute_figures
from ccesa.privacy import DifferentialPrivacy
from ccesa.simulate import federate, simulate
from experiments import helpers as tables
from rounds import identity

DOCS = Path(__file__).parents[2] / "docs"
NOISE = DifferentialPrivacy(epsilon=8, delta=1e-6, rounds=100, norm=1.0, against="lies")
EXPIRES = 2**40


def admitted(*places: int) -> Admission:
    return Admission(Member(f"site-{place}", identity(place).public) for place in places)


def fewer(clients: int, dropout: float, minimum: int) -> float:
    """The probability that fewer than this number of members answer."""
    stays = 1 - dropout
    return math.fsum(comb(clients, m) * stays**m * dropout ** (clients - m) for m in range(minimum))


demands = st.fixed_dictionaries(
    {"clients": st.integers(3, 60), "dropout": st.sampled_from([0.0, 0.05, 0.1, 0.3])},
    optional={"collusion": st.floats(0, 0.3), "reliability_bits": st.floats(1, 30), "helpers": st.integers(2, 16)},
)


@given(demands)
def test_the_minimum_is_the_largest_that_is_reliable(asked):
    bits = asked.get("reliability_bits", 20)
    try:
        made = plan_helpers(**asked)
    except ImpossiblePlan as error:
        for option in error.options:
            assert plan_helpers(**asked | option)
        assert fewer(asked["clients"], asked["dropout"], 3) > 2**-bits
        return
    lost = fewer(made.clients, asked["dropout"], made.min_survivors)
    assert 2**made.unreliable == pytest.approx(lost, rel=1e-5)
    assert 2**made.unreliable >= lost
    assert made.least_honest == made.min_survivors - made.colluders >= 2
    assert made.colluders == max(1, math.ceil(round(asked.get("collusion", 0.1) * made.clients, 6)))
    if made.notes:
        assert lost > 2**-bits
        assert made.min_survivors == max(3, made.colluders + 2)
    else:
        assert lost <= 2**-bits
        more = made.min_survivors + 1
        assert made.min_survivors == made.clients or fewer(made.clients, asked["dropout"], more) > 2**-bits


def test_what_is_asked_for_is_taken():
    made = plan_helpers(20, min_survivors=16, colluders=3, helpers=4, helping_members=4, exact_dropout=True)
    assert (made.guard, made.min_survivors, made.least_honest, made.helpers) == ("assisted", 16, 13, 4)
    assert made.unreliable == -math.inf  # exactly two of twenty leave
    assert plan_helpers(3, colluders=0, min_survivors=2).least_honest == 2
    assert made.exchanges == {"member": 1, "helper": 3, "series": 2}
    (note,) = plan_helpers(20, min_survivors=16).notes
    assert "sums of at least 16: it is 4.5; try --reliability-bits 4 or --min-survivors 10" in note


@pytest.mark.parametrize(
    ("asked", "says"),
    [
        (
            {"min_survivors": 3},
            "min_survivors = 3 members, of whom 2 may work with the hub, covers fewer than two honest members",
        ),
        ({"min_survivors": 21}, r"min_survivors must lie in 2\.\.20, not 21"),
        ({"min_survivors": 1, "colluders": 0}, r"min_survivors must lie in 2\.\.20, not 1"),
        ({"colluders": 19}, "19 of 20 members may work with the hub, but every sum has to cover two others"),
        ({"colluders": -1}, "-1 of 20 members"),
        ({"colluders": 1, "collusion": 0.1}, "collusion and colluders say the same thing"),
        ({"colluders": 0.5}, "colluders must be a whole number"),
        ({"collusion": 0.95}, "plan for 0 to 18 colluders"),
        ({"helpers": 1}, r"helpers must lie in 2\.\.16, not 1"),
        ({"helpers": 17}, r"helpers must lie in 2\.\.16, not 17"),
        ({"helping_members": 4}, r"helping_members must lie in 0\.\.3, not 4"),
        ({"clients": 2}, "at least 3 clients, not 2"),
        ({"dropout": 1.0}, r"dropout must be a fraction in \[0, 1\)"),
        ({"bits": 12}, "bits must be one of 8, 16, 32, 64"),
        ({"length": 0}, "length must lie in 1"),
        ({"agreement": "rsa"}, "agreement must be one of"),
        ({"reliability_bits": 0}, "reliability_bits must be above 0"),
        ({"field_bits": 8}, "needs privacy"),
        ({"privacy": 3}, "privacy: expected DifferentialPrivacy"),
    ],
)
def test_demands_that_no_helper_can_keep_are_refused(asked, says):
    with pytest.raises(ConfigError, match=says):
        plan_helpers(**{"clients": 20, **asked})


def test_one_helper_is_honest_only_if_more_members_help_than_collude():
    assert plan_helpers(20, colluders=2, helping_members=3).one_must_be_honest
    assert not plan_helpers(20, colluders=2, helping_members=2).one_must_be_honest
    assert "then one of the 3 helpers that are members does not" in assumed_in_words(3, 2)
    assert assumed_in_words(2, 2).startswith(
        "two things: at most 2 members work with the hub, and at least one helper does not"
    )


def test_a_graph_is_not_planned_under_this_guard():
    for asked in (
        lambda: plan(20, 0.1, guard="assisted"),
        lambda: check(federate(5, helpers=2).charter.any_round, 0.1),
    ):
        with pytest.raises(ConfigError, match=r"helpers in place of a graph: use ccesa\.plan\.plan_helpers"):
            asked()


# The advice


@pytest.mark.parametrize("clients", [3, 8, 20])
@pytest.mark.parametrize("guard", ["curious", "active"])
@pytest.mark.parametrize("more", [{}, {"graph": "harary"}, {"privacy_bits": 60.0}, {"collusion": 0.2}])
def test_where_no_graph_keeps_the_demand_helpers_are_named_and_do(clients, guard, more):
    asked = {"guard": guard, "reliability_bits": 20, **more}
    with pytest.raises(ImpossiblePlan, match="or name helpers, --guard assisted --helpers 3") as caught:
        plan(clients, 0.1, **asked)
    said = str(caught.value).split("or name helpers, ")[1]
    fewer_bits = said.split("--reliability-bits ")[1:]
    bits = {"reliability_bits": int(fewer_bits[0].split(":")[0].split()[0])} if fewer_bits else {}
    made = plan_helpers(clients, 0.1, collusion=more.get("collusion"), **{"reliability_bits": 20} | bits)
    assert f"fewer than {made.min_survivors} of {clients} members answer" in said
    assert f"with a probability of 2^{made.unreliable:.1f}" in said


def test_no_helpers_are_named_where_they_would_do_no_better():
    with pytest.raises(ImpossiblePlan) as caught:
        plan(3, 0.1, guard="active", collusion=0.6)
    assert "helpers" not in str(caught.value)
    with pytest.raises(ImpossiblePlan, match=r"--graph best$"):
        plan(1_000_000, 0.45, graph="erdos-renyi")


# The charter


def charter_of(made, helpers=(0, 1, 50), **others):
    return charter(made, admitted(*range(made.clients)), admitted(*helpers), expires=EXPIRES, **others)


def test_the_charter_of_a_plan_has_its_numbers_and_helpers():
    made = plan_helpers(20, min_survivors=16, helping_members=2, agreement="x25519-mlkem768", bits=64)
    agreed = charter_of(made, key_days=3)
    assert [seat.name for seat in agreed.helper_seats] == ["site-0", "site-1", "site-50"]
    assert (agreed.min_survivors, agreed.colluders, agreed.key_days) == (16, 2, 3)
    assert (agreed.agreement, agreed.bits, agreed.guard.name) == ("x25519-mlkem768", 64, "assisted")
    assert agreed.certificate.least_honest == made.least_honest
    assert shortfalls(agreed) == ()
    promise, waits, _ = agreed.promises
    assert promise == (
        "A member's vector is opened only if the hub and all of site-0, site-1 and site-50 work together. Otherwise "
        "every sum covers at least 14 honest members if at most 2 of 20 work with the hub, and the hub learns at most "
        "one sum for each task."
    )
    assert waits == "A round waits while a helper is away, and is lost if one stays away."


@pytest.mark.parametrize(
    ("helpers", "says"),
    [
        (None, "the plan is for 3 helpers, but the list has none"),
        ((0, 1), "the plan is for 3 helpers, but the list has 2"),
        ((0, 1, 2), "the plan is for 2 helpers that are members, but 3 are"),
    ],
)
def test_a_charter_has_the_helpers_of_its_plan(helpers, says):
    made, members = plan_helpers(20, helping_members=2), admitted(*range(20))
    with pytest.raises(ConfigError, match=says):
        charter(made, members, helpers and admitted(*helpers), expires=EXPIRES)
    with pytest.raises(ConfigError, match="this plan has a graph and no helpers"):
        charter(plan(20, 0.1, guard="active"), members, admitted(0, 1, 2), expires=EXPIRES)


# Noise


@given(st.integers(10, 300), st.integers(0, 5), st.sampled_from(["follows", "lies"]))
def test_noise_counts_on_the_minimum_without_the_colluders_under_every_hub(clients, colluders, against):
    privacy = DifferentialPrivacy(epsilon=8, delta=1e-6, rounds=20, norm=1.0, against=against)
    made = plan_helpers(clients, 0.1, colluders=colluders, length=500, privacy=privacy)
    assert made.mechanism.honest == made.least_honest == made.min_survivors - colluders
    assert made.mechanism.fails == -math.inf
    assert made.promise("follows") == made.promise("lies") == (made.least_honest, -math.inf)
    assert made.mechanism.certify() <= 8
    assert (made.length, made.bits) == (made.mechanism.length, 64)
    agreed = charter_of(made, (clients, clients + 1, clients + 2))
    assert agreed.privacy == made.mechanism
    assert "one sum for each task" not in agreed.promises[0]  # a task may come again, and is charged again


def test_a_charter_refuses_noise_that_counts_on_more_than_its_minimum():
    made = plan_helpers(20, 0.1, min_survivors=14, length=50, privacy=NOISE)
    assert made.mechanism.honest == 12
    with pytest.raises(ConfigError, match="counts on 12 honest clients in every sum, but its certificate promises 11"):
        msgspec.structs.replace(charter_of(made, (50, 51, 52)), min_survivors=13)


def test_a_weak_delta_and_the_price_of_reliability_are_noted():
    asked = {"colluders": 1, "length": 10, "privacy": msgspec.structs.replace(NOISE, delta=0.06)}
    delta, lossy = plan_helpers(20, **asked).notes
    assert "delta = 0.06 is not below 1 / 20 clients" in delta
    ratio = [
        compute_figures(made, made.mechanism).ratio
        for made in (plan_helpers(20, reliability_bits=7, **asked), plan_helpers(20, **asked))
    ]
    assert f"the noise is {ratio[0]:.2f} times that of a trusted curator instead of {ratio[1]:.2f} times" in lossy
    notes = plan_helpers(20, min_survivors=10, **asked).notes
    assert notes == (delta,)  # with this minimum fewer bits of reliability save nothing


def test_noise_that_drowns_a_mean_gets_advice_that_helps():
    asked = HelpersRequest(20, length=10_000, privacy=NOISE)
    made = asked.plan()
    options = advise(made, asked)
    assert [set(option) for option in options] == [{"clients"}, {"epsilon"}, {"length"}] or len(options) >= 2
    for option in options:
        changed = asked.change(option)
        assert compute_figures(changed.plan(), changed.plan().mechanism).drowning <= 1


# The price


@pytest.mark.parametrize(
    ("clients", "asked"),
    [
        (5, {"helpers": 2, "length": 3, "bits": 8}),
        (20, {"helpers": 3, "length": 1000}),
        (130, {"helpers": 4, "length": 10, "bits": 64}),
        (12, {"helpers": 16, "length": 70_000, "bits": 16}),
        (9, {"helpers": 3, "length": 40, "agreement": "x25519-mlkem768"}),
    ],
)
def test_the_bytes_are_those_of_a_round(clients, asked):
    made = plan_helpers(clients, **asked)
    federation = federate(clients, helpers=made.helpers, bits=made.bits, agreement=made.agreement)
    played = simulate(federation.charter.config(length=made.length), federation=federation)
    member, helper, hub = made.cost
    assert played.client_bytes == pytest.approx({"sent": member.sent_bytes, "received": member.received_bytes})
    assert played.helper_bytes == pytest.approx({"sent": helper.sent_bytes, "received": helper.received_bytes})
    assert hub.sent_bytes == pytest.approx(clients * member.received_bytes + made.helpers * helper.received_bytes)
    assert hub.received_bytes == pytest.approx(clients * member.sent_bytes + made.helpers * helper.sent_bytes)


def test_operations_are_counted_and_seconds_only_with_rates():
    made = plan_helpers(20, helpers=4, length=1000)
    member, helper, hub = made.cost
    assert (member.agreements, helper.agreements, hub.agreements) == (4, 20, 0)
    assert (member.verifications, helper.verifications, hub.verifications) == (4, 20, 20 + 3 * 4)
    assert (member.keystream_bytes, helper.keystream_bytes, hub.keystream_bytes) == (4 * 4008, 20 * 4008, 0)
    assert {one.seconds for one in made.cost} == {None}
    flat = Timing((0.0, 1.0), (0.0, 0.0))
    idle = Rates(
        **dict.fromkeys(("splitting", "joining", "masking", "taking", "signed_taking"), flat),
        key_pair=0, agreement=0, verification=1, sealing=0, edge=0,
    )  # fmt: skip
    assert [one.seconds for one in price_helpers(made.shape, idle)] == [4, 20, 32]
    with pytest.raises(ConfigError, match="no time for x25519-mlkem768"):
        price_helpers(plan_helpers(20, agreement="x25519-mlkem768").shape, idle)


# The pages


@pytest.mark.parametrize("clients", tables.CLIENTS)
def test_the_table_of_the_planning_page(clients):
    assert tables.row(clients) in (DOCS / "planning.md").read_text()


@pytest.mark.parametrize("clients", tables.NOISY)
def test_the_table_of_noise_under_each_guard(clients):
    assert tables.noise_row(clients) in (DOCS / "privacy.md").read_text()


def test_a_hub_that_lies_costs_hardly_any_noise_with_helpers():
    *_, helped = tables.noises(1_000)
    assert helped.ratio <= 1.08
    made = plan_helpers(20, 0.1, 0.05, length=tables.PARAMETERS, reliability_bits=14, privacy=tables.demand("lies"))
    assert f"`--reliability-bits 14`: {tables.Noise.of(made).ratio:.3f}" in (DOCS / "privacy.md").read_text()


def test_six_of_eight_members_lose_as_many_rounds_as_the_graph():
    made, graph = plan_helpers(8, min_survivors=6), tables.along_graph(8)
    assert made.least_honest == graph.least_honest + 1
    assert made.unreliable == pytest.approx(graph.certificate.unreliable, abs=0.01)


@pytest.mark.parametrize("clients", [*range(4, 10), 34, 35])
def test_graphs_that_the_page_says_there_are(clients):
    made = plan(clients, 0.1, guard="active")
    assert (made.certificate.unreliable <= -20) == (clients >= 35)
