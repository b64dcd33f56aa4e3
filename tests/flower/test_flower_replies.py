"""What the app of a node replies, and what becomes of it."""

import re

import numpy as np
import pytest
from flwr.app import Context, Error, Message
from flwr.serverapp import strategy as flower

from ccesa.flower import SecureGrid
from flower_grid import (
    MemoryGrid,
    as_model,
    as_record,
    make_app,
    model_in,
    new_model,
    number,
    trained,
    weight_of,
)
from flower_rounds import FLOAT32, NODES, assert_mean, one_round, printed_bounds


def with_metrics(**extra):
    """The usual training with these metrics; a function makes one of the node."""

    def train(node, model):
        arrays, metrics = trained(node, model)
        made = {name: value(node) if callable(value) else value for name, value in extra.items()}
        return arrays, {**metrics, **made}

    return train


def test_metrics_that_cannot_be_summed_are_left_out_and_named_once(said):
    train = with_metrics(broken=float("nan"), huge=1e9, fine=0.5)
    grid = MemoryGrid(make_app(train), NODES)
    for _ in range(2):
        metrics = one_round(grid).content["metrics"]
        assert set(metrics) == {"num-examples", "loss", "per-class", "fine"}
    for name in ("broken", "huge"):
        assert sum(f"metric {name!r} cannot be summed" in line for line in said) == 1


def test_more_metrics_than_slots(said):
    grid = MemoryGrid(make_app(with_metrics(many=[1.0] * 20)), NODES)
    assert "many" not in one_round(grid).content["metrics"]
    assert one_round(grid, metric_slots=32).content["metrics"]["many"] == pytest.approx([1.0] * 20, abs=1e-6)
    assert set(one_round(grid, metric_slots=0).content["metrics"]) == {"num-examples"}


def test_different_metrics_are_left_out(said):
    def train(node, model):
        arrays, metrics = trained(node, model)
        return arrays, {**metrics, f"loss-of-{node % 2}": 1.0}

    reply = one_round(MemoryGrid(make_app(train), NODES))
    assert_mean(reply, number(NODES))
    assert set(reply.content["metrics"]) == {"num-examples"}
    assert any("different metrics" in line for line in said)


def test_names_with_brackets_are_names():
    reply = one_round(
        MemoryGrid(make_app(with_metrics(**{"top[5]": 0.9, "top": 0.5, "x[0]": [1.0, 2.0]})), NODES)
    )
    metrics = reply.content["metrics"]
    assert (metrics["top[5]"], metrics["top"]) == pytest.approx((0.9, 0.5), abs=1e-6)
    assert metrics["x[0]"] == pytest.approx([1.0, 2.0], abs=1e-6)


@pytest.mark.parametrize("weight", [70000, -1, float("nan")])
def test_a_weight_out_of_bounds_is_an_error_that_does_not_tell_it(weight):
    train = with_metrics(**{"num-examples": lambda node: weight if node == 1003 else weight_of(node)})
    grid = MemoryGrid(make_app(train), NODES)
    reply = one_round(grid)
    assert_mean(reply, [node for node in number(NODES) if node != 1003])
    (refusal,) = [one for one in grid.replies("mask") if one.has_error()]
    assert "'num-examples' of this node is not in 0..65536" in refusal.error.reason
    assert "max_weight" in refusal.error.reason
    assert str(weight) not in refusal.error.reason


def test_another_largest_weight_and_another_name():
    train = with_metrics(tokens=lambda node: 10**6 + node, **{"num-examples": 5})
    reply = one_round(MemoryGrid(make_app(train), NODES), max_weight=2e6, weighted_by="tokens")
    assert reply.content["metrics"]["tokens"] == sum(10**6 + node for node in number(NODES))
    assert reply.content["metrics"]["num-examples"] == pytest.approx(5, abs=1e-6)


def test_a_reply_without_a_weight():
    def train(node, model):
        arrays, metrics = trained(node, model)
        return arrays, {} if node == 1003 else metrics

    grid = MemoryGrid(make_app(train), NODES)
    assert_mean(one_round(grid), [node for node in number(NODES) if node != 1003])
    (refusal,) = [one for one in grid.replies("mask") if one.has_error()]
    assert "no number 'num-examples'" in refusal.error.reason


@pytest.mark.parametrize(
    ("arrays", "reason"),
    [
        (lambda new: {"w": new["w"]}, "the reply has arrays"),
        (lambda new: {**new, "b": new["b"][:2]}, "has shape"),
        (lambda new: {**new, "b": new["b"] * np.nan}, "NaN or infinity"),
    ],
)
def test_arrays_that_do_not_fit(arrays, reason):
    def train(node, model):
        new, metrics = trained(node, model)
        return arrays(new) if node == 1003 else new, metrics

    grid = MemoryGrid(make_app(train), NODES)
    assert_mean(one_round(grid), [node for node in number(NODES) if node != 1003])
    (refusal,) = [one for one in grid.replies("mask") if one.has_error()]
    assert reason in refusal.error.reason


def test_an_exception_of_the_app_stays_on_the_node(said):
    def train(node, model):
        if node == 1003:
            raise ValueError("patient 4711 has no diagnosis")
        return trained(node, model)

    grid = MemoryGrid(make_app(train), NODES)
    assert_mean(one_round(grid), [node for node in number(NODES) if node != 1003])
    (refusal,) = [one for one in grid.replies("mask") if one.has_error()]
    assert "ValueError" in refusal.error.reason
    assert not any(b"has no diagnosis" in one.data for one in grid.passed)
    assert any("the app raised an exception" in line for line in said)
    assert "ccesa" not in grid.state(1003)


def test_an_error_of_the_app_stays_on_the_node():
    def private_error(message: Message, context: Context, call_next) -> Message:
        if context.node_id == 1003:
            return Message(Error(code=1000, reason="patient 4711 has no diagnosis"), reply_to=message)
        return call_next(message, context)

    app = make_app(mods=[private_error])
    grid = MemoryGrid(app, NODES)
    assert_mean(one_round(grid), [node for node in number(NODES) if node != 1003])
    (refusal,) = [one for one in grid.replies("mask") if one.has_error()]
    assert "its reason stays on the node" in refusal.error.reason
    assert not any(b"has no diagnosis" in one.data for one in grid.passed)


def test_clipping_is_said_on_the_node(said):
    def train(node, model):
        new, metrics = trained(node, model)
        return {**new, "b": new["b"] + 10}, metrics

    one_round(MemoryGrid(make_app(train), NODES), clip=1.0)
    assert sum("4 values were clipped at 1" in line for line in said) == NODES


def test_counters_of_batch_norm_layers_are_averaged_round_after_round(said):
    """They are integers on the nodes, their mean is none, and a round adds more than ``clip`` to them."""
    model = {**new_model(), "batches": np.array(0, np.int64), "batches-of": np.arange(3, dtype=np.int32)}
    results = []
    for wrap in (lambda grid: grid, SecureGrid):
        grid = wrap(MemoryGrid(make_app(), NODES))
        strategy = flower.FedAvg(fraction_evaluate=0.0)
        results.append(strategy.start(grid=grid, initial_arrays=as_record(model), num_rounds=3))
    plain, secure = (as_model(result.arrays) for result in results)
    bounds = [float(found[1]) for line in said if (found := re.search(r"no counter by ([0-9.e+-]+)", line))]
    assert len(bounds) == 3
    for name in ("batches", "batches-of"):
        assert plain[name].min() > 2 * 10
        np.testing.assert_allclose(secure[name], plain[name], rtol=0, atol=sum(bounds))
        assert secure[name].dtype == plain[name].dtype
    assert not any("clipped" in line for line in said)


def test_sixty_four_bits(said):
    model = new_model(np.float64)
    reply = one_round(MemoryGrid(make_app(), NODES), model, bits=64)
    (bound,) = printed_bounds(said)
    assert bound < 1e-7  # of metrics; arrays are far more exact
    assert_mean(reply, number(NODES), model, error=2.5e-13)
    assert model_in(reply)["w"].dtype == np.float64


@pytest.mark.parametrize("bits", [8, 16, 32])
def test_the_printed_bound_holds_for_every_ring(bits, said):
    reply = one_round(MemoryGrid(make_app(), NODES), bits=bits)
    (bound,) = printed_bounds(said)
    assert_mean(reply, number(NODES), error=bound * 1.05 + FLOAT32)
