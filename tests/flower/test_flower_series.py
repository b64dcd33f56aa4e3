"""Rounds in a series: while the same nodes are asked again, each round sets up those after it."""

import multiprocessing
import os
import signal
from pathlib import Path

import msgspec
import numpy as np
import pytest
from flwr.app import Context, Message, RecordDict
from flwr.clientapp import ClientApp
from flwr.common.serde import context_from_proto, context_to_proto, message_from_proto, message_to_proto
from flwr.proto.message_pb2 import Context as ContextProto
from flwr.proto.message_pb2 import Message as MessageProto
from flwr.serverapp import strategy as flower
from flwr.supercore.task_identity import TaskIdentity

from ccesa.agreement.config import RoundConfig
from ccesa.crypto.keys import AGREEMENTS
from ccesa.errors import AttemptsSpent, ConfigError, RoundsLost
from ccesa.flower import SecureGrid, secure_mod
from ccesa.flower.both import envelope
from ccesa.flower.both.envelope import REFUSED, SPENT, NodeAnswer
from ccesa.policy import Policy
from ccesa.protocol import envelope as of_series
from ccesa.protocol import messages as m
from flower_grid import (
    DROP,
    ERROR,
    RESTART,
    SILENT,
    MemoryGrid,
    as_model,
    as_record,
    lose,
    make_app,
    mean,
    new_context,
    new_model,
    number,
    step_of,
    trained,
)
from flower_rounds import NODES, assert_mean, enrol, envelope_of, messages

FIRST = ["advertise", "share", "accept", "mask", "unmask"]
NEXT = ["mask", "unmask"]
ACTIVE_FIRST = ["advertise", "share", "accept", "mask", "confirm", "unmask"]
ACTIVE_NEXT = ["mask", "confirm", "unmask"]


class Sampling(flower.FedAvg):
    """Asks given nodes in each round, from the first on; those that are not given, all."""

    def __init__(self, *sampled, **others) -> None:
        super().__init__(**{"fraction_evaluate": 0.0, **others})
        self._sampled = sampled

    def configure_train(self, server_round, arrays, config, grid):
        some = super().configure_train(server_round, arrays, config, grid)
        nodes = self._sampled[server_round - 1] if server_round <= len(self._sampled) else None
        return [one for one in some if nodes is None or one.metadata.dst_node_id in nodes]


def start(grid, rounds: int, strategy=None, secure=None, **options):
    return (strategy or Sampling()).start(
        grid=secure or SecureGrid(grid, **options), initial_arrays=as_record(new_model()), num_rounds=rounds
    )


def trained_by(*rounds, model=None) -> dict[str, np.ndarray]:
    """The model after rounds over these nodes, computed in the clear."""
    found = model or new_model()
    for nodes in rounds:
        found = {name: value.astype(np.float32) for name, value in mean(found, nodes).items()}
    return found


def assert_trained(result, *rounds, aside: int = 0) -> None:
    """``aside`` is how often a lost round lets the training step aside, each time by a thousandth at most."""
    expected = trained_by(*rounds)
    for name, value in as_model(result.arrays).items():
        np.testing.assert_allclose(value, expected[name], rtol=0, atol=2e-5 + aside * 4e-3)


def holding(grid) -> list[int]:
    return [node for node in number(len(grid.contexts)) if "ccesa" in grid.state(node)]


def logged(said, what: str) -> list[str]:
    return [line.removeprefix("secure aggregation: ") for line in said if what in line]


def asked_for(grid, kind: type[m.Message], node: int = 1001) -> list[m.Message]:
    """Requests of one kind that a node was sent, in the envelopes of series."""
    found = [
        m.decode(one, len(one))
        for passed in grid.passed
        if passed.to_node and passed.node == node and is_exchange(passed.message)
        for one in of_series.unpack(envelope_of(passed.message)["request"])
    ]
    return [one for one in found if isinstance(one, kind)]


def is_exchange(message: Message) -> bool:
    config = envelope_of(message).get("config")
    return step_of(message) != "forget" and bool(config) and RoundConfig.decode(config).accept


def but(*nodes: int) -> list[int]:
    return [node for node in number(NODES) if node not in nodes]


# The same nodes again


@pytest.mark.parametrize("rounds", [2, 3, 6])
def test_a_round_after_the_first_takes_two_exchanges(rounds, said):
    grid = MemoryGrid(make_app(), NODES)
    assert_trained(start(grid, rounds), *[number(NODES)] * rounds)
    assert all(grid.steps(node) == FIRST + NEXT * (rounds - 1) for node in number(NODES))
    assert logged(said, "of a series") == [
        f"train, round {place + 1} of a series: {2 if place else 5} exchanges" for place in range(rounds)
    ]


def test_what_is_recorded_can_stay_secret_for_longer():
    grid = MemoryGrid(make_app(), NODES)
    assert_trained(start(grid, 2, post_quantum=True), *[number(NODES)] * 2)
    for one in asked_for(grid, m.ShareRequest):
        assert len(one.keys) == len(one.neighbours) // 4 * AGREEMENTS["x25519-mlkem768"].bundle_bytes


def test_with_a_charter_three(tmp_path, said):
    charter, configs = enrol(tmp_path, NODES)
    grid = MemoryGrid(make_app(), NODES, node_configs=configs)
    assert_trained(start(grid, 4, charter=charter), *[number(NODES)] * 4)
    assert grid.steps(1001) == ["introduce", *ACTIVE_FIRST, *ACTIVE_NEXT * 3]
    assert [line.split(": ")[1] for line in logged(said, "of a series")] == ["6 exchanges"] + ["3 exchanges"] * 3
    assert holding(grid) == []


def test_a_series_that_nobody_is_in_is_lost(tmp_path):
    """No node says who it is."""
    charter, configs = enrol(tmp_path, NODES)
    grid = MemoryGrid(make_app(), NODES, node_configs=configs)
    grid.faults = lambda step, node, count: ERROR if step == "introduce" else None
    with pytest.raises(RoundsLost, match="2 x step advertise: 0 answered"):
        start(grid, 2, charter=charter)


def test_no_round_is_set_up_that_will_not_come():
    """Every round has its own number and its own keys, and when the training ends nothing is left of any."""
    grid = MemoryGrid(make_app(), NODES)
    start(grid, 4)
    advertised = asked_for(grid, m.AdvertiseRequest)
    assert [int.from_bytes(one.number, "little") for one in advertised] == [0, 1, 2, 3]
    assert len({one.context for one in advertised}) == 4
    assert holding(grid) == []
    assert "forget" not in grid.steps(1001)


def test_the_model_travels_with_the_mask_request_alone():
    grid = MemoryGrid(make_app(), NODES)
    start(grid, 3)
    with_model = [one.step for one in grid.passed if one.to_node and "arrays" in one.message.content]
    assert with_model == ["mask"] * 3 * NODES


def test_training_and_evaluation_each_have_a_series(said):
    grid = MemoryGrid(make_app(), NODES)
    result = start(grid, 3, Sampling(fraction_evaluate=1.0))
    assert_trained(result, *[number(NODES)] * 3)
    assert set(result.evaluate_metrics_clientapp) == {1, 2, 3}
    assert grid.steps(1001) == FIRST * 2 + NEXT * 4
    assert len(logged(said, "evaluate, round 3 of a series: 2 exchanges")) == 1
    assert holding(grid) == []


def test_an_evaluation_that_does_not_come_leaves_nothing():
    """It is prepared after the first round, and the strategy does not evaluate again."""

    class Once(Sampling):
        def configure_evaluate(self, server_round, arrays, config, grid):
            return super().configure_evaluate(server_round, arrays, config, grid) if server_round == 1 else []

    grid = MemoryGrid(make_app(), NODES)
    start(grid, 3, Once(fraction_evaluate=1.0))
    assert grid.steps(1001) == FIRST * 2 + NEXT * 2 + ["forget"]
    assert holding(grid) == []


def test_a_training_of_one_round_prepares_nothing(said):
    grid = MemoryGrid(make_app(), NODES)
    start(grid, 1)
    assert grid.steps(1001) == ["advertise", "share", "mask", "unmask"]
    assert len(logged(said, "train, a single round: 4 exchanges")) == 1


def test_a_loop_of_ones_own_prepares_when_the_same_is_asked_twice(said):
    """Nobody knows when it ends, so it says so."""
    grid = MemoryGrid(make_app(), NODES)
    secure, model = SecureGrid(grid), new_model()
    for _ in range(4):
        (reply,) = secure.send_and_receive(messages(grid, model))
        assert_mean(reply, number(NODES), model, error=1e-5)
        model = as_model(reply.content["arrays"])
    assert grid.steps(1001) == ["advertise", "share", "mask", "unmask", *FIRST, *NEXT, *NEXT]
    assert holding(grid) == list(number(NODES))
    secure.stop()
    assert holding(grid) == []


# Other nodes


def test_other_nodes_begin_another_series_and_the_old_ones_forget(said):
    grid = MemoryGrid(make_app(), NODES)
    every, fewer = number(NODES), but(1006)
    assert_trained(start(grid, 4, Sampling(None, fewer, fewer, fewer)), every, fewer, fewer, fewer)
    assert grid.steps(1006) == [*FIRST, "forget"]
    assert grid.steps(1001) == [*FIRST, "forget", *FIRST, *NEXT, *NEXT]
    assert logged(said, "because") == ["train, round 1 of a series: 5 exchanges, because other nodes are asked"]
    assert holding(grid) == []


def test_nothing_is_prepared_while_the_nodes_change_every_time(said):
    """After two changes in a row; the same nodes twice begin a series again."""
    grid = MemoryGrid(make_app(), NODES)
    sampled = [but(node) for node in (1001, 1002, 1003, 1004, 1004, 1004, 1004)]
    assert_trained(start(grid, 7, Sampling(*sampled)), *sampled)
    assert [line.split(": ")[0] for line in logged(said, " exchanges")] == [
        "train, round 1 of a series",
        "train, round 1 of a series",
        "train, a single round",
        "train, a single round",
        "train, round 1 of a series",
        "train, round 2 of a series",
        "train, round 3 of a series",
    ]
    assert holding(grid) == []


def test_nobody_waits_for_those_that_are_to_forget(clock):
    grid = MemoryGrid(make_app(), NODES)
    grid.faults = lambda step, node, count: SILENT if step == "forget" else None
    start(grid, 3, Sampling(None, but(1006), None))
    assert clock.now < 0.1


def test_another_model_begins_another_series(said):
    grid = MemoryGrid(make_app(), NODES)
    secure, model = SecureGrid(grid), new_model()
    for size in (4, 4, 4, 5, 5):
        model["b"] = np.full(size, len(grid.passed), np.float32)
        (reply,) = secure.send_and_receive(messages(grid, model))
        assert_mean(reply, number(NODES), model, error=1e-4)
    assert grid.steps(1001)[4:] == FIRST + NEXT + ["forget"] + FIRST + NEXT
    assert any("because the model has another size" in line for line in said)


# Nodes that miss something


@pytest.mark.parametrize("fault", [ERROR, SILENT, DROP, RESTART])
@pytest.mark.parametrize(("step", "in_rounds"), [("mask", {1, 4, 5}), ("unmask", {1, 2, 5})])
def test_a_node_that_misses_an_exchange_is_out_of_the_rounds_in_flight_and_back_after_them(step, in_rounds, fault):
    """In the second of five rounds. A vector that has come is in the sum, whatever became of its node.

    One that was restarted can be in the round that begins with the same message.
    """
    grid = MemoryGrid(make_app(), NODES, faults=lose(fault, step, 1004, times=(1,)))
    found = in_rounds | ({4} if fault == RESTART else set())
    expected = [number(NODES) if place in found else but(1004) for place in range(1, 6)]
    assert_trained(start(grid, 5, policy=Policy.wait_for_all(60.0)), *expected)
    assert holding(grid) == []


def test_keys_of_a_node_that_was_left_behind_leave_at_once():
    """It holds shares of others, and is told to drop them before the round after next asks it again."""
    grid = MemoryGrid(make_app(), NODES, faults=lose(DROP, "unmask", 1004, times=(0,)))
    held = []

    class Look(Sampling):
        def aggregate_train(self, server_round, replies):
            held.append(holding(grid))
            return super().aggregate_train(server_round, replies)

    start(grid, 4, Look(), policy=Policy.wait_for_all(60.0))
    assert [1004 in one for one in held] == [False, True, True, False]
    assert [node for node in number(NODES) if "forget" in grid.steps(node)] == [1004]


def test_keys_of_a_node_that_was_left_behind_leave_at_the_end():
    """It misses the last exchange, has still shares of others, and is told to drop them."""
    grid = MemoryGrid(make_app(), NODES, faults=lose(DROP, "unmask", 1004, times=(2,)))
    start(grid, 3, policy=Policy.wait_for_all(60.0))
    assert [node for node in number(NODES) if "forget" in grid.steps(node)] == [1004]
    assert holding(grid) == []


# Lost rounds


def test_a_lost_round_costs_one_round_and_not_the_series(said):
    """Nobody answers the mask request of the second round, so that the set-up of the third is lost, too."""
    grid = MemoryGrid(make_app(), NODES, faults=lose(ERROR, "mask", *number(NODES), times=(1,)))
    result = start(grid, 5)
    assert set(result.train_metrics_clientapp) == {1, 3, 4, 5}
    assert_trained(result, *[number(NODES)] * 4)
    assert len(logged(said, "the train round with 6 nodes is lost")) == 1
    assert len(logged(said, "round 3 of a series was lost during its set-up")) == 1
    assert holding(grid) == []


def test_a_round_that_is_lost_while_it_is_set_up_costs_nobody_a_round(said):
    """Most miss the set-up of round 3 with the end of round 2, and the sum of round 2 needs but four."""
    grid = MemoryGrid(make_app(), NODES, faults=lose(ERROR, "unmask", 1005, 1006, times=(0, 1)))
    result = start(grid, 4)
    assert set(result.train_metrics_clientapp) == {1, 2, 3, 4}
    assert not logged(said, "the train round with 6 nodes is lost")


def failing(*times: int) -> ClientApp:
    """Of most nodes: at these of its calls it raises, so that there is no mean."""
    calls: dict[int, int] = {}

    def train(node, model):
        calls[node] = calls.get(node, -1) + 1
        if node > 1002 and calls[node] in times:
            raise ValueError
        return trained(node, model)

    return make_app(train)


def test_a_retry_is_the_next_round_of_the_series(said):
    """The second round is lost when its shares are there. The retry, of a model aside, was set up before."""
    grid = MemoryGrid(failing(1), NODES)
    assert_trained(start(grid, 5, retries=1), *[number(NODES)] * 5, aside=1)
    assert len(logged(said, "a round is lost, and repeated")) == 1
    assert grid.steps(1001) == FIRST + NEXT * 4 + ["advertise", "share", "mask", "unmask"]
    masked = asked_for(grid, m.MaskRequest)
    assert len({one.context for one in masked}) == len(masked) == 5
    assert masked[1].task != masked[2].task
    assert len(logged(said, "a small random step aside")) == 1
    assert holding(grid) == []


def test_retries_use_up_a_series_and_another_one_takes_its_place(said):
    """Two rounds of a series of five are retries, so that two are missing."""
    grid = MemoryGrid(failing(0, 2), NODES)
    assert_trained(start(grid, 5, retries=1), *[number(NODES)] * 5, aside=2)
    assert grid.steps(1001) == FIRST + NEXT * 4 + FIRST + NEXT
    assert holding(grid) == []


def test_a_retry_where_most_have_missed_the_set_up_of_the_next_round(said):
    """No round of the series is left then, and the retry is a single one."""
    grid = MemoryGrid(make_app(), NODES, faults=lose(ERROR, "unmask", *but(1001, 1002), times=(1,)))
    assert_trained(start(grid, 4, retries=1), *[number(NODES)] * 4, aside=1)
    assert len(logged(said, "was lost during its set-up")) == 2
    assert holding(grid) == []


def test_nodes_that_are_spent_say_so_within_a_series():
    """They still answer what is due in the next round, with a code beside it."""

    class Stuck(Sampling):
        def configure_train(self, server_round, arrays, config, grid):
            return super().configure_train(server_round, as_record(new_model()), config, grid)

    app = make_app()
    grid = MemoryGrid(app, NODES)
    with pytest.raises(AttemptsSpent, match=r"6 nodes \(1001, .*may not contribute to this task again"):
        start(grid, 5, Stuck())
    codes = [one.content["ccesa"].get("code", 0) for one in grid.replies("mask")]
    assert codes == [0] * NODES + [SPENT] * NODES
    assert app.calls.count(("train", 1001)) == 1
    assert holding(grid) == []


def test_which_round_is_refused_is_in_the_log_of_the_node(said):
    """A server that shows one node another model gets no vector of it, and the node is in the next round."""
    grid = MemoryGrid(make_app(), NODES)
    other = new_model()
    other["b"] += 1

    def cheat(message: Message) -> None:
        if in_second_round(grid, message, 1004):
            message.content["arrays"] = as_record(other)

    grid.tamper = cheat
    assert_trained(start(grid, 3), number(NODES), but(1004), number(NODES))
    assert len(logged(said, "step mask: round 1 of a series is refused: the server asks for a vector")) == 1
    assert [one.content["ccesa"].get("code") for one in grid.replies("mask")].count(REFUSED) == 1
    assert sum("node 1004: this node refuses; its own log says why" in line for line in said) == 1


def in_second_round(grid, message: Message, node: int) -> bool:
    """Whether this is the request for a vector of the second round to this node."""
    is_mask = (message.metadata.dst_node_id, step_of(message)) == (node, "mask")
    return is_mask and grid.steps(node).count("mask") == 1


@pytest.mark.parametrize("step", FIRST)
@pytest.mark.parametrize("why", [KeyboardInterrupt(), ConnectionError("gone")], ids=type)
def test_an_exception_ends_the_series(step, why):
    grid = MemoryGrid(make_app(), NODES)
    grid.tamper = raising(grid, step, why)
    with pytest.raises(type(why)):
        start(grid, 4)
    assert holding(grid) == []


def raising(grid, step: str, why: BaseException):
    """Once, in the second round, or in the first one where the step is in no other."""

    def tamper(message: Message) -> None:
        if step_of(message) == step and grid.steps(1001).count(step) == (step in NEXT):
            raise why

    return tamper


def test_a_charter_that_expires_ends_the_training(tmp_path, monkeypatch):
    charter, configs = enrol(tmp_path, NODES)
    grid = MemoryGrid(make_app(), NODES, node_configs=configs)

    class Late(Sampling):
        def configure_train(self, server_round, arrays, config, grid):
            if server_round == 3:

                def expired(self, now=None):
                    raise ConfigError("the charter has expired")

                monkeypatch.setattr(type(charter), "check_current", expired)
            return super().configure_train(server_round, arrays, config, grid)

    with pytest.raises(ConfigError, match="expired"):
        start(grid, 3, Late(), charter=charter)
    assert holding(grid) == []


# One use of every state


def remember(folder: Path) -> dict[int, dict]:
    return {node: {"ccesa-memory": str(folder / str(node))} for node in number(NODES)}


@pytest.mark.parametrize("place", range(9))
def test_a_state_that_comes_back_is_not_gone_on_from(place, tmp_path, said):
    """A node crashes after each exchange before its state is stored, and gets the message once more.

    It never trains a second time for one round, and answers no round that it has answered. What begins with
    the message, and is new to it, it can be in.
    """
    app = make_app()
    grid = MemoryGrid(app, NODES, node_configs=remember(tmp_path))
    replies = []

    def crash(step: str, node: int, count: int) -> str | None:
        if node != 1004 or len(grid.steps(1004)) != place + 1:
            return None
        sent = [one.message for one in grid.passed if one.to_node and one.node == 1004][-1]
        before = context_to_proto(grid.contexts[1004])
        for _ in range(2):
            grid.contexts[1004] = context_from_proto(before)
            again = Message(RecordDict(dict(sent.content)), metadata=sent.metadata)
            replies.append(grid._work(again, 1004))
        return DROP

    grid.faults = crash
    start(grid, 3, policy=Policy.wait_for_all(60.0))
    assert not replies[0].has_error()
    assert replies[1].has_error()  # every number has been used, and every state
    trainings = app.calls.count(("train", 1004))
    assert trainings <= 3
    assert len(list((tmp_path / "1004").glob("mask-*"))) == trainings
    assert holding(grid) == []


def test_a_round_is_trained_for_once_whatever_the_state_says(tmp_path, monkeypatch, said):
    """Were a state resumed twice, the round would still be known as one that a vector has left in."""
    monkeypatch.setattr("ccesa.protocol.suspended.check_first_use", lambda data, resumed: None)
    app = make_app()
    grid = MemoryGrid(app, NODES, node_configs=remember(tmp_path))

    def again(step: str, node: int, count: int) -> None:
        if (step, node, count) == ("mask", 1004, 1):
            in_another_process(grid, context_to_proto(grid.contexts[1004]))

    grid.faults = again
    assert_trained(start(grid, 2), number(NODES), but(1004))
    assert app.calls.count(("train", 1004)) == 2
    assert len(logged(said, "another process of this client has sent its vector of this round")) == 1


def in_another_process(grid, state: ContextProto, node: int = 1004) -> Message:
    """What a second process of this node makes of its last message, with such a state."""
    sent = [one.message for one in grid.passed if one.to_node and one.node == node][-1]
    own, grid.contexts[node] = grid.contexts[node], context_from_proto(state)
    reply = grid._work(Message(RecordDict(dict(sent.content)), metadata=sent.metadata), node)
    grid.contexts[node] = own
    return reply


def has_vector(reply: Message) -> bool:
    """Whether a masked vector is in a node's answer to an exchange."""
    if reply.has_error():
        return False
    answers = of_series.unpack(reply.content["ccesa"]["reply"])
    return any(isinstance(m.decode(one, len(one)), m.MaskReply) for one in answers)


@pytest.mark.parametrize("with_memory", [True, False])
def test_two_processes_of_a_node_send_one_vector(with_memory, tmp_path, monkeypatch, said):
    """Both train at once, with the same keys: the difference of their vectors is that of what is in them.

    A memory that is copied with the state of a node does not keep the second one back.
    """
    monkeypatch.setattr("ccesa.protocol.suspended.check_first_use", lambda data, resumed: None)
    states, second = [], []

    def train(node, model):
        if node == 1004 and states and not second:
            second.append(None)  # it is at work, and trains as well
            second[0] = in_another_process(grid, states[0])
        return trained(node, model)

    def keep(step: str, node: int, count: int) -> None:
        if (step, node, count) == ("mask", 1004, 1):
            states.append(context_to_proto(grid.contexts[1004]))

    app = make_app(train)
    grid = MemoryGrid(app, NODES, faults=keep, node_configs=remember(tmp_path) if with_memory else {})
    start(grid, 2)
    first = [one.message for one in grid.passed if one.node == 1004 and not one.to_node and one.step == "mask"]
    assert [has_vector(reply) for reply in (first[-1], *second)] == [not with_memory, True]
    assert len(logged(said, "another process of this client has sent its vector")) == with_memory
    assert app.calls.count(("train", 1004)) == 3


def killed_while_training(context: bytes, message: bytes, calls: str) -> None:
    """A process of a node, as a SuperNode starts one; the power fails while it trains."""
    TaskIdentity.run_id, TaskIdentity.node_id, TaskIdentity.task_id = 1, 1004, 1
    app = ClientApp(mods=[secure_mod])

    @app.train()
    def train(message: Message, context: Context) -> Message:
        with open(calls, "a") as file:
            file.write("trained\n")
        os.kill(os.getpid(), signal.SIGKILL)
        raise AssertionError

    arrived = message_from_proto(MessageProto.FromString(message))
    app(arrived, context_from_proto(ContextProto.FromString(context)))


def test_a_node_that_is_killed_while_it_trains_does_not_train_again(tmp_path):
    """The message is there again, and the state as it was before it: two processes get both."""
    grid = MemoryGrid(make_app(), NODES, node_configs=remember(tmp_path))
    calls, exits = tmp_path / "calls", []

    def kill(step: str, node: int, count: int) -> str | None:
        if (step, node, count) != ("mask", 1004, 1):
            return None
        sent = [one.message for one in grid.passed if one.to_node and one.node == 1004][-1]
        both = context_to_proto(grid.contexts[1004]), message_to_proto(sent)
        for _ in range(2):
            process = multiprocessing.get_context("spawn").Process(
                target=killed_while_training, args=(*(one.SerializeToString() for one in both), str(calls))
            )
            process.start()
            process.join()
            exits.append(process.exitcode)
        return DROP

    grid.faults = kill
    expected = [number(NODES), but(1004), but(1004), number(NODES)]
    assert_trained(start(grid, 4, policy=Policy.wait_for_all(60.0)), *expected)
    assert calls.read_text() == "trained\n"
    assert exits == [-signal.SIGKILL, 0]


def test_a_message_of_an_earlier_exchange_does_not_end_a_series(said):
    grid = MemoryGrid(make_app(), NODES)

    def late(step: str, node: int, count: int) -> None:
        if (step, node, count) == ("unmask", 1004, 1):
            earlier = [one.message for one in grid.passed if one.to_node and one.node == 1004]
            for message in earlier[:-2]:
                reply = grid._work(Message(RecordDict(dict(message.content)), metadata=message.metadata), 1004)
                assert reply.has_error()

    grid.faults = late
    assert_trained(start(grid, 3), *[number(NODES)] * 3)
    assert logged(said, "an exchange that is over")


@pytest.mark.parametrize("request_", [b"", b"\1", b"\1" + bytes(7) + b"x", bytes(8)], ids=repr)
def test_what_is_no_exchange_is_refused(request_):
    grid = MemoryGrid(make_app(), NODES)

    def damage(message: Message) -> None:
        if in_second_round(grid, message, 1004):
            record = message.content["ccesa"]
            message.content["ccesa"] = type(record)({**record, "request": request_})

    grid.tamper = damage
    assert_trained(start(grid, 2), number(NODES), but(1004))
    assert {one.error.code for one in grid.replies("mask") if one.has_error()} == {REFUSED}
    assert holding(grid) == []


def test_a_code_that_no_node_has_is_no_answer():
    asked = Message(RecordDict(), 1, "train")
    asked.metadata.__dict__["_message_id"] = "1"
    for code in (0, REFUSED, SPENT):
        reply = envelope.answer(asked, NodeAnswer(b"reply", code))
        assert envelope.answer_in(reply) == NodeAnswer(b"reply", code)
    for code in (1, -1, "2001", [2001]):
        reply.content["ccesa"]["code"] = code
        with pytest.raises(envelope.MalformedMessage, match="its code is unknown"):
            envelope.answer_in(reply)


def test_keys_of_a_series_that_does_not_go_on_leave_after_a_time(monkeypatch):
    """The ServerApp is gone between two rounds, and tells nobody; one message of another run is enough."""
    from ccesa.flower.node import mod as node_side

    grid = MemoryGrid(make_app(), NODES, node_configs={1001: {"ccesa-forget-after": 100.0}})
    secure = SecureGrid(grid)
    for seed in range(2):
        list(secure.send_and_receive(messages(grid, new_model(seed=seed))))
    assert holding(grid) == list(number(NODES))
    real = node_side.time.time()

    class Later:
        @staticmethod
        def time() -> float:
            return real + 101.0

    monkeypatch.setattr(node_side, "time", Later)
    request = envelope.Envelope(step=envelope.FORGET, config=b"another round")
    for node in number(NODES):
        message = Message(envelope.request_with(RecordDict(), request), node, "train")
        message.metadata.__dict__["_message_id"] = message.object_id
        grid._work(message, node)
    assert holding(grid) == but(1001)


def test_a_suspended_series_is_of_one_type_of_message():
    """Bytes of a training are not gone on from in an evaluation."""
    context = new_context(1, {})
    from ccesa.flower.node.state import SuspendedClients

    SuspendedClients(context, "train", 1.0).put(b"config", b"keys")
    assert SuspendedClients(context, "evaluate", 1.0).take(b"config") is None
    (kept,) = msgspec.msgpack.decode(context.state["ccesa"]["kept"])
    assert kept["message_type"] == "train"
