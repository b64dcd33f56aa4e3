"""Tails in logarithms against sums of exact fractions."""

import math
from decimal import Decimal, localcontext
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from ccesa.graphs.assumptions import MAX_PLANNED, Assumptions
from ccesa.graphs.tails import SLACK, Binomial, Hypergeometric, log_at_least, log_below, log_choose, log_falling
from exact import ln, pmf

PI = Decimal("3.14159265358979323846264338327950288419717")
PROBABILITIES = st.floats(0, 1) | st.sampled_from([0.0, 1.0, 1e-300, 1e-9, 0.5, 1 - 2**-53])


@st.composite
def binomials(draw, most=40):
    return Binomial(draw(PROBABILITIES)), draw(st.integers(0, most))


@st.composite
def hypergeometrics(draw, most=60):
    total = draw(st.integers(1, most))
    family = Hypergeometric(total, draw(st.integers(0, total)))
    return family, draw(st.integers(0, total))


def exact_tails(family, draws) -> tuple[list[float], list[float]]:
    """ln P(X < t) and ln P(X >= t) for t = 0 .. draws + 1."""
    below = [Fraction(0)]
    for k in range(draws + 1):
        below.append(below[-1] + pmf(family, draws, k))
    assert below[-1] == 1
    return [ln(value) for value in below], [ln(1 - value) for value in below]


@given(binomials() | hypergeometrics())
def test_both_tails_are_the_exact_sums(case):
    below, at_least = exact_tails(*case)
    assert log_below(*case) == pytest.approx(below, abs=1e-9, rel=0)
    assert log_at_least(*case) == pytest.approx(at_least, abs=1e-9, rel=0)


@given(binomials() | hypergeometrics())
def test_tails_are_monotone_and_complement_each_other(case):
    below, at_least = log_below(*case), log_at_least(*case)
    assert below.size == at_least.size == case[1] + 2
    assert (below[1:] >= below[:-1]).all()
    assert (at_least[1:] <= at_least[:-1]).all()
    assert max(below.max(), at_least.max()) <= 0
    assert np.exp(below) + np.exp(at_least) == pytest.approx(1)


@given(st.integers(1, 60), PROBABILITIES, PROBABILITIES)
def test_a_better_chance_never_makes_fewer_likelier(draws, p, other):
    low, high = Binomial(min(p, other)), Binomial(max(p, other))
    assert (log_below(high, draws) <= log_below(low, draws) + 1e-9).all()
    assert (log_at_least(high, draws) >= log_at_least(low, draws) - 1e-9).all()


@given(st.integers(0, 300), st.lists(st.integers(-3, 303), min_size=1))
def test_log_choose_is_that_of_the_whole_number(n, ks):
    exact = [ln(Fraction(math.comb(n, k))) if k >= 0 else -math.inf for k in ks]
    assert log_choose(n, np.array(ks)) == pytest.approx(exact, abs=1e-9, rel=0)
    assert log_choose(np.full(len(ks), n), np.array(ks)) == pytest.approx(exact, abs=1e-9, rel=0)


def test_tails_far_below_what_a_float_can_hold():
    fair = Binomial(0.5)
    assert log_at_least(fair, 3000)[3000] == pytest.approx(-3000 * math.log(2), abs=1e-8)
    assert log_below(fair, 3000)[1] == pytest.approx(-3000 * math.log(2), abs=1e-8)
    rare = Binomial(2.0**-20)
    few = sum(pmf(rare, 400, k) for k in range(70, 401))
    assert -math.inf < log_at_least(rare, 400)[70] < -300 * math.log(10)
    assert log_at_least(rare, 400)[70] == pytest.approx(ln(few), abs=1e-8)
    urn = Hypergeometric(5000, 500)
    assert log_at_least(urn, 500)[500] == pytest.approx(-math.log(math.comb(5000, 500)), abs=1e-8)
    most = sum(pmf(urn, 500, k) for k in range(450, 501))
    assert log_at_least(urn, 500)[450] == pytest.approx(ln(most), abs=1e-8)


@pytest.mark.parametrize(
    ("total", "good", "draws", "least", "most"),
    [(10, 4, 7, 1, 4), (10, 10, 3, 3, 3), (10, 0, 3, 0, 0), (10, 6, 10, 6, 6), (10, 3, 0, 0, 0), (1, 1, 1, 1, 1)],
)
def test_an_urn_cannot_give_more_than_it_has(total, good, draws, least, most):
    below, at_least = (tail(Hypergeometric(total, good), draws) for tail in (log_below, log_at_least))
    assert (below[: least + 1] == -np.inf).all()
    assert below[most + 1 :] == pytest.approx(0, abs=1e-12)
    assert at_least[: least + 1] == pytest.approx(0, abs=1e-12)
    assert (at_least[most + 1 :] == -np.inf).all()


@pytest.mark.parametrize("total", [10**5, 10**6, 10**7, MAX_PLANNED])
def test_rounding_stays_below_the_slack_for_many_clients(total):
    urn = Hypergeometric(total, total // 10)
    for t in (1, 20, 50, 60):
        exact = sum(pmf(urn, 60, k) for k in range(t, 61))
        assert log_at_least(urn, 60)[t] == pytest.approx(ln(exact), abs=1e-11)
    assumptions = Assumptions(clients=total, dropout=0.1, collusion=0.1, exact=True)
    exact = 1.0
    for i in range(60):
        exact += math.log(total // 10 - i) - math.log(total - i)
    assert assumptions.log_collude(np.array([60]), np.array([0]))[0] == pytest.approx(exact - 1, abs=1e-9)


@pytest.mark.parametrize("n", [10**3, 10**6, MAX_PLANNED])
@pytest.mark.parametrize("share", [1e-6, 0.01, 0.1, 0.5, 0.9, 1.0])
def test_choices_among_very_many_are_known_to_a_fraction_of_the_slack(n, share):
    """Against logarithms of 40 digits."""
    k = max(1, int(share * n))
    with localcontext(prec=40):
        falling = ln_factorial(n) - ln_factorial(n - k)
        exact = falling - ln_factorial(k)
    assert log_choose(n, np.array([k]))[0] == pytest.approx(float(exact), abs=3e-7, rel=0)
    assert log_falling(n, np.array([k]))[0] == pytest.approx(float(falling), abs=5e-7, rel=0)
    assert SLACK >= 2 * 5e-7


def ln_factorial(n: int) -> Decimal:
    """Exactly where that is possible, else by Stirling's series, whose next term is below 1e-20."""
    if n < 1000:
        return Decimal(math.factorial(n)).ln()
    x = Decimal(n)
    series = 1 / (12 * x) - 1 / (360 * x**3) + 1 / (1260 * x**5)
    return x * x.ln() - x + (2 * PI * x).ln() / 2 + series


@given(st.floats(0.5, 2000), st.integers(0, 2000))
def test_falling_factors_of_any_number(n, k):
    if k < n + 1:
        exact = math.fsum(math.log(n - i) for i in range(k) if n - i > 0)
        assert log_falling(n, np.array([k]))[0] == pytest.approx(exact, abs=1e-8, rel=1e-9)


def test_what_the_cache_shares_cannot_be_changed():
    for tail in (log_below, log_at_least):
        assert tail(Binomial(0.25), 8) is tail(Binomial(0.25), 8)
        with pytest.raises(ValueError, match="read-only"):
            tail(Binomial(0.25), 8)[0] = 1.0
