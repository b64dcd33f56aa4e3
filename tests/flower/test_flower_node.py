"""What a node insists on, whatever the server says."""

import msgspec
import pytest
from flwr.app import ConfigRecord, Message, RecordDict

from ccesa.errors import ConfigError
from ccesa.flower import SecureGrid, records
from flower_grid import MemoryGrid, as_record, make_app, new_model, number
from flower_rounds import NODES, STEPS, assert_mean, envelope_of, messages, one_round


def play(grid, step: str) -> Message:
    """The message of this step to node 1001."""
    one_round(grid)
    return next(one.message for one in grid.passed if one.to_node and (one.step, one.node) == (step, 1001))


@pytest.mark.parametrize("step", STEPS)
def test_a_message_twice_is_refused(step):
    app = make_app()
    grid = MemoryGrid(app, NODES)
    message = play(grid, step)
    assert grid._work(message, 1001).has_error()
    assert app.calls.count(("train", 1001)) == 1


def test_the_masking_request_twice_does_not_train_twice():
    app = make_app()
    grid = MemoryGrid(app, NODES)
    again = []

    def twice(step: str, node: int, count: int) -> None:
        if (step, node) == ("unmask", 1001):
            mask = next(one.message for one in grid.passed if one.to_node and one.step == "mask")
            again.append(grid._work(mask, 1001))

    grid.faults = twice
    assert_mean(one_round(grid), number(NODES))
    assert again[0].has_error()
    assert app.calls.count(("train", 1001)) == 1


def test_a_node_can_insist_on_secure_aggregation():
    app = make_app()
    configs = {node: {"ccesa-required": True} for node in number(NODES)}
    grid = MemoryGrid(app, NODES, node_configs=configs)
    for kind in ("train", "evaluate"):
        replies = grid.send_and_receive(messages(grid, new_model(), kind))
        assert {reply.error.code for reply in replies} == {records.REFUSED}
        assert "secure aggregation only" in replies[0].error.reason
    assert app.calls == []
    assert not any(one.has_error() for one in grid.send_and_receive(messages(grid, new_model(), "query")))
    assert_mean(one_round(grid), number(NODES))


@pytest.mark.parametrize(
    ("key", "value", "reason"),
    [
        ("ccesa-floor-clients", 10, "clients = 6, this client's floor is 10"),
        ("ccesa-floor-degree", 8, "degree = 5, this client's floor is 8"),
        ("ccesa-floor-threshold", 6, "floor is 6"),
        ("ccesa-floor-survivors", 5, "survivors = 3, this client's floor is 5"),
        ("ccesa-floor-mask_degree", 7, "floor is 7"),
        ("ccesa-max-clip", 0.5, "clip = 2, this node allows 0.5"),
        ("ccesa-floor-metric_clip", 2e6, "metric_clip = 1e+06, this node's floor is 2e+06"),
    ],
)
def test_a_node_has_its_own_limits(key, value, reason):
    app = make_app()
    grid = MemoryGrid(app, NODES, node_configs={1002: {key: value}})
    reply = one_round(grid)
    assert_mean(reply, [node for node in number(NODES) if node != 1002])
    (refusal,) = [one for one in grid.replies("advertise") if one.has_error()]
    assert reason in refusal.error.reason
    assert ("train", 1002) not in app.calls


def test_limits_that_are_kept_change_nothing():
    limits = {"ccesa-floor-clients": 6, "ccesa-floor-threshold": 3, "ccesa-max-clip": 2.0}
    grid = MemoryGrid(make_app(), NODES, node_configs={1002: limits})
    assert_mean(one_round(grid), number(NODES))


def test_different_models_are_refused_by_the_grid():
    grid = MemoryGrid(make_app(), NODES)
    some = messages(grid, new_model())
    other = new_model()
    other["b"][0] += 1
    some[3].content = RecordDict({"arrays": as_record(other)})
    with pytest.raises(ConfigError, match="different arrays or settings to different nodes"):
        list(SecureGrid(grid).send_and_receive(some))
    assert grid.passed == []


def test_different_models_are_refused_by_the_node():
    """The server cheats: node 1004 is sent another model than was announced."""
    app = make_app()
    grid = MemoryGrid(app, NODES)
    other = new_model()
    other["b"][0] += 1e-3

    def cheat(message: Message) -> None:
        if message.metadata.dst_node_id == 1004 and message.content.array_records:
            message.content["arrays"] = as_record(other)

    grid.tamper = cheat
    assert_mean(one_round(grid), [node for node in number(NODES) if node != 1004])
    (refusal,) = [one for one in grid.replies("mask") if one.has_error()]
    assert "not those that this round was announced for" in refusal.error.reason
    assert ("train", 1004) not in app.calls


def test_different_settings_are_refused_by_the_node():
    """The server cheats: only node 1004 is to learn anything, so that the sum is its change alone."""
    app = make_app()
    grid = MemoryGrid(app, NODES)

    def cheat(message: Message) -> None:
        if message.metadata.dst_node_id == 1004 and "config" in message.content:
            message.content["config"] = ConfigRecord({"server-round": 1, "lr": 1000.0})

    grid.tamper = cheat
    assert_mean(one_round(grid), [node for node in number(NODES) if node != 1004])
    (refusal,) = [one for one in grid.replies("mask") if one.has_error()]
    assert "not those that this round was announced for" in refusal.error.reason


def test_different_settings_are_refused_by_the_grid():
    grid = MemoryGrid(make_app(), NODES)
    some = messages(grid, new_model())
    some[3].content = RecordDict({**some[3].content, "config": ConfigRecord({"lr": 1000.0})})
    with pytest.raises(ConfigError, match="different arrays or settings"):
        list(SecureGrid(grid).send_and_receive(some))
    assert grid.passed == []


@pytest.mark.parametrize(
    ("key", "value", "reason"),
    [
        ("ccesa-floor-clients", "ten", "ccesa-floor-clients in this node's configuration must be a int"),
        ("ccesa-floor-clients", True, "must be a int"),
        ("ccesa-required", "false", "ccesa-required in this node's configuration must be a bool"),
        ("ccesa-max-clip", "much", "must be a float"),
        ("ccesa-floor-client", 10, "has a key 'ccesa-floor-client'; there are ccesa-required"),
        ("ccesa-requird", True, "has a key 'ccesa-requird'"),
    ],
)
def test_a_configuration_that_is_not_understood_is_refused(key, value, reason):
    """A site that misspells what it insists on takes part in nothing until it is put right."""
    app = make_app()
    grid = MemoryGrid(app, NODES, node_configs={1002: {key: value}})
    assert_mean(one_round(grid), [node for node in number(NODES) if node != 1002])
    (refusal,) = [one for one in grid.replies("advertise") if one.has_error()]
    assert reason in refusal.error.reason
    plain = grid.send_and_receive(messages(grid, new_model()))
    assert [one.metadata.src_node_id for one in plain if one.has_error()] == [1002]
    assert app.calls.count(("train", 1002)) == 0


@pytest.mark.parametrize(
    ("changes", "reason"),
    [
        ({"kind": "evaluate"}, "terms of evaluate"),
        ({"bits": 64}, "terms for 64 bits"),
        ({"clients": 3}, "terms for 3 clients"),
        ({"clip": 3.0}, "not those that this round was announced for"),
        ({"metric_clip": 0.0}, "metric_clip"),
        ({"slots": -1}, "-1 metrics"),
    ],
)
def test_other_terms_than_those_of_the_round_are_refused(changes, reason):
    app = make_app()
    grid = MemoryGrid(app, NODES)

    def cheat(message: Message) -> None:
        if message.metadata.dst_node_id == 1004:
            given = envelope_of(message)
            fields = msgspec.msgpack.decode(given["terms"]) | changes
            message.content["ccesa"] = ConfigRecord({**given, "terms": msgspec.msgpack.encode(fields)})

    grid.tamper = cheat
    assert_mean(one_round(grid), [node for node in number(NODES) if node != 1004])
    refusals = [one for step in STEPS for one in grid.replies(step) if one.has_error()]
    assert len(refusals) == 1
    assert reason in refusals[0].error.reason
    assert ("train", 1004) not in app.calls


def test_terms_for_another_length_are_refused_before_training():
    """The server itself made the round with them, so everything else fits."""
    app = make_app()
    grid = MemoryGrid(app, NODES)
    secure = SecureGrid(grid)
    planned = secure._plan
    secure._plan = lambda nodes, length: planned(nodes, length + 1)
    assert list(secure.send_and_receive(messages(grid, new_model()))) == []
    assert all("elements in a round of" in one.error.reason for one in grid.replies("mask"))
    assert app.calls == []


@pytest.mark.parametrize(
    "fields",
    [{}, {"step": 1}, {"step": "mask", "config": b"", "terms": b""}, {"other": "x"}],
)
def test_a_broken_envelope_is_refused(fields):
    app = make_app()
    grid = MemoryGrid(app, NODES)
    content = RecordDict({"arrays": as_record(new_model()), "ccesa": ConfigRecord(fields)})
    (reply,) = [app(Message(content, 1001, "train"), grid.contexts[1001])]
    assert reply.error.code in (records.REFUSED, records.FAILED)
    assert app.calls == []


def test_an_unknown_step_is_refused():
    grid = MemoryGrid(make_app(), NODES)
    message = play(grid, "advertise")
    message.content["ccesa"] = ConfigRecord({**envelope_of(message), "step": "reveal"})
    assert "no step 'reveal'" in grid._work(message, 1001).error.reason
