"""The guard ``active`` through Flower."""

import pytest
from flwr.app import Context, Message, RecordDict

from ccesa.flower import SecureGrid, records, secure_mod
from ccesa.identity import Admission, Identity
from flower_grid import ERROR, MemoryGrid, lose, make_app, new_model, number, step_of
from flower_rounds import NODES, assert_mean, enrol, messages, one_round


@pytest.fixture
def enrolled(tmp_path):
    """The last of these sites has no node yet."""
    return enrol(tmp_path, NODES + 1)


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


def test_a_node_with_an_identity_refuses_curious_rounds(enrolled, said):
    _, configs = enrolled
    app = make_app()
    grid = MemoryGrid(app, NODES, node_configs={1002: configs[1002]})
    assert_mean(one_round(grid), [node for node in number(NODES) if node != 1002])
    assert any("guard = active only" in line for line in said)
    assert ("train", 1002) not in app.calls


def test_a_node_with_an_identity_refuses_messages_in_clear(enrolled):
    _, configs = enrolled
    app = make_app()
    grid = MemoryGrid(app, NODES, node_configs=configs)
    for kind in ("train", "evaluate"):
        replies = grid.send_and_receive(messages(grid, new_model(), kind))
        assert len(replies) == NODES
        assert {reply.error.code for reply in replies} == {records.REFUSED}
    assert app.calls == []


@pytest.mark.parametrize("key", ["ccesa-identity", "ccesa-admission"])
def test_an_identity_and_plain_messages_do_not_go_together(key, enrolled, said):
    _, configs = enrolled
    app = make_app()
    grid = MemoryGrid(app, 1, node_configs={1001: {key: configs[1001][key], "ccesa-plain": True}})
    (reply,) = grid.send_and_receive(messages(grid, new_model()))
    assert reply.error.code == records.REFUSED
    assert any("answers nothing in clear" in line for line in said)
    assert app.calls == []


def test_nodes_without_a_proper_identity_take_no_part(enrolled, tmp_path, said):
    admission, configs = enrolled
    Identity.new().save(tmp_path / "stranger")
    configs[1002] = {}
    configs[1003] = {**configs[1003], "ccesa-identity": str(tmp_path / "stranger")}
    configs[1004] = {**configs[1004], "ccesa-identity": configs[1005]["ccesa-identity"]}
    grid = MemoryGrid(make_app(), NODES + 1, node_configs=configs)
    reply = one_round(grid, guard="active", admission=admission)
    assert_mean(reply, [1001, 1004, 1006, 1007])  # 1004 answers in the place of 1005, the same site
    for node, why in ((1002, "refuses"), (1003, "not in the admission list"), (1005, "same identity")):
        assert any(f"node {node}" in line and why in line for line in said)
    assert any("needs a file" in line for line in said)  # on node 1002


def test_nobody_takes_the_place_of_another(enrolled, said):
    """Node 1003 answers with the public key of 1004, which it does not have."""
    admission, configs = enrolled

    def pretend(message: Message, context: Context, call_next) -> Message:
        reply = call_next(message, context)
        if context.node_id == 1003 and step_of(message) == "introduce":
            record = reply.content.config_records["ccesa"]
            record["reply"] = admission.members[3].public + record["reply"][32:]
        return reply

    grid = MemoryGrid(make_app(outer=[pretend, secure_mod]), NODES, node_configs=configs)
    reply = one_round(grid, guard="active", admission=admission)
    assert_mean(reply, [node for node in number(NODES) if node != 1003])
    assert any("no part is taken by node 1003: it has not the key that it names" in line for line in said)


@pytest.mark.parametrize(
    ("own", "wanted"),
    [
        ({}, False),
        ({"ccesa-floor-survivors": 3}, False),
        ({"ccesa-floor-clients": 3, "ccesa-floor-degree": 3}, True),
    ],
)
def test_a_floor_of_a_site_leaves_the_other_floors_as_they_are(own, wanted, tmp_path):
    """4 of 12 admitted nodes are fewer than half: too few, unless a site says that they are enough."""
    admission, configs = enrol(tmp_path, 12)
    configs = {node: {**config, **own} for node, config in configs.items()}
    grid = MemoryGrid(make_app(), 4, node_configs=configs)
    reply = one_round(grid, guard="active", admission=admission)
    assert (reply is not None) == wanted


def test_a_small_bound_for_metrics_is_refused(enrolled, said):
    admission, configs = enrolled
    grid = MemoryGrid(make_app(), NODES, node_configs=configs)
    assert one_round(grid, guard="active", admission=admission, metric_clip=10.0) is None
    assert sum("floor is 1e+06" in line for line in said) == NODES


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
