"""Who a node is: its introduction holds for this node, this challenge and this charter alone."""

import msgspec
import pytest
from flwr.app import Context, Message
from hypothesis import given
from hypothesis import strategies as st

from ccesa.agreement.identity import Identity
from ccesa.errors import ConfigError
from ccesa.flower import SecureGrid, secure_mod
from ccesa.flower.both.envelope import ids_of, introduce
from ccesa.simulate.enrolment import make_charter
from flower_grid import DROP, MemoryGrid, make_app, new_model, number, step_of
from flower_rounds import NODES, assert_mean, enrol, messages, one_round, with_charter

IDENTITY = Identity.new()
IDENTITIES = [IDENTITY, Identity.new(), Identity.new()]
CHARTER = make_charter(IDENTITIES)


def admitted(reply: bytes, node: int = 1, challenge: bytes = b"c" * 32) -> bool:
    try:
        assert ids_of(CHARTER, node, challenge, reply) == (0,)
    except ConfigError:
        return False
    return True


def test_an_introduction_is_taken():
    assert admitted(introduce(IDENTITY, 1, b"c" * 32, CHARTER.digest))


@given(
    node=st.integers(0, 2**64 - 1),
    challenge=st.binary(max_size=64),
    digest=st.one_of(st.binary(max_size=64), st.just(CHARTER.digest)),
)
def test_an_introduction_of_anything_else_is_not(node, challenge, digest):
    """Fails if node, challenge or digest are left out of what is signed."""
    same = (node, challenge, digest) == (1, b"c" * 32, CHARTER.digest)
    assert admitted(introduce(IDENTITY, node, challenge, digest)) == same


@pytest.mark.parametrize(
    ("node", "challenge", "digest"),
    [
        (2, b"c" * 32, CHARTER.digest),
        (1, b"d" * 32, CHARTER.digest),
        (1, b"c" * 32, make_charter(IDENTITIES[::-1]).digest),
        (1, b"c" * 32, make_charter(IDENTITIES, attempts=1).digest),
        (1, b"c" * 32, b""),
    ],
    ids=["another node", "another challenge", "another order", "another charter", "no charter"],
)
def test_one_thing_else_is_enough(node, challenge, digest):
    assert not admitted(introduce(IDENTITY, node, challenge, digest))


@pytest.mark.parametrize("length", [0, 31, 32, 95, 97])
def test_a_reply_of_another_length_is_no_introduction(length):
    reply = introduce(IDENTITY, 1, b"c" * 32, CHARTER.digest)
    assert not admitted((reply + bytes(8))[:length])


def test_a_node_with_another_charter_is_out_before_the_round(tmp_path, said):
    charter, configs = enrol(tmp_path, NODES)
    other = msgspec.structs.replace(charter, serial=charter.serial + 1)
    configs = with_charter(configs, 1002, other, tmp_path / "newer.toml")
    grid = MemoryGrid(make_app(), NODES, node_configs=configs)
    reply = one_round(grid, charter=charter)
    assert_mean(reply, [node for node in number(NODES) if node != 1002])
    assert grid.steps(1002) == ["introduce"]
    assert sum("node 1002" in line and "another charter" in line for line in said) == 1


def test_nodes_that_are_turned_away_for_one_reason_are_one_line(tmp_path, said):
    """Three nodes answer with keys that nobody admitted."""
    charter, configs = enrol(tmp_path, NODES + 3)

    def strange(message: Message, context: Context, call_next) -> Message:
        reply = call_next(message, context)
        if context.node_id > 1000 + NODES and step_of(message) == "introduce":
            record = reply.content.config_records["ccesa"]
            record["reply"] = Identity.new().public + record["reply"][32:]
        return reply

    grid = MemoryGrid(make_app(outer=[strange, secure_mod]), NODES + 3, node_configs=configs)
    assert_mean(one_round(grid, charter=charter), number(NODES))
    (line,) = [line for line in said if "not among the members" in line]
    assert "3 nodes (1007, 1008, 1009)" in line


def restarted(tmp_path, faults=lambda step, node, count: None):
    """Six sites, and a seventh node with the identity of 1002: its SuperNode was started again."""
    charter, configs = enrol(tmp_path, NODES)
    configs[1001 + NODES] = {**configs[1002], "ccesa-memory": str(tmp_path / "again")}
    return charter, MemoryGrid(make_app(), NODES + 1, node_configs=configs, faults=faults)


def ask(secure, grid, nodes, gone=(), training=0):
    """One more round of a training, whose model changes; those that are gone are asked and do not count."""
    model = {name: value + training for name, value in new_model().items()}
    every = [one for one in messages(grid, model) if one.metadata.dst_node_id in nodes]
    [reply] = secure.send_and_receive(every, timeout=3600.0)
    assert_mean(reply, [node for node in nodes if node not in gone], model)


def test_a_node_that_was_started_again_takes_the_place_of_its_dead_former_self(tmp_path, said):
    """Flower takes a dead node for online until its heartbeat has been missing for a while."""
    dead = set()
    charter, grid = restarted(tmp_path, lambda step, node, count: DROP if node in dead else None)
    secure, old, new = SecureGrid(grid, charter=charter), number(NODES), 1001 + NODES
    ask(secure, grid, old)
    dead.add(1002)
    ask(secure, grid, [*old, new], gone=dead, training=1)
    assert any(f"node {new} takes the place of node 1002" in line for line in said)
    before = len(grid.steps(1002))
    ask(secure, grid, [*old, new], gone=dead, training=2)
    assert len(grid.steps(1002)) == before  # nobody waits for the dead one


def test_of_two_nodes_that_both_answer_the_later_one_keeps_the_place(tmp_path, said):
    """They do not take turns: the one that gave its place up is not asked again while the other is there."""
    charter, grid = restarted(tmp_path)
    secure, old, new = SecureGrid(grid, charter=charter), number(NODES), 1001 + NODES
    ask(secure, grid, old)
    for training in range(1, 4):
        ask(secure, grid, [*old, new], gone={1002}, training=training)
    assert grid.steps(1002).count("introduce") == 1
    assert grid.steps(new).count("introduce") == 1
    assert sum("takes the place" in line for line in said) == 1


def test_the_former_node_is_asked_again_when_its_successor_is_gone(tmp_path):
    charter, grid = restarted(tmp_path)
    secure, old, new = SecureGrid(grid, charter=charter), number(NODES), 1001 + NODES
    ask(secure, grid, old)
    ask(secure, grid, [*old, new], gone={1002}, training=1)
    del grid.contexts[new]
    ask(secure, grid, old, training=2)
    assert grid.steps(1002).count("introduce") == 2
