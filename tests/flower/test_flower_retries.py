"""Lost rounds that are repeated, and nodes that contribute to a task only so often."""

import pytest
from flwr.app import Context, Error, Message
from flwr.serverapp import strategy as flower

from ccesa.agreement.config import RoundConfig
from ccesa.errors import AttemptsSpent
from ccesa.flower import SecureGrid, secure_mod
from ccesa.flower.both.envelope import SPENT
from ccesa.protocol import messages as m
from flower_grid import ERROR, SILENT, MemoryGrid, as_record, make_app, new_model, number, step_of, trained
from flower_rounds import FLOAT32, NODES, STEPS, assert_mean, envelope_of, messages, one_round


def losing(step: str, times: int, fault: str = ERROR, app=None) -> MemoryGrid:
    """The first rounds are lost in this step."""
    grid = MemoryGrid(app or make_app(), NODES)
    grid.faults = lambda at, node, count: fault if at == step and count < times and node > 1002 else None
    return grid


@pytest.mark.parametrize("step", STEPS)
def test_a_lost_round_is_repeated_with_new_keys(step, said):
    grid, aside = losing(step, 1), step == "unmask"
    reply = one_round(grid, retries=1)
    assert_mean(reply, number(NODES), error=4e-3 if aside else FLOAT32)
    assert sum("a small random step aside" in line for line in said) == aside
    assert sum("a round is lost, and repeated" in line for line in said) == 1
    configs = {envelope_of(one.message)["config"] for one in grid.passed if one.to_node and one.step == "advertise"}
    places = [RoundConfig.decode(config) for config in configs]
    assert len({one.round_id for one in places}) == 2
    if step == "mask":  # vectors have left in the first
        assert len({one.series_id for one in places}) == 1
        assert {one.number for one in places} == {0, 1}


@pytest.mark.parametrize(("lost", "retries"), [(1, 0), (2, 1), (3, 2)])
def test_not_more_often_than_asked_for(lost, retries):
    grid = losing("advertise", lost)
    assert one_round(grid, retries=retries) is None
    assert grid.steps(1001).count("advertise") == retries + 1


def test_no_round_is_begun_when_the_time_of_the_strategy_is_over(clock):
    grid = losing("unmask", 1, SILENT)
    assert one_round(grid, timeout=100.0, retries=5) is None
    assert grid.steps(1001).count("advertise") == 1
    assert clock.now <= 106.0


def test_what_would_come_out_the_same_is_not_repeated():
    """No weight is one: there is no mean, whoever takes part."""

    def train(node, model):
        return trained(node, model)[0], {"num-examples": -1}

    grid = MemoryGrid(make_app(train), NODES)
    assert one_round(grid, retries=3) is None
    assert grid.steps(1001).count("advertise") == 1


def spent_on(step: str, *nodes: int, after: int = 0, outer=()):
    """These nodes have contributed as often as they may, from so many rounds on."""
    times: dict[int, int] = {}

    def mod(message: Message, context: Context, call_next) -> Message:
        if step_of(message) == step and context.node_id in nodes:
            times[context.node_id] = times.get(context.node_id, 0) + 1
            if times[context.node_id] > after:
                return Message(Error(code=SPENT, reason="as often as it may"), reply_to=message)
        return secure_mod(message, context, call_next)

    return make_app(outer=[*outer, mod])


@pytest.mark.parametrize("step", ["advertise", "mask"])
def test_a_task_that_is_spent_ends_the_training(step):
    """The first round is lost after all vectors have left; no model aside of it is any better."""
    grid = losing("unmask", 1, app=spent_on(step, *number(NODES), after=1))
    with pytest.raises(AttemptsSpent, match=r"6 nodes \(1001, .*may not contribute to this task again"):
        flower.FedAvg().start(grid=SecureGrid(grid, retries=5), initial_arrays=as_record(new_model()), num_rounds=3)
    assert grid.steps(1001).count("advertise") == 2


@pytest.mark.parametrize("step", ["advertise", "mask"])
def test_half_of_the_nodes_can_be_too_many(step):
    grid = MemoryGrid(spent_on(step, 1001, 1002, 1003, 1004), NODES)
    with pytest.raises(AttemptsSpent, match=r"4 nodes \(1001, 1002, 1003, 1004\)"):
        one_round(grid)


def test_an_evaluation_that_is_spent_is_left_out(said):
    """There is a model, and training goes on."""
    grid = MemoryGrid(spent_on("advertise", *number(NODES)), NODES)
    assert one_round(grid, kind="evaluate", retries=3) is None
    assert grid.steps(1001).count("advertise") == 1
    assert any("evaluate round with 6 nodes is lost: 6 nodes (1001" in line for line in said)


def test_a_few_spent_nodes_are_lost_like_others():
    grid = MemoryGrid(spent_on("advertise", 1002), NODES)
    assert_mean(one_round(grid), [node for node in number(NODES) if node != 1002])


def test_a_round_that_is_lost_for_other_reasons_is_a_lost_round():
    grid = MemoryGrid(spent_on("advertise", 1002), NODES)
    grid.faults = lambda at, node, count: ERROR if at == "mask" and node > 1003 else None
    assert list(SecureGrid(grid).send_and_receive(messages(grid, new_model()))) == []


def test_wrong_shares_are_not_the_fault_of_a_spent_node(said):
    """It is the only node that is missing, and would not have helped."""

    def lie(message: Message, context: Context, call_next) -> Message:
        step, reply = step_of(message), call_next(message, context)
        if step == "unmask":
            record = reply.content.config_records["ccesa"]
            given = m.decode(record["reply"], len(record["reply"]))
            shares = bytes(len(given.shares))
            record["reply"] = m.UnmaskReply(context=given.context, client=given.client, shares=shares).encode()
        return reply

    app = spent_on("advertise", 1002, outer=[lie])
    assert one_round(MemoryGrid(app, NODES)) is None
    (line,) = [line for line in said if "nodes is lost" in line]
    assert "may not contribute" not in line
