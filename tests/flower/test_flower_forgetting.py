"""Keys of a round that will not go on leave the nodes, however it ended."""

import pytest
from flwr.serverapp import strategy as flower

from ccesa.flower import SecureGrid
from ccesa.policy import Policy
from flower_grid import DROP, ERROR, SILENT, SLOW, UNSENT, MemoryGrid, as_record, lose, make_app, new_model, number
from flower_rounds import NODES, STEPS, assert_mean, messages, one_round


def holding(grid) -> list[int]:
    """Nodes that have keys of a round."""
    return [node for node in grid.get_node_ids() if "ccesa" in grid.state(node)]


def told(grid) -> list[int]:
    return [node for node in grid.get_node_ids() if "forget" in grid.steps(node)]


@pytest.mark.parametrize("fault", [ERROR, SILENT, DROP])
@pytest.mark.parametrize("step", STEPS)
def test_no_keys_stay_on_nodes_after_a_lost_round(step, fault):
    """Everyone but two fails in this step. All that may hold keys are told that nothing will come of them."""
    grid = MemoryGrid(make_app(), NODES)
    grid.faults = lambda at, node, count: fault if at == step and node > 1002 else None
    assert one_round(grid, policy=Policy.wait_for_all(60.0)) is None
    assert holding(grid) == []


@pytest.mark.parametrize("step", STEPS)
def test_no_keys_stay_on_nodes_after_a_step_in_which_nobody_answered(step, clock):
    """The nodes have worked; all their replies are lost. They are given a few seconds, not a whole step."""
    grid = MemoryGrid(make_app(), NODES)
    grid.faults = lambda at, node, count: SILENT if at in (step, "forget") else None
    assert one_round(grid, policy=Policy.wait_for_all(60.0)) is None
    assert holding(grid) == []
    assert told(grid) == list(number(NODES))
    assert clock.now == pytest.approx(65.0, abs=0.1)


class Interrupted(MemoryGrid):
    """Something ends the ServerApp while it waits for the replies of a step."""

    def __init__(self, step: str, why: BaseException) -> None:
        super().__init__(make_app(), NODES)
        self.step, self.why = step, why

    def pull_messages(self, message_ids):
        if self.steps(1001)[-1] == self.step:
            raise self.why
        return super().pull_messages(message_ids)


@pytest.mark.parametrize("why", [KeyboardInterrupt(), SystemExit(1), ConnectionError("gone")], ids=type)
@pytest.mark.parametrize("step", STEPS)
def test_no_keys_stay_on_nodes_after_an_exception(step, why, clock):
    grid = Interrupted(step, why)
    with pytest.raises(type(why)):
        flower.FedAvg().start(grid=SecureGrid(grid), initial_arrays=as_record(new_model()), num_rounds=3)
    assert holding(grid) == []
    assert clock.now <= 5.1


@pytest.mark.parametrize("rounds", [1, 3])
def test_an_exception_of_the_strategy_between_rounds_leaves_what_was_prepared_until_it_is_stopped(rounds):
    """A grid is not told of it."""

    class Broken(flower.FedAvg):
        def aggregate_train(self, server_round, replies):
            raise ZeroDivisionError

    grid = MemoryGrid(make_app(), NODES, faults=lose(SILENT, "mask", 1003))
    secure = SecureGrid(grid, policy=Policy.wait_for_all(5.0))
    with pytest.raises(ZeroDivisionError):
        Broken().start(grid=secure, initial_arrays=as_record(new_model()), num_rounds=rounds)
    assert holding(grid) == (list(number(NODES)) if rounds > 1 else [])
    secure.stop()
    assert holding(grid) == []


@pytest.mark.parametrize("fault", [ERROR, SILENT, SLOW])
@pytest.mark.parametrize("step", STEPS[:-1])
def test_a_node_that_was_left_behind_is_told_and_not_waited_for(step, fault, clock):
    grid = MemoryGrid(make_app(), NODES, delay=100.0)
    grid.faults = lambda at, node, count: {step: fault, "forget": SILENT}.get(at) if node == 1003 else None
    reply = one_round(grid, policy=Policy.wait_for_all(60.0))
    assert_mean(reply, [node for node in number(NODES) if node != 1003])
    assert told(grid) == [1003]
    assert holding(grid) == []
    assert clock.now <= 60.1


def test_nobody_is_told_to_forget_what_is_over():
    """A node that refused has dropped everything itself; one that was sent nothing has nothing."""
    configs = {1002: {"ccesa-floor-clients": 100}}
    grid = MemoryGrid(make_app(), NODES, node_configs=configs, faults=lose(UNSENT, "advertise", 1003), delay=1.0)
    assert_mean(one_round(grid), [1001, 1004, 1005, 1006])
    assert told(grid) == []
    assert holding(grid) == []


def test_a_lost_round_does_not_end_what_another_has_begun():
    """The message names the round that is over."""
    grid = MemoryGrid(make_app(), NODES)
    grid.faults = lambda at, node, count: ERROR if (at, count) == ("share", 0) and node > 1002 else None
    secure, model = SecureGrid(grid), new_model()
    assert list(secure.send_and_receive(messages(grid, model))) == []
    forget = next(one.message for one in grid.passed if one.to_node and one.step == "forget")

    def repeat(at: str, node: int, count: int) -> None:
        if (at, node) == ("mask", 1001):
            grid._work(forget, node)

    grid.faults = repeat
    (reply,) = secure.send_and_receive(messages(grid, model))
    assert_mean(reply, number(NODES))
