"""Flower's strategies through ``SecureGrid``: the plain result, or a refusal."""

import numpy as np
import pytest
from flwr.app import Context, Message, RecordDict
from flwr.serverapp import strategy as flower

from ccesa.errors import ConfigError
from ccesa.flower import SecureGrid
from flower_grid import MemoryGrid, all_say, as_model, as_record, make_app, mean, new_model, number, trained
from flower_rounds import FLOAT32, NODES, printed_bounds


class Own(flower.FedAvg):
    """A user's own: half a step towards the mean."""

    def aggregate_train(self, server_round, replies):
        replies = list(replies)
        metrics = replies[0].content["metrics"] if replies else None
        arrays, _ = super().aggregate_train(server_round, replies)
        if arrays is None:
            return None, None
        return as_record({name: value * 0.5 for name, value in as_model(arrays).items()}), metrics


AVERAGING = {
    "FedAvg": flower.FedAvg,
    "FedAvgM": lambda: flower.FedAvgM(server_learning_rate=0.7, server_momentum=0.5),
    "FedProx": lambda: flower.FedProx(proximal_mu=0.1),
    "FedAdam": flower.FedAdam,
    "FedYogi": flower.FedYogi,
    "FedAdagrad": flower.FedAdagrad,
    "Own": Own,
}


@pytest.mark.parametrize("name", AVERAGING)
def test_averaging_strategies_give_the_plain_result(name, said):
    results = []
    for wrap in (lambda grid: grid, SecureGrid):
        grid = wrap(MemoryGrid(make_app(), NODES, node_configs=all_say(NODES, {"ccesa-plain": True})))
        results.append(AVERAGING[name]().start(grid=grid, initial_arrays=as_record(new_model()), num_rounds=2))
    plain, secure = results
    bounds = printed_bounds(said)
    assert len(bounds) == 4
    assert max(bounds) < 1e-5
    # Adaptive steps divide by the square root of past changes: the second round sees the error of the first.
    error = FLOAT32 + 100 * sum(bounds) if name in ("FedAdam", "FedYogi", "FedAdagrad") else sum(bounds) + FLOAT32
    for key, value in as_model(plain.arrays).items():
        np.testing.assert_allclose(as_model(secure.arrays)[key], value, rtol=0, atol=error)
    for key in ("train_metrics_clientapp", "evaluate_metrics_clientapp"):
        assert getattr(secure, key).keys() == getattr(plain, key).keys()
    if name != "Own":
        for server_round, expected in plain.train_metrics_clientapp.items():
            found = secure.train_metrics_clientapp[server_round]
            assert found["loss"] == pytest.approx(expected["loss"], abs=1e-6)
            assert found["per-class"] == pytest.approx(expected["per-class"], abs=1e-6)
    for server_round, expected in plain.evaluate_metrics_clientapp.items():
        found = secure.evaluate_metrics_clientapp[server_round]
        assert dict(found) == pytest.approx(dict(expected), abs=1e-3)


@pytest.mark.parametrize("both", [False, True])
def test_replies_are_weighted_by_what_the_strategy_says(both):
    """Also if there is a number of examples beside it; nodes say the same for themselves."""
    own = {"ccesa-weighted-by": "tokens", "ccesa-plain": True}

    def train(node, model):
        arrays, metrics = trained(node, model)
        others = {"num-examples": metrics["num-examples"]} if both else {}
        return arrays, {"tokens": 1000 * (node % 7) + 5, **others}

    results = []
    for wrap in (lambda grid: grid, SecureGrid):
        strategy = flower.FedAvg(weighted_by_key="tokens", fraction_evaluate=0.0)
        grid = wrap(MemoryGrid(make_app(train), NODES, node_configs=all_say(NODES, own)))
        results.append(strategy.start(grid=grid, initial_arrays=as_record(new_model()), num_rounds=1))
    plain, secure = (as_model(result.arrays) for result in results)
    for name, value in plain.items():
        np.testing.assert_allclose(secure[name], value, rtol=0, atol=1e-5)


def test_two_ideas_of_the_weight_are_refused():
    grid = MemoryGrid(make_app(), NODES)
    with pytest.raises(ConfigError, match="the strategy weights by 'num-examples', SecureGrid by 'tokens'"):
        flower.FedAvg().start(
            grid=SecureGrid(grid, weighted_by="tokens"), initial_arrays=as_record(new_model()), num_rounds=1
        )
    assert grid.passed == []


class Names(flower.FedAvg):
    """Looks for its arrays and metrics by the names that the app gave them."""

    def aggregate_train(self, server_round, replies):
        (reply,) = replies
        assert reply.content["numbers"]["num-examples"] > 0
        return reply.content["weights"], None


def test_records_keep_the_names_that_the_app_gave_them():
    def rename(message: Message, context: Context, call_next) -> Message:
        reply = call_next(message, context)
        names = {"arrays": "weights", "metrics": "numbers"}
        reply.content = RecordDict({names[name]: one for name, one in reply.content.items()})
        return reply

    strategy = Names(fraction_evaluate=0.0, arrayrecord_key="weights")
    grid = MemoryGrid(make_app(mods=[rename]), NODES)
    result = strategy.start(grid=SecureGrid(grid), initial_arrays=as_record(new_model()), num_rounds=1)
    expected = mean(new_model(), number(NODES))
    np.testing.assert_allclose(as_model(result.arrays)["w"], expected["w"], rtol=0, atol=FLOAT32)


REFUSED = {
    "FedMedian": flower.FedMedian,
    "FedTrimmedAvg": flower.FedTrimmedAvg,
    "Krum": lambda: flower.Krum(num_malicious_nodes=1),
    "MultiKrum": lambda: flower.MultiKrum(num_malicious_nodes=1, num_nodes_to_select=2),
    "Bulyan": lambda: flower.Bulyan(num_malicious_nodes=1),
    "QFedAvg": lambda: flower.QFedAvg(client_learning_rate=0.1),
    "wrapped": lambda: flower.DifferentialPrivacyClientSideFixedClipping(flower.FedMedian(), 1.0, 1.0, NODES),
    "DifferentialPrivacyServerSideFixedClipping": lambda: flower.DifferentialPrivacyServerSideFixedClipping(
        flower.FedAvg(), 1.0, 1.0, NODES
    ),
    "DifferentialPrivacyClientSideAdaptiveClipping": lambda: flower.DifferentialPrivacyClientSideAdaptiveClipping(
        flower.FedAvg(), 0.1, NODES
    ),
}


@pytest.mark.parametrize("name", REFUSED)
def test_strategies_that_need_single_updates_are_refused(name):
    grid = MemoryGrid(make_app(), NODES)
    called = "FedMedian" if name == "wrapped" else name
    with pytest.raises(ConfigError, match=f"{called} .*only their mean.*FedAvg"):
        REFUSED[name]().start(grid=SecureGrid(grid), initial_arrays=as_record(new_model()), num_rounds=1)
    assert grid.passed == []


def test_noise_on_the_mean_is_possible():
    """Central noise on clipped updates needs the mean only."""
    strategy = flower.DifferentialPrivacyClientSideFixedClipping(flower.FedAvg(), 1e-9, 1.0, NODES)
    grid = MemoryGrid(make_app(), NODES)
    result = strategy.start(grid=SecureGrid(grid), initial_arrays=as_record(new_model()), num_rounds=1)
    np.testing.assert_allclose(
        as_model(result.arrays)["w"], mean(new_model(), number(NODES))["w"], rtol=0, atol=2 * FLOAT32
    )
