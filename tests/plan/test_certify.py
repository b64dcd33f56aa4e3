"""Certificates against the truth: by counting every case of a few clients, and the paper's rows."""

import itertools
import math
from fractions import Fraction

import numpy as np
import pytest
from experiments.one_client import Degrees
from hypothesis import given
from hypothesis import strategies as st
from scipy.special import logsumexp, xlog1py

import enumeration
from ccesa.errors import ConfigError
from ccesa.graphs import Complete, ErdosRenyi, Harary
from ccesa.graphs import erdos_renyi_risks as erdos_renyi
from ccesa.graphs.assignment import draw
from ccesa.graphs.assumptions import Assumptions, Roster
from ccesa.graphs.erdos_renyi_risks import EdgeMasks
from ccesa.graphs.harary_risks import CircleMasks
from ccesa.graphs.per_step import PerStep
from ccesa.graphs.tails import SLACK, log_choose
from ccesa.graphs.thresholds import Fixed, Linear, Majority
from ccesa.plan import plan
from ccesa.plan.certificate import Certificate, certify
from exact import ln, pmf
from experiments import one_client

#: Graphs that can be enumerated, and for how many clients.
GRAPHS = [
    (ErdosRenyi(p=0.8), 5),
    (ErdosRenyi(p=0.7, mask_p=0.4), 5),
    (ErdosRenyi(p=1.0, mask_p=0.6), 4),
    (Harary(degree=2), 7),
    (Harary(degree=4, mask_degree=2), 8),
    (Harary(degree=6, mask_degree=4), 7),
    (Complete(), 6),
    (Complete(mask_degree=2), 6),
    (Complete(mask_p=0.5), 5),
]
THRESHOLDS = [Majority(), Fixed(t=2), Fixed(t=3), Linear(slope=512, base=2)]
FATES = [
    {"dropout": q, "collusion": c, "exact": exact}
    for q, c, exact in itertools.product([0.0, 0.05, 0.3], [0.0, 0.2, 0.4], [False, True])
]
#: Of the truth, where it is a sum of many floats.
ROUNDING = 1e-12


def bound(log2: float) -> float:
    return 2.0**log2


@pytest.mark.parametrize("threshold", THRESHOLDS, ids=repr)
@pytest.mark.parametrize(("graph", "n"), GRAPHS, ids=repr)
def test_holders_counted_one_by_one(graph, n, threshold):
    """For one client the tail is exact; for all together the union bound lies above."""
    for fate in FATES:
        assumptions = Assumptions(clients=n, **fate)
        degrees = Degrees.of(graph, n)
        certificate = certify(graph, threshold, assumptions)
        for own_share in (False, True):
            one, anyone = enumeration.p_unreliable(graph, threshold, assumptions, own_share)
            log = one_client.unreliable(degrees, threshold.of, assumptions, own_share=own_share)
            assert math.exp(log) == pytest.approx(one, rel=1e-9, abs=1e-12)
            assert anyone <= n * math.exp(log) + ROUNDING
        anyone = enumeration.p_unreliable(graph, threshold, assumptions)[1]
        assert anyone <= bound(certificate.unreliable) + ROUNDING


@pytest.mark.parametrize("threshold", THRESHOLDS, ids=repr)
@pytest.mark.parametrize(("graph", "n"), GRAPHS, ids=repr)
def test_colluding_holders_counted_one_by_one(graph, n, threshold):
    for collusion in (0.0, 0.2, 0.4, 0.6):
        assumptions = Assumptions(clients=n, dropout=0.1, collusion=collusion)
        degrees = Degrees.of(graph, n)
        certificate = certify(graph, threshold, assumptions)
        truth = enumeration.p_opened(graph, threshold, assumptions)
        for name in ("exposed", "unmaskable"):
            one, anyone = truth[name]
            log = getattr(one_client, name)(degrees, threshold.of, assumptions)
            assert math.exp(log) == pytest.approx(one, rel=1e-9, abs=1e-12)
            assert anyone <= bound(getattr(certificate, name)) + ROUNDING


@pytest.mark.parametrize(("graph", "n"), GRAPHS, ids=repr)
def test_disconnected_counted_one_by_one(graph, n):
    for fate in FATES:
        assumptions = Assumptions(clients=n, **fate)
        truth = enumeration.p_disconnected(graph, assumptions)
        certified = bound(certify(graph, Majority(), assumptions).disconnected)
        assert truth <= certified + ROUNDING
        if fate["dropout"] < 0.3 and fate["collusion"] < 0.4 and truth > 0:
            assert certified <= 6 * truth  # a union over cuts, which overlap most when clients are few


@pytest.mark.parametrize(("n", "degree"), [(4, 2), (5, 2), (7, 2), (7, 4), (9, 4), (8, 6), (10, 6)])
def test_pairs_of_gaps_in_a_circle_are_counted_exactly(n, degree):
    """The bound is the mean number of pairs of gaps, for each kind of fate; falling apart needs one pair."""
    places, half = np.arange(n), degree // 2
    for fate in FATES:
        assumptions = Assumptions(clients=n, **fate)
        alive, weights = enumeration.survivors(assumptions)
        followers = np.array([alive[:, (places + step) % n] for step in range(1, half + 1)])
        gaps = (alive & ~followers.any(axis=0)).sum(axis=1)
        pairs = float(weights @ (gaps * (gaps - 1) / 2))
        assert math.exp(CircleMasks(degree).log_apart(assumptions)) == pytest.approx(min(1.0, pairs), abs=1e-12)
        apart = enumeration.p_disconnected(Complete(mask_degree=degree), assumptions)
        assert float(weights @ (gaps >= 2)) == pytest.approx(apart, abs=1e-12)


@pytest.mark.parametrize(("n", "degree"), [(4, 4), (5, 4), (8, 7), (7, 6), (3, 2)])
def test_a_circle_that_joins_everyone_cannot_fall_apart(n, degree):
    assert CircleMasks(degree).log_apart(Assumptions(clients=n, dropout=0.5)) == -math.inf


def plain_cuts(assumptions: Assumptions, p: float) -> float:
    """ln of the union over all cuts, term by term over every number of survivors: no groups, no monotony."""
    family, honest = assumptions.honest_survivors
    m, k = np.arange(2, honest + 1)[:, None], np.arange(1, honest // 2 + 1)
    terms = np.where(k <= m // 2, log_choose(m, k) + xlog1py(k * np.maximum(m - k, 0), -p), -np.inf)
    cuts = np.minimum(logsumexp(terms, axis=1), 0.0)
    return float(logsumexp(family.log_pmf(honest, m[:, 0]) + cuts))


@pytest.mark.parametrize("exact", [False, True])
@pytest.mark.parametrize("collusion", [0.0, 0.2])
@pytest.mark.parametrize("dropout", [0.0, 0.1, 0.5, 0.9])
def test_cuts_in_groups_are_never_below_the_plain_sum(dropout, collusion, exact):
    for n, p in itertools.product((3, 20, 200, 400), (0.001, 0.02, 0.1, 0.3, 0.45, 0.55, 0.9)):
        assumptions = Assumptions(clients=n, dropout=dropout, collusion=collusion, exact=exact)
        grouped, plain = EdgeMasks(p).log_apart(assumptions), plain_cuts(assumptions, p)
        assert grouped >= plain - SLACK
        if dropout <= 0.1 and n >= 200:
            # Groups of survivor numbers count as their worst; what lies outside the window as failure.
            assert grouped <= max(0.99 * plain + 0.1, -380)  # a hundredth of the bits at most


@given(
    st.integers(5, 60),
    st.sampled_from([2, 4, 10, 30]),
    st.integers(2, 40),
    st.floats(1e-6, 0.9),
    st.floats(0, 0.9),
    st.booleans(),
)
def test_certificates_of_a_circle_are_above_the_exact_sum_and_just_above(n, degree, t, dropout, collusion, exact):
    """The slack falls on the safe side of exact fractions, and it is all that is added."""
    assumptions = Assumptions(clients=n, dropout=dropout, collusion=collusion, exact=exact)
    certificate = certify(Harary(degree=degree), Fixed(t=t), assumptions)
    d, honest = min(degree, n - 1), max(n - assumptions.colluders, 1)
    fit = d + 1 < 2 * t  # others are left out of the round, which counts as failure
    live = sum(pmf(assumptions.live, d, k) for k in range(min(t, d + 1))) if fit else 1
    colluding = [pmf(assumptions.colluding, d, k) for k in range(d + 1)]
    truth = {
        "unreliable": n * live,
        "exposed": honest * sum(colluding[t - 1 :]),
        "unmaskable": honest * sum(colluding[max(0, 2 * t - d - 1) :]),
    }
    # Where all are neighbours nothing is summed over clients: it is known how many are left, for all at once.
    least = truth | {"unreliable": live if d == n - 1 else n * live}
    for name, union in truth.items():
        certified, most = getattr(certificate, name), ln(Fraction(union)) / math.log(2)
        assert min(ln(Fraction(least[name])) / math.log(2), 0.0) <= certified <= min(most + 2 * SLACK, 0.0)


@pytest.mark.parametrize(
    ("graph", "n"), [(Harary(degree=38), 40), (Harary(degree=10), 16), (Complete(), 16), (Complete(), 40)], ids=repr
)
@pytest.mark.parametrize("threshold", [Majority(), Linear(slope=600, base=1), Fixed(t=12)], ids=repr)
def test_rosters_that_are_too_small_for_a_circle_are_counted(graph, n, threshold):
    """Neighbourhoods and thresholds shrink with the roster, and every colluder is in it."""
    rng, graphs = np.random.default_rng(8), 400
    assumptions = Assumptions(clients=n, dropout=0.3, collusion=0.15)
    roster = Roster(assumptions=assumptions, least=round(0.6 * n))
    certificate = certify(graph, threshold, assumptions, roster)
    for size in {roster.smallest, round(0.8 * n), n}:
        happened = np.zeros(2)
        for _ in range(graphs):
            drawn, bad = draw(graph, rng.bytes(32), np.arange(size)), np.arange(size) < roster.colluders
            held, t = drawn.live_neighbours(bad), threshold.of(drawn.degrees)
            happened += [
                (~bad & (held >= np.maximum(t - 1, 1))).any(),
                (~bad & (drawn.degrees + held + 1 >= 2 * t)).any(),
            ]
        for count, log2 in zip(happened, (certificate.exposed, certificate.unmaskable), strict=True):
            assert count / graphs <= bound(log2) + 4 * math.sqrt(bound(log2) / graphs)


@pytest.mark.parametrize("p", [0.02, 0.1, 0.3])
def test_more_survivors_never_make_a_cut_likelier(p):
    """What a roster of the fewest rests on: the union over all cuts falls with the number of survivors."""
    sizes = np.arange(2, 600)
    logs = erdos_renyi._log_cuts(sizes, p)
    assert (np.diff(logs) <= 1e-9).all()
    assumptions = Assumptions(clients=300, dropout=0.1)
    rosters = (Roster(assumptions=assumptions, least=least, chosen=True) for least in (200, 300))
    few, all_of_them = (EdgeMasks(p).log_apart(assumptions, one) for one in rosters)
    assert few >= all_of_them


def test_what_cannot_happen_is_minus_infinity_and_what_must_is_zero():
    nobody = Assumptions(clients=10, dropout=0.0)
    certificate = certify(Complete(), Majority(), nobody)
    assert set(certificate.as_dict().values()) == {-math.inf}
    assert certificate.privacy() == -math.inf
    certificate = certify(Complete(), Fixed(t=10), nobody)  # nine neighbours
    assert certificate.unreliable == 0
    most = Assumptions(clients=10, dropout=0.0, collusion=0.9)
    certificate = certify(Complete(), Majority(), most)
    assert (certificate.exposed, certificate.unmaskable, certificate.disconnected) == (0, 0, -math.inf)


def test_privacy_sums_what_counts_under_the_guard():
    certificate = Certificate(unreliable=-1, disconnected=-10, exposed=-10, unmaskable=-3)
    assert certificate.privacy() == pytest.approx(-9)
    assert certificate.privacy("active") == pytest.approx(math.log2(2**-9 + 2**-3))
    with pytest.raises(ConfigError, match="guard"):
        certificate.privacy("paranoid")


@pytest.mark.parametrize(("n", "collusion", "degree"), [(1000, 0.0, 18), (1000, 0.1, 26), (100_000, 0.0, 22)])
def test_thinnest_circle_of_masks(n, collusion, degree):
    assumptions = Assumptions(clients=n, dropout=0.1, collusion=collusion)
    for width, enough in ((degree, True), (degree - 2, False)):
        graph = Complete(mask_degree=width)
        assert (certify(graph, Majority(), assumptions).disconnected <= -41) == enough


@pytest.mark.parametrize(("n", "collusion", "mean"), [(1000, 0.0, 38.6), (1000, 0.1, 42.7), (100_000, 0.0, 44.9)])
def test_thinnest_random_masks(n, collusion, mean):
    assumptions = Assumptions(clients=n, dropout=0.1, collusion=collusion)
    for degree, enough in ((mean, True), (mean - 1.5, False)):
        log = ErdosRenyi(p=degree / (n - 1)).masks(n).log_apart(assumptions)
        assert (log + SLACK <= -41 * math.log(2)) == enough


def test_a_row_of_the_papers_table():
    """n = 300, q_total = 0.1, t = 98, p = 0.5136; the paper's protocol sends the client's own share."""
    n, degrees, t = 300, Degrees.of(ErdosRenyi(p=0.5136), 300), Fixed(t=98).of
    assumptions = Assumptions(clients=n, dropout=0.1)
    lost = n * math.exp(one_client.unreliable(degrees, t, assumptions, own_share=True))
    opened = n * math.exp(one_client.unmaskable(degrees, t, assumptions))
    assert lost == pytest.approx(1.4e-4, rel=0.03)
    assert opened == pytest.approx(2.7e-4, rel=0.03)


@pytest.mark.parametrize("q", [1e-30, 1e-17, 2e-16, 1e-12, 1e-6])
@pytest.mark.parametrize("said", ["in all", "in one step"])
def test_dropouts_too_rare_for_one_minus_them_are_counted(q, said):
    """Exactly, in fractions: one minus 10^-17 is one for a float, and no round would ever be lost."""
    graph, n = Harary(degree=4), 12
    if said == "in all":
        assumptions = Assumptions(clients=n, dropout=q)
    else:
        steps = PerStep.of({"unmask": q}, (), confirms=False)
        assumptions = Assumptions(clients=n, dropout=steps.total, per_step=steps)
    gone, needed = Fraction(q), 3 if said == "in all" else 2  # beside its own share, where that is there
    lost = n * sum(math.comb(4, k) * (1 - gone) ** k * gone ** (4 - k) for k in range(needed))
    if said == "in one step":  # those that stay have their own share, those that leave need a third holder
        left = sum(math.comb(4, k) * (1 - gone) ** k * gone ** (4 - k) for k in range(3))
        lost = n * ((1 - gone) * lost / n + gone * left)
    truth = math.log2(lost)
    certified = certify(graph, Majority(), assumptions).unreliable
    assert truth - 1e-6 <= certified <= truth + 1e-4


def test_a_plan_for_a_dropout_that_floats_round_away_says_how_rare_a_lost_round_is():
    made = plan(1000, 1e-17)
    assert (made.degree, made.least_roster) == (2, 1000)
    two_neighbours, anybody = 1000 * 2 * 1e-17, 1000 * 1e-17
    assert made.certificate.unreliable == pytest.approx(math.log2(two_neighbours + anybody), abs=1e-3)
    assert plan(1000, 0.0).certificate.unreliable == -math.inf
