"""``SecureGrid`` and ``secure_mod`` in a federation in memory: results, lost nodes, what passes."""

import itertools
import logging
import re
import struct

import msgspec
import numpy as np
import pytest
from flwr.app import ConfigRecord, Context, Error, Message, MetricRecord, RecordDict
from flwr.serverapp import strategy as flower

from ccesa.errors import ConfigError
from ccesa.flower import SecureGrid, members, records
from ccesa.flower import grid as server_side
from ccesa.flower import mod as node_side
from ccesa.flower.terms import Terms
from ccesa.identity import Admission, Identity, Member
from flower_grid import (
    DROP,
    ERROR,
    LATE,
    RESTART,
    SILENT,
    SLOW,
    UNSENT,
    Clock,
    MemoryGrid,
    as_model,
    as_record,
    evaluated,
    lose,
    make_app,
    mean,
    model_in,
    new_model,
    number,
    step_of,
    trained,
    weight_of,
)

STEPS = ["advertise", "share", "mask", "unmask"]
NODES = 6
#: float32 arithmetic, here and in Flower's own mean.
FLOAT32 = 4e-6


@pytest.fixture
def said():
    """What Flower's logger was told."""
    lines: list[str] = []

    class Keep(logging.Handler):
        def emit(self, record):
            lines.append(record.getMessage())

    logger, handler = logging.getLogger("flwr"), Keep()
    others = list(logger.handlers)
    for other in others:
        logger.removeHandler(other)
    logger.addHandler(handler)
    yield lines
    logger.removeHandler(handler)
    for other in others:
        logger.addHandler(other)


@pytest.fixture(autouse=True)
def clock(said, monkeypatch):
    """Time passes only where somebody waits."""
    node_side._told.clear()
    made = Clock()
    for module in (server_side, members):
        monkeypatch.setattr(module, "time", made)
    return made


def printed_bounds(said) -> list[float]:
    return [
        float(found[1]) for line in said if (found := re.search(r"no value by more than ([0-9.e+-]+)", line))
    ]


def messages(grid, model, kind: str = "train") -> list[Message]:
    content = RecordDict({"arrays": as_record(model), "config": ConfigRecord({"server-round": 1})})
    return [Message(content, node, kind) for node in grid.get_node_ids()]


def one_round(grid, model=None, kind: str = "train", timeout=3600.0, **options):
    """The single reply of a secure round, or None if it was lost."""
    secure = SecureGrid(grid, **options)
    replies = list(secure.send_and_receive(messages(grid, model or new_model(), kind), timeout=timeout))
    assert len(replies) <= 1
    return replies[0] if replies else None


def assert_mean(reply, nodes, model=None, train=trained, error: float = FLOAT32) -> None:
    model = model or new_model()
    expected, found = mean(model, nodes, train), model_in(reply)
    assert list(found) == list(model)
    for name, value in expected.items():
        np.testing.assert_allclose(found[name], value, rtol=0, atol=error)
    weight = sum(train(node, model)[1]["num-examples"] for node in nodes)
    assert reply.content["metrics"]["num-examples"] == pytest.approx(weight, abs=1e-6)


# Strategies


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
        grid = wrap(MemoryGrid(make_app(), NODES))
        results.append(
            AVERAGING[name]().start(grid=grid, initial_arrays=as_record(new_model()), num_rounds=2)
        )
    plain, secure = results
    bounds = printed_bounds(said)
    assert len(bounds) == 4
    assert max(bounds) < 1e-5
    # Adaptive steps divide by the square root of past changes: the second round sees the error of the first.
    error = (
        FLOAT32 + 100 * sum(bounds) if name in ("FedAdam", "FedYogi", "FedAdagrad") else sum(bounds) + FLOAT32
    )
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
    "DifferentialPrivacyClientSideAdaptiveClipping": lambda: (
        flower.DifferentialPrivacyClientSideAdaptiveClipping(flower.FedAvg(), 0.1, NODES)
    ),
}


@pytest.mark.parametrize("name", REFUSED)
def test_strategies_that_need_single_updates_are_refused(name):
    grid = MemoryGrid(make_app(), NODES)
    called = "FedMedian" if name == "wrapped" else name
    with pytest.raises(ConfigError, match=f"{called} .*nothing but their mean.*FedAvg"):
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


# One round


@pytest.mark.parametrize("nodes", [3, 4, 8, 13])
@pytest.mark.parametrize("dropout", [0.0, 0.1, 0.4])
def test_the_mean_is_exact_whatever_the_planner_can_promise(nodes, dropout):
    reply = one_round(MemoryGrid(make_app(), nodes), dropout=dropout)
    assert_mean(reply, number(nodes))


def test_metrics_come_as_their_weighted_mean(said):
    reply = one_round(MemoryGrid(make_app(), NODES))
    weights = [weight_of(node) for node in number(NODES)]
    metrics = reply.content["metrics"]
    assert metrics["loss"] == pytest.approx(
        np.average([n / 7.0 for n in number(NODES)], weights=weights), 1e-8
    )
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
    grid = MemoryGrid(make_app(), NODES)
    secure = SecureGrid(grid, secure_evaluate=False)
    replies = list(secure.send_and_receive(messages(grid, new_model(), "evaluate")))
    assert {reply.metadata.src_node_id for reply in replies} == set(number(NODES))
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
        assert set(grid.state(node)) == {"ccesa-used"}  # round ids, no secrets


# Lost nodes


@pytest.mark.parametrize("fault", [DROP, SILENT, ERROR])
@pytest.mark.parametrize("step", STEPS)
def test_the_mean_is_exact_over_the_survivors(step, fault):
    lost = 1003
    grid = MemoryGrid(make_app(), NODES, faults=lose(fault, step, lost))
    reply = one_round(grid, step_timeout=0.3)
    survivors = [node for node in number(NODES) if node != lost or step == "unmask"]
    assert_mean(reply, survivors)


def test_one_lost_in_every_step():
    lost = dict(zip(STEPS, (1002, 1005, 1009, 1012), strict=True))
    grid = MemoryGrid(make_app(), 14, faults=lambda step, node, count: DROP if lost[step] == node else None)
    reply = one_round(grid, step_timeout=0.3, dropout=0.3)
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
    reply = one_round(grid, timeout=3600, step_timeout=60.0)
    assert clock.now == pytest.approx(60.0, abs=0.1)
    assert_mean(reply, [node for node in number(NODES) if node != 1004 or step == "unmask"])


@pytest.mark.parametrize("step", STEPS)
def test_a_reply_within_the_step_is_waited_for(step, clock):
    grid = MemoryGrid(make_app(), NODES, faults=lose(SLOW, step, 1004), delay=50.0)
    assert_mean(one_round(grid, timeout=3600, step_timeout=60.0), number(NODES))
    assert clock.now == pytest.approx(50.0, abs=1.1)


@pytest.mark.parametrize("step", STEPS)
def test_without_a_step_timeout_a_silent_node_costs_its_step_and_not_the_round(step, clock):
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
    secure, model = SecureGrid(grid, step_timeout=60.0), new_model()
    (first,) = secure.send_and_receive(messages(grid, model))
    assert_mean(first, [node for node in number(NODES) if node != 1004 or step == "unmask"])
    (second,) = secure.send_and_receive(messages(grid, model))
    assert_mean(second, number(NODES))
    assert not grid._late
    assert len(grid._ready) == (0 if strays else 1)


@pytest.mark.parametrize("step", STEPS[1:])
def test_a_late_request_of_an_earlier_round_does_not_end_the_current_one(step):
    """A node gets it between two steps of the next round, refuses it and goes on."""
    app = make_app()
    grid = MemoryGrid(app, NODES, faults=lose(DROP, step, 1004))
    secure, model = SecureGrid(grid, step_timeout=0.2), new_model()
    list(secure.send_and_receive(messages(grid, model)))
    held = next(one.message for one in grid.passed if one.to_node and one.node == 1004 and one.step == step)

    def repeat(at: str, node: int, count: int) -> None:
        if (at, node) == ("mask", 1004):
            assert grid._work(held, node).has_error()

    grid.faults = repeat
    assert_mean(next(iter(secure.send_and_receive(messages(grid, model)))), number(NODES))


def test_too_many_lost_and_the_strategy_keeps_its_model(said):
    """The second of three rounds is lost; training goes on after it."""
    grid = MemoryGrid(make_app(), NODES)
    grid.faults = lambda step, node, count: ERROR if (step, count) == ("unmask", 1) and node > 1002 else None
    result = flower.FedAvg(fraction_evaluate=0.0).start(
        grid=SecureGrid(grid), initial_arrays=as_record(new_model()), num_rounds=3
    )
    expected = mean(mean(new_model(), number(NODES)), number(NODES))
    for name, value in as_model(result.arrays).items():
        np.testing.assert_allclose(value, expected[name], rtol=0, atol=1e-5)
    assert set(result.train_metrics_clientapp) == {1, 3}
    assert sum("the train round is lost" in line for line in said) == 1


def test_nobody_there(said):
    grid = MemoryGrid(make_app(), NODES, faults=lambda step, node, count: ERROR)
    assert one_round(grid) is None
    assert any("0 client(s) answered" in line for line in said)


@pytest.mark.parametrize("step", STEPS[1:])
def test_a_node_without_its_state_refuses_the_rest_of_the_round(step):
    app = make_app()
    grid = MemoryGrid(app, NODES, faults=lose(RESTART, step, 1004))
    reply = one_round(grid)
    assert_mean(reply, [node for node in number(NODES) if node != 1004 or step == "unmask"])
    (refusal,) = [one for one in grid.replies(step) if one.has_error()]
    assert "was it restarted" in refusal.error.reason
    assert app.calls.count(("train", 1004)) == (1 if step == "unmask" else 0)
    assert grid.steps(1004)[-1] == step  # it is not asked any more


# What a node insists on


def envelope_of(message: Message) -> dict:
    return dict(message.content.config_records["ccesa"])


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
        ("ccesa-max-clip", 0.5, "clip = 2.0, this node allows 0.5"),
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
    with pytest.raises(ConfigError, match="different arrays to different nodes"):
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
    assert "not the one that this round was announced for" in refusal.error.reason
    assert ("train", 1004) not in app.calls


@pytest.mark.parametrize(
    ("changes", "reason"),
    [
        ({"kind": "evaluate"}, "terms of evaluate"),
        ({"bits": 64}, "terms for 64 bits"),
        ({"clients": 3}, "terms for 3 clients"),
        ({"clip": 3.0}, "not the one that this round was announced for"),
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


@pytest.mark.parametrize(
    "fields",
    [{}, {"step": 1}, {"step": "mask", "config": b"", "terms": b""}, {"other": "x"}],
)
def test_a_broken_envelope_is_refused(fields):
    app = make_app()
    grid = MemoryGrid(app, NODES)
    content = RecordDict({"arrays": as_record(new_model()), "ccesa": ConfigRecord(fields)})
    (reply,) = [app(Message(content, 1001, "train"), grid.contexts[1001])]
    assert reply.error.code == records.REFUSED
    assert app.calls == []


def test_an_unknown_step_is_refused():
    grid = MemoryGrid(make_app(), NODES)
    message = play(grid, "advertise")
    message.content["ccesa"] = ConfigRecord({**envelope_of(message), "step": "reveal"})
    assert "no step 'reveal'" in grid._work(message, 1001).error.reason


# The app's replies


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
        {"guard": "none"},
        {"guard": "active"},
        {"admission": Admission([])},
        {"clip": 0.0},
        {"clip": float("nan")},
        {"metric_clip": 0.0},
        {"metric_slots": -1},
        {"bits": 12},
        {"max_weight": 0},
        {"max_weight": float("inf")},
    ],
)
def test_nonsense_is_refused_at_once(options):
    with pytest.raises(ConfigError):
        SecureGrid(MemoryGrid(make_app(), NODES), **options)


def test_two_array_records_are_refused():
    grid = MemoryGrid(make_app(), NODES)
    content = RecordDict({"arrays": as_record(new_model()), "more": as_record(new_model())})
    with pytest.raises(ConfigError, match="2 ArrayRecords"):
        list(SecureGrid(grid).send_and_receive([Message(content, node, "train") for node in number(NODES)]))


def test_nodes_without_the_mod(said):
    """Their app is called in the first step, without a model; it does not train."""
    from flwr.clientapp import ClientApp

    app = ClientApp()

    @app.train()
    def on_train(message: Message, context: Context) -> Message:
        return Message(RecordDict({"metrics": MetricRecord({"num-examples": 1})}), reply_to=message)

    assert one_round(MemoryGrid(app, NODES)) is None
    assert sum("no answer of secure aggregation" in line for line in said) == NODES


# Nothing in clear


def secret_train(node, model):
    arrays, _ = trained(node, model)
    return arrays, {"num-examples": secret_weight(node), "loss": secret_loss(node)}


def secret_weight(node: int) -> int:
    return 314159265358 + 7919 * node


def secret_loss(node: int) -> float:
    return 314.15926535897 * node


def traces(nodes, model) -> dict[str, bytes]:
    """The nodes' own values in every form in which they could pass."""
    found = {}
    for node in nodes:
        arrays, metrics = secret_train(node, model)
        for name, value in arrays.items():
            delta = value.astype(np.float64) - model[name]
            for kind, row in (("value", value), ("delta", delta)):
                for dtype in ("<f4", ">f4", "<f8", ">f8"):
                    flat = row.astype(dtype).ravel()
                    pairs = flat.reshape(-1, 2) if dtype.endswith("4") else flat.reshape(-1, 1)
                    found |= {
                        f"{node} {name} {kind} {dtype} {i}": one.tobytes() for i, one in enumerate(pairs)
                    }
        for name, number_ in metrics.items():
            found |= {f"{node} {name} {form}": data for form, data in forms(number_).items()}
    return found


def forms(value: int | float) -> dict[str, bytes]:
    made = {
        "text": repr(value).encode(),
        "short text": f"{value:.9g}".encode(),
        "float64": struct.pack("<d", value),
        "float64, other end": struct.pack(">d", value),
    }
    if isinstance(value, int):
        made |= {
            "int64": struct.pack("<q", value),
            "int64, other end": struct.pack(">q", value),
            "varint": varint(value),
            "hex": f"{value:x}".encode(),
        }
    return made


def varint(value: int) -> bytes:
    digits = []
    while value:
        digits.append(value & 127 | (128 if value > 127 else 0))
        value >>= 7
    return bytes(digits)


def seen_in(grid, wanted: dict[str, bytes]) -> set[str]:
    data = b"\0\0\0\0".join(one.data for one in grid.passed)
    return {name for name, trace in wanted.items() if trace in data}


@pytest.mark.parametrize("lost", [None, *STEPS])
def test_nothing_of_a_node_passes_in_clear(lost):
    model = new_model()
    faults = lose(SILENT, lost, 1003) if lost else lambda *what: None
    grid = MemoryGrid(make_app(secret_train), NODES, faults=faults)
    reply = one_round(grid, model, max_weight=2.0**40, step_timeout=0.3)
    assert reply.content["metrics"]["num-examples"] > 1e12
    wanted = traces(number(NODES), model)
    assert len(wanted) > 1000
    assert seen_in(grid, wanted) == set()


def test_the_search_finds_what_passes_in_clear():
    """The same without secure aggregation."""
    model = new_model()
    grid = MemoryGrid(make_app(secret_train), NODES)
    grid.send_and_receive(messages(grid, model))
    found = seen_in(grid, traces(number(NODES), model))
    for node in number(NODES):
        assert f"{node} w value <f4 0" in found
        assert {f"{node} num-examples varint", f"{node} loss float64"} & found


def test_evaluations_do_not_pass_in_clear_either():
    def evaluate(node, model):
        return {"num-examples": secret_weight(node), "accuracy": secret_loss(node)}

    grid = MemoryGrid(make_app(evaluate=evaluate), NODES)
    one_round(grid, kind="evaluate", max_weight=2.0**40)
    wanted = {
        f"{node} {form}": data for node in number(NODES) for form, data in forms(secret_weight(node)).items()
    }
    wanted |= {
        f"{node} {form}": data for node in number(NODES) for form, data in forms(secret_loss(node)).items()
    }
    assert seen_in(grid, wanted) == set()


def test_masked_vectors_look_like_noise():
    """All nodes send the same update; what they send has nothing in common, and no small words."""

    def train(node, model):
        return model, {"num-examples": 1}

    grid = MemoryGrid(make_app(train), NODES)
    model = {"w": np.zeros(20_000, np.float32)}
    one_round(grid, model)
    replies = [one.content.config_records["ccesa"]["reply"] for one in grid.replies("mask")]
    words = np.array([np.frombuffer(one[-80_000:], "<u4") for one in replies])
    assert abs((words / 2**32).mean() - 0.5) < 0.01
    assert (words < 2**16).mean() < 1e-3
    for one, other in itertools.pairwise(words):
        assert (one == other).sum() <= 1


# The guard ``active``


@pytest.fixture
def enrolled(tmp_path):
    """Identities of NODES + 1 sites in files; the last has no node yet."""
    identities = {node: Identity.new() for node in number(NODES + 1)}
    admission = Admission(Member(f"site-{node}", one.public) for node, one in identities.items())
    (tmp_path / "admission").write_text(str(admission))
    configs = {}
    for node, one in identities.items():
        one.save(tmp_path / f"{node}.key")
        configs[node] = {
            "ccesa-identity": str(tmp_path / f"{node}.key"),
            "ccesa-admission": str(tmp_path / "admission"),
        }
    return admission, configs


def test_active_rounds_over_some_of_the_admitted(enrolled):
    admission, configs = enrolled
    grid = MemoryGrid(make_app(), NODES, node_configs=configs)
    secure, model = SecureGrid(grid, guard="active", admission=admission), new_model()
    for _ in range(2):
        (reply,) = secure.send_and_receive(messages(grid, model))
        assert_mean(reply, number(NODES))
    every = ["advertise", "share", "mask", "confirm", "unmask"]
    assert grid.steps(1001) == ["introduce", *every, *every]


@pytest.mark.parametrize("step", ["introduce", "advertise", "share", "mask", "confirm", "unmask"])
def test_active_rounds_survive_a_lost_node(step, enrolled):
    admission, configs = enrolled
    grid = MemoryGrid(make_app(), NODES, node_configs=configs, faults=lose(ERROR, step, 1004))
    reply = one_round(grid, guard="active", admission=admission)
    assert_mean(reply, [node for node in number(NODES) if node != 1004 or step in ("confirm", "unmask")])


def test_a_node_with_an_identity_refuses_curious_rounds(enrolled):
    _, configs = enrolled
    app = make_app()
    grid = MemoryGrid(app, NODES, node_configs={1002: configs[1002]})
    assert_mean(one_round(grid), [node for node in number(NODES) if node != 1002])
    (refusal,) = [one for one in grid.replies("advertise") if one.has_error()]
    assert "guard = active only" in refusal.error.reason
    assert ("train", 1002) not in app.calls


def test_nodes_without_a_proper_identity_take_no_part(enrolled, tmp_path, said):
    admission, configs = enrolled
    Identity.new().save(tmp_path / "stranger")
    configs[1002] = {}
    configs[1003] = {**configs[1003], "ccesa-identity": str(tmp_path / "stranger")}
    configs[1004] = {**configs[1004], "ccesa-identity": configs[1005]["ccesa-identity"]}
    grid = MemoryGrid(make_app(), NODES + 1, node_configs=configs)
    reply = one_round(grid, guard="active", admission=admission)
    assert_mean(reply, [1001, 1004, 1006, 1007])  # 1004 answers in the place of 1005, the same site
    for node, why in ((1002, "needs a file"), (1003, "not in the admission list"), (1005, "same identity")):
        assert any(f"node {node} takes no part" in line and why in line for line in said)


def test_another_admission_list_on_a_node(enrolled, tmp_path):
    admission, configs = enrolled
    shorter = Admission(admission.members[:-1])
    (tmp_path / "shorter").write_text(str(shorter))
    configs[1002] = {**configs[1002], "ccesa-admission": str(tmp_path / "shorter")}
    grid = MemoryGrid(make_app(), NODES, node_configs=configs)
    reply = one_round(grid, guard="active", admission=admission)
    assert_mean(reply, [node for node in number(NODES) if node != 1002])


def test_a_node_that_was_started_anew_keeps_its_place(enrolled):
    """Flower gives it another number; the identity is the same."""
    admission, configs = enrolled
    grid = MemoryGrid(make_app(), NODES, node_configs=configs)
    secure, model = SecureGrid(grid, guard="active", admission=admission), new_model()
    list(secure.send_and_receive(messages(grid, model)))
    gone = grid.contexts.pop(1003)
    grid.contexts[2003] = Context(
        run_id=1, node_id=2003, node_config=gone.node_config, state=RecordDict(), run_config={}
    )
    (reply,) = secure.send_and_receive(messages(grid, model))
    assert_mean(reply, grid.get_node_ids())


def test_terms_have_one_encoding():
    terms = Terms(
        kind="train",
        clients=5,
        clip=2.0,
        metric_clip=1e6,
        bits=32,
        max_weight=65536.0,
        weighted_by="n",
        slots=4,
    )
    assert Terms.decode(terms.encode()) == terms
    assert terms.task(new_model()) != terms.task({**new_model(), "b": new_model()["b"] + 1})
    assert terms.task(new_model()) != msgspec.structs.replace(terms, clip=1.0).task(new_model())


def test_evaluate_of_the_app_is_the_one_of_the_helper():
    assert evaluated(1001, new_model())["num-examples"] == weight_of(1001)
