"""Claims of the paper's text: each number against another way to it, and the part from end to end."""

import itertools
import json
import math
from pathlib import Path

import numpy as np
import pytest
from experiments.claims import arbitrary, curves, figure_1, forty, proof, rates, recall, resources, run, running
from experiments.claims.recall import EACH
from hypothesis import given
from hypothesis import strategies as st
from scipy.special import logsumexp
from scipy.stats import binom

from ccesa.plan import paper
from experiments import bounds

KEPT = json.loads((Path(run.__file__).parent / "results.json").read_text())
PLANNING = " ".join((Path(__file__).parents[2] / "docs" / "planning.md").read_text(encoding="utf-8").split())


def dropout(most=0.3):
    return st.floats(0, most)


# Bounds for arbitrary p


@given(st.integers(100, 600), dropout(0.1), st.floats(0, 1))
def test_no_p_above_p_star_is_worse_than_the_worst_jump(n, q_total, place):
    start = paper.p_star(n, q_total)
    p = start + (1 - start) * place
    (here,) = arbitrary.along(n, q_total, [p])
    worst = arbitrary.worst(n, q_total)
    assert here["bound"] <= max(1, worst["bound"]) * (1 + 1e-6)
    assert here["exact"] <= worst["exact"] * (1 + 1e-6)
    assert here["bound"] <= worst["corrected"] * (1 + 1e-9)


@given(st.integers(100, 3000), dropout(), st.floats(0, 1), st.floats(0, 1))
def test_the_corrected_bound_falls_with_p(n, q_total, one, other):
    start = max(0.01, bounds.spread(n) * 3 / ((n - 1) * (1 - 2 * q_total)))
    if start > 1:
        return
    low, high = sorted(start + (1 - start) * place for place in (one, other))
    divergence = [bounds.divergence(arbitrary.unrounded(n, p) / (n - 1), p * (1 - q_total)) for p in (low, high)]
    assert divergence[0] <= divergence[1] + 1e-12


def test_the_place_that_is_known():
    row = arbitrary.worst(300, 0.1)
    assert (round(row["p"], 4), round(row["bound"], 2), row["t"]) == (0.5141, 1.65, 99)
    assert row["exact"] < 1 < row["bound"] < row["corrected"]
    assert row["p_star"] < row["proof_needs"]
    assert f"this is {row['proof_needs']:.3f} in place of p* = {row['p_star']:.3f}" in PLANNING


def test_the_corrected_bound_is_what_the_page_says():
    most = KEPT["arbitrary"]["most_corrected"]
    assert f"at most {most:.2f} times the bound at p* for n from 100 to 1,000" in PLANNING
    assert KEPT["arbitrary"]["most_exact"] < 1  # so that what the paper plots is a bound of the error all the same


def test_the_printed_bound_fails_where_t_is_above_the_mean():
    case = {"n": 40, "p": 0.3, "q_total": 0.1, "t": 21}
    assert arbitrary.as_printed(**case) < math.exp(arbitrary.log_exact(**case)) / 40
    below = {"n": 300, "p": 0.6, "q_total": 0.1, "t": 98}
    assert math.log(arbitrary.as_printed(**below)) == pytest.approx(bounds.log_unreliability(**below))


# Rates


@given(st.integers(20, 500), st.floats(0.05, 0.95), st.data())
def test_a_tail_is_a_tail(draws, p, data):
    t = data.draw(st.integers(1, max(1, int(draws * p))))
    # Summed here: older versions of scipy have no logarithm of a tail below the least float.
    whole = float(logsumexp(binom.logpmf(np.arange(t), draws, p)))
    assert rates.log_tail(draws, p, t) == pytest.approx(whole, rel=1e-9)


@pytest.mark.parametrize("q_total", [0.0, 0.1])
def test_rates_come_near_their_limits(q_total):
    near, far = (rates.unreliable(n, q_total)["rate"] for n in (10**7, 10**5))
    assert rates.limit(q_total) < near < far < 1
    assert near == pytest.approx(rates.limit(q_total), rel=0.01)
    assert f"{rates.limit(q_total):.3f} for a = {1 - q_total:g}" in PLANNING
    private = [rates.not_private(n, q_total)["rate"] for n in (100, 400)]
    assert rates.private_limit(q_total) < private[1] < private[0]


# Recall


@given(st.integers(1, EACH), st.integers(0, EACH))
def test_the_recall_that_was_there_is_among_those_that_tables_imply(members, others):
    accuracy = round(100 * (members + EACH - others) / (2 * EACH), 2)
    precision = round(100 * members / (members + others), 2)
    assert members in recall.possible(accuracy, precision)


# Theorem 2


def test_every_case_of_three_clients_and_what_the_proof_leaves_out():
    (row,) = [row for row in proof.find(3)["rows"] if row["n"] == 3]
    assert row == KEPT["proof"]["rows"][1]
    assert (row["graphs"], row["wrong"]) == (4, 0)
    assert row["no edge leads out"] > 0
    assert row["members alone do not suffice"] > 0


def test_graphs_of_each_shape_are_there_once():
    assert [len(list(proof.graphs(n))) for n in (2, 3, 4)] == [2, 4, 11]


def test_an_edge_that_leads_out_closes_and_a_cut_opens():
    """A chain of three: in one piece nothing is open; without its middle both ends are."""
    chain = next(graph for graph in proof.graphs(3) if sorted(graph.degrees.tolist()) == [1, 1, 2])
    middle = int(chain.degrees.argmax())
    seen = {
        (tuple(case.v3.tolist()), tuple(case.thresholds.tolist())): proof.opened(case)
        for case in proof.cases(chain)
        if case.v2.all()
    }
    whole = [found for (v3, _), found in seen.items() if all(v3)]
    cut = [found for (v3, _), found in seen.items() if not v3[middle] and sum(v3) == 2]
    assert not any(whole)
    assert max(map(len, cut)) == 2


# Costs


def test_forty_clients_drawn_and_exact():
    for q_total in (0.0, 0.1):
        found = forty.by_the_paper(q_total, 2000, np.random.default_rng(1))
        exact = bounds.not_informative(40, 0.4, q_total, 15)
        assert found["not_informative"] == pytest.approx(exact, rel=0.05)
        assert found["reliable"]["high"] < 0.01
    assert forty.T == 15
    assert bounds.not_informative(40, 0.4, 0.0, 15) == pytest.approx(40 * binom.cdf(13, 39, 0.4))
    assert forty.majority_lost(0.0) < 1e-9 < forty.majority_lost(0.1) < 0.01


def test_cost_is_p_times_that_of_sa_and_the_vector_hides_it():
    for n, q_total in itertools.product((100, 1000), (0.0, 0.1)):
        row = resources.row(n, q_total)
        assert row["bytes"] == pytest.approx(row["p"], rel=0.03)
        assert row["bytes"] < row["with_vector"]["running time"] < row["with_vector"]["VGG-11"] < 1
        assert row["factor"] < row["factor_claimed"]


def test_a_smaller_p_is_enough_and_the_next_is_not():
    found = resources.smallest(100, 0.1, step=1e-3)
    assert found["planned"] < found["smallest"] < found["p_star"]
    assert resources.lost(100, found["smallest"], 0.1) <= 0.01 < resources.lost(100, found["smallest"] - 1e-3, 0.1)


def test_figure_1_is_more_than_half():
    found = figure_1.find(1)
    assert found["formula"]["ratio"] == pytest.approx(17 / 31)
    assert all(row["beside_the_vector"] > 0.5 for row in found["real"])


def test_keys_of_both_curves_have_their_sizes_and_agreements_a_time():
    found = curves.find(2)
    assert found["key_bytes"] == {"X25519": {"whole": 32}, "P-256": {"compressed": 33, "whole": 65}}
    assert all(took["agreement"]["median"] > 0 for took in found["microseconds"].values())


# The part


def test_verdicts_are_those_that_are_kept():
    """Numbers that are kept, judged anew; and a number that would change the verdict does."""
    assert run.judged(KEPT) == KEPT["claims"]
    assert running.find() == KEPT["running"]
    assert recall.find() == KEPT["recall"]
    better = {"rows": [row | {"highest": 99.0} for row in KEPT["recall"]["rows"]]}
    assert recall.verdict(better) == "true"
    wrong = {"rows": [row | {"wrong": 1} for row in KEPT["proof"]["rows"]]}
    assert proof.verdict(wrong) == "false as printed"


def test_the_whole_part(monkeypatch, tmp_path):
    monkeypatch.setattr(run, "QUICK", run.QUICK | {"bound_sizes": [100, 101], "rounds": 1, "clients": 2})
    run.main(["--quick", "--output", str(tmp_path)])
    found = json.loads((tmp_path / "results.json").read_text())
    assert [one["name"] for one in found["claims"]] == list(run.CLAIMS)
    assert (tmp_path / "claims.png").stat().st_size > 10_000
