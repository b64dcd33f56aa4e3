"""The guard ``active`` through Flower: rounds under a charter."""

import time

import msgspec
import numpy as np
import pytest
from flwr.app import ConfigRecord, Context, Message, RecordDict
from flwr.serverapp import strategy as flower

from ccesa.agreement.charter import Charter, Learning
from ccesa.agreement.identity import Identity
from ccesa.errors import AttemptsSpent, ConfigError
from ccesa.flower import SecureGrid, secure_mod
from ccesa.flower.both import envelope
from ccesa.flower.both.terms import ReplyTerms
from ccesa.policy import Policy
from ccesa.simulate.enrolment import NOTHING
from ccesa.values.fields import WORD_BITS
from flower_grid import (
    ERROR,
    MemoryGrid,
    as_record,
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
from flower_rounds import LEARNING, NODES, assert_mean, enrol, envelope_of, messages, one_round, with_charter


@pytest.fixture
def enrolled(tmp_path):
    """The last of these sites has no node yet."""
    return enrol(tmp_path, NODES + 1)


def test_active_rounds_over_some_of_the_members(enrolled):
    charter, configs = enrolled
    grid = MemoryGrid(make_app(), NODES, node_configs=configs)
    secure = SecureGrid(grid, charter=charter)
    for model in (new_model(), new_model(seed=6)):
        (reply,) = secure.send_and_receive(messages(grid, model))
        assert_mean(reply, number(NODES), model)
    every = ["advertise", "share", "mask", "confirm", "unmask"]
    assert grid.steps(1001) == ["introduce", *every, *every[:2], "accept", *every[2:]]


@pytest.mark.parametrize("step", ["introduce", "advertise", "share", "mask", "confirm", "unmask"])
def test_active_rounds_survive_a_lost_node(step, enrolled):
    charter, configs = enrolled
    grid = MemoryGrid(make_app(), NODES, node_configs=configs, faults=lose(ERROR, step, 1004))
    reply = one_round(grid, charter=charter)
    assert_mean(reply, [node for node in number(NODES) if node != 1004 or step in ("confirm", "unmask")])


def test_a_training_with_evaluations(enrolled, said):
    charter, configs = enrolled
    grid = MemoryGrid(make_app(), NODES, node_configs=configs)
    result = flower.FedAvg().start(
        grid=SecureGrid(grid, charter=charter), initial_arrays=as_record(new_model()), num_rounds=2
    )
    assert set(result.train_metrics_clientapp[2]) == {"loss"}
    assert set(result.evaluate_metrics_clientapp[2]) == {"accuracy", "loss"}
    assert sum("no node reports 'accuracy' as a number in a train round" in line for line in said) == 1
    assert not any("is left out" in line for line in said)


def test_nothing_but_the_charter_decides_what_a_round_is(tmp_path):
    """Graph, threshold, generator and word size are its own; terms do not travel at all."""
    learning = Learning(clip=0.125, metrics=("loss",), field_bits=21)
    agreed = {"generator": "chacha20", "learning": learning}
    charter, configs = enrol(tmp_path, NODES, **agreed)
    grid = MemoryGrid(make_app(), NODES, node_configs=configs)
    secure = SecureGrid(grid, charter=charter)
    (reply,) = secure.send_and_receive(messages(grid, new_model()))
    assert np.abs(model_in(reply)["w"] - new_model()["w"]).max() <= 0.125 + 1e-6
    assert set(reply.content["metrics"]) == {"num-examples", "loss"}
    sent = [envelope_of(one.message) for one in grid.passed if one.to_node and one.step == "advertise"]
    assert {one["terms"] for one in sent} == {b""}
    configs_sent = {charter.decode(one["config"]) for one in sent}
    assert {(one.bits, one.generator, one.clients) for one in configs_sent} == {(64, "chacha20", NODES)}


# The server's side


SETTINGS = {
    "dropout": 0.1,
    "collusion": 0.0,
    "clip": 2.0,
    "metric_clip": 1e6,
    "bits": 8,
    "precision": 1e-4,
    "max_weight": 65536.0,
    "weighted_by": "num-examples",
    "metric_slots": 16,
}


@pytest.mark.parametrize("name", SETTINGS)
def test_what_the_charter_says_is_not_said_again(name, enrolled):
    charter, configs = enrolled
    grid = MemoryGrid(make_app(), NODES, node_configs=configs)
    with pytest.raises(ConfigError, match=f"^leave out {name} beside a charter"):
        SecureGrid(grid, charter=charter, **{name: SETTINGS[name]})


def test_all_settings_that_are_too_many_are_named(enrolled):
    charter, _ = enrolled
    with pytest.raises(ConfigError, match=f"^leave out {', '.join(SETTINGS)} beside a charter"):
        SecureGrid(MemoryGrid(make_app(), NODES), charter=charter, **SETTINGS)


def test_nodes_with_a_charter_evaluate_nothing_in_clear(enrolled):
    charter, _ = enrolled
    with pytest.raises(ConfigError, match="secure_evaluate=False beside a charter"):
        SecureGrid(MemoryGrid(make_app(), NODES), charter=charter, secure_evaluate=False)


def test_a_step_leaves_no_more_nodes_behind_than_the_charter_stands(tmp_path):
    certificate = msgspec.structs.replace(NOTHING, dropout=0.2)
    charter, _ = enrol(tmp_path, NODES, certificate=certificate)
    grid = MemoryGrid(make_app(), NODES)
    SecureGrid(grid, charter=charter, policy=Policy(enough=0.8))
    with pytest.raises(ConfigError, match=r"enough = 0.7 .* dropout = 0.2"):
        SecureGrid(grid, charter=charter, policy=Policy(enough=0.7))


def test_a_charter_without_learning_is_refused(tmp_path, said):
    charter, configs = enrol(tmp_path, NODES, learning=None)
    grid = MemoryGrid(make_app(), NODES, node_configs=configs)
    with pytest.raises(ConfigError, match=r"no \[learning\] table.*ccesa plan --charter ... --learning"):
        SecureGrid(grid, charter=charter)


def test_a_charter_with_messages_that_are_none_is_refused(tmp_path):
    charter, _ = enrol(tmp_path, NODES, learning=Learning(message_types=("train", "query")))
    with pytest.raises(ConfigError, match="no messages of type 'query'"):
        SecureGrid(MemoryGrid(make_app(), NODES), charter=charter)


def test_a_message_that_the_charter_does_not_have_is_an_error(tmp_path):
    charter, configs = enrol(tmp_path, NODES, learning=Learning(message_types=("train",)))
    grid = MemoryGrid(make_app(), NODES, node_configs=configs)
    with pytest.raises(ConfigError, match=r"no messages of type 'evaluate', only of \['train'\]"):
        one_round(grid, kind="evaluate", charter=charter)
    assert grid.passed == []


def test_a_strategy_that_weights_by_something_else_is_an_error(enrolled):
    charter, configs = enrolled
    grid = MemoryGrid(make_app(), NODES, node_configs=configs)
    strategy = flower.FedAvg(weighted_by_key="loss")
    with pytest.raises(ConfigError, match="weights by 'loss', the charter by 'num-examples'"):
        strategy.start(grid=SecureGrid(grid, charter=charter), initial_arrays=as_record(new_model()))


def test_an_expired_charter_is_refused_at_once(tmp_path):
    charter, _ = enrol(tmp_path, NODES, expires=1_700_000_000)
    with pytest.raises(ConfigError, match="expired on 2023-11-14 22:13 UTC: get a new one"):
        SecureGrid(MemoryGrid(make_app(), NODES), charter=charter)


def test_a_charter_that_expires_within_a_training_ends_it(tmp_path, monkeypatch):
    charter, configs = enrol(tmp_path, NODES, expires=int(time.time()) + 1000)
    grid = MemoryGrid(make_app(), NODES, node_configs=configs)
    secure = SecureGrid(grid, charter=charter)
    assert list(secure.send_and_receive(messages(grid, new_model())))
    late = time.time() + 2000
    monkeypatch.setattr("ccesa.agreement.charter.time.time", lambda: late)
    passed = len(grid.passed)
    with pytest.raises(ConfigError, match="expired"):
        secure.send_and_receive(messages(grid, new_model()))
    assert len(grid.passed) == passed


def test_a_node_refuses_a_charter_that_has_expired(tmp_path, monkeypatch, said):
    """Whatever the server's clock says: here it stands still."""
    charter, configs = enrol(tmp_path, NODES, expires=1_700_000_000)
    monkeypatch.setattr("ccesa.flower.server.rounds.Charter.check_current", lambda charter, now=None: None)
    grid = MemoryGrid(make_app(), NODES, node_configs=configs)
    secure = SecureGrid(grid, charter=charter)
    monkeypatch.undo()
    tireless = _Tireless(**{name: getattr(charter, name) for name in charter.__struct_fields__})
    monkeypatch.setattr(secure._rounds, "agreement", tireless)
    assert list(secure.send_and_receive(messages(grid, new_model()))) == []
    assert sum("step advertise refused: the charter with serial 1 expired" in one for one in said) == NODES


class _Tireless(Charter, frozen=True, kw_only=True, dict=True):
    """A charter that does not expire, for a server that has no clock."""

    def check_current(self, now=None):
        pass


def test_fewer_nodes_than_the_least_roster_are_a_lost_round(tmp_path, said):
    """A strategy that samples fewer than F nodes gets no mean, and reads why."""
    charter, configs = enrol(tmp_path, 12, least_roster=7)
    grid = MemoryGrid(make_app(), NODES, node_configs=configs)
    assert one_round(grid, charter=charter) is None
    assert any("6 answered, the charter demands 7" in line for line in said)


def test_arrays_of_whole_numbers_that_are_no_counters_of_the_charter(tmp_path, said):
    """They are clipped like all others, and the server's log says so, once."""
    charter, configs = enrol(tmp_path, NODES, learning=Learning(counters=("batches",)))
    grid = MemoryGrid(make_app(), NODES, node_configs=configs)
    secure = SecureGrid(grid, charter=charter)
    for seed in range(2):
        counters = {"batches": np.array(3, np.int64), "batches-too": np.array(3, np.int64)}
        model = new_model(seed=seed) | counters
        (reply,) = secure.send_and_receive(messages(grid, model))
        found = model_in(reply)
        assert abs(found["batches"] - mean(model, number(NODES))["batches"]) <= secure.error_bound
        assert found["batches-too"] == pytest.approx(3 + 2.0, abs=1e-4)
    (line,) = [line for line in said if "not a counter of the charter" in line]
    assert "array 'batches-too' has whole numbers" in line
    assert "beyond clip = 2 is cut off" in line


def test_counters_that_the_model_does_not_have_cost_no_precision(tmp_path):
    charter, configs = enrol(tmp_path, NODES, learning=Learning(counters=("batches",)))
    grid = MemoryGrid(make_app(), NODES, node_configs=configs)
    secure = SecureGrid(grid, charter=charter)
    secure.send_and_receive(messages(grid, new_model()))
    assert secure.error_bound < 1e-4


# The node's side


def test_a_metric_that_is_not_in_the_charter_stays_on_the_node(enrolled, said):
    charter, configs = enrolled
    grid = MemoryGrid(make_app(), NODES, node_configs=configs)
    reply = one_round(grid, charter=charter)
    assert set(reply.content["metrics"]) == {"num-examples", "loss"}
    assert sum("metric 'per-class' is not in the charter and stays on this node" in line for line in said) == 1


def test_a_node_without_a_metric_of_the_charter_spoils_that_metric_alone(tmp_path, said):
    charter, configs = enrol(tmp_path, NODES, learning=Learning(metrics=("loss", "rare")))

    def train(node, model):
        arrays, metrics = trained(node, model)
        return arrays, metrics if node == 1003 else {**metrics, "rare": 0.5}

    reply = one_round(MemoryGrid(make_app(train), NODES, node_configs=configs), charter=charter)
    assert_mean(reply, number(NODES))
    assert set(reply.content["metrics"]) == {"num-examples", "loss"}
    assert sum("metric 'rare' is left out" in line for line in said) == 1


def test_the_weight_of_the_charter(tmp_path):
    learning = Learning(weighted_by="tokens", metrics=("num-examples", "tokens"), max_weight=1000.0)
    charter, configs = enrol(tmp_path, NODES, learning=learning)

    def train(node, model):
        arrays, metrics = trained(node, model)
        return arrays, {**metrics, "tokens": 7 * weight_of(node)}

    reply = one_round(MemoryGrid(make_app(train), NODES, node_configs=configs), charter=charter)
    capped = [min(7 * weight_of(node), 1024) for node in number(NODES)]  # the next power of two
    assert reply.content["metrics"]["tokens"] == sum(capped)
    expected = np.average([weight_of(node) for node in number(NODES)], weights=capped)
    assert reply.content["metrics"]["num-examples"] == pytest.approx(expected, abs=1e-3)


def test_a_node_with_a_charter_refuses_curious_rounds(enrolled, said):
    _, configs = enrolled
    app = make_app()
    grid = MemoryGrid(app, NODES, node_configs={1002: configs[1002]})
    assert_mean(one_round(grid), [node for node in number(NODES) if node != 1002])
    assert any("this node has a charter, and takes no other terms" in line for line in said)
    assert ("train", 1002) not in app.calls


def test_a_curious_round_without_terms_is_no_round_of_a_charter(enrolled, said):
    _, configs = enrolled
    grid = MemoryGrid(make_app(), NODES, node_configs={1002: configs[1002]})

    def leave_out(message: Message) -> None:
        if message.metadata.dst_node_id == 1002:
            message.content["ccesa"] = ConfigRecord({**envelope_of(message), "terms": b""})

    grid.tamper = leave_out
    assert_mean(one_round(grid), [node for node in number(NODES) if node != 1002])
    assert any("not a configuration under a charter" in line for line in said)


def test_a_node_without_a_charter_refuses_rounds_under_one(enrolled, said):
    charter, configs = enrolled
    grid = MemoryGrid(make_app(), NODES, node_configs=configs)
    secure = SecureGrid(grid, charter=charter)
    list(secure.send_and_receive(messages(grid, new_model())))
    grid.contexts[1002].node_config = {}
    (reply,) = secure.send_and_receive(messages(grid, new_model(seed=6)))
    assert_mean(reply, [node for node in number(NODES) if node != 1002], new_model(seed=6))
    assert any("step advertise refused: a configuration under a charter" in line for line in said)


def test_a_node_with_a_charter_refuses_messages_in_clear(enrolled, said):
    _, configs = enrolled
    app = make_app()
    grid = MemoryGrid(app, NODES, node_configs=configs)
    for kind in ("train", "evaluate"):
        replies = grid.send_and_receive(messages(grid, new_model(), kind))
        assert len(replies) == NODES
        assert {reply.error.code for reply in replies} == {envelope.REFUSED}
    assert app.calls == []
    assert not any("ccesa-plain" in line for line in said)  # it would not allow it


@pytest.mark.parametrize("key", ["ccesa-identity", "ccesa-charter"])
def test_identity_and_charter_go_together(key, enrolled, said):
    _, configs = enrolled
    app = make_app()
    grid = MemoryGrid(app, 1, node_configs={1001: {key: configs[1001][key]}})
    (reply,) = grid.send_and_receive(messages(grid, new_model()))
    assert reply.error.code == envelope.REFUSED
    assert any("ccesa-charter and ccesa-identity go together" in line for line in said)
    assert app.calls == []


@pytest.mark.parametrize(
    ("own", "named"),
    [
        ({"ccesa-plain": True}, "ccesa-plain"),
        ({"ccesa-plain": False}, "ccesa-plain"),
        ({"ccesa-floor-clients": 3}, "ccesa-floor-clients"),
        ({"ccesa-floor-metric_clip": 3.0}, "ccesa-floor-metric_clip"),
        ({"ccesa-weighted-by": "num-examples"}, "ccesa-weighted-by"),
        ({"ccesa-message-types": "train"}, "ccesa-message-types"),
        ({"ccesa-max-clip": 4.0}, "ccesa-max-clip"),
        ({"ccesa-max-counter-clip": 4.0}, "ccesa-max-counter-clip"),
        ({"ccesa-attempts": 2}, "ccesa-attempts"),
        ({"ccesa-attempts": 2, "ccesa-plain": True}, "ccesa-attempts, ccesa-plain"),
    ],
)
def test_a_site_says_nothing_that_the_charter_says(own, named, enrolled, said):
    charter, configs = enrolled
    configs[1002] = {**configs[1002], **own}
    app = make_app()
    grid = MemoryGrid(app, NODES, node_configs=configs)
    reply = one_round(grid, charter=charter)
    assert_mean(reply, [node for node in number(NODES) if node != 1002])
    assert any(f"leave out {named} beside ccesa-charter" in line and "nothing in the clear" in line for line in said)
    assert ("train", 1002) not in app.calls


def test_what_a_charter_leaves_to_its_sites(enrolled, tmp_path):
    charter, configs = enrolled
    configs[1002] |= {"ccesa-memory": str(tmp_path / "memory"), "ccesa-forget-after": 60.0, "site": "a"}
    configs[1003] |= {"ccesa-threads": 1}
    grid = MemoryGrid(make_app(), NODES, node_configs=configs)
    assert_mean(one_round(grid, charter=charter), number(NODES))
    assert len(list((tmp_path / "memory").glob("vector-*"))) == 1


@pytest.mark.parametrize("releases", [1, 2])
def test_a_node_releases_shares_for_a_model_as_often_as_the_charter_says(releases, tmp_path, said):
    charter, configs = enrol(tmp_path, NODES, attempts=3, releases=releases)
    app = make_app()
    grid = MemoryGrid(app, NODES, node_configs=configs)
    secure = SecureGrid(grid, charter=charter)
    for _ in range(releases):
        assert_mean(next(iter(secure.send_and_receive(messages(grid, new_model())))), number(NODES))
    with pytest.raises(AttemptsSpent, match="until it has released shares for it"):
        secure.send_and_receive(messages(grid, new_model()))
    assert app.calls.count(("train", 1001)) == releases
    assert any(f"released its shares for this task {releases} time(s)" in line for line in said)


def test_nodes_without_a_proper_identity_take_no_part(enrolled, tmp_path, said):
    charter, configs = enrolled
    Identity.new().save(tmp_path / "stranger")
    configs[1002] = {}
    configs[1003] = {**configs[1003], "ccesa-identity": str(tmp_path / "stranger")}
    configs[1004] = {**configs[1004], "ccesa-identity": configs[1005]["ccesa-identity"]}
    grid = MemoryGrid(make_app(), NODES + 1, node_configs=configs)
    reply = one_round(grid, charter=charter)
    assert_mean(reply, [1001, 1004, 1006, 1007])  # 1004 answers in the place of 1005, the same site
    for node, why in ((1002, "refuses"), (1003, "not among the members"), (1005, "same identity")):
        assert any(f"node {node}" in line and why in line for line in said)
    assert any("in this node's configuration must name a file" in line for line in said)  # on node 1002


def test_nobody_takes_the_place_of_another(enrolled, said):
    """Node 1003 answers with the public key of 1004, which it does not have."""
    charter, configs = enrolled

    def pretend(message: Message, context: Context, call_next) -> Message:
        reply = call_next(message, context)
        if context.node_id == 1003 and step_of(message) == "introduce":
            record = reply.content.config_records["ccesa"]
            record["reply"] = charter.members[3].key + record["reply"][32:]
        return reply

    grid = MemoryGrid(make_app(outer=[pretend, secure_mod]), NODES, node_configs=configs)
    reply = one_round(grid, charter=charter)
    assert_mean(reply, [node for node in number(NODES) if node != 1003])
    assert any("refused node 1003: its signature is wrong" in line for line in said)


OTHERS = {
    "attempts": {"attempts": 1},
    "serial": {"serial": 2},
    "learning": {"learning": Learning(clip=4.0)},
    "least roster": {"least_roster": 4},
}


@pytest.mark.parametrize("name", OTHERS)
def test_another_charter_on_a_node(name, enrolled, tmp_path):
    charter, configs = enrolled
    other = msgspec.structs.replace(charter, **OTHERS[name])
    configs = with_charter(configs, 1002, other, tmp_path / "other.toml")
    reply = one_round(MemoryGrid(make_app(), NODES, node_configs=configs), charter=charter)
    assert_mean(reply, [node for node in number(NODES) if node != 1002])


def test_a_node_that_gets_another_charter_within_a_training_refuses_the_old_one(enrolled, tmp_path, said):
    """It has introduced itself before: the configuration alone shows it."""
    charter, configs = enrolled
    grid = MemoryGrid(make_app(), NODES, node_configs=configs)
    secure = SecureGrid(grid, charter=charter)
    secure.send_and_receive(messages(grid, new_model()))
    newer = with_charter(configs, 1002, msgspec.structs.replace(charter, serial=2), tmp_path / "newer.toml")
    grid.contexts[1002].node_config = newer[1002]
    (reply,) = secure.send_and_receive(messages(grid, new_model(seed=6)))
    assert_mean(reply, [node for node in number(NODES) if node != 1002], new_model(seed=6))
    assert any("the round is for another charter" in line for line in said)


def test_a_node_that_was_started_anew_keeps_its_place(enrolled):
    """Flower gives it another number; the identity is the same."""
    charter, configs = enrolled
    grid = MemoryGrid(make_app(), NODES, node_configs=configs)
    secure, model = SecureGrid(grid, charter=charter), new_model(seed=6)
    list(secure.send_and_receive(messages(grid, new_model())))
    gone = grid.contexts.pop(1003)
    grid.contexts[2003] = Context(
        run_id=1, node_id=2003, node_config=gone.node_config, state=RecordDict(), run_config={}
    )
    (reply,) = secure.send_and_receive(messages(grid, model))
    assert_mean(reply, grid.get_node_ids(), model)


def test_terms_of_a_charter(enrolled):
    """A metric that replies are weighted by is the weight, and no metric."""
    charter, _ = enrolled
    assert ReplyTerms.under(charter, "train").metrics == ["=accuracy", "=loss"]
    learning = msgspec.structs.replace(LEARNING, metrics=("z", "num-examples", "a"), max_weight=100.0)
    terms = ReplyTerms.under(msgspec.structs.replace(charter, learning=learning), "evaluate")
    assert (terms.metrics, terms.metric_slots, terms.max_weight) == (["=a", "=z"], 2, 128.0)
    assert (terms.clients, WORD_BITS, terms.field_bits) == (NODES + 1, charter.bits, learning.field_bits)
