"""Bytes and operations are counted as they happen, and Turbo-aggregate's sums are the plain ones."""

import json
import math
from fractions import Fraction
from itertools import combinations

import numpy as np
import pytest
from experiments.costs import bell, counting, example, field, growth, turbo
from experiments.costs import run as costs
from hypothesis import assume, given, settings
from hypothesis import example as case
from hypothesis import strategies as st

from ccesa.crypto import shamir
from ccesa.errors import ConfigError
from ccesa.graphs import Complete, ErdosRenyi, Harary
from ccesa.graphs.thresholds import Fixed, Majority
from experiments import rounds


def test_costs(monkeypatch, tmp_path):
    monkeypatch.setattr(costs, "QUICK_SIZES", (16, 32))
    monkeypatch.setattr(costs, "QUICK_EXAMPLE", example.Example(n=16, groups=4, lengths=(1, 1000)))
    monkeypatch.setattr(costs, "QUICK_AROUND", ((12, 3, 5),))
    affordable = {"SA": 32, "CCESA": 32, "Bell et al.": 32, "planned": 16}
    monkeypatch.setattr(counting, "AFFORDABLE", affordable)
    costs.main(["--quick", "--output", str(tmp_path)])
    found = json.loads((tmp_path / "results.json").read_text())
    rows = {(row["scheme"], row["n"]): row for row in found["rows"]}
    assert rows.keys() == {(scheme, n) for scheme in ("SA", "Bell et al.", "planned") for n in (16, 32)}, (
        "no p* for so few clients"
    )
    assert rows["planned", 32]["source"] == "model"
    assert rows["SA", 32]["client_agreements"] == 62
    assert rows["SA", 32]["client_keystreams"] == 32
    assert rows["SA", 32]["client_sharing"] == 2 * 17 * 32
    assert found["model_off_by_at_most"]["client_sharing"] == 0
    assert found["exponents"]["SA"]["client_bytes"]["all"] == pytest.approx(1, abs=0.1)
    assert found["exponents"]["CCESA"]["client_bytes"]["all"] is None
    # Equal degrees: the model's bytes are exact.
    assert found["model_off_by_at_most"]["client_bytes"] < 1e-9
    assert counting.counted("SA", 16, 1) == rows["SA", 16], "the same seed, the same round"
    # Masks run on all edges of Bell et al., so it has as many agreements for them as for its shares.
    theirs = rows["Bell et al.", 32]
    assert (theirs["source"], theirs["degree"]) == ("rounds", theirs["mask_degree"])
    assert theirs["client_agreements"] == 2 * theirs["degree"]

    beside = found["turbo_aggregate"]
    assert [row["length"] for row in beside["lengths"]] == [1, 1000]
    assert all(row["Turbo-aggregate"]["exact"] for row in beside["lengths"])
    for scheme in ("SA", "Bell et al.", "planned"):
        short, long = (row[scheme]["sent"] for row in beside["lengths"])
        assert long - short == pytest.approx(4 * 999, abs=8), "the vector once, and nothing else grows"
        assert beside["compared"][scheme]["share"] < 0.5
    assert "CCESA" not in beside["compared"]
    assert beside["around"][0]["exact"]
    assert (tmp_path / "costs.png").stat().st_size > 10_000


def test_secret_sharing_is_counted_as_it_is_done(monkeypatch):
    """What the figures claim, beside the calls that the protocol makes."""
    done = {"split": 0, "join": 0}
    split, join_each = shamir.split, shamir.join_each

    def counting_split(secret, threshold, holders, randomness):
        done["split"] += threshold * holders * secret.size // shamir.SECRET_ELEMENTS
        return split(secret, threshold, holders, randomness)

    def counting_join(xs, shares):
        done["join"] += xs.shape[0] * xs.shape[1] ** 2
        return join_each(xs, shares)

    monkeypatch.setattr(shamir, "split", counting_split)
    monkeypatch.setattr(shamir, "join_each", counting_join)
    found = counting.ran(16, ErdosRenyi(p=0.8), Majority(), 0.0, 1)
    assert counting.sharing(found.result) * 16 == done["split"]
    assert counting.rebuilding(found.result) == done["join"]
    done["join"] = 0
    found = counting.ran(16, Harary(degree=10, mask_degree=6), Majority(), 0.3, 1)
    assert len(found.result.survivors) < 16
    assert counting.rebuilding(found.result) == done["join"]


def test_growth_by_the_papers_rule(monkeypatch):
    """sqrt(n log n), by the model alone."""
    monkeypatch.setattr(counting, "AFFORDABLE", dict.fromkeys(counting.SCHEMES, 0))
    rows = [counting.counted("CCESA", n, 1) for n in (100, 500, 2000)]
    found = growth.exponents(rows)["CCESA"]
    assert found["client_bytes"]["paper"] == pytest.approx(0.57, abs=0.05)
    assert found["client_bytes"]["all"] == pytest.approx(found["client_bytes"]["paper"], abs=0.02)
    assert found["client_bytes"]["rounds"] is None
    # The server opens masks of a fraction of all clients, not of as many as one client has neighbours.
    assert found["server_keystreams"]["paper"] < 1.2
    assert found["server_agreements"]["all"] > 1.5


def test_no_growth_without_points():
    assert growth.exponent([(10, 1.0)]) is None
    assert growth.exponent([(10, 0.0), (20, 3.0)]) is None
    assert growth.exponent([(n, math.sqrt(n)) for n in (10, 20, 40)]) == pytest.approx(0.5)


# Turbo-aggregate


def _vector(number, length=3):
    return field.drawn(np.random.default_rng([5, number]), length)


def _plain(numbers, length=3):
    return sum(_vector(number, length).astype(object) for number in sorted(numbers)) % field.PRIME


@st.composite
def _rounds(draw):
    clients = draw(st.integers(4, 24))
    groups = draw(st.integers(2, clients // 2))
    each = st.frozensets(st.integers(0, clients - 1), max_size=clients // 2)
    gone = draw(st.dictionaries(st.integers(1, groups + 1), each))
    return clients, groups, draw(st.integers(1, 4)), gone, draw(st.integers(0, 99))


@given(_rounds())
def test_a_sum_that_went_around_is_the_plain_one_or_a_group_is_lost(drawn):
    clients, groups, length, gone, seed = drawn
    going = turbo.Round(clients, groups, lambda number: _vector(number, length), length, seed, gone)
    try:
        found = going.ran()
    except turbo.GroupLost:
        found = None
    left = [set(group) - gone.get(stage, frozenset()) for stage, group in enumerate(going._groups, 1)]
    halves = [2 * len(some) >= len(group) for some, group in zip(left, going._groups, strict=True)]
    took_part = set.union(*left[:groups])
    if found is None:
        assert not all(halves[1:]) or not set.union(*left[: groups - 1])
        return
    assert all(halves[1:])
    assert found.included == took_part
    assert (found.vector == _plain(took_part, length)).all()
    assert found.exchanges == groups + 1
    assert sum(found.sent) == found.relayed + found.server - _seeds(clients)
    assert sum(found.received) == found.relayed + _seeds(clients)


def _seeds(clients):
    return clients * (turbo.HEAD.size + turbo.SEED_BYTES)


@pytest.mark.parametrize(("gone", "exact"), [(3, True), (4, False)])
@pytest.mark.parametrize("stage", [2, 3, 4, 5])
def test_half_of_a_group_may_be_gone_and_no_more(stage, gone, exact):
    calm = turbo.Round(24, 4, _vector, 3, 7)
    calm.ran()
    going = turbo.Round(24, 4, _vector, 3, 7, {stage: frozenset(calm._groups[stage - 1][:gone])})
    if exact:
        found = going.ran()
        assert (found.vector == _plain(found.included)).all()
        assert len(found.included) == 24 - (gone if stage < 5 else 0)
    else:
        with pytest.raises(turbo.GroupLost, match=f"group {stage} has 2 of 6 clients left"):
            going.ran()


def test_the_first_group_may_lose_everybody():
    first = frozenset(turbo.Round(12, 3, _vector, 3, 7)._groups[0])
    found = turbo.Round(12, 3, _vector, 3, 7, {1: first}).ran()
    assert found.included == set(range(12)) - first
    assert (found.vector == _plain(found.included)).all()


def test_a_round_of_one_group_or_of_empty_ones_is_refused():
    for groups in (1, 13):
        with pytest.raises(ConfigError, match="groups must be 2 to 12"):
            turbo.Round(12, groups, _vector, 3, 7)


def test_bytes_are_the_vectors_that_the_scheme_sends():
    """Everybody sends four vectors to each of the next group, the first group two, the final one two more."""
    clients, groups, length = 20, 4, 50
    found = turbo.Round(clients, groups, lambda number: _vector(number, length), length, 7).ran()
    size = clients // groups
    vectors = 2 * size * size + (groups - 1) * 4 * size * size + 2 * size
    messages = size * size + (groups - 1) * 2 * size * size + size
    assert sum(found.sent) == vectors * 4 * length + messages * turbo.HEAD.size
    assert found.server == 2 * size * 4 * length + size * turbo.HEAD.size + _seeds(clients)


def test_no_message_shows_a_vector_and_all_shares_together_do():
    client = turbo.Client(0, lambda: _vector(0), np.random.default_rng(1), seed=b"u")
    masked = field.add(_vector(0), turbo.mask(b"u", 3))
    sent = list(client.shares([4, 5, 6]))
    plain = np.stack([message.vectors[0] for message in sent])
    assert not any((vector == masked).any() for message in sent for vector in message.vectors)
    assert (field.total(plain) == np.array([int(x) * 3 % field.PRIME for x in masked])).all()


def test_half_of_the_receivers_have_the_masked_vector_and_the_mask_is_the_servers():
    """They have two points each of a polynomial that is known from as many points as there are receivers."""
    client = turbo.Client(0, lambda: _vector(0), np.random.default_rng(1), seed=b"u")
    sent = list(client.shares([4, 5, 6, 7]))
    for some in combinations(range(4), 2):
        points = {}
        for place in some:
            points |= dict(zip((place + 1, place + 5), sent[place].vectors, strict=True))
        assert (turbo.recovered(points, 4, 1) == field.add(_vector(0), turbo.mask(b"u", 3))).all()


@given(st.lists(st.integers(1, 40), min_size=1, max_size=8, unique=True), st.data())
def test_a_polynomial_is_known_from_any_of_its_points(known, data):
    """Held against whole numbers of Python."""
    wanted = data.draw(st.lists(st.integers(1, 80), min_size=1, max_size=5))
    element = st.integers(0, field.PRIME - 1)
    terms = data.draw(st.lists(element, min_size=len(known), max_size=len(known)))

    def value(point):
        return sum(term * point**power for power, term in enumerate(terms)) % field.PRIME

    values = np.array([[value(point)] for point in known], np.uint32)
    found = field.combined(field.lagrange(tuple(known), tuple(wanted)), values)
    assert found[:, 0].tolist() == [value(point) for point in wanted]


def test_the_chance_of_a_lost_group():
    assert example.lost(100, 10, 0.0) == 0
    alone = sum(math.comb(10, k) * 0.1**k * 0.9 ** (10 - k) for k in range(6, 11))
    assert example.lost(100, 10, 0.1) == pytest.approx(1 - (1 - alone) ** 10)


@pytest.mark.slow
def test_the_papers_example_is_sent_as_its_formula_says():
    found = example.turbo_bytes(*costs.EXAMPLE[:2], costs.EXAMPLE.lengths[-1], 1)
    assert found["exact"]
    assert found["sent_to_formula"] == pytest.approx(1, abs=0.05)


# Bell et al.


def _tail(total, marked, drawn, values):
    """The probability of these numbers of marked ones among those drawn, in whole numbers."""
    ways = sum(math.comb(marked, k) * math.comb(total - marked, drawn - k) for k in values)
    return Fraction(ways, math.comb(total, drawn))


def _works(n, degree, t, colluders, dropouts):
    known = n * _tail(n - 1, colluders, degree, range(t, degree + 1))
    too_few = n * _tail(n - 1, n - 1 - dropouts, degree, range(t))
    apart = math.exp(bell.log_apart(n, degree, colluders + dropouts))
    return max(known, apart) <= Fraction(1, 2**41) and too_few <= Fraction(1, 2**30)


@settings(max_examples=30)
@given(st.integers(5, 70), st.integers(0, 8), st.integers(0, 8))
@case(100, 20, 20)  # decided by the sum over all clients
@case(114, 22, 22)  # by the last bit of reliability
@case(114, 34, 5)  # by the last bit of privacy
def test_bells_degree_is_the_smallest_that_does(n, colluders, dropouts):
    """Held against sums in whole numbers; a threshold that our rounds refuse does not count."""
    assume(colluders + dropouts < n // 2)
    degree, t = bell.choice(n, colluders / n, dropouts / n)
    fits = (
        (k, s)
        for k in range(2, n - 1, 2)
        for s in range((k + 1) // 2 + 1, k + 1)
        if _works(n, k, s, colluders, dropouts)
    )
    assert (degree, t) == next(fits, (n - 1, n // 2 + 1))
    graph = Complete() if degree == n - 1 else Harary(degree=degree)
    rounds.configured([1], n, 1, graph, Fixed(t=t))  # refuses what is unsafe


def test_what_bell_needs_is_what_the_planner_finds_for_the_same_demands():
    """Two programs, the same demands: the planner is at most two neighbours on each side away."""
    for row in growth.same_demands((50, 100, 300, 1000)):
        assert 0 <= row["planned"]["degree"] - row["bell"]["degree"] <= 4
    degrees = [bell.choice(n, 0.1, 0.1).degree for n in (100, 1000, 10**4, 10**8)]
    assert degrees == sorted(degrees)
    assert degrees[-1] < 2 * degrees[1], "it grows with the logarithm"
    assert bell.choice(1000, 0.1, 0.1, eta=50).degree > bell.choice(1000, 0.1, 0.1).degree
    assert bell.choice(1000, 0.1, 0.1, sigma=80).degree > bell.choice(1000, 0.1, 0.1).degree


def test_a_circle_falls_apart_as_seldom_as_said():
    """Every set of removed clients on a small circle, counted."""
    n, degree, removed = 12, 4, 6
    apart = 0
    for gone in combinations(range(n), removed):
        left = [place for place in range(n) if place not in gone]
        gaps = [(after - before) % n for before, after in zip(left, left[1:] + left[:1], strict=True)]
        apart += sum(gap > degree // 2 for gap in gaps) >= 2
    bound = math.exp(bell.log_apart(n, degree, removed))
    assert apart / math.comb(n, removed) <= bound < 3 * apart / math.comb(n, removed)
    assert bell.log_apart(n, degree, 3) == -math.inf


@pytest.mark.parametrize(("bits", "degree"), [(-40.9, 20), (-41.1, 2)])
def test_a_circle_that_falls_apart_too_often_is_not_taken(monkeypatch, bits, degree):
    """With majorities the other conditions decide, so this one is made to."""
    monkeypatch.setattr(bell, "log_apart", lambda n, k, gone: (-99 if k >= 20 else bits) * math.log(2))
    assert bell.choice(100, 0.0, 0.0).degree == degree


def test_where_no_circle_does_the_graph_is_complete(monkeypatch):
    assert bell.choice(10, 0.4, 0.5) == (9, 6)
    monkeypatch.setattr(counting, "GAMMA", 0.8)
    assert counting.chosen("Bell et al.", 10) == (Complete(), Fixed(t=6))
