"""``aggregate(models, privacy=...)`` and simulated rounds with noise: what is in the mean."""

import inspect
import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import ccesa
from ccesa.errors import ConfigError, RoundFailed, VectorError
from ccesa.graphs import Complete
from ccesa.graphs.thresholds import Majority
from ccesa.plan import charters, plan
from ccesa.privacy import DifferentialPrivacy
from ccesa.simulate import Exactly, NoisyVectors, enrol, federate, make_charter, simulate, usual_plan
from ccesa.simulate.enrolment import Enrolment, fresh_account
from strategies import seeds

ASKED = DifferentialPrivacy(epsilon=8.0, delta=1e-5, rounds=4, norm=2.0)
CLIENTS, SIZE = 20, 600


def models(seed: int = 0, clients: int = CLIENTS, size: int = SIZE) -> list[dict[str, np.ndarray]]:
    rng = np.random.default_rng(seed)
    values = rng.normal(size=(clients, size))
    values *= 0.9 * ASKED.norm / np.linalg.norm(values, axis=1, keepdims=True)
    return [{"w": one[:-20].reshape(-1, 20), "b": one[-20:].astype(np.float32)} for one in values]


def flat(model: dict[str, np.ndarray]) -> np.ndarray:
    return np.concatenate([np.ravel(one) for one in model.values()])


@settings(max_examples=5)
@given(seeds, st.integers(0, 3))
def test_the_mean_has_the_noise_that_it_says(seed, gone):
    given = models(seed)
    found = ccesa.aggregate(given, privacy=ASKED, dropout=Exactly({"mask": range(gone)}))
    assert found.survivors == tuple(range(gone, CLIENTS))
    assert found.weight == CLIENTS - gone
    assert found.clipped_by == (0,) * CLIENTS
    error = flat(found.mean) - np.mean([flat(one) for one in given[gone:]], axis=0)
    assert np.sqrt(np.mean(error**2)) == pytest.approx(found.noise, rel=6 / math.sqrt(2 * SIZE))
    assert found.mean["b"].dtype == np.float32
    assert found.report.exact


def test_it_says_what_noise_is_in_it():
    found = ccesa.aggregate(models(), privacy=ASKED)
    planned = plan(CLIENTS, 0.05, length=SIZE, privacy=ASKED)
    assert found.mechanism == planned.mechanism
    assert found.noise == planned.mechanism.noise(CLIENTS) / CLIENTS
    assert 0.99 * ASKED.epsilon < found.epsilon <= ASKED.epsilon
    assert f"noise of {found.noise:.3g} in each coordinate, epsilon 8 over 4 round(s)" in repr(found)
    plain = ccesa.aggregate(models())
    assert (plain.mechanism, plain.noise, plain.epsilon) == (None, 0.0, None)


@pytest.mark.parametrize("privacy", [None, ASKED])
def test_a_model_may_be_one_array(privacy):
    given = np.array([flat(one) for one in models()])
    found = ccesa.aggregate(given, privacy=privacy)
    assert found.mean.shape == (SIZE,)
    apart = 6 * found.noise if privacy else 1e-6
    assert np.abs(found.mean - given.mean(axis=0)).max() < apart
    in_lists = ccesa.aggregate([[one] for one in given], seed=1)
    assert (ccesa.aggregate(given, seed=1).mean == in_lists.mean[0]).all()


def test_two_rounds_with_one_seed_have_noise_of_their_own():
    one, other = (ccesa.aggregate(models(), privacy=ASKED, seed=3) for _ in range(2))
    assert one.survivors == other.survivors
    assert np.std(flat(one.mean) - flat(other.mean)) == pytest.approx(math.sqrt(2) * one.noise, rel=0.2)


def test_long_models_are_clipped_to_the_norm():
    given = models()
    given[3] = {name: 1e9 * value for name, value in given[3].items()}
    found = ccesa.aggregate(given, privacy=ASKED)
    assert found.clipped_by == tuple(int(client == 3) for client in range(CLIENTS))
    assert found.clipped == 1
    assert np.linalg.norm(flat(found.mean)) < ASKED.norm + 6 * found.noise * math.sqrt(SIZE)


@pytest.mark.parametrize(
    "other",
    [
        {"weights": [1.0] * CLIENTS},
        {"clip": 1.0},
        {"bits": 8},
        {"precision": 1e-3},
        {"graph": Complete()},
        {"threshold": Majority()},
    ],
    ids=lambda other: next(iter(other)),
)
def test_what_does_not_go_with_noise_is_refused(other):
    with pytest.raises(ConfigError, match=f"^{next(iter(other))} does not go with privacy: every client counts"):
        ccesa.aggregate(models(), privacy=ASKED, **other)


@pytest.mark.parametrize(
    ("asked", "match"),
    [
        (DifferentialPrivacy(epsilon=1, delta=1e-5, rounds=1, norm=1, against="lies"), "use guard = active"),
        ({"epsilon": 1.0}, "privacy: expected DifferentialPrivacy"),
        (8.0, "privacy: expected DifferentialPrivacy"),
        (plan(20, 0.1, length=SIZE, privacy=ASKED).mechanism, "privacy: expected DifferentialPrivacy"),
    ],
)
def test_other_demands_are_refused(asked, match):
    with pytest.raises(ConfigError, match=match):
        ccesa.aggregate(models(), privacy=asked)


@pytest.mark.parametrize("bad", [np.nan, np.inf, -np.inf])
def test_a_model_that_cannot_be_is_refused_with_its_client(bad):
    given = models()
    given[7]["w"][2, 3] = bad
    with pytest.raises(VectorError, match=r"client 7: array 'w' contains NaN or infinity"):
        ccesa.aggregate(given, privacy=ASKED)


def test_models_of_other_sizes_are_refused():
    with pytest.raises(VectorError, match="client 2: the arrays have shapes"):
        ccesa.aggregate([*models()[:2], *models(size=620)[:8]], privacy=ASKED)
    with pytest.raises(ConfigError, match="at least 3 clients"):
        ccesa.aggregate([], privacy=ASKED)


def test_a_round_with_too_few_honest_clients_has_no_mean():
    least = usual_plan(CLIENTS, 0.1, length=SIZE, privacy=ASKED).min_survivors
    with pytest.raises(RoundFailed):
        ccesa.aggregate(models(), privacy=ASKED, dropout=Exactly({"mask": range(CLIENTS - least + 1)}))
    found = ccesa.aggregate(models(), privacy=ASKED, dropout=Exactly({"mask": range(CLIENTS - least)}))
    assert len(found.survivors) == found.mechanism.honest == least


def test_it_says_that_it_keeps_no_ledger():
    assert "no ledger here" in " ".join(inspect.getdoc(ccesa.aggregate).split())


# simulate


def noisy(guard: str, clients: int = 30, against: str = "follows"):
    asked = DifferentialPrivacy(epsilon=8.0, delta=1e-5, rounds=4, norm=2.0, against=against)
    return usual_plan(clients, 0.1, guard=guard, length=4000, privacy=asked)


def test_a_simulated_round_has_the_noise_of_its_plan():
    planned = noisy("curious")
    config = planned.config()
    vectors = NoisyVectors(planned.mechanism, config, seed=5)
    report = simulate(config, vectors, dropout=Exactly({"share": [1], "mask": [3, 4]}), seed=5)
    assert report.exact
    assert report.survivors == 27
    assert vectors.measure(report.result) == pytest.approx(planned.mechanism.noise(27), rel=0.07)


@pytest.mark.parametrize("collusion", [0.0, 0.1])
def test_where_clients_collude_its_rounds_have_the_step_accept(collusion):
    planned = plan(30, 0.1, collusion, length=4000, privacy=ASKED)
    config = planned.config()
    assert config.accept == (collusion > 0)
    assert config.min_survivors - planned.colluders == planned.mechanism.honest


def test_its_models_follow_from_the_seed_and_its_noise_does_not():
    planned = noisy("curious")
    config = planned.config()
    one, other = (NoisyVectors(planned.mechanism, config, seed=5) for _ in range(2))
    assert np.array_equal(one.model(3), other.model(3))
    assert not np.array_equal(one.model(3), one.model(4))
    assert np.array_equal(one(3), one(3))
    assert not np.array_equal(one(3), other(3))


def test_vectors_of_another_round_are_refused():
    planned = noisy("curious")
    other = usual_plan(30, 0.1, length=5000, privacy=planned.mechanism.demand).config()
    with pytest.raises(ConfigError, match="the noise is made for"):
        NoisyVectors(planned.mechanism, other, seed=0)


@pytest.mark.parametrize("against", ["follows", "lies"])
def test_under_a_charter_with_noise_every_simulated_client_has_a_ledger(against):
    planned = noisy("active", against=against)
    federation = _federation(planned)
    config = federation.charter.config(length=planned.length)
    vectors = NoisyVectors(planned.mechanism, config, seed=5)
    report = simulate(config, vectors, seed=5, federation=federation)
    assert report.exact
    assert vectors.measure(report.result) == pytest.approx(planned.mechanism.noise(30), rel=0.07)


def _federation(planned) -> Enrolment:
    return federate(
        planned.clients,
        graph=planned.graph,
        threshold=planned.threshold,
        bits=64,
        least_roster=planned.least_roster,
        min_survivors=planned.min_survivors,
        certificate=charters.state(planned),
        privacy=planned.mechanism,
    )


def test_that_ledger_has_room_for_the_rounds_of_the_charter():
    charter = _federation(noisy("active")).charter
    account = fresh_account(charter)
    for _ in range(ASKED.rounds):
        account.charge(bytes(32), bytes(32))
    with pytest.raises(ccesa.BudgetSpent, match="it is made for no more"):
        account.charge(bytes(32), bytes(32))
    assert fresh_account(make_charter(enrol(3))) is None
