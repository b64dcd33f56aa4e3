"""The numbers of the noise: what is chosen keeps what is asked for, and what does not keep it is refused."""

import math
from fractions import Fraction

import msgspec
import numpy as np
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from ccesa.errors import ConfigError
from ccesa.privacy import accounting
from ccesa.privacy.mechanism import MAX_SLACK, DifferentialPrivacy, Mechanism, Release, choose_mechanism
from ccesa.privacy.table import tables

ASKED = {"epsilon": 8.0, "delta": 1e-6, "rounds": 100, "norm": 1.0}
#: The example of docs/privacy.md.
MADE = choose_mechanism(DifferentialPrivacy(**ASKED), clients=1000, honest=802, dimension=2**20, fails=-128.0)
FIELDS = msgspec.structs.asdict(MADE)


def with_(**changes) -> Mechanism:
    return Mechanism(**FIELDS | changes)


def demands(epsilon, logs, rounds):
    return st.builds(
        DifferentialPrivacy,
        epsilon=epsilon,
        delta=logs.map(lambda log: 10**log),
        rounds=st.integers(1, rounds),
        norm=st.floats(1e-3, 1e3),
        against=st.sampled_from(["follows", "lies"]),
    )


ANY = demands(st.floats(0.05, 20) | st.floats(1e-6, 0.05) | st.floats(20, 50), st.floats(-12, -2), 10_000)
USUAL = demands(st.floats(0.5, 20), st.floats(-9, -2), 1000)
federations = st.integers(3, 10_000).flatmap(
    lambda clients: st.fixed_dictionaries(
        {
            "clients": st.just(clients),
            "honest": st.integers(1, clients),
            "dimension": st.integers(1, 2**24),
            "fails": st.floats(-200, -60) | st.just(-math.inf),
        }
    )
)


@given(ANY, federations)
def test_what_is_chosen_keeps_what_is_asked_for(demand, federation):
    """Added up here once more, from the numbers of the mechanism alone."""
    try:
        made = choose_mechanism(demand, **federation)
    except ConfigError:
        assume(False)
    assert made.demand == demand
    sensitivity = Fraction(made.bound, 2**made.grid_bits)
    variance = made.honest * made.s2 - Fraction(accounting.R) ** 2
    mu = math.sqrt(demand.rounds * sensitivity**2 / variance)
    within = accounting.slack(made.honest, made.deviation, demand.rounds * made.dimension)
    distance = (27 * made.deviation + 6) * 2.0**-129  # of the table, below
    draws = demand.rounds * made.honest * made.dimension * distance
    delta = (
        math.exp(within) * accounting.gaussian_delta(max(0.0, demand.epsilon - 2 * within), mu)
        + (1 + math.exp(demand.epsilon)) * draws
        + demand.rounds * 2.0 ** federation["fails"]
    )
    assert delta <= demand.delta
    assert made.certify() <= demand.epsilon
    assert made.certify(made.honest + 1) <= made.certify() + 1e-12


@given(USUAL, st.integers(20, 10_000), st.integers(1, 2**20))
def test_usual_demands_are_kept_and_cost_hardly_more_than_a_curator(demand, honest, dimension):
    """The noise in a sum over H: the integers, the grid and the slack cost a percent or so."""
    made = choose_mechanism(demand, clients=honest, honest=honest, dimension=dimension, fails=-128.0)
    room = math.sqrt(1 - made.dimension / 12 / made.bound**2)
    assert 1 <= made.noise(honest) / room / made.curator <= 1.02


@given(st.integers(8, 32))
def test_given_bits_are_taken_or_refused(bits):
    demand = DifferentialPrivacy(**ASKED)
    federation = {"clients": 1000, "honest": 802, "dimension": 2**20}
    if bits < MADE.field_bits:
        with pytest.raises(ConfigError, match=f"fields of {bits} bits are too narrow"):
            choose_mechanism(demand, **federation, field_bits=bits)
    else:
        assert choose_mechanism(demand, **federation, field_bits=bits).field_bits == bits


def test_the_price_of_distributing_at_a_thousand_clients():
    """Nine in ten survive of a thousand, and the noise of 802 is counted on."""
    room = math.sqrt(1 - MADE.dimension / 12 / MADE.bound**2)
    assert MADE.noise(900) / room / MADE.curator <= 1.08
    assert MADE.noise(1000) / room / MADE.curator <= 1.14
    assert MADE.fields.bytes_each <= 1.6


def test_the_table_that_draws_come_from_is_within_the_distance_that_is_counted():
    for variance, grid_bits in ((1240, 6), (1500, 8), (256 * 9, 7), (256 * 1024, 6)):
        made = with_(variance=variance, grid_bits=grid_bits, bound=100)
        counted = made.release_at(made.honest).delta - 2.0**made.fails
        distance = tables(variance, grid_bits).distance
        draws = (1 + math.exp(made.epsilon)) * made.honest * made.dimension
        assert draws * float(distance) < counted < 5 * draws * float(distance)
        assert float(distance) <= (27 * made.deviation + 6) * 2.0**-129


# What cannot be


@pytest.mark.parametrize(
    ("changes", "match"),
    [
        ({"epsilon": 0.0}, "epsilon must lie above 0"),
        ({"epsilon": -1.0}, "epsilon must lie above 0"),
        ({"epsilon": 51.0}, "at most 50"),
        ({"epsilon": math.nan}, "epsilon must lie above 0"),
        ({"epsilon": math.inf}, "epsilon must lie above 0"),
        ({"epsilon": True}, "epsilon must lie above 0"),
        ({"epsilon": "8"}, "epsilon must lie above 0"),
        ({"delta": 0.0}, "delta must be at least"),
        ({"delta": 1e-13}, "delta must be at least"),
        ({"delta": 1.0}, "below 1"),
        ({"delta": 2}, "below 1"),
        ({"delta": math.nan}, "delta must be at least"),
        ({"rounds": 0}, "rounds must lie in 1"),
        ({"rounds": 10**9 + 1}, "rounds must lie in 1"),
        ({"rounds": 1.5}, "rounds must be a whole number"),
        ({"rounds": True}, "rounds must be a whole number"),
        ({"rounds": np.int64(3)}, "rounds must be a whole number"),
        ({"norm": 0}, "norm must be a positive number"),
        ({"norm": -1.0}, "norm must be a positive number"),
        ({"norm": math.nan}, "norm must be a positive number"),
        ({"norm": math.inf}, "norm must be a positive number"),
        ({"norm": 1e-200}, "norm must be a positive number"),
        ({"norm": True}, "norm must be a positive number"),
        ({"against": "maybe"}, "against must be one of follows, lies"),
    ],
)
def test_a_demand_that_cannot_be_is_refused_before_and_with_its_noise(changes, match):
    with pytest.raises(ConfigError, match=match):
        DifferentialPrivacy(**ASKED | changes)
    with pytest.raises(ConfigError, match=match):
        with_(**changes)


@pytest.mark.parametrize(
    ("changes", "match"),
    [
        *(({name: 0}, f"{name} of the noise must lie in 1") for name in ("honest", "dimension", "variance")),
        *(({name: -1}, f"{name} of the noise must lie in 1") for name in ("bound", "grid_bits")),
        *(({name: 2**40}, f"{name} of the noise must lie in 1") for name in ("honest", "dimension", "bound")),
        ({"variance": 2**20 + 1}, "variance of the noise must lie in 1"),
        ({"grid_bits": 13}, "grid_bits of the noise must lie in 1"),
        ({"grid_bits": 8.0}, "grid_bits must be a whole number"),
        ({"honest": True}, "honest must be a whole number"),
        ({"honest": np.int64(802)}, "honest must be a whole number"),
        ({"bound": math.nan}, "bound must be a whole number"),
        ({"dimension": 2**64}, "dimension must lie below"),
        ({"variance": 1239}, "steps, not 2.2"),
        ({"variance": 256 * 1024 + 1}, "steps, not 32"),
        ({"field_bits": 1}, "a field has 2 to 64 bits"),
        ({"field_bits": 65}, "a field has 2 to 64 bits"),
        ({"field_bits": 10.0}, "bits must be a whole number"),
        ({"fails": 0.5}, "fails must be the log2 of a probability"),
        ({"fails": math.nan}, "fails must be the log2 of a probability"),
        ({"fails": "-40"}, "fails must be the log2 of a probability"),
        ({"fails": -(10**400)}, "fails must be the log2 of a probability"),
    ],
)
def test_numbers_that_cannot_be_are_refused(changes, match):
    with pytest.raises(ConfigError, match=match):
        with_(**changes)


@pytest.mark.parametrize(
    "changes",
    [
        {"epsilon": MADE.certify() * (1 - 1e-9)},
        {"delta": 0.9e-6},
        {"rounds": 101},
        {"honest": 801},
        {"variance": MADE.variance - 2},
        {"bound": MADE.bound + 3},
        {"grid_bits": MADE.grid_bits - 1},
        {"fails": -20.0},
    ],
    ids=lambda changes: next(iter(changes)),
)
def test_noise_that_promises_more_than_it_keeps_is_refused(changes):
    with pytest.raises(ConfigError, match=r"this noise gives epsilon = .* it promises"):
        with_(**changes)


def test_noise_whose_slack_is_not_negligible_is_refused():
    """Nobody's noise is that narrow and in so many coordinates but by hand: there is a bound on both."""
    crowded = {"dimension": 2**36, "rounds": 10**9, "variance": 1240, "bound": 1, "grid_bits": 12}
    one = Release(mu2=0.0, delta=0.0, slack=accounting.slack(802, math.sqrt(1240 / 256), 2.0**36))
    assert one.slack * 10**9 > 10 * MAX_SLACK
    with pytest.raises(ConfigError, match=r"the noise is not Gaussian enough: take fewer rounds"):
        with_(**crowded)


@pytest.mark.parametrize(
    ("changes", "match"),
    [
        ({"clients": 0}, "clients must be at least 1"),
        ({"honest": 0}, "honest must be at least 1"),
        ({"dimension": 0}, "dimension must be at least 1"),
        ({"dimension": 2.0}, "dimension must be a whole number"),
        ({"honest": True}, "honest must be a whole number"),
        ({"fails": -20.0}, "more than delta = 1e-06"),
        ({"fails": math.nan}, "fails must be the log2 of a probability"),
        ({"fails": 2000}, "fails must be the log2 of a probability"),
        ({"fails": -(10**400)}, "fails must be the log2 of a probability"),
        ({"fails": None}, "fails must be the log2 of a probability"),
        ({"field_bits": 0}, "a field has 2 to 64 bits"),
        ({"field_bits": "10"}, "bits must be a whole number"),
        ({"field_bits": 4}, "fields of 4 bits are too narrow"),
    ],
)
def test_what_no_noise_can_be_chosen_for_is_refused(changes, match):
    federation = {"clients": 1000, "honest": 802, "dimension": 2**20}
    with pytest.raises(ConfigError, match=match):
        choose_mechanism(DifferentialPrivacy(**ASKED), **federation | changes)


def test_a_hopeless_demand_says_what_would_help():
    demand = DifferentialPrivacy(epsilon=1e-6, delta=1e-9, rounds=10**6, norm=1.0)
    with pytest.raises(ConfigError, match="rounding 1048576 parameters would cost more than"):
        choose_mechanism(demand, clients=20, honest=10, dimension=2**20)


# What releases spend


def test_releases_add_up_to_what_all_rounds_spend():
    one = MADE.release
    total = one.times(100).epsilon(MADE.delta)
    assert total == MADE.certify() <= MADE.epsilon
    assert total > MADE.epsilon * 0.99
    half = one.times(50).epsilon(MADE.delta)
    assert MADE.epsilon / 2 < half < MADE.epsilon * 0.75  # it grows like a root, and more


def test_a_delta_that_is_used_up_leaves_no_epsilon():
    for spent in ((0.0, 1e-6, 0.0), (0.0, 2e-6, 0.0), (1e9, 0.0, 0.0), (1.0, 0.0, math.inf)):
        assert release(*spent).epsilon(1e-6) == math.inf
    assert release(0.0, 0.0, 0.0).epsilon(1e-6) < 1e-9


def release(mu2, delta, slack):
    return Release(mu2=mu2, delta=delta, slack=slack)


@given(st.floats(0, 0.2), st.floats(-6, 0.5))
def test_slack_counts_twice_in_epsilon_and_once_in_delta(slack, log_mu):
    mu = 10**log_mu
    found = release(mu**2, 0.0, slack).epsilon(1e-6)
    exact = accounting.gaussian_epsilon(1e-6 * math.exp(-slack), mu) + 2 * slack
    assert exact * (1 - 1e-9) <= found <= exact * (1 + 1e-9) + 1e-9


def test_fewer_honest_clients_tell_more():
    by = [MADE.certify(honest) for honest in (802, 700, 400, 200, 100)]
    assert by == sorted(by)
    assert by[-1] > 3 * by[0]


def test_the_draws_distance_counts_at_the_epsilon_that_is_claimed():
    """Above its own epsilon a mechanism asks once more, where the distance weighs more."""
    assert MADE.release_at(802, 20.0).delta > MADE.release_at(802).delta
    far = with_(fails=-math.inf)
    claimed = far.certify(100)
    again = far.release_at(100, claimed)
    assert again.times(100).epsilon(far.delta) <= claimed
    assert far.certify(20) == math.inf  # where e^epsilon draws are off by more than delta


def test_the_units_of_the_noise():
    """A vector as long as the norm has the length ``bound`` on the fine grid."""
    doubled = choose_mechanism(
        DifferentialPrivacy(**ASKED | {"norm": 2.0}), clients=1000, honest=802, dimension=2**20, fails=-128.0
    )
    assert doubled.noise(900) == pytest.approx(2 * MADE.noise(900))
    assert doubled.curator == pytest.approx(2 * MADE.curator)
    assert MADE.step * MADE.bound / 2**MADE.grid_bits == pytest.approx(MADE.norm)
    assert MADE.noise(4) == pytest.approx(2 * MADE.deviation * MADE.step)
    assert MADE.length == -(-(2**20) // (64 // MADE.field_bits))


# One encoding


OTHERS = {
    "epsilon": 9.0,
    "delta": 1e-5,
    "rounds": 99,
    "norm": 2.0,
    "against": "lies",
    "honest": 803,
    "dimension": 2**20 - 1,
    "variance": MADE.variance + 1,
    "grid_bits": MADE.grid_bits + 1,
    "bound": MADE.bound - 1,
    "field_bits": MADE.field_bits + 1,
    "fails": -129.0,
    "unit": "record",
}


def test_the_digest_is_over_every_number():
    assert OTHERS.keys() == FIELDS.keys()
    digests = {with_(**{name: value}).digest for name, value in OTHERS.items()}
    assert len(digests | {MADE.digest}) == len(OTHERS) + 1


def test_whole_numbers_and_numpys_floats_are_the_same_numbers():
    asked = {"epsilon": np.float64(8), "norm": 1, "delta": np.float64(1e-6), "fails": -128}
    assert with_(**asked) == MADE
    assert with_(**asked).digest == MADE.digest
    assert with_(norm=np.float32(1)).digest == MADE.digest
    third = DifferentialPrivacy(epsilon=np.float32(8.1), delta=Fraction(1, 3), rounds=3, norm=1)
    assert all(type(getattr(third, name)) is float for name in ("epsilon", "delta", "norm"))
    with pytest.raises(ConfigError, match="delta must be at least 1e-12 and below 1"):
        DifferentialPrivacy(epsilon=1.0, delta=1 - Fraction(1, 10**30), rounds=3, norm=1)  # as a float it is 1


def test_decoding_checks_as_making_does():
    decoder = msgspec.msgpack.Decoder(Mechanism)
    encoded = msgspec.msgpack.encode(MADE)
    assert decoder.decode(encoded) == MADE
    flattering = msgspec.msgpack.encode(msgspec.to_builtins(MADE) | {"epsilon": 1.0})
    with pytest.raises((ConfigError, msgspec.ValidationError), match="not the 1 it promises"):
        decoder.decode(flattering)
