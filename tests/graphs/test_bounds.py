"""The paper's formulas against the paper's numbers, and against simulation."""

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from bench.paper import P_STAR
from ccesa.errors import ConfigError
from ccesa.graphs import ErdosRenyi
from ccesa.graphs.assignment import draw
from ccesa.plan import paper
from experiments import bounds

#: n, q_total, t, p of the running-time table.
ROWS = [
    (100, 0.0, 43, 0.6362),
    (100, 0.1, 51, 0.7953),
    (300, 0.0, 83, 0.4109),
    (300, 0.1, 98, 0.5136),
    (500, 0.0, 112, 0.3327),
    (500, 0.1, 133, 0.4159),
]


@pytest.mark.parametrize(
    ("n", "q_total", "printed"), [(n, q_total, printed) for (n, q_total), printed in P_STAR.items()]
)
def test_p_star_is_the_printed_one(n, q_total, printed):
    assert paper.p_star(n, q_total) == pytest.approx(printed, abs=0.0016)  # some are cut, some rounded


@pytest.mark.parametrize(("n", "q_total", "t", "p"), ROWS)
def test_t_and_p_of_the_running_time_table(n, q_total, t, p):
    assert paper.p_star(n, q_total) == pytest.approx(p, abs=5e-5)
    assert paper.threshold(n, paper.p_star(n, q_total)) == t


def test_p_star_ends_where_it_would_exceed_one():
    assert paper.p_star(55, 0.1) <= 1
    for n in range(3, 55):
        with pytest.raises(ConfigError):
            paper.p_star(n, 0.1)
    with pytest.raises(ConfigError, match="below 1/2"):
        paper.p_star(1000, 0.5)


@given(st.floats(0, 0.99))
def test_q_in_each_step_adds_up_to_q_total(q_total):
    for steps in (4, 5):
        q = paper.step_dropout(q_total, steps)
        assert 1 - (1 - q) ** steps == pytest.approx(q_total, abs=1e-12)


def test_bounds_reach_far_below_what_a_float_can_hold():
    log10 = bounds.log_privacy_error(1000, paper.p_star(1000, 0.1), 0.1) / math.log(10)
    assert -200 < log10 < -100
    assert bounds.log_privacy_error(1000, 1.0, 0.0) < -1e5


def test_privacy_bound_is_the_plain_sum_where_that_can_be_computed():
    n, p, q_total = 12, 0.4, 0.2
    alive = (1 - paper.step_dropout(q_total)) ** 3
    plain = sum(
        math.comb(n, m)
        * alive**m
        * (1 - alive) ** (n - m)
        * min(1, sum(math.comb(m, k) * (1 - p) ** (k * (m - k)) for k in range(1, m // 2 + 1)))
        for m in range(n + 1)
    )
    assert math.exp(bounds.log_privacy_error(n, p, q_total)) == pytest.approx(plain)


def test_privacy_bound_holds_in_simulation():
    rng, n, p, lost = np.random.default_rng(3), 20, 0.25, 0
    for _ in range(2000):
        survivors = np.flatnonzero(rng.random(n) >= 1 - 0.9**0.75)
        graph = draw(ErdosRenyi(p=p), rng.bytes(32), survivors)
        lost += len(graph.mask_components(np.ones(survivors.size, bool))) > 1
    bound = math.exp(bounds.log_privacy_error(n, p, 0.1))
    assert lost / 2000 <= bound + 3 * math.sqrt(bound / 2000)
    assert lost / 2000 > bound / 4


@pytest.mark.parametrize("t", [3, 8, 12])
def test_reliability_bound_is_above_the_exact_binomial_tail(t):
    n, p, q_total = 40, 0.7, 0.1
    alive = p * (1 - q_total)
    exact = n * sum(math.comb(n - 1, k) * alive**k * (1 - alive) ** (n - 1 - k) for k in range(t))
    assert math.exp(bounds.log_unreliability(n, p, q_total, t)) >= min(1, exact)


@given(st.integers(3, 400), st.floats(0.01, 1), st.floats(0, 0.9), st.integers(2, 400))
def test_bounds_are_probabilities(n, p, q_total, t):
    assert bounds.log_unreliability(n, p, q_total, min(t, n)) <= 0
    if n <= 100:
        assert bounds.log_privacy_error(n, p, q_total) <= 0


def test_ccesa_needs_about_three_per_cent_of_turbo_aggregate():
    ours = bounds.paper_bandwidth(n=100, length=10**6, bits=32, key_bits=256, share_bits=256)
    assert ours / bounds.turbo_aggregate_bandwidth(n=100, length=10**6, bits=32, groups=10) == pytest.approx(
        0.025, abs=0.005
    )


def test_bandwidth_of_sa_is_that_of_the_complete_graph():
    assert bounds.client_bandwidth_sa(100, 256, 256) == 2 * 100 * 256 + (5 * 100 - 4) * 256
    assert bounds.server_bandwidth(10, 3, 1, 1, 7) == 10 * (2 * 4 + 16 + 7)


def test_operations_grow_as_in_table_one():
    for degree in (10, 20):
        assert bounds.client_operations(degree, 5) == {
            "agreements": 2 * degree,
            "sharing": degree**2,
            "mask_words": 5 * degree,
        }
    assert bounds.server_operations(100, 10, 5) == {"rebuilding": 10_000, "mask_words": 500}


@pytest.mark.parametrize("call", [paper.threshold, paper.reliability_term, paper.privacy_term])
def test_too_few_clients_are_refused(call):
    with pytest.raises(ConfigError):
        call(2, 0.1)
