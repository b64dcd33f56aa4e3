"""Who a node is: its introduction holds for this node, this challenge and this admission list alone."""

import pytest
from flwr.app import Context, Message
from hypothesis import given
from hypothesis import strategies as st

from ccesa.errors import ConfigError
from ccesa.flower import secure_mod
from ccesa.flower.members import Members, introduce
from ccesa.identity import Admission, Identity, Member
from flower_grid import MemoryGrid, make_app, number, step_of
from flower_rounds import NODES, assert_mean, enrol, one_round

IDENTITY = Identity.new()
ADMISSION = Admission([Member("a", IDENTITY.public), Member("b", Identity.new().public)])


def admitted(reply: bytes, node: int = 1, challenge: bytes = b"c" * 32) -> bool:
    members = Members(MemoryGrid(make_app(), 3), ADMISSION)
    try:
        members._meet(node, challenge, reply)
    except ConfigError:
        return False
    return True


def test_an_introduction_is_taken():
    assert admitted(introduce(IDENTITY, 1, b"c" * 32, ADMISSION.digest))


@given(
    node=st.integers(0, 2**64 - 1),
    challenge=st.binary(max_size=64),
    digest=st.one_of(st.binary(max_size=64), st.just(ADMISSION.digest)),
)
def test_an_introduction_of_anything_else_is_not(node, challenge, digest):
    """Fails if node, challenge or digest are left out of what is signed."""
    same = (node, challenge, digest) == (1, b"c" * 32, ADMISSION.digest)
    assert admitted(introduce(IDENTITY, node, challenge, digest)) == same


@pytest.mark.parametrize(
    ("node", "challenge", "digest"),
    [
        (2, b"c" * 32, ADMISSION.digest),
        (1, b"d" * 32, ADMISSION.digest),
        (1, b"c" * 32, Admission(ADMISSION.members[::-1]).digest),
        (1, b"c" * 32, b""),
    ],
)
def test_one_thing_else_is_enough(node, challenge, digest):
    assert not admitted(introduce(IDENTITY, node, challenge, digest))


@pytest.mark.parametrize("length", [0, 31, 32, 95, 97])
def test_a_reply_of_another_length_is_no_introduction(length):
    reply = introduce(IDENTITY, 1, b"c" * 32, ADMISSION.digest)
    assert not admitted((reply + bytes(8))[:length])


def test_a_node_with_another_list_is_out_before_the_round(tmp_path, said):
    admission, configs = enrol(tmp_path, NODES)
    (tmp_path / "shorter").write_text(str(Admission(admission.members[:-1])))
    configs[1002] = {**configs[1002], "ccesa-admission": str(tmp_path / "shorter")}
    grid = MemoryGrid(make_app(), NODES, node_configs=configs)
    reply = one_round(grid, guard="active", admission=admission)
    assert_mean(reply, [node for node in number(NODES) if node != 1002])
    assert grid.steps(1002) == ["introduce"]
    assert sum("node 1002" in line and "another admission list" in line for line in said) == 1


def test_nodes_that_are_turned_away_for_one_reason_are_one_line(tmp_path, said):
    """Three nodes answer with keys that nobody admitted."""
    admission, configs = enrol(tmp_path, NODES + 3)

    def strange(message: Message, context: Context, call_next) -> Message:
        reply = call_next(message, context)
        if context.node_id > 1000 + NODES and step_of(message) == "introduce":
            record = reply.content.config_records["ccesa"]
            record["reply"] = Identity.new().public + record["reply"][32:]
        return reply

    grid = MemoryGrid(make_app(outer=[strange, secure_mod]), NODES + 3, node_configs=configs)
    assert_mean(one_round(grid, guard="active", admission=admission), number(NODES))
    (line,) = [line for line in said if "not in the admission list" in line]
    assert "3 nodes (1007, 1008, 1009)" in line
