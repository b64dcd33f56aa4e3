"""The experiment on error probabilities: what is exact is exact, and every lost round counts."""

import itertools
import json
import math
from pathlib import Path
from types import SimpleNamespace

import pytest
from experiments.error_bounds import exact, run

from experiments import bounds

DOCS = Path(__file__).parents[2] / "docs"


def disconnected(m, p):
    """Over all graphs of m nodes."""
    pairs, total = list(itertools.combinations(range(m), 2)), 0.0
    for chosen in itertools.product((False, True), repeat=len(pairs)):
        if not in_one_piece(m, list(itertools.compress(pairs, chosen))):
            total += p ** sum(chosen) * (1 - p) ** (len(pairs) - sum(chosen))
    return total


def in_one_piece(m, edges):
    reached = {0}
    for _ in range(m):
        reached |= {node for edge in edges if reached & set(edge) for node in edge}
    return len(reached) == m


@pytest.mark.parametrize("p", [0.2, 0.6])
def test_graphs_that_fall_apart_are_all_counted(p):
    found = exact.log_disconnected(5, p)
    assert math.exp(found[0]) == math.exp(found[1]) == 0.0
    for m in range(2, 6):
        assert math.exp(found[m]) == pytest.approx(disconnected(m, p))


def test_the_papers_event_over_all_survivors():
    """q_total = 0.5: each of four clients is in V3 with probability 0.5^(3/4)."""
    stay = 0.5**0.75
    weights = [math.comb(4, m) * stay**m * (1 - stay) ** (4 - m) for m in range(5)]
    expected = sum(weights[m] * disconnected(m, 0.3) for m in range(2, 5))
    assert math.exp(exact.log_not_private(4, 0.3, 0.5)) == pytest.approx(expected)


@pytest.mark.parametrize("q_total", run.DROPOUTS)
@pytest.mark.parametrize("n", [100, 300])
def test_no_exact_value_lies_above_the_papers_bound(n, q_total):
    row = run.at_p_star(n, q_total)
    assert row["private_exact"] <= row["private_bound"] + 1e-9
    assert row["unreliable_exact"] <= row["unreliable_bound"]
    assert row["private_certificate"] >= row["private_exact"] - 1e-9


def test_the_looseness_of_the_reliability_bound_is_what_both_pages_say():
    kept = json.loads((Path(run.__file__).parent / "results.json").read_text())["at_p_star"]
    for row in kept[::9]:
        assert row == pytest.approx(run.at_p_star(row["n"], row["q_total"]))
    loose = {
        name: [10 ** (row["unreliable_bound"] - row[f"unreliable_{name}"]) for row in kept]
        for name in ("others", "exact")
    }
    assert [round(edge(values)) for values in loose.values() for edge in (min, max)] == [7, 12, 17, 20]
    for page in ("planning.md", "reproduction.md"):
        text = " ".join((DOCS / page).read_text(encoding="utf-8").split())
        assert "7 to 12 times too large" in text
        assert "17 to 20" in text


def test_a_bound_that_is_loose_where_clients_are_few():
    assert exact.log_not_private(12, 0.3, 0.1) < bounds.log_privacy_error(12, 0.3, 0.1)


def test_every_lost_round_counts(monkeypatch):
    ends = itertools.cycle(["aggregate", "Unreliable", "TooFewClients", "Disconnected", "aggregate"])
    monkeypatch.setattr(run, "simulate", lambda *_, **__: SimpleNamespace(outcome=next(ends), result=None))
    found = run.few_clients(0.8, 10, 100, 1)
    assert found["lost"] == 6
    assert found["outcomes"] == {"aggregate": 4, "Unreliable": 2, "TooFewClients": 2, "Disconnected": 2}


def test_real_rounds_are_lost_for_more_than_one_reason():
    assert {"aggregate", "Unreliable", "TooFewClients"} <= run.outcomes(0.7, 25, 1).keys()


def test_the_whole_part(monkeypatch, tmp_path):
    monkeypatch.setattr(run, "SIZES", (100, 200))
    monkeypatch.setattr(run, "CONNECTIONS", (0.8, 0.9))
    monkeypatch.setattr(run, "QUICK_ROUNDS", 4)
    monkeypatch.setattr(run, "GRAPHS", 1000)
    run.main(["--quick", "--output", str(tmp_path)])
    found = json.loads((tmp_path / "results.json").read_text())
    assert len(found["at_p_star"]) == 8
    assert all(row["lost"] == 4 - row["outcomes"].get("aggregate", 0) for row in found["few_clients"])
    assert (tmp_path / "error_bounds.png").stat().st_size > 10_000
