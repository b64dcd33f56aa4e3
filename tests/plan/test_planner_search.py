"""What the planner finds keeps its promises, is monotone in the demands, and is the cheapest there is."""

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from ccesa.agreement.config import RoundConfig
from ccesa.errors import ImpossiblePlan
from ccesa.graphs import Harary
from ccesa.graphs.assumptions import Assumptions
from ccesa.graphs.tails import find_first, find_leftmost
from ccesa.graphs.thresholds import Fixed, Majority
from ccesa.plan import check, plan
from ccesa.plan.certificate import certify
from strategies import examples

fractions = st.floats(0, 0.3)
#: Erdős-Rényi plans of many clients take a second each.
sizes = st.one_of(
    st.fixed_dictionaries({"graph": st.just("erdos-renyi"), "clients": st.integers(3, 300)}),
    st.fixed_dictionaries({"graph": st.sampled_from(["best", "harary", "complete"]), "clients": st.integers(3, 5000)}),
)
others = st.fixed_dictionaries(
    {
        "dropout": fractions,
        "collusion": fractions,
        "guard": st.sampled_from(["curious", "active"]),
        "reliability_bits": st.floats(1, 45),
        "privacy_bits": st.floats(10, 90),
        "exact_dropout": st.booleans(),
    }
)
demands = st.builds(lambda one, other: {**one, **other}, sizes, others)


def planned(demands):
    try:
        return plan(length=10, **demands)
    except ImpossiblePlan:
        return None


@settings(deadline=None, max_examples=examples(30, 80))
@given(demands)
def test_a_plan_keeps_what_it_was_asked_for(demands):
    made = planned(demands)
    if made is None:
        return
    assert made.shortfalls == ()
    assert made.certificate == certify(made.graph, made.threshold, made.assumptions, made.roster)
    assert made.certificate.unreliable <= -demands["reliability_bits"] + 1e-6
    assert made.certificate.privacy(made.guard) <= -demands["privacy_bits"] + 1e-6
    assert made.t > (int(made.degree) + 1) / 2
    if made.colluders > 0:
        assert made.mask_degree == made.degree  # on every edge
        assert made.least_honest >= 2  # nobody can be opened alone
        assert made.least_honest_fails <= -demands["privacy_bits"]
        assert made.around <= made.colluders
    if made.guard == "curious":
        assert made.config().graph == made.graph


@example({"clients": 1000, "dropout": 0.1, "privacy_bits": 41.1276277794123, "reliability_bits": 20})
@example({"clients": 300, "dropout": 0.2, "collusion": 0.1, "reliability_bits": 1.5, "privacy_bits": 0.5})
@example({"clients": 12, "dropout": 0.2, "collusion": 0.3, "guard": "active", "privacy_bits": 1})
@settings(deadline=None, max_examples=examples(15, 30))
@given(st.fixed_dictionaries({"clients": st.integers(3, 400), "dropout": fractions, "collusion": fractions}))
def test_no_plan_falls_short_of_its_own_promise(demands):
    made = planned({"guard": "curious", **demands})
    assert made is None or made.shortfalls == ()


def test_a_privacy_that_a_graph_just_misses_is_no_plan():
    """A circle of 18 masks has 41.13 bits and a bit: what rounding may do is taken off once more."""
    graph, assumptions = Harary(degree=38, mask_degree=18), Assumptions(clients=1000, dropout=0.1)
    bits = -certify(graph, Majority(), assumptions).disconnected
    assert plan(1000, 0.1, privacy_bits=bits).mask_degree == 20
    assert plan(1000, 0.1, privacy_bits=bits - 1e-5).mask_degree == 18


@settings(deadline=None, max_examples=examples(20, 60))
@given(demands, st.data())
def test_asking_for_more_never_gives_a_smaller_degree(demands, data):
    harder = dict(demands)
    name = data.draw(st.sampled_from(["dropout", "collusion", "reliability_bits", "privacy_bits"]))
    most = {"dropout": 0.35, "collusion": 0.35, "reliability_bits": 50.0, "privacy_bits": 100.0}[name]
    little = st.sampled_from([1e-6, 1e-3, 0.01]).map(lambda more: min(demands[name] + more, most))
    harder[name] = data.draw(st.floats(demands[name], most) | little)
    easy, hard = planned(demands), planned(harder)
    if hard is not None:
        assert easy is not None, "the harder demand can be met, so the easier one can"
        assert hard.degree >= easy.degree


@settings(deadline=None, max_examples=examples(12, 40))
@given(demands)
def test_the_thinnest_masks_cannot_be_thinner(demands):
    made = planned({**demands, "guard": "curious", "graph": "harary", "collusion": 0.0})
    if made is None or not isinstance(made.graph, Harary) or made.mask_degree < 4:
        return
    thinner = Harary(degree=made.graph.degree, mask_degree=made.mask_degree - 2)
    certificate = certify(thinner, made.threshold, made.assumptions, made.roster)
    assert certificate.privacy("curious") > -made.privacy_bits - 1e-6


@pytest.mark.parametrize(
    ("clients", "dropout", "collusion", "degree"),
    [(1000, 0.05, 0.05, 54), (5000, 0.1, 0.1, 118), (2000, 0.1, 0.15, 138)],
)
def test_active_plans_that_bisection_missed(clients, dropout, collusion, degree):
    """More neighbours are not always enough: two more with one more t are worse against a lying server."""
    assert plan(clients, dropout, collusion, "active", privacy_bits=40).degree == degree


few = st.fixed_dictionaries(
    {
        "clients": st.integers(10, 250),
        "dropout": st.sampled_from([0.0, 0.003, 0.01, 0.02, 0.05, 0.1, 0.2]),
        "collusion": st.sampled_from([0.0, 0.01, 0.05, 0.1, 0.15, 0.2, 0.3]),
        "guard": st.sampled_from(["curious", "active"]),
        "reliability_bits": st.floats(5, 25),
        "privacy_bits": st.floats(5, 80),
        "exact_dropout": st.booleans(),
    }
)


@example(
    {
        "clients": 200,
        "dropout": 0.01,
        "collusion": 0.1,
        "guard": "active",
        "reliability_bits": 8.309964705557661,
        "privacy_bits": 5.254660491487165,
        "exact_dropout": False,
    }
)
@settings(deadline=None, max_examples=examples(10, 25))
@given(few)
def test_no_circle_with_fewer_neighbours_would_do(demands):
    look_below(demands)


@settings(deadline=None, max_examples=examples(10, 25))
@given(few, st.sampled_from([0.0, 0.003, 0.01, 0.026, 0.05, {"advertise": 0.2}, {"mask": 0.1, "unmask": 0.01}]))
def test_no_circle_with_fewer_neighbours_would_do_for_dropouts_per_step(demands, said):
    kept = {name: value for name, value in demands.items() if name not in ("dropout", "exact_dropout")}
    look_below(kept | {"dropout_per_step": said})


def look_below(demands):
    made = planned({**demands, "graph": "harary"})
    largest = ((int(made.degree) if made else demands["clients"] - 1) - 1) // 2 * 2
    for degree in range(largest, max(0, largest - 30), -2):
        for t in range((degree + 1) // 2 + 1, degree + 1):
            found = certified(degree, t, demands)
            if found.shortfalls and found.shortfalls[0].startswith("reliability"):
                break  # a higher threshold is no more reliable
            assert found.shortfalls, f"{degree} neighbours with t = {t} would do"


def certified(degree, t, demands):
    """What ``check`` says of a circle."""
    majority = t == Majority().of(degree) and demands["collusion"] == 0 and demands["guard"] == "curious"
    config = RoundConfig(
        clients=demands["clients"],
        length=1,
        graph=Harary(degree=degree),
        threshold=Majority() if majority else Fixed(t=t),
        guard=demands["guard"],
        **({"charter": bytes(32)} if demands["guard"] == "active" else {}),
    )
    return check(config, **{name: demands[name] for name in demands if name not in ("clients", "guard")})


@given(st.integers(0, 60), st.integers(-5, 60), st.integers(1, 70))
def test_the_first_is_found_from_wherever_the_search_starts(answer, most, start):
    found = find_first(lambda x: x >= answer, most, start)
    assert found == (max(answer, 1) if 1 <= max(answer, 1) <= most else None)


@given(st.sets(st.integers(1, 200)), st.integers(1, 200))
def test_the_leftmost_is_found_however_few_there_are(answers, high):
    def possible(low, high):
        return any(low <= x <= high for x in answers)

    found = find_leftmost(1, high, lambda x: (x, x) if x in answers else None, possible)
    inside = [x for x in answers if x <= high]
    assert found == ((min(inside), min(inside)) if inside else None)
