"""Nodes that fail, are late or forget: lost in their step, and nothing else is."""

import numpy as np
import pytest
from flwr.app import ConfigRecord, Message
from flwr.serverapp import strategy as flower

from ccesa.errors import ConfigError, OrderError, VectorError
from ccesa.flower import SecureGrid
from ccesa.flower.both.packing import Packing
from ccesa.policy import Policy
from ccesa.protocol.server import Server
from flower_grid import (
    DROP,
    ERROR,
    LATE,
    RESTART,
    SILENT,
    SLOW,
    UNSENT,
    MemoryGrid,
    as_model,
    as_record,
    lose,
    make_app,
    mean,
    new_model,
    number,
    step_of,
)
from flower_rounds import NODES, STEPS, assert_mean, envelope_of, messages, one_round


@pytest.mark.parametrize("fault", [DROP, SILENT, ERROR])
@pytest.mark.parametrize("step", STEPS)
def test_the_mean_is_exact_over_the_survivors(step, fault):
    lost = 1003
    grid = MemoryGrid(make_app(), NODES, faults=lose(fault, step, lost))
    reply = one_round(grid, policy=Policy.wait_for_all(0.3))
    survivors = [node for node in number(NODES) if node != lost or step == "unmask"]
    assert_mean(reply, survivors)


def test_one_lost_in_every_step():
    lost = dict(zip(STEPS, (1002, 1005, 1009, 1012), strict=True))
    grid = MemoryGrid(make_app(), 14, faults=lambda step, node, count: DROP if lost.get(step) == node else None)
    reply = one_round(grid, policy=Policy.wait_for_all(0.3), dropout=0.3)
    assert_mean(reply, [node for node in number(14) if node not in (1002, 1005, 1009)])


@pytest.mark.parametrize("step", STEPS)
def test_a_node_that_refuses_a_step_is_lost(step):
    grid = MemoryGrid(make_app(), NODES)

    def damage(message: Message) -> None:
        if message.metadata.dst_node_id == 1002 and step_of(message) == step:
            given = envelope_of(message)
            message.content["ccesa"] = ConfigRecord({**given, "request": given["request"][:-1]})

    grid.tamper = damage
    reply = one_round(grid)
    assert_mean(reply, [node for node in number(NODES) if node != 1002 or step == "unmask"])
    assert "ccesa" not in grid.state(1002)


@pytest.mark.parametrize("step", STEPS)
def test_a_message_that_cannot_be_sent_is_not_waited_for(step, clock):
    grid = MemoryGrid(make_app(), NODES, faults=lose(UNSENT, step, 1004))
    assert_mean(one_round(grid), [node for node in number(NODES) if node != 1004 or step == "unmask"])
    assert clock.now == 0


def test_replies_are_fetched_a_few_at_a_time():
    """Each can be as large as the model."""
    grid = MemoryGrid(make_app(), 18)
    assert_mean(one_round(grid), number(18))
    assert grid.most_pulled <= 16


@pytest.mark.parametrize("step", STEPS)
def test_a_step_takes_as_long_as_it_may_and_no_longer(step, clock):
    grid = MemoryGrid(make_app(), NODES, faults=lose(SLOW, step, 1004), delay=70.0)
    reply = one_round(grid, timeout=3600, policy=Policy.wait_for_all(60.0))
    assert clock.now == pytest.approx(60.0, abs=0.1)
    assert_mean(reply, [node for node in number(NODES) if node != 1004 or step == "unmask"])


@pytest.mark.parametrize("step", STEPS)
def test_a_reply_within_the_step_is_waited_for(step, clock):
    grid = MemoryGrid(make_app(), NODES, faults=lose(SLOW, step, 1004), delay=50.0)
    assert_mean(one_round(grid, timeout=3600, policy=Policy.wait_for_all(60.0)), number(NODES))
    assert clock.now == pytest.approx(50.0, abs=1.1)


@pytest.mark.parametrize("step", STEPS)
def test_without_a_policy_a_silent_node_costs_its_step_and_not_the_round(step, clock):
    grid = MemoryGrid(make_app(), NODES, faults=lose(DROP, step, 1004))
    reply = one_round(grid, timeout=3600)
    assert_mean(reply, [node for node in number(NODES) if node != 1004 or step == "unmask"])
    assert clock.now <= 3601


def test_the_training_step_has_most_of_the_time(clock):
    grid = MemoryGrid(make_app(), NODES, faults=lose(SLOW, "mask", 1004), delay=0.75 * 3600)
    assert_mean(one_round(grid, timeout=3600), number(NODES))


def test_without_any_timeout_everybody_is_waited_for(clock):
    grid = MemoryGrid(make_app(), NODES, faults=lose(SLOW, "mask", 1004), delay=1e5)
    assert_mean(one_round(grid, timeout=None), number(NODES))


@pytest.mark.parametrize("strays", [False, True])
@pytest.mark.parametrize("step", STEPS)
def test_late_replies_do_not_disturb_what_comes_after(step, strays):
    """Even if the grid hands them out with the replies of later steps, and of the next round."""
    grid = MemoryGrid(make_app(), NODES, faults=lose(LATE, step, 1004), strays=strays)
    secure, model = SecureGrid(grid, policy=Policy.wait_for_all(60.0)), new_model(seed=6)
    (first,) = secure.send_and_receive(messages(grid, new_model()))
    assert_mean(first, [node for node in number(NODES) if node != 1004 or step == "unmask"])
    (second,) = secure.send_and_receive(messages(grid, model))
    assert_mean(second, number(NODES), model)
    assert not grid._late
    assert len(grid._ready) == (0 if strays else 1)


@pytest.mark.parametrize("step", STEPS)
def test_a_late_request_of_an_earlier_round_does_not_end_the_current_one(step):
    """A node gets it between two steps of the next round, and goes on with that."""
    app = make_app()
    grid = MemoryGrid(app, NODES, faults=lose(DROP, step, 1004))
    secure, model = SecureGrid(grid, policy=Policy.wait_for_all(0.2)), new_model(seed=6)
    list(secure.send_and_receive(messages(grid, new_model())))
    held = next(one.message for one in grid.passed if one.to_node and one.node == 1004 and one.step == step)

    def repeat(at: str, node: int, count: int) -> None:
        if (at, node) == ("mask", 1004):
            grid._work(held, node)

    grid.faults = repeat
    assert_mean(next(iter(secure.send_and_receive(messages(grid, model)))), number(NODES), model)


def test_too_many_lost_and_the_strategy_keeps_its_model(said):
    """The second of three rounds is lost; training goes on after it, a small step aside."""
    grid = MemoryGrid(make_app(), NODES)
    grid.faults = lambda step, node, count: ERROR if (step, count) == ("unmask", 1) and node > 1002 else None
    result = flower.FedAvg(fraction_evaluate=0.0).start(
        grid=SecureGrid(grid), initial_arrays=as_record(new_model()), num_rounds=3
    )
    expected = mean(mean(new_model(), number(NODES)), number(NODES))
    for name, value in as_model(result.arrays).items():
        np.testing.assert_allclose(value, expected[name], rtol=1.1e-3, atol=1e-3)
    assert set(result.train_metrics_clientapp) == {1, 3}
    assert sum("the train round with 6 nodes is lost" in line for line in said) == 1


def test_too_few_nodes_later_are_a_lost_round(said):
    """Two of four leave after the first round; they are back in the third."""
    grid = MemoryGrid(make_app(), 4)
    secure, model, everyone = SecureGrid(grid), new_model(), dict(grid.contexts)
    (reply,) = secure.send_and_receive(messages(grid, model))
    assert_mean(reply, number(4))
    grid.contexts = {node: everyone[node] for node in (1001, 1002)}
    assert list(secure.send_and_receive(messages(grid, model))) == []
    assert any("train round with 2 nodes is lost: 2 nodes, a round needs at least 3" in line for line in said)
    grid.contexts = everyone
    (reply,) = secure.send_and_receive(messages(grid, model))
    assert_mean(reply, number(4))


def test_an_evaluation_of_too_few_nodes_is_left_out(said):
    grid = MemoryGrid(make_app(), 10)
    result = flower.FedAvg(fraction_evaluate=0.2).start(
        grid=SecureGrid(grid), initial_arrays=as_record(new_model()), num_rounds=2
    )
    assert set(result.train_metrics_clientapp) == {1, 2}
    assert not result.evaluate_metrics_clientapp


def test_the_first_request_twice_does_not_end_the_round(said):
    grid = MemoryGrid(make_app(), NODES)
    again = []

    def twice(step: str, node: int, count: int) -> None:
        if (step, node) == ("share", 1001):
            first = next(one.message for one in grid.passed if one.to_node and one.step == "advertise")
            again.append(grid._work(first, 1001))

    grid.faults = twice
    assert_mean(one_round(grid), number(NODES))
    assert again[0].has_error()
    assert any("has had a round of this number" in line for line in said)


def test_a_deadline_leaves_room_for_clocks_that_differ():
    grid = MemoryGrid(make_app(), NODES)
    one_round(grid, policy=Policy.wait_for_all(2.0))
    assert all(one.message.metadata.ttl > 60 for one in grid.passed if one.to_node)


def test_nobody_there(said):
    grid = MemoryGrid(make_app(), NODES, faults=lambda step, node, count: ERROR)
    assert one_round(grid) is None
    assert any("0 answered" in line and "6 nodes (1001," in line for line in said)


@pytest.mark.parametrize("step", STEPS[1:])
def test_a_node_without_its_state_refuses_the_rest_of_the_round(step, said):
    app = make_app()
    grid = MemoryGrid(app, NODES, faults=lose(RESTART, step, 1004))
    reply = one_round(grid)
    assert_mean(reply, [node for node in number(NODES) if node != 1004 or step == "unmask"])
    assert len([one for one in grid.replies(step) if one.has_error()]) == 1
    assert sum("was it restarted" in line for line in said) == 1
    assert app.calls.count(("train", 1004)) == (1 if step == "unmask" else 0)
    assert grid.steps(1004)[-1] == step  # it is not asked any more


@pytest.mark.parametrize("mistake", [TypeError("ours"), ConfigError("ours"), OrderError("ours")], ids=repr)
@pytest.mark.parametrize("where", ["close", "result"])
def test_a_mistake_of_our_own_is_not_bad_luck(where, mistake, monkeypatch, said):
    """It ends the training as what it is; a lost round would be repeated, and read as dropouts."""

    def wrong(self):
        raise mistake

    monkeypatch.setattr(Server, where, wrong)
    grid = MemoryGrid(make_app(), NODES)
    with pytest.raises(type(mistake), match="ours"):
        one_round(grid, retries=3)
    assert not any("nodes is lost" in line or "lost, and repeated" in line for line in said)
    assert ("forget" in grid.steps(1001)) == (where == "close")  # nodes drop their keys all the same


def test_a_sum_that_cannot_be_read_is_a_lost_round(monkeypatch, said):
    def wrong(self, total, survivors):
        raise VectorError("more weight than there can be")

    monkeypatch.setattr(Packing, "unpack", wrong)
    assert one_round(MemoryGrid(make_app(), NODES)) is None
    assert any("is lost: more weight than there can be" in line for line in said)
