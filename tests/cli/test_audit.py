"""An audit with teeth: no test on real sums beats the certificate, and wrong noise or clipping is caught."""

import numpy as np
import pytest
from experiments.privacy.audit import canaries
from experiments.privacy.audit.clients import CLIENTS
from experiments.privacy.audit.run import mechanism as made_for
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats

from ccesa.privacy.accounting import gaussian_epsilon, gaussian_mu

EPSILON, DELTA = 8.0, 1e-5
WRONG = [name for name in CLIENTS if name != "right"]


@pytest.fixture(scope="module")
def mechanism():
    return made_for(EPSILON)


def audited(mechanism, name, seed):
    """One sum gives the threshold, the other counts: 802 canaries each."""
    encode = CLIENTS[name](mechanism)
    heard = [canaries.listen(mechanism, encode, [seed, number]) for number in range(2)]
    return canaries.audit(*heard, mechanism.delta)


@pytest.mark.parametrize("seed", [1, 2])
def test_no_test_beats_the_certificate(mechanism, seed):
    found = audited(mechanism, "right", seed)
    assert found["canaries"] == 802
    assert 3 < found["epsilon"] < mechanism.certify() <= EPSILON
    assert found["epsilon_plain"] < found["epsilon"]


@pytest.mark.parametrize("name", WRONG)
def test_whatever_is_wrong_is_caught(mechanism, name):
    assert audited(mechanism, name, 1)["epsilon"] > EPSILON


def test_scores_are_what_the_mathematics_says(mechanism):
    """Canaries at four times the norm count as one of the norm, and the noise is the mechanism's."""
    heard = canaries.listen(mechanism, CLIENTS["right"](mechanism), [3])
    deviation = mechanism.noise(mechanism.honest)
    for inside, centre in ((True, 1.0), (False, 0.0)):
        scores = (heard.scores[heard.inside == inside] - centre) / deviation
        assert stats.kstest(scores, "norm").pvalue > 1e-3


# The audit's own arithmetic


@given(st.integers(1, 500), st.data())
def test_bounds_on_a_probability_are_exact(of, data):
    wrong = data.draw(st.integers(0, of))
    found = canaries.upper(wrong, of, 0.995)
    if wrong == of:
        assert found == 1.0
    else:
        assert stats.binom.cdf(wrong, of, found) == pytest.approx(0.005, rel=1e-6)


@given(st.floats(0.1, 6.0), st.floats(0.01, 0.99))
def test_exact_errors_of_a_gaussian_give_its_mu(mu, alarms):
    """Wherever the threshold lies; and the definition alone gives less than the whole curve."""
    errors = canaries.Errors(alarms=alarms, missed=float(stats.norm.cdf(-stats.norm.ppf(alarms) - mu)))
    assert canaries.least_mu(errors) == pytest.approx(mu)
    assert canaries.least_plain(errors, DELTA) <= gaussian_epsilon(DELTA, mu) * (1 + 1e-9)


def test_guesses_bound_nothing():
    rng = np.random.default_rng(1)
    heard = [canaries.Heard(inside=rng.random(802) < 0.5, scores=rng.normal(size=802)) for _ in range(2)]
    found = canaries.audit(*heard, DELTA)
    assert found["mu"] == found["epsilon"] == found["epsilon_plain"] == 0


def test_where_a_single_sum_shows_nothing_the_threshold_still_divides():
    """At epsilon = 1 bounds from 802 canaries may all lie below zero; calling everybody in is no audit."""
    rng, mu = np.random.default_rng(5), gaussian_mu(1.0, DELTA)
    for _ in range(20):
        inside = rng.random(802) < 0.5
        held_out = canaries.Heard(inside=inside, scores=rng.normal(inside * mu))
        called = np.mean(held_out.scores > canaries.audit(held_out, held_out, DELTA)["threshold"])
        assert 0.01 < called < 0.99


def test_bounds_hold_as_often_as_they_say():
    """On exact normal scores with the certificate's own mu: a true bound is beaten once in a hundred."""
    rng, mu, beaten = np.random.default_rng(2), gaussian_mu(EPSILON, DELTA), 0
    for _ in range(100):
        inside = rng.random((2, 802)) < 0.5
        scores = rng.normal(inside * mu)
        heard = [canaries.Heard(inside=inside[k], scores=scores[k]) for k in range(2)]
        beaten += canaries.audit(*heard, DELTA)["mu"] > mu
    assert beaten <= 3
