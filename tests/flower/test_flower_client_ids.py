"""Who a node is: its introduction holds for this node, this challenge and this charter alone."""

import msgspec
import pytest
from flwr.app import Context, Message
from hypothesis import given
from hypothesis import strategies as st

from ccesa.errors import ConfigError
from ccesa.flower import secure_mod
from ccesa.flower.both.introduction import client_of, introduce
from ccesa.identity import Identity
from ccesa.simulate.enrolment import chartered
from flower_grid import MemoryGrid, make_app, number, step_of
from flower_rounds import NODES, assert_mean, enrol, one_round, with_charter

IDENTITY = Identity.new()
IDENTITIES = [IDENTITY, Identity.new(), Identity.new()]
CHARTER = chartered(IDENTITIES)


def admitted(reply: bytes, node: int = 1, challenge: bytes = b"c" * 32) -> bool:
    try:
        assert client_of(CHARTER, node, challenge, reply) == 0
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
        (1, b"c" * 32, chartered(IDENTITIES[::-1]).digest),
        (1, b"c" * 32, chartered(IDENTITIES, attempts=1).digest),
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
