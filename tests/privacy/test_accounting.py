"""Every inequality of docs/privacy.md, in high precision; and the Gaussian part against dp-accounting."""

import math
import random
from functools import cache
from itertools import accumulate

import mpmath as mp
import pytest
from experiments.privacy import known_way
from hypothesis import given
from hypothesis import strategies as st

from ccesa.privacy import accounting
from ccesa.privacy.accounting import R, eta, gaussian_delta, gaussian_epsilon, gaussian_mu, slack
from ccesa.privacy.mechanism import DifferentialPrivacy, choose_mechanism

mp.mp.dps = 60
#: Masses are whole numbers of 2^-BITS.
BITS = 256

#: More than all that is cut off from distributions.
CUT = mp.mpf("1e-50")

DEVIATIONS = (0.6, 0.8, 1.0, 1.2, 1.5, 2.2, 3.1)
SEEDS = range(3)


def normal(x, s):
    """The normal density with standard deviation s."""
    return mp.exp(-((mp.mpf(x) / s) ** 2) / 2) / (s * mp.sqrt(2 * mp.pi))


@cache
def mass(c, s):
    """N(c, s): the normal density around c in 0..1, summed over the integers."""
    far = math.ceil(17 * s + 1)
    return mp.fsum(normal(z - c, s) for z in range(-far, far + 2))


def exact_eta(s):
    return 2 * mp.fsum(mp.exp(-2 * (mp.pi * s * m) ** 2) for m in range(1, 20))


@cache
def log_error(s):
    return -mp.log(1 - exact_eta(s))


@cache
def tau(honest, s):
    """Tau of so many draws, term by term."""
    return honest * log_error(s) + mp.fsum(log_error(s * mp.sqrt(mp.mpf(k) / (k + 1))) for k in range(1, honest))


class Distribution:
    """Masses on the integers from ``first`` on, in units of 2^-BITS."""

    def __init__(self, first, masses):
        self.first, self.masses = first, masses

    @classmethod
    def discrete_gaussian(cls, c, s):
        far = math.ceil(16 * s)
        first = math.floor(c) - far
        masses = [normal(z - c, s) for z in range(first, first + 2 * far + 2)]
        total = mp.fsum(masses)
        return cls(first, [int(mp.ldexp(one / total, BITS)) for one in masses])

    def __add__(self, other):
        """The distribution of the sum of two draws, by multiplying two large numbers."""
        width = (2 * BITS + 32) // 8
        packed = [
            int.from_bytes(b"".join(one.to_bytes(width, "little") for one in part.masses), "little")
            for part in (self, other)
        ]
        count = len(self.masses) + len(other.masses) - 1
        product = (packed[0] * packed[1]).to_bytes(width * (count + 1), "little")
        parts = [product[place * width : (place + 1) * width] for place in range(count)]
        return Distribution(self.first + other.first, [int.from_bytes(one, "little") >> BITS for one in parts])

    def at(self, y):
        place = y - self.first
        return mp.ldexp(self.masses[place], -BITS) if 0 <= place < len(self.masses) else mp.mpf(0)

    def support(self):
        return range(self.first, self.first + len(self.masses))


def centres(seed, count, step=64):
    rng = random.Random(seed)
    return [rng.randrange(-2 * step, 2 * step) / step for _ in range(count)]


def hockey_stick(one, other, epsilon):
    """Delta at epsilon, rounded down by less than 2 CUT: what is likelier than e^epsilon times elsewhere."""
    times = int(mp.ceil(mp.ldexp(mp.exp(epsilon), BITS)))
    theirs = dict(zip(other.support(), other.masses, strict=True))
    over = ((own << BITS) - times * theirs.get(y, 0) for y, own in zip(one.support(), one.masses, strict=True))
    return max(mp.mpf(0), mp.ldexp(sum(found for found in over if found > 0), -2 * BITS) - CUT)


def exact_gaussian_delta(epsilon, mu):
    epsilon, mu = mp.mpf(epsilon), mp.mpf(mu)
    return mp.ncdf(mu / 2 - epsilon / mu) - mp.exp(epsilon) * mp.ncdf(-mu / 2 - epsilon / mu)


# (1) Poisson summation


@pytest.mark.parametrize("s", [0.3, 0.45, 0.6, 0.8, 1.0, 1.2, 1.5, R, 2.2])
def test_the_normal_density_sums_up_to_1_over_the_integers_within_eta(s):
    off = [abs(mass(k / 16, s) - 1) for k in range(17)]
    assert max(off) <= eta(s)
    assert max(off) >= eta(s) * 0.8  # nothing smaller would do


@pytest.mark.parametrize("s", [0.01, 0.2, *DEVIATIONS, 4.0, 4.49, 4.51, 8.0, 32.0])
def test_eta_is_above_its_series_and_hardly(s):
    assert eta(s) >= min(1, exact_eta(s))
    if 0.6 <= s <= 4.5:
        assert eta(s) <= exact_eta(s) * (1 + mp.exp(-20 * s**2)) * (1 + 1e-3)


# (2) and (3) One draw, and the sum of H of them


@pytest.mark.parametrize("seed", SEEDS)
@pytest.mark.parametrize("s", DEVIATIONS)
def test_a_sum_of_draws_is_normal_within_tau(s, seed):
    """Centres differ between clients; every sum of 1 to 40 of them is checked."""
    chosen_centres = centres(seed, 40)
    draws = [Distribution.discrete_gaussian(c, s) for c in chosen_centres]
    sums = zip(accumulate(draws), accumulate(chosen_centres), strict=True)
    for honest, (drawn, centre) in enumerate(sums, 1):
        stride = 1 + honest // 8  # they are many
        deviation, most = mp.sqrt(honest) * s, mp.exp(tau(honest, s))
        for y in range(math.floor(centre - 4 * deviation), math.ceil(centre + 4 * deviation) + 1, stride):
            off = drawn.at(y) / normal(y - centre, deviation)
            assert 1 / most - CUT <= off <= most + CUT, (honest, y)


@pytest.mark.parametrize("s", [0.6, 0.8, 1.0, 2.2])
def test_tau_is_needed(s):
    """Of two draws with the worst centres the sum is off by most of it."""
    drawn = Distribution.discrete_gaussian(0.0, s) + Distribution.discrete_gaussian(0.0, s)
    off = [abs(mp.log(drawn.at(y) / normal(y, mp.sqrt(2) * s))) for y in range(-2, 3)]
    assert max(off) >= tau(2, s) / 2


def test_the_product_of_two_normal_densities_is_one_in_z_and_one_in_the_sum():
    rng = random.Random(5)
    for k in (1, 2, 7, 39):
        s, before, c, y, z = (mp.mpf(rng.uniform(0.5, 3)) for _ in range(5))
        part, whole = s * mp.sqrt(mp.mpf(k) / (k + 1)), s * mp.sqrt(k + 1)
        middle = (before + k * (y - c)) / (k + 1)
        left = normal(z - before, mp.sqrt(k) * s) * normal(y - z - c, s)
        assert mp.almosteq(left, normal(y - before - c, whole) * normal(z - middle, part), 1e-40)


# (4) A Gaussian in disguise


def disguised(y, centre, variance, r):
    """The mass at y of D(G, r) with G normal, integrated by the trapezoidal rule, which is exact here."""
    deviation, step = mp.sqrt(variance), mp.mpf(1) / 16
    near = (y * variance + centre * r**2) / (variance + r**2)
    reach = math.ceil(14 * min(r, deviation) * 16)
    points = [mp.nint(near * 16) / 16 + k * step for k in range(-reach, reach + 1)]
    return step * mp.fsum(normal(g - centre, deviation) * normal(y - g, r) / mass(g % 1, r) for g in points)


@pytest.mark.parametrize(("s2", "r"), [(2.0, 0.5), (2.0, 0.7), (6.0, 1.0), (4.84, R), (40.0, R)])
def test_a_discrete_gaussian_around_a_continuous_one_is_normal_within_eta(s2, r):
    off = []
    for centre in (0, mp.mpf(3) / 8, mp.mpf(1) / 2):
        for y in (-2, 0, 1, 4):
            seen = disguised(y, centre, mp.mpf(s2) - mp.mpf(r) ** 2, mp.mpf(r))
            off.append(seen / normal(y - centre, mp.sqrt(s2)))
    assert 1 / (1 + exact_eta(r)) <= min(off)
    assert max(off) <= 1 / (1 - exact_eta(r))
    assert r == R or max(abs(one - 1) for one in off) > 1e-17  # it is there


# (5) Within a factor: what that costs


def distributions(count):
    weights = st.lists(st.floats(0.01, 1), min_size=count, max_size=count)
    return weights.map(lambda found: [one / math.fsum(found) for one in found])


def delta_of(p, q, epsilon):
    return math.fsum(max(0.0, a - math.exp(epsilon) * b) for a, b in zip(p, q, strict=True))


def bent(p, factors):
    """Another distribution, and within which factor e^(+-L) of this one it lies."""
    raw = [a * b for a, b in zip(p, factors, strict=True)]
    found = [one / math.fsum(raw) for one in raw]
    return found, max(abs(math.log(a / b)) for a, b in zip(found, p, strict=True))


@given(distributions(5), distributions(5), st.data())
def test_a_factor_costs_twice_its_logarithm_in_epsilon_and_itself_in_delta(q, other_q, data):
    epsilon = data.draw(st.floats(0, 2))
    factors = st.lists(st.floats(0.5, 2), min_size=5, max_size=5)
    (p, one), (other_p, another) = bent(q, data.draw(factors)), bent(other_q, data.draw(factors))
    within = max(one, another)
    assert delta_of(p, other_p, epsilon + 2 * within) <= math.exp(within) * delta_of(q, other_q, epsilon) + 1e-12


@given(distributions(5), distributions(5), st.data())
def test_a_distance_costs_itself_and_e_to_the_epsilon_times_as_much_in_delta(q, other_q, data):
    epsilon = data.draw(st.floats(0, 2))
    factors = st.lists(st.floats(0.5, 2), min_size=5, max_size=5)
    (p, _), (other_p, _) = bent(q, data.draw(factors)), bent(other_q, data.draw(factors))
    distance = max(delta_of(p, q, 0), delta_of(other_p, other_q, 0))
    claimed = delta_of(q, other_q, epsilon) + (1 + math.exp(epsilon)) * distance
    assert delta_of(p, other_p, epsilon) <= claimed + 1e-12


# Slack


@pytest.mark.parametrize("s", [0.9, 1.2, 2.2, 3.0])
@pytest.mark.parametrize("honest", [1, 2, 3, 17, 64, 65, 300, 1000])
def test_slack_is_above_the_direct_sum_and_hardly(honest, s):
    direct = 1000 * (tau(honest, s) + log_error(R))
    rounded = (1 + eta(s / math.sqrt(2))) * (1 + 1e-9)  # eta's series is bounded by a geometric one
    assert direct <= slack(honest, s, 1000) <= direct * rounded * (1 if honest <= 64 else 8)


def test_where_noise_is_too_narrow_the_slack_says_so():
    assert slack(1, 0.1, 1) == slack(2, 0.1, 1) == slack(100, 0.1, 1) == math.inf
    assert slack(1000, 2.2, 10**8) < 1e-12
    assert slack(1000, 1.0, 10**8) > 1


@given(st.integers(1, 300), st.floats(0.9, 6), st.floats(1, 1e9))
def test_slack_grows_with_clients_and_coordinates_and_falls_with_noise(honest, s, coordinates):
    found = slack(honest, s, coordinates)
    assert slack(honest + 1, s, coordinates) >= found
    assert slack(honest, s, 2 * coordinates) >= found
    assert slack(honest, s * 1.01, coordinates) <= found


# The whole claim, in one dimension


def worlds(honest, s, shift, seed):
    """The sum with one client's centre at ``shift``, and with that client's vector replaced by zero."""
    rest = centres(seed, honest - 1)
    others = [Distribution.discrete_gaussian(c, s) for c in rest]
    return [list(accumulate([Distribution.discrete_gaussian(own, s), *others]))[-1] for own in (shift, 0.0)]


def claimed(epsilon, honest, s, shift):
    within = slack(honest, s, 1)
    mu = shift / math.sqrt(honest * s**2 - R**2)
    return math.exp(within) * gaussian_delta(max(0.0, epsilon - 2 * within), mu)


CASES = [(honest, s, shift) for honest in (1, 2, 3, 12) for s in (2.2, 2.9) for shift in (0.6, 2.5, 9.75)]


@pytest.mark.parametrize(("honest", "s", "shift"), [*CASES, (4, 1.0, 2.5), (9, 1.0, 3.0), (30, 0.9, 4.0)])
def test_exact_privacy_loss_is_below_the_claim(honest, s, shift):
    for seed in SEEDS:
        one, other = worlds(honest, s, shift, seed)
        for epsilon in (0.0, 0.01, 0.1, 0.3, 0.7, 1.0, 2.0, 4.0):
            most = claimed(epsilon, honest, s, shift)
            assert hockey_stick(one, other, epsilon) <= most
            assert hockey_stick(other, one, epsilon) <= most


@pytest.mark.parametrize(("honest", "s", "shift"), [(1, 2.2, 2.5), (1, 2.9, 5.0), (2, 2.2, 5.0), (5, 2.2, 9.75)])
def test_without_what_is_given_away_the_claim_would_be_wrong(honest, s, shift):
    """The Gaussian of variance H s^2 itself promises more than the integers keep."""
    naive = shift / (mp.sqrt(honest) * s)
    one, other = worlds(honest, s, shift, 0)
    grid = [mp.mpf(k) / 20 for k in range(100)]
    broken = [e for e in grid if hockey_stick(one, other, e) > exact_gaussian_delta(e, naive) * (1 + 1e-4)]
    assert broken


# The continuous Gaussian


@given(st.floats(0, 60) | st.floats(0, 0.01), st.floats(-4, 1.5))
def test_delta_is_above_the_exact_one_and_hardly(epsilon, log_mu):
    mu = 10**log_mu
    exact, found = exact_gaussian_delta(epsilon, mu), gaussian_delta(epsilon, mu)
    near = mp.ncdf(mp.mpf(mu) / 2 - mp.mpf(epsilon) / mu)
    assert exact <= found <= exact + 1e-14 * (1 + (mu / 2 + epsilon / mu) ** 2) * near + mp.mpf("1e-180")


@pytest.mark.parametrize("mu", [0.0, 5e-324, 1e-300, 1e-12])
def test_hardly_anything_told_is_hardly_any_delta(mu):
    assert 0 <= gaussian_delta(1.0, mu) < 1e-180
    assert gaussian_epsilon(1e-12, mu) < 1e-9


def test_everything_told_is_no_privacy():
    assert gaussian_delta(1.0, 1e6) == 1
    assert gaussian_delta(1.0, math.inf) == 1
    assert gaussian_epsilon(1e-6, 1e6) == math.inf


@given(st.floats(0.001, 40), st.floats(-11, -1), st.floats(-2.5, 0.7))
def test_epsilon_and_mu_are_the_ends_of_what_holds(epsilon, log_delta, log_mu):
    delta, mu = 10**log_delta, 10**log_mu
    found = gaussian_epsilon(delta, mu)
    assert exact_gaussian_delta(found, mu) <= delta
    assert found == 0 or exact_gaussian_delta(found * (1 - 1e-6) - 1e-9, mu) > delta
    most = gaussian_mu(epsilon, delta)
    assert exact_gaussian_delta(epsilon, most) <= delta
    assert exact_gaussian_delta(epsilon, most * (1 + 1e-6) + 1e-9) > delta


@given(st.floats(0.01, 40), st.floats(0.01, 5), st.floats(1.001, 3))
def test_more_noise_tells_less_and_a_larger_epsilon_needs_less_delta(epsilon, mu, times):
    found = gaussian_delta(epsilon, mu)
    assert gaussian_delta(epsilon, mu * times) >= found * (1 - 1e-9)
    assert gaussian_delta(epsilon * times, mu) <= found * (1 + 1e-9) + 1e-180


# dp-accounting


def test_delta_is_that_of_dp_accounting():
    loss = pytest.importorskip("dp_accounting.pld.privacy_loss_mechanism")
    for mu in (0.05, 0.2, 0.7, 1.0, 2.0, 4.0):
        theirs = loss.GaussianPrivacyLoss(1 / mu)
        for epsilon in (0.0, 0.1, 0.5, 1.0, 3.0, 8.0):
            expected = theirs.get_delta_for_epsilon(epsilon)
            assert gaussian_delta(epsilon, mu) == pytest.approx(expected, rel=1e-6, abs=1e-14)


@pytest.mark.parametrize(("noise", "rounds"), [(10.0, 100), (30.0, 1000), (2.0, 1), (5.0, 16)])
@pytest.mark.parametrize("delta", [1e-9, 1e-6, 1e-3])
def test_rounds_compose_as_in_dp_accounting(noise, rounds, delta):
    """Their privacy loss distributions are rounded up by a little; their Renyi accountant by more."""
    pld = pytest.importorskip("dp_accounting.pld.privacy_loss_distribution")
    one = pld.from_gaussian_mechanism(noise, value_discretization_interval=1e-4)
    theirs = one.self_compose(rounds).get_epsilon_for_delta(delta)
    ours = gaussian_epsilon(delta, math.sqrt(rounds) / noise)
    assert ours == pytest.approx(theirs, rel=2e-3, abs=2e-4)
    import dp_accounting

    renyi = dp_accounting.rdp.RdpAccountant()
    renyi.compose(dp_accounting.GaussianDpEvent(noise), rounds)
    assert ours <= renyi.get_epsilon(delta)


def test_different_rounds_compose_as_in_dp_accounting():
    pld = pytest.importorskip("dp_accounting.pld.privacy_loss_distribution")
    noises = (3.0, 7.0, 20.0)
    one, *others = (pld.from_gaussian_mechanism(noise, value_discretization_interval=1e-4) for noise in noises)
    for other in others:
        one = one.compose(other)
    mu = math.sqrt(math.fsum(1 / noise**2 for noise in noises))
    assert gaussian_epsilon(1e-6, mu) == pytest.approx(one.get_epsilon_for_delta(1e-6), rel=2e-3)


# The known way


EXAMPLE = DifferentialPrivacy(epsilon=8.0, delta=1e-6, rounds=100, norm=1.0)
FEDERATION = {"clients": 1000, "honest": 802, "dimension": 2**20}


def test_the_known_way_needs_more_noise_and_more_bits():
    """In the sum over 900 survivors, beside a trusted curator with tight accounting."""
    ours = choose_mechanism(EXAMPLE, **FEDERATION)
    room = math.sqrt(1 - ours.dimension / 12 / ours.bound**2)  # what rounding to the fine grid needs
    sums, distributed = known_way.Sums(demand=EXAMPLE, **FEDERATION), math.sqrt(900 / 802)
    assert ours.field_bits <= 12
    assert ours.noise(900) / room / ours.curator <= 1.07
    assert known_way.inflation(sums, 12) is known_way.inflation(sums, 14) is None
    assert 1.29 <= known_way.inflation(sums, 16) * distributed <= 1.34
    assert known_way.inflation(sums, 18) * distributed <= 1.14
    assert known_way.inflation(sums, 20) == pytest.approx(1.06, abs=0.005)  # its accounting alone


def test_zero_concentration_is_converted_with_a_loss():
    """A Gaussian with this mu is mu^2 / 2 zero-concentrated, and what follows from that alone is worse."""
    for epsilon, delta in ((1.0, 1e-6), (8.0, 1e-6), (3.0, 1e-9)):
        mu = gaussian_mu(epsilon, delta)
        assert known_way.concentrated_delta(epsilon, mu**2 / 2) > 2 * delta
        assert 1.04 <= mu / math.sqrt(2 * known_way.concentrated(epsilon, delta)) <= 1.08


def test_the_module_is_pure():
    """It has about fifty lines of code, and needs nothing but mathematics."""
    assert {name for name in vars(accounting) if name in ("numpy", "np", "scipy", "msgspec")} == set()
