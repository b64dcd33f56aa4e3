"""The simulator and the five-line way in."""

import numpy as np
import pytest

import ccesa
from ccesa.errors import ConfigError, RoundFailed, TooFewClients, VectorError
from ccesa.graphs import Complete, ErdosRenyi, Harary
from ccesa.simulate import Exactly, Independent, StepProbabilities, simulate, simulation
from rounds import configure, configure_active, federation_of


@pytest.mark.parametrize("threads", [1, 3])
@pytest.mark.parametrize(
    "dropout",
    [Independent(0.1), StepProbabilities({"mask": 0.2}), Exactly({"share": {3, 4}, "unmask": {5}})],
    ids=lambda model: type(model).__name__,
)
def test_every_dropout_model_gives_the_plain_sum(dropout, threads, monkeypatch):
    monkeypatch.setattr(simulation, "helpful_threads", lambda most, size, count: most)
    report = simulate(configure(25, length=50), dropout=dropout, seed=4, threads=threads)
    assert report.outcome == "aggregate"
    assert report.exact


def test_a_report_says_what_it_cost():
    seen = []
    report = simulate(
        configure(20, graph=Harary(degree=8, mask_degree=4), length=100, bits=32),
        seed=1,
        progress=lambda step, done, of: seen.append((step, done, of)),
    )
    assert (report.degree_mean, report.mask_degree_mean) == (8, 4)
    assert report.client_bytes["sent"] == pytest.approx(400 + 8 * (80 + 32) + 3 * 64, abs=400)
    assert report.client_bytes["received"] == pytest.approx(8 * (69 + 32 + 80), abs=400)
    assert all(ms > 0 for ms in report.client_ms.values())
    assert report.server_ms > 0
    assert report.peak_rss_mb > 10
    assert [entry for entry in seen if entry[1] == entry[2]] == [
        (step, 20, 20) for step in ("advertise", "share", "mask", "unmask")
    ]


def test_a_failed_round_is_reported_not_raised():
    report = simulate(configure(10, min_survivors=9), dropout=Exactly({"share": {0, 1}}))
    assert report.outcome == "TooFewClients"
    assert isinstance(report.result, TooFewClients)
    assert (report.survivors, report.exact) == (0, False)


def test_a_round_under_a_charter_needs_a_federation():
    config = configure_active(6)
    with pytest.raises(ConfigError, match=r"guard = active needs a federation: simulate\.federate"):
        simulate(config)
    assert simulate(config, federation=federation_of(config)).exact


def test_exactness_is_checked_not_assumed():
    """A source that changes its mind between sending and checking is found out."""
    state = {"calls": 0}

    def fickle(client):
        state["calls"] += 1
        return np.full(5, state["calls"] > 6, np.uint16)

    report = simulate(configure(6), fickle, seed=0)
    assert report.outcome == "aggregate"
    assert not report.exact


def test_mean_of_models_in_five_lines():
    rng = np.random.default_rng(0)
    models = [{"w": rng.normal(size=(3, 4)).astype(np.float32), "b": rng.normal(size=4)} for _ in range(12)]
    weights = [10, 20, 30] * 4
    result = ccesa.aggregate(models, weights=weights, dropout=0.3, seed=2)
    kept = list(result.survivors)
    for name in ("w", "b"):
        wanted = np.average([models[i][name] for i in kept], axis=0, weights=[weights[i] for i in kept])
        assert np.allclose(result.mean[name], wanted, atol=1e-5)
        assert result.mean[name].dtype == models[0][name].dtype
    assert result.weight == pytest.approx(sum(weights[i] for i in kept))
    assert result.clipped == 0
    assert len(kept) < 12


def test_mean_reports_what_it_clipped():
    models = [[np.array([0.5, float(i)])] for i in range(4)]
    result = ccesa.aggregate(models, clip=1.0)
    assert (result.clipped, result.clipped_by, result.values) == (2, (0, 0, 1, 1), 8)
    assert repr(result) == "AggregatedModels(4 of 4 clients in the mean, weight 4, 2 of 8 values clipped)"
    assert np.allclose(result.mean[0], [0.5, (0 + 1 + 1 + 1) / 4], atol=1e-6)


def test_mean_takes_a_bound_for_each_array():
    models = [{"a": np.array([float(i)]), "b": np.array([float(i)])} for i in range(4)]
    result = ccesa.aggregate(models, clip={"a": 1.0, "b": 2.0})
    assert result.clipped_by == (0, 0, 1, 2)
    assert result.mean["a"] == pytest.approx([3 / 4], abs=1e-6)
    assert result.mean["b"] == pytest.approx([5 / 4], abs=1e-6)


@pytest.mark.parametrize("graph", [Complete(), Harary(degree=6), ErdosRenyi(p=0.9)])
def test_mean_on_any_graph(graph):
    models = [[np.full(3, float(i))] for i in range(10)]
    assert np.allclose(ccesa.aggregate(models, graph=graph).mean[0], 4.5, atol=1e-6)


def test_mean_of_all_zero_models():
    assert ccesa.aggregate([[np.zeros(2)]] * 3).mean[0].tolist() == [0, 0]


def test_mean_of_many_clients_is_sparse():
    result = ccesa.aggregate([[np.full(2, float(i))] for i in range(110)], seed=0)
    assert result.report.degree_mean < 109
    assert np.allclose(result.mean[0], 54.5, atol=1e-4)


def test_mean_mistakes():
    models = [[np.zeros(2)]] * 4
    with pytest.raises(ConfigError, match="3 clients"):
        ccesa.aggregate([])
    with pytest.raises(ConfigError, match="3 clients"):
        ccesa.aggregate(models[:2])
    with pytest.raises(VectorError, match="weights"):
        ccesa.aggregate(models, weights=[1, 2])
    with pytest.raises(VectorError, match="shapes"):
        ccesa.aggregate([*models, [np.zeros(3)]])
    with pytest.raises(VectorError, match="client 4: array 0 contains NaN"):
        ccesa.aggregate([*models, [np.array([0, np.nan])]])
    for bad in (-1, float("nan"), "heavy"):
        with pytest.raises(VectorError, match="client 2: a weight must be 0 or greater"):
            ccesa.aggregate(models, weights=[1, 1, bad, 1])
    with pytest.raises(ConfigError, match=r"dropout must be a number in \[0, 1\), not 'x'"):
        ccesa.aggregate(models, dropout="x")
    with pytest.raises(VectorError, match="zero"):
        ccesa.aggregate(models, weights=[0, 0, 0, 0])
    for one in ({"w": np.zeros(2)}, "w", 5, None):
        with pytest.raises(VectorError, match="models must be a list with one entry per client, not"):
            ccesa.aggregate(one)
    with pytest.raises(VectorError, match="weights must be a list with one entry per client, not int"):
        ccesa.aggregate(models, weights=5)
    for seed in ("x", 1.5):
        with pytest.raises(ConfigError, match="seed must be a whole number"):
            ccesa.aggregate(models, seed=seed)
    for wrong in ("complete", "harary", "", ccesa.Complete):
        with pytest.raises(ConfigError, match=r"graph cannot be .*ccesa\.Complete\("):
            ccesa.aggregate(models, graph=wrong)
    with pytest.raises(ConfigError, match=r"threshold cannot be 3: give one of ccesa\.Majority\("):
        ccesa.aggregate(models, threshold=3)
    with pytest.raises(RoundFailed):
        ccesa.aggregate(models, dropout=Exactly({"mask": {0, 1}}))


def test_models_may_come_from_a_generator_and_hold_whole_numbers():
    result = ccesa.aggregate(([np.array([i])] for i in range(4)), weights=iter([1, 1, 1, 1]))
    assert result.mean[0] == pytest.approx([1.5], abs=1e-6)


def test_small_arrays_beside_large_ones_keep_their_digits():
    models = [{"small": np.array([1e-4 * i]), "large": np.array([1000.0 * i])} for i in range(4)]
    mean = ccesa.aggregate(models, bits=16).mean
    assert mean["small"] == pytest.approx([1.5e-4], rel=0.01)
    assert mean["large"] == pytest.approx([1500.0], rel=0.01)


def test_a_bare_array_among_models_is_none():
    with pytest.raises(VectorError, match="client 2: a model is a list or a dict of arrays, not ndarray"):
        ccesa.aggregate([[np.ones(3)], [np.ones(3)], np.ones(3)])


def test_a_quantizer_for_fewer_clients_than_the_sum_has_is_found_out():
    quantizer = ccesa.Quantizer.for_model([np.ones(2)], clients=3, clip=1.0)
    total = sum(quantizer.encode([np.ones(2)], weight=0.1).vector for _ in range(31))
    with pytest.raises(VectorError, match="more in the sum than 3 clients can have"):
        quantizer.decode(total)
    with pytest.raises(VectorError, match="more in the sum than 3 clients can have"):
        quantizer.decode(sum(quantizer.encode([np.ones(2)]).vector for _ in range(4)))


@pytest.mark.parametrize("number", [np.int64(2), np.uint8(2)])
def test_numpy_numbers_are_client_numbers(number):
    assert ccesa.Client(configure(5), number, np.zeros(5, np.uint16)).client == 2


@pytest.mark.parametrize("number", [0.0, "0", None])
def test_other_things_are_not(number):
    with pytest.raises(ConfigError, match="whole number"):
        ccesa.Client(configure(5), number, np.zeros(5, np.uint16))
