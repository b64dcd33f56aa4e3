"""What the app of a node replies, and what becomes of it."""

import asyncio
import re

import numpy as np
import pytest
from flwr.app import Context, Error, Message
from flwr.serverapp import strategy as flower

from ccesa.flower import SecureGrid, secure_mod
from ccesa.flower.both.terms import ReplyTerms
from ccesa.values.fields import Fields
from flower_grid import (
    MemoryGrid,
    all_say,
    as_model,
    as_record,
    make_app,
    mean,
    model_in,
    new_model,
    number,
    trained,
    weight_of,
)
from flower_rounds import FLOAT32, NODES, assert_mean, envelope_of, messages, one_round, printed_bounds


def with_metrics(**extra):
    """The usual training with these metrics; a function makes one of the node."""

    def train(node, model):
        arrays, metrics = trained(node, model)
        made = {name: value(node) if callable(value) else value for name, value in extra.items()}
        return arrays, {**metrics, **made}

    return train


def test_metrics_that_cannot_be_summed_are_left_out_and_named(said):
    train = with_metrics(broken=float("nan"), huge=1e9, fine=0.5)
    grid = MemoryGrid(make_app(train), NODES)
    metrics = one_round(grid).content["metrics"]
    assert set(metrics) == {"num-examples", "loss", "per-class", "fine"}
    for name in ("broken", "huge"):
        assert sum(f"metric {name!r} is left out" in line for line in said) == 1


def test_more_metrics_than_slots(said):
    def metrics(**options):
        grid = MemoryGrid(make_app(with_metrics(many=[1.0] * 20)), NODES)
        return one_round(grid, **options).content["metrics"]

    assert "many" not in metrics()
    assert sum("metric 'many' has no slot" in line for line in said) == 1
    assert metrics(metric_slots=32)["many"] == pytest.approx([1.0] * 20, abs=1e-6)
    assert set(metrics(metric_slots=0)) == {"num-examples"}


def test_a_name_without_room(said):
    train = with_metrics(**{"x" * 400: 1.0, "y" * 200: 2.0})
    metrics = one_round(MemoryGrid(make_app(train), NODES)).content["metrics"]
    assert set(metrics) == {"num-examples", "loss", "per-class", "y" * 200}


def test_different_metrics_are_left_out(said):
    def train(node, model):
        arrays, metrics = trained(node, model)
        return arrays, {**metrics, f"loss-of-{node % 2}": 1.0}

    reply = one_round(MemoryGrid(make_app(train), NODES))
    assert_mean(reply, number(NODES))
    assert set(reply.content["metrics"]) == {"num-examples"}
    assert any("different metrics" in line for line in said)


def test_names_with_brackets_are_names():
    reply = one_round(MemoryGrid(make_app(with_metrics(**{"top[5]": 0.9, "top": 0.5, "x[0]": [1.0, 2.0]})), NODES))
    metrics = reply.content["metrics"]
    assert (metrics["top[5]"], metrics["top"]) == pytest.approx((0.9, 0.5), abs=1e-6)
    assert metrics["x[0]"] == pytest.approx([1.0, 2.0], abs=1e-6)


def test_one_bad_metric_of_one_node_leaves_the_others(said):
    train = with_metrics(loss=lambda node: float("nan") if node == 1003 else 0.5, fine=0.25)
    metrics = one_round(MemoryGrid(make_app(train), NODES)).content["metrics"]
    assert set(metrics) == {"num-examples", "per-class", "fine"}
    assert metrics["fine"] == pytest.approx(0.25, abs=1e-6)


@pytest.mark.parametrize("bound", [0.5, 143.43, 1e4])
def test_whether_a_metric_is_within_the_bound_is_not_seen_from_a_single_node(bound):
    """A server could search for a node's loss by the bound that it sets."""
    grid = MemoryGrid(make_app(), NODES)
    one_round(grid, metric_clip=bound)
    assert_all_look_alike(grid)


def test_whether_the_weight_is_within_the_bound_is_not_seen_from_a_single_node(said):
    """It counts as the bound, for whoever has more; only how many have is known."""
    grid = MemoryGrid(make_app(), NODES)
    reply = one_round(grid, max_weight=128)
    assert not any(one.has_error() for one in grid.replies("mask"))
    capped = {node: min(weight_of(node), 128) for node in number(NODES)}
    over = sum(weight_of(node) > 128 for node in number(NODES))
    assert 0 < over < NODES

    def train(node, model):
        arrays, metrics = trained(node, model)
        return arrays, {**metrics, "num-examples": capped[node]}

    assert_mean(reply, number(NODES), train=train)
    assert any(f"{over} nodes have more than max_weight = 128" in line for line in said)


def test_clipping_is_said_by_the_server_and_not_seen_from_a_single_node(said):
    """A mean that is off by more than rounding allows must not look exact."""

    def train(node, model):
        arrays, metrics = trained(node, model)
        return {name: value + 50.0 * (node in (1002, 1004)) for name, value in arrays.items()}, metrics

    grid = MemoryGrid(make_app(train), NODES)
    one_round(grid, clip=4.0)
    assert_all_look_alike(grid)
    values = sum(value.size for value in new_model().values())
    [line] = [line for line in said if f"changed values by more than clip = 4: {2 * values} values" in line]
    assert f"2 of {NODES} nodes" in line
    assert any("clipping moves some by more" in line for line in said)


def test_without_clipping_nothing_is_said_of_it(said):
    one_round(MemoryGrid(make_app(), NODES))
    assert not any("clipping" in line or "changed values" in line for line in said)


def test_a_huge_bound_for_weights_does_not_single_out_the_largest(said):
    """All others would round to nothing, and the sum would be the largest node's own change."""
    train = with_metrics(**{"num-examples": lambda node: 2**20 if node == 1003 else 1})
    reply = one_round(MemoryGrid(make_app(train), NODES), max_weight=2.0**44)
    (bound,) = printed_bounds(said)
    assert bound < 0.2
    assert_mean(reply, number(NODES), train=with_metrics(**{"num-examples": 2**20}), error=bound)


def test_another_largest_weight_and_another_name():
    train = with_metrics(tokens=lambda node: 10**6 + node, **{"num-examples": 5})
    grid = MemoryGrid(make_app(train), NODES, node_configs=all_say(NODES, {"ccesa-weighted-by": "tokens"}))
    reply = one_round(grid, max_weight=2e6, weighted_by="tokens")
    assert reply.content["metrics"]["tokens"] == sum(10**6 + node for node in number(NODES))
    assert reply.content["metrics"]["num-examples"] == pytest.approx(5, abs=1e-6)


# Replies that cannot be used: the mean is that of the others, and nobody sees which node it was.


def assert_all_look_alike(grid) -> None:
    """What the nodes send in the masking step has the same form: not one of them stands out."""
    forms = {
        (tuple(one.content), tuple(one.content["ccesa"]), len(one.content["ccesa"]["reply"]))
        for one in grid.replies("mask")
        if not one.has_error()
    }
    assert len(grid.replies("mask")) == NODES
    assert not any(one.has_error() for one in grid.replies("mask"))
    assert len(forms) == 1


def assert_contributes_nothing(app, reason: str, said, kind: str = "train") -> None:
    """Node 1003, and nobody but its own log knows why."""
    grid = MemoryGrid(app, NODES)
    reply, others = one_round(grid, kind=kind), [node for node in number(NODES) if node != 1003]
    if kind == "train":
        assert_mean(reply, others)
    weights = [weight_of(node) for node in others]
    metrics = reply.content["metrics"]
    assert metrics["num-examples"] == sum(weights)
    if kind == "train":
        assert metrics["loss"] == pytest.approx(np.average([n / 7.0 for n in others], weights=weights), 1e-8)
    assert_all_look_alike(grid)
    assert sum(f"1 of {NODES} nodes contributed nothing" in line for line in said) == 1
    assert sum("this node contributes nothing" in line and reason in line for line in said) == 1


BAD_WEIGHTS = {"negative": -1, "nan": float("nan"), "inf": float("inf"), "a list": [1.0, 2.0]}


@pytest.mark.parametrize("name", BAD_WEIGHTS)
def test_a_weight_that_is_none(name, said):
    """A node that has lost count of its examples has nothing to add to a mean."""
    train = with_metrics(**{"num-examples": lambda node: BAD_WEIGHTS[name] if node == 1003 else weight_of(node)})
    assert_contributes_nothing(make_app(train), "'num-examples'", said)


def test_a_node_without_examples_counts_one_unit(said):
    """With its own change. Nobody sees which node it is, nor that there is one."""
    unit = 65536 / 2**24
    with_none = with_metrics(**{"num-examples": lambda node: 0 if node == 1003 else weight_of(node)})
    in_units = with_metrics(**{"num-examples": lambda node: unit if node == 1003 else weight_of(node)})
    grid = MemoryGrid(make_app(with_none), NODES)
    assert_mean(one_round(grid), number(NODES), train=in_units)
    assert_all_look_alike(grid)
    assert not any("contribute" in line for line in said)


def test_nodes_without_examples_do_not_leave_one_alone(said):
    """All but one have none, and the bound is so large that this one has a unit: all count alike."""
    only = with_metrics(**{"num-examples": lambda node: 0.0 if node != 1003 else 1.0})
    reply = one_round(MemoryGrid(make_app(only), NODES), max_weight=2.0**24, bits=53)
    assert_mean(reply, number(NODES), train=with_metrics(**{"num-examples": 1}))


def test_nobody_has_examples():
    """Then all count the same."""
    grid = MemoryGrid(make_app(with_metrics(**{"num-examples": 0})), NODES)
    reply = one_round(grid, max_weight=2.0**24, bits=53)
    assert_mean(reply, number(NODES), train=with_metrics(**{"num-examples": 1}))


def test_a_metric_that_is_none_on_a_node_without_examples_is_left_out(said):
    """As when a loss is divided by the number of examples. The others are not touched."""
    train = with_metrics(
        **{
            "num-examples": lambda node: 0 if node == 1003 else weight_of(node),
            "loss": lambda node: float("nan") if node == 1003 else node / 7.0,
        }
    )
    reply = one_round(MemoryGrid(make_app(train), NODES))
    assert set(reply.content["metrics"]) == {"num-examples", "per-class"}
    assert sum("metric 'loss' is left out" in line for line in said) == 1


def test_an_evaluation_without_a_count(said):
    def evaluate(node, model):
        return {"num-examples": -1 if node == 1003 else weight_of(node), "accuracy": 0.5}

    assert_contributes_nothing(make_app(evaluate=evaluate), "must be 0 or greater, not -1", said, kind="evaluate")


def test_nobody_has_anything(said):
    grid = MemoryGrid(make_app(with_metrics(**{"num-examples": -1})), NODES)
    assert one_round(grid) is None
    assert any("no mean: 6 of 6 nodes contributed nothing" in line for line in said)


@pytest.mark.parametrize("contributing", [1, 2, 3])
def test_the_mean_of_fewer_than_three_nodes_is_a_lost_round(contributing, said):
    """It would be one node's model, or known to two of them."""
    few = with_metrics(**{"num-examples": lambda node: 10 if node <= 1000 + contributing else -1})
    reply = one_round(MemoryGrid(make_app(few), NODES))
    assert (reply is None) == (contributing < 3)
    assert any("the mean of fewer than 3 reveals too much" in line for line in said) == (contributing < 3)


def test_a_reply_without_a_weight(said):
    def train(node, model):
        arrays, metrics = trained(node, model)
        return arrays, {} if node == 1003 else metrics

    assert_contributes_nothing(make_app(train), "needs the metric 'num-examples', a number to weight it by", said)


BAD_ARRAYS = {
    "missing": (lambda new: {"w": new["w"]}, "the reply has arrays"),
    "shape": (lambda new: {**new, "b": new["b"][:2]}, "has shape"),
    "nan": (lambda new: {**new, "b": new["b"] * np.nan}, "NaN or infinity"),
    "inf": (lambda new: {**new, "b": new["b"] + np.inf}, "NaN or infinity"),
    "complex": (lambda new: {**new, "b": new["b"] * 1j}, "array 'b' has type complex"),
    "text": (lambda new: {**new, "b": np.array(["patient 4711"] * 4)}, "array 'b' has type <U12"),
}


@pytest.mark.parametrize("name", BAD_ARRAYS)
def test_arrays_that_do_not_fit(name, said):
    arrays, reason = BAD_ARRAYS[name]

    def train(node, model):
        new, metrics = trained(node, model)
        return arrays(new) if node == 1003 else new, metrics

    assert_contributes_nothing(make_app(train), reason, said)


def test_an_app_without_a_reply(said):
    def nothing(message: Message, context: Context, call_next) -> Message:
        return None if context.node_id == 1003 else call_next(message, context)

    assert_contributes_nothing(make_app(mods=[nothing]), "the app gave no reply", said)


@pytest.mark.parametrize("kind", [ValueError, MemoryError, SystemExit, asyncio.CancelledError])
def test_an_exception_of_the_app(kind, said):
    def train(node, model):
        if node == 1003:
            raise kind("patient 4711 has no diagnosis")
        return trained(node, model)

    assert_contributes_nothing(make_app(train), "the app failed", said)


def test_an_error_of_the_app(said):
    def private_error(message: Message, context: Context, call_next) -> Message:
        if context.node_id == 1003:
            return Message(Error(code=1000, reason="patient 4711\nhas no diagnosis"), reply_to=message)
        return call_next(message, context)

    reason = r"the app answered with an error: patient 4711\nhas no diagnosis"
    assert_contributes_nothing(make_app(mods=[private_error]), reason, said)


def test_a_node_that_contributes_nothing_goes_on_with_the_round(said):
    """Its shares are needed like those of others."""

    def train(node, model):
        if node in (1003, 1004, 1005):
            raise ValueError
        return trained(node, model)

    grid = MemoryGrid(make_app(train), NODES)
    assert_mean(one_round(grid), [1001, 1002, 1006])
    assert all("ccesa" not in grid.state(node) for node in number(NODES))


def test_different_metrics_do_not_make_a_node_stand_out(said):
    def train(node, model):
        arrays, metrics = trained(node, model)
        return arrays, {**metrics, "rare": 1.0} if node == 1003 else metrics

    grid = MemoryGrid(make_app(train), NODES)
    reply = one_round(grid)
    assert_mean(reply, number(NODES))
    assert set(reply.content["metrics"]) == {"num-examples"}
    assert_all_look_alike(grid)
    assert not any(b"rare" in one.data for one in grid.passed if not one.to_node)


def test_arrays_in_another_order_are_the_same():
    def train(node, model):
        new, metrics = trained(node, model)
        return dict(reversed(new.items())), metrics

    assert_mean(one_round(MemoryGrid(make_app(train), NODES)), number(NODES))


def test_clipping_is_said_on_the_node(said):
    def train(node, model):
        new, metrics = trained(node, model)
        return {**new, "b": new["b"] + 10}, metrics

    one_round(MemoryGrid(make_app(train), NODES), clip=1.0)
    assert sum("4 values were clipped at 1" in line for line in said) == NODES


def test_what_a_node_makes_of_an_array_does_not_make_it_a_counter(said):
    """One reply of whole numbers would raise the clip of that array for everybody, and the error with it."""

    def train(node, model):
        new, metrics = trained(node, model)
        return {**new, "b": np.rint(new["b"]).astype(np.int64)} if node == 1003 else new, metrics

    grid = MemoryGrid(make_app(train), NODES)
    secure = SecureGrid(grid)
    for model in (new_model(), new_model(seed=6)):
        (reply,) = secure.send_and_receive(messages(grid, model))
        assert_mean(reply, number(NODES), model, train, error=secure.error_bound + FLOAT32)
        assert secure.error_bound < 1e-5


def rounds_of(grid, count: int) -> list[set[str]]:
    """The arrays that were counters in each of these rounds, as the nodes were told."""
    told = [envelope_of(one.message)["terms"] for one in grid.passed if one.to_node and one.step == "advertise"]
    found = [set(ReplyTerms.decode(terms).counters) for terms in dict.fromkeys(told)]
    assert len(told) == count * NODES
    return found


def test_what_is_a_counter_is_up_to_the_model_that_was_sent_first():
    """Whole numbers; their mean is none, and is sent on as floats. An array of floats is none of them."""
    model = {**new_model(), "batches": np.array(100, np.int64), "batches-as-floats": np.array(100.0)}
    grid = MemoryGrid(make_app(), NODES)
    secure = SecureGrid(grid)
    (reply,) = secure.send_and_receive(messages(grid, model))
    assert model_in(reply)["batches"].dtype == np.float64
    secure.send_and_receive(messages(grid, model_in(reply)))
    assert rounds_of(grid, 2) == [{"batches"}]


def test_what_is_a_counter_is_not_up_to_a_reply():
    """It would raise the clip of that array for all nodes, and the error with it."""

    def claim(message: Message, context: Context, call_next) -> Message:
        reply = call_next(message, context)
        reply.content.config_records["ccesa"]["counters"] = ["w"]
        return reply

    grid = MemoryGrid(make_app(outer=[claim, secure_mod]), NODES)
    secure = SecureGrid(grid)
    for model in (new_model(), new_model(seed=6)):
        (reply,) = secure.send_and_receive(messages(grid, model))
        assert_mean(reply, number(NODES), model)
    assert rounds_of(grid, 2) == [set()]
    assert secure.error_bound < 1e-5


@pytest.mark.parametrize("bits", [16, 32])
def test_the_error_bound_holds_for_counters(bits, said):
    """They have a larger one than all other arrays, which would not do."""
    model = {**new_model(), "batches": np.arange(50, dtype=np.int64)}
    grid = MemoryGrid(make_app(), NODES)
    secure = SecureGrid(grid, bits=bits)
    (reply,) = secure.send_and_receive(messages(grid, model))
    assert_mean(reply, number(NODES), model, error=secure.error_bound)
    off = np.abs(model_in(reply)["batches"] - mean(model, number(NODES))["batches"]).max()
    assert off > printed_bounds(said)[0]


def test_counters_of_batch_norm_layers_are_averaged_round_after_round(said):
    """They are integers on the nodes, their mean is none, and a round adds more than ``clip`` to them."""
    model = {**new_model(), "batches": np.array(0, np.int64), "batches-of": np.arange(3, dtype=np.int32)}
    results = []
    for wrap in (lambda grid: grid, SecureGrid):
        grid = wrap(MemoryGrid(make_app(), NODES, node_configs=all_say(NODES, {"ccesa-plain": True})))
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


def test_values_of_fifty_three_bits(said):
    model = new_model(np.float64)
    reply = one_round(MemoryGrid(make_app(), NODES), model, bits=53)
    (bound,) = printed_bounds(said)
    assert bound < 1e-7  # of metrics; arrays are far more exact
    assert_mean(reply, number(NODES), model, error=2.5e-13)
    assert model_in(reply)["w"].dtype == np.float64


@pytest.mark.parametrize(
    ("options", "fields"),
    [
        ({}, Fields(32, NODES)),
        ({"bits": 8}, Fields.choose(NODES, 8)),
        ({"precision": 1e-3}, Fields.choose(NODES, precision=1e-3, clip=2.0)),
        ({"precision": 1e-3, "clip": 0.5}, Fields.choose(NODES, precision=1e-3, clip=0.5)),
    ],
)
def test_the_log_says_how_values_lie_in_words(options, fields, said):
    model = {"w": np.zeros(3000, np.float32)}
    train = with_metrics(**{"num-examples": 16})
    grid = MemoryGrid(make_app(train), NODES)
    secure = SecureGrid(grid, max_weight=16, metric_slots=1, **options)
    (reply,) = secure.send_and_receive(messages(grid, model))
    assert sum(fields.in_words in line for line in said) == 1
    assert_mean(reply, number(NODES), model, train, error=secure.error_bound + FLOAT32)
    assert secure.error_bound <= options.get("precision", 2.0 / fields.most) * (1 + 1e-9) + 1e-6
    sent = max(len(envelope_of(one.message)["reply"]) for one in grid.passed if not one.to_node)
    assert 3000 * fields.bytes_each <= sent <= 3000 * fields.bytes_each + 2000


@pytest.mark.parametrize("bits", [8, 16, 32])
def test_the_printed_bound_holds_for_values_of_any_bits(bits, said):
    reply = one_round(MemoryGrid(make_app(), NODES), bits=bits)
    (bound,) = printed_bounds(said)
    assert_mean(reply, number(NODES), error=bound * 1.05 + FLOAT32)
