"""What a node insists on, whatever the server says."""

import subprocess
import sys

import msgspec
import numpy as np
import pytest
from flwr.app import ConfigRecord, Message, RecordDict

from ccesa.errors import ConfigError
from ccesa.flower import SecureGrid
from ccesa.flower.both import envelope
from flower_grid import (
    MemoryGrid,
    all_say,
    as_record,
    make_app,
    model_in,
    new_model,
    number,
    probing,
    trained,
    weight_of,
)
from flower_rounds import NODES, STEPS, assert_mean, envelope_of, messages, one_round

#: All that a node ever says when it does not answer.
SENTENCES = {
    "this node refuses; its own log says why",
    "this node failed; its own log says why",
    "this node has contributed to this model as often as it may",
    "this node has spent its privacy budget",
    "this node answers secure aggregation only: train through SecureGrid",
}


@pytest.fixture(autouse=True)
def nothing_else_is_said(monkeypatch):
    """In every test of this file: a reply in clear is one of a few sentences."""
    found = []
    work = MemoryGrid._work

    def look(self, message, node):
        reply = work(self, message, node)
        found.extend([reply.error.reason] if reply.has_error() else [])
        return reply

    monkeypatch.setattr(MemoryGrid, "_work", look)
    yield
    assert set(found) <= SENTENCES


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


@pytest.mark.parametrize("kind", ["train", "evaluate", "train.default"])
def test_a_node_with_the_mod_answers_nothing_in_clear(kind, said):
    """Whoever forgets ``SecureGrid`` is told so."""
    app = make_app()
    grid = MemoryGrid(app, NODES)
    replies = grid.send_and_receive(messages(grid, new_model(), kind))
    assert [reply.error.code for reply in replies] == [envelope.REFUSED] * NODES
    assert {reply.error.reason for reply in replies} == {
        "this node answers secure aggregation only: train through SecureGrid"
    }
    assert any("to allow it, set ccesa-plain=true" in line for line in said)
    assert app.calls == []


def test_queries_are_answered():
    grid = MemoryGrid(make_app(), NODES)
    assert not any(one.has_error() for one in grid.send_and_receive(messages(grid, new_model(), "query")))


def test_a_node_can_allow_messages_in_clear():
    grid = MemoryGrid(make_app(), NODES, node_configs=all_say(NODES, {"ccesa-plain": True}))
    replies = grid.send_and_receive(messages(grid, new_model()))
    assert [reply.content["metrics"]["num-examples"] for reply in replies] == [
        weight_of(node) for node in number(NODES)
    ]
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
        ("ccesa-weighted-by", "tokens", "by 'num-examples', this node by 'tokens'"),
        ("ccesa-message-types", "evaluate, train.probe", "is not one of ['evaluate', 'train.probe']"),
        ("ccesa-floor-metric_clip", 2e6, "metric_clip = 1e+06, this node's floor is 2e+06"),
    ],
)
def test_a_node_has_its_own_limits(key, value, reason, said):
    app = make_app()
    grid = MemoryGrid(app, NODES, node_configs={1002: {key: value}})
    reply = one_round(grid)
    assert_mean(reply, [node for node in number(NODES) if node != 1002])
    (refusal,) = [one for one in grid.replies("advertise") if one.has_error()]
    assert refusal.error.code == envelope.REFUSED
    assert any(reason in line for line in said)
    assert ("train", 1002) not in app.calls


def test_limits_that_are_kept_change_nothing():
    limits = {
        "ccesa-floor-clients": 6,
        "ccesa-floor-threshold": 3,
        "ccesa-max-clip": 2.0,
        "ccesa-weighted-by": "num-examples",
        "ccesa-message-types": "train",
        "ccesa-attempts": 1,
    }
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


def test_different_models_are_refused_by_the_node(said):
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
    assert len([one for one in grid.replies("mask") if one.has_error()]) == 1
    assert any("for another task than the one this client works on" in line for line in said)
    assert ("train", 1004) not in app.calls


def test_different_settings_are_refused_by_the_node(said):
    """The server cheats: only node 1004 is to learn anything, so that the sum is its change alone."""
    app = make_app()
    grid = MemoryGrid(app, NODES)

    def cheat(message: Message) -> None:
        if message.metadata.dst_node_id == 1004 and "config" in message.content:
            message.content["config"] = ConfigRecord({"server-round": 1, "lr": 1000.0})

    grid.tamper = cheat
    assert_mean(one_round(grid), [node for node in number(NODES) if node != 1004])
    assert len([one for one in grid.replies("mask") if one.has_error()]) == 1
    assert any("for another task than the one this client works on" in line for line in said)


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
        ("ccesa-floor-clients", "ten", "ccesa-floor-clients in this node's configuration: Expected `int"),
        ("ccesa-floor-clients", True, "got `bool`"),
        ("ccesa-plain", "true", "ccesa-plain in this node's configuration: Expected `bool`, got `str`"),
        ("ccesa-max-clip", "much", "Expected `float`, got `str`"),
        ("ccesa-attempts", 0, "ccesa-attempts in this node's configuration: Expected `int` >= 1"),
        ("ccesa-releases", 0, "ccesa-releases in this node's configuration: Expected `int` >= 1"),
        ("ccesa-releases", 3, "ccesa-releases must be at most 2 (ccesa-attempts), not 3"),
        ("ccesa-releases", "1", "ccesa-releases in this node's configuration: Expected `int`, got `str`"),
        ("ccesa-threads", -1, "ccesa-threads in this node's configuration: Expected `int` >= 0"),
        ("ccesa-forget-after", -1.0, "ccesa-forget-after must be a positive number of seconds"),
        ("ccesa-message-types", "train,query", "no messages of type 'query'"),
        ("ccesa-message-types", "", "no messages of type ''"),
        ("ccesa-floor-client", 10, "has unknown key 'ccesa-floor-client'; known are ccesa-plain"),
        ("ccesa-required", True, "has unknown key 'ccesa-required'"),
    ],
)
def test_a_configuration_that_is_not_understood_is_refused(key, value, reason, said):
    """A site that misspells what it insists on takes part in nothing until it is put right."""
    app = make_app()
    grid = MemoryGrid(app, NODES, node_configs={1002: {key: value}})
    assert_mean(one_round(grid), [node for node in number(NODES) if node != 1002])
    assert len([one for one in grid.replies("advertise") if one.has_error()]) == 1
    assert any(reason in line for line in said)
    assert app.calls.count(("train", 1002)) == 0


@pytest.mark.parametrize(
    ("changes", "reason"),
    [
        ({"message_type": "evaluate"}, "terms for 'evaluate' came in a message of type 'train'"),
        ({"message_type": "train.probe"}, "terms for 'train.probe' came in a message of type 'train'"),
        ({"message_type": "query"}, "no messages of type 'query'"),
        ({"weighted_by": "loss"}, "by 'loss', this node by 'num-examples'"),
        ({"field_bits": 16}, "for another task than the one this client works on"),
        ({"clients": 3}, "terms for 3 clients"),
        ({"clip": 3.0}, "for another task than the one this client works on"),
        ({"metric_clip": 0.0}, "metric_clip"),
        ({"slots": -1}, "-1 metrics"),
        ({"metrics": ["=a"]}, "1 names cannot name 16 slots"),
    ],
)
def test_other_terms_than_those_of_the_round_are_refused(changes, reason, said):
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
    assert any(reason in line for line in said)
    assert ("train", 1004) not in app.calls


def test_terms_for_another_length_are_refused_before_training(said):
    """The server itself made the round with them, so everything else fits."""
    app = make_app()
    grid = MemoryGrid(app, NODES)
    secure = SecureGrid(grid)
    made = secure._rounds.config
    secure._rounds.config = lambda terms, length, *, accept: made(terms, length + 1, accept=accept)
    assert list(secure.send_and_receive(messages(grid, new_model()))) == []
    assert sum("elements do not fit a round of" in line for line in said) == NODES
    assert app.calls == []


@pytest.mark.parametrize("fields", [{}, {"step": 1}, {"step": "mask", "config": b"", "terms": b""}, {"other": "x"}])
def test_a_broken_envelope_is_refused(fields):
    app = make_app()
    grid = MemoryGrid(app, NODES)
    content = RecordDict({"arrays": as_record(new_model()), "ccesa": ConfigRecord(fields)})
    (reply,) = [app(Message(content, 1001, "train"), grid.contexts[1001])]
    assert reply.error.code in (envelope.REFUSED, envelope.FAILED)
    assert app.calls == []


def test_an_unknown_step_is_refused(said):
    grid = MemoryGrid(make_app(), NODES)
    message = play(grid, "advertise")
    message.content["ccesa"] = ConfigRecord({**envelope_of(message), "step": "reveal"})
    assert grid._work(message, 1001).has_error()
    assert any("unknown step 'reveal'" in line for line in said)


@pytest.mark.parametrize("field", ["step", "weighted_by"])
def test_what_the_server_says_is_cut_and_escaped_in_the_log(field, said):
    grid = MemoryGrid(make_app(), NODES)
    message = play(grid, "advertise")
    given, text = envelope_of(message), "\x1b[2J\nINFO all is well" * 10_000
    if field == "step":
        given["step"] = text
    else:
        given["terms"] = msgspec.msgpack.encode(msgspec.msgpack.decode(given["terms"]) | {field: text})
    message.content["ccesa"] = ConfigRecord(given)
    said.clear()
    assert grid._work(message, 1001).has_error()
    assert said
    assert all(line.isprintable() and len(line) < 1000 for line in said)


# What a server could choose, if it were let


def test_another_function_of_the_app_is_another_task(said):
    """The server cheats: all but 1004 are to call ``train.probe``, and the sum would be what 1004 learned."""
    app = probing()
    types = {"ccesa-message-types": "train,train.probe"}
    grid = MemoryGrid(app, NODES, node_configs=all_say(NODES, types))

    def cheat(message: Message) -> None:
        if message.metadata.dst_node_id != 1004:
            message.metadata.message_type = "train.probe"

    grid.tamper = cheat
    assert one_round(grid) is None
    assert not any(kind == "train.probe" for kind, _ in app.calls)
    assert any("terms for 'train' came in a message of type 'train.probe'" in line for line in said)


def test_other_functions_are_called_where_nodes_allow_it(said):
    grid = MemoryGrid(probing(), NODES)
    assert one_round(grid, kind="train.probe") is None
    assert any("is not one of ['train', 'evaluate']" in line for line in said)
    grid = MemoryGrid(probing(), NODES, node_configs=all_say(NODES, {"ccesa-message-types": "train.probe"}))
    reply = one_round(grid, kind="train.probe")
    np.testing.assert_allclose(model_in(reply)["w"], new_model()["w"], atol=1e-5)
    assert reply.content["metrics"]["num-examples"] == NODES


def test_a_server_does_not_choose_what_replies_are_weighted_by(said):
    """It would take a metric that is 0 on all nodes but one, and the mean would be that node's model."""

    def train(node, model):
        arrays, metrics = trained(node, model)
        return arrays, {**metrics, "is-1003": float(node == 1003)}

    app = make_app(train)
    grid = MemoryGrid(app, NODES)
    assert one_round(grid, weighted_by="is-1003") is None
    assert sum("by 'is-1003', this node by 'num-examples'" in line for line in said) == NODES
    assert app.calls == []


@pytest.mark.parametrize(
    ("own", "wanted"),
    [
        ({}, True),
        ({"ccesa-max-clip": 4.0}, False),
        ({"ccesa-max-clip": 4.0, "ccesa-max-counter-clip": 100.0}, False),
        ({"ccesa-max-clip": 4.0, "ccesa-max-counter-clip": 16384.0}, True),
        ({"ccesa-max-counter-clip": 16383.0}, False),
    ],
)
def test_the_largest_clip_binds_counters_too(own, wanted, said):
    model = {**new_model(), "batches": np.array(3, np.int64)}
    grid = MemoryGrid(make_app(), NODES, node_configs=all_say(NODES, own))
    assert (one_round(grid, model) is not None) == wanted
    assert any("counters are clipped at 16384" in line for line in said) != wanted


def test_a_node_does_not_load_what_is_the_servers():
    """It starts anew for every message, and plans nothing."""
    code = (
        "import sys; from ccesa.flower import secure_mod; "
        "sys.exit(bool({'scipy', 'ccesa.plan', 'ccesa.flower.server'} & sys.modules.keys()))"
    )
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0
    with pytest.raises(ImportError, match="cannot import name 'other'"):
        from ccesa.flower import other  # noqa: F401
