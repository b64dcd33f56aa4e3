"""``SecureGrid`` and ``secure_mod`` in a federation in memory: one round."""

import numpy as np
import pytest
from flwr.app import Message, RecordDict
from flwr.serverapp import strategy as flower

from ccesa.errors import ConfigError
from ccesa.flower import SecureGrid, secure_mod
from ccesa.policy import Policy
from flower_grid import (
    MemoryGrid,
    all_say,
    as_model,
    as_record,
    evaluated,
    make_app,
    mean,
    new_model,
    number,
    weight_of,
)
from flower_rounds import FLOAT32, NODES, STEPS, assert_mean, messages, one_round, printed_bounds


@pytest.mark.parametrize("nodes", [3, 4, 8, 13])
@pytest.mark.parametrize("dropout", [0.0, 0.1, 0.4])
def test_the_mean_is_exact_whatever_the_planner_can_promise(nodes, dropout):
    reply = one_round(MemoryGrid(make_app(), nodes), dropout=dropout)
    assert_mean(reply, number(nodes))


def test_metrics_come_as_their_weighted_mean(said):
    reply = one_round(MemoryGrid(make_app(), NODES))
    weights = [weight_of(node) for node in number(NODES)]
    metrics = reply.content["metrics"]
    assert metrics["loss"] == pytest.approx(np.average([n / 7.0 for n in number(NODES)], weights=weights), 1e-8)
    assert metrics["per-class"] == pytest.approx(
        [np.average([n * 0.25 for n in number(NODES)], weights=weights), -1.5], abs=1e-6
    )
    assert set(metrics) == {"num-examples", "loss", "per-class"}
    assert any(f"train, {NODES} of {NODES} nodes in the sum" in line for line in said)


def test_an_evaluation_brings_metrics_and_no_arrays(said):
    model = new_model()
    reply = one_round(MemoryGrid(make_app(), NODES), model, kind="evaluate")
    assert not reply.content.array_records
    weights = [weight_of(node) for node in number(NODES)]
    expected = np.average([(n % 10) / 10 for n in number(NODES)], weights=weights)
    assert reply.content["metrics"]["accuracy"] == pytest.approx(expected, abs=printed_bounds(said)[0])
    assert reply.content["metrics"]["loss"] == pytest.approx(float(model["w"].sum()), abs=1e-6)
    assert reply.content["metrics"]["num-examples"] == sum(weights)


def test_evaluation_in_clear_if_asked_for():
    grid = MemoryGrid(make_app(), NODES, node_configs=all_say(NODES, {"ccesa-plain": True}))
    secure = SecureGrid(grid, secure_evaluate=False)
    replies = list(secure.send_and_receive(messages(grid, new_model(), "evaluate")))
    assert [reply.content["metrics"]["num-examples"] for reply in replies] == [
        weight_of(node) for node in number(NODES)
    ]
    assert grid.steps(1001) == ["evaluate"]


def test_other_messages_pass_through():
    grid = MemoryGrid(make_app(), NODES)
    replies = list(SecureGrid(grid).send_and_receive(messages(grid, new_model(), "query")))
    assert [reply.content["metrics"]["node"] for reply in replies] == list(number(NODES))


def test_mixed_messages_are_told_apart():
    grid = MemoryGrid(make_app(), NODES)
    both = messages(grid, new_model(), "query")[:2] + messages(grid, new_model())
    replies = list(SecureGrid(grid).send_and_receive(both))
    assert [reply.metadata.message_type for reply in replies] == ["query", "query", "train"]


def test_the_rest_of_the_grid_is_the_wrapped_one():
    grid = MemoryGrid(make_app(), NODES)
    secure = SecureGrid(grid)
    assert list(secure.get_node_ids()) == list(number(NODES))
    assert [node.node_id for node in secure.get_nodes()] == list(number(NODES))
    ids = secure.push_messages(messages(grid, new_model(), "query"))
    assert len(list(secure.pull_messages(ids))) == NODES
    assert secure.run is None
    secure.set_run(None)
    assert secure.create_message(RecordDict(), 1001, "query").metadata.dst_node_id == 1001
    assert list(secure.send_and_receive([])) == []


def test_a_node_trains_once_and_in_the_masking_step():
    app = make_app()
    grid = MemoryGrid(app, NODES)
    steps = []
    grid.faults = lambda step, node, count: steps.append((step, len(app.calls)))
    one_round(grid)
    assert sorted(app.calls) == [("train", node) for node in number(NODES)]
    before_mask = [calls for step, calls in steps if step in ("advertise", "share")]
    after_mask = [calls for step, calls in steps if step == "unmask"]
    assert set(before_mask) == {0}
    assert set(after_mask) == {NODES}
    assert all(grid.steps(node) == STEPS for node in number(NODES))


def test_the_model_travels_in_the_masking_step_only():
    grid = MemoryGrid(make_app(), NODES)
    one_round(grid)
    with_model = {one.step for one in grid.passed if one.to_node and one.message.content.array_records}
    assert with_model == {"mask"}


def test_state_is_wiped_at_the_end():
    grid = MemoryGrid(make_app(), NODES)
    one_round(grid)
    for node in number(NODES):
        assert set(grid.state(node)) == {"ccesa-memory"}  # digests, no secrets


def test_evaluate_of_the_app_is_the_one_of_the_helper():
    assert evaluated(1001, new_model())["num-examples"] == weight_of(1001)


# Mistakes of the one who sets it up


@pytest.mark.parametrize("nodes", [1, 2])
def test_too_few_nodes(nodes):
    grid = MemoryGrid(make_app(), nodes)
    with pytest.raises(ConfigError, match="at least 3 clients"):
        one_round(grid)
    assert grid.passed == []


@pytest.mark.parametrize(
    "options",
    [
        {"dropout": 1.5},
        {"collusion": -0.1},
        {"clip": 0.0},
        {"clip": float("nan")},
        {"metric_clip": 0.0},
        {"metric_slots": -1},
        {"bits": 1},
        {"bits": 54},
        {"bits": 8, "precision": 1e-4},
        {"precision": 0.0},
        {"precision": float("nan")},
        {"policy": 60.0},
        {"policy": Policy(enough=0.8)},  # one in ten may vanish
        {"policy": Policy(gather=1.0)},
        {"policy": Policy(absent=1.0)},
        {"policy": Policy(faults=1)},
        {"retries": -1},
        {"retries": 1.0},
        {"retries": True},
        {"give_up_after": 0},
        {"give_up_after": 2.0},
        {"max_weight": 0},
        {"max_weight": float("inf")},
    ],
)
def test_nonsense_is_refused_at_once(options):
    with pytest.raises(ConfigError):
        SecureGrid(MemoryGrid(make_app(), NODES), **options)


def test_two_messages_to_one_node_are_refused():
    grid = MemoryGrid(make_app(), NODES)
    with pytest.raises(ConfigError, match="2 messages to node 1001 at once"):
        list(SecureGrid(grid).send_and_receive(messages(grid, new_model()) * 2))
    assert grid.passed == []


def test_arrays_that_are_no_real_numbers_are_refused():
    grid = MemoryGrid(make_app(), NODES)
    with pytest.raises(ConfigError, match="has type complex64"):
        one_round(grid, {"w": np.ones(3, np.complex64)})
    assert grid.passed == []


def test_two_array_records_are_refused():
    grid = MemoryGrid(make_app(), NODES)
    content = RecordDict({"arrays": as_record(new_model()), "more": as_record(new_model())})
    with pytest.raises(ConfigError, match="2 ArrayRecords"):
        list(SecureGrid(grid).send_and_receive([Message(content, node, "train") for node in number(NODES)]))


@pytest.mark.parametrize("on_evaluate", [True, False])
def test_the_mod_on_functions_of_the_app(on_evaluate, said):
    """It has to be on each of them, or evaluations have to go the plain way."""
    app = make_app(outer=[], train_mods=[secure_mod], evaluate_mods=[secure_mod] if on_evaluate else None)
    grid = MemoryGrid(app, NODES)
    result = flower.FedAvg().start(
        grid=SecureGrid(grid, secure_evaluate=on_evaluate), initial_arrays=as_record(new_model()), num_rounds=1
    )
    np.testing.assert_allclose(
        as_model(result.arrays)["w"], mean(new_model(), number(NODES))["w"], rtol=0, atol=FLOAT32
    )
    assert set(result.evaluate_metrics_clientapp) == {1}
